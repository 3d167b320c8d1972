"""Back to a version: what goes, what stays, what readers see meanwhile, and what is refused."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.errors import (
    CommitConflictError,
    InvalidInputError,
    PaimonError,
    SnapshotExpiredError,
    SnapshotNotFoundError,
    StorageError,
    TagNotFoundError,
    VersionNotFoundError,
)
from paimon_spark.format.metadata_files import snapshot as snapshot_file
from paimon_spark.maintenance.change import recover
from paimon_spark.metadata.branches import read_fork
from paimon_spark.metadata.snapshots import find_snapshot, latest_snapshot
from paimon_spark.metadata.tags import get_tag
from paimon_spark.versioning.branches import create_branch
from paimon_spark.versioning.rollback import RolledBack, rollback_to
from paimon_spark.versioning.tags import create_tag
from tests.harness.commits import a_file, committer, message
from tests.harness.fault_store import MUTATING, Fault
from tests.harness.history import History
from tests.harness.real_tables import a_table
from tests.harness.table_files import missing_files


def hint(history: History, name: str, branch: str = "main") -> str:
    return history.store.read(f"{history.on(branch).layout.snapshot_dir}/{name}").decode()


class TestWhatGoes:
    def test_later_snapshots_and_tags(self) -> None:
        history = History()
        history.commits(5)
        for name, snapshot_id in (("v2", 2), ("v3", 3), ("v4", 4), ("savepoint-5", 5)):
            history.put_tag(name, snapshot_id)
        third = find_snapshot(history.on(), 3)
        done = rollback_to(history.on(), 3)
        assert (done.snapshot, done.snapshots, done.tags) == (third, (4, 5), ("savepoint-5", "v4"))
        assert history.ids() == [1, 2, 3]
        assert history.tags() == ["v2", "v3"]
        assert (hint(history, "LATEST"), hint(history, "EARLIEST")) == ("3", "1")
        assert history.live() == {"f1", "f2", "f3"}
        assert history.commit().id == 4

    def test_exactly_the_files_that_nothing_else_needs(self, tmp_path: Path) -> None:
        t = a_table(pa.schema([("k", pa.int64())]), where=tmp_path)
        for i in range(5):
            t.write(pa.table({"k": [i]}))
        t.create_branch("fix", snapshot_id=4)
        dry = t.rollback_to(2, dry_run=True)
        assert [s.id for s in t.snapshots()] == [1, 2, 3, 4, 5]
        done = t.rollback_to(2)
        assert done == replace(dry, removed=replace(dry.removed, finished=None))
        assert done.removed.data_files == 1  # the branch has the others
        assert missing_files(t.handle) == []
        assert sorted(t.scan().to_arrow()["k"].to_pylist()) == [0, 1]
        assert sorted(t.branch("fix").scan().to_arrow()["k"].to_pylist()) == [0, 1, 2, 3]
        t.write(pa.table({"k": [9]}))
        assert sorted(t.scan().to_arrow()["k"].to_pylist()) == [0, 1, 9]

    def test_long_lived_changelogs(self) -> None:
        for back_to, left, told in ((2, [1, 2], "2"), (1, [1], "1")):
            history = History()
            made = history.commits(4)
            layout = history.on().layout
            for snapshot in made[:3]:
                history.store.write(layout.changelog_path(snapshot.id), snapshot_file.encode(snapshot))
            done = rollback_to(history.on(), back_to)
            names = [i.name for i in history.store.list(layout.changelog_dir)]
            assert names == ["LATEST", *(f"changelog-{i}" for i in left)]
            assert history.store.read(f"{layout.changelog_dir}/LATEST").decode() == told
            assert done.changelogs == tuple(range(back_to + 1, 4))

    def test_when_all_changelogs_go_the_hint_says_as_java_does_that_it_is_not_known(self) -> None:
        history = History()
        made = history.commits(3)
        layout = history.on().layout
        history.store.write(layout.changelog_path(3), snapshot_file.encode(made[2]))
        rollback_to(history.on(), 1)
        assert [i.name for i in history.store.list(layout.changelog_dir)] == ["LATEST"]
        assert history.store.read(f"{layout.changelog_dir}/LATEST") == b"-1"

    def test_consumers_and_schemas_stay(self) -> None:
        history = History()
        history.commits(3)
        layout = history.on().layout
        history.store.write(f"{layout.consumer_dir}/consumer-me", b'{"nextSnapshot": 4}')
        history.set_options(x__y="z")
        rollback_to(history.on(), 1)
        assert history.store.exists(f"{layout.consumer_dir}/consumer-me")
        assert history.on().schema.id == 1


class TestTargets:
    @pytest.mark.parametrize(
        "version",
        [2, "2", " 2 ", "snapshot.2", "v2", "tag-name.v2", "tag-id.2", "main.v2", "main.2", "main.snapshot.2"],
    )
    def test_any_version_of_the_branch(self, version: str | int) -> None:
        history = History()
        history.commits(3)
        history.put_tag("v2", 2)
        assert rollback_to(history.on(), version).snapshot.id == 2
        assert history.ids() == [1, 2]

    def test_a_tag_of_digits_by_another_engine_is_the_tag(self) -> None:
        history = History()
        history.commits(4)
        history.put_tag("3", 2)
        assert rollback_to(history.on(), "3").snapshot.id == 2

    @pytest.mark.parametrize("version", ["v2", 2, "2"])
    def test_an_expired_snapshot_comes_back_from_its_tag(self, version: str | int) -> None:
        history = History()
        second = history.commits(4)[1]
        history.put_tag("v2", 2)
        for i in (1, 2, 3):
            history.expire(i)
        assert rollback_to(history.on(), version).snapshots == (4,)
        assert history.head() == second
        assert (history.ids(), hint(history, "LATEST"), hint(history, "EARLIEST")) == ([2], "2", "2")
        assert history.tags() == ["v2"]
        assert history.live() == {"f1", "f2"}

    def test_what_comes_back_has_no_changelog_as_that_expired(self) -> None:
        history = History()
        snapshots = history.commits(3)
        history.put_tag("v1", replace(snapshots[0], changelog_manifest_list="manifest-list-gone"))
        history.expire(1)
        rollback_to(history.on(), "v1")
        assert history.head().changelog_manifest_list is None
        assert missing_files(history.on()) == [] or all("f1" in p for p in missing_files(history.on()))

    def test_the_head_is_where_the_branch_is(self) -> None:
        history = History()
        head = history.commits(2)[1]
        history.store.arm(None)
        assert rollback_to(history.on(), 2) == RolledBack(head)
        assert history.ids() == [1, 2]

    @pytest.mark.parametrize(
        ("version", "error", "message"),
        [
            (9, SnapshotNotFoundError, "table db.t has no snapshot 9: its snapshots alive are 2 to 4"),
            (0, SnapshotNotFoundError, "table db.t has no snapshot 0"),
            (1, SnapshotExpiredError, "snapshot 1 of table db.t has expired"),
            ("snapshot.1", SnapshotExpiredError, "snapshot 1 of table db.t has expired"),
            ("v9", VersionNotFoundError, "table db.t has no version 'v9'"),
            ("tag-name.v9", TagNotFoundError, "table db.t has no tag 'v9'"),
            ("", PaimonError, "the version is blank"),
            (None, InvalidInputError, "None is not a version of table db.t: give a snapshot id or text"),
            (True, InvalidInputError, "True is not a version of table db.t"),
            (
                "fix",
                InvalidInputError,
                "version 'fix' is on branch 'fix' of table db.t, and table db.t can only be rolled back",
            ),
            ("fix.3", InvalidInputError, "open that branch to roll it back"),
            ("later", InvalidInputError, "cannot be rolled back to that snapshot 7, as its head is snapshot 4"),
            (
                "other",
                InvalidInputError,
                "as its snapshot 3 is a different one: another engine changed the branch's history",
            ),
        ],
    )
    def test_what_is_refused_leaves_everything(self, version: Any, error: type[PaimonError], message: str) -> None:
        history = History()
        snapshots = history.commits(4)
        create_branch(history.on(), "fix", snapshot_id=3)
        history.expire(1)
        history.put_tag("later", replace(snapshots[3], id=7))
        history.put_tag("other", replace(snapshots[2], delta_manifest_list="manifest-list-other"))
        with pytest.raises(error) as caught:
            rollback_to(history.on(), version)
        assert message in str(caught.value)
        assert history.ids() == [2, 3, 4]
        assert not history.store.list(f"{history.root}/intent")

    def test_an_empty_branch_goes_nowhere(self) -> None:
        with pytest.raises(
            SnapshotNotFoundError, match=r"table db\.t has no snapshot yet, so there is nothing to go back"
        ):
            rollback_to(History().on(), "main")


class TestBranches:
    def test_a_branch_that_left_later_now_leaves_at_the_target(self) -> None:
        history = History()
        history.commits(4)
        create_tag(history.on(), "v3", snapshot_id=3)
        create_branch(history.on(), "late", tag="v3")
        create_branch(history.on(), "early", snapshot_id=1)
        history.commit("late")
        create_branch(history.on("late"), "child", snapshot_id=5 if 5 in history.ids("late") else 4)
        second = find_snapshot(history.on(), 2)
        done = rollback_to(history.on(), 2)
        assert done.branches == ("late",)
        assert done.tags == ("v3",)
        assert history.tags() == ["branch-guard-child", "branch-guard-early", "branch-guard-late"]
        for name in ("late", "child"):
            assert get_tag(history.on(), f"branch-guard-{name}").snapshot == second
        fork = read_fork(history.on("late"))
        assert fork is not None and (fork.parent, fork.snapshot_id, fork.tag) == ("main", 2, None)
        early = read_fork(history.on("early"))
        assert early is not None and early.snapshot_id == 1
        child = read_fork(history.on("child"))
        assert child is not None and child.parent == "late"
        assert history.live("late") == {"f1", "f2", "f3", "f5"}

    def test_rolling_back_a_branch_leaves_main_alone(self) -> None:
        history = History()
        history.commits(3)
        create_branch(history.on(), "fix", snapshot_id=2)
        history.commits(2, "fix")
        rollback_to(history.on("fix"), 3)
        assert history.ids("fix") == [2, 3]
        assert history.ids() == [1, 2, 3]
        assert history.live("fix") == {"f1", "f2", "f4"}
        rollback_to(history.on("fix"), "branch-guard-fix")
        assert history.ids("fix") == [2]
        assert "branch-guard-fix" in history.tags("fix")

    def test_the_guard_of_a_branch_that_is_gone_goes_like_a_tag(self) -> None:
        history = History()
        history.commits(3)
        history.put_tag("branch-guard-gone", 3)
        assert rollback_to(history.on(), 1).tags == ("branch-guard-gone",)


class TestCrashes:
    @pytest.mark.ci
    @pytest.mark.parametrize(("target", "expired"), [(2, ()), (4, ()), ("v2", (1, 2, 3))])
    def test_broken_off_at_any_call_readers_see_the_old_head_or_the_new(
        self, target: str | int, expired: tuple[int, ...]
    ) -> None:
        for at in range(1, 60):
            history = History()
            history.commits(5)
            history.put_tag("v2", 2)
            history.put_tag("v5", 5)
            for i in expired:
                history.expire(i)
            old = history.head()
            new = get_tag(history.on(), "v2").snapshot if target != 4 else find_snapshot(history.on(), 4)
            history.store.arm(Fault(at, forever=True, verbs=MUTATING))
            with suppress(StorageError):
                rollback_to(history.on(), target)
            done = not history.store.failed
            history.store.arm(None)
            seen = history.head()
            assert seen in (old, new)
            assert history.live()
            recover(history.on())
            assert history.head() in ((new,) if seen == new else (old, new))
            if history.head() == new:
                assert history.ids()[-1] == new.id
                assert "v5" not in history.tags()
            else:
                assert "v5" in history.tags()
            assert not history.store.exists(f"{history.root}/intent/intent")
            if done:
                assert at > 5 and history.head() == new
                return
        raise AssertionError("it never came to an end")

    def test_what_another_engine_commits_after_a_crash_stays(self) -> None:
        history = History()
        history.commits(3)
        history.store.arm(Fault(1, forever=True, verbs=frozenset({"delete_many"})))
        with pytest.raises(StorageError):
            rollback_to(history.on(), 1)
        history.store.arm(None)
        assert history.ids() == [1]
        theirs = replace(history.head(), id=2, uuid="theirs")
        history.store.write(history.on().layout.snapshot_path(2), snapshot_file.encode(theirs))
        recover(history.on())
        assert history.head() == theirs
        assert history.manifests_of(theirs) <= history.manifests()


class TestRaces:
    def test_what_another_engine_commits_meanwhile_goes_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        history = History()
        history.commits(3)
        handle = history.on()
        delete = type(history.store).delete
        late: list[int] = []

        def racing(store: Any, path: str) -> None:
            if path.endswith("/snapshot-3") and not late:
                found = find_snapshot(handle, 3)
                assert found is not None
                late.append(4)
                store.write(handle.layout.snapshot_path(4), snapshot_file.encode(replace(found, id=4, uuid="late")))
            delete(store, path)

        monkeypatch.setattr(type(history.store), "delete", racing)
        done = rollback_to(history.on(), 2)
        assert late == [4]
        assert done.snapshots == (3, 4)
        assert history.ids() == [1, 2]
        assert hint(history, "LATEST") == "2"

    def test_our_commit_that_comes_during_it_is_taken_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        history = History()
        history.commits(3)
        handle = history.on()
        delete = type(history.store).delete
        errors: list[Exception] = []

        def racing(store: Any, path: str) -> None:
            if path.endswith("/snapshot-3") and not errors:
                errors.append(ValueError())
                try:
                    committer(handle, user="late").commit([message(handle, a_file("late"))])
                except CommitConflictError as e:
                    errors.append(e)
            delete(store, path)

        monkeypatch.setattr(type(history.store), "delete", racing)
        rollback_to(history.on(), 2)
        assert history.ids() == [1, 2]
        assert len(errors) == 2
        assert "was given another history" in str(errors[1])
        assert latest_snapshot(history.on()) == find_snapshot(history.on(), 2)
