"""Files of pypaimon 2.1, which counts no retracts: read, read as a changelog, limited, and compacted."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import paimon_spark
from paimon_spark.engine.tasks import CommitMessage, Increment
from paimon_spark.format import binary_row
from paimon_spark.format.metadata_files.data_file import FileSource
from paimon_spark.types import VALUE_KIND
from tests.harness.compacting import Table
from tests.harness.merge_model import Record

LARGE_FILES = {"target-file-size": "1 b", "compaction.small-file-ratio": "0.1"}
"""Every file is large enough to move to another level as it is."""


def rows(*kinds: tuple[int, int]) -> list[Record]:
    return [Record(key, n, kind, 0, {"a": key, "b": "x", "s": None}) for n, (key, kind) in enumerate(kinds)]


def kinds_of(table: Table) -> list[int]:
    """The kinds in all live files."""
    found = []
    for file in table.files():
        found += pq.read_table(f"{table.root}/bucket-0/{file.file_name}").column(VALUE_KIND).to_pylist()
    return found


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        {"merge-engine": "aggregation", "aggregation.remove-record-on-delete": "true"},
        {"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"},
    ],
    ids=["deduplicate", "partial-update", "aggregation", "merge on read"],
)
def test_a_lone_file_does_not_bring_deleted_rows_back(tmp_path: Path, options: dict[str, str]) -> None:
    table = Table(f"{tmp_path}/t", options)
    table.write(rows((1, 0), (2, 3), (3, 2), (4, 3)), counted=False)
    assert [r["k"] for r in table.rows()] == [1, 3]
    loaded = paimon_spark.load_table(table.root)
    assert sorted(loaded.scan(columns=["a"], where="k > 1").to_arrow().column("a").to_pylist()) == [3]


def test_a_later_commit_deletes_though_it_counts_none(tmp_path: Path) -> None:
    table = Table(f"{tmp_path}/t", {})
    table.write(rows((1, 0), (2, 0), (3, 0)), counted=False)
    table.write(rows((2, 3), (9, 3)), counted=False)
    assert [r["k"] for r in table.rows()] == [1, 3]


@pytest.mark.parametrize(
    ("full", "options"),
    [
        (True, {}),
        (True, {"changelog-producer": "lookup"}),
        (True, {"deletion-vectors.enabled": "true"}),
        (False, {"changelog-producer": "lookup"}),
        (False, {"deletion-vectors.enabled": "true"}),
    ],
    ids=str,
)
def test_a_compaction_leaves_no_retracts_behind(tmp_path: Path, options: dict[str, str], full: bool) -> None:
    """Java reads files of one level above 0 without a look at kinds when their counts are 0."""
    table = Table(f"{tmp_path}/t", {**LARGE_FILES, **options})
    table.write(rows((1, 0), (2, 3), (3, 0)), counted=False)
    if full:
        table.compact_as(full=True)
    else:
        table.compact()
    assert all(f.level > 0 and f.file_source == FileSource.COMPACT for f in table.files())
    assert kinds_of(table) == [0, 0]
    assert [r["k"] for r in table.rows()] == [1, 3]


def test_a_file_without_retracts_is_moved_as_it_is(tmp_path: Path) -> None:
    table = Table(f"{tmp_path}/t", {**LARGE_FILES})
    table.write(rows((1, 0), (3, 2)), counted=False)
    (before,) = table.files()
    table.compact_as(full=True)
    (after,) = table.files()
    assert after == before._replace(level=after.level)
    assert after.level > 0


@pytest.mark.parametrize("options", [{}, {"deletion-vectors.enabled": "true"}], ids=str)
def test_a_file_that_others_moved_down_is_still_read_right(tmp_path: Path, options: dict[str, str]) -> None:
    """What Java's compaction makes of a file whose count is 0: another level, everything else as before."""
    table = Table(f"{tmp_path}/t", options)
    table.write(rows((1, 0), (2, 3), (3, 0)), counted=False)
    (before,) = table.files()
    done = Increment(new_files=(before._replace(level=5),), deleted_files=(before,))
    table.committer.commit([CommitMessage(binary_row.EMPTY, 0, 1, compact=done)])
    assert [r["k"] for r in table.rows()] == [1, 3]
