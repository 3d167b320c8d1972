"""Tags: what is written for one, what goes with one, and what is refused."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.errors import (
    InvalidInputError,
    PaimonError,
    SnapshotExpiredError,
    SnapshotNotFoundError,
    StorageError,
    TagAlreadyExistsError,
    TagNotFoundError,
)
from paimon_spark.format.metadata_files import snapshot as snapshot_file
from paimon_spark.metadata.branches import list_tag_infos, read_fork
from paimon_spark.metadata.snapshots import get_snapshot
from paimon_spark.metadata.tags import TagInfo, find_tag, get_tag
from paimon_spark.versioning.branches import create_branch
from paimon_spark.versioning.tags import (
    create_tag,
    delete_tags,
    next_tag,
    previous_tag,
    rename_tag,
    replace_tag,
)
from tests.harness.fault_store import MUTATING, Fault
from tests.harness.history import History
from tests.harness.real_tables import a_table
from tests.harness.table_files import missing_files
from tests.unit.versioning.publishing import files, in_order, new_table, put

NOW = datetime(2024, 5, 6, 7, 8, 9)


@pytest.fixture
def history() -> History:
    return History()


class TestCreate:
    def test_the_head_is_tagged_with_the_very_snapshot(self, history: History) -> None:
        history.commits(3)
        made = create_tag(history.on(), "v1")
        assert (made.name, made.snapshot) == ("v1", history.head())
        file = history.store.read(history.on().layout.tag_path("v1"))
        assert file == snapshot_file.encode(history.head())

    def test_a_snapshot_is_tagged(self, history: History) -> None:
        history.commits(3)
        assert create_tag(history.on(), "v1", snapshot_id=2).snapshot.id == 2

    def test_an_expired_snapshot_is_taken_from_another_tag(self, history: History) -> None:
        second = history.commits(3)[1]
        history.put_tag("old", 2, NOW, 5.0)
        history.expire(2)
        assert create_tag(history.on(), "v1", snapshot_id=2).snapshot == second
        assert find_tag(history.on(), "v1") == snapshot_file.Tag("v1", second)

    @pytest.mark.parametrize(
        ("given", "option", "seconds"),
        [
            ("1 d", None, 86400.0),
            ("1500 ms", "1 h", 1.5),
            (timedelta(minutes=2), None, 120.0),
            (None, "1 h", 3600.0),
            (None, None, None),
        ],
    )
    def test_tags_live_as_long_as_asked(self, given: Any, option: str | None, seconds: float | None) -> None:
        history = History(**({} if option is None else {"tag__default_time_retained": option}))
        history.commit()
        made = create_tag(history.on(), "v1", time_retained=given, clock=lambda: NOW)
        assert (made.create_time, made.time_retained_s) == ((None, None) if seconds is None else (NOW, seconds))
        tag = get_tag(history.on(), "v1")
        assert (tag.create_time, tag.time_retained_s) == (made.create_time, made.time_retained_s)

    def test_an_existing_tag_may_be_ignored_and_stays_even_if_its_snapshot_expired(self, history: History) -> None:
        first = history.commits(2)[0]
        history.put_tag("v1", 1)
        history.expire(1)
        assert create_tag(history.on(), "v1", ignore_if_exists=True).snapshot == first
        assert history.tags() == ["v1"]

    def test_a_success_file_tells_of_the_tag(self) -> None:
        history = History(tag__create_success_file="true")
        history.commit()
        create_tag(history.on(), "v1")
        path = f"{history.on().layout.tag_success_dir}/v1_SUCCESS"
        told = json.loads(history.store.read(path))
        assert told["creationTime"] == told["modificationTime"] > 0
        assert history.tags() == ["v1"]
        delete_tags(history.on(), ["v1"])
        assert not history.store.exists(path)

    def test_callbacks_are_not_called_and_that_is_said(self, caplog: pytest.LogCaptureFixture) -> None:
        history = History(tag__callbacks="com.example.Told")
        history.commit()
        with caplog.at_level(logging.WARNING):
            create_tag(history.on(), "v1")
        assert "names Java classes, which are not called for tags created here: com.example.Told" in caplog.text

    def test_tags_are_no_partitions_of_a_metastore_and_that_is_said(self, caplog: pytest.LogCaptureFixture) -> None:
        history = History(metastore__tag_to_partition="dt")
        history.commit()
        with caplog.at_level(logging.WARNING):
            create_tag(history.on(), "v1")
        assert "tags created here are not added to a Hive metastore" in caplog.text

    def test_costs_the_same_whatever_the_size_and_reads_no_manifest(self) -> None:
        calls = []
        for count in (10, 1_000):
            history = History()
            base = history.commit()
            for i in range(2, count + 1):
                later = snapshot_file.encode(snapshot_file.Snapshot(**{**_values(base), "id": i, "uuid": f"u{i}"}))
                history.store.write(history.on().layout.snapshot_path(i), later)
            history.store.write(f"{history.on().layout.snapshot_dir}/LATEST", str(count).encode())
            handle = history.on()
            history.store.arm(None)
            create_tag(handle, "v1", snapshot_id=count // 2)
            create_tag(handle, "v2")
            calls.append([(c.verb, c.path.rpartition("/")[0]) for c in history.store.calls])
            assert history.store.count(path_part="/manifest/") == 0
            assert history.store.count(path_part="/bucket-") == 0
        assert len(calls[0]) == len(calls[1]) < 60

    def test_a_snapshot_that_another_engine_lets_expire_meanwhile_is_not_tagged(
        self, history: History, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        history.commits(3)
        handle = history.on()
        write = type(history.store).write

        def expiring(store: Any, path: str, data: bytes) -> None:
            if "/tag/" in path:
                history.expire(2)
            write(store, path, data)

        monkeypatch.setattr(type(history.store), "write", expiring)
        with pytest.raises(
            SnapshotExpiredError, match=r"snapshot 2 of table db[.]t expired while tag 'v1' was created from it"
        ):
            create_tag(handle, "v1", snapshot_id=2)
        assert history.tags() == []

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ({"name": "v0"}, TagAlreadyExistsError, "table db.t already has a tag 'v0'; replace_tag moves it"),
            ({"name": "7"}, InvalidInputError, "'7' cannot be the name of a tag of table db.t: a number means"),
            ({"name": " "}, InvalidInputError, "a name is not blank"),
            ({"name": "a/b"}, InvalidInputError, "a name holds no slash"),
            ({"name": "savepoint-1"}, InvalidInputError, "use create_savepoint"),
            ({"name": "snapshot.1"}, InvalidInputError, "it is how snapshot '1' is written as a version"),
            ({"name": "main.x"}, InvalidInputError, "it is how a version 'x' on branch 'main' is written"),
            ({"name": "fix.x"}, InvalidInputError, "it is how a version 'x' on branch 'fix' is written"),
            ({"name": "branch-guard-x"}, InvalidInputError, "guard the bases of branches"),
            ({"snapshot_id": 9}, SnapshotNotFoundError, "table db.t has no snapshot 9: its snapshots alive are 2 to 3"),
            ({"snapshot_id": 1}, SnapshotExpiredError, "snapshot 1 of table db.t has expired"),
            ({"snapshot_id": -1}, SnapshotNotFoundError, "has no snapshot -1"),
            (
                {"snapshot_id": "2"},
                InvalidInputError,
                "snapshot_id = '2' of table db.t is not a number; give a snapshot id",
            ),
            (
                {"time_retained": "soon"},
                InvalidInputError,
                "time_retained = 'soon' for a tag of table db.t: expected a",
            ),
            ({"time_retained": 60}, InvalidInputError, "a number has no unit; give text such as '7 d'"),
            ({"time_retained": "0 s"}, InvalidInputError, "it must be positive"),
            ({"time_retained": timedelta(days=-1)}, InvalidInputError, "it must be positive"),
        ],
    )
    def test_what_is_refused_leaves_nothing(
        self, history: History, arguments: dict[str, Any], error: type[PaimonError], message: str
    ) -> None:
        history.commits(3)
        history.put_tag("v0", 2)
        create_branch(history.on(), "fix", snapshot_id=3)
        history.expire(1)
        before = history.tags()
        name = arguments.pop("name", "v1")
        with pytest.raises(error) as caught:
            create_tag(history.on(), name, **arguments)
        assert message in str(caught.value)
        assert history.tags() == before
        assert not history.store.list(f"{history.root}/intent")

    def test_an_empty_table_has_nothing_to_tag(self, history: History) -> None:
        with pytest.raises(SnapshotNotFoundError, match=r"table db\.t has no snapshot yet, so there is nothing to tag"):
            create_tag(history.on(), "v1")

    def test_a_snapshot_gets_one_tag_named_by_time(self) -> None:
        history = History(tag__automatic_creation="process-time")
        history.commits(2)
        create_tag(history.on(), "2024-01-01", snapshot_id=1)
        create_tag(history.on(), "2024-01-02", snapshot_id=2)
        create_tag(history.on(), "v1", snapshot_id=1)
        with pytest.raises(InvalidInputError, match="snapshot 1 already has one, '2024-01-01'; choose another name"):
            create_tag(history.on(), "2024-01-03", snapshot_id=1)
        with pytest.raises(InvalidInputError, match="snapshot 1 already has one"):
            rename_tag(history.on(), "v1", "2024-01-03")
        replace_tag(history.on(), "2024-01-01", snapshot_id=1)

    def test_tags_of_a_branch_are_the_branchs_own(self, history: History) -> None:
        history.commits(2)
        create_branch(history.on(), "fix", snapshot_id=1)
        history.commit("fix")
        create_tag(history.on("fix"), "v1")
        assert "v1" in history.tags("fix")
        assert "v1" not in history.tags()
        said = r"branch 'fix' of table db[.]t has no tag 'v2'; did you mean 'v1'\?; its tags"
        with pytest.raises(TagNotFoundError, match=said):
            delete_tags(history.on("fix"), ["v2"])


def _values(snapshot: Any) -> dict[str, Any]:
    return {f: getattr(snapshot, f) for f in snapshot.__dataclass_fields__}


class TestReplace:
    def test_a_tag_moves_and_its_old_files_go(self, history: History) -> None:
        first = history.commit()
        history.put_tag("v1", 1, NOW, 60.0)
        second = history.commit(overwrite=True)
        history.expire(1)
        only_first = history.manifests_of(first) - history.manifests_of(second)
        assert only_first <= history.manifests()
        moved = replace_tag(history.on(), "v1")
        assert isinstance(moved, TagInfo)
        assert (moved.snapshot, moved.create_time, moved.time_retained_s) == (second, None, None)
        assert not only_first & history.manifests()
        assert history.manifests_of(second) <= history.manifests()

    def test_the_tables_default_life_time_is_not_for_replaced_tags(self) -> None:
        history = History(tag__default_time_retained="1 h")
        history.commits(2)
        history.put_tag("v1", 1)
        moved, kept = replace_tag(history.on(), "v1"), replace_tag(history.on(), "v1", time_retained="2 h")
        assert isinstance(moved, TagInfo) and moved.time_retained_s is None
        assert isinstance(kept, TagInfo) and kept.time_retained_s == 7200

    def test_a_tag_that_is_not_there_cannot_move(self, history: History) -> None:
        history.commits(2)
        history.put_tag("v1", 1)
        with pytest.raises(TagNotFoundError, match=r"has no tag 'v11'; did you mean 'v1'\?; its tags are v1"):
            replace_tag(history.on(), "v11")


class TestRename:
    def test_a_tag_keeps_its_life_time_and_its_branches(self, history: History) -> None:
        history.commits(2)
        history.put_tag("v1", 1, NOW, 60.0)
        create_branch(history.on(), "fix", tag="v1")
        rename_tag(history.on(), "v1", "v2")
        found = {t.name: t for t in list_tag_infos(history.on())}
        assert found.keys() == {"v2", "branch-guard-fix"}
        assert (found["v2"].create_time, found["v2"].time_retained_s) == (NOW, 60.0)
        assert found["v2"].branches == ("fix",)
        assert found["branch-guard-fix"].guards == "fix"
        fork = read_fork(history.on().on_branch_directory("fix"))
        assert fork is not None and fork.tag == "v2"

    def test_it_is_there_by_one_of_its_names_whenever_it_is_broken_off(self) -> None:
        for at in range(1, 40):
            history = History(tag__create_success_file="true")
            snapshot = history.commit()
            history.put_tag("v1", 1)
            history.store.arm(Fault(at, forever=True, verbs=MUTATING))
            with suppress(StorageError):
                rename_tag(history.on(), "v1", "v2")
            done = not history.store.failed
            history.store.arm(None)
            names = history.tags()
            assert names and all(get_tag(history.on(), n).snapshot == snapshot for n in names)
            create_tag(history.on(), "other")
            assert history.tags() in (["other", "v1"], ["other", "v2"])
            if done:
                assert at > 3
                return
        raise AssertionError("it never came to an end")

    @pytest.mark.parametrize(
        ("old", "new", "error", "message"),
        [
            ("v9", "v2", TagNotFoundError, "has no tag 'v9'"),
            ("v1", "v3", TagAlreadyExistsError, "already has a tag 'v3'"),
            ("v1", "v1", TagAlreadyExistsError, "already has a tag 'v1'"),
            ("v1", "8", InvalidInputError, "a number means a snapshot id"),
            (
                "savepoint-1",
                "v2",
                InvalidInputError,
                "tag 'savepoint-1' of table db.t is a savepoint and cannot be renamed",
            ),
            ("branch-guard-fix", "v2", InvalidInputError, "guards the base of branch 'fix' and cannot be renamed"),
        ],
    )
    def test_what_is_refused(
        self, history: History, old: str, new: str, error: type[PaimonError], message: str
    ) -> None:
        history.commit()
        for name in ("v1", "v3", "savepoint-1"):
            history.put_tag(name, 1)
        create_branch(history.on(), "fix", snapshot_id=1)
        before = history.tags()
        with pytest.raises(error) as caught:
            rename_tag(history.on(), old, new)
        assert message in str(caught.value)
        assert history.tags() == before


class TestDelete:
    def test_exactly_the_files_that_nothing_else_needs_go(self, tmp_path: Path) -> None:
        t = a_table(pa.schema([("k", pa.int64())]), where=tmp_path)
        for i in range(4):
            t.write(pa.table({"k": [i]}), mode="overwrite" if i % 2 else "append")
            t.create_tag(f"v{i}")
        t.create_branch("fix", tag="v2")
        t.expire_snapshots(retain_max=1, retain_min=1)
        dry = t.delete_tag(["v0", "v2"], dry_run=True)
        assert [x.name for x in t.tags(include_internal=True)] == ["v0", "v1", "branch-guard-fix", "v2", "v3"]
        gone = t.delete_tag(["v0", "v2"])
        assert (gone.tags, gone.paths) == (("v0", "v2"), dry.paths)
        # v1 replaced the only row of v0, and the branch needs what v2 had.
        assert gone.data_files == 1
        assert missing_files(t.handle) == []
        for version, rows in (("v1", [1]), ("fix", [1, 2]), ("v3", [3])):
            assert sorted(t.scan(version=version).to_arrow()["k"].to_pylist()) == rows

    def test_while_the_snapshot_lives_no_file_goes(self, history: History) -> None:
        history.commits(2)
        history.put_tag("v1", 1)
        before = history.manifests()
        gone = delete_tags(history.on(), ["v1"])
        assert (gone.tags, gone.paths) == (("v1",), ())
        assert history.manifests() == before

    def test_a_missing_tag_stops_all_of_them(self, history: History) -> None:
        history.commit()
        history.put_tag("v1", 1)
        with pytest.raises(TagNotFoundError, match="has no tag 'w'; its tags are v1"):
            delete_tags(history.on(), ["v1", "w"])
        assert history.tags() == ["v1"]

    def test_the_guard_of_a_branch_stays(self, history: History) -> None:
        history.commit()
        create_branch(history.on(), "fix", snapshot_id=1)
        for branch in ("main", "fix"):
            with pytest.raises(InvalidInputError, match=r"delete_branch\('fix'\) deletes it"):
                delete_tags(history.on(branch), ["branch-guard-fix"])
        with pytest.raises(InvalidInputError, match="guards the base of branch 'fix' and cannot be replaced"):
            replace_tag(history.on(), "branch-guard-fix")
        assert history.tags() == ["branch-guard-fix"]

    def test_a_guard_whose_branch_is_gone_may_go(self, history: History) -> None:
        history.commit()
        history.put_tag("branch-guard-gone", 1)
        delete_tags(history.on(), ["branch-guard-gone"])
        assert history.tags() == []


class TestNeighbours:
    def test_tags_are_next_to_each_other_by_commit_time(self, history: History) -> None:
        for ms in (1000, 2000, 3000):
            history.commit(at_ms=ms)
        for name, snapshot_id in (("c", 1), ("a", 2), ("b", 2), ("d", 3)):
            history.put_tag(name, snapshot_id)
        create_branch(history.on(), "fix", snapshot_id=3)
        handle = history.on()
        found = {n: (previous_tag(handle, n), next_tag(handle, n)) for n in "abcd"}
        assert {n: tuple(None if t is None else t.name for t in pair) for n, pair in found.items()} == {
            "c": (None, "a"),
            "a": ("c", "d"),
            "b": ("c", "d"),
            "d": ("b", None),
        }

    def test_of_a_tag_that_is_not_there(self, history: History) -> None:
        history.commit()
        for find in (previous_tag, next_tag):
            with pytest.raises(TagNotFoundError, match="has no tag 'x'; it has no tags"):
                find(history.on(), "x")


def test_a_table_at_a_version_is_not_changed(tmp_path: Path) -> None:
    t = a_table(pa.schema([("k", pa.int64())]), where=tmp_path)
    t.write(pa.table({"k": [1]}))
    with pytest.raises(InvalidInputError, match="was opened at version '1'"):
        t.at(1).create_tag("v1")
    assert t.tags(include_internal=True) == []
    assert get_snapshot(t.handle, 1).id == 1


def test_a_dry_run_of_replacing_tells_what_goes(tmp_path: Path) -> None:
    t = new_table(tmp_path)
    put(t, k1="a")
    put(t, k1="b")
    t.create_tag("v", snapshot_id=1)
    t.compact(full=True)
    t.expire_snapshots(retain_max=1, retain_min=1, older_than=datetime(2999, 1, 1))
    before = files(t)
    told = t.replace_tag("v", dry_run=True)
    assert files(t) == before and t.tags(include_internal=True)[0].snapshot.id == 1
    assert told.tags == ("v",) and told.data_files == 1 and told.bytes > 0
    with pytest.raises(TagNotFoundError):
        t.replace_tag("w", dry_run=True)
    t.replace_tag("v")
    gone = before.keys() - files(t).keys()
    root = t.handle.layout.root
    assert gone == {path.removeprefix(f"{root}/") for path in told.paths}
    in_order(t)
