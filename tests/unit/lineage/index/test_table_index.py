"""The lineage tables of a warehouse: made once, written by many, read right, and small however often written."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.api.table import Table
from paimon_spark.errors import CommitError, PaimonError, StorageError
from paimon_spark.lineage.index import table_index as lineage_index
from paimon_spark.lineage.index.provenance import TableRef
from paimon_spark.lineage.index.table_index import COMPACT_EVERY, TableIndex, open_index
from paimon_spark.lineage.index.tables import (
    CATALOG_OPTIONS,
    JOB_STARTUP,
    SINK_JOB,
    SINK_SNAPSHOT,
    SOURCE_SNAPSHOT,
    TABLES,
    Definition,
    column_equals,
    table_is,
)
from paimon_spark.lineage.index.warehouse import DATABASE, Warehouse
from paimon_spark.metadata.snapshots import list_snapshot_ids
from paimon_spark.storage.urls import open_store
from tests.harness.fault_store import MUTATING, Fault, FaultStore
from tests.harness.lineage_index import memory_warehouse
from tests.harness.real_tables import a_catalog, a_table

ODD = ("a'b", 'q"uote', "two words", "dots.in.it", "100%_\\back", "größe 表", "`tick`", "")
ROWS = pa.table({"id": pa.array([1], pa.int64())})


@pytest.fixture
def index(tmp_path: Path) -> TableIndex:
    """Lineage tables, empty."""
    made = index_at(tmp_path / "wh")
    made.create()
    return made


def index_at(folder: Path | str) -> TableIndex:
    return open_index(Warehouse(*open_store(str(folder), {})))


def counted(index: TableIndex) -> tuple[TableIndex, FaultStore]:
    store = FaultStore(index.warehouse.store)
    return open_index(Warehouse(store, index.warehouse.root)), store


def table_of(index: TableIndex, definition: Definition = SINK_SNAPSHOT) -> Table:
    return paimon_spark.load_table(index.warehouse.store.url(index.warehouse.table_root(DATABASE, definition.name)))


def sinks(first: int, last: int, job: str = "j") -> list[tuple[str, int, str, str, int]]:
    return [(job, b, "db", "t", b + 1) for b in range(first, last)]


def rows(index: TableIndex, definition: Definition = SINK_SNAPSHOT, where: str | None = None) -> list[tuple[Any, ...]]:
    return sorted(tuple(r.values()) for r in index.read(definition, where).to_pylist())


def script(code: str, *arguments: str) -> subprocess.Popen[str]:
    begin = (
        "import sys\n"
        "from paimon_spark.lineage.index.warehouse import Warehouse\n"
        "from paimon_spark.storage.urls import open_store\n"
        "from paimon_spark.lineage.index.table_index import open_index\n"
        "index = open_index(Warehouse(*open_store(sys.argv[1], {})))\n"
    )
    return subprocess.Popen([sys.executable, "-c", begin + code, *arguments], stderr=subprocess.PIPE, text=True)


def ended(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said


# --- nothing there


def test_without_lineage_tables_everything_is_empty_and_nothing_is_made(tmp_path: Path) -> None:
    index = index_at(tmp_path / "wh")
    assert not index.exists()
    assert index.options() == {}
    for definition in TABLES.values():
        assert index.read(definition, "job = 'j'").equals(definition.schema.empty_table())
        assert index.delete(definition, "true") == 0
    assert list(index.refs()) == []
    with pytest.raises(CommitError, match="no lineage tables"):
        index.upsert({SINK_SNAPSHOT.name: sinks(0, 1)})
    assert not (tmp_path / "wh").exists()


def test_without_lineage_tables_their_options_cost_one_look(tmp_path: Path) -> None:
    index, store = counted(index_at(tmp_path / "wh"))
    store.arm(None)
    assert index.options() == {}
    assert [c.verb for c in store.calls] == ["list"]


# --- making them


def test_the_tables_are_those_of_the_proposal(index: TableIndex) -> None:
    catalog = paimon_spark.load_catalog(index.warehouse.url)
    assert catalog.list_tables(DATABASE) == sorted(TABLES)
    for definition in TABLES.values():
        schema = table_of(index, definition).schema
        assert schema.primary_keys == definition.keys
        assert [(f.name, str(f.type)) for f in schema.fields] == [
            (n, "STRING NOT NULL" if t == pa.string() else "BIGINT NOT NULL") for n, t in definition.columns.items()
        ]


@pytest.mark.parametrize("workers", [8])
def test_threads_that_make_them_at_once_all_succeed(tmp_path: Path, workers: int) -> None:
    indexes = [index_at(tmp_path / "wh") for _ in range(workers)]
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(TableIndex.create, indexes))
    assert indexes[0].exists()
    for definition in TABLES.values():
        assert table_of(indexes[0], definition).schema.id == 0


@pytest.mark.ci
def test_processes_that_make_them_and_write_at_once_all_succeed(tmp_path: Path) -> None:
    code = (
        "index.create()\n"
        "for i in range(6):\n"
        "    index.upsert({'sink_snapshot_lineage': [(sys.argv[2], i, 'db', 't', i + 1)]})\n"
    )
    ended([script(code, str(tmp_path / "wh"), f"j{n}") for n in range(3)])
    found = rows(index_at(tmp_path / "wh"))
    assert found == sorted(r for n in range(3) for r in sinks(0, 6, f"j{n}"))


@pytest.mark.ci
def test_a_creation_killed_anywhere_is_finished_by_the_next(tmp_path: Path) -> None:
    at = 0
    while True:
        at += 1
        plain = index_at(tmp_path / f"wh{at}")
        index, store = counted(plain)
        store.arm(Fault(at, after=at % 2 == 0, forever=True, retryable=False, verbs=MUTATING))
        try:
            index.create()
        except StorageError:
            assert plain.options() == {}
        else:
            break
        there = plain.exists()
        assert not there or all((tmp_path / f"wh{at}" / "paimon.db" / n).exists() for n in TABLES)
        plain.create()
        plain.upsert({SINK_SNAPSHOT.name: sinks(0, 1)})
        assert rows(plain) == sinks(0, 1)
    assert at > len(TABLES)


# --- rows


def test_rows_written_twice_are_there_once_and_new_values_replace_old(index: TableIndex) -> None:
    index.upsert({SINK_SNAPSHOT.name: sinks(0, 5), SINK_JOB.name: [("j", "db", "t")]})
    index.upsert({SINK_SNAPSHOT.name: [*sinks(3, 7), ("j", 0, "db", "t", 99)], SINK_JOB.name: [("j", "db", "t")]})
    assert rows(index) == [("j", 0, "db", "t", 99), *sinks(1, 7)]
    assert rows(index, SINK_JOB) == [("j", "db", "t")]


def test_without_rows_there_is_no_commit(index: TableIndex) -> None:
    index.upsert({})
    index.upsert({SINK_SNAPSHOT.name: [], SINK_JOB.name: [("j", "db", "t")]})
    assert table_of(index).snapshots() == []
    assert len(table_of(index, SINK_JOB).snapshots()) == 1


@pytest.mark.ci
def test_any_name_is_found_and_removed_again(index: TableIndex) -> None:
    index.upsert({SOURCE_SNAPSHOT.name: [(j, 1, d, t, 2) for j in ODD for d in ODD[:2] for t in ODD]})
    for name in ODD:
        assert {r[0] for r in rows(index, SOURCE_SNAPSHOT, column_equals("job", name))} == {name}
        one = table_is(TableRef(ODD[0], name))
        assert rows(index, SOURCE_SNAPSHOT, one) == sorted((j, 1, ODD[0], name, 2) for j in ODD)
    assert index.delete(SOURCE_SNAPSHOT, column_equals("table", ODD[0])) == 2 * len(ODD)
    assert index.delete(SOURCE_SNAPSHOT, column_equals("table", ODD[0])) == 0
    assert len(rows(index, SOURCE_SNAPSHOT)) == 2 * len(ODD) * (len(ODD) - 1)


def test_options_are_rows(index: TableIndex) -> None:
    index.upsert({CATALOG_OPTIONS.name: [("table-lineage", "true"), ("x", "1")]})
    index.upsert({CATALOG_OPTIONS.name: [("table-lineage", "false")]})
    assert index.options() == {"table-lineage": "false", "x": "1"}


def test_what_was_deleted_stays_away_through_compaction_and_may_come_back(index: TableIndex) -> None:
    index.upsert({SINK_SNAPSHOT.name: sinks(0, 10)})
    assert index.delete(SINK_SNAPSHOT, "barrier_id < 4") == 4
    table_of(index).compact(full=True)
    assert rows(index) == sinks(4, 10)
    index.upsert({SINK_SNAPSHOT.name: sinks(0, 1)})
    assert rows(index) == [*sinks(0, 1), *sinks(4, 10)]


# --- many writers


@pytest.mark.ci
def test_upserts_of_racing_threads_all_land(index: TableIndex) -> None:
    def work(number: int) -> None:
        for b in range(8):
            index.upsert({SINK_SNAPSHOT.name: sinks(b, b + 1, f"j{number}")})

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert rows(index) == sorted(r for n in range(6) for r in sinks(0, 8, f"j{n}"))


@pytest.mark.ci
def test_upserts_land_while_others_compact_and_expire(index: TableIndex) -> None:
    other = table_of(index)
    done: list[bool] = []

    def disturb() -> None:
        while not done:
            other.compact(full=True)
            other.expire_snapshots(retain_max=1, retain_min=1)

    with ThreadPoolExecutor(1) as pool:
        disturbing = pool.submit(disturb)
        for b in range(25):
            index.upsert({SINK_SNAPSHOT.name: sinks(b, b + 1)})
            assert rows(index) == sinks(0, b + 1)
        done.append(True)
        disturbing.result()
    assert rows(index) == sinks(0, 25)


@pytest.mark.ci
def test_a_store_that_fails_anywhere_loses_nothing_that_was_written(index: TableIndex) -> None:
    index.upsert({SINK_SNAPSHOT.name: sinks(0, COMPACT_EVERY - 2)})
    failing, store = counted(index)
    at = 0
    while True:
        at += 1
        barrier = 100 + at
        store.arm(Fault(at, after=at % 2 == 0, retryable=False))
        try:
            failing.upsert({SINK_SNAPSHOT.name: sinks(barrier, barrier + 1)})
        except PaimonError:
            failing.upsert({SINK_SNAPSHOT.name: sinks(barrier, barrier + 1)})
        failed = store.failed
        assert sinks(barrier, barrier + 1)[0] in rows(index)
        if not failed:
            break
    assert at > 15
    assert rows(index) == [*sinks(0, COMPACT_EVERY - 2), *sinks(101, barrier + 1)]


# --- the tables change below us


def add_column(table: Table) -> None:
    table.alter(add={"note": "STRING"})


def compact_and_expire(table: Table) -> None:
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1)


@pytest.mark.parametrize("change", [add_column, compact_and_expire])
def test_a_table_that_others_changed_is_written_and_read_on(index: TableIndex, change: Callable[[Table], None]) -> None:
    index.upsert({SINK_SNAPSHOT.name: sinks(0, 3)})
    change(table_of(index))
    index.upsert({SINK_SNAPSHOT.name: sinks(3, 5)})
    assert rows(index) == sinks(0, 5)
    assert index.read(SINK_SNAPSHOT).schema == SINK_SNAPSHOT.schema


def test_a_table_that_others_made_with_nulls_is_used(tmp_path: Path) -> None:
    index = index_at(tmp_path / "wh")
    catalog = paimon_spark.load_catalog(index.warehouse.url)
    catalog.create_database(DATABASE)
    made = catalog.create_table(
        f"{DATABASE}.catalog_options",
        "`key` STRING, `value` STRING, note INT",
        primary_keys=["key"],
        options={"bucket": 1},
    )
    made.write(pa.table({"key": ["table-lineage", "x"], "value": ["true", None], "note": pa.array([1, 2], pa.int32())}))
    assert index.options() == {"table-lineage": "true"}
    index.create()
    index.upsert({CATALOG_OPTIONS.name: [("x", "1")]})
    assert index.options() == {"table-lineage": "true", "x": "1"}
    assert index.read(CATALOG_OPTIONS).schema == CATALOG_OPTIONS.schema


def test_a_table_that_was_dropped_is_made_again(index: TableIndex) -> None:
    index.upsert({SINK_SNAPSHOT.name: sinks(0, 3)})
    catalog = paimon_spark.load_catalog(index.warehouse.url)
    catalog.drop_table(f"{DATABASE}.{SINK_SNAPSHOT.name}")
    assert rows(index) == []
    index.upsert({SINK_SNAPSHOT.name: sinks(3, 5)})
    assert rows(index) == sinks(3, 5)


def test_a_database_that_was_dropped_is_not_made_again(index: TableIndex) -> None:
    index.upsert({SINK_SNAPSHOT.name: sinks(0, 3), CATALOG_OPTIONS.name: [("table-lineage", "true")]})
    paimon_spark.load_catalog(index.warehouse.url).drop_database(DATABASE, cascade=True)
    with pytest.raises(CommitError, match="no lineage tables"):
        index.upsert({SINK_SNAPSHOT.name: sinks(3, 5)})
    assert (index.options(), rows(index), index.exists()) == ({}, [], False)


# --- years of flushes


def test_a_flush_is_few_calls_to_the_store(index: TableIndex) -> None:
    index, store = counted(index)
    index.upsert({SINK_SNAPSHOT.name: sinks(0, 1)})
    for b in range(1, 5):
        store.arm(None)
        index.upsert({SINK_SNAPSHOT.name: sinks(b, b + 1)})
        calls = [c for c in store.calls if c.verb != "output.write"]
        assert 10 < len(calls) <= 20, calls
        assert sum(c.verb == "list" for c in calls) <= 1


@pytest.mark.ci
def test_many_flushes_leave_few_files_and_snapshots() -> None:
    index = open_index(memory_warehouse())
    index.create()
    flushes = 150
    for b in range(flushes):
        index.upsert({SINK_SNAPSHOT.name: sinks(b, b + 1)})
    assert rows(index) == sinks(0, flushes)
    store, root = index.warehouse.store, index.warehouse.table_root(DATABASE, SINK_SNAPSHOT.name)
    handle = index._handle(SINK_SNAPSHOT)
    assert len(list_snapshot_ids(handle)) <= 100 + COMPACT_EVERY + 2
    assert len(store.list(f"{root}/bucket-0")) <= 140
    assert len(store.list(f"{root}/manifest")) <= 350


@pytest.mark.ci
def test_a_look_up_reads_the_part_of_the_table_that_may_hold_it(index: TableIndex) -> None:
    table = table_of(index)
    table.alter(set_options={"target-file-size": "20 kb"})
    index.upsert({SINK_SNAPSHOT.name: [(f"job{n}", b, "db", "t", b) for n in range(6) for b in range(60_000)]})
    table.compact(full=True)
    where = "job = 'job2' AND barrier_id > 59990"
    plan = table_of(index).scan(where=where).plan()
    every = table_of(index).scan().plan()
    assert sum(len(s.files) for s in every.splits) >= 5
    assert sum(len(s.files) for s in plan.splits) <= 2
    assert len(rows(index, SINK_SNAPSHOT, where)) == 9


@pytest.mark.ci
def test_tables_stay_small_when_processes_flush_as_they_end(tmp_path: Path) -> None:
    index = index_at(tmp_path / "wh")
    index.create()
    for b in range(COMPACT_EVERY - 1):
        index.upsert({SINK_SNAPSHOT.name: sinks(b, b + 1)})
    code = (
        "import atexit, logging\n"
        "logging.basicConfig(level=logging.WARNING)\n"
        "atexit.register(index.upsert, {'sink_snapshot_lineage': [('last', 0, 'db', 't', 1)]})\n"
    )
    process = script(code, str(tmp_path / "wh"))
    _, said = process.communicate(timeout=120)
    assert (process.returncode, said) == (0, "")
    assert rows(index) == sorted([*sinks(0, COMPACT_EVERY - 1), ("last", 0, "db", "t", 1)])
    assert [s.commit_kind.value for s in table_of(index).snapshots()[-2:]] == ["APPEND", "COMPACT"]


# --- tables of the warehouse


def test_refs_are_the_branches_of_all_tables_but_those_of_lineage(index: TableIndex, tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(index.warehouse.url)
    for database in ("a b", "db"):
        catalog.create_database(database)
    for name in ("`a b`.`it's`", "db.t", "db.empty"):
        catalog.create_table(name, ROWS.schema)
    catalog.table("db.t").write(ROWS)
    catalog.table("db.t").create_branch("fix", empty=True)
    root = tmp_path / "wh"
    (root / "db.db" / "t" / "branch" / "branch-.work" / "schema").mkdir(parents=True)
    (root / "db.db" / "t" / "branch" / "branch-.work" / "schema" / "schema-0").write_text("{}")
    (root / "db.db" / "t" / "branch" / "branch-torn").mkdir()
    (root / "db.db" / "no_table" / "bucket-0").mkdir(parents=True)
    (root / "db.db" / "file").write_text("")
    (root / "elsewhere" / "t" / "schema").mkdir(parents=True)
    (root / "paimon.db" / "_lineage" / "jobs").mkdir(parents=True)
    refs = [("a b", "it's"), ("db", "empty"), ("db", "t"), ("db", "t$branch_fix")]
    assert sorted(index.refs()) == [TableRef(*r) for r in refs]


@pytest.mark.parametrize("where", ["b.db", "b.db/t"])
def test_a_directory_that_cannot_be_listed_hides_no_other_table(tmp_path: Path, where: str) -> None:
    plain = index_at(tmp_path / "wh")
    catalog = paimon_spark.load_catalog(plain.warehouse.url)
    for database in ("a", "b", "c"):
        catalog.create_database(database)
        catalog.create_table(f"{database}.t", ROWS.schema)
    index, store = counted(plain)
    store.arm(Fault(1, retryable=False, verbs=frozenset({"list"}), path_part=where))
    refs = index.refs()
    assert [next(refs).database, next(refs).database] == ["a", "c"]
    with pytest.raises(StorageError):
        next(refs)


@pytest.mark.parametrize("named", ["fix", ".merge-1", "a/b"])
def test_a_branch_that_main_means_is_listed_once(index: TableIndex, tmp_path: Path, named: str) -> None:
    table = a_table(ROWS.schema, where=index.warehouse.url)
    for branch in ("fix", "other"):
        table.create_branch(branch, empty=True)
    (tmp_path / "wh" / "db.db" / "t" / "MAIN-BRANCH").write_text(named)
    refs = ["t", *(f"t$branch_{b}" for b in ("fix", "other") if b != named)]
    assert sorted(index.refs()) == [TableRef("db", name) for name in refs]


def history(index: TableIndex, length: int) -> Table:
    catalog = a_catalog(index.warehouse.url)
    table: Table = catalog.create_table("db.t", ROWS.schema)
    for _ in range(length):
        table.write(ROWS)
    return table


def ids(index: TableIndex, ref: str = "db.t", after: int = 0) -> list[int]:
    return [s.id for s in index.snapshots(TableRef.parse(ref), after)]


@pytest.mark.ci
def test_snapshots_come_newest_first_without_those_that_are_gone(index: TableIndex) -> None:
    table = history(index, 12)
    assert ids(index) == list(range(12, 0, -1))
    assert ids(index, after=9) == [12, 11, 10]
    assert ids(index, after=12) == ids(index, "db.none") == ids(index, "no.t") == ids(index, "db.t$branch_x") == []
    table.expire_snapshots(retain_max=9, retain_min=1)
    assert ids(index) == list(range(12, 3, -1))
    handle = table.handle
    for hole in (6, 7, 10):
        handle.store.delete(handle.layout.snapshot_path(hole))
    assert ids(index) == [12, 11, 9, 8, 5, 4]
    assert ids(index, after=7) == [12, 11, 9, 8]


@pytest.mark.ci
def test_snapshots_that_expire_while_they_are_walked_are_passed_over(index: TableIndex) -> None:
    table = history(index, 40)
    walk = index.snapshots(TableRef("db", "t"))
    assert [next(walk).id for _ in range(4)] == [40, 39, 38, 37]
    table.expire_snapshots(retain_max=3, retain_min=1)
    assert [s.id for s in walk] == []


def test_the_newest_snapshots_are_found_without_a_listing(index: TableIndex) -> None:
    history(index, 20)
    index, store = counted(index)
    store.arm(None)
    walk = index.snapshots(TableRef("db", "t"))
    assert [next(walk).id for _ in range(3)] == [20, 19, 18]
    assert not any(c.verb == "list" and c.path.endswith("/snapshot") for c in store.calls)
    assert len(store.calls) < 12


def test_tags_of_a_branch_are_found_by_name(index: TableIndex) -> None:
    table = history(index, 3)
    table.create_tag("v1", snapshot_id=1)
    table.create_branch("fix", tag="v1")
    table.create_tag("two words", snapshot_id=3)
    found = index.tagged(TableRef("db", "t"))
    assert {n: found[n].id for n in ("v1", "two words")} == {"v1": 1, "two words": 3}
    assert ids(index, "db.t$branch_fix") == [1]
    assert index.tagged(TableRef("db", "none")) == {}


def test_an_index_can_be_sent_to_another_process(index: TableIndex) -> None:
    import pickle

    index.upsert({JOB_STARTUP.name: [("j", "db", "t", 3)]})
    copy: TableIndex = pickle.loads(pickle.dumps(index))
    assert rows(copy, JOB_STARTUP) == [("j", "db", "t", 3)]


def test_few_handles_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage_index, "_REMEMBERED", 3)
    lineage_index._HANDLES.clear()
    for _ in range(3):
        index = open_index(memory_warehouse())
        index.create()
        index.upsert({SINK_SNAPSHOT.name: sinks(0, 1), SINK_JOB.name: [("j", "db", "t")]})
        assert rows(index) == sinks(0, 1)
    assert len(lineage_index._HANDLES) <= 3


def test_a_catalog_shows_the_tables_and_not_what_lies_beside_them(index: TableIndex, tmp_path: Path) -> None:
    (tmp_path / "wh" / "paimon.db" / "_lineage" / "jobs").mkdir(parents=True)
    (tmp_path / "wh" / "paimon.db" / "_lineage" / "jobs" / "j.json").write_text("{}")
    catalog: Catalog = paimon_spark.load_catalog(index.warehouse.url)
    assert catalog.list_tables(DATABASE) == sorted(TABLES)
