"""append_branch: new files of one branch on another, and all that makes it refuse. Cases as Java's of merging."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.api.table import Table
from paimon_spark.errors import (
    BranchNotFoundError,
    InvalidInputError,
    PaimonError,
    SnapshotExpiredError,
    UnsupportedFeatureError,
)
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.snapshots import latest_snapshot
from tests.harness.real_tables import a_table, put, read

SCHEMA = pa.schema([pa.field("k", pa.int32()), pa.field("v", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two snapshots, and a branch `fix` of the first with one more."""
    made = a_table("k INT, v STRING")
    put(made, (1, "v1"))
    put(made, (2, "v2"))
    made.create_branch("fix", snapshot_id=1)
    put(made.branch("fix"), (10, "v10"), (11, "v11"))
    return made


def refused(table: Table, error: type[PaimonError], text: str, source: str = "fix", target: str = "main") -> None:
    before = {
        name: table.branch(name).snapshots()
        for name in ["main", *(b.name for b in table.branches(include_internal=True))]
    }
    with pytest.raises(error, match=text):
        table.append_branch(source, target=target)
    assert {name: table.branch(name).snapshots() for name in before} == before


def test_new_files_are_added_in_one_snapshot(table: Table) -> None:
    done = table.append_branch("fix")
    assert (done.source, done.target, done.snapshot_id, done.data_files, done.record_count) == ("fix", "main", 3, 1, 2)
    assert done.bytes > 0
    assert read(table, "k") == [1, 2, 10, 11]
    head = latest_snapshot(table.handle)
    assert head is not None
    assert (head.commit_kind, head.commit_identifier, head.delta_record_count) == (CommitKind.APPEND, 0, 2)
    assert read(table.branch("fix"), "k") == [1, 10, 11], "the source stays as it was"


def test_only_what_is_missing_is_added_again(table: Table) -> None:
    table.append_branch("fix")
    put(table.branch("fix"), (12, "v12"))
    put(table, (3, "v3"))
    assert table.append_branch("fix").record_count == 1
    assert read(table, "k") == [1, 2, 3, 10, 11, 12]
    done = table.append_branch("fix")
    assert (done.snapshot_id, done.data_files) == (None, 0)
    assert len(table.snapshots()) == 5


def test_both_ways_and_between_branches(table: Table) -> None:
    table.append_branch("fix", target="main")
    table.append_branch("main", target="fix")
    assert read(table.branch("fix"), "k") == read(table, "k") == [1, 2, 10, 11]
    table.create_branch("other", snapshot_id=1)
    put(table.branch("other"), (20, "v20"))
    table.append_branch("other", target="fix")
    assert read(table.branch("fix"), "k") == [1, 2, 10, 11, 20]


def test_files_outlive_their_branch(table: Table) -> None:
    table.append_branch("fix")
    table.delete_branch("fix")
    assert read(table, "k") == [1, 2, 10, 11]


def test_branches_that_share_nothing_are_appended_whole(tmp_path: Path) -> None:
    table = a_table("k INT, v STRING")
    table.create_branch("blank", empty=True)
    put(table.branch("blank"), (5, "v5"))
    put(table, (1, "v1"))
    table.append_branch("blank")
    assert read(table, "k") == [1, 5]


def test_what_happened_before_the_branches_parted_is_no_matter(tmp_path: Path) -> None:
    """Paimon, which does not know where they parted, asks for appends alone from snapshot 1 on."""
    table = a_table("k INT, v STRING")
    put(table, (1, "v1"))
    put(table, (2, "v2"), mode="overwrite")
    table.create_branch("fix", snapshot_id=2)
    table.handle.store.delete(table.handle.layout.snapshot_path(1))
    put(table.branch("fix"), (3, "v3"))
    table.append_branch("fix")
    assert read(table, "k") == [2, 3]


def test_row_ids_are_given_anew(tmp_path: Path) -> None:
    table = a_table("k INT, v STRING", options={"row-tracking.enabled": "true"})
    put(table, (1, "v1"))
    table.create_branch("fix", snapshot_id=1)
    put(table, (2, "v2"), (3, "v3"))
    put(table.branch("fix"), (4, "v4"))
    table.append_branch("fix")
    head = latest_snapshot(table.handle)
    assert head is not None
    entries = live_entries(table.handle, data_manifests(table.handle, head))
    ids = sorted(zip(entries.column("first_row_id").to_pylist(), entries.column("row_count").to_pylist(), strict=True))
    assert ids == [(0, 1), (1, 2), (3, 1)]
    assert head.next_row_id == 4


def test_partitions_and_buckets_stay(tmp_path: Path) -> None:
    table = a_table("k INT, v STRING", by="v", options={"bucket": "2", "bucket-key": "k"})
    put(table, (1, "v1"), (2, "v2"), (3, "v3"))
    table.create_branch("fix", snapshot_id=1)
    put(table.branch("fix"), (2, "v2"), (3, "v3"), (4, "v4"), (5, "v5"))
    assert table.append_branch("fix").record_count == 4
    assert read(table, "k") == [1, 2, 2, 3, 3, 4, 5]
    assert table.scan(where="v = 'v4'").to_arrow().column("k").to_pylist() == [4]


# What is refused.


def test_branches_that_are_not_there(table: Table) -> None:
    refused(table, BranchNotFoundError, "table db.t has no branch 'fixx'; did you mean 'fix'", "fixx")
    refused(table, BranchNotFoundError, "table db.t has no branch 'mian'", "fix", "mian")
    refused(table, BranchNotFoundError, "table db.t has no branch ''", "")
    refused(table, InvalidInputError, "branch 'fix' of table db.t cannot be appended to itself", "fix", "fix")
    refused(table, InvalidInputError, "branch 'main' of table db.t cannot be appended to itself", "main")


def test_empty_branches(tmp_path: Path) -> None:
    table = a_table("k INT, v STRING")
    table.create_branch("blank", empty=True)
    refused(table, InvalidInputError, "branch 'blank' of table db.t has no snapshot; there is nothing to", "blank")
    put(table.branch("blank"), (1, "v1"))
    refused(table, InvalidInputError, "table db.t has no snapshot; use fast_forward, or write to it first", "blank")


def test_tables_with_keys(tmp_path: Path) -> None:
    table = a_table("k INT, v STRING", keys="k", options={"bucket": "1"})
    put(table, (1, "v1"))
    table.create_branch("fix", snapshot_id=1)
    refused(table, UnsupportedFeatureError, "'fix' of table db.t has primary keys: .* published with merge_branch")


def test_data_evolution(tmp_path: Path) -> None:
    table = a_table("k INT, v STRING", options={"row-tracking.enabled": "true", "data-evolution.enabled": "true"})
    put(table, (1, "v1"))
    table.create_branch("fix", snapshot_id=1)
    refused(table, UnsupportedFeatureError, "'fix' of table db.t has data-evolution.enabled")


def test_columns_that_differ(table: Table) -> None:
    table.branch("fix").alter(add={"w": "INT"})
    refused(table, InvalidInputError, r"'fix' of table db.t cannot be appended to 'main': the columns of the first are")


def test_schemas_that_were_altered_apart(table: Table) -> None:
    table.branch("fix").alter(set_options={"write-only": "true"})
    put(table.branch("fix"), (12, "v12"))
    refused(table, InvalidInputError, "files of the first have schema 1, which the second lacks")
    table.alter(set_options={"snapshot.num-retained.max": "99"})
    refused(table, InvalidInputError, "schema 1 is not the same on both, as they were altered apart")


@pytest.mark.parametrize("branch", ["fix", "main"])
def test_more_than_appends(table: Table, branch: str) -> None:
    put(table.branch(branch), (99, "v99"), mode="overwrite")
    on = "branch 'fix' of table db.t" if branch == "fix" else "table db.t"
    refused(table, InvalidInputError, f"snapshot 3 of {on} is of kind OVERWRITE. Only appends may have happened")


def test_history_that_expired(table: Table) -> None:
    put(table.branch("fix"), (12, "v12"))
    fix = table.branch("fix").handle
    fix.store.delete(fix.layout.snapshot_path(2))
    refused(table, SnapshotExpiredError, "snapshot 2 of branch 'fix' of table db.t has expired, so it is unknown")


def test_a_commit_that_fails_leaves_both_as_they_were(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    from paimon_spark.engine.commit import committer
    from paimon_spark.errors import CommitConflictError

    def fail(*_: Any, **__: Any) -> Any:
        raise CommitConflictError("others were there")

    monkeypatch.setattr(committer, "make_snapshot", fail)
    refused(table, CommitConflictError, "others were there")
    monkeypatch.undo()
    table.append_branch("fix")
    assert read(table, "k") == [1, 2, 10, 11]
