"""Many branches of one table at random, against dictionaries, with crashes.

After every step every live version of every branch reads exactly its rows, and heads, tags and schemas are the model's;
after cleaning, the files there are the files that something needs.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from paimon_spark.api.table import Table
from paimon_spark.errors import BranchDivergedError, InvalidInputError, PaimonError, UnsupportedFeatureError
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.maintenance.change import recover
from paimon_spark.maintenance.orphan_files import orphans
from paimon_spark.metadata.handle import open_table
from paimon_spark.storage.urls import open_store
from tests.harness.fault_store import MUTATING, Fault, FaultStore
from tests.harness.real_tables import a_catalog
from tests.harness.search import examples, is_nightly
from tests.harness.table_files import missing_files
from tests.harness.version_model import BranchModel, Model, read, roots_of, shape_of, shape_said

pytestmark = pytest.mark.slow

DEFINITIONS: dict[str, dict[str, Any]] = {
    "keyed": {"primary_keys": ["k"], "options": {"bucket": "2"}},
    "vectors": {"primary_keys": ["k"], "options": {"bucket": "1", "deletion-vectors.enabled": "true"}},
    "append": {"options": {"deletion-vectors.enabled": "true"}},
}
keys = st.integers(0, 5)
pick = st.integers(0, 2**16)


class Branches(RuleBasedStateMachine):
    """Each rule does one thing to the table and to the model."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.counter = 0
        self.fault: Fault | None = None
        self.rebased: set[str] = set()
        self.log: list[str] = []

    @initialize(kind=st.sampled_from(sorted(DEFINITIONS)))
    def create(self, kind: str) -> None:
        self.kind = kind
        fsspec.filesystem("memory").store.clear()
        schema = pa.schema([pa.field("k", pa.int32(), nullable=False), pa.field("v", pa.string())])
        catalog = a_catalog("memory://model/wh")
        catalog.create_table("db.t", schema, **DEFINITIONS[kind])
        inner, self.root = open_store("memory://model/wh/db.db/t", {})
        self.store = FaultStore(inner)

    # What a step needs.

    def open(self, branch: str = "main") -> Table:
        handle = open_table(self.store, self.root, branch, "db.t")
        return Table(handle)

    def branch(self, number: int) -> str:
        names = self.model.names
        return names[number % len(names)]

    def name(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def do(self, what: str, act: Callable[[], Any], after: Callable[[Any], object]) -> None:
        """Do a step to the table and then to the model; killed in the middle, both or neither has happened.

        Where level 0 is hidden, a write killed before its compaction is seen with the next one: such are not killed.
        """
        self.log.append(what)
        if self.fault is None or (self.kind == "vectors" and what.split()[0] in ("write", "overwrite", "delete")):
            after(act())
            return
        before, fault, self.fault = self.model.copy(), self.fault, None
        self.store.arm(fault)
        try:
            result = act()
        except PaimonError:
            result = None
        died = bool(self.store.failed)
        self.store.arm(None)
        if not died:
            after(result)
            return
        self.log.append("killed")
        recover(self.open().handle)
        if shape_of(self.open()) == shape_said(before):
            return
        after(None)

    def ids(self, branch: str) -> list[int]:
        """Snapshots alive; where level 0 is hidden, those that show all that was written."""
        snapshots = self.open(branch).snapshots()
        return [s.id for s in snapshots if self.kind != "vectors" or s.commit_kind is not CommitKind.APPEND]

    def made(self, branch: str, rows: dict[Any, tuple[Any, ...]]) -> None:
        """New snapshots of a branch, whose rows are these; where level 0 is hidden, only once it is compacted."""
        line, table = self.model.line(branch), self.open(branch)
        after = tuple(sorted(rows.values(), key=repr))
        before = tuple(sorted(self.model.head_rows(branch).values(), key=repr))
        new = [s for s in table.snapshots() if s.id > line.head]
        for snapshot in new:
            assert snapshot.uuid
            line.history[snapshot.id] = snapshot.uuid
            said = after
            if self.kind == "vectors" and snapshot is not new[-1]:
                said = read(table.at(f"snapshot.{snapshot.id}"))
                assert said in (after, before, ()), self.log[-3:]
            self.model.rows.setdefault(snapshot.uuid, said)

    # Rows.

    @rule(number=pick, new=st.dictionaries(keys, st.sampled_from("abc"), min_size=1, max_size=3))
    def write(self, number: int, new: dict[int, str]) -> None:
        branch = self.branch(number)
        line, rows = self.model.line(branch), self.model.head_rows(branch)
        if self.kind == "append":
            new = {k: v for k, v in new.items() if k not in rows}
            if not new:
                return
        rows.update({k: (k, v, *(k * 10 for _ in line.columns)) for k, v in new.items()})
        data = self.batch(line, new)
        self.do(f"write {branch} {new}", lambda: self.open(branch).write(data), lambda _: self.made(branch, rows))

    @rule(number=pick, new=st.dictionaries(keys, st.sampled_from("xyz"), max_size=2))
    def overwrite(self, number: int, new: dict[int, str]) -> None:
        branch = self.branch(number)
        line = self.model.line(branch)
        rows = {k: (k, v, *(k * 10 for _ in line.columns)) for k, v in new.items()}
        data = self.batch(line, new)
        self.do(
            f"overwrite {branch} {new}",
            lambda: self.open(branch).write(data, mode="overwrite"),
            lambda _: self.made(branch, rows),
        )

    def batch(self, line: BranchModel, new: dict[int, str]) -> pa.Table:
        data = {"k": pa.array(list(new), pa.int32()), "v": pa.array(list(new.values()), pa.string())}
        data |= {c: pa.array([k * 10 for k in new], pa.int32()) for c in line.columns}
        return pa.table(data)

    @rule(number=pick, key=keys)
    def delete_rows(self, number: int, key: int) -> None:
        branch = self.branch(number)
        rows = self.model.head_rows(branch)
        rows.pop(key, None)
        self.do(
            f"delete {branch} {key}", lambda: self.open(branch).delete(f"k = {key}"), lambda _: self.made(branch, rows)
        )

    @rule(number=pick)
    def add_column(self, number: int) -> None:
        branch = self.branch(number)
        line = self.model.line(branch)
        if len(line.columns) < 2 and self.fault is None:
            name = f"c{len(line.columns)}"
            self.open(branch).alter(add={name: "INT"})
            line.columns += (name,)
            line.schemas += (self.name("column"),)
            self.log.append(f"alter {branch}")

    @rule(number=pick)
    def set_option(self, number: int) -> None:
        branch = self.branch(number)
        if self.fault is None:
            made = self.name("option")
            self.open(branch).alter(set_options={"partition.timestamp-pattern": made})
            self.model.line(branch).schemas += (made,)
            self.log.append(f"set option {branch}")

    @rule(number=pick, full=st.booleans())
    def compact(self, number: int, full: bool) -> None:
        branch = self.branch(number)
        rows = self.model.head_rows(branch)
        self.do(
            f"compact {branch} full={full}",
            lambda: self.open(branch).compact(full=full),
            lambda _: self.made(branch, rows),
        )

    @rule(number=pick)
    def compact_manifest(self, number: int) -> None:
        branch = self.branch(number)
        rows = self.model.head_rows(branch)
        self.do(
            f"compact manifests {branch}",
            lambda: self.open(branch).compact_manifest(),
            lambda _: self.made(branch, rows),
        )

    # Tags and savepoints.

    @rule(number=pick, which=pick)
    def create_tag(self, number: int, which: int) -> None:
        branch = self.branch(number)
        ids = self.ids(branch)
        if not ids:
            return
        name, snapshot_id = self.name("tag"), ids[which % len(ids)]
        line = self.model.line(branch)
        self.do(
            f"tag {branch} {name} = {snapshot_id}",
            lambda: self.open(branch).create_tag(name, snapshot_id=snapshot_id),
            lambda _: line_of(self, branch).tags.update({name: (snapshot_id, line.history[snapshot_id])}),
        )

    @rule(number=pick, which=pick, how=st.sampled_from(("delete", "rename", "replace")))
    def change_tag(self, number: int, which: int, how: str) -> None:
        branch = self.branch(number)
        line = self.model.line(branch)
        names = sorted(n for n in line.tags if not n.startswith("savepoint-"))
        if not names or not line.history:
            return
        name = names[which % len(names)]
        if how == "delete":
            self.do(
                f"delete tag {branch} {name}",
                lambda: self.open(branch).delete_tag(name),
                lambda _: line_of(self, branch).tags.pop(name),
            )
        elif how == "rename":
            new = self.name("tag")
            self.do(
                f"rename tag {branch} {name} {new}",
                lambda: self.open(branch).rename_tag(name, new),
                lambda _: line_of(self, branch).tags.update({new: line_of(self, branch).tags.pop(name)}),
            )
        else:
            self.do(
                f"replace tag {branch} {name}",
                lambda: self.open(branch).replace_tag(name),
                lambda _: line_of(self, branch).tags.update({name: (line.head, line.history[line.head])}),
            )

    @rule(number=pick)
    def create_savepoint(self, number: int) -> None:
        branch = self.branch(number)
        rows = self.model.head_rows(branch)
        if not self.model.line(branch).history:
            return

        def after(result: Any) -> None:
            self.made(branch, rows)
            line = line_of(self, branch)
            for tag in self.open(branch).tags(include_internal=True):
                if tag.name.startswith("savepoint-") and tag.name not in line.tags:
                    assert tag.name == f"savepoint-{tag.snapshot.id}"
                    assert tag.snapshot.uuid == line.history[tag.snapshot.id]
                    line.tags[tag.name] = (tag.snapshot.id, tag.snapshot.uuid)
            if result is not None:
                assert f"savepoint-{result.id}" in line.tags

        self.do(f"savepoint {branch}", lambda: self.open(branch).create_savepoint(), after)

    @rule(number=pick, which=pick)
    def delete_savepoint(self, number: int, which: int) -> None:
        branch = self.branch(number)
        names = sorted(n for n in self.model.line(branch).tags if n.startswith("savepoint-"))
        if names:
            name = names[which % len(names)]
            self.do(
                f"delete savepoint {branch} {name}",
                lambda: self.open(branch).delete_savepoint(int(name.removeprefix("savepoint-"))),
                lambda _: line_of(self, branch).tags.pop(name),
            )

    # Branches.

    @precondition(lambda self: len(self.model.lines) < 4)
    @rule(number=pick, which=pick, base=st.sampled_from(("tag", "snapshot", "head", "empty")))
    def create_branch(self, number: int, which: int, base: str) -> None:
        parent = self.branch(number)
        line, name = self.model.line(parent), self.name("b")
        if base == "tag":
            tags = sorted(n for n in line.tags)
            if not tags:
                return
            tag = tags[which % len(tags)]
            snapshot_id, uuid = line.tags[tag]
            made = BranchModel(
                {i: u for i, u in line.history.items() if i <= snapshot_id}, {tag: (snapshot_id, uuid)}, ()
            )
            arguments: dict[str, Any] = {"tag": tag}
        elif base in ("snapshot", "head"):
            ids = self.ids(parent)
            if not ids or (base == "head" and ids[-1] != line.head):
                return
            snapshot_id = line.head if base == "head" else ids[which % len(ids)]
            made = BranchModel({i: u for i, u in line.history.items() if i <= snapshot_id})
            arguments = {} if base == "head" else {"snapshot_id": snapshot_id}
        else:
            made, arguments = BranchModel({}, {}, line.columns), {"empty": True}

        def after(_: Any) -> None:
            schema = self.open(name).schema
            made.columns = tuple(c for c in schema.row_type.names if c not in ("k", "v"))
            made.schemas = line.schemas[: schema.id]
            self.model.lines[name] = made

        self.do(
            f"branch {parent} {name} {arguments}", lambda: self.open(parent).create_branch(name, **arguments), after
        )

    def others(self) -> list[str]:
        return [n for n in self.model.names if n not in ("main", self.model.main_is)]

    @rule(which=pick)
    def delete_branch(self, which: int) -> None:
        names = self.others()
        if names:
            name = names[which % len(names)]
            self.do(
                f"delete branch {name}",
                lambda: self.open().delete_branch(name),
                lambda _: self.model.lines.pop(name),
            )

    @rule(which=pick)
    def rename_branch(self, which: int) -> None:
        names = self.others()
        if names:
            name, new = names[which % len(names)], self.name("r")
            self.do(
                f"rename branch {name} {new}",
                lambda: self.open().rename_branch(name, new),
                lambda _: self.model.lines.update({new: self.model.lines.pop(name)}),
            )

    @rule(
        which=pick,
        at=pick,
        backup=st.booleans(),
        how=st.sampled_from(("merge_branch", "merge_branch", "fast_forward", "replace_main")),
        way=st.sampled_from(("refuse", "replace", "rebase")),
        on_conflict=st.sampled_from(("fail", "ours", "theirs")),
    )
    def publish(self, which: int, at: int, backup: bool, how: str, way: str, on_conflict: str) -> None:
        names = [n for n in self.others() if self.model.lines[n].history]
        if not names or (how == "replace_main" and self.counter % 3):
            return
        name = names[which % len(names)]
        branch, main = self.model.lines[name], self.model.line("main")
        fork = main.fork(branch)
        goes_back = how == "fast_forward"
        alive = [i for i in self.ids(name) if goes_back or i > fork]
        head = branch.head
        arguments: dict[str, Any] = {"backup": backup}
        if how != "replace_main" and alive and at % 3 == 0:
            head = alive[at % len(alive)]
            arguments["snapshot"] = head
        if head <= fork and not goes_back:
            return
        if how == "merge_branch":
            has_moved = self.has_moved(name, fork, head)
            if way == "rebase" and has_moved:
                self.rebase(name, fork, head, on_conflict)
                return
            arguments["if_main_moved"] = way
            if way == "refuse" and has_moved:
                self.log.append(f"refuse {name} fork={fork}")
                with pytest.raises(BranchDivergedError, match="was not merged: main has"):
                    self.open().merge_branch(name, **arguments)
                return
        fork = min(fork, head)
        known = set(self.model.lines)

        def after(_: Any) -> None:
            found = {b.name for b in self.open().branches(include_internal=True)} - known
            old = self.model.line("main")
            discarded = {i: u for i, u in old.history.items() if i > fork}
            lost_tags = {n: t for n, t in old.tags.items() if t[0] > fork}
            assert len(found) <= 1
            if backup and (discarded or lost_tags):
                assert found, "what was discarded is kept"
            for new in found:
                self.model.lines[new] = BranchModel(dict(old.history), lost_tags, old.columns, old.schemas)
                kept = dict(lost_tags.items())
                mine = {
                    t.name: (t.snapshot.id, t.snapshot.uuid or "") for t in self.open(new).tags(include_internal=True)
                }
                self.model.lines[new].tags = kept | {
                    n: t for n, t in mine.items() if n in old.tags and old.tags[n] == t
                }
            kept_tags = {n: t for n, t in old.tags.items() if t[0] <= fork}
            if how == "replace_main":
                self.model.lines.pop(self.model.main_is)
                branch.tags = kept_tags | branch.tags
                self.model.main_is = name
                return
            moved = {n: t for n, t in branch.tags.items() if fork < t[0] <= head}
            if goes_back:
                moved |= {n: t for n, t in branch.tags.items() if t[0] <= fork and n not in kept_tags}
            self.model.lines[self.model.main_is] = BranchModel(
                branch.up_to(head).history, kept_tags | moved, branch.columns, branch.schemas
            )

        argument_text = f"{arguments} fork={fork}"
        self.do(f"{how} {name} {argument_text}", lambda: getattr(self.open(), how)(name, **arguments), after)

    def has_moved(self, name: str, fork: int, head: int) -> bool:
        """Whether main has, since the fork, a commit other than a compaction, a schema, or a tag of a user's."""
        branch, main = self.model.lines[name], self.model.line("main")
        later = [s for s in self.open().snapshots() if s.id > fork]
        has_commits = bool(later) and (
            later[0].id > fork + 1 or any(s.commit_kind is not CommitKind.COMPACT for s in later)
        )
        brought = {n: t for n, t in branch.tags.items() if fork < t[0] <= head}
        has_tags = any(t[0] > fork or brought.get(n, t) != t for n, t in main.tags.items())
        return has_commits or has_tags or main.schemas != branch.schemas[: len(main.schemas)]

    def rebase(self, name: str, fork: int, head: int, on_conflict: str) -> None:
        """Put the changes of a branch on top of main, as the model does it by key; once for each name."""
        branch, main = self.model.lines[name], self.model.line("main")
        if name in self.rebased or main.schemas != branch.schemas or self.fault is not None:
            return
        base, theirs = self.model.rows_at(main, fork), self.model.rows_at(branch, head)
        ours = self.model.head_rows("main")
        changed = {k for k in base.keys() | theirs.keys() if base.get(k) != theirs.get(k)}
        both = {k for k in changed if base.get(k) != ours.get(k)}
        if self.kind == "append" and both:
            return  # rows of equal keys would be there twice
        conflicts = {k for k in both if theirs.get(k) != ours.get(k)}
        self.log.append(f"rebase {name} at {head} fork={fork} {on_conflict}")
        arguments: dict[str, Any] = {"snapshot": head, "if_main_moved": "rebase", "on_conflict": on_conflict}
        refusal: PaimonError | None = None
        try:
            self.open().merge_branch(name, **arguments)
        except (BranchDivergedError, InvalidInputError, UnsupportedFeatureError) as e:
            refusal = e
        if isinstance(refusal, BranchDivergedError):
            is_told = f"main changed {len(conflicts)} key" in refusal.message and on_conflict == "fail"
            assert is_told if self.kind != "append" else "that the branch removed" in refusal.message
            return
        if refusal is not None:
            assert self.kind != "keyed" or "has expired" in refusal.message
            return
        assert not conflicts or on_conflict != "fail"
        self.rebased.add(name)
        taken = changed - both if on_conflict == "ours" else changed
        rows = {k: v for k, v in ours.items() if k not in taken} | {k: theirs[k] for k in taken if k in theirs}
        self.made("main", rows)

    # Back, and away.

    @rule(number=pick, which=pick)
    def rollback_to(self, number: int, which: int) -> None:
        branch = self.branch(number)
        line = self.model.line(branch)
        ids = self.ids(branch)
        if ids:
            target = ids[which % len(ids)]
            key = self.model.main_is if branch == "main" else branch

            def after(_: Any) -> None:
                self.model.lines[key] = line.up_to(target)

            self.do(f"rollback {branch} {target}", lambda: self.open(branch).rollback_to(target), after)

    @rule(number=pick, which=pick)
    def rollback_to_as_latest(self, number: int, which: int) -> None:
        branch = self.branch(number)
        line = self.model.line(branch)
        ids = self.ids(branch)
        if ids:
            target = ids[which % len(ids)]
            rows = {row: row for row in self.model.rows[line.history[target]]}
            self.do(
                f"as latest {branch} {target}",
                lambda: self.open(branch).rollback_to_as_latest(target),
                lambda _: self.made(branch, rows),
            )

    @rule(number=pick, keep=st.integers(1, 3))
    def expire(self, number: int, keep: int) -> None:
        branch = self.branch(number)
        now = datetime.now(UTC)
        self.do(
            f"expire {branch} {keep}",
            lambda: self.open(branch).expire_snapshots(retain_max=keep, retain_min=1, older_than=now),
            lambda _: None,
        )
        assert len(self.open(branch).snapshots()) <= max(keep, 1) or "killed" in self.log[-1:]

    @rule()
    def clean(self) -> None:
        self.log.append("clean")
        self.open().remove_orphan_files(older_than=datetime.now(UTC))
        handle = self.open().handle
        assert orphans(handle) == []
        assert missing_files(handle) == []

    @rule(at=st.integers(1, 25), after=st.booleans(), mutating=st.booleans())
    def kill_next(self, at: int, after: bool, mutating: bool) -> None:
        verbs: dict[str, Any] = {"verbs": MUTATING} if mutating else {}
        self.fault = Fault(at, after=after, forever=True, retryable=False, **verbs)

    @invariant()
    def every_version_reads_its_rows(self) -> None:
        if not hasattr(self, "kind"):
            return
        table = self.open()
        history = " | ".join(self.log[-12:])
        assert shape_of(table) == shape_said(self.model), history
        for name in self.model.names:
            schema, line = table.branch(name).schema, self.model.line(name)
            assert schema.row_type.names == ("k", "v", *line.columns), f"{name}; {history}"
            assert schema.id == len(line.schemas), f"{name}; {history}"
        done: set[tuple[str, tuple[str, ...]]] = set()
        for branch, version, _, uuid, at in roots_of(table):
            assert uuid in self.model.rows, f"{branch}.{version} is nobody's; {history}"
            names = tuple(at.schema.row_type.names)
            if (uuid, names) in done:
                continue
            done.add((uuid, names))
            width = len(names)
            want = tuple(tuple((*row, *(None,) * width)[:width]) for row in self.model.rows[uuid])
            assert read(at) == tuple(sorted(want, key=repr)), f"{branch}.{version}; {history}"


def line_of(machine: Branches, branch: str) -> BranchModel:
    return machine.model.line(branch)


Branches.TestCase.settings = settings(
    max_examples=examples(200),
    stateful_step_count=40 if is_nightly() else 20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


@pytest.mark.timeout(1800)
class TestBranches(Branches.TestCase):  # type: ignore[valid-type, misc]
    """The machine above."""
