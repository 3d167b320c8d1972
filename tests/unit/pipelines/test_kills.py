"""Changes of several tables whose process dies at any call to the store: all tables have their part, or none."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark import Table
from paimon_spark.errors import PaimonError
from paimon_spark.lineage.index.warehouse import Warehouse
from paimon_spark.maintenance.change import recover
from paimon_spark.metadata.branches import branch_exists
from paimon_spark.metadata.handle import open_table
from paimon_spark.metadata.journal.lock import find_lock
from paimon_spark.metadata.tags import release_tag
from paimon_spark.pipelines.branching import create_pipeline_branch, delete_pipeline_branch
from paimon_spark.pipelines.publishing import publish, undo_release
from paimon_spark.pipelines.rebasing import publish_rebased
from paimon_spark.pipelines.records import get_branch_record, list_branch_records, list_release_records
from paimon_spark.storage.local import LocalStore
from tests.harness.fault_store import MUTATING, Fault, FaultStore
from tests.harness.search import is_nightly
from tests.harness.table_files import missing_files, reachable_files
from tests.unit.pipelines.warehouse import TABLES, SmallWarehouse

STARTS = {"db.a": 1, "db.b": 2, "other.c": None}
OLD = {table: {f"{table}1", f"{table}2", f"{table}3"} for table in TABLES}
NEW = {"db.a": {"db.a1", "db.afix"}, "db.b": {"db.b1", "db.b2", "db.bfix"}, "other.c": {"other.cfix"}}


def a_warehouse() -> SmallWarehouse:
    """Three commits on each table; nothing is branched yet."""
    made = SmallWarehouse.new()
    for table in TABLES:
        for n in (1, 2, 3):
            made.commit(table, f"{table}{n}")
    return made


def branched() -> SmallWarehouse:
    """With a pipeline branch `fix`, and a commit on each of its branches."""
    made = a_warehouse()
    create(made)
    for table in TABLES:
        made.commit(table, f"{table}fix", "fix")
    return made


def published() -> SmallWarehouse:
    """With the branch published as release 1."""
    made = branched()
    release(made)
    return made


def create(made: SmallWarehouse) -> None:
    create_pipeline_branch(made.warehouse, "fix", made.handles, STARTS, jobs=("j",), start="a test")


def delete(made: SmallWarehouse) -> None:
    delete_pipeline_branch(made.warehouse, get_branch_record(made.warehouse, "fix"), made.handles)


def release(made: SmallWarehouse) -> None:
    heads = {table: made.head(table, "fix") or 0 for table in TABLES}
    branches = dict.fromkeys(TABLES, "fix")
    publish(made.warehouse, branches, made.handles, snapshots=heads, name="fix", if_main_moved="replace")


def undo(made: SmallWarehouse) -> None:
    undo_release(made.warehouse, list_release_records(made.warehouse)[-1], made.handles)


def has_branches(made: SmallWarehouse) -> set[bool]:
    """Whether each table has the branch, and the warehouse the record of it."""
    is_recorded = bool(list_branch_records(made.warehouse))  # finishes what was decided
    return {is_recorded, *(branch_exists(made.on(table), "fix") for table in TABLES)}


def has_release(made: SmallWarehouse) -> set[bool]:
    """Whether main of each table is the branch, and the warehouse lists the release with its tags."""
    records = list_release_records(made.warehouse)  # finishes what was decided
    releases = [r for r in records if r.undone_by is None and r.undoes is None]
    found = {made.live(table) == NEW[table] for table in TABLES}
    assert all(made.live(table) in (NEW[table], OLD[table]) for table in TABLES)
    for record in releases:
        for table in TABLES:
            assert made.store.exists(made.on(table).layout.tag_path(release_tag(record.id)))
            assert record.tables[table] == made.head(table)
    return {*found, bool(releases)}


def kills(
    before: Callable[[], SmallWarehouse], act: Callable[[SmallWarehouse], None], step: int
) -> Iterator[tuple[SmallWarehouse, bool]]:
    """Act with the process dying after one change of the store after the other: what is left, and whether it is done.

    These are all the states that a death can leave: one before a change, or at a read, leaves what the change before
    did. `step`: every how many changes; the last one is the act without a fault.
    """
    made = before()
    saved = made.saved()
    for n in range(1, 10_000, step):
        made.restore(saved)
        made.store.arm(Fault(n, after=True, forever=True, retryable=False, verbs=MUTATING))
        with suppress(PaimonError):
            act(made)
        is_over = not made.store.failed
        made.store.arm(None)
        yield made, is_over
        if is_over:
            break


def check_whole(made: SmallWarehouse) -> None:
    """Nothing that a version needs is missing, and no refs or locks are left over."""
    for table in TABLES:
        handle = made.on(table)
        assert [path for path in missing_files(handle) if "/bucket-" not in path] == []
        assert find_lock(handle) is None
        assert not [i for i in made.store.list(handle.layout.branches_dir) if i.name.startswith(".merge-")]
        assert reachable_files(handle)
    changes = f"{made.root}/paimon.db/_pipelines/changes"
    decided = [made.store.read(f"{changes}/{info.name}") for info in made.store.list(changes)]
    assert not [data for data in decided if b'"runs": true' in data]


ACTS = {
    "branch": (a_warehouse, create, has_branches, True),
    "delete": (branched, delete, has_branches, False),
    "publish": (branched, release, has_release, True),
    "undo": (published, undo, has_release, False),
}
CHANGES = {"branch": 31, "delete": 33, "publish": 99, "undo": 141}
"""How many changes of the store each act makes."""


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=[pytest.mark.ci, pytest.mark.timeout(900)])])
@pytest.mark.parametrize("name", ACTS)
def test_killed_after_any_change_of_the_store(name: str, step: int) -> None:
    before, act, state, done = ACTS[name]
    count = 0
    for made, is_over in kills(before, act, step):
        found = state(made)
        for table in TABLES:
            recover(made.on(table))
        assert len(found) == 1, f"{name} is half done"
        assert state(made) == found
        check_whole(made)
        if is_over:
            assert found == {done}
        if found != {done}:
            act(made)
            assert state(made) == {done}
            check_whole(made)
        count += 1
    assert count * step > 0.9 * CHANGES[name], "the act changes the store more often"


@pytest.mark.ci
@pytest.mark.parametrize("name", ACTS)
def test_next_change_of_one_table_finishes_its_part(name: str) -> None:
    """Without looking at the records: after the first table every other one goes the same way."""
    before, act, state, _ = ACTS[name]
    for made, _ in kills(before, act, 1 if is_nightly() else 3):
        for table in reversed(TABLES):
            recover(made.on(table))
        assert len(state(made)) == 1


@pytest.mark.ci
def test_killed_while_changes_of_the_branch_come_on_top_of_main(tmp_path: Path) -> None:
    """Tables with real rows: one by key, one of appended rows, and one whose main has not moved."""
    made = paimon_spark.load_catalog(str(tmp_path / "made"))
    made.create_database("d")
    made.create_table("d.k", "k BIGINT", primary_keys=["k"], options={"bucket": "1"})
    for name in ("d.a", "d.b"):
        made.create_table(name, "k BIGINT")
    names = ("d.k", "d.a", "d.b")

    def put(table: Table, key: int) -> None:
        table.write(pa.table({"k": pa.array([key], pa.int64())}))

    for name in names:
        put(made.table(name), 1)
    made.pipeline(*names, downstream=False).branch("fix")
    for name in names:
        put(made.table(name).branch("fix"), 2)
    for name in names[:2]:
        put(made.table(name), 3)
    main = {"d.k": [1, 3], "d.a": [1, 3], "d.b": [1]}
    count = 0
    for n in range(1, 2000, 1 if is_nightly() else 9):
        place = tmp_path / str(n)
        shutil.copytree(made.warehouse, place)
        store = FaultStore(LocalStore())
        tables = {name: Table(open_table(store, f"{place}/{name.replace('.', '.db/')}", name=name)) for name in names}
        store.arm(Fault(n, after=True, forever=True, retryable=False, verbs=MUTATING))
        with suppress(PaimonError):
            publish_rebased(
                Warehouse(store, str(place)), tables, snapshots=dict.fromkeys(names, 2), name="fix", on_conflict="fail",
                check=None,
            )  # fmt: skip
        is_over = not store.failed
        store.arm(None)
        catalog = paimon_spark.load_catalog(str(place))
        releases = catalog.releases()
        found = {name: sorted(catalog.table(name).scan().to_arrow()["k"].to_pylist()) for name in names}
        done = {name: sorted({*keys, 2}) for name, keys in main.items()}
        assert found == (done if releases else main), n
        if not releases:
            catalog.pipeline_branch("fix").publish(if_main_moved="rebase")
        for name in names:
            table = catalog.table(name)
            assert sorted(table.scan().to_arrow()["k"].to_pylist()) == done[name]
            assert sorted(table.branch("fix").scan().to_arrow()["k"].to_pylist()) == [1, 2]
            assert missing_files(table.handle) == []
        catalog.releases()[-1].undo()
        assert {n: sorted(catalog.table(n).scan().to_arrow()["k"].to_pylist()) for n in names} == main
        shutil.rmtree(place)
        count += 1
        if is_over:
            break
    assert count > 5
