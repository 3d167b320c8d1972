"""Branches that Java Paimon and pypaimon made: taken up, renamed and deleted like ours."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.errors import InvalidInputError
from paimon_spark.metadata.tags import tag_names
from tests.harness.golden import FIXTURES
from tests.harness.table_files import missing_files


def golden(name: str, tmp_path: Path) -> Table:
    """A copy of a golden table that may be written to."""
    producer = "pypaimon-2.1" if name.startswith("py_") else "java-0.9"
    shutil.copytree(FIXTURES / producer / name / "table", tmp_path / "t")
    return paimon_spark.load_table(str(tmp_path / "t"))


def heads(table: Table) -> dict[str, pa.Table]:
    """What each branch reads."""
    return {
        name: table.branch(name).scan().to_arrow().sort_by([(table.branch(name).schema.row_type.names[0], "ascending")])
        for name in ["main", *(b.name for b in table.branches(include_internal=True))]
    }


@pytest.mark.parametrize(("name", "branch"), [
    ("branches", "from_tag"), ("branches", "untouched"), ("branches", "altered"), ("branches", "empty"),
    ("fast_forwarded", "dev"), ("py_tags_branches", None),
])  # fmt: skip
def test_one_is_deleted_and_all_else_reads_as_before(tmp_path: Path, name: str, branch: str | None) -> None:
    table = golden(name, tmp_path)
    before = heads(table)
    for gone in [branch] if branch is not None else [b.name for b in table.branches(include_internal=True)]:
        removed = table.delete_branch(gone)
        before.pop(gone)
        assert heads(table) == before
        assert missing_files(table.handle) == []
        assert not (tmp_path / "t/branch" / f"branch-{gone}").exists()
        assert all(not Path(p).exists() for p in removed.paths)
        has_its_own = gone in ("from_tag", "altered") or (name, gone) == ("py_tags_branches", "dev")
        assert bool(removed.data_files) == has_its_own, gone


def test_one_is_renamed(tmp_path: Path) -> None:
    table = golden("branches", tmp_path)
    before = heads(table)
    for old in ("from_tag", "untouched", "altered", "empty"):
        table.rename_branch(old, f"{old}2")
    assert {name.removesuffix("2"): rows for name, rows in heads(table).items()} == before
    assert sorted(p.name for p in (tmp_path / "t/branch").iterdir()) == [
        "branch-altered2", "branch-empty2", "branch-from_tag2", "branch-untouched2",
    ]  # fmt: skip


def test_a_branch_of_one_is_guarded_on_main_by_the_base_that_both_have(tmp_path: Path) -> None:
    table = golden("branches", tmp_path)
    made = table.branch("from_tag").create_branch("ours", tag="bt")
    assert made.fork is not None
    assert set(made.fork.guards) == {"from_tag", "main"}
    base = next(t for t in table.tags(include_internal=True) if t.name == "branch-guard-ours")
    assert base.snapshot.id == 1
    assert heads(table)["ours"] == table.branch("from_tag").at("bt").scan().to_arrow().sort_by(
        [(table.schema.row_type.names[0], "ascending")]
    )
    table.delete_branch("from_tag")
    table.delete_branch("ours")
    assert tag_names(table.handle) == ["t1"]


def test_a_tag_whose_snapshot_java_expired(tmp_path: Path) -> None:
    table = golden("tags_expired", tmp_path)
    for tag in ("v1", "v2", "compacted"):
        table.create_branch(f"of-{tag}", tag=tag)
        assert table.branch(f"of-{tag}").scan().to_arrow() == table.at(tag).scan().to_arrow()
    assert missing_files(table.handle) == []


def test_a_branch_that_is_read_beside_main(tmp_path: Path) -> None:
    table = golden("fallback_branch", tmp_path)
    before = heads(table)
    with pytest.raises(InvalidInputError, match=r"option scan\.fallback-branch of branch 'main' names it; unset"):
        table.delete_branch("stream")
    with pytest.raises(InvalidInputError, match=r"'stream' of table .* cannot be renamed: option scan\.fallback"):
        table.rename_branch("stream", "other")
    table.create_branch("fix", snapshot_id=1)
    table.branch("stream").create_branch("of-stream", snapshot_id=2)
    after = heads(table)
    assert after == {**before, "fix": before["main"], "of-stream": before["stream"]}
    with pytest.raises(InvalidInputError, match=r"scan\.fallback-branch of branch 'main' names it"):
        table.delete_branch("stream")
    table.alter(unset_options=["scan.fallback-branch"])
    with pytest.raises(InvalidInputError, match=r"scan\.fallback-branch of branch 'fix' names it"):
        table.delete_branch("stream")
    table.delete_branch("fix")
    table.delete_branch("stream")
    assert [b.name for b in table.branches(include_internal=True)] == ["of-stream"]
    assert heads(table)["of-stream"] == before["stream"]
