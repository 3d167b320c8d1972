"""Every store call of every kind of write fails once: the table is as before or as after, and a second try succeeds."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import fsspec
import pyarrow as pa
import pytest

from paimon_spark.api.table import Table
from paimon_spark.engine.commit.committer import Committer, new_commit_user
from paimon_spark.engine.commit.requests import PlannedOn
from paimon_spark.engine.row_level.job import in_process, plan_rows
from paimon_spark.errors import (
    CommitConflictError,
    CommitError,
    CommitOutcomeUnknownError,
    CommitRetriesExhaustedError,
    PaimonError,
    TableAlreadyExistsError,
)
from paimon_spark.format.metadata_files.statistics import Statistics
from paimon_spark.jobs.definition.replace import replace_table
from paimon_spark.jobs.upkeep.maintain import drop_partitions
from paimon_spark.maintenance.orphan_files import orphans
from paimon_spark.metadata.definition.create import create_table
from paimon_spark.metadata.handle import open_table
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.metadata.snapshots import list_snapshot_ids
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.storage.store import Store
from paimon_spark.storage.urls import open_store
from paimon_spark.types import BIGINT, INT, STRING, DataField, RowType
from tests.harness.fault_points import selected_points
from tests.harness.fault_store import Call, Fault, FaultStore
from tests.harness.table_files import files_on_disk, missing_files, reachable_files

pytestmark = [pytest.mark.chaos, pytest.mark.faults]

COLUMNS = RowType(
    False,
    (
        DataField(0, "p", INT.with_nullable(False)),
        DataField(1, "k", BIGINT.with_nullable(False)),
        DataField(2, "v", STRING),
    ),
)
FAST = {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "1 ms", "commit.max-retries": "3"}
Rows = list[dict[str, Any]]


def rows(*items: tuple[int, int, str]) -> pa.Table:
    schema = pa.schema([("p", pa.int32()), ("k", pa.int64()), ("v", pa.string())])
    return pa.Table.from_pylist([{"p": p, "k": k, "v": v} for p, k, v in items], schema)


@dataclass(frozen=True)
class Write:
    """A write to a table that holds two commits.

    Attributes:
        keys: of the table, which is partitioned by `p` too.
        options: of the table.
        act: the write.
        after: what the table holds then.
    """

    act: Callable[[Table], object]
    after: Rows
    keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


FIRST = [(1, 1, "a"), (1, 2, "b"), (2, 3, "c")]
SECOND = [(2, 4, "d"), (1, 5, "e")]
BEFORE = [*FIRST, *SECOND]
NEW = [(1, 2, "B"), (3, 9, "z")]


def as_rows(items: list[tuple[int, int, str]]) -> Rows:
    return [{"p": p, "k": k, "v": v} for p, k, v in sorted(items)]


def committer(table: Table) -> Committer:
    return Committer(table.handle, new_commit_user(table.handle.options))


def delete(table: Table, where: str) -> None:
    """Rows deleted in one commit."""
    job = plan_rows(table.handle, parse_predicate(where, table.handle.schema.row_type), updates=False)
    messages = in_process(job)
    commits = Committer(table.handle, job.commit_user)
    try:
        commits.commit(messages, planned_on=PlannedOn.of(job.base), operation="DELETE")
    except CommitOutcomeUnknownError:
        raise
    except PaimonError:
        commits.abort(messages)
        raise


KEPT = as_rows([item for item in BEFORE if item[1] not in (2, 4)])
UPSERTED = [item for item in BEFORE if item[1] != 2] + NEW
REPLACED_PARTITIONS = [item for item in BEFORE if item[0] == 2] + NEW
KEYED = ("p", "k")
WRITES: dict[str, Write] = {
    "append": Write(lambda t: t.write(rows(*NEW)), as_rows([*BEFORE, *NEW])),
    "append-buckets": Write(
        lambda t: t.write(rows(*NEW)), as_rows([*BEFORE, *NEW]), options={"bucket": "2", "bucket-key": "k"}
    ),
    "append-merging-manifests": Write(
        lambda t: t.write(rows(*NEW)), as_rows([*BEFORE, *NEW]), options={"manifest.merge-min-count": "2"}
    ),
    "upsert": Write(lambda t: t.write(rows(*NEW)), as_rows(UPSERTED), KEYED, {"bucket": "2"}),
    "upsert-changelog": Write(
        lambda t: t.write(rows(*NEW)), as_rows(UPSERTED), KEYED, {"bucket": "1", "changelog-producer": "input"}
    ),
    "upsert-dynamic-buckets": Write(lambda t: t.write(rows(*NEW)), as_rows(UPSERTED), KEYED, {"bucket": "-1"}),
    "upsert-compacting": Write(
        lambda t: t.write(rows(*NEW)), as_rows(UPSERTED), KEYED, {"bucket": "1", "deletion-vectors.enabled": "true"}
    ),
    "upsert-many-runs": Write(
        lambda t: t.write(rows(*NEW)),
        as_rows(UPSERTED),
        KEYED,
        {"bucket": "1", "num-sorted-run.compaction-trigger": "2", "num-sorted-run.stop-trigger": "2"},
    ),
    "compact-keys": Write(lambda t: t.compact(full=True), as_rows(BEFORE), KEYED, {"bucket": "1"}),
    "compact-keys-changelog": Write(
        lambda t: t.compact(full=True),
        as_rows(BEFORE),
        KEYED,
        {"bucket": "1", "changelog-producer": "full-compaction"},
    ),
    "compact-append": Write(lambda t: t.compact(full=True), as_rows(BEFORE)),
    "overwrite": Write(lambda t: t.write(rows(*NEW), mode="overwrite", partitionOverwriteMode="static"), as_rows(NEW)),
    "overwrite-keys": Write(
        lambda t: t.write(rows(*NEW), mode="overwrite", partitionOverwriteMode="static"),
        as_rows(NEW),
        KEYED,
        {"bucket": "2"},
    ),
    "overwrite-present-partitions": Write(
        lambda t: t.write(rows(*NEW), mode="overwrite", partitionOverwriteMode="dynamic"), as_rows(REPLACED_PARTITIONS)
    ),
    "delete-rewriting": Write(lambda t: delete(t, "k = 2 OR k = 4"), KEPT),
    "delete-by-vectors": Write(
        lambda t: delete(t, "k = 2 OR k = 4"), KEPT, options={"deletion-vectors.enabled": "true"}
    ),
    "delete-keys": Write(lambda t: delete(t, "k = 2 OR k = 4"), KEPT, KEYED, {"bucket": "1"}),
    "truncate": Write(lambda t: committer(t).truncate(), []),
    "drop-partition": Write(lambda t: drop_partitions(t, {"p": 1}), as_rows([item for item in BEFORE if item[0] == 2])),
    "analyze": Write(lambda t: committer(t).set_statistics(Statistics(2, 0, len(BEFORE), 1000)), as_rows(BEFORE)),
}


class Place:
    """A table of its own in memory, seen through a store that can fail."""

    def __init__(self, name: str) -> None:
        self.write = WRITES[name]
        self.root = f"/{uuid.uuid4().hex}/t"
        _copy(_template(name), self.root)
        self.inner: Store = open_store("memory://")[0]
        self.store = FaultStore(self.inner)

    def table(self, store: Store | None = None) -> Table:
        return Table(open_table(store or self.store, self.root, name="t", options=FAST))

    def rows(self) -> Rows:
        CACHE.clear()
        found: Rows = self.table(self.inner).scan().to_arrow().to_pylist()
        return sorted(found, key=lambda r: (r["p"], r["k"], r["v"]))

    def check_files(self) -> None:
        """Nothing is missing, and what nothing names is what a clean-up would find."""
        CACHE.clear()
        handle = self.table(self.inner).handle
        assert missing_files(handle) == []
        unnamed = {f.path for f in files_on_disk(handle)} - reachable_files(handle)
        assert unnamed == {f.path for f in orphans(handle)}
        ids = self.snapshot_ids()
        assert ids == list(range(1, len(ids) + 1))

    def snapshot_ids(self) -> list[int]:
        return list_snapshot_ids(self.table(self.inner).handle)


@cache
def _template(name: str) -> str:
    write = WRITES[name]
    store, root = open_store(f"memory://{uuid.uuid4().hex}/t")
    create_table(store, root, COLUMNS, write.keys, ("p",), write.options, name="t")
    table = Table(open_table(store, root, name="t"))
    table.write(rows(*FIRST))
    table.write(rows(*SECOND))
    return root


def _copy(old: str, new: str) -> None:
    fs = fsspec.filesystem("memory")
    for path in fs.find(old):
        fs.pipe_file(new + path[len(old) :], fs.cat_file(path))


@cache
def _calls(name: str) -> tuple[Call, ...]:
    """The calls of the write when nothing fails."""
    place = Place(name)
    table = place.table()
    CACHE.clear()
    place.store.arm(None)
    place.write.act(table)
    made = tuple(place.store.calls)
    assert place.rows() == place.write.after
    place.check_files()
    assert [f.path for f in orphans(place.table(place.inner).handle)] == []
    return made


def outcome(place: Place, fault: Fault) -> PaimonError | None:
    """Do the write with the fault; what it raised."""
    table = place.table()
    CACHE.clear()
    with place.store.failing(fault):
        try:
            place.write.act(table)
        except PaimonError as e:
            return e
    return None


def check(name: str, fault: Fault) -> None:
    place = Place(name)
    before, after = as_rows(BEFORE), place.write.after
    held = len(place.snapshot_ids())
    error = outcome(place, fault)
    found = place.rows()
    where = f"{fault} {_calls(name)[fault.at - 1]} {error!r}"
    if error is None:
        assert found == after, where
    elif isinstance(error, CommitOutcomeUnknownError) or type(error) is CommitError:
        # A plain CommitError says that the rows are in, and seen only after a compaction, which failed.
        assert found in (before, after), where
        assert type(error) is not CommitError or len(place.snapshot_ids()) > held, where
    else:
        assert found == before, where
    place.check_files()
    if isinstance(error, (CommitConflictError, CommitRetriesExhaustedError)):
        pytest.fail(f"nobody else wrote, and yet: {where}")
    if found == before:
        place.write.act(place.table())
        assert place.rows() == after, where
        place.check_files()


FAULTS = {
    "fails": lambda n: Fault(n, retryable=False),
    "fails-retryably": lambda n: Fault(n),
    "answer-is-lost": lambda n: Fault(n, after=True),
    "says-no-and-does": lambda n: Fault(n, after=True, retryable=False),
    "store-goes-away": lambda n: Fault(n, forever=True),
    "store-goes-away-with-the-answer": lambda n: Fault(n, after=True, forever=True),
}


def numbers(name: str, turn: int) -> list[int]:
    """The calls to let fail: one in thirty, another for each way and write, if not all or a share are asked for."""
    turn = 5 * turn + list(WRITES).index(name)
    return selected_points(range(1, len(_calls(name)) + 1), 5 * len(FAULTS), turn - 1)


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("name", WRITES)
def test_any_call_of_a_write_may_fail(name: str, kind: str) -> None:
    for n in numbers(name, list(FAULTS).index(kind)):
        check(name, FAULTS[kind](n))


@pytest.mark.parametrize("name", WRITES)
def test_a_write_that_fails_leaves_no_file_while_the_store_answers(name: str) -> None:
    for n in numbers(name, list(WRITES).index(name)):
        call = _calls(name)[n - 1]
        place = Place(name)
        error = outcome(place, Fault(n, retryable=False))
        if error is None or call.verb in ("delete", "delete_many"):
            continue
        left = [f.path for f in orphans(place.table(place.inner).handle)]
        assert left == [], f"{n}: {call} {error!r}"


@pytest.mark.parametrize("kind", FAULTS)
def test_any_call_of_a_creation_may_fail(kind: str) -> None:
    inner, _ = open_store("memory://")

    def create(store: Store, root: str) -> None:
        create_table(store, root, COLUMNS, ("k",), (), {"bucket": "1"}, name="t")

    counting = FaultStore(inner)
    create(counting, f"/{uuid.uuid4().hex}/t")
    for n in selected_points(range(1, counting.count() + 1), 1):
        store, root = FaultStore(inner), f"/{uuid.uuid4().hex}/t"
        with store.failing(FAULTS[kind](n)):
            made = succeeds(partial(create, store, root))
        if made:
            assert open_table(inner, root).schema.primary_keys == ("k",)
        with contextlib.suppress(TableAlreadyExistsError):
            create(inner, root)
        table = Table(open_table(inner, root))
        table.write(rows(*NEW))
        assert table.scan().to_arrow().num_rows == 2


@pytest.mark.parametrize("kind", FAULTS)
def test_any_call_of_an_alteration_may_fail(kind: str) -> None:
    def alter(table: Table) -> None:
        table.alter(add={"w": "INT"})

    for n in selected_points(range(1, _count(alter) + 1), 1):
        place = Place("append")
        table = place.table()
        CACHE.clear()
        with place.store.failing(FAULTS[kind](n)):
            altered = succeeds(partial(alter, table))
        names = place.table(place.inner).row_type.names
        assert names == ("p", "k", "v", "w") or (not altered and names == ("p", "k", "v"))
        if "w" not in names:
            alter(place.table())
        place.table().write(rows(*NEW))
        assert [{k: v for k, v in row.items() if k != "w"} for row in place.rows()] == as_rows([*BEFORE, *NEW])


OTHER = RowType(False, (DataField(0, "p", INT.with_nullable(False)), DataField(1, "w", STRING)))


@pytest.mark.parametrize("kind", FAULTS)
def test_any_call_of_a_replacement_may_fail(kind: str) -> None:
    def replace(table: Table) -> None:
        replace_table(table, OTHER, (), ("p",))

    for n in selected_points(range(1, _count(replace) + 1), 6, list(FAULTS).index(kind)):
        place = Place("append")
        table = place.table()
        CACHE.clear()
        with place.store.failing(FAULTS[kind](n)):
            replaced = succeeds(partial(replace, table))
        CACHE.clear()
        there = place.table(place.inner)
        is_new = there.row_type.names == ("p", "w")
        assert is_new or not replaced
        # Rows go before the definition does: no row is ever read by a definition that is not its own.
        assert there.scan().to_arrow().num_rows in ((0,) if is_new else (0, len(BEFORE)))
        assert missing_files(there.handle) == []
        replace(place.table())
        assert place.table(place.inner).row_type.names == ("p", "w")
        assert place.table(place.inner).scan().to_arrow().num_rows == 0
        place.check_files()


def succeeds(act: Callable[[], object]) -> bool:
    """Whether it raises none of our errors."""
    try:
        act()
    except PaimonError:
        return False
    return True


def _count(act: Callable[[Table], object]) -> int:
    """How many calls an act on a table makes when nothing fails."""
    place = Place("append")
    table = place.table()
    CACHE.clear()
    place.store.arm(None)
    act(table)
    return place.store.count()
