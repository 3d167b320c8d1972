"""Random histories of main and a branch, rebased again and again: rows, columns, options and tags as a model has them.

Both sides write, delete, compact, expire, add, drop and rename columns, set options; main gets tags. Two other writers
commit to main in the middle of the rebase: one at any of its calls to the store, one right before its commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark import Table
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.errors import BranchDivergedError, CommitConflictError, UnsupportedFeatureError
from paimon_spark.metadata.retry import now_ms
from paimon_spark.storage.local import LocalStore
from paimon_spark.versioning.merge import REBASE_PROPERTY, MergeResult
from tests.harness.table_files import missing_files

Row = dict[str, Any]
KEYS: Final = range(12)
RACING: Final = (98, 99)
"""Keys of the writers that commit during a rebase."""
OPTION: Final = "snapshot.num-retained.max"
KINDS: Final[dict[str, dict[str, str]]] = {
    "fixed": {"bucket": "2"},
    "dynamic": {"bucket": "-1"},
    "vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
    "partial": {
        "bucket": "1",
        "merge-engine": "partial-update",
        "partial-update.remove-record-on-delete": "true",
    },
}


@dataclass
class Side:
    """What one side has.

    Attributes:
        rows: key → values by the first name of their column.
        names: first name of a column → its name.
        ever: columns that it has had.
    """

    rows: dict[int, Row] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=lambda: {"a": "a", "v": "v"})
    ever: set[str] = field(default_factory=lambda: {"a", "v"})
    option: str | None = None

    def copy(self) -> Side:
        rows = {key: dict(row) for key, row in self.rows.items()}
        return Side(rows, dict(self.names), set(self.ever), self.option)

    def known(self, key: int, columns: list[str]) -> list[Any] | None:
        row = self.rows.get(key)
        return None if row is None else [row.get(c) for c in columns]


class ContradictionError(Exception):
    """Both sides changed the definition in different ways."""


def merged(base: Side, theirs: Side, main: Side, on_conflict: str, *, later: bool) -> tuple[Side, int, int]:
    """Main after a rebase, and the numbers of rows that it changes and of conflicts."""
    out = main.copy()
    for c, name in theirs.names.items():
        if c not in base.names:
            out.names.setdefault(c, name)
        elif c in main.names and name != base.names[c] and name != main.names[c]:
            if main.names[c] != base.names[c]:
                raise ContradictionError(c)
            out.names[c] = name
    for c, name in base.names.items():
        if c not in theirs.names and c in main.names:
            if main.names[c] != name:
                raise ContradictionError(c)
            del out.names[c]
        if c in theirs.names and c not in main.names and theirs.names[c] != name:
            raise ContradictionError(c)
    if theirs.option not in (base.option, main.option):
        if main.option != base.option:
            raise ContradictionError(OPTION)
        out.option = theirs.option
    out.ever |= out.names.keys()
    shared = [c for c in out.names if c in theirs.names and c in main.names]
    of_main = [c for c in out.names if c not in theirs.names]
    of_branch = [c for c in out.names if c not in main.names]
    out.rows = {k: {c: row.get(c) for c in out.names} for k, row in main.rows.items()}
    changes = conflicts = 0
    for key in KEYS:
        b, t, m = (side.known(key, shared) for side in (base, theirs, main))
        tb = theirs.known(key, of_branch)
        if (b, base.known(key, of_branch)) == (t, tb):
            continue
        if t == m and (t is None or not any(v is not None for v in tb or [])):
            continue
        main_changed = b != m or (t is None and base.known(key, of_main) != main.known(key, of_main))
        mixed = None not in (b, t, m) and (b == t or t == m)
        conflict = main_changed and not mixed and t != m
        conflicts += conflict
        if conflict and not (on_conflict == "theirs" or (on_conflict == "newest" and later)):
            continue
        changes += 1
        if t is None:
            del out.rows[key]
            continue
        source = main if m is not None and (b == t or t == m) else theirs
        row = dict(zip(shared, source.known(key, shared) or [], strict=True))
        row |= dict(zip(of_branch, tb or [], strict=True))
        out.rows[key] = row | {c: main.rows.get(key, {}).get(c) for c in of_main}
    return out, changes, conflicts


class History:
    """A table and its branch, and what both should have."""

    def __init__(self, folder: Path, kind: str, random: Random) -> None:
        catalog = paimon_spark.load_catalog(str(folder / "wh"))
        catalog.create_database("d")
        self.partial = kind == "partial"
        self.random = random
        self.table = catalog.create_table(
            "d.t", "k BIGINT, a BIGINT, v STRING", primary_keys=["k"], options=KINDS[kind]
        )
        self.main = Side()
        self.put(self.table, self.main, "base", keys=[0, 1, 2, 3])
        self.act(self.table, self.main, "base")
        self.table.create_branch("fix")
        self.theirs, self.fork = self.main.copy(), self.main.copy()
        self.rebased: Side | None = None
        self.tags: list[str] = []

    @property
    def base(self) -> Side:
        """The branch at the last rebase, else where it left main."""
        return self.fork if self.rebased is None else self.rebased

    @property
    def on_main(self) -> Table:
        return paimon_spark.load_table(self.table.handle.location)

    @property
    def on_branch(self) -> Table:
        return self.on_main.branch("fix")

    def put(self, table: Table, side: Side, who: str, keys: list[int] | None = None) -> None:
        chosen = self.random.sample(KEYS, self.random.randint(1, 5)) if keys is None else keys
        kinds = {
            f.name: pa.string() if f.name == side.names.get("v") else pa.int64() for f in table.handle.schema.fields
        }
        rows = []
        for key in chosen:
            row: Row = {"k": key}
            for c, name in side.names.items():
                number = self.random.randrange(3)
                row[name] = f"{who}{number}" if c == "v" else number
                if self.random.random() < 0.2:
                    row[name] = None
                old = side.rows.get(key, {}).get(c)
                side.rows.setdefault(key, {})[c] = old if row[name] is None and self.partial else row[name]
            side.rows[key] = {c: side.rows[key].get(c) for c in side.names}
            rows.append(row)
        table.write(pa.Table.from_pylist(rows, schema=pa.schema(kinds)))

    def act(self, table: Table, side: Side, who: str) -> None:
        for _ in range(self.random.randint(1, 4)):
            table = paimon_spark.load_table(table.handle.location).branch(table.handle.branch)
            verb = self.random.choice(
                ["put"] * 5 + ["delete"] * 2 + ["compact", "expire", "add", "drop", "rename", "set"]
            )
            match verb:
                case "put":
                    self.put(table, side, who)
                case "delete":
                    key = self.random.choice(KEYS)
                    table.delete(f"k = {key}")
                    side.rows.pop(key, None)
                case "compact":
                    table.compact(full=True)
                case "expire":
                    table.expire_snapshots(retain_max=1, retain_min=1, older_than=now_ms())
                case "add":
                    self.add(table, side)
                case "drop" if len(side.names) > 2:
                    column = self.random.choice([c for c in side.names if c != "v"])
                    table.alter(drop=[side.names.pop(column)])
                    side.rows = {k: {c: v for c, v in row.items() if c != column} for k, row in side.rows.items()}
                case "rename" if side.names["v"] == "v" and self.random.random() < 0.5:
                    side.names["v"] = self.random.choice(["text", "words"])
                    table.alter(rename={"v": side.names["v"]})
                case "set":
                    side.option = self.random.choice(["400", "500"])
                    table.alter(set_options={OPTION: side.option})

    def add(self, table: Table, side: Side) -> None:
        free = [c for c in ("x", "y", "z") if c not in side.ever]
        if free:
            column = self.random.choice(free)
            side.names[column] = column
            side.ever.add(column)
            table.alter(add={column: "BIGINT"})

    def tag(self) -> None:
        name = f"t{len(self.tags)}"
        self.on_main.create_tag(name)
        self.tags.append(name)

    def race(self, key: int) -> None:
        """What another writer commits to main."""
        table = self.on_main
        text = next(f.name for f in table.handle.schema.fields if f.name in ("v", "text", "words"))
        table.write(pa.Table.from_pylist([{"k": key, text: "racing"}]))

    def check(self) -> None:
        """The rows, columns, options and tags of both sides are those of the model."""
        for table, side in ((self.on_main, self.main), (self.on_branch, self.theirs)):
            assert not side.rows.keys() - {*KEYS, *RACING}
            found = {r.pop("k"): r for r in table.scan().to_arrow().to_pylist()}
            expected = {k: {side.names[c]: row.get(c) for c in side.names} for k, row in side.rows.items()}
            assert found == expected
            assert table.handle.schema.options.get(OPTION) == side.option
        assert set(self.tags) <= {t.name for t in self.on_main.tags()}
        assert missing_files(self.table.handle) == []

    def rebase(self, on_conflict: str, **how: Any) -> MergeResult:
        return self.on_main.merge_branch("fix", if_main_moved="rebase", on_conflict=on_conflict, **how)  # type: ignore[arg-type]


@contextmanager
def racing(monkeypatch: pytest.MonkeyPatch, at: int, act: Callable[[int], None]) -> Iterator[None]:
    """Let two writers act once: at the call `at` of a rebase to the store, or after it, and when it is to commit."""
    commit, left, calls = Committer.commit, list(RACING), 0

    def acted(key: int) -> None:
        if key in left:
            left.remove(key)
            try:
                act(key)
            except CommitConflictError:  # a merge holds main, as it has not moved; the writer is told
                left.append(key)

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def made(*args: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == at:
                acted(RACING[0])
            return call(*args, **options)

        return made

    def later(self: Any, *args: Any, **options: Any) -> Any:
        if options.get("only_on") is not None:
            acted(RACING[1])
        return commit(self, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Committer, "commit", later)
        for verb in ("read", "list", "write", "create_exclusive", "open_output", "delete_many"):
            patch.setattr(LocalStore, verb, counted(getattr(LocalStore, verb)))
        yield
    acted(RACING[0])


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[] if n < 5 else pytest.mark.ci) for n in range(50)])
@pytest.mark.parametrize("kind", KINDS)
def test_rebases_equal_the_model(tmp_path: Path, kind: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:  # the rows of each bucket are compared in several parts
        monkeypatch.setattr("paimon_spark.jobs.rebase.rows.PART_ROWS", 3)
    if seed % 5 == 0:  # the keys that are written are not known when others commit
        monkeypatch.setattr("paimon_spark.jobs.rebase.rows.KEY_HASHES", 0)
    random = Random(f"{kind} {seed}")
    history = History(tmp_path, kind, random)
    for _ in range(2):
        history.act(history.on_branch, history.theirs, "fix")
        history.act(history.on_main, history.main, "main")
        if random.random() < 0.3:
            history.tag()
        on_conflict = random.choice(["fail", "ours", "theirs", "newest"])
        heads = [t.snapshots()[-1] for t in (history.on_branch, history.on_main)]
        later = heads[0].time_ms > heads[1].time_ms
        try:
            expected, changes, conflicts = merged(history.base, history.theirs, history.main, on_conflict, later=later)
        except ContradictionError:
            with pytest.raises(BranchDivergedError, match=r"in different ways|not possible on main"):
                history.rebase(on_conflict)
            history.check()
            return
        if conflicts and on_conflict == "fail":
            with pytest.raises(BranchDivergedError, match=f"main changed {conflicts} key"):
                history.rebase(on_conflict)
            history.check()
            return
        planned = history.rebase(on_conflict, dry_run=True)
        history.check()
        if planned.rebased_rows is None and not planned.already_merged:  # main has not moved
            return
        before = heads[1].id
        races = on_conflict != "newest"  # else the time of main's head counts
        with racing(monkeypatch, random.randint(1, 150), history.race if races else lambda _: None):
            done = history.rebase(on_conflict)
        assert (planned.rebased_rows or 0, done.rebased_rows or 0) == (changes, changes)
        assert done.kept_conflicts == (conflicts if on_conflict in ("ours", "newest") else 0) or on_conflict == "newest"
        history.main = expected
        made = [s for s in history.on_main.snapshots() if s.id > before and REBASE_PROPERTY in (s.properties or {})]
        assert bool(made) == bool(changes or done.kept_conflicts)
        if races:
            history.main.rows |= {key: {"v": "racing"} for key in RACING[: 2 if made else 1]}
        if made:
            history.rebased = history.theirs.copy()
        history.check()
        assert history.rebase(on_conflict).already_merged
        history.on_main.compact(full=True)
        history.check()


class Appended:
    """An append table, its branch, and the keys that both should have: no two rows have the same one."""

    def __init__(self, folder: Path, random: Random, options: dict[str, str]) -> None:
        catalog = paimon_spark.load_catalog(str(folder / "wh"))
        catalog.create_database("d")
        self.random, self.next = random, 0
        self.table = catalog.create_table("d.t", "k BIGINT, v STRING", options=options)
        self.main: set[int] = set()
        self.act(self.table, self.main)
        self.put(self.table, self.main)
        self.table.create_branch("fix")
        self.theirs, self.base = set(self.main), set(self.main)

    def put(self, table: Table, keys: set[int]) -> None:
        new = range(self.next, self.next + self.random.randint(1, 4))
        self.next = new.stop
        table.write(pa.table({"k": list(new), "v": ["v"] * len(new)}))
        keys.update(new)

    def act(self, table: Table, keys: set[int]) -> None:
        for _ in range(self.random.randint(1, 4)):
            match self.random.choice(["put", "put", "put", "delete", "compact", "expire"]):
                case "put":
                    self.put(table, keys)
                case "delete" if keys:
                    key = self.random.choice(sorted(keys))
                    table.delete(f"k = {key}")
                    keys.discard(key)
                case "compact":
                    table.compact(full=True)
                case "expire":
                    table.expire_snapshots(retain_max=1, retain_min=1, older_than=now_ms())

    def check(self) -> None:
        for table, keys in ((self.table, self.main), (self.table.branch("fix"), self.theirs)):
            assert sorted(table.scan().to_arrow().column("k").to_pylist()) == sorted(keys)
        assert missing_files(self.table.handle) == []


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[] if n < 5 else pytest.mark.ci) for n in range(40)])
@pytest.mark.parametrize("kind", ["files", "vectors"])
def test_rebases_of_append_tables_equal_the_model(tmp_path: Path, kind: str, seed: int) -> None:
    random = Random(f"{kind} {seed}")
    told = Appended(tmp_path, random, {"deletion-vectors.enabled": "true"} if kind == "vectors" else {})
    for _ in range(3):
        told.act(told.table.branch("fix"), told.theirs)
        told.act(told.table, told.main)
        removed, added = told.base - told.theirs, told.theirs - told.base
        head = told.table.snapshots()[-1].id
        try:
            done = told.table.merge_branch("fix", if_main_moved="rebase")
        except (BranchDivergedError, UnsupportedFeatureError):
            assert removed  # main may have the rows in other files by now
            told.check()
            return
        if done.rebased_rows is None and not done.already_merged:  # main had not moved
            return
        told.main = told.main - removed | added
        told.check()
        if done.published_snapshot_id > head:
            told.base = set(told.theirs)
        assert told.table.merge_branch("fix", if_main_moved="rebase").already_merged
        told.table.compact(full=True)
        told.check()
