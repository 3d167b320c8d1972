from __future__ import annotations

from datetime import datetime

import pytest

from paimon_spark.engine.commit.checks import check_schema
from paimon_spark.errors import BranchNotFoundError, CommitConflictError, CorruptFileError, TagNotFoundError
from paimon_spark.format.metadata_files.snapshot import Tag, encode_tag
from paimon_spark.metadata import small_files
from paimon_spark.metadata.branches import Branch, branch_exists, list_branch_names, list_branches
from paimon_spark.metadata.handle import branch_names
from paimon_spark.metadata.savepoints import get_savepoint, list_savepoints, savepoint_id_of
from paimon_spark.metadata.tags import find_tag, get_tag, list_tags, tag_names, tag_of_snapshot
from tests.harness.tables import MetadataTable, a_schema, a_snapshot


def test_tags_come_by_snapshot_and_name() -> None:
    built = MetadataTable().schema().tag("b", 2).tag("a", 2).tag("z", 1).tag("savepoint-10", 10)
    handle = built.open()
    assert [t.name for t in list_tags(handle)] == ["z", "a", "b", "savepoint-10"]
    assert tag_names(handle) == ["a", "b", "savepoint-10", "z"]
    assert tag_of_snapshot(handle, 2) == Tag("a", a_snapshot(2))
    assert tag_of_snapshot(handle, 3) is None


def test_success_files_and_temporary_files_are_no_tags() -> None:
    built = MetadataTable().schema().tag("v1", 1)
    built.put(f"{built.root}/tag/tag-success-file/v1_SUCCESS", b"{}")
    built.put(f"{built.root}/tag/.tag-v2.tmp", b"{}")
    built.put(f"{built.root}/tag/tag-", b"{}")
    assert tag_names(built.open()) == ["v1"]
    assert [t.name for t in list_tags(built.open())] == ["v1"]


def test_a_tag_keeps_its_life_time() -> None:
    built = MetadataTable().schema()
    tag = Tag("v1", a_snapshot(1), datetime(2024, 1, 2, 3, 4, 5, 678901), 86400.5)
    built.put(built.layout().tag_path("v1"), encode_tag(tag))
    assert get_tag(built.open(), "v1") == tag


def test_a_tag_that_no_file_can_have_is_just_missing() -> None:
    handle = MetadataTable().schema().open()
    for name in ("", " ", "a/b", "../x", "a\0b"):
        assert find_tag(handle, name) is None
        with pytest.raises(TagNotFoundError, match="it has no tags"):
            get_tag(handle, name)


def test_a_broken_tag_breaks_the_listing_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_files, "WAITS_S", ())
    built = MetadataTable().schema().tag("good", 1)
    built.put(built.layout().tag_path("bad"), b"")
    with pytest.raises(CorruptFileError, match="tag/tag-bad"):
        list_tags(built.open())
    assert tag_names(built.open()) == ["bad", "good"]


def test_a_tag_deleted_while_listing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    built = MetadataTable().schema().tag("a", 1).tag("b", 2)
    handle = built.open()
    read_many = type(handle.store).read_many

    def delete_first(store: object, paths: list[str]) -> object:
        built.delete(built.layout().tag_path("a"))
        return read_many(store, paths)  # type: ignore[arg-type]

    monkeypatch.setattr(type(handle.store), "read_many", delete_first)
    assert [t.name for t in list_tags(handle)] == ["b"]


def test_savepoints_are_tags_of_their_snapshot() -> None:
    built = MetadataTable().schema().tag("savepoint-10", 10).tag("savepoint-9", 9).tag("savepoint-x", 1).tag("v", 1)
    handle = built.open()
    assert [s.id for s in list_savepoints(handle)] == [9, 10]
    assert get_savepoint(handle, 9).snapshot == a_snapshot(9)
    assert savepoint_id_of("savepoint-9") == 9
    for name in ("savepoint-", "savepoint-x", "xsavepoint-1", "savepoint-٣"):
        assert savepoint_id_of(name) is None


def test_branches_tell_their_base() -> None:
    built = MetadataTable().schema().snapshots([1, 2]).schema(branch="plain")
    built.schema(branch="tagged").tag("v2", 2, "tagged").tag("later", 3, "tagged").snapshots([2, 3], "tagged")
    built.schema(branch="cut").snapshots([2], "cut").tag("later", 3, "cut")
    built.put(f"{built.root}/branch/file", b"")
    built.put(f"{built.root}/branch/other/x", b"")
    found = list_branches(built.open())
    assert [(b.name, b.created_from_tag, b.created_from_snapshot_id) for b in found] == [
        ("cut", None, 2),
        ("plain", None, None),
        ("tagged", "v2", 2),
    ]
    assert not any(b.is_main for b in found)
    assert list_branches(built.open("tagged")) == found


def test_a_promoted_branch_is_marked() -> None:
    built = MetadataTable().schema().schema(branch="fix").schema(branch="dev")
    built.put(f"{built.root}/MAIN-BRANCH", b"fix")
    assert {b.name: b.is_main for b in list_branches(built.open())} == {"dev": False, "fix": True}


def test_branches_exist_by_their_schema() -> None:
    built = MetadataTable().schema().schema(branch="fix")
    built.put(f"{built.root}/branch/branch-half/consumer/consumer-x", b"")
    handle = built.open()
    assert branch_exists(handle, "main")
    assert branch_exists(handle, "fix")
    for name in ("half", "no", "", "../x", "a/b", " "):
        assert not branch_exists(handle, name)
    assert list_branch_names(handle) == ["fix"]
    assert branch_names(handle.store, handle.layout) == ["fix", "half"], "what is in it may hold on to files"
    assert isinstance(list_branches(handle)[0], Branch)


@pytest.mark.parametrize("act", ["open", "commit"])
def test_a_branch_that_goes_while_its_schema_is_read_is_not_there(monkeypatch: pytest.MonkeyPatch, act: str) -> None:
    built = MetadataTable().schema(a_schema(7), branch="fix").schema()
    handle = built.open("fix")
    path = built.layout("fix").schema_path(7)
    read = type(handle.store).read

    def deleted_meanwhile(store: object, asked: str) -> bytes:
        if asked == path and handle.store.exists(path):
            built.delete(path)
        return read(store, asked)  # type: ignore[arg-type]

    monkeypatch.setattr(type(handle.store), "read", deleted_meanwhile)
    if act == "open":
        with pytest.raises(BranchNotFoundError, match="has no branch 'fix'"):
            built.open("fix")
    else:
        with pytest.raises(CommitConflictError, match="its schema is gone, so it was dropped"):
            check_schema(handle)


def test_a_schema_that_is_listed_and_broken_stays_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_files, "WAITS_S", ())
    built = MetadataTable().schema().schema(a_schema(7), branch="fix")
    handle = built.open("fix")
    built.put(built.layout("fix").schema_path(7), b"{")
    with pytest.raises(CorruptFileError, match="branch-fix/schema/schema-7"):
        built.open("fix")
    with pytest.raises(CorruptFileError, match="branch-fix/schema/schema-7"):
        check_schema(handle)
