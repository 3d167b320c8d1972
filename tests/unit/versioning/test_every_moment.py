"""At every moment of every verb each ref is where it was or where it will be, for readers who only read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.api.table import Table
from paimon_spark.catalogs import file_system as of_catalog
from paimon_spark.errors import PaimonError
from paimon_spark.metadata.branches import list_branch_names
from paimon_spark.metadata.handle import is_table, open_table
from paimon_spark.storage.store import Store
from paimon_spark.storage.urls import open_store
from tests.harness.fault_store import MUTATING, Fault, FaultStore
from tests.harness.moments import Moment, StepwiseStore, moments, seen
from tests.unit.versioning.publishing import new_table, put

pytestmark = pytest.mark.slow

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
Plant = Callable[[str], tuple[Store, str]]
Files = dict[str, bytes]


class Verb(NamedTuple):
    """A verb, and the refs that change.

    Attributes:
        act: the verb on the table of `the_table`.
        moved: (old, new) names of a branch, of which one is there at any moment.
    """

    act: Callable[[Table], Any]
    moved: tuple[str, str] | None = None


VERBS = {
    "create_tag": Verb(lambda t: t.create_tag("v3")),
    "replace_tag": Verb(lambda t: t.replace_tag("v1", snapshot_id=2)),
    "delete_tag": Verb(lambda t: t.delete_tag("v1")),
    "create_savepoint": Verb(lambda t: t.branch("fix").create_savepoint()),
    "delete_savepoint": Verb(lambda t: t.delete_savepoint(t.savepoints()[0].id)),
    "alter": Verb(lambda t: t.alter(add={"c": "INT"})),
}
OF_BRANCHES = {
    "create_branch": Verb(lambda t: t.branch("fix").create_branch("new", tag="checked")),
    "create_branch, empty": Verb(lambda t: t.branch("fix").create_branch("new", empty=True)),
    "rename_branch": Verb(lambda t: t.rename_branch("fix", "xif"), moved=("fix", "xif")),
    "rename_branch, empty": Verb(lambda t: t.rename_branch("empty", "e"), moved=("empty", "e")),
    "delete_branch": Verb(lambda t: t.delete_branch("fix")),
}
PUBLISHING = {
    "merge_branch": Verb(lambda t: t.merge_branch("fix", if_main_moved="replace")),
    "merge_branch, no backup": Verb(lambda t: t.merge_branch("fix", if_main_moved="replace", backup=False)),
    "fast_forward": Verb(lambda t: t.fast_forward("untouched")),
    "fast_forward, no backup": Verb(lambda t: t.fast_forward("untouched", backup=False)),
    "replace_main": Verb(lambda t: t.replace_main("fix")),
}


def files_of(root: Path) -> Files:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def the_table(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Main 1 (`v1`), 2, savepoint; `fix` of v1 with two schemas of its own, that main has otherwise, and a child."""
    table = new_table(tmp_path_factory.mktemp("moments"), **{"write-only": "true"})
    put(table, k1="a")
    table.create_tag("v1")
    table.create_branch("fix", tag="v1")
    table.create_branch("untouched", tag="v1")
    put(table, k2="b")
    table.alter(add={"main_only": "STRING"})
    table.alter(add={"main_too": "STRING"})
    table.create_tag("v2")
    table.create_savepoint()
    for name, value in (("n", 7), ("m", 8)):
        fix = table.branch("fix").alter(add={name: "INT"})
        row = {"k": pa.array([value], pa.int64()), "v": ["right"], "n": pa.array([value], pa.int32())}
        if name == "m":
            row["m"] = pa.array([value], pa.int32())
        fix.write(pa.table(row))
    table.branch("fix").compact(full=True)
    table.branch("fix").create_tag("checked")
    table.branch("fix").create_branch("child", tag="checked")
    table.branch("fix").create_branch("empty", empty=True)
    return files_of(Path(table.handle.layout.root))


def planting(files: Files, where: str, tmp_path: Path) -> Plant:
    """Copies of a table: in memory, a store that copies to move; or local, where directories move at once."""

    def local(name: str) -> tuple[Store, str]:
        for path, data in files.items():
            place = tmp_path / name / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        return open_store(str(tmp_path / name))

    def memory(name: str) -> tuple[Store, str]:
        store, root = open_store(f"memory:///{tmp_path.name}/{name}")
        for path, data in files.items():
            fsspec.filesystem("memory").pipe_file(f"{root}/{path}", data)
        return store, root

    return local if where == "local" else memory


def check(verb: Verb, found: list[Moment]) -> None:
    """Each ref has its old or its new state at every moment, and all have the one or the other after the repair."""
    old, new = found[0].seen, found[-1].repaired
    assert old != new or verb.moved is None
    for moment in found:
        about = f"after {moment.changes} changes"
        for key in {*old, *new, *moment.seen}:
            assert moment.seen.get(key) in (old.get(key), new.get(key)), f"{key} {about}"
        if verb.moved is not None:
            there = [name for name in verb.moved if (name, "") in moment.seen]
            assert len(there) == 1, f"{there or 'neither'} {about}"
            assert set(verb.moved) & moment.foreign, f"no whole branch for other engines {about}"
        assert moment.repaired in (old, new), about
    assert found[-1].over and len(found) > 2


@pytest.mark.parametrize("verb", VERBS)
def test_each_ref_is_where_it_was_or_will_be(verb: str, the_table: Files, tmp_path: Path) -> None:
    check(VERBS[verb], list(moments(planting(the_table, "memory", tmp_path), VERBS[verb].act)))


@pytest.mark.parametrize("where", ["memory", "local"])
@pytest.mark.parametrize("verb", OF_BRANCHES)
def test_a_branch_is_whole_and_under_one_name(verb: str, where: str, the_table: Files, tmp_path: Path) -> None:
    asked = OF_BRANCHES[verb]
    check(asked, list(moments(planting(the_table, where, tmp_path), asked.act, asked.moved or ())))


@pytest.mark.parametrize("verb", ["rename_branch", "delete_branch"])
def test_a_branch_is_whole_in_whichever_order_files_go(verb: str, the_table: Files, tmp_path: Path) -> None:
    asked = OF_BRANCHES[verb]
    plant = planting(the_table, "memory", tmp_path)
    check(asked, list(moments(plant, asked.act, asked.moved or (), backwards=True)))


@pytest.mark.parametrize("new", ["a", "xif"])
@pytest.mark.parametrize("where", ["memory", "local"])
def test_a_list_of_branches_made_while_one_is_renamed_has_it_once(
    where: str, new: str, the_table: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Renamed just before each of the requests that listing takes."""
    plant, real = planting(the_table, where, tmp_path), FaultStore._call
    for at in range(1, 50):
        inner, root = plant(str(at))
        reader, writer = (Table(open_table(store, root, name="db.t")) for store in (FaultStore(inner), inner))
        left = [at]

        def call(self: FaultStore, *given: Any, left: list[int] = left, writer: Table = writer) -> Any:
            left[0] -= 1
            if left[0] == 0:
                writer.rename_branch("fix", new)
            return real(self, *given)

        with monkeypatch.context() as patched:
            patched.setattr(FaultStore, "_call", call)
            names = list_branch_names(reader.handle)
        inner.delete_tree(root)
        assert len({"fix", new} & set(names)) == 1, f"renamed before request {at}: {names}"
        assert {"child", "empty", "untouched"} <= set(names)
        if left[0] > 0:
            assert at > 3
            return
    raise AssertionError


@pytest.mark.parametrize("backwards", [False, True], ids=["", "backwards"])
@pytest.mark.parametrize("verb", PUBLISHING)
def test_publishing_moves_all_refs_of_main_at_once(
    verb: str, backwards: bool, the_table: Files, tmp_path: Path
) -> None:
    step = 1 if NIGHTLY else 6
    plant = planting(the_table, "memory", tmp_path)
    found = list(moments(plant, PUBLISHING[verb].act, backwards=backwards, step=step))
    check(PUBLISHING[verb], found)
    old, new = ({k: v for k, v in seen.items() if k[0] == "main"} for seen in (found[0].seen, found[-1].repaired))
    for moment in found:
        assert {k: v for k, v in moment.seen.items() if k[0] == "main"} in (old, new), moment.changes


def test_a_tag_that_is_renamed_is_there_under_both_names_or_one(the_table: Files, tmp_path: Path) -> None:
    found = list(moments(planting(the_table, "memory", tmp_path), lambda t: t.rename_tag("v1", "one")))
    check(Verb(lambda t: None), found)
    for moment in found:
        there = {name for name in ("v1", "one") if ("main", name) in moment.seen}
        assert there, f"neither after {moment.changes} changes"
    assert ("main", "one") in found[-1].seen and ("main", "v1") not in found[-1].seen


def test_rolling_back_keeps_the_head_old_or_new(the_table: Files, tmp_path: Path) -> None:
    """Snapshots between go one by one; what is asked for by id is there or not."""
    found = list(moments(planting(the_table, "memory", tmp_path), lambda t: t.rollback_to("v1")))
    heads = [moment.seen["main", ""][1][-1] for moment in found]
    assert set(heads) == {heads[0], heads[-1]}
    assert all(moment.repaired in (found[0].seen, found[-1].repaired) for moment in found)


def catalog_moments(
    files: Files, tmp_path: Path, act: Callable[[Catalog], Any], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Catalog, Store, str]]:
    """A verb of the catalog of `db.t`, in memory, killed after each third change; the last time it ends."""
    for changes in range(0, 1000, 3):
        inner, root = planting(files, "memory", tmp_path)(f"{changes}/db.db/t")
        store = StepwiseStore(inner)
        store.arm(Fault(max(changes, 1), after=changes > 0, forever=True, retryable=False, verbs=MUTATING))
        catalog = paimon_spark.load_catalog(f"memory:///{tmp_path.name}/{changes}")
        with monkeypatch.context() as patched, suppress(PaimonError):
            patched.setattr(of_catalog, "open_store", lambda url, options, s=store: (s, open_store(url, options)[1]))
            act(catalog)
        yield catalog, inner, root
        inner.delete_tree(root.rpartition("/")[0])
        if not store.failed:
            return


def test_a_table_that_is_renamed_by_copying_is_whole(
    the_table: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner, root = planting(the_table, "memory", tmp_path)("whole")
    state, names = seen(inner, root, frozenset()), []
    for catalog, store, place in catalog_moments(
        the_table, tmp_path, lambda c: c.rename_table("db.t", "db.u"), monkeypatch
    ):
        names.append(catalog.list_tables("db"))
        whole = [name for name in names[-1] if seen(store, place[:-1] + name, frozenset()) == state]
        assert whole and ("u" not in names[-1] or "u" in whole), f"{whole} of {names[-1]}"
    assert names[0] == ["t"] and names[-1] == ["u"]


def test_a_table_that_is_dropped_is_whole_or_empty_or_gone(
    the_table: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = []
    for catalog, store, root in catalog_moments(the_table, tmp_path, lambda c: c.drop_table("db.t"), monkeypatch):
        there = is_table(store, root)
        heads.append([s.id for s in catalog.table("db.t").snapshots()][-1:] if there else None)
    assert heads == sorted(heads, key=lambda head: (head is None, head == [])) and {str(h) for h in heads} == {
        "[3]", "[]", "None"
    }  # fmt: skip
