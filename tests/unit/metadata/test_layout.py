"""Paths of a table's files, on main and branches, and names that would lead outside of it."""

from __future__ import annotations

import posixpath
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import CorruptFileError, InvalidInputError, InvalidOptionError, PaimonError
from paimon_spark.metadata.layout import Layout, is_file_name
from paimon_spark.metadata.partition_path import partition_path
from paimon_spark.options.table import parse_table_options
from paimon_spark.types import STRING, DataField, RowType

MAIN = Layout("/wh/db.db/t")
FIX = MAIN.with_branch("fix")


def test_paths_of_main_and_of_a_branch() -> None:
    assert MAIN.schema_path(3) == "/wh/db.db/t/schema/schema-3"
    assert MAIN.snapshot_path(4) == "/wh/db.db/t/snapshot/snapshot-4"
    assert MAIN.tag_path("v 1.0") == "/wh/db.db/t/tag/tag-v 1.0"
    assert MAIN.changelog_path(4) == "/wh/db.db/t/changelog/changelog-4"
    assert FIX.schema_path(3) == "/wh/db.db/t/branch/branch-fix/schema/schema-3"
    assert FIX.snapshot_path(4) == "/wh/db.db/t/branch/branch-fix/snapshot/snapshot-4"
    assert FIX.tag_path("x") == "/wh/db.db/t/branch/branch-fix/tag/tag-x"
    assert FIX.changelog_path(4) == "/wh/db.db/t/branch/branch-fix/changelog/changelog-4"
    assert FIX.consumer_dir == "/wh/db.db/t/branch/branch-fix/consumer"


def test_branches_share_manifests_data_and_index_files() -> None:
    for layout in (MAIN, FIX):
        assert layout.manifest_path("manifest-list-1") == "/wh/db.db/t/manifest/manifest-list-1"
        assert layout.statistics_path("stat-1") == "/wh/db.db/t/statistics/stat-1"
        assert layout.index_path("index-1") == "/wh/db.db/t/index/index-1"
        assert layout.bucket_path("", 3) == "/wh/db.db/t/bucket-3"
        assert layout.bucket_path("dt=1/h=2", 0) == "/wh/db.db/t/dt=1/h=2/bucket-0"


def test_buckets_that_wait_have_a_name() -> None:
    assert MAIN.bucket_path("dt=1", -2) == "/wh/db.db/t/dt=1/bucket-postpone"


def test_data_files_may_lie_deeper() -> None:
    layout = Layout("/wh/t", data_directory="data/files")
    assert layout.bucket_path("dt=1", 0) == "/wh/t/data/files/dt=1/bucket-0"
    assert layout.manifest_path("m") == "/wh/t/manifest/m"


def test_index_files_may_lie_in_the_bucket_and_files_outside() -> None:
    bucket = MAIN.bucket_path("", 0)
    assert MAIN.index_path("index-1", bucket) == "/wh/db.db/t/bucket-0/index-1"
    assert MAIN.data_path(bucket, "data-1.orc") == "/wh/db.db/t/bucket-0/data-1.orc"


def test_main_may_be_a_branch() -> None:
    promoted = Layout("/t", main_branch="fix")
    assert promoted.snapshot_dir == "/t/branch/branch-fix/snapshot"
    assert promoted.with_branch("fix").snapshot_dir == promoted.snapshot_dir
    assert promoted.with_branch("other").snapshot_dir == "/t/branch/branch-other/snapshot"
    assert promoted.branch == "main"


@pytest.mark.parametrize("name", ["", " ", "a/b", "../x", "a\\b", "a\0b"])
def test_names_of_branches_and_tags_are_checked(name: str) -> None:
    with pytest.raises(InvalidInputError, match="branch"):
        MAIN.with_branch(name)
    with pytest.raises(InvalidInputError, match="tag"):
        MAIN.tag_path(name)


@pytest.mark.parametrize("directory", ["..", "a/../b", "s3://b", "a//b", "./a", ""])
def test_the_data_directory_stays_in_the_table(directory: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"data-file\.path-directory"):
        Layout("/t", data_directory=directory)


NAMED: list[Callable[[str], str]] = [
    MAIN.manifest_path,
    MAIN.statistics_path,
    MAIN.index_path,
    lambda name: MAIN.index_path(name, MAIN.bucket_path("", 0)),
    lambda name: MAIN.data_path(MAIN.bucket_path("", 0), name),
    FIX.tag_path,
    lambda name: MAIN.with_branch(name).snapshot_path(1),
    lambda name: MAIN.with_branch(name).schema_dir,
    lambda name: Layout("/wh/db.db/t", main_branch="b", data_directory=name).bucket_path("", 1),
]
HOSTILE = st.text(st.sampled_from("./\\\0a-~%:") | st.characters(), max_size=12)


@given(HOSTILE, st.sampled_from(NAMED))
def test_no_name_leads_outside_the_table(name: str, path_of: Callable[[str], str]) -> None:
    try:
        path = path_of(name)
    except PaimonError:
        return
    assert posixpath.normpath(path) == path
    assert path.startswith("/wh/db.db/t/")


@given(st.lists(st.tuples(HOSTILE, HOSTILE | st.none()), max_size=3))
def test_no_partition_leads_outside_the_table(columns: list[tuple[str, str | None]]) -> None:
    partition_type = RowType(False, tuple(DataField(i, n, STRING) for i, (n, _) in enumerate(columns)))
    text = partition_path(partition_type, [v for _, v in columns], parse_table_options({}))
    path = MAIN.bucket_path(text, 0)
    assert posixpath.normpath(path) == path
    assert path.startswith("/wh/db.db/t/")
    assert path.count("/") == 4 + len(columns)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a\\b", "a\0"])
def test_a_name_in_metadata_that_is_a_path_is_corruption(name: str) -> None:
    assert not is_file_name(name)
    with pytest.raises(CorruptFileError, match=r"/wh/db\.db/t"):
        MAIN.manifest_path(name)
