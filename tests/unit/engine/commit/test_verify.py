"""A snapshot that lands while its branch is given another history: it counts, is kept elsewhere, or is taken back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from paimon_spark.engine.commit import attempts
from paimon_spark.engine.commit.publish import write_hints
from paimon_spark.errors import CommitConflictError, CommitOutcomeUnknownError, FileMissingError
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.decision import Decision, decide, decision_path, find_decision, split_root
from paimon_spark.metadata.journal.lock import LockFile, Owner
from paimon_spark.metadata.snapshots import list_snapshot_ids
from paimon_spark.storage.local import LocalStore
from tests.harness.commits import Calm, a_file, committer, files, make_table, manifest_names, message
from tests.harness.fault_store import Fault, FaultStore

Meanwhile = Callable[[TableHandle, Snapshot], None]


@pytest.fixture
def table(tmp_path: Path) -> TableHandle:
    """Snapshots 1 and 2."""
    made = make_table(LocalStore(), f"{tmp_path}/db.db/t")
    for name in "ab":
        committer(made, "before").commit([message(made, a_file(name))])
    return made


def landing(table: TableHandle, monkeypatch: pytest.MonkeyPatch, meanwhile: Meanwhile) -> None:
    """Commit; `meanwhile` happens right after the snapshot has landed."""
    real = write_hints

    def hints(handle: TableHandle, snapshot_id: int, first: bool) -> None:
        real(handle, snapshot_id, first)
        snapshot = next(s for s in attempts_made(handle) if s.id == snapshot_id)
        meanwhile(handle, snapshot)

    monkeypatch.setattr(attempts, "write_hints", hints)
    committer(table).commit([message(table, a_file("new"))])


def attempts_made(handle: TableHandle) -> list[Snapshot]:
    from paimon_spark.metadata.snapshots import list_snapshots

    return list_snapshots(handle)


def announce(table: TableHandle, kind: str, steps: list[list[str]] | None) -> None:
    directory = Path(table.layout.root) / "intent"
    directory.mkdir(exist_ok=True)
    owner = Owner("abc", "host", None, 1, None)
    (directory / "intent").write_bytes(LockFile(owner, kind, 0).encode())
    if steps is not None:
        journal = {"version": 1, "kind": kind, "label": kind, "steps": steps, "released": []}
        (directory / "plan-abc").write_text(json.dumps(journal))


def snapshot_file(table: TableHandle, snapshot_id: int) -> Path:
    return Path(table.layout.snapshot_path(snapshot_id))


def refused(table: TableHandle, monkeypatch: pytest.MonkeyPatch, meanwhile: Meanwhile) -> None:
    before = manifest_names(table)
    with pytest.raises(CommitConflictError, match=r"was given another history .* Nothing was committed"):
        landing(table, monkeypatch, meanwhile)
    assert 3 not in list_snapshot_ids(table)
    assert manifest_names(table) == before, "its metadata is gone too"


def test_a_plan_that_knows_of_it_decides(table: TableHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(handle: TableHandle, made: Snapshot) -> None:
        put = ["put", "branch/branch-backup/snapshot/snapshot-3", snapshot_file(handle, 3).read_text()]
        announce(handle, "merge-branch", [put, ["put", "snapshot/snapshot-2", "x"]])

    landing(table, monkeypatch, meanwhile)
    assert list_snapshot_ids(table) == [1, 2, 3]


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        ("merge-branch", ["put", "snapshot/snapshot-2", "x"]),
        ("merge-branch", ["put", "MAIN-BRANCH", ".merge-1"]),
        ("rollback", ["delete", "snapshot/snapshot-2", "sha"]),
        ("replace-main", ["delete-tree", "snapshot"]),
        ("rollback", ["delete-files", "tag/tag-x", "snapshot/snapshot-2"]),
    ],
)
def test_a_plan_that_does_not_know_of_it_takes_it_back(
    table: TableHandle, monkeypatch: pytest.MonkeyPatch, kind: str, step: list[str]
) -> None:
    refused(table, monkeypatch, lambda handle, _: announce(handle, kind, [step]))
    assert (Path(table.layout.snapshot_dir) / "LATEST").read_text() == "2"
    assert set(files(table)) == {"a", "b"}


@pytest.mark.parametrize(
    ("kind", "steps"),
    [
        ("expire-snapshots", [["delete", "snapshot/snapshot-2"]]),
        ("merge-branch", [["put", "branch/branch-x/snapshot/snapshot-2", "x"]]),
        ("replace-main", [["put", "snapshot/snapshot-1", "x"], ["put", "snapshot/LATEST", "2"]]),
        ("create-tag", None),
    ],
)
def test_what_does_not_touch_the_branch_is_no_matter(
    table: TableHandle, monkeypatch: pytest.MonkeyPatch, kind: str, steps: list[list[str]] | None
) -> None:
    landing(table, monkeypatch, lambda handle, _: announce(handle, kind, steps))
    assert list_snapshot_ids(table) == [1, 2, 3]


def test_it_waits_for_the_plan(table: TableHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    announce(table, "merge-branch", None)
    calm = Calm()

    def sleep(seconds: float) -> None:
        calm.sleep(seconds)
        if len(calm.waits or []) == 3:
            (Path(table.layout.root) / "intent" / "intent").unlink()

    committer(table, sleep=sleep, clock_ms=calm.clock_ms).commit([message(table, a_file("new"))])
    assert set(files(table)) == {"a", "b", "new"}
    announce(table, "merge-branch", None)
    with pytest.raises(CommitOutcomeUnknownError, match="wrote no journal"):
        committer(table).commit([message(table, a_file("newer"))])
    assert list_snapshot_ids(table) == [1, 2, 3, 4], "nothing of it was touched"


@pytest.mark.parametrize("kind", ["publish-pipeline", "undo-release", "delete-branch", "undo-create-branch"])
def test_it_does_not_wait_for_plans_that_come_to_nothing_without_it(table: TableHandle, kind: str) -> None:
    """Publications of several tables look at main again after they are journalled; main is never deleted."""
    calm = Calm()
    announce(table, kind, None)
    committer(table, sleep=calm.sleep, clock_ms=calm.clock_ms).commit([message(table, a_file("new"))])
    assert set(files(table)) == {"a", "b", "new"}
    assert not calm.waits


@pytest.mark.parametrize("ended_by_commits", [True, False])
def test_until_a_plan_is_decided_the_commit_counts(
    table: TableHandle, monkeypatch: pytest.MonkeyPatch, ended_by_commits: bool
) -> None:
    decision = decision_path(split_root(table)[0], "d1")

    def meanwhile(handle: TableHandle, made: Snapshot) -> None:
        announce(handle, "publish-pipeline", [["put-new", "snapshot/snapshot-3", "x", "branch/branch-b/snapshot/s"]])
        journal = Path(table.layout.root) / "intent" / "plan-abc"
        more = {"version": 2, "decision": "d1", "endedByCommits": ended_by_commits}
        journal.write_text(json.dumps({**json.loads(journal.read_text()), **more}))

    landing(table, monkeypatch, meanwhile)
    assert set(files(table)) == {"a", "b", "new"}
    found = find_decision(table.store, decision)
    assert found == (Decision(runs=False) if ended_by_commits else None)


def test_from_a_decision_on_the_plan_holds(table: TableHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(handle: TableHandle, made: Snapshot) -> None:
        announce(handle, "publish-pipeline", [["move-late", "snapshot", "branch/branch-b/snapshot", "", "{}"]])
        journal = Path(table.layout.root) / "intent" / "plan-abc"
        journal.write_text(json.dumps({**json.loads(journal.read_text()), "version": 2, "decision": "d1"}))
        decide(table.store, decision_path(split_root(table)[0], "d1"), Decision(True, (split_root(table)[1],)))

    refused(table, monkeypatch, meanwhile)


@pytest.mark.parametrize("name", ["main_backup_20240101T000000", "main-backup-20240101T000000"])
@pytest.mark.parametrize("kept", [3, 2, None])
def test_moved_to_a_backup_it_counts_only_if_that_was_planned(
    table: TableHandle, monkeypatch: pytest.MonkeyPatch, kept: int | None, name: str
) -> None:
    """`kept` is the head of the backup as it was planned; None where none was."""
    backup = table.on_branch_directory(name)

    def meanwhile(handle: TableHandle, _: Snapshot) -> None:
        place = Path(backup.layout.snapshot_dir)
        place.mkdir(parents=True)
        snapshot_file(handle, 3).rename(place / "snapshot-3")
        if kept is not None:
            note = {"version": 1, "operation": "a merge", "head": [1, "a", "b"], "kept": [kept, "a", "b"]}
            (place.parent / "UNDO").write_text(json.dumps(note))

    if kept == 3:
        landing(table, monkeypatch, meanwhile)
        assert list_snapshot_ids(backup) == [3]
    else:
        refused(table, monkeypatch, meanwhile)
        assert list_snapshot_ids(backup) == []


def other(handle: TableHandle, snapshot_id: int) -> None:
    """Another snapshot in the place of that one."""
    path = snapshot_file(handle, snapshot_id)
    raw = json.loads(path.read_text())
    path.write_text(json.dumps({**raw, "uuid": "other", "deltaManifestList": "other", "baseManifestList": "other"}))


def test_another_history_under_it(table: TableHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(table, monkeypatch, lambda handle, _: other(handle, 2))


def test_another_snapshot_in_its_place(table: TableHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommitConflictError):
        landing(table, monkeypatch, lambda handle, _: other(handle, 3))
    assert "other" in snapshot_file(table, 3).read_text()


def test_a_history_that_was_cut_before_it(table: TableHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(table, monkeypatch, lambda handle, _: snapshot_file(handle, 2).unlink())


def test_a_history_that_has_expired_before_it_is_fine(table: TableHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(handle: TableHandle, _: Snapshot) -> None:
        snapshot_file(handle, 1).unlink()
        snapshot_file(handle, 2).unlink()

    landing(table, monkeypatch, meanwhile)
    assert list_snapshot_ids(table) == [3]


def test_main_that_means_another_branch_now(table: TableHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(handle: TableHandle, _: Snapshot) -> None:
        Path(handle.layout.main_branch_file).write_text("fix")

    refused(table, monkeypatch, meanwhile)


def test_a_branch_that_was_deleted(table: TableHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(handle: TableHandle, _: Snapshot) -> None:
        for path in (*Path(handle.layout.schema_dir).iterdir(), *(snapshot_file(handle, i) for i in (1, 2))):
            path.unlink()

    refused(table, monkeypatch, meanwhile)


def test_it_was_moved_to_another_branch(table: TableHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(handle: TableHandle, _: Snapshot) -> None:
        kept = Path(handle.layout.root) / "branch" / "branch-backup" / "snapshot"
        kept.mkdir(parents=True)
        snapshot_file(handle, 3).rename(kept / "snapshot-3")

    landing(table, monkeypatch, meanwhile)
    assert list_snapshot_ids(table) == [1, 2]


def test_others_have_built_on_it(table: TableHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(handle: TableHandle, _: Snapshot) -> None:
        snapshot_file(handle, 2).unlink()
        snapshot_file(handle, 4).write_bytes(snapshot_file(handle, 3).read_bytes().replace(b'"id": 3', b'"id": 4'))

    with pytest.raises(CommitOutcomeUnknownError, match="others have committed after it"):
        landing(table, monkeypatch, meanwhile)
    assert snapshot_file(table, 3).exists()


def test_a_look_that_fails_for_ever_leaves_everything(table: TableHandle, tmp_path: Path) -> None:
    store = FaultStore(table.store)
    ours = make_table(store, f"{tmp_path}/u")
    committer(ours, "before").commit([message(ours, a_file("a"))])
    store.arm(Fault(1, forever=True, verbs=frozenset(["read"]), path_part="/intent/"))
    with pytest.raises(CommitOutcomeUnknownError, match="the branch cannot be read"):
        committer(ours).commit([message(ours, a_file("b"))])
    store.arm(None)
    assert set(files(ours)) == {"a", "b"}


def test_nothing_of_it_stays_where_a_branch_was(table: TableHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hint alone would look like what another engine left of a branch."""

    def meanwhile(handle: TableHandle, _: Snapshot) -> None:
        for path in (*Path(handle.layout.schema_dir).iterdir(), *Path(handle.layout.snapshot_dir).iterdir()):
            path.unlink()
        (Path(handle.layout.snapshot_dir) / "LATEST").write_text("3")

    with pytest.raises(CommitConflictError):
        landing(table, monkeypatch, meanwhile)
    assert list(Path(table.layout.snapshot_dir).iterdir()) == []


def test_what_others_built_on_it_is_taken_back_first(table: TableHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(handle: TableHandle, _: Snapshot) -> None:
        snapshot_file(handle, 2).unlink()
        snapshot_file(handle, 4).write_bytes(snapshot_file(handle, 3).read_bytes().replace(b'"id": 3', b'"id": 4'))

    calm, real = Calm(), write_hints

    def sleep(seconds: float) -> None:
        calm.sleep(seconds)
        snapshot_file(table, 4).unlink(missing_ok=True)

    def hints(handle: TableHandle, snapshot_id: int, first: bool) -> None:
        real(handle, snapshot_id, first)
        meanwhile(handle, next(s for s in attempts_made(handle) if s.id == snapshot_id))

    monkeypatch.setattr(attempts, "write_hints", hints)
    with pytest.raises(CommitConflictError):
        committer(table, sleep=sleep, clock_ms=calm.clock_ms).commit([message(table, a_file("new"))])
    assert list_snapshot_ids(table) == [1]


def test_a_directory_that_is_gone_is_a_branch_that_is_gone(table: TableHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    """Local file systems say that there is no such file, when the directory is moved in the very moment."""
    real = LocalStore.create_exclusive

    def create(store: LocalStore, path: str, data: bytes) -> None:
        if "/snapshot/" not in path:
            return real(store, path, data)
        for schema in Path(table.layout.schema_dir).iterdir():
            schema.unlink()
        raise FileMissingError(f"there is no file {path}", path=path)

    monkeypatch.setattr(LocalStore, "create_exclusive", create)
    with pytest.raises(CommitConflictError, match="open the table again and write again"):
        committer(table).commit([message(table, a_file("new"))])


@pytest.mark.parametrize("has_journal", [False, True])
@pytest.mark.parametrize("of", ["tag", "branch"])
def test_what_is_created_from_it_before_it_is_removed_keeps_its_files(
    table: TableHandle, monkeypatch: pytest.MonkeyPatch, of: str, has_journal: bool
) -> None:
    """The operation has read the snapshot when it is removed, and writes it later."""
    path = {"tag": "tag/tag-x", "branch": "branch/branch-x/snapshot/snapshot-3"}[of]
    text, calm, real = [""], Calm(), write_hints

    def hints(handle: TableHandle, snapshot_id: int, first: bool) -> None:
        real(handle, snapshot_id, first)
        text[0] = snapshot_file(handle, 3).read_text()
        other(handle, 2)
        announce(handle, f"create-{of}", [["put", path, text[0]]] if has_journal else None)

    def sleep(seconds: float) -> None:
        calm.sleep(seconds)
        assert not snapshot_file(table, 3).exists()
        if len(calm.waits or []) == 3:
            created = Path(table.layout.root) / path
            created.parent.mkdir(parents=True, exist_ok=True)
            created.write_text(text[0])
            (Path(table.layout.root) / "intent" / "intent").unlink()

    monkeypatch.setattr(attempts, "write_hints", hints)
    before = manifest_names(table)
    with pytest.raises(CommitOutcomeUnknownError, match=f"{of} 'x' .*created from it before .* Write again"):
        committer(table, sleep=sleep, clock_ms=calm.clock_ms).commit([message(table, a_file("new"))])
    assert list_snapshot_ids(table) == [1, 2]
    assert manifest_names(table) > before, "what was created needs them"


def test_it_waits_for_who_may_create_something_from_it(table: TableHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(handle: TableHandle, _: Snapshot) -> None:
        other(handle, 2)
        announce(handle, "create-tag", None)

    before = manifest_names(table)
    with pytest.raises(CommitOutcomeUnknownError, match="may have created a tag or a branch from it"):
        landing(table, monkeypatch, meanwhile)
    assert manifest_names(table) > before


def test_it_does_not_wait_for_who_creates_nothing_from_it(table: TableHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(handle: TableHandle, _: Snapshot) -> None:
        other(handle, 2)
        announce(handle, "create-tag", [["put", "tag/tag-x", snapshot_file(handle, 1).read_text()]])

    refused(table, monkeypatch, meanwhile)


def test_a_failed_look_for_what_uses_it_keeps_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FaultStore(LocalStore())
    ours = make_table(store, f"{tmp_path}/db.db/u")
    for name in "ab":
        committer(ours, "before").commit([message(ours, a_file(name))])

    def meanwhile(handle: TableHandle, _: Snapshot) -> None:
        other(handle, 2)
        store.arm(Fault(1, forever=True, verbs=frozenset(["list"]), path_part="/tag"))

    before = manifest_names(ours)
    with pytest.raises(CommitOutcomeUnknownError, match="what was created from it cannot be read"):
        landing(ours, monkeypatch, meanwhile)
    store.arm(None)
    assert list_snapshot_ids(ours) == [1, 2]
    assert manifest_names(ours) > before
