"""Faults that the doctor finds and mends in tables after other engines, crashes and manual changes."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.errors import CorruptFileError
from paimon_spark.format.metadata_files import snapshot as snapshot_file
from paimon_spark.format.metadata_files.statistics import Statistics
from paimon_spark.maintenance.orphan_files import orphans
from paimon_spark.metadata.branches import read_fork
from paimon_spark.metadata.tags import guard_name
from paimon_spark.versioning.damage import Finding, Severity
from paimon_spark.versioning.tags import create_tag
from tests.harness.real_tables import a_table
from tests.harness.table_files import missing_files
from tests.unit.versioning.publishing import in_order, new_table, put, rows


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Main: 1 (a tag), 2."""
    made = new_table(tmp_path)
    put(made, k1="a")
    create_tag(made.handle, "good")
    put(made, k2="b")
    return made


def root(table: Table) -> Path:
    return Path(table.handle.layout.root)


def kinds(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(f.kind, f.branch) for f in findings]


def java_branch(table: Table, name: str, snapshot_id: int = 1, tag: str = "good") -> Table:
    """As Java makes a branch of a tag."""
    branch = root(table) / "branch" / f"branch-{name}"
    for source, target in [
        (f"tag/tag-{tag}", f"tag/tag-{tag}"),
        (f"snapshot/snapshot-{snapshot_id}", f"snapshot/snapshot-{snapshot_id}"),
        ("schema/schema-0", "schema/schema-0"),
    ]:
        (branch / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root(table) / source, branch / target)
    return table.branch(name)


def test_a_table_in_order_has_no_findings(table: Table) -> None:
    table.create_branch("fix", tag="good")
    put(table.branch("fix"), k3="c")
    table.branch("fix").create_branch("deep", snapshot_id=2)
    table.create_branch("fresh", empty=True)
    table.merge_branch("fix", if_main_moved="replace")
    put(table, k5="e")
    assert table.doctor() == []
    assert table.doctor(repair=True) == []


def test_commits_that_merge_manifests_follow_on_one_another(tmp_path: Path) -> None:
    table = new_table(tmp_path, **{"manifest.merge-min-count": "2"})
    for n in range(8):
        put(table, **{f"k{n}": "x"})
    assert table.doctor() == []


def test_a_base_that_nothing_protects(table: Table) -> None:
    dev = java_branch(table, "dev")
    put(dev, k3="dev")
    found = table.doctor()
    assert kinds(found) == [("unprotected-base", "dev")]
    assert found[0].severity is Severity.WARNING and "keeps snapshot 1" in found[0].message and not found[0].repaired
    assert [t.name for t in table.tags(include_internal=True)] == ["good"], "nothing was changed"
    assert [f.repaired for f in table.doctor(repair=True)] == [True]
    assert {t.name: t.snapshot.id for t in table.tags(include_internal=True)} == {"good": 1, guard_name("dev"): 1}
    fork = read_fork(dev.handle)
    assert fork is not None and (fork.parent, fork.snapshot_id, fork.tag) == ("main", 1, "good")
    assert table.doctor() == [] and rows(dev) == {1: "a", 3: "dev"}
    in_order(table)


def test_a_guard_that_was_deleted_comes_back(table: Table) -> None:
    table.create_branch("fix", tag="good")
    (root(table) / "tag" / f"tag-{guard_name('fix')}").unlink()
    assert kinds(table.doctor(repair=True)) == [("unprotected-base", "fix")]
    assert guard_name("fix") in {t.name for t in table.tags(include_internal=True)}
    assert table.doctor() == []


def test_a_guard_whose_branch_is_gone(table: Table) -> None:
    table.create_branch("fix", tag="good")
    shutil.rmtree(root(table) / "branch" / "branch-fix")
    assert kinds(table.doctor()) == [("stale-guard", "main")]
    assert table.doctor(repair=True)[0].repaired
    assert [t.name for t in table.tags(include_internal=True)] == ["good"] and table.doctor() == []
    in_order(table)


def test_files_that_are_gone(table: Table) -> None:
    snapshot = table.snapshots()[0]
    (root(table) / "manifest" / snapshot.delta_manifest_list).unlink()
    found = table.doctor()
    assert kinds(found) == [("missing-files", "main")] and found[0].severity is Severity.ERROR
    assert snapshot.delta_manifest_list in found[0].message and "snapshot 1" in found[0].message
    assert "tag 'good'" in found[0].message and "snapshot 2" not in found[0].message


def data_files(table: Table, *suffixes: str) -> list[Path]:
    return sorted(p for p in root(table).rglob("bucket-*/*") if p.suffix in (suffixes or (".parquet",)))


@pytest.mark.parametrize("how", ["gone", "truncated"])
def test_a_data_file_of_the_head(table: Table, how: str) -> None:
    before = data_files(table)
    put(table, k7="new")
    [file] = set(data_files(table)) - set(before)
    size = file.stat().st_size
    file.unlink() if how == "gone" else file.write_bytes(file.read_bytes()[:-7])
    [found] = table.doctor()
    assert (found.kind, found.branch, found.severity) == ("missing-files", "main", Severity.ERROR)
    assert (
        f"snapshot {table.snapshots()[-1].id} cannot be read whole: 1 file is gone or damaged, {file.name} "
        in found.message
    )
    assert found.message.endswith("is gone" if how == "gone" else f"has {size - 7} bytes, not {size}")
    assert table.doctor(quick=True) == []
    [repaired] = table.doctor(repair=True)
    assert not repaired.repaired


def test_a_data_file_that_only_a_tag_or_a_branch_needs(table: Table) -> None:
    table.create_branch("fix", tag="good")
    before = data_files(table)
    put(table.branch("fix"), k8="fix")
    [of_branch] = set(data_files(table)) - set(before)
    table.write(table.scan().to_arrow(), mode="overwrite")
    table.expire_snapshots(retain_max=1, retain_min=1)
    of_tag = next(f for f in before if f.exists())
    assert table.doctor() == [], "files of snapshots that expired are not needed"
    of_branch.unlink()
    [found] = table.doctor()
    assert (found.branch, found.message.partition(" cannot")[0]) == ("fix", "snapshot 2 of branch 'fix'")
    of_tag.unlink()
    assert {f.branch for f in table.doctor()} == {"main", "fix"}
    assert any("tag 'good'" in f.message for f in table.doctor())


@pytest.mark.parametrize("what", ["vectors", "changelog", "index", "statistics", "manifest"])
def test_every_kind_of_file(tmp_path: Path, what: str) -> None:
    options = {"changelog-producer": "input", "file-index.bitmap.columns": "v"}
    if what == "vectors":
        catalog = paimon_spark.load_catalog(str(tmp_path))
        catalog.create_database("db")
        table = catalog.create_table("db.t", "k BIGINT, v STRING", options={"deletion-vectors.enabled": "true"})
    else:
        table = new_table(tmp_path, **options, **{"file-index.in-manifest-threshold": "1 b"})
    put(table, k1="a", k2="b")
    put(table, k1="c") if what != "vectors" else table.delete("k = 1")
    assert table.doctor() == []
    place, pattern = {
        "vectors": ("index", "index-*"),
        "changelog": ("bucket-0", "changelog-*.parquet"),
        "index": ("bucket-0", "*.index"),
        "statistics": ("statistics", "*"),
        "manifest": ("manifest", "manifest-????????-*"),
    }[what]
    if what == "statistics":
        Committer(table.handle, "a test").set_statistics(Statistics(1, 0, 2, 100))
    files = sorted((root(table) / place).glob(pattern))
    assert files, sorted(str(p) for p in root(table).rglob("*"))
    for file in files:
        file.unlink()
    assert ("missing-files", "main") in kinds(table.doctor())


def test_a_manifest_of_the_head_is_gone(table: Table) -> None:
    for manifest in (root(table) / "manifest").glob("manifest-*-0"):
        if "list" not in manifest.name:
            manifest.unlink()
    assert ("missing-files", "main") in kinds(table.doctor())


def test_snapshots_copied_over_others(table: Table) -> None:
    """As pypaimon's fast-forward does: nothing of main is removed, neither schemas nor tags are copied."""
    put(table, k3="main")
    table.create_branch("fix", tag="good")
    fix = table.branch("fix")
    fix.alter(add={"n": "INT"})
    put(fix, k9="fix")
    branch = root(table) / "branch" / "branch-fix"
    for file in (branch / "snapshot").glob("snapshot-*"):
        shutil.copy(file, root(table) / "snapshot" / file.name)
    found = table.doctor()
    assert ("spliced-history", "main") in kinds(found) and ("missing-schema", "main") in kinds(found)
    spliced = next(f for f in found if f.kind == "spliced-history")
    assert "snapshot 3 was not made on snapshot 2" in spliced.message
    repaired = {f.kind: f.repaired for f in table.doctor(repair=True)}
    assert repaired["missing-schema"] and not repaired["spliced-history"]
    assert (root(table) / "schema" / "schema-1").read_bytes() == (branch / "schema" / "schema-1").read_bytes()


def test_snapshots_copied_to_a_main_with_another_schema_of_that_id(table: Table) -> None:
    """Main would read them with columns that their files do not have, and nobody would notice."""
    table.create_branch("fix", snapshot_id=2)
    fix = table.branch("fix")
    fix.alter(add={"n": "INT"})
    put(fix, k9="fix")
    table.alter(add={"m": "STRING"})
    assert table.doctor() == []
    shutil.copy(root(table) / "branch/branch-fix/snapshot/snapshot-3", root(table) / "snapshot/snapshot-3")
    shutil.copy(root(table) / "branch/branch-fix/snapshot/LATEST", root(table) / "snapshot/LATEST")
    [found] = table.doctor()
    assert (found.kind, found.branch, found.severity) == ("other-schema", "fix", Severity.ERROR)
    assert (
        "main and branch 'fix' both have snapshot 3, written with schema 1, but their columns of schema 1"
        in found.message
    )
    assert "merge_branch('fix', if_main_moved='replace')" in found.remedy
    [found] = table.doctor(repair=True)
    assert not found.repaired
    result = table.merge_branch("fix", if_main_moved="replace")
    assert result.discarded_schemas == (1,) and result.backup_branch is not None
    assert (root(table) / "schema/schema-1").read_bytes() == (
        root(table) / "branch/branch-fix/schema/schema-1"
    ).read_bytes()
    # The backup is main as it was, which misread the snapshot.
    assert kinds(table.doctor()) == [("other-schema", result.backup_branch)]
    table.delete_branch(result.backup_branch)
    assert table.doctor() == []


def test_merging_again_mends_snapshots_copied_over_others(table: Table) -> None:
    """As the remedy says: main has the branch's head already, but what follows there is of another history."""
    table.create_branch("fix", tag="good")
    put(table.branch("fix"), k9="fix")
    put(table, k3="main")
    shutil.copy(root(table) / "branch/branch-fix/snapshot/snapshot-2", root(table) / "snapshot/snapshot-2")
    assert ("spliced-history", "main") in kinds(table.doctor())
    result = table.merge_branch("fix", if_main_moved="replace")
    assert result.discarded_snapshots == (3,) and result.backup_branch is not None
    assert rows(table) == {1: "a", 9: "fix"}
    assert rows(table.branch(result.backup_branch)) == {1: "a", 2: "b", 3: "main"}
    assert ("spliced-history", "main") not in kinds(table.doctor())
    put(table, k4="later")
    assert table.merge_branch("fix").moved_snapshots == ()
    assert rows(table) == {1: "a", 9: "fix", 4: "later"}


def test_counts_that_do_not_go_together_and_holes(table: Table) -> None:
    put(table, k3="c")
    put(table, k4="d")
    snapshots = table.snapshots()
    path = root(table) / "snapshot" / "snapshot-4"
    path.write_bytes(snapshot_file.encode(replace(snapshots[3], total_record_count=40)))
    (root(table) / "snapshot" / "snapshot-2").unlink()
    messages = [f.message for f in table.doctor() if f.kind == "spliced-history"]
    assert len(messages) == 2
    assert any("40 rows in all, 1 of them new, contradict 3 before" in m for m in messages)
    assert any("there is a hole: snapshot 1 is followed by 3" in m for m in messages)


def test_a_schema_that_a_branch_lacks(table: Table) -> None:
    table.alter(add={"n": "INT"})
    put(table, k3="c")
    table.create_branch("fix", snapshot_id=3)
    (root(table) / "branch" / "branch-fix" / "schema" / "schema-0").unlink()
    assert kinds(table.doctor(repair=True)) == [("missing-schema", "fix")]
    assert (root(table) / "branch" / "branch-fix" / "schema" / "schema-0").exists() and table.doctor() == []


def test_a_hint_that_other_engines_believe(table: Table) -> None:
    (root(table) / "snapshot" / "LATEST").write_text("7")
    assert kinds(table.doctor()) == [("stale-hint", "main")]
    table.doctor(repair=True)
    assert (root(table) / "snapshot" / "LATEST").read_text() == "2" and table.doctor() == []


def test_a_hint_that_is_only_old_is_no_matter(table: Table) -> None:
    (root(table) / "snapshot" / "LATEST").write_text("1")
    assert table.doctor() == []


def test_names_that_we_would_not_give(table: Table) -> None:
    table.create_branch("fix", tag="good")
    tags = root(table) / "tag"
    for name in ("7", "fix.v1", "savepoint-9", "savepoint-1"):
        shutil.copy(tags / "tag-good", tags / f"tag-{name}")
    java_branch(table, "a.b")
    found = [f for f in table.doctor() if f.kind == "ambiguous-name"]
    assert [f.severity for f in found] == [Severity.NOTE] * 5
    text = " ".join(f.message for f in found)
    assert "'7'" in text and "'fix.v1'" in text and "'savepoint-9'" in text and "'a.b'" in text
    assert "'savepoint-1' looks" not in text


def test_what_a_merge_and_others_left(table: Table) -> None:
    branches = root(table) / "branch"
    shutil.copytree(root(table) / "snapshot", branches / "branch-.merge-0123" / "snapshot")
    (branches / "branch-half" / "snapshot").mkdir(parents=True)
    found = table.doctor()
    assert sorted(kinds(found)) == [("left-over", "half"), ("left-over", "main")]
    by_branch = {f.branch: str(f.command) for f in found}
    assert by_branch["half"].startswith("paimon-spark branch delete ") and " half --" in by_branch["half"] + " --"
    assert by_branch["main"].startswith("paimon-spark doctor ") and "--repair" in by_branch["main"]
    assert {f.branch: f.repaired for f in table.doctor(repair=True)} == {"half": False, "main": True}
    assert not (branches / "branch-.merge-0123").exists() and (branches / "branch-half").exists()
    assert missing_files(table.handle) == [] and orphans(table.handle) == []


def test_main_that_leads_nowhere(table: Table) -> None:
    opened = table.handle
    (root(table) / "MAIN-BRANCH").write_text("gone")
    from paimon_spark.versioning.doctor import run_doctor

    found = run_doctor(opened)
    assert kinds(found) == [("main-missing", "main")] and "'gone'" in found[0].message
    assert "own directory again" in found[0].remedy


def test_refs_that_cannot_be_read(table: Table) -> None:
    (root(table) / "tag" / "tag-good").write_text("{")
    found = table.doctor()
    assert ("unreadable", "main") in kinds(found)
    with pytest.raises(CorruptFileError):
        table.tags(include_internal=True)


class TestTagsOfAnotherHistory:
    @pytest.fixture
    def dev(self, table: Table) -> Table:
        """Main: 1, 2; the branch: 1, and its own 2 and 3."""
        table.create_branch("dev", tag="good")
        dev = table.branch("dev")
        put(dev, k2="dev")
        put(dev, k3="dev")
        return dev

    @staticmethod
    def tag_on_main(dev: Table, table: Table, snapshot_id: int, name: str) -> Path:
        """As Java tags the snapshots of a branch by itself."""
        path = root(table) / "tag" / f"tag-{name}"
        shutil.copy(root(table) / "branch" / "branch-dev" / "snapshot" / f"snapshot-{snapshot_id}", path)
        return path

    def test_main_has_another_of_that_id(self, table: Table, dev: Table) -> None:
        path = self.tag_on_main(dev, table, 2, "2024-01-01")
        assert kinds(table.doctor()) == [("foreign-lineage-tag", "main")]
        found = table.doctor(repair=True)[0]
        assert found.severity is Severity.WARNING and not found.repaired and path.exists()
        assert "tag '2024-01-01' on main is snapshot 2 of branch 'dev', and main's own snapshot 2" in found.message
        assert "branch('dev').create_tag('2024-01-01', snapshot_id=2), then delete_tag" in found.remedy
        table.branch("dev").create_tag("2024-01-01", snapshot_id=2)
        (known,) = table.doctor()
        assert "branch 'dev' has a tag of the snapshot" in known.remedy and found.command is None
        assert "paimon-spark tag delete " in str(known.command) and "2024-01-01" in str(known.command)
        table.delete_tag("2024-01-01")
        assert table.doctor() == [] and rows(dev) == {1: "a", 2: "dev", 3: "dev"}
        in_order(table)

    def test_main_has_not_come_so_far(self, table: Table, dev: Table) -> None:
        self.tag_on_main(dev, table, 3, "later")
        found = table.doctor()
        assert kinds(found) == [("foreign-lineage-tag", "main")] and "main's head is snapshot 2" in found[0].message

    def test_of_nobody_any_more(self, table: Table, dev: Table) -> None:
        self.tag_on_main(dev, table, 2, "lost")
        table.delete_branch("dev")
        found = table.doctor()
        assert kinds(found) == [("foreign-lineage-tag", "main")]
        assert "of another history" in found[0].message and "delete_tag('lost')" in found[0].remedy

    def test_tags_of_shared_and_expired_snapshots_are_no_finding(self, table: Table, dev: Table) -> None:
        create_tag(table.handle, "two")
        put(table, k9="more")
        for n in (1, 2):
            (root(table) / "snapshot" / f"snapshot-{n}").unlink()
        (root(table) / "snapshot" / "EARLIEST").write_text("3")
        create_tag(dev.handle, "own")
        assert table.doctor() == []

    def test_the_base_of_another_engines_branch_is_not_where_such_a_tag_is(self, table: Table) -> None:
        dev = java_branch(table, "dev")
        put(dev, k3="dev")
        self.tag_on_main(dev, table, 2, "2024-01-01")
        found = table.doctor(repair=True)
        assert kinds(found) == [("unprotected-base", "dev"), ("foreign-lineage-tag", "main")] or kinds(found) == [
            ("foreign-lineage-tag", "main"),
            ("unprotected-base", "dev"),
        ]
        assert {t.name: t.snapshot.id for t in table.tags(include_internal=True)}[guard_name("dev")] == 1
        fork = read_fork(dev.handle)
        assert fork is not None and fork.snapshot_id == 1


def test_findings_of_one_kind_are_one_line_with_their_number(table: Table) -> None:
    for n in range(6):
        table.create_branch(f"b{n}", tag="good")
        shutil.rmtree(root(table) / "branch" / f"branch-b{n}")
    found = table.doctor()
    assert kinds(found) == [("stale-guard", "main")] * 6
    first, remedy, command = str(found).splitlines()
    assert first.endswith("which is gone (6 findings of this kind, this is the first; --json lists all)")
    assert first.count("branch-guard-") == 1 and remedy.startswith("  doctor(repair=True) removes it")
    assert command.startswith("  paimon-spark doctor ") and found._repr_html_().count("branch-guard-") == 1  # type: ignore[attr-defined]
    lines = [line for line in str(table.status(doctor=True)).splitlines() if line.startswith("note: ")]
    assert len(lines) == 1 and "6 findings" in lines[0]


def test_the_command_of_a_finding_can_be_pasted_whatever_the_table_is_called(tmp_path: Path) -> None:
    table = a_table(pa.schema([("id", pa.int32())]), where=tmp_path / "it's a warehouse", name="db.my table")
    table.write(pa.table({"id": pa.array([1], pa.int32())}))
    table.create_tag("good")
    table.create_branch("fix", tag="good")
    shutil.rmtree(root(table) / "branch" / "branch-fix")
    (finding,) = table.doctor()
    words = shlex.split(finding.command or "")
    assert words[:4] == ["paimon-spark", "doctor", "db.my table", "--repair"] and words[4] == "--warehouse"
    assert words[5].endswith("/it's a warehouse")
