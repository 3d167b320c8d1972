"""Publications beside writers of main, and beside each other."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark import Catalog
from paimon_spark.errors import BranchDivergedError, CommitConflictError, CommitRetriesExhaustedError, PaimonError

TABLES = ("shop.a", "shop.b", "shop.c")


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = paimon_spark.load_catalog(str(tmp_path / "wh"))
    made.create_database("shop")
    for name in TABLES:
        made.create_table(name, "id BIGINT")
        put(made, name, 0)
    return made


def put(catalog: Catalog, table: str, number: int, branch: str = "main") -> None:
    catalog.table(table).branch(branch).write(pa.table({"id": pa.array([number], pa.int64())}))


def ids(catalog: Catalog, table: str, branch: str = "main") -> set[int]:
    return set(catalog.table(table).branch(branch).scan().to_arrow()["id"].to_pylist())


@pytest.mark.ci
@pytest.mark.parametrize("if_main_moved", ["refuse", "replace", "rebase"])
def test_no_commit_of_a_writer_is_lost(catalog: Catalog, if_main_moved: str) -> None:
    """Writers go on while branches are published: what they committed is on main, or on a backup branch."""
    written: dict[str, set[int]] = {name: {0} for name in TABLES}
    stop = threading.Event()
    # A rebase is made again whenever others committed meanwhile, of any table.
    pause = 2 if if_main_moved == "rebase" else 0

    def write(table: str) -> None:
        number = 1000
        while not stop.is_set():
            number += 1
            try:
                put(catalog, table, number)
            except (CommitConflictError, CommitRetriesExhaustedError):
                continue  # refused: its rows are nowhere
            written[table].add(number)
            stop.wait(pause)

    threads = [threading.Thread(target=write, args=(name,)) for name in TABLES]
    pipeline = catalog.pipeline(*TABLES, downstream=False)
    published = 0
    for thread in threads:
        thread.start()
    try:
        for n in range(3):
            branch = pipeline.branch(f"fix{n}")
            for name in TABLES:
                put(catalog, name, -n - 1, f"fix{n}")
            try:
                branch.publish(if_main_moved=if_main_moved)  # type: ignore[arg-type]
                published += 1
            except BranchDivergedError:
                assert if_main_moved == "refuse"
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert published == (len(catalog.releases()) if if_main_moved == "refuse" else 3)
    if if_main_moved == "rebase":
        assert all(ids(catalog, name) == written[name] | {-1, -2, -3} for name in TABLES)
    for name in TABLES:
        branches = ["main", *(b.name for b in catalog.table(name).branches())]
        kept = set.union(*(ids(catalog, name, branch) for branch in branches))
        assert written[name] <= kept


def test_of_two_publications_each_is_whole(catalog: Catalog) -> None:
    pipeline = catalog.pipeline(*TABLES, downstream=False)
    for n in (1, 2):
        pipeline.branch(f"fix{n}")
        for name in TABLES:
            put(catalog, name, n, f"fix{n}")
    ended: list[object] = []

    def publish(name: str) -> None:
        try:
            ended.append(catalog.pipeline_branch(name).publish(if_main_moved="replace").id)
        except PaimonError as e:
            ended.append(e)

    threads = [threading.Thread(target=publish, args=(f"fix{n}",)) for n in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({e for e in ended if isinstance(e, int)}) == len(ended) == 2, ended
    mains = {frozenset(ids(catalog, name)) for name in TABLES}
    assert mains in ({frozenset((0, 1))}, {frozenset((0, 2))}), "all tables have the later one"


def test_of_two_branches_of_a_name_one_is_made(catalog: Catalog) -> None:
    pipeline = catalog.pipeline(*TABLES, downstream=False)
    ended: list[object] = []

    def make() -> None:
        try:
            ended.append(pipeline.branch("fix").name)
        except PaimonError as e:
            ended.append(type(e).__name__)

    threads = [threading.Thread(target=make) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, ended)) == ["BranchAlreadyExistsError", "BranchAlreadyExistsError", "fix"]
    assert [b.name for b in catalog.pipeline_branches()] == ["fix"]
