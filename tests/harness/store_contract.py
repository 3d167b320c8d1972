"""The contract of every Store. A test module subclasses `StoreContract` and gives it a store to fill."""

from __future__ import annotations

import io
import multiprocessing
import multiprocessing.connection
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_spark.errors import FileAlreadyThereError, FileMissingError, StorageError
from paimon_spark.storage.store import AtomicCreate, Store

ODD_NAMES = ("a b", "ü-日本", "x=1%2F2", "star*", "q?", "[set]", "{b}", "a#b", "comma,", "$v", "tag-1.0", "~t", "@")


class Place(Protocol):
    """A store under test, and a way to put files into it behind its back."""

    store: Store
    root: str

    def put(self, path: str, data: bytes) -> None: ...


class StoreContract:
    """The contract, as tests. Subclasses give the fixture `place`, whose root is empty.

    Attributes:
        atomic_create, renames_directories: what the store must say of itself.
    """

    atomic_create = AtomicCreate.NATIVE
    renames_directories = False

    @staticmethod
    def racers(store: Store, path: str, count: int) -> list[bytes]:
        """What the winners of a race wrote: of threads where processes do not share the files, else of processes."""
        raise NotImplementedError

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
        path = f"{place.root}/no/such-416"  # 416 is also the status of a range behind the end
        arguments = (path, 0, 10) if verb == "read_range" else (path,)
        with pytest.raises(FileMissingError, match="no/such-416") as caught:
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

    def test_says_whether_creation_is_atomic(self, place: Place) -> None:
        assert place.store.atomic_create is self.atomic_create
        assert place.store.renames_directories is self.renames_directories

    def test_creates_exclusively(self, place: Place) -> None:
        path = f"{place.root}/new/deep/snapshot-1"
        place.store.create_exclusive(path, b"first")
        with pytest.raises(FileAlreadyThereError, match="snapshot-1") as caught:
            place.store.create_exclusive(path, b"second")
        assert not caught.value.retryable
        assert place.store.read(path) == b"first"
        place.store.delete(path)
        place.store.create_exclusive(path, b"")
        assert place.store.read(path) == b""
        assert [i.name for i in place.store.list(f"{place.root}/new/deep")] == ["snapshot-1"], "nothing is left over"

    def test_creates_exclusively_over_what_others_put(self, place: Place) -> None:
        place.put(f"{place.root}/s/1", b"theirs")
        with pytest.raises(FileAlreadyThereError):
            place.store.create_exclusive(f"{place.root}/s/1", b"ours")
        assert place.store.read(f"{place.root}/s/1") == b"theirs"

    def test_one_of_many_racers_wins_and_its_bytes_are_whole(self, place: Place) -> None:
        if place.store.atomic_create is AtomicCreate.NONE:
            pytest.skip("the store says that it cannot")
        place.store.create_exclusive(f"{place.root}/r/warm", b"")
        for round_ in range(3):
            path = f"{place.root}/r/{round_}"
            winners = self.racers(place.store, path, 4)
            assert len(winners) == 1
            assert place.store.read(path) == winners[0]
        assert [i.name for i in place.store.list(f"{place.root}/r")] == ["0", "1", "2", "warm"]

    def test_writes_and_replaces(self, place: Place) -> None:
        path = f"{place.root}/w/deep/LATEST"
        place.store.write(path, b"1")
        assert place.store.read(path) == b"1"
        place.store.write(path, b"22")
        assert place.store.read(path) == b"22"
        assert place.store.read_range(path, 1, 5) == b"2"
        assert [i.name for i in place.store.list(f"{place.root}/w/deep")] == ["LATEST"]

    def test_arrow_writes_files(self, place: Place) -> None:
        table = pa.table({"a": range(50_000), "b": [str(i) for i in range(50_000)]})
        path = f"{place.root}/o/dt=1/t.parquet"
        with place.store.open_output(path) as f:
            pq.write_table(table, f, row_group_size=10_000)
            written = f.tell()
        with place.store.open(path) as f:
            assert pq.ParquetFile(f).read().equals(table)
            assert f.size() == written
        place.store.open_output(f"{place.root}/o/empty").close()
        assert place.store.read(f"{place.root}/o/empty") == b""

    def test_writes_files_larger_than_a_part(self, place: Place) -> None:
        block = bytes(range(256)) * 4096
        path = f"{place.root}/o/large"
        with place.store.open_output(path) as f:
            for _ in range(20):
                f.write(block)
        assert place.store.list(f"{place.root}/o")[0].size == 20 << 20
        assert place.store.read_range(path, (9 << 20) - 3, 6) == b"\xfd\xfe\xff\x00\x01\x02"

    def test_deletes_files_that_are_there_or_not(self, place: Place) -> None:
        paths = [f"{place.root}/odd/{name}" for name in ODD_NAMES]
        for path in paths:
            place.store.write(path, path.encode())
        assert place.store.read_many(paths) == [p.encode() for p in paths]
        place.store.delete(paths[0])
        place.store.delete(paths[0])
        place.store.delete(f"{place.root}/no/such")
        assert [i.name for i in place.store.list(f"{place.root}/odd")] == sorted(ODD_NAMES[1:])
        kept = paths.pop()
        place.store.delete_many([*paths, f"{place.root}/no/such"])
        place.store.delete_many(paths)
        place.store.delete_many([])
        assert [f"{place.root}/odd/{i.name}" for i in place.store.list(f"{place.root}/odd")] == [kept]

    @pytest.mark.parametrize("name", ["tree", "branch-[a]*?"])
    def test_deletes_trees(self, place: Place, name: str) -> None:
        for path in ("1", "a/2", "a/b/3", "a/[x]/4"):
            place.store.write(f"{place.root}/{name}/{path}", b"1")
        place.store.write(f"{place.root}/{name}2/1", b"1")
        place.store.delete_tree(f"{place.root}/{name}")
        assert not place.store.exists(f"{place.root}/{name}")
        assert [i.name for i in place.store.list(place.root)] == [f"{name}2"], "a name that goes on is another tree"
        place.store.delete_tree(f"{place.root}/{name}")

    def test_makes_directories_where_there_are_any(self, place: Place) -> None:
        place.store.make_directory(f"{place.root}/a/b")
        place.store.make_directory(f"{place.root}/a/b")
        place.store.write(f"{place.root}/a/b/c", b"1")
        assert [i.name for i in place.store.list(f"{place.root}/a/b")] == ["c"]

    def test_moves_trees(self, place: Place) -> None:
        for path in ("1", "a/2", "a/b/3"):
            place.store.write(f"{place.root}/old/{path}", path.encode())
        place.store.rename_tree(f"{place.root}/old", f"{place.root}/up/new")
        assert not place.store.exists(f"{place.root}/old")
        moved = place.store.read_many([f"{place.root}/up/new/{path}" for path in ("1", "a/2", "a/b/3")])
        assert moved == [b"1", b"a/2", b"a/b/3"]

    def test_moves_trees_with_names_that_come_last(self, place: Place) -> None:
        for path in ("a", "last/1", "last/d/2", "lasting", "z"):
            place.store.write(f"{place.root}/old/{path}", path.encode())
        place.store.rename_tree(f"{place.root}/old", f"{place.root}/new", ("last", "none"))
        assert not place.store.exists(f"{place.root}/old")
        for path in ("a", "last/1", "last/d/2", "lasting", "z"):
            assert place.store.read(f"{place.root}/new/{path}") == path.encode()

    def test_moves_no_tree_onto_another(self, place: Place) -> None:
        place.store.write(f"{place.root}/a/1", b"a")
        place.store.write(f"{place.root}/b/1", b"b")
        with pytest.raises(FileAlreadyThereError):
            place.store.rename_tree(f"{place.root}/a", f"{place.root}/b")
        with pytest.raises(FileMissingError):
            place.store.rename_tree(f"{place.root}/none", f"{place.root}/c")
        assert place.store.read_many([f"{place.root}/a/1", f"{place.root}/b/1"]) == [b"a", b"b"]


def race_threads(store: Store, path: str, count: int) -> list[bytes]:
    """What those of `count` threads wrote that created the file."""
    barrier = threading.Barrier(count)

    def create(i: int) -> bytes | None:
        barrier.wait(120)
        return _attempt(store, path, i)

    with ThreadPoolExecutor(count) as pool:
        return [data for data in pool.map(create, range(count)) if data is not None]


def race_processes(store: Store, path: str, count: int) -> list[bytes]:
    """What those of `count` processes wrote that created the file."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(count)
    pipes, children = [], []
    for i in range(count):
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_race, args=(store, path, i, barrier, theirs))
        child.start()
        pipes.append(ours)
        children.append(child)
    try:
        assert all(pipe.poll(120) for pipe in pipes), "a racing process hangs"
        return [data for data in (pipe.recv() for pipe in pipes) if data is not None]
    finally:
        for child in children:
            child.kill()
            child.join()


def _race(store: Store, path: str, i: int, barrier: Any, pipe: multiprocessing.connection.Connection) -> None:
    store.exists(path)  # connects
    barrier.wait(120)
    pipe.send(_attempt(store, path, i))


def _attempt(store: Store, path: str, i: int) -> bytes | None:
    data = b"%d" % i * 100_000
    try:
        store.create_exclusive(path, data)
    except FileAlreadyThereError:
        return None
    return data


def _in_child(store: Store, path: str) -> bytes:
    """The file as a forked process reads it, with the connections of its parent in memory."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_send, args=(store, path, theirs))
    child.start()
    try:
        assert ours.poll(120), "the forked process hangs"
        data: bytes = ours.recv_bytes()
        return data
    finally:
        child.kill()
        child.join()


def _send(store: Store, path: str, pipe: multiprocessing.connection.Connection) -> None:
    pipe.send_bytes(store.read(path))
