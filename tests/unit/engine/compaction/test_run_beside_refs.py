"""A compaction beside operations that give its branch another history, or take it away: clean, and nothing left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.engine.compaction import run
from paimon_spark.engine.compaction.run import Runner, compact_branch, run_here
from paimon_spark.engine.compaction.task import BucketTask
from paimon_spark.engine.tasks import CommitMessage
from paimon_spark.errors import BranchNotFoundError, PaimonError
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.jobs.write.batch import place_of, plan_write
from paimon_spark.metadata.definition.create import create_table
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.options.write_request import WriteMode, parse_batch_write_options
from paimon_spark.storage.local import LocalStore
from tests.harness.fault_store import MUTATING, Fault, FaultStore
from tests.harness.real_tables import a_table, read
from tests.unit.versioning.publishing import in_order

COLUMNS = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
KINDS: Mapping[str, tuple[Mapping[str, str], Sequence[str]]] = {
    "keys": ({"bucket": "2"}, ("k",)),
    "lookup": ({"bucket": "1", "changelog-producer": "lookup"}, ("k",)),
    "vectors": ({"bucket": "1", "deletion-vectors.enabled": "true"}, ("k",)),
    "no_keys": ({}, ()),
}

MERGED = [(k, "base" if k < 5 else "fix 2") for k in range(12)]
"""The rows of branch `fix`."""


def data(ids: Sequence[int], v: str) -> pa.Table:
    return pa.table({"k": ids, "v": [v] * len(ids)}, schema=COLUMNS)


def two_branches(folder: Path, options: Mapping[str, str], keys: Sequence[str]) -> Table:
    """Three snapshots of main; branch `fix` has left it after the first, and has two of its own."""
    made = a_table(COLUMNS, keys=keys, options={**options, "write-only": "true"}, where=folder)
    made.write(data(range(6), "base"))
    made.create_branch("fix", snapshot_id=1)
    for v in ("main 1", "main 2"):
        made.write(data(range(3, 9), v))
    for v in ("fix 1", "fix 2"):
        made.branch("fix").write(data(range(5, 12), v))
    return made


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    """Of each kind."""
    return two_branches(tmp_path, *KINDS[request.param])


def beside(others: Callable[[], object], *, first: bool) -> Runner:
    """A runner during which others do something once, before the tasks read or after they wrote."""
    done: list[bool] = []

    def once() -> None:
        if not done:
            done.append(True)
            others()

    def runner(
        handle: TableHandle, snapshot: Snapshot, tasks: Sequence[BucketTask], user: str
    ) -> Sequence[CommitMessage | None]:
        if first:
            once()
        messages = run_here(handle, snapshot, tasks, user)
        once()
        return messages

    return runner


def merged(table: Table) -> None:
    table.merge_branch("fix", backup=False, if_main_moved="replace")


def merged_and_kept(table: Table) -> None:
    table.merge_branch("fix", if_main_moved="replace")


def rolled_back(table: Table) -> None:
    """Back, and on: ids are used again."""
    table.rollback_to(1)
    for v in ("fix 1", "fix 2"):
        table.write(data(range(5, 12), v))


def replaced(table: Table) -> None:
    table.replace_main("fix")


@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("meanwhile", [merged, merged_and_kept, rolled_back, replaced])
def test_another_history_is_compacted_as_it_is(table: Table, meanwhile: Callable[[Table], None], first: bool) -> None:
    expected = MERGED if table.schema.primary_keys else read(table.branch("fix"))
    result = compact_branch(table.handle, full=True, runner=beside(lambda: meanwhile(table), first=first))
    assert result.snapshot is not None and result.snapshot.commit_kind is CommitKind.COMPACT
    assert read(table) == expected
    in_order(table)
    assert paimon_spark.load_table(table.handle.layout.root).compact(full=True).snapshot_ids == ()


@pytest.mark.parametrize("meanwhile", [merged, merged_and_kept, rolled_back])
def test_rows_that_wait_are_settled_in_the_history_that_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[Table], None]
) -> None:
    table = two_branches(tmp_path, {"bucket": "-2"}, ("k",))
    wait, done = run._messages, list[bool]()

    def slowly(*arguments: Any) -> Any:
        messages = wait(*arguments)
        if not done:
            done.append(True)
            meanwhile(table)
        return messages

    monkeypatch.setattr(run, "_messages", slowly)
    table.compact()
    assert read(table) == MERGED
    in_order(table)


def test_a_branch_deleted_under_its_compaction_stays_away(table: Table) -> None:
    fix = table.branch("fix")
    expected = read(table)
    with pytest.raises(BranchNotFoundError, match="'fix'"):
        compact_branch(fix.handle, full=True, runner=beside(lambda: table.delete_branch("fix"), first=False))
    assert table.branches() == []
    assert read(table) == expected
    in_order(table)
    table.create_branch("fix", empty=True)


def test_a_compaction_after_a_write_is_left_when_the_branch_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write was done before: it does not fail."""
    path = str(tmp_path / "t")
    options = {"bucket": "1", "full-compaction.delta-commits": "1"}
    create_table(LocalStore(), path, row_type(COLUMNS), ("k",), options=options)
    main = paimon_spark.load_table(path)
    main.write(data(range(3), "a"))
    main.create_branch("fix", empty=True)
    fix = main.branch("fix")
    asked = parse_batch_write_options({}, WriteMode.APPEND)
    job = plan_write(place_of(fix, asked), asked, WriteMode.APPEND, COLUMNS)
    messages = job.write(data(range(3), "b").to_batches())
    run_task = run.run_task

    def runs(*arguments: object) -> object:
        paimon_spark.load_table(path).delete_branch("fix")
        return run_task(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(run, "run_task", runs)
    assert len(job.commit(messages).snapshot_ids) == 1
    in_order(main)
    assert read(main) == [(i, "a") for i in range(3)]


@pytest.mark.ci
@pytest.mark.parametrize("n", [3, 8, 13, 18])
def test_a_merge_left_unfinished_is_finished_first(tmp_path: Path, n: int) -> None:
    """As writes do."""
    table = two_branches(tmp_path, *KINDS["keys"])
    old, new = read(table), read(table.branch("fix"))
    store = FaultStore(LocalStore())
    opened = Table(open_table(store, table.handle.layout.root, name="db.t"))
    store.arm(Fault(n, forever=True, retryable=False, verbs=MUTATING))
    with pytest.raises(PaimonError):
        opened.merge_branch("fix")
    result = paimon_spark.load_table(table.handle.layout.root).compact(full=True)
    assert result.snapshot is not None and result.snapshot.commit_kind is CommitKind.COMPACT
    assert read(table) in (old, new)
    in_order(table)
