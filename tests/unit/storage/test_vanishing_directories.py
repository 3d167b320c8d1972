"""Directories that another process makes, fills or removes between two steps of a store.

The other process acts inside a patched call of `os` or of a client, so each test meets the one moment it is about.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fsspec import AbstractFileSystem

from paimon_spark.errors import FileAlreadyThereError, FileMissingError, StorageError
from paimon_spark.storage import fsspec_write
from paimon_spark.storage import local as no_replace
from paimon_spark.storage.fsspec_store import FsspecStore
from paimon_spark.storage.hdfs import HdfsStore
from paimon_spark.storage.local import LocalStore
from paimon_spark.storage.store import ATTEMPTS, Store


def create(store: Store, path: str) -> None:
    store.create_exclusive(path, b"1")


def write(store: Store, path: str) -> None:
    store.write(path, b"1")


def open_output(store: Store, path: str) -> None:
    with store.open_output(path) as file:
        file.write(b"1")


def make_directory(store: Store, path: str) -> None:
    store.make_directory(path)


def move_tree(store: Store, path: str) -> None:
    root = path.split("/new/")[0]
    os.mkdir(f"{root}/old")
    store.rename_tree(f"{root}/old", path)


STORES: dict[str, Store] = {"local": LocalStore(), "fsspec": FsspecStore("local")}
WRITING: dict[str, Callable[[Store, str], None]] = {
    "create_exclusive": create,
    "write": write,
    "open_output": open_output,
    "make_directory": make_directory,
    "rename_tree": move_tree,
}

both_stores = pytest.mark.parametrize("store", STORES.values(), ids=STORES)
every_write = pytest.mark.parametrize("act", WRITING.values(), ids=WRITING)


def once_before(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, other: Callable[..., object]) -> list[Any]:
    """Let `other` run, with the same arguments, before the first call of a function; the calls so far."""
    real, calls = getattr(owner, name), list[Any]()

    def patched(*args: Any, **named: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            other(*args)
        return real(*args, **named)

    monkeypatch.setattr(owner, name, patched)
    return calls


@both_stores
@every_write
def test_a_directory_made_by_another_and_removed_at_once(
    store: Store, act: Callable[[Store, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`os.makedirs` meets the directory, looks whether it is one, and finds nothing."""

    def refuse(path: str, *_: Any) -> None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)

    os.mkdir(f"{tmp_path}/new")
    real, refused = os.mkdir, list[str]()

    def mkdir(path: str, *rest: Any) -> None:
        if "/new/" in path and not refused:
            refused.append(path)
            refuse(path)
        real(path, *rest)

    monkeypatch.setattr(os, "mkdir", mkdir)
    act(store, f"{tmp_path}/new/d/a")
    assert refused == [f"{tmp_path}/new/d"]
    assert store.exists(f"{tmp_path}/new/d/a")


@both_stores
@every_write
def test_a_parent_that_is_removed_before_its_directory_is_made(
    store: Store, act: Callable[[Store, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkdir(f"{tmp_path}/new")
    real, removed = os.mkdir, list[str]()

    def mkdir(path: str, *rest: Any) -> None:
        if path == f"{tmp_path}/new/d" and not removed:
            removed.append(path)
            os.rmdir(f"{tmp_path}/new")
        real(path, *rest)

    monkeypatch.setattr(os, "mkdir", mkdir)
    act(store, f"{tmp_path}/new/d/a")
    assert removed
    assert store.exists(f"{tmp_path}/new/d/a")


@both_stores
@every_write
def test_a_file_in_the_place_of_a_directory_is_an_error(
    store: Store, act: Callable[[Store, str], None], tmp_path: Path
) -> None:
    (tmp_path / "new").write_bytes(b"in the way")
    with pytest.raises(StorageError):
        act(store, f"{tmp_path}/new/d/a")
    assert (tmp_path / "new").read_bytes() == b"in the way"


@every_write
def test_a_directory_that_always_goes_is_an_error_in_the_end(
    act: Callable[[Store, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkdir(f"{tmp_path}/new")
    real, calls = os.mkdir, list[str]()

    def mkdir(path: str, *rest: Any) -> None:
        if "/new/" in path:
            calls.append(path)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        real(path, *rest)

    monkeypatch.setattr(os, "mkdir", mkdir)
    with pytest.raises(StorageError, match="exists"):
        act(LocalStore(), f"{tmp_path}/new/d/a")
    assert calls.count(f"{tmp_path}/new/d") == ATTEMPTS


@pytest.mark.parametrize(("act", "call"), [(create, "link"), (write, "replace")], ids=["create_exclusive", "write"])
def test_a_directory_removed_with_the_temporary_file_in_it(
    act: Callable[[Store, str], None], call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = once_before(monkeypatch, os, call, lambda *_: LocalStore().delete_tree(f"{tmp_path}/d"))
    act(LocalStore(), f"{tmp_path}/d/a")
    assert len(calls) == 2
    assert os.listdir(f"{tmp_path}/d") == ["a"]


def test_a_directory_removed_with_the_temporary_file_where_there_are_no_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(old: str, new: str) -> None:
        raise PermissionError(errno.EPERM, "not here", old)

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(no_replace, "_system_rename", lambda: os.rename)
    calls = once_before(monkeypatch, os, "rename", lambda *_: shutil.rmtree(f"{tmp_path}/d"))
    create(LocalStore(), f"{tmp_path}/d/a")
    assert len(calls) == 2
    assert os.listdir(f"{tmp_path}/d") == ["a"]


def test_a_file_that_another_created_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def replaced(*_: Any) -> None:
        shutil.rmtree(f"{tmp_path}/d")
        os.mkdir(f"{tmp_path}/d")
        Path(f"{tmp_path}/d/a").write_bytes(b"theirs")

    once_before(monkeypatch, os, "link", replaced)
    with pytest.raises(FileAlreadyThereError):
        create(LocalStore(), f"{tmp_path}/d/a")
    assert (tmp_path / "d" / "a").read_bytes() == b"theirs"
    assert os.listdir(f"{tmp_path}/d") == ["a"]


@pytest.mark.parametrize("act", [create, write], ids=["create_exclusive", "write"])
def test_a_directory_removed_with_the_temporary_file_in_it_through_fsspec(
    act: Callable[[Store, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = once_before(monkeypatch, shutil, "move", lambda *_: shutil.rmtree(f"{tmp_path}/d"))
    act(FsspecStore("local"), f"{tmp_path}/d/a")
    assert len(calls) == 2
    assert os.listdir(f"{tmp_path}/d") == ["a"]


@pytest.mark.parametrize("there", ["a file", "a directory with a file"])
def test_a_tree_moved_to_where_another_process_made_something_meanwhile(
    there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    (old / "d").mkdir(parents=True)

    def made(*_: Any) -> None:
        if there == "a file":
            new.write_bytes(b"theirs")
        else:
            (new / "theirs").mkdir(parents=True)

    once_before(monkeypatch, os, "rename", made)
    with pytest.raises(FileAlreadyThereError, match="something is there"):
        LocalStore().rename_tree(str(old), str(new))
    assert [p.name for p in old.iterdir()] == ["d"]
    assert new.is_file() or [p.name for p in new.iterdir()] == ["theirs"]


def test_a_tree_that_another_process_moved_meanwhile_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "old").mkdir()
    once_before(monkeypatch, os, "rename", lambda *_: (tmp_path / "old").rmdir())
    with pytest.raises(FileMissingError):
        LocalStore().rename_tree(f"{tmp_path}/old", f"{tmp_path}/new")


class _Scan:
    """A scan of a directory whose entries are gone after they were found."""

    def __init__(self, directory: str, gone: Callable[[], object]) -> None:
        self._entries = list(os.scandir(directory))
        gone()

    def __enter__(self) -> Iterator[os.DirEntry[str]]:
        return iter(self._entries)

    def __exit__(self, *_: object) -> None: ...


def test_an_entry_that_is_removed_while_its_directory_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(b"1")
    with monkeypatch.context() as patch:
        scan = _Scan(str(tmp_path), (tmp_path / "b").unlink)
        patch.setattr(os, "scandir", lambda _: scan)
        assert [info.name for info in LocalStore().list(str(tmp_path))] == ["a", "c"]


def test_a_directory_that_is_removed_while_it_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_bytes(b"1")
    with monkeypatch.context() as patch:
        scan = _Scan(f"{tmp_path}/d", lambda: shutil.rmtree(tmp_path / "d"))
        patch.setattr(os, "scandir", lambda _: scan)
        assert LocalStore().list(f"{tmp_path}/d") == []


@both_stores
@pytest.mark.parametrize("name", ["d", "d-[a]*"])
@pytest.mark.parametrize("call", ["unlink", "rmdir"])
def test_a_tree_is_deleted_though_another_process_deletes_it_too(
    store: Store, name: str, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("1", "2", "a/3", "b/4"):
        store.write(f"{tmp_path}/{name}/{path}", b"1")

    def delete_too(path: str, *_: Any) -> None:
        LocalStore().delete_tree(f"{tmp_path}/{name}/a")
        LocalStore().delete(f"{tmp_path}/{name}/1")
        LocalStore().delete(f"{tmp_path}/{name}/2")

    first = once_before(monkeypatch, os, call, delete_too)
    again = once_before(monkeypatch, os, "remove", delete_too) if call == "unlink" else []
    store.delete_tree(f"{tmp_path}/{name}")
    assert first or again
    assert os.listdir(tmp_path) == []


@both_stores
@pytest.mark.parametrize("name", ["d", "d-[a]*"])
def test_a_tree_is_deleted_though_another_process_adds_to_it(
    store: Store, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(f"{tmp_path}/{name}/a/1", b"1")

    def add(*_: Any) -> None:
        (tmp_path / name / "a" / "late").write_bytes(b"1")

    added = once_before(monkeypatch, os, "rmdir", add)
    store.delete_tree(f"{tmp_path}/{name}")
    assert added
    assert os.listdir(tmp_path) == []


class _VagueFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Makes directories as the clients of SFTP and FTP do: it looks, then makes, and does not say why that failed."""

    def __init__(self, others: list[str], failure: Exception) -> None:
        super().__init__()
        self.there, self._others, self._failure = {"/"}, others, failure

    def exists(self, path: str, **_: Any) -> bool:
        return path in self.there

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        made = ""
        for part in path.strip("/").split("/"):
            made = f"{made}/{part}"
            if made not in self.there:
                if made in self._others:
                    self._others.remove(made)
                    self.there.add(made)
                    raise self._failure
                self.there.add(made)


class error_perm(Exception):  # noqa: N801, N818 - the name that ftplib gives it
    pass


@pytest.mark.parametrize("failure", [OSError("Failure"), error_perm("550 exists")], ids=["sftp", "ftp"])
def test_directories_that_another_process_makes_first_on_file_systems_that_give_no_reason(failure: Exception) -> None:
    fs = _VagueFileSystem(["/wh/t", "/wh/t/intent"], failure)
    fsspec_write.make_directory(fs, "/wh/t/intent")
    assert fs.there == {"/", "/wh", "/wh/t", "/wh/t/intent"}


@pytest.mark.parametrize("failure", [PermissionError("no"), ConnectionResetError("gone"), OSError(errno.EIO, "disk")])
def test_another_failure_to_make_a_directory_is_raised_at_once(failure: Exception) -> None:
    fs = _VagueFileSystem(["/wh"], failure)
    with pytest.raises(type(failure)):
        fsspec_write.make_directory(fs, "/wh/t")


class _NameNode:
    """The client of hdfs-native over a local directory; creation makes parents, and a rename may refuse to replace."""

    def create(self, path: str) -> Any:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return open(path, "xb")

    def rename(self, old: str, new: str, overwrite: bool) -> None:
        if not overwrite and os.path.exists(new):
            raise FileExistsError(new)
        os.rename(old, new)

    def delete(self, path: str, recursive: bool) -> None:
        if os.path.exists(path):
            os.unlink(path)

    def mkdirs(self, path: str, create_parent: bool = False) -> None:
        os.makedirs(path, exist_ok=True)

    def get_file_info(self, path: str) -> Any:
        return os.stat(path)


@pytest.fixture
def hdfs(monkeypatch: pytest.MonkeyPatch) -> HdfsStore:
    monkeypatch.setattr(HdfsStore, "_client", lambda _: _NameNode())
    return HdfsStore("hdfs", "nn:8020")


@pytest.mark.parametrize("act", [create, write], ids=["create_exclusive", "write"])
def test_a_directory_removed_with_the_temporary_file_in_it_on_hdfs(
    act: Callable[[Store, str], None], hdfs: HdfsStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = once_before(monkeypatch, _NameNode, "rename", lambda *_: shutil.rmtree(tmp_path / "d"))
    act(hdfs, f"{tmp_path}/d/a")
    assert len(calls) == 2
    assert os.listdir(f"{tmp_path}/d") == ["a"]


def test_a_parent_removed_before_a_tree_is_moved_there_on_hdfs(
    hdfs: HdfsStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "old" / "a").mkdir(parents=True)
    calls = once_before(monkeypatch, _NameNode, "rename", lambda *_: (tmp_path / "up").rmdir())
    hdfs.rename_tree(f"{tmp_path}/old", f"{tmp_path}/up/new")
    assert len(calls) == 2
    assert os.listdir(f"{tmp_path}/up/new") == ["a"]


def test_a_tree_that_another_process_moved_meanwhile_is_missing_on_hdfs(
    hdfs: HdfsStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "old").mkdir()
    once_before(monkeypatch, _NameNode, "rename", lambda *_: (tmp_path / "old").rmdir())
    with pytest.raises(FileMissingError, match="cannot move"):
        hdfs.rename_tree(f"{tmp_path}/old", f"{tmp_path}/new")
