"""SHOW TAGS, BRANCHES, SAVEPOINTS and SNAPSHOTS: what a branch of a table has, in brief."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.sql.refs.statements import Refs, ShowRefs
from paimon_spark.sql.session import Session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.api.table import Table


def show_refs(session: Session, table: Table, statement: ShowRefs) -> DataFrame:
    """The refs, by name or id; the system table of the same name tells more of them."""
    match statement.what:
        case Refs.TAGS:  # as Paimon's ShowTagsExec
            return session.rows("tag STRING NOT NULL", [(name,) for name in sorted(t.name for t in table.tags())])
        case Refs.BRANCHES:
            branches = [(b.name, b.created_from_tag, b.created_from_snapshot_id) for b in table.branches()]
            return session.rows("branch STRING NOT NULL, tag STRING, snapshot_id BIGINT", branches)
        case Refs.SAVEPOINTS:
            return session.rows("savepoint_id BIGINT NOT NULL", [(s.id,) for s in table.savepoints()])
    snapshots = [(s.id, s.commit_kind.value, s.commit_user, s.total_record_count) for s in table.snapshots()]
    return session.rows(
        "snapshot_id BIGINT NOT NULL, commit_kind STRING, commit_user STRING, record_count BIGINT", snapshots
    )
