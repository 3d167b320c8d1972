"""CALL sys.… by catalog.sql: what procedures do is told by Spark's rows."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from paimon_spark.errors import InvalidInputError, ProcedureNotFoundError, UnsupportedFeatureError
from tests.harness.doors import Door, refused

pytestmark = [pytest.mark.spark, pytest.mark.newest]


@pytest.mark.quick
def test_procedures_are_called_with_arguments_of_all_forms_and_answer_with_rows(
    spark: SparkSession, tmp_path: Path, door: Door
) -> None:
    catalog = door.load_catalog(str(tmp_path))
    for database in ("db", "default"):
        catalog.create_database(database)
    table = catalog.create_table("db.t", "id INT NOT NULL, v STRING", primary_keys=["id"], options={"bucket": "1"})

    def call(text: str, args: Any = None) -> tuple[dict[str, str], list[tuple[Any, ...]]]:
        frame = catalog.sql(f"CALL {text}", args=args, session=spark)
        return dict(frame.dtypes), [tuple(row) for row in frame.collect()]

    for n in (1, 2, 3):
        table.write(pa.table({"id": pa.array([n], pa.int32()), "v": [f"v{n}"]}))
    done = {"result": "boolean"}, [(True,)]
    assert call("sys.create_tag('db.t', 'a', 1)") == done
    assert call("sys.create_tag(table => 'db.t', tag => 'it''s', snapshot => 1 + 1)") == done
    assert call("paimon.SYS.Create_Tag(`table` => :t, tag => concat('b', 'c'))", {"t": "db.t"}) == done
    assert call("sys.rename_tag(?, 'bc', 'c')", ["db.t"]) == done
    assert {t.name: t.snapshot.id for t in table.tags()} == {"a": 1, "it's": 2, "c": 3}
    heads = {"previous_snapshot_id": "bigint", "current_snapshot_id": "bigint"}
    assert call("sys.rollback('db.t', 'it''s')") == (heads, [(3, 2)])
    assert call("sys.create_branch('db.t', 'fix', 'a', ignore_if_exists => true)") == done
    table.branch("fix").write(pa.table({"id": pa.array([9], pa.int32()), "v": ["é"]}))
    types, ((result, head, discarded, backup, already, *_),) = call("sys.merge_branch('db.t', 'fix')")
    assert types == {
        "result": "boolean", "published_snapshot_id": "bigint", "discarded_snapshots": "int",
        "backup_branch": "string", "already_merged": "boolean",
        "rows_lost": "bigint", "rows_gained": "bigint", "rows_by_partition": "string",
    }  # fmt: skip
    assert (result, head, discarded, already) == (True, table.snapshots()[-1].id, 1, False)
    assert [tuple(r) for r in catalog.sql("SELECT id FROM db.t ORDER BY id", session=spark).collect()] == [(1,), (9,)]
    assert call(f"sys.delete_branch('db.t', '{backup}')") == done
    assert call("sys.compact(table => 'db.t', compact_strategy => 'full')") == done
    types, kept = call(
        "sys.expire_snapshots('db.t', retain_max => NULL, older_than => TIMESTAMP '2000-01-01 00:00:00')"
    )
    told = {"deleted_snapshots_count": "int", "older_than": "timestamp"}
    assert (types, kept) == (told, [(0, datetime(2000, 1, 1))])
    types, findings = call("sys.doctor('db.t')")
    assert (list(types.values()), findings) == ([*["string"] * 5, "boolean"], [])
    types, orphans = call("sys.remove_orphan_files('db.t', dry_run => true)")
    assert (list(types.values()), orphans) == (["bigint", "bigint"], [(0, 0)])

    before = [s.id for s in table.snapshots()], sorted(t.name for t in table.tags())
    for wrong, error, message in (
        ("sys.create_tag('db.t')", InvalidInputError, "tag"),
        ("sys.create_tag('db.t', name => 'x')", InvalidInputError, "name"),
        ("sys.creat_tag('db.t', 'x')", ProcedureNotFoundError, "create_tag"),
        ("sys.repair('db.t')", UnsupportedFeatureError, "repair"),
    ):
        with refused(catalog, error, match=message):
            call(wrong)
    assert before == ([s.id for s in table.snapshots()], sorted(t.name for t in table.tags()))
