"""Publications beside writers of main, and beside each other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import paimon_spark
from paimon_spark import Catalog
from paimon_spark.errors import BranchDivergedError, PaimonError
from paimon_spark.storage.local import LocalStore
from tests.harness.real_tables import put

TABLES = ("shop.a", "shop.b", "shop.c")


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = paimon_spark.load_catalog(str(tmp_path / "wh"))
    made.create_database("shop")
    for name in TABLES:
        made.create_table(name, "id BIGINT")
        put(made.table(name), 0)
    return made


def ids(catalog: Catalog, table: str, branch: str = "main") -> set[int]:
    return set(catalog.table(table).branch(branch).scan().to_arrow()["id"].to_pylist())


MOMENTS: tuple[Callable[[str, bytes], bool], ...] = (
    lambda path, data: path.endswith("/intent/intent") and b'"publish-pipeline"' in data,
    lambda path, data: "/intent/plan-" in path and b'"decision"' in data,
    lambda path, _: "/_pipelines/changes/" in path,
    lambda path, _: path.endswith("/MAIN-BRANCH"),
)
"""Which file a publication is about to write: the first lock, the first journal, the decision, or the first switch."""


class Writers:
    """A writer of each table, in a thread of its own, who writes once at each moment.

    Attributes:
        made: the numbers that each wrote, of commits that are made as far as it was told.
        acts: how often each wrote or was refused.
        moment: the one that they wait for.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.made: dict[str, set[int]] = {name: {0} for name in TABLES}
        self.acts = dict.fromkeys(TABLES, 0)
        self.moment: int | None = None
        self.publisher = threading.get_ident()
        self.threads: list[threading.Thread] = []

    def before(self, path: str, data: bytes) -> None:
        """Write, if this is the moment. Once the publication is decided, it goes on meanwhile."""
        if self.moment is None or threading.get_ident() != self.publisher or not MOMENTS[self.moment](path, data):
            return
        self.threads = [threading.Thread(target=self._write, args=(name, 1000 + self.moment)) for name in TABLES]
        for thread in self.threads:
            thread.start()
        if self.moment < 3:
            self.join()
        self.moment = None

    def join(self) -> None:
        for thread in self.threads:
            thread.join()

    def _write(self, table: str, number: int) -> None:
        self.acts[table] += 1
        with suppress(PaimonError):  # its rows are nowhere, or it does not know
            put(self.catalog.table(table), number)
            self.made[table].add(number)


@pytest.mark.parametrize("if_main_moved", ["refuse", "replace", "rebase"])
def test_no_commit_of_a_writer_is_lost(catalog: Catalog, if_main_moved: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers go on while branches are published: what they committed is on main, or on a backup branch."""
    writers = Writers(catalog)
    for verb in ("write", "create_exclusive"):
        real = getattr(LocalStore, verb)

        def acting(
            store: LocalStore, path: str, data: bytes, real: Callable[[LocalStore, str, bytes], None] = real
        ) -> None:
            writers.before(path, data)
            real(store, path, data)

        monkeypatch.setattr(LocalStore, verb, acting)
    pipeline = catalog.pipeline(*TABLES, downstream=False)
    published = []
    for n in range(len(MOMENTS)):
        branch = pipeline.branch(f"fix{n}")
        for name in TABLES:
            put(catalog.table(name).branch(f"fix{n}"), -n - 1)
        writers.moment = n
        try:
            branch.publish(if_main_moved=if_main_moved)  # type: ignore[arg-type]
            published.append(n)
        except BranchDivergedError:
            assert if_main_moved == "refuse"
        writers.join()
        assert writers.moment is None, "all have written"
    assert published == ([3] if if_main_moved == "refuse" else [0, 1, 2, 3])
    assert len(catalog.releases()) == len(published)
    assert writers.acts == dict.fromkeys(TABLES, len(MOMENTS))
    for name in TABLES:
        made, on_main = writers.made[name], ids(catalog, name)
        if if_main_moved == "replace":
            branches = [b.name for b in catalog.table(name).branches(include_internal=True)]
            on_main = on_main.union(*(ids(catalog, name, branch) for branch in branches))
        assert {0, 1000, 1001, 1002} <= made <= on_main, "writers need not wait for a publication that is not decided"
        assert {-n - 1 for n in published} <= on_main
        assert if_main_moved != "rebase" or on_main == made | {-1, -2, -3, -4}


def test_of_two_publications_each_is_whole(catalog: Catalog) -> None:
    pipeline = catalog.pipeline(*TABLES, downstream=False)
    for n in (1, 2):
        pipeline.branch(f"fix{n}")
        for name in TABLES:
            put(catalog.table(name).branch(f"fix{n}"), n)
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
