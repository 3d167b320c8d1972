"""Main as rebases made it: Java and pypaimon read it, Java goes on with it, and rebases of what Java committed.

What is expected is written out here as plain values, so that no reader is compared with readers only.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.errors import BranchDivergedError
from paimon_spark.format.metadata_files.snapshot import CommitKind
from tests.harness.row_updates import update
from tests.harness.rows import Row, assert_same_rows, rows_of
from tests.harness.table_files import missing_files
from tests.interop.comparing import disagreement, version_options
from tests.interop.java_paimon import JavaPaimon
from tests.interop.pypaimon_peer import PyPaimon

pytestmark = pytest.mark.interop

Act: TypeAlias = Callable[[Table], None]
Rows: TypeAlias = list[tuple[Any, ...]]

SUM: Final = {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}
REMOVING_SUM: Final = {**SUM, "aggregation.remove-record-on-delete": "true"}
REMOVING_PARTIAL: Final = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
SOON: Final = {"compaction.min.file-num": "2"}
"""So that Java compacts the few files of an append table."""
STRINGS: Final = ("v", "text")


@dataclass(frozen=True)
class Kind:
    """A table `k INT, a BIGINT, v STRING`, what its branch and main do to it, and the rows after each rebase.

    Attributes:
        keys, options: of the table.
        on_branch, on_main: what they do before the rebase.
        columns: of main after it.
        expected: rows after it.
        replaced: rows were removed and written anew, and therefore compacted.
        java: calls by which Java goes on.
        extended: rows after these, and after Java compacted them.
        again: what the branch does before the next rebase.
        final: rows after that.
        pypaimon_refuses: part of what pypaimon says to such tables.
    """

    keys: list[str]
    options: dict[str, str]
    on_branch: Act
    on_main: Act
    columns: tuple[str, ...]
    expected: Rows
    java: list[dict[str, Any]]
    extended: Rows
    again: Act
    final: Rows
    replaced: bool = False
    pypaimon_refuses: str | None = None
    base: Rows = field(default_factory=lambda: [(1, 1, "base"), (2, 1, "base"), (3, 1, "base")])


def put(table: Table, rows: Rows, columns: str = "k a v") -> None:
    """Write rows and compact nothing."""
    names = columns.split()
    types = {n: pa.string() if n in STRINGS else pa.int64() if n == "a" else pa.int32() for n in names}
    data = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], pa.schema(types))
    more: dict[str, Any] = {"write-only": True}
    table.write(data, **more)


def folded(table: Table) -> None:
    """Compact a branch and expire the records that made its rows."""
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=datetime.now(UTC))


def again(table: Table) -> Table:
    """The table, or branch, as it is defined now."""
    return paimon_spark.load_table(table.handle.location)


def path_of(table: Table) -> str:
    """Where the table is, as the peers take it."""
    return table.location.removeprefix("file://")


def named(columns: tuple[str, ...], rows: Rows) -> list[Row]:
    """The rows as readers give them."""
    return [dict(zip(columns, row, strict=True)) for row in rows]


def altered_branch(fix: Table) -> None:
    fix.alter(add={"n": "INT"}, rename={"v": "text"})
    fix = again(fix).branch("fix")
    put(fix, [(1, 10, "fix", 5), (5, 5, "fix", 6)], "k a text n")
    fix.delete("k = 2")


def altered_main(main: Table) -> None:
    main.alter(add={"m": "INT"})
    put(again(main), [(3, 30, "main", 7), (4, 4, "main", 8)], "k a v m")


def summed_branch(fix: Table) -> None:
    put(fix, [(1, 10, None), (4, 2, "fix")])
    put(fix, [(1, 100, "fix")])


def replaced_sums(fix: Table) -> None:
    put(fix, [(1, 10, "fix"), (4, 2, "fix")])
    fix.delete("k = 3")
    folded(fix)


def replaced_sums_again(fix: Table) -> None:
    fix.delete("k = 4")
    put(fix, [(4, 20, None)])


def lost_value(fix: Table) -> None:
    fix.delete("k = 1")
    put(fix, [(1, 2, None), (4, 4, None)])


def lost_value_again(fix: Table) -> None:
    fix.delete("k = 4")
    put(fix, [(4, None, "again")])


def widened_branch(fix: Table) -> None:
    fix.alter(add={"n": "INT"})
    fix = again(fix).branch("fix")
    put(fix, [(5, 5, "fix", 6), (5, 5, "fix", 6)], "k a v n")
    fix.delete("k = 1")


def deleting_branch(fix: Table) -> None:
    fix.delete("k = 1 OR k = 3")
    put(fix, [(5, 5, "fix"), (6, 6, "fix")])
    fix.delete("k = 6")


def deleting_main(main: Table) -> None:
    put(main, [(4, 4, "main"), (7, 7, "main")])
    main.delete("k = 2 OR k = 7")


def correcting_branch(fix: Table) -> None:
    update(fix, "k = 1", "v", "fix")
    fix.delete("k = 2")
    put(fix, [(5, 5, "fix")])


def correcting_main(main: Table) -> None:
    update(main, "k = 3", "a", 30)
    put(main, [(4, 4, "main")])
    main.compact(full=True)


def written(*rows: list[Any] | dict[str, Any]) -> dict[str, Any]:
    return {"op": "write", "rows": list(rows)}


def removed(*values: Any) -> dict[str, Any]:
    return {"$k": "-D", "v": list(values)}


KINDS: Final = {
    "keys_altered_on_both": Kind(
        keys=["k"],
        options={"bucket": "2"},
        on_branch=altered_branch,
        on_main=altered_main,
        columns=("k", "a", "text", "m", "n"),
        expected=[
            (1, 10, "fix", None, 5),
            (3, 30, "main", 7, None),
            (4, 4, "main", 8, None),
            (5, 5, "fix", None, 6),
        ],
        java=[written([1, 11, "java", 1, 2], [6, 6, "java", None, 6], removed(5, 5, "fix", None, 6))],
        extended=[
            (1, 11, "java", 1, 2),
            (3, 30, "main", 7, None),
            (4, 4, "main", 8, None),
            (6, 6, "java", None, 6),
        ],
        again=lambda fix: put(fix, [(7, 7, "again", 8)], "k a text n"),
        final=[
            (1, 11, "java", 1, 2),
            (3, 30, "main", 7, None),
            (4, 4, "main", 8, None),
            (6, 6, "java", None, 6),
            (7, 7, "again", None, 8),
        ],
    ),
    "sums_on_top": Kind(
        keys=["k"],
        options={"bucket": "1", **SUM},
        on_branch=summed_branch,
        on_main=lambda main: put(main, [(2, 5, "main"), (5, 7, "main")]),
        columns=("k", "a", "v"),
        expected=[(1, 111, "fix"), (2, 6, "main"), (3, 1, "base"), (4, 2, "fix"), (5, 7, "main")],
        java=[written([1, 1000, None], [2, None, "java"], [6, 3, "java"])],
        extended=[(1, 1111, "fix"), (2, 6, "java"), (3, 1, "base"), (4, 2, "fix"), (5, 7, "main"), (6, 3, "java")],
        again=lambda fix: put(fix, [(3, 20, None)]),
        final=[(1, 1111, "fix"), (2, 6, "java"), (3, 21, "base"), (4, 2, "fix"), (5, 7, "main"), (6, 3, "java")],
    ),
    "sums_replaced": Kind(
        keys=["k"],
        options={"bucket": "1", **REMOVING_SUM},
        on_branch=replaced_sums,
        on_main=lambda main: put(main, [(2, 5, "main"), (5, 7, "main")]),
        columns=("k", "a", "v"),
        expected=[(1, 11, "fix"), (2, 6, "main"), (4, 2, "fix"), (5, 7, "main")],
        java=[written([1, 100, None], removed(2, None, None), [3, 9, "java"])],
        extended=[(1, 111, "fix"), (3, 9, "java"), (4, 2, "fix"), (5, 7, "main")],
        again=replaced_sums_again,
        final=[(1, 111, "fix"), (3, 9, "java"), (4, 20, None), (5, 7, "main")],
        replaced=True,
        pypaimon_refuses="aggregation.remove-record-on-delete",
    ),
    "partial_lost_a_value": Kind(
        keys=["k"],
        options={"bucket": "1", **REMOVING_PARTIAL},
        on_branch=lost_value,
        on_main=lambda main: put(main, [(2, 5, None), (5, None, "main")]),
        columns=("k", "a", "v"),
        expected=[(1, 2, None), (2, 5, "base"), (3, 1, "base"), (4, 4, None), (5, None, "main")],
        java=[written([1, None, "java"], removed(3, None, None), [6, 6, None])],
        extended=[(1, 2, "java"), (2, 5, "base"), (4, 4, None), (5, None, "main"), (6, 6, None)],
        again=lost_value_again,
        final=[(1, 2, "java"), (2, 5, "base"), (4, None, "again"), (5, None, "main"), (6, 6, None)],
        replaced=True,
        pypaimon_refuses="partial-update.remove-record-on-delete",
    ),
    "append_widened": Kind(
        keys=[],
        options=SOON,
        on_branch=widened_branch,
        on_main=lambda main: put(main, [(4, 4, "main")]),
        columns=("k", "a", "v", "n"),
        expected=[(2, 1, "base", None), (3, 1, "base", None), (4, 4, "main", None), (5, 5, "fix", 6), (5, 5, "fix", 6)],
        java=[written([6, 6, "java", 7])],
        extended=[
            (2, 1, "base", None),
            (3, 1, "base", None),
            (4, 4, "main", None),
            (5, 5, "fix", 6),
            (5, 5, "fix", 6),
            (6, 6, "java", 7),
        ],
        again=lambda fix: put(fix, [(7, 7, "again", 8)], "k a v n"),
        final=[
            (2, 1, "base", None),
            (3, 1, "base", None),
            (4, 4, "main", None),
            (5, 5, "fix", 6),
            (5, 5, "fix", 6),
            (6, 6, "java", 7),
            (7, 7, "again", 8),
        ],
    ),
    "append_with_vectors": Kind(
        keys=[],
        options={"deletion-vectors.enabled": "true", **SOON},
        on_branch=deleting_branch,
        on_main=deleting_main,
        columns=("k", "a", "v"),
        expected=[(4, 4, "main"), (5, 5, "fix"), (8, 1, "base")],
        java=[written([9, 9, "java"], [10, 10, "java"]), {"op": "deleteRows", "column": "k", "values": [4, 10]}],
        extended=[(5, 5, "fix"), (8, 1, "base"), (9, 9, "java")],
        again=lambda fix: put(fix, [(11, 11, "again")]),
        final=[(5, 5, "fix"), (8, 1, "base"), (9, 9, "java"), (11, 11, "again")],
        base=[(1, 1, "base"), (2, 1, "base"), (3, 1, "base"), (8, 1, "base")],
    ),
    **{
        name: Kind(
            keys=[],
            options={"deletion-vectors.enabled": "true", "row-tracking.enabled": "true", **SOON, **options},
            on_branch=correcting_branch,
            on_main=correcting_main,
            columns=("k", "a", "v"),
            expected=[(1, 1, "fix"), (3, 30, "base"), (4, 4, "main"), (5, 5, "fix")],
            java=[written([6, 6, "java"])],
            extended=[(1, 1, "fix"), (3, 30, "base"), (4, 4, "main"), (5, 5, "fix"), (6, 6, "java")],
            again=lambda fix: update(fix, "k = 1", "v", "again"),
            final=[(1, 1, "again"), (3, 30, "base"), (4, 4, "main"), (5, 5, "fix"), (6, 6, "java")],
        )
        for name, options in {"rows_with_ids": {}, "changed_columns": {"data-evolution.enabled": "true"}}.items()
    },
}


@dataclass(frozen=True)
class Readers:
    """We, Java and pypaimon, all of whom read what is expected.

    `refused`: part of what pypaimon says instead of rows.
    """

    path: str
    java: JavaPaimon
    py: PyPaimon
    refused: str | None = None

    def agree(self, columns: tuple[str, ...], expected: Rows, about: str) -> None:
        """Main has these rows for all, and every other version reads alike."""
        want = named(columns, expected)
        table = paimon_spark.load_table(self.path)
        assert tuple(f.name for f in table.handle.schema.fields) == columns
        assert_same_rows(want, rows_of(table.scan().to_arrow()), about=f"we, {about}")
        assert_same_rows(want, self.java.call("read", path=self.path)["rows"], about=f"Java, {about}")
        self._versions_agree("Java", self.java.call("versions", path=self.path)["versions"], about)
        theirs = self.py.attempt("read", path=self.path)
        if self.refused is None:
            assert "error" not in theirs, f"pypaimon, {about}: {theirs['error']}"
            assert_same_rows(want, theirs["rows"], about=f"pypaimon, {about}")
            self._versions_agree("pypaimon", self.py.call("versions", path=self.path), about)
        else:
            assert "NotImplementedError" in theirs["error"] and self.refused in theirs["error"], theirs
        assert missing_files(table.handle) == []

    def _versions_agree(self, peer: str, replies: dict[str, Any], about: str) -> None:
        assert len(replies) > 2
        for label, reply in replies.items():
            assert "error" not in reply, f"{peer}, {about}, {label}: {reply['error']}"
            found = disagreement(self.path, reply, options=version_options(label))
            assert found is None, f"{peer}, {about}, {label}: {found}"


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """A folder that the peers' catalogs open as a warehouse."""
    return tmp_path / "wh"


def created(java: JavaPaimon, warehouse: Path, keys: list[str], options: dict[str, str]) -> str:
    """The path of a new table, made by Java."""
    path = str(warehouse / "db.db" / "t")
    fields = [["k", "INT NOT NULL"], ["a", "BIGINT"], ["v", "STRING"]]
    java.call("createTable", path=path, fields=fields, pk=keys, partition=[], tableOptions=options, comment=None)
    return path


def rebased(kind: Kind, java: JavaPaimon, warehouse: Path) -> tuple[Table, int]:
    """The table, and the snapshot of main that a first rebase published."""
    table = paimon_spark.load_table(created(java, warehouse, kind.keys, kind.options))
    put(table, kind.base)
    if kind.replaced:  # rows of the highest level, which only a full compaction merges with later ones
        table.compact(full=True)
    table.create_branch("fix")
    kind.on_branch(table.branch("fix"))
    kind.on_main(table)
    done = again(table).merge_branch("fix", if_main_moved="rebase")
    return again(table), done.published_snapshot_id


@pytest.mark.parametrize("name", KINDS)
def test_peers_read_a_rebased_main_and_java_goes_on(name: str, java: JavaPaimon, py: PyPaimon, warehouse: Path) -> None:
    kind = KINDS[name]
    table, published = rebased(kind, java, warehouse)
    path = path_of(table)
    readers = Readers(path, java, py, kind.pypaimon_refuses)
    since = [s.commit_kind for s in table.snapshots() if s.id > published]
    assert since == []
    at_published = java.call("read", path=path, options={"scan.snapshot-id": str(published)})["rows"]
    assert_same_rows(named(kind.columns, kind.expected), at_published, about="Java, before our compaction")
    readers.agree(kind.columns, kind.expected, "after the rebase")

    for call in kind.java:
        java.call(path=path, **call)
    readers.agree(kind.columns, kind.extended, "after Java went on")
    java.call("compact", path=path)
    assert table.snapshots()[-1].commit_kind is CommitKind.COMPACT
    readers.agree(kind.columns, kind.extended, "after Java compacted")

    kind.again(again(table).branch("fix"))
    again(table).merge_branch("fix", if_main_moved="rebase")
    readers.agree(kind.columns, kind.final, "after the next rebase")
    java.call("compact", path=path)
    java.call("expireSnapshots", path=path, retain=1)
    readers.agree(kind.columns, kind.final, "after Java expired main")
    # Which takes the snapshots of the rebases, too, so that the next begins at the fork. Nothing is written twice.
    with suppress(BranchDivergedError):
        assert again(table).merge_branch("fix", if_main_moved="rebase").already_merged
    readers.agree(kind.columns, kind.final, "after the last rebase")


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.replaced])
def test_java_compacts_replaced_rows_that_we_did_not(
    name: str, java: JavaPaimon, py: PyPaimon, warehouse: Path
) -> None:
    """As after a rebase that died between its commit and its compaction."""
    kind = KINDS[name]
    table, published = rebased(kind, java, warehouse)
    table.rollback_to(published)
    path = path_of(table)
    readers = Readers(path, java, py, kind.pypaimon_refuses)
    readers.agree(kind.columns, kind.expected, "before any compaction")
    for call in kind.java:
        java.call(path=path, **call, options={"write-only": "true"})
    readers.agree(kind.columns, kind.extended, "after Java went on")
    java.call("compact", path=path, full=True)
    assert table.snapshots()[-1].commit_kind is CommitKind.COMPACT
    readers.agree(kind.columns, kind.extended, "after Java compacted")


@dataclass(frozen=True)
class JavasKind:
    """A table whose commits are Java's: on the branch, in two parts, and on main; and the rows after each rebase."""

    keys: list[str]
    options: dict[str, str]
    on_branch: list[dict[str, Any]]
    expected: Rows
    later: list[dict[str, Any]]
    final: Rows


BASE: Final[list[Any]] = [[1, 1, "base"], [2, 1, "base"], [3, 1, "base"]]
JAVAS_KINDS: Final = {
    "keys": JavasKind(
        keys=["k"],
        options={"bucket": "2"},
        on_branch=[written([1, 10, "fix", 5], [5, 5, "fix", 6], removed(2, 1, "base", None))],
        expected=[(1, 10, "fix", 5), (3, 1, "base", None), (4, 4, "main", None), (5, 5, "fix", 6)],
        later=[written([3, 30, "later", 7], removed(5, 5, "fix", 6))],
        final=[(1, 10, "fix", 5), (3, 30, "later", 7), (4, 4, "main", None), (6, 6, "main", 8)],
    ),
    "sums": JavasKind(
        keys=["k"],
        options={"bucket": "1", **SUM},
        on_branch=[written([1, 10, None, 5]), written([1, 100, "fix", None], [5, 5, "fix", 6])],
        expected=[
            (1, 111, "fix", 5),
            (2, 1, "base", None),
            (3, 1, "base", None),
            (4, 4, "main", None),
            (5, 5, "fix", 6),
        ],
        later=[written([3, 30, "later", 7], [5, 50, None, None])],
        final=[
            (1, 111, "fix", 5),
            (2, 1, "base", None),
            (3, 31, "later", 7),
            (4, 4, "main", None),
            (5, 55, "fix", 6),
            (6, 6, "main", 8),
        ],
    ),
    "append": JavasKind(
        keys=[],
        options=SOON,
        on_branch=[written([5, 5, "fix", 6]), written([1, 1, "base", 5])],
        expected=[
            (1, 1, "base", None),
            (1, 1, "base", 5),
            (2, 1, "base", None),
            (3, 1, "base", None),
            (4, 4, "main", None),
            (5, 5, "fix", 6),
        ],
        later=[written([7, 7, "later", 7])],
        final=[
            (1, 1, "base", None),
            (1, 1, "base", 5),
            (2, 1, "base", None),
            (3, 1, "base", None),
            (4, 4, "main", None),
            (5, 5, "fix", 6),
            (6, 6, "main", 8),
            (7, 7, "later", 7),
        ],
    ),
    "append_with_vectors": JavasKind(
        keys=[],
        options={"deletion-vectors.enabled": "true", **SOON},
        on_branch=[
            {"op": "deleteRows", "column": "k", "values": [2]},
            written([5, 5, "fix", 6], [8, 8, "fix", 9]),
            {"op": "deleteRows", "column": "k", "values": [8]},
        ],
        expected=[(1, 1, "base", None), (3, 1, "base", None), (4, 4, "main", None), (5, 5, "fix", 6)],
        later=[written([7, 7, "later", 7], [9, 9, "later", 9]), {"op": "deleteRows", "column": "k", "values": [9]}],
        final=[
            (1, 1, "base", None),
            (3, 1, "base", None),
            (4, 4, "main", None),
            (5, 5, "fix", 6),
            (6, 6, "main", 8),
            (7, 7, "later", 7),
        ],
    ),
}


@pytest.mark.parametrize("compacted", [False, True], ids=["", "compacted"])
@pytest.mark.parametrize("branched_by", ["us", "java"])
@pytest.mark.parametrize("name", JAVAS_KINDS)
def test_what_java_committed_to_both_is_rebased(
    name: str, branched_by: str, compacted: bool, java: JavaPaimon, py: PyPaimon, warehouse: Path
) -> None:
    kind = JAVAS_KINDS[name]
    path = created(java, warehouse, kind.keys, kind.options)
    catalog = {"warehouse": str(warehouse), "cache-enabled": "false"}
    main: dict[str, Any] = {"catalog": catalog, "table": "db.t"}
    fix = {**main, "table": "db.t$branch_fix"}
    columns, readers = ("k", "a", "v", "n"), Readers(path, java, py)
    java.call("write", **main, rows=BASE)
    if branched_by == "us":
        paimon_spark.load_table(path).create_branch("fix")
    else:
        java.call("createTag", **main, name="base")
        java.call("createBranch", **main, name="fix", tag="base")
    java.call("alter", **fix, changes=[{"do": "add", "name": "n", "type": "INT"}])
    for call in kind.on_branch:
        java.call(**call, **fix)
    if compacted:
        java.call("compact", **fix)
    java.call("write", **main, rows=[[4, 4, "main"]])
    if (
        compacted and "deletion-vectors.enabled" not in kind.options
    ):  # else the branch deleted in a file that main lacks
        java.call("compact", **main)

    done = paimon_spark.load_table(path).merge_branch("fix", if_main_moved="rebase")
    assert done.schema_changes == ("column n added",)
    readers.agree(columns, kind.expected, "after the rebase")
    java.call("write", **main, rows=[[6, 6, "main", 8]])
    for call in kind.later:
        java.call(**call, **fix)
    paimon_spark.load_table(path).merge_branch("fix", if_main_moved="rebase")
    readers.agree(columns, kind.final, "after the next rebase")
    java.call("compact", **main)
    readers.agree(columns, kind.final, "after Java compacted")
