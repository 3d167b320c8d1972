"""The contract of stores, on local disk, in memory and on S3."""

from __future__ import annotations

import errno
import os
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from paimon_spark.errors import FileAlreadyThereError, StorageError
from paimon_spark.storage import local as no_replace
from paimon_spark.storage import s3, store
from paimon_spark.storage.fsspec_store import FsspecStore
from paimon_spark.storage.local import LocalStore
from paimon_spark.storage.store import AtomicCreate, Store
from paimon_spark.storage.urls import open_store
from tests.harness.s3_server import counted_requests, make_bucket, s3_server
from tests.harness.store_contract import StoreContract, race_processes, race_threads


def refuse(old: str, new: str) -> None:
    raise PermissionError(errno.EPERM, "not here", old)


@dataclass
class FilledBy:
    """A place whose files are put there by another client."""

    store: Store
    root: str
    client: Any

    def put(self, path: str, data: bytes) -> None:
        self.client.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
        with self.client.open(path, "wb") as f:
            f.write(data)


class TestLocal(StoreContract):
    renames_directories = True
    racers = staticmethod(race_processes)

    @pytest.fixture
    def place(self, tmp_path: Path) -> FilledBy:
        store, root = open_store(str(tmp_path))
        return FilledBy(store, root, fsspec.filesystem("file"))

    def test_a_nul_in_a_path_is_our_error(self) -> None:
        with pytest.raises(StorageError, match="cannot read"):
            LocalStore().read("/tmp/a\0b")

    def test_a_file_that_may_not_be_read_is_no_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(StorageError) as caught:
            LocalStore().read(str(tmp_path))
        assert type(caught.value) is StorageError
        assert not caught.value.retryable

    def test_a_dangling_link_is_passed_over(self, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(tmp_path / "nowhere")
        assert LocalStore().list(str(tmp_path)) == []

    def test_a_directory_that_is_removed_as_soon_as_it_is_made(self, tmp_path: Path, monkeypatch: Any) -> None:
        make, times = os.makedirs, iter(range(3))

        def made_and_removed(path: str, exist_ok: bool = False) -> None:
            make(path, exist_ok=exist_ok)
            if next(times, None) is not None:
                os.rmdir(path)

        monkeypatch.setattr(os, "makedirs", made_and_removed)
        LocalStore().create_exclusive(f"{tmp_path}/d/a", b"1")
        assert LocalStore().read(f"{tmp_path}/d/a") == b"1" and not LocalStore().remove_if_empty(f"{tmp_path}/d")

    def test_creates_exclusively_without_hard_links(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "link", refuse)
        LocalStore().create_exclusive(f"{tmp_path}/a", b"1")
        with pytest.raises(FileAlreadyThereError):
            LocalStore().create_exclusive(f"{tmp_path}/a", b"2")
        assert LocalStore().read(f"{tmp_path}/a") == b"1"
        assert os.listdir(tmp_path) == ["a"]

    def test_a_file_system_that_cannot_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "link", refuse)
        monkeypatch.setattr(no_replace, "_system_rename", lambda: None)
        with pytest.raises(StorageError, match="does not replace") as caught:
            LocalStore().create_exclusive(f"{tmp_path}/a", b"1")
        assert not caught.value.retryable
        assert os.listdir(tmp_path) == []

    def test_a_link_whose_answer_was_lost_counts(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        link = os.link

        def repeated(old: str, new: str) -> None:
            link(old, new)
            raise FileExistsError(new)

        monkeypatch.setattr(os, "link", repeated)
        LocalStore().create_exclusive(f"{tmp_path}/a", b"1")
        assert os.listdir(tmp_path) == ["a"]

    def test_a_file_whose_directory_is_renamed_at_once_was_created(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        link = os.link

        def renamed(old: str, new: str) -> None:
            link(old, new)
            os.rename(f"{tmp_path}/d", f"{tmp_path}/other")

        monkeypatch.setattr(os, "link", renamed)
        LocalStore().create_exclusive(f"{tmp_path}/d/a", b"1")
        assert LocalStore().read(f"{tmp_path}/other/a") == b"1" and not os.path.exists(f"{tmp_path}/d")

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no device that is always full")
    def test_a_full_disk_is_our_error(self) -> None:
        out = LocalStore().open_output("/dev/full")
        with pytest.raises(StorageError, match=r"cannot write /dev/full: .*[Nn]o space"):
            out.write(b"1" * (1 << 20))
        out.close()
        out = LocalStore().open_output("/dev/full")
        out.write(b"1")
        with pytest.raises(StorageError, match="cannot write /dev/full"):
            out.close()

    def test_a_number_counted_up_keeps_its_file_until_more_than_the_last_digit_changes(self, tmp_path: Path) -> None:
        store, path = LocalStore(), f"{tmp_path}/LATEST"
        files = []
        for number in (18, 19, 19, 17, 20, 21, 9, 10, 100):
            store.write(path, str(number).encode())
            assert store.read(path) == str(number).encode()
            files.append(os.stat(path).st_ino)
        assert len(set(files[:4])) == len(set(files[4:6])) == 1
        assert all(a != b for a, b in pairwise([files[3], *files[5:]]))
        assert os.listdir(tmp_path) == ["LATEST"]

    @pytest.mark.parametrize("link", [os.link, os.symlink])
    def test_a_copy_made_of_links_keeps_its_number(self, tmp_path: Path, link: Callable[[str, str], None]) -> None:
        store, path, copy = LocalStore(), f"{tmp_path}/LATEST", f"{tmp_path}/copy"
        store.write(path, b"11")
        link(path, copy)
        store.write(copy, b"12")
        assert (store.read(path), store.read(copy)) == (b"11", b"12")

    def test_readers_see_only_numbers_that_somebody_wrote(self, tmp_path: Path) -> None:
        store, path = LocalStore(), f"{tmp_path}/LATEST"
        store.write(path, b"95")
        done = threading.Event()

        def count(numbers: Iterable[int]) -> None:
            for number in numbers:
                store.write(path, str(number).encode())

        def read() -> set[bytes]:
            found = set()
            while not done.is_set():
                found.add(store.read(path))
            return found

        with ThreadPoolExecutor(4) as pool:
            reader = pool.submit(read)
            writers = [pool.submit(count, range(95 + i, 1015, 3)) for i in range(3)]
            for writer in writers:
                writer.result()
            done.set()
            assert reader.result() <= {str(number).encode() for number in range(95, 1015)}

    def test_a_failed_write_leaves_the_old_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        LocalStore().write(f"{tmp_path}/a", b"old")
        monkeypatch.setattr(os, "replace", refuse)
        with pytest.raises(StorageError, match="cannot write"):
            LocalStore().write(f"{tmp_path}/a", b"new")
        assert os.listdir(tmp_path) == ["a"]
        assert LocalStore().read(f"{tmp_path}/a") == b"old"


class TestMemory(StoreContract):
    racers = staticmethod(race_threads)

    @pytest.fixture
    def place(self) -> FilledBy:
        store, root = open_store(f"memory://{uuid.uuid4().hex}/wh")
        return FilledBy(store, root, fsspec.filesystem("memory"))

    @pytest.mark.parametrize("verb", ["ls", "find"])
    def test_who_writes_waits_for_who_lists(self, place: FilledBy, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """fsspec's memory is one dictionary, whose keys cannot be gone through while others come."""
        store, root = place.store, place.root
        store.write(f"{root}/t/a", b"1")
        writer = threading.Thread(target=store.write, args=(f"{root}/u/b", b"2"))
        waits: list[bool] = []
        listed = getattr(MemoryFileSystem, verb)

        def slow(*args: Any, **named: Any) -> Any:
            if not waits:
                writer.start()
                writer.join(0.2)
                waits.append(writer.is_alive())
            return listed(*args, **named)

        with monkeypatch.context() as patch:
            patch.setattr(MemoryFileSystem, verb, slow)
            if verb == "ls":
                assert [f.name for f in store.list(f"{root}/t")] == ["a"]
            else:
                store.rename_tree(f"{root}/t", f"{root}/u")
        writer.join(60)
        assert waits == [True]
        assert store.read(f"{root}/u/b") == b"2"
        assert verb == "ls" or store.read(f"{root}/u/a") == b"1"


class TestFsspec(StoreContract):
    """The general store, over fsspec's own local file system, which cannot create atomically."""

    atomic_create = AtomicCreate.NONE
    renames_directories = True

    @pytest.fixture
    def place(self, tmp_path: Path) -> FilledBy:
        return FilledBy(FsspecStore("local"), str(tmp_path), fsspec.filesystem("file"))


@pytest.fixture(scope="module")
def s3_options() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.mark.s3
@pytest.mark.ci
class TestS3(StoreContract):
    racers = staticmethod(race_processes)

    @pytest.fixture
    def place(self, s3_options: dict[str, str]) -> FilledBy:
        bucket = f"b-{uuid.uuid4().hex}"
        store, root = open_store(f"s3://{bucket}/wh/", s3_options)
        client = make_bucket(s3_options, bucket)
        return FilledBy(store, root, client)

    def test_a_marker_object_of_a_directory_is_no_entry(self, place: FilledBy) -> None:
        place.client.pipe_file(f"{place.root}/d/", b"")
        place.put(f"{place.root}/d/x", b"1")
        assert [i.name for i in place.store.list(f"{place.root}/d")] == ["x"]

    @pytest.mark.ci
    def test_a_wrong_key_is_an_error_that_keeps_the_secret(self, s3_options: dict[str, str]) -> None:
        store, root = open_store("s3://no-such-bucket/x", {**s3_options, "s3.secret-key": "hush-hush"})
        with pytest.raises(StorageError) as caught:
            store.read(root)
        assert "hush-hush" not in str(caught.value) + repr(store)

    def test_a_server_that_is_gone_is_worth_a_retry(self) -> None:
        store, root = open_store(
            "s3://bucket/x", {"s3.endpoint": "http://127.0.0.1:9", "s3.access-key": "a", "s3.secret-key": "b"}
        )
        with pytest.raises(StorageError, match=r"127\.0\.0\.1:9") as caught:
            store.inner.read(root)  # type: ignore[attr-defined]
        assert caught.value.retryable

    def test_a_marker_goes_with_its_directory(self, place: FilledBy) -> None:
        place.client.pipe_file(f"{place.root}/d/", b"")
        place.put(f"{place.root}/d/x", b"1")
        place.store.delete_tree(f"{place.root}/d")
        assert not place.store.exists(f"{place.root}/d")

    def test_a_missing_bucket_is_no_missing_file_to_a_writer(self, s3_options: dict[str, str]) -> None:
        store, root = open_store("s3://no-such-bucket/x", s3_options)
        with pytest.raises(StorageError, match="there is no bucket 'no-such-bucket'") as caught:
            store.write(f"{root}/y", b"1")
        assert type(caught.value) is StorageError
        with pytest.raises(StorageError, match="there is no bucket 'no-such-bucket'"):  # nor is it made
            store.exists(f"{root}/y")

    def test_our_own_file_met_by_a_repeated_request_counts(self, place: FilledBy) -> None:
        place.put(f"{place.root}/snapshot-1", b"ours")
        place.store.create_exclusive(f"{place.root}/snapshot-1", b"ours")

    def test_a_server_that_ignores_conditions_is_refused(
        self, place: FilledBy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from moto.s3.responses import S3Response

        put = S3Response.put_object

        def ignorant(self: Any) -> Any:
            self.headers = {k: v for k, v in self.headers.items() if k != "If-None-Match"}
            return put(self)

        monkeypatch.setattr(S3Response, "put_object", ignorant)
        monkeypatch.setattr(s3, "_checked", set())
        with pytest.raises(StorageError, match="ignores If-None-Match") as caught:
            place.store.create_exclusive(f"{place.root}/s/1", b"1")
        assert not caught.value.retryable
        assert place.store.list(f"{place.root}/s") == []

    def test_conditions_can_be_given_up(self, place: FilledBy, s3_options: dict[str, str]) -> None:
        store, _ = open_store(f"s3://{place.root}", {**s3_options, "s3.conditional-writes": "false"})
        assert store.atomic_create is AtomicCreate.NONE
        store.create_exclusive(f"{place.root}/s/1", b"1")
        with pytest.raises(FileAlreadyThereError):
            store.create_exclusive(f"{place.root}/s/1", b"2")

    def test_markers_of_directories_below_go_too(self, place: FilledBy) -> None:
        for name in ("d/", "d/a b=ü/", "d/e/f/"):
            place.client.pipe_file(f"{place.root}/{name}", b"")
        place.put(f"{place.root}/d/x", b"1")
        place.put(f"{place.root}/d2/x", b"1")
        place.store.delete_tree(f"{place.root}/d")
        assert [i.name for i in place.store.list(place.root)] == ["d2"]
        assert place.client.find(place.root) == [f"{place.root}/d2/x"]

    @pytest.mark.ci
    def test_a_refused_removal_is_an_error(self, place: FilledBy, monkeypatch: pytest.MonkeyPatch) -> None:
        from moto.s3.responses import S3Response

        refused = """<?xml version="1.0"?><DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Error>
            <Key>wh/x</Key><Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>"""
        monkeypatch.setattr(S3Response, "_bucket_response_delete_keys", lambda self, *_: (200, {}, refused))
        with pytest.raises(StorageError, match=r"cannot delete .*AccessDenied") as caught:
            place.store.delete_many([f"{place.root}/x"])
        assert not caught.value.retryable

    @pytest.mark.ci
    def test_a_failed_write_uploads_nothing(self, place: FilledBy, monkeypatch: pytest.MonkeyPatch) -> None:
        from moto.s3.responses import S3Response

        monkeypatch.setattr(S3Response, "put_object", lambda self: (400, {}, "<Error><Code>Broken</Code></Error>"))
        monkeypatch.setattr(S3Response, "upload_part", lambda self: (400, {}, "<Error><Code>Broken</Code></Error>"))
        out = place.store.open_output(f"{place.root}/f")

        def write() -> None:
            for _ in range(9):  # parts are sent while more is written
                out.write(b"1" * (9 << 20))

        with pytest.raises(StorageError, match=r"cannot write .*Broken"):
            write()
        out.close()
        assert not place.store.exists(f"{place.root}/f")
        with (
            pytest.raises(StorageError, match=r"cannot write .*Broken"),
            place.store.open_output(f"{place.root}/g") as out,
        ):
            out.write(b"1")
        assert not place.store.exists(f"{place.root}/g")

    def test_a_small_file_is_one_request_and_a_large_one_several(self, place: FilledBy) -> None:
        with counted_requests() as requests:
            with place.store.open_output(f"{place.root}/small") as out:
                out.write(b"1" * 1000)
            assert requests == ["PUT"]
            requests.clear()
            with place.store.open(f"{place.root}/small", 1000) as file:
                assert file.read(10) == b"1" * 10 and file.size() == 1000
            assert requests == ["GET"]
            requests.clear()
            with place.store.open(f"{place.root}/small") as file:
                assert file.read() == b"1" * 1000
            assert requests == ["GET"]
            place.put(f"{place.root}/large", bytes(3 << 20))
            requests.clear()
            with place.store.open(f"{place.root}/large", 3 << 20) as file:
                store.prefetch(file, [(0, 10), (1 << 20, 10), (2 << 20, 200_000)])
                for offset, length in ((0, 10), (1 << 20, 10), (2 << 20, 200_000), ((3 << 20) - 8, 8)):
                    file.seek(offset)
                    assert file.read(length) == bytes(length)
            assert 2 <= len(requests) <= 4 and set(requests) == {"GET"}

    def test_a_tree_is_listed_as_its_directories_are(self, place: FilledBy) -> None:
        for path in ("t/a", "t/x/1", "t/x/y/2", "t2/b"):
            place.put(f"{place.root}/{path}", b"1")
        place.client.pipe_file(f"{place.root}/t/x/", b"")
        place.client.pipe_file(f"{place.root}/t/", b"")
        with counted_requests() as requests:
            found = place.store.list_tree(f"{place.root}/t")  # type: ignore[attr-defined]
        assert requests == ["GET"]
        assert found == {d: place.store.list(d) for d in (f"{place.root}/{name}" for name in ("t", "t/x", "t/x/y"))}
        assert place.store.list_tree(f"{place.root}/none") == {f"{place.root}/none": []}  # type: ignore[attr-defined]

    def test_listings_tell_the_digest_of_a_content(self, place: FilledBy) -> None:
        place.store.write(f"{place.root}/x", b"abc")
        assert [i.digest for i in place.store.list(place.root)] == ["900150983cd24fb0d6963f7d28e17f72"]

    def test_a_size_that_metadata_has_wrong_does_no_harm(self, place: FilledBy) -> None:
        data = bytes(range(256)) * 8192
        place.put(f"{place.root}/x", data)
        for claimed in (0, 10, 1000, len(data) - 1, len(data) + 1, 1 << 40):
            with place.store.open(f"{place.root}/x", claimed) as file:
                assert file.size() == len(data)
                assert file.read() == data
