"""Branches: what is written for one, what goes with one, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import fsspec
import pytest

from paimon_spark.api.table import Table
from paimon_spark.errors import (
    BranchAlreadyExistsError,
    BranchNotFoundError,
    InvalidInputError,
    PaimonError,
    SnapshotExpiredError,
    SnapshotNotFoundError,
    TagNotFoundError,
)
from paimon_spark.format.metadata_files import snapshot as snapshot_file
from paimon_spark.format.metadata_files import table_schema as schema_file
from paimon_spark.format.metadata_files.snapshot import Tag
from paimon_spark.maintenance.change import change_branch
from paimon_spark.metadata.branches import Fork, fork_of, fork_path, list_branch_names, list_branches, read_fork
from paimon_spark.metadata.handle import TableHandle, branch_names, open_branch, open_table
from paimon_spark.metadata.schemas import list_schema_ids
from paimon_spark.metadata.snapshots import get_snapshot, latest_snapshot, list_snapshots
from paimon_spark.metadata.tags import find_tag, tag_names
from paimon_spark.storage.urls import open_store
from paimon_spark.versioning import branches as verbs
from paimon_spark.versioning.branches import create_branch, delete_branch, plan_create, plan_delete, rename_branch
from tests.harness.commits import PARTITIONED, a_file, committer, files, make_table, message
from tests.harness.fault_store import MUTATING, FaultStore
from tests.harness.table_files import missing_files, reachable_files
from tests.harness.tables import a_schema


class Case:
    """A table in memory and what tests do to it."""

    def __init__(self, name: str, **options: Any) -> None:
        inner, root = open_store(f"memory:///{name}/wh/db.db/t")
        self.store = FaultStore(inner)
        self.main = make_table(self.store, root, **options)
        self.names = 0

    def on(self, branch: str) -> TableHandle:
        return open_branch(self.main, branch)

    def commit(self, branch: str = "main", *, replace_all: bool = False) -> int:
        """One snapshot with one file."""
        handle = self.on(branch)
        self.names += 1
        new = message(handle, a_file(f"{branch}-{self.names}"))
        made = committer(handle).overwrite([new]) if replace_all else committer(handle).commit([new])
        return made.snapshot_ids[-1]

    def tag(self, name: str, snapshot_id: int, branch: str = "main") -> None:
        handle = self.on(branch)
        data = snapshot_file.encode_tag(Tag(name, get_snapshot(handle, snapshot_id)))
        self.store.write(handle.layout.tag_path(name), data)

    def alter(self, branch: str = "main", **options: str) -> None:
        handle = self.on(branch)
        changed = replace(handle.schema, id=handle.schema.id + 1, options={**handle.schema.options, **options})
        self.store.write(handle.layout.schema_path(changed.id), schema_file.encode(changed))

    def files(self, branch: str) -> set[str]:
        """All files of a branch's directory."""
        root = self.main.on_branch_directory(branch).layout.branch_root
        return {
            f"{d.name}/{f.name}" if d.is_directory else d.name
            for d in self.store.list(root)
            for f in (self.store.list(f"{root}/{d.name}") if d.is_directory else [d])
        }

    def data_files(self, branch: str) -> set[str]:
        return set(files(self.on(branch)))


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path.name)


def test_a_branch_of_a_tag(case: Case) -> None:
    case.commit()
    case.alter()
    case.commit()
    case.alter()
    case.tag("v1", 2)
    case.commit()
    made = create_branch(case.main, "fix", tag="v1", clock_ms=lambda: 777)
    assert case.files("fix") == {
        "FORK", "schema/schema-0", "schema/schema-1", "snapshot/snapshot-2", "snapshot/LATEST", "snapshot/EARLIEST",
        "tag/tag-v1", "tag/tag-branch-guard-fix",
    }  # fmt: skip
    fork = Fork("main", 2, "v1", get_snapshot(case.main, 2).time_ms, 777, {"main": "branch-guard-fix"})
    assert made.fork == fork == read_fork(case.on("fix"))
    assert (made.created_from_tag, made.created_from_snapshot_id, made.is_main) == ("v1", 2, False)
    assert tag_names(case.main) == ["branch-guard-fix", "v1"]
    assert list_snapshots(case.on("fix")) == [get_snapshot(case.main, 2)]
    assert [find_tag(case.on(b), "branch-guard-fix").snapshot.id for b in ("main", "fix")] == [2, 2]  # type: ignore[union-attr]
    assert case.commit("fix") == 3
    assert case.data_files("fix") == {"main-1", "main-2", "fix-4"}
    assert case.data_files("main") == {"main-1", "main-2", "main-3"}


def test_the_record_is_plain_json(case: Case) -> None:
    case.commit()
    create_branch(case.main, "fix", snapshot_id=1, clock_ms=lambda: 777)
    assert json.loads(case.store.read(fork_path(case.on("fix")))) == {
        "version": 1,
        "parent": "main",
        "snapshotId": 1,
        "tag": None,
        "timeMillis": get_snapshot(case.main, 1).time_ms,
        "createdMillis": 777,
        "guards": {"main": "branch-guard-fix"},
    }


def test_a_branch_of_a_snapshot(case: Case) -> None:
    case.commit()
    case.commit()
    made = Table(case.main).create_branch("fix", snapshot_id=1)
    assert (made.created_from_tag, made.created_from_snapshot_id) == (None, 1)
    assert case.data_files("fix") == {"main-1"}
    assert tag_names(case.on("fix")) == ["branch-guard-fix"]
    both = create_branch(case.main, "both", tag="branch-guard-fix", snapshot_id=1)
    assert both.created_from_tag is None, "guards belong to their branch"
    assert tag_names(case.on("both")) == ["branch-guard-both"]


def test_an_empty_branch(case: Case) -> None:
    case.commit()
    case.alter()
    made = create_branch(case.main, "blank", empty=True)
    assert case.files("blank") == {"FORK", "schema/schema-0", "schema/schema-1"}
    assert made.fork is not None and (made.fork.snapshot_id, made.fork.guards) == (None, {})
    assert tag_names(case.main) == []
    assert case.commit("blank") == 1
    assert case.data_files("blank") == {"blank-2"}
    made = create_branch(case.on("blank"), "next", snapshot_id=1)
    assert made.fork is not None and (made.fork.parent, dict(made.fork.guards)) == (
        "blank",
        {"blank": "branch-guard-next"},
    )


def test_a_table_without_snapshots_has_branches_too(case: Case) -> None:
    create_branch(case.main, "blank", empty=True)
    assert list_branch_names(case.main) == ["blank"]
    with pytest.raises(SnapshotNotFoundError, match="has no snapshot 1: it has no snapshot"):
        create_branch(case.main, "fix", snapshot_id=1)


def test_an_expired_snapshot_is_taken_from_its_tag(case: Case) -> None:
    case.commit()
    case.tag("v1", 1)
    handle = case.main
    logged = replace(get_snapshot(handle, 1), changelog_manifest_list="manifest-list-log", changelog_record_count=3)
    case.store.write(handle.layout.tag_path("v1"), snapshot_file.encode_tag(Tag("v1", logged)))
    case.store.delete(handle.layout.snapshot_path(1))
    for name, arguments in {"a": {"tag": "v1"}, "b": {"snapshot_id": 1}}.items():
        create_branch(handle, name, **arguments)  # type: ignore[arg-type]
        head = latest_snapshot(case.on(name))
        assert head is not None and head.id == 1
        assert head.changelog_manifest_list is None, "a tag does not keep the changelog"
        assert case.data_files(name) == {"main-1"}
    assert missing_metadata(case) == []


def test_a_tag_is_copied_with_its_time_to_live_and_the_guard_has_none(case: Case) -> None:
    case.commit()
    tag = Tag("v1", get_snapshot(case.main, 1), datetime(2026, 1, 2, 3, 4, 5), 86400.0)
    case.store.write(case.main.layout.tag_path("v1"), snapshot_file.encode_tag(tag))
    create_branch(case.main, "fix", tag="v1")
    assert find_tag(case.on("fix"), "v1") == tag
    for branch in ("main", "fix"):
        guard = find_tag(case.on(branch), "branch-guard-fix")
        assert guard is not None and (guard.create_time, guard.time_retained_s) == (None, None)


def test_a_branch_of_a_branch_is_guarded_on_all_it_passed(case: Case) -> None:
    case.commit()
    create_branch(case.main, "a", snapshot_id=1)
    case.commit()
    case.commit("a")
    create_branch(case.on("a"), "b", snapshot_id=2)
    case.commit("b")
    made = create_branch(case.on("b"), "c", snapshot_id=3)
    guard = "branch-guard-c"
    assert made.fork is not None
    assert (made.fork.parent, made.fork.snapshot_id, dict(made.fork.guards)) == (
        "b", 3, {"b": guard, "a": guard, "main": guard},
    )  # fmt: skip
    found = {name: find_tag(case.on(name), guard) for name in ("main", "a", "b", "c")}
    assert {n: t.snapshot.id for n, t in found.items() if t} == {"main": 1, "a": 2, "b": 3, "c": 3}
    for branch, tag in found.items():
        assert tag is not None
        assert tag.snapshot == get_snapshot(case.on(branch), tag.snapshot.id), "of the branch's own history"


def test_an_older_snapshot_of_the_parent_is_guarded_by_itself(case: Case) -> None:
    case.commit()
    case.commit()
    create_branch(case.main, "a", snapshot_id=2)
    case.tag("old", 1)
    case.store.write(case.on("a").layout.tag_path("old"), case.store.read(case.main.layout.tag_path("old")))
    made = create_branch(case.on("a"), "b", tag="old")
    assert made.fork is not None and made.fork.snapshot_id == 1
    assert find_tag(case.main, "branch-guard-b").snapshot.id == 1  # type: ignore[union-attr]


def test_a_branch_of_the_branch_that_is_main_is_one_of_main(case: Case) -> None:
    case.commit()
    create_branch(case.main, "fix", snapshot_id=1)
    case.store.write(case.main.layout.main_branch_file, b"fix")
    for at in ("main", "fix"):
        handle = open_table(case.store, case.main.layout.root, at, "t")
        made = create_branch(handle, f"of-{at}", snapshot_id=1)
        assert made.fork is not None and (made.fork.parent, set(made.fork.guards)) == ("main", {"main"})
    assert {"tag/tag-branch-guard-of-main", "tag/tag-branch-guard-of-fix"} <= case.files("fix")


def test_the_calls_do_not_grow_with_the_table(tmp_path: Path) -> None:
    counts = []
    for scale in (4, 60):
        case = Case(f"{tmp_path.name}-{scale}")
        for _ in range(scale):
            case.commit()
        for i in range(1, scale, 2):
            case.tag(f"t{i}", i)
        mark = len(case.store.calls)
        create_branch(case.main, "fix", tag=f"t{scale - 1}")
        calls = case.store.calls[mark:]
        assert not [c for c in calls if "/manifest" in c.path or "bucket" in c.path]
        counts.append(len(calls))
    assert counts[0] == counts[1] <= 45


def test_the_schema_comes_last(case: Case) -> None:
    case.commit()
    case.alter()
    case.commit()
    mark = len(case.store.calls)
    create_branch(case.main, "fix", snapshot_id=2)
    done = [c.path.removeprefix(f"{case.main.layout.root}/") for c in case.store.calls[mark:] if c.verb in MUTATING]
    mine = [p for p in done if p.startswith(("branch/", "tag/"))]
    assert mine[0] == "tag/tag-branch-guard-fix"
    names = ("HANDOVER", "schema-0", "schema-1", "HANDOVER")  # put, the schemas, and away again
    assert mine[-4:] == [f"branch/branch-fix/schema/{name}" for name in names]


def test_schemas_that_old_branches_lack_come_from_main(case: Case) -> None:
    case.alter()
    case.commit()
    create_branch(case.main, "old", snapshot_id=1)
    case.store.delete(case.on("old").layout.schema_path(0))
    create_branch(case.on("old"), "new", snapshot_id=1)
    assert list_schema_ids(case.store, case.on("new").layout) == [0, 1]


# What is refused.


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "is not blank"), (" ", "is not blank"), ("12", "a number means a snapshot id"), ("main", "always there"),
        ("a.b", "leave the dots out"), ("a/b", "no slash"), ("a\\b", "no slash"), ("snapshot", "versions are written"),
        ("savepoint", "versions are written"), ("tag-name", "versions are written"), ("tag-id", "versions are written"),
        ("watermark", "versions are written"), ("watermark-5", "versions are written"), (" a", "neither begins nor"),
        ("v", "'v.1' is a tag"), ("w", "'w.1' is a tag"), (None, "a name is text, not NoneType"),
    ],
)  # fmt: skip
def test_names_that_are_refused(case: Case, name: Any, message: str) -> None:
    case.commit()
    case.tag("v.1", 1)
    create_branch(case.main, "other", snapshot_id=1)
    case.tag("w.1", 1, "other")
    before = everything(case)
    for act in (lambda: create_branch(case.main, name, snapshot_id=1), lambda: rename_branch(case.main, "other", name)):
        with pytest.raises(InvalidInputError, match=message):
            act()
    assert everything(case) == before


def everything(case: Case) -> dict[str, bytes]:
    """All files of the table, with their bytes."""
    memory = fsspec.filesystem("memory")
    return {path: memory.cat_file(path) for path in memory.find(case.main.layout.root)}


def refused(case: Case, error: type[PaimonError], text: str, **arguments: Any) -> None:
    before = everything(case)
    with pytest.raises(error, match=text):
        create_branch(case.main, arguments.pop("name", "fix"), **arguments)
    assert everything(case) == before


def test_bad_beginnings_are_refused(case: Case) -> None:
    case.commit()
    case.commit()
    case.tag("stable", 1)
    refused(case, TagNotFoundError, "table t has no tag 'stabel'; did you mean 'stable'", tag="stabel")
    refused(case, SnapshotNotFoundError, "has no snapshot 9: its snapshots alive are 1 to 2", snapshot_id=9)
    refused(case, SnapshotNotFoundError, "has no snapshot 0", snapshot_id=0)
    refused(
        case, InvalidInputError, "tag 'stable' of table t is snapshot 1, but snapshot_id is 2; give one of them",
        tag="stable", snapshot_id=2,
    )  # fmt: skip
    refused(case, InvalidInputError, "snapshot_id = '2' of .* is not a number; give a tag as tag=", snapshot_id="2")
    refused(case, InvalidInputError, "tag = 2 of .* is not text; give a snapshot as snapshot_id=", tag=2)
    case.store.delete(case.main.layout.snapshot_path(1))
    case.store.delete(case.main.layout.tag_path("stable"))
    refused(case, SnapshotExpiredError, "snapshot 1 of table t has expired", snapshot_id=1)


def test_a_branch_that_is_there_is_left_alone(case: Case) -> None:
    case.commit()
    create_branch(case.main, "fix", snapshot_id=1)
    case.commit("fix")
    refused(case, BranchAlreadyExistsError, "table t already has a branch 'fix'; use another name", snapshot_id=1)
    before = everything(case)
    found = create_branch(case.main, "fix", tag="nonsense", ignore_if_exists=True)
    assert found.created_from_snapshot_id == 1
    assert everything(case) == before
    create_branch(case.main, "new", snapshot_id=1, ignore_if_exists=True)
    assert list_branch_names(case.main) == ["fix", "new"]


def test_what_another_engine_left_is_not_built_upon(case: Case) -> None:
    case.commit()
    left = case.main.on_branch_directory("fix")
    case.store.write(f"{left.layout.consumer_dir}/consumer-x", b"{}")
    refused(
        case, BranchAlreadyExistsError,
        r"branch/branch-fix has 1 files as consumer/consumer-x but no schema, .* delete_branch\('fix'\) deletes them",
        snapshot_id=1,
    )  # fmt: skip
    create_branch(case.main, "other", snapshot_id=1)
    with pytest.raises(BranchAlreadyExistsError, match="branch/branch-fix has 1 files"):
        rename_branch(case.main, "other", "fix")
    delete_branch(case.main, "fix")
    create_branch(case.main, "fix", snapshot_id=1)


def test_a_missing_schema_is_refused(case: Case) -> None:
    case.commit()
    case.alter()
    case.commit()
    create_branch(case.main, "old", snapshot_id=2)
    for branch in ("main", "old"):
        case.store.delete(case.on(branch).layout.schema_path(1))
    refused(
        case, InvalidInputError, r"schema/schema-1 is missing, the schema of the requested snapshot of .* doctor\(\)",
        snapshot_id=2,
    )  # fmt: skip


def test_a_snapshot_that_expires_meanwhile_takes_the_branch_back(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    case.commit()
    case.commit()
    real = change_branch

    def beside_expiry(handle: TableHandle, kind: str, plan: Any, **more: Any) -> Any:
        done = real(handle, kind, plan, **more)
        if kind == "create-branch":
            case.store.delete(case.main.layout.snapshot_path(1))
        return done

    monkeypatch.setattr(verbs, "change_branch", beside_expiry)
    with pytest.raises(
        SnapshotExpiredError, match="branch 'fix' was not created: snapshot 1 of table t expired at the"
    ):
        create_branch(case.main, "fix", snapshot_id=1)
    assert list_branch_names(case.main) == [] == tag_names(case.main)


def test_a_tag_keeps_what_expires_meanwhile(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    case.commit()
    case.commit()
    case.tag("v1", 1)
    real = change_branch

    def beside_expiry(*arguments: Any, **more: Any) -> Any:
        done = real(*arguments, **more)
        case.store.delete(case.main.layout.snapshot_path(1))
        return done

    monkeypatch.setattr(verbs, "change_branch", beside_expiry)
    create_branch(case.main, "fix", snapshot_id=1)
    assert case.data_files("fix") == {"main-1"}


def test_a_guard_that_others_left_behind_is_replaced(case: Case) -> None:
    case.commit()
    create_branch(case.main, "fix", snapshot_id=1)
    case.store.delete_tree(case.on("fix").layout.branch_root)
    case.commit(replace_all=True)
    create_branch(case.main, "fix", snapshot_id=2)
    assert find_tag(case.main, "branch-guard-fix").snapshot.id == 2  # type: ignore[union-attr]
    assert missing_metadata(case) == []


# Deleting.


def test_a_branch_goes_with_its_guards_and_what_only_it_had(case: Case) -> None:
    case.commit()
    create_branch(case.main, "fix", snapshot_id=1)
    case.commit("fix")
    case.tag("mine", 2, "fix")
    case.commit("fix", replace_all=True)
    removed = Table(case.main).delete_branch("fix")
    assert list_branch_names(case.main) == [] == tag_names(case.main)
    assert not case.store.exists(f"{case.main.layout.root}/branch/branch-fix")
    assert {p.rpartition("/")[2] for p in removed.paths if "bucket-" in p} == {"fix-2", "fix-3"}
    assert case.data_files("main") == {"main-1"}
    assert {p for p in everything(case) if "/manifest/" in p} == reachable_metadata(case)


def missing_metadata(case: Case) -> list[str]:
    """Files of `manifest/` that are named and not there; the data files of these tables are only names."""
    return [p for p in missing_files(case.main) if "/manifest/" in p]


def reachable_metadata(case: Case) -> set[str]:
    return {p for p in reachable_files(case.main) if "/manifest/" in p}


def test_schemas_go_first_and_guards_last(case: Case) -> None:
    case.commit()
    case.alter()
    case.commit()
    create_branch(case.main, "fix", snapshot_id=2)
    steps = [
        next(iter(getattr(s, n) for n in ("path", "directory") if hasattr(s, n)))
        for s in plan_delete(case.main, "fix").steps
    ]
    assert steps == [
        "branch/branch-fix/schema/HANDOVER",
        "branch/branch-fix/schema/schema-0",
        "branch/branch-fix/schema/schema-1",
        "branch/branch-fix",
        "tag/tag-branch-guard-fix",
    ]


def test_branches_that_cannot_be_deleted(case: Case) -> None:
    case.commit()
    for name in ("fix", "beside", "first"):
        create_branch(case.main, name, snapshot_id=1)
    case.alter(**{"scan.fallback-branch": "beside"})
    case.alter("fix", **{"scan.primary-branch": "first"})
    for act in ("deleted", "renamed"):

        def verb(name: str, act: str = act) -> None:
            delete_branch(case.main, name) if act == "deleted" else rename_branch(case.main, name, "new")

        before = everything(case)
        for name, error, text in (
            ("main", InvalidInputError, "main of table t cannot be deleted|branch 'main' of table t cannot be renamed"),
            ("fxi", BranchNotFoundError, "table t has no branch 'fxi'; did you mean 'fix'.*branches are main, beside"),
            ("a/b", BranchNotFoundError, "table t has no branch 'a/b'"),
            ("", BranchNotFoundError, "table t has no branch ''"),
            ("beside", InvalidInputError, f"cannot be {act}: option scan.fallback-branch of branch 'main' names it"),
            ("first", InvalidInputError, f"cannot be {act}: option scan.primary-branch of branch 'fix' names it"),
        ):
            with pytest.raises(error, match=text):
                verb(name)
        assert everything(case) == before
        case.store.write(case.main.layout.main_branch_file, b"fix")
        with pytest.raises(InvalidInputError, match=f"branch 'fix' of table t cannot be {act}: it is main"):
            verb("fix")
        case.store.delete(case.main.layout.main_branch_file)


def test_working_directories_are_nobodys_to_delete(case: Case) -> None:
    case.commit()
    case.store.write(f"{case.main.layout.root}/branch/branch-.merge-1/snapshot/x", b"")
    with pytest.raises(BranchNotFoundError, match=r"has no branch '\.merge-1'"):
        delete_branch(case.main, ".merge-1")


def test_a_branch_of_a_deleted_branch_stays_whole_and_is_one_of_its_parent(case: Case) -> None:
    case.commit()
    create_branch(case.main, "a", snapshot_id=1)
    case.commit("a")
    create_branch(case.on("a"), "b", snapshot_id=2)
    create_branch(case.on("a"), "old", snapshot_id=1)
    create_branch(case.on("a"), "blank", empty=True)
    case.commit("b")
    case.commit("a", replace_all=True)
    removed = delete_branch(case.main, "a")
    assert {p.rpartition("/")[2] for p in removed.paths if "bucket-" in p} == {"a-4"}
    assert case.data_files("b") == {"main-1", "a-2", "b-3"}
    forks = {name: fork_of(case.on(name)) for name in ("b", "old", "blank")}
    assert {n: (f.parent, f.snapshot_id, dict(f.guards)) for n, f in forks.items() if f} == {
        "b": ("main", 1, {"main": "branch-guard-b"}),
        "old": ("main", 1, {"main": "branch-guard-old"}),
        "blank": ("main", None, {}),
    }
    assert forks["b"] is not None and forks["b"].time_ms == get_snapshot(case.main, 1).time_ms
    assert tag_names(case.main) == ["branch-guard-b", "branch-guard-old"]


def test_a_reader_of_a_deleted_branch_is_told(case: Case) -> None:
    case.commit()
    create_branch(case.main, "fix", snapshot_id=1)
    table = Table(case.on("fix"))
    delete_branch(case.on("fix"), "fix")
    with pytest.raises(BranchNotFoundError, match="table t has no branch 'fix'"):
        table.scan()
    with pytest.raises(BranchNotFoundError, match="table t has no branch 'fix'"):
        create_branch(table.handle, "new", empty=True)


# Renaming.


def test_a_renamed_branch_keeps_everything(case: Case) -> None:
    case.commit()
    case.alter()
    case.commit()
    create_branch(case.main, "fix", snapshot_id=2)
    case.commit("fix")
    create_branch(case.on("fix"), "child", snapshot_id=3)
    case.tag("mine", 3, "fix")
    case.store.write(f"{case.on('fix').layout.consumer_dir}/consumer-x", b'{"nextSnapshot": 3}')
    before, head = case.files("fix"), latest_snapshot(case.on("fix"))
    Table(case.main).rename_branch("fix", "repair")
    assert list_branch_names(case.main) == ["child", "repair"]
    assert case.files("repair") == {p.replace("guard-fix", "guard-repair") for p in before}
    assert case.files("fix") == set()
    assert latest_snapshot(case.on("repair")) == head
    assert tag_names(case.main) == ["branch-guard-child", "branch-guard-repair"]
    assert tag_names(case.on("repair")) == ["branch-guard-child", "branch-guard-repair", "mine"]
    forks = {b.name: b.fork for b in list_branches(case.main)}
    assert forks["repair"] is not None and dict(forks["repair"].guards) == {"main": "branch-guard-repair"}
    child = forks["child"]
    assert child is not None and (child.parent, set(child.guards)) == ("repair", {"main", "repair"})
    delete_branch(case.main, "repair")
    assert tag_names(case.main) == ["branch-guard-child"]


def test_an_empty_branch_is_renamed(case: Case) -> None:
    create_branch(case.main, "blank", empty=True)
    rename_branch(case.main, "blank", "new")
    assert case.files("new") == {"FORK", "schema/schema-0"}
    case.store.delete(fork_path(case.on("new")))
    rename_branch(case.main, "new", "last")
    assert list_branch_names(case.main) == ["last"]


def test_empty_directories_of_a_name_are_no_matter(case: Case) -> None:
    """A commit that came too late leaves them where a branch was."""
    case.commit()
    create_branch(case.main, "a", snapshot_id=1)
    fsspec.filesystem("memory").makedirs(case.main.layout.with_branch("b").snapshot_dir)
    assert "b" in branch_names(case.store, case.main.layout)
    rename_branch(case.main, "a", "b")
    assert list_branch_names(case.main) == ["b"]
    case.store.write(f"{case.main.layout.with_branch('c').branch_root}/more/notes", b"kept")
    with pytest.raises(BranchAlreadyExistsError, match="has files but no schema"):
        rename_branch(case.main, "b", "c")


def test_a_name_that_is_taken_is_refused(case: Case) -> None:
    case.commit()
    for name in ("a", "b"):
        create_branch(case.main, name, snapshot_id=1)
    with pytest.raises(BranchAlreadyExistsError, match="table t already has a branch 'b'"):
        rename_branch(case.main, "a", "b")
    with pytest.raises(BranchAlreadyExistsError, match="table t already has a branch 'a'"):
        rename_branch(case.main, "a", "a")


def test_partitions_and_other_schemas_are_no_matter(tmp_path: Path) -> None:
    store, root = open_store(f"file://{tmp_path}/db.db/t")
    handle = make_table(store, root, PARTITIONED)
    committer(handle).commit([message(handle, a_file("f"), p=1)])
    create_branch(handle, "fix", snapshot_id=1)
    assert sorted(p.name for p in (tmp_path / "db.db/t/branch/branch-fix").iterdir()) == [
        "FORK", "schema", "snapshot", "tag",
    ]  # fmt: skip
    rename_branch(handle, "fix", "new")
    assert not (tmp_path / "db.db/t/branch/branch-fix").exists()
    removed = delete_branch(handle, "new")
    assert not (tmp_path / "db.db/t/branch/branch-new").exists()
    assert removed.data_files == 0


def test_plans_are_pure(case: Case) -> None:
    case.commit()
    before = everything(case)
    plan_create(case.main, "fix", snapshot_id=1, created_ms=1)
    assert everything(case) == before
    assert a_schema().id == 0
