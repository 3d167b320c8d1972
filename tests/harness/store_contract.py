"""What every Store must do. A test module subclasses `StoreContract` and gives it a store to fill."""

from __future__ import annotations

import io
import multiprocessing
import pickle
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_spark.errors import FileMissingError, StorageError
from paimon_spark.storage.store import Store

ODD_NAMES = ("a b", "ü-日本", "x=1%2F2", "star*", "q?", "[set]", "{b}", "a#b", "comma,", "$v", "tag-1.0", "~t", "@")


class Place(Protocol):
    """A store under test, and a way to put files into it behind its back."""

    store: Store
    root: str

    def put(self, path: str, data: bytes) -> None: ...


class StoreContract:
    """The contract, as tests. Subclasses give the fixture `place`, whose root is empty."""

    def test_reads_whole_files(self, place: Place) -> None:
        place.put(f"{place.root}/d/one", b"hello")
        place.put(f"{place.root}/d/empty", b"")
        assert place.store.read(f"{place.root}/d/one") == b"hello"
        assert place.store.read(f"{place.root}/d/empty") == b""

    def test_reads_ranges_and_fewer_bytes_at_the_end(self, place: Place) -> None:
        path = f"{place.root}/f"
        place.put(path, bytes(range(100)))
        assert place.store.read_range(path, 10, 5) == bytes(range(10, 15))
        assert place.store.read_range(path, 95, 50) == bytes(range(95, 100))
        assert place.store.read_range(path, 100, 10) == b""
        assert place.store.read_range(path, 200, 10) == b""
        assert place.store.read_range(path, 7, 0) == b""

    def test_reads_many_in_the_order_asked(self, place: Place) -> None:
        paths = [f"{place.root}/m/{n}" for n in ("b", "a", "c")]
        for i, path in enumerate(paths):
            place.put(path, b"%d" % i)
        assert place.store.read_many([paths[2], paths[0], paths[1], paths[0]]) == [b"2", b"0", b"1", b"0"]
        assert place.store.read_many(paths[:1]) == [b"0"]
        assert place.store.read_many([]) == []

    def test_read_many_names_the_missing_one(self, place: Place) -> None:
        place.put(f"{place.root}/m/a", b"")
        with pytest.raises(FileMissingError, match="m/gone"):
            place.store.read_many([f"{place.root}/m/a", f"{place.root}/m/gone"])

    @pytest.mark.parametrize("verb", ["read", "open", "read_range"])
    def test_missing_files_are_named(self, place: Place, verb: str) -> None:
        path = f"{place.root}/no/such"
        arguments = (path, 0, 10) if verb == "read_range" else (path,)
        with pytest.raises(FileMissingError, match="no/such") as caught:
            getattr(place.store, verb)(*arguments)
        assert not caught.value.retryable
        assert caught.value.context["path"] == path

    def test_a_directory_is_not_a_file(self, place: Place) -> None:
        place.put(f"{place.root}/d/x", b"1")
        with pytest.raises(StorageError):
            place.store.open(f"{place.root}/d")

    def test_exists(self, place: Place) -> None:
        place.put(f"{place.root}/d/x", b"1")
        assert place.store.exists(f"{place.root}/d/x")
        assert place.store.exists(f"{place.root}/d")
        assert not place.store.exists(f"{place.root}/d/y")
        assert not place.store.exists(f"{place.root}/d/x/y")

    def test_lists_sorted_and_not_deep(self, place: Place) -> None:
        for name in ("b", "a", "sub/deep", "Z"):
            place.put(f"{place.root}/l/{name}", b"123")
        infos = place.store.list(f"{place.root}/l")
        assert [(i.name, i.size, i.is_directory) for i in infos] == [
            ("Z", 3, False),
            ("a", 3, False),
            ("b", 3, False),
            ("sub", 0, True),
        ]

    def test_lists_times_of_files(self, place: Place) -> None:
        place.put(f"{place.root}/l/a", b"123")
        (info,) = place.store.list(f"{place.root}/l")
        assert info.modified_ms is not None
        assert 1_500_000_000_000 < info.modified_ms < 10_000_000_000_000

    def test_lists_nothing_where_nothing_is(self, place: Place) -> None:
        place.put(f"{place.root}/file", b"1")
        assert place.store.list(f"{place.root}/none") == []
        assert place.store.list(f"{place.root}/file") == []
        assert place.store.list(f"{place.root}/none/deeper") == []

    def test_sees_new_files_at_once(self, place: Place) -> None:
        assert place.store.list(f"{place.root}/n") == []
        assert not place.store.exists(f"{place.root}/n/1")
        place.put(f"{place.root}/n/1", b"")
        assert [i.name for i in place.store.list(f"{place.root}/n")] == ["1"]
        place.put(f"{place.root}/n/2", b"")
        assert [i.name for i in place.store.list(f"{place.root}/n")] == ["1", "2"]
        assert place.store.exists(f"{place.root}/n/2")

    def test_names_of_any_characters(self, place: Place) -> None:
        paths = [f"{place.root}/odd/{name}" for name in ODD_NAMES]
        for path in paths:
            place.put(path, path.encode())
        assert place.store.read_many(paths) == [p.encode() for p in paths]
        assert [place.store.read(p) for p in paths] == [p.encode() for p in paths]
        assert all(place.store.exists(p) for p in paths)
        assert [i.name for i in place.store.list(f"{place.root}/odd")] == sorted(ODD_NAMES)

    def test_opens_files_for_arrow(self, place: Place) -> None:
        table = pa.table({"a": range(50_000), "b": [str(i) for i in range(50_000)]})
        buffer = io.BytesIO()
        pq.write_table(table, buffer, row_group_size=10_000)
        place.put(f"{place.root}/t.parquet", buffer.getvalue())
        with place.store.open(f"{place.root}/t.parquet") as f:
            assert pq.ParquetFile(f).read().equals(table)
        with place.store.open(f"{place.root}/t.parquet") as f:
            assert f.size() == len(buffer.getvalue())
            f.seek(f.size() - 4)
            assert f.read() == b"PAR1"
            f.seek(0)
            assert f.read(4) == b"PAR1"

    def test_pickles_and_reaches_the_same_files(self, place: Place) -> None:
        place.put(f"{place.root}/p", b"1")
        place.store.read(f"{place.root}/p")  # a connection is open, and must not be pickled
        other = pickle.loads(pickle.dumps(place.store))
        assert other.identity == place.store.identity
        assert other == place.store
        assert other.read(f"{place.root}/p") == b"1"

    def test_survives_a_fork(self, place: Place) -> None:
        place.put(f"{place.root}/p", b"forked")
        place.store.read(f"{place.root}/p")
        assert _in_child(place.store, f"{place.root}/p") == b"forked"

    def test_urls_name_the_path(self, place: Place) -> None:
        url = place.store.url(f"{place.root}/x")
        assert url.endswith(f"{place.root.lstrip('/')}/x")
        assert "://" in url


def _in_child(store: Store, path: str) -> bytes:
    """The file as a forked process reads it, with the connections of its parent in memory."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_send, args=(store, path, theirs))
    child.start()
    try:
        assert ours.poll(60), "the forked process hangs"
        data: bytes = ours.recv_bytes()
        return data
    finally:
        child.kill()
        child.join()


def _send(store: Store, path: str, pipe: multiprocessing.connection.Connection) -> None:
    pipe.send_bytes(store.read(path))
