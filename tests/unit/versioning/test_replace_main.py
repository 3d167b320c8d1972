"""Main that comes to mean a branch: what is copied, what goes, what goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.errors import BranchNotFoundError, CommitConflictError, InvalidInputError
from paimon_spark.format.metadata_files.snapshot import encode
from paimon_spark.maintenance import change as intents
from paimon_spark.metadata.branches import read_fork
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import Put, SetAside, Step
from paimon_spark.metadata.journal.execution import run_step
from paimon_spark.metadata.tags import guard_name
from paimon_spark.storage.local import LocalStore
from paimon_spark.storage.store import FileInfo
from paimon_spark.versioning.tags import create_tag
from tests.harness.commits import a_file, committer, message
from tests.unit.versioning.publishing import files, ids, in_order, new_table, put, rows, tags


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Main: 1, 2 (a tag), 3; `fix` of the tag: 3."""
    made = new_table(tmp_path)
    put(made, k1="a")
    put(made, k2="b")
    create_tag(made.handle, "good")
    made.create_branch("fix", tag="good")
    made.create_branch("other", tag="good")
    put(made, k3="wrong")
    put(made.branch("fix"), k3="right")
    create_tag(made.branch("fix").handle, "checked")
    return made


def reopened(table: Table) -> Table:
    return paimon_spark.load_table(table.handle.layout.root)


def test_main_means_the_branch(table: Table) -> None:
    root = Path(table.handle.layout.root)
    (root / "consumer").mkdir()
    (root / "consumer" / "consumer-c").write_text('{"nextSnapshot": 3}')
    result = table.replace_main("fix")
    assert (result.branch, result.former_main, result.fork_snapshot_id) == ("fix", "main", 2)
    assert result.copied_snapshots == (1,) and result.copied_tags == () and result.discarded_snapshots == (3,)
    assert "Java Paimon 0.9" in result.warning
    assert (root / "MAIN-BRANCH").read_text() == "fix"
    assert not any((root / name).exists() for name in ("snapshot", "tag", "schema", "consumer"))
    main = reopened(table)
    assert rows(main) == {1: "a", 2: "b", 3: "right"} == rows(main.branch("fix"))
    assert ids(main) == [1, 2, 3] and tags(main) == ["checked", "good"] and rows(main.at(1)) == {1: "a"}
    assert (root / "branch" / "branch-fix" / "consumer" / "consumer-c").exists()
    marks = {b.name: b.is_main for b in main.branches(include_internal=True)}
    assert marks == {"fix": True, "other": False, str(result.backup_branch): False}
    assert rows(main.branch(str(result.backup_branch))) == {1: "a", 2: "b", 3: "wrong"}
    guards = {t.name for t in main.tags(include_internal=True) if t.name.startswith("branch-guard-")}
    assert guards == {guard_name("other"), guard_name(str(result.backup_branch))}
    assert read_fork(main.branch("fix").handle) is None
    in_order(main)
    assert main.doctor() == []


def test_what_another_engine_commits_to_the_former_main_meanwhile_is_kept(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, run = Path(table.handle.layout.root), run_step
    head = table.snapshots()[-1]
    landed = []

    def with_a_commit(handle: TableHandle, step: Step) -> None:
        if step == Put("MAIN-BRANCH", "fix"):
            landed.append(replace(head, id=4, uuid="theirs"))
            (root / "snapshot" / "snapshot-4").write_bytes(encode(landed[0]))
        run(handle, step)

    monkeypatch.setattr(intents, "run_step", with_a_commit)
    result = table.replace_main("fix")
    backup = reopened(table).branch(str(result.backup_branch))
    assert landed and not (root / "snapshot").exists()
    assert [s.uuid for s in backup.snapshots()][-2:] == [head.uuid, "theirs"]
    assert rows(backup)[3] == "wrong"


def test_who_takes_a_commit_to_the_former_main_back_while_it_is_moved(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Snapshot 4 is taken back after it was listed; 5, which was made on it, is not kept without it."""
    root, run = Path(table.handle.layout.root), run_step
    head = table.snapshots()[-1]

    def beside(handle: TableHandle, step: Step) -> None:
        if isinstance(step, SetAside):
            handle = replace(handle, store=TakingBack())
            for n in (4, 5):
                (root / "snapshot" / f"snapshot-{n}").write_bytes(encode(replace(head, id=n, uuid="theirs")))
        run(handle, step)

    monkeypatch.setattr(intents, "run_step", beside)
    result = table.replace_main("fix")
    assert rows(reopened(table)) == {1: "a", 2: "b", 3: "right"}
    assert ids(reopened(table).branch(str(result.backup_branch))) == [2, 3]
    in_order(reopened(table))


class TakingBack(LocalStore):
    """A store in which snapshot 4 is deleted by its writer after its directory was listed."""

    def list(self, directory: str) -> list[FileInfo]:
        found = super().list(directory)
        self.delete(f"{directory}/snapshot-4")
        return found


@pytest.mark.ci
def test_who_opens_the_new_main_before_the_former_is_gone_writes_to_it(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, steps = run_step, list[Step]()

    def beside(handle: TableHandle, step: Step) -> None:
        run(handle, step)
        if steps or step == Put("MAIN-BRANCH", "fix"):
            steps.append(step)
            put(reopened(table), **{f"k{100 + len(steps)}": "main"})
            put(reopened(table).branch("fix"), **{f"k{200 + len(steps)}": "branch"})

    monkeypatch.setattr(intents, "run_step", beside)
    table.replace_main("fix")
    written = {k + n for k in (100, 200) for n in range(1, 1 + len(steps))}
    assert len(steps) > 5 and rows(reopened(table)).keys() == {1, 2, 3, *written}
    in_order(reopened(table))


def test_a_table_opened_before_finds_the_new_main(table: Table) -> None:
    scan = table.scan()
    table.replace_main("fix")
    assert dict(zip(*scan.to_arrow().select(["k", "v"]).to_pydict().values(), strict=True))[3] == "right"
    assert rows(table)[3] == "right" and ids(table) == [1, 2, 3] and tags(table) == ["checked", "good"]
    put(table, k4="on")
    assert rows(reopened(table).branch("fix"))[4] == "on"
    in_order(reopened(table))


def test_without_backup(table: Table) -> None:
    result = table.replace_main("fix", backup=False)
    assert result.backup_branch is None and result.removed.data_files == 1
    in_order(reopened(table))


def test_the_branch_that_is_main_stays(table: Table) -> None:
    table.replace_main("fix")
    main = reopened(table)
    with pytest.raises(InvalidInputError, match="main"):
        main.delete_branch("fix")
    with pytest.raises(InvalidInputError, match="already main"):
        main.replace_main("fix")
    with pytest.raises(InvalidInputError, match="already main"):
        main.merge_branch("fix")


def test_again_and_merging_into_it(table: Table) -> None:
    table.replace_main("fix")
    main = reopened(table)
    put(main.branch("other"), k9="other")
    put(main, k4="fix")
    merged = main.merge_branch("other", if_main_moved="replace")
    assert merged.fork_snapshot_id == 2 and merged.discarded_snapshots == (3, 4)
    main = reopened(table)
    assert (Path(main.handle.layout.root) / "MAIN-BRANCH").read_text() == "fix"
    assert rows(main) == {1: "a", 2: "b", 9: "other"} == rows(main.branch("fix")) and ids(main) == [1, 2, 3]
    in_order(main)
    main.create_branch("next", snapshot_id=3)
    put(main.branch("next"), k10="next")
    second = main.replace_main("next")
    assert second.former_main == "fix"
    main = reopened(table)
    names = {b.name for b in main.branches(include_internal=True)}
    assert "fix" not in names and "next" in names and rows(main) == {1: "a", 2: "b", 9: "other", 10: "next"}
    in_order(main)
    assert main.doctor() == []
    for name in names - {"next"}:
        main.delete_branch(name)
        in_order(main)
    main.create_branch("again", tag="good")
    put(main.branch("again"), k11="x")
    in_order(main)


def test_children_of_the_former_main_and_of_the_branch(table: Table) -> None:
    table.create_branch("late", snapshot_id=3)
    table.branch("fix").create_branch("child", snapshot_id=3)
    result = table.replace_main("fix")
    main = reopened(table)
    late = read_fork(main.branch("late").handle)
    assert late is not None and (late.parent, late.snapshot_id) == (result.backup_branch, 3)
    guards = {t.name: t.snapshot for t in main.tags(include_internal=True) if t.name.startswith("branch-guard-")}
    assert guards[guard_name("late")].id == 2 and guards[guard_name("child")].id == 3
    assert guards[guard_name("child")].uuid == main.snapshots()[-1].uuid
    merged = main.merge_branch("child")
    assert merged.moved_snapshots == () and merged.fork_snapshot_id == 3
    in_order(main)


def test_refusals(table: Table) -> None:
    table.create_branch("empty", empty=True)
    before = ids(table)
    with pytest.raises(InvalidInputError, match=r"replacing main of branch 'empty' .* no snapshot"):
        table.replace_main("empty")
    with pytest.raises(InvalidInputError, match="main itself"):
        table.replace_main("main")
    with pytest.raises(BranchNotFoundError, match="no branch 'nope'"):
        table.replace_main("nope")
    with pytest.raises(InvalidInputError, match="only main"):
        table.branch("fix").replace_main("other")
    assert ids(table) == before and not (Path(table.handle.layout.root) / "MAIN-BRANCH").exists()


def commit(handle: TableHandle) -> None:
    committer(handle).commit([message(handle, a_file("late"), bucket=0)])


def test_who_writes_to_the_former_main_by_an_old_handle_is_refused(table: Table) -> None:
    old = table.handle
    table.replace_main("fix")
    with pytest.raises(CommitConflictError):
        commit(old)
    main = reopened(table)
    assert ids(main) == [1, 2, 3]
    root = Path(old.layout.root)
    assert not (root / "snapshot" / "snapshot-1").exists()


def test_who_writes_to_the_branch_goes_on(table: Table) -> None:
    branch = table.branch("fix")
    table.replace_main("fix")
    put(branch, k7="on")
    assert rows(reopened(table))[7] == "on"


@pytest.mark.parametrize("backup", [True, False])
def test_a_dry_run_tells_what_replacing_does(table: Table, backup: bool, caplog: pytest.LogCaptureFixture) -> None:
    before = files(table)
    told = table.replace_main("fix", backup=backup, dry_run=True)
    assert files(table) == before and "is main of table" not in caplog.text
    done = table.replace_main("fix", backup=backup)
    assert (told.backup_branch is None) == (done.backup_branch is None) == (not backup)
    assert replace(told, backup_branch=None) == replace(done, backup_branch=None)
    assert told.copied_snapshots == (1,) and told.removed.data_files == (0 if backup else 1)
    with pytest.raises(InvalidInputError, match="already main"):
        table.replace_main("fix", dry_run=True)
