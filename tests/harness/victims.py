"""A warehouse that is attacked, with folders of somebody else beside it, on local disk, in memory or on S3."""

from __future__ import annotations

import io
import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from stat import S_ISDIR
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.memory import MemoryFileSystem

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.metadata.manifests import CACHE
from tests.harness.left_threads import end_recorders
from tests.harness.verbs import rows

OLD_S: Final = 400_000
SECRET: Final = "precious"
"""What the rows of the victims say."""
TABLES: Final = ("wh/db.db/t", "wh/db.db/a")
"""Those attacked: with keys and without, by their paths."""
VICTIMS: Final = ("victim", "wh/db.db/victim", "wh/other.db")
_FOLDER: Final = (
    "notes.txt", "data-1.parquet", "snapshot-1", "snapshot-99", "LATEST", "manifest-1", "tag-v0", "schema-7",
    "consumer-me", "bucket-0/data-1.parquet", "snapshot/snapshot-1", "snapshot/snapshot-99", "manifest/manifest-1",
    "branch-x/notes", "tag/tag-v0", "p=a/bucket-0/data-1.parquet", "index/index-1", "statistics/stat-1", "1.json",
)  # fmt: skip
"""Files of the folders that are no tables, by names that tables have."""


class Place(ABC):
    """A warehouse `wh` and victims, below one URL. Paths are relative to it."""

    def __init__(self, url: str, options: Mapping[str, str] | None = None) -> None:
        self.url, self.options = url, dict(options or {})
        self._saved: dict[str, bytes] = {}

    @property
    @abstractmethod
    def root(self) -> str:
        """The URL as a path of its store."""

    @abstractmethod
    def files(self) -> dict[str, bytes]:
        """The bytes of all files, or on S3 their digests, by path."""

    @abstractmethod
    def read(self, path: str) -> bytes: ...

    @abstractmethod
    def write(self, path: str, data: bytes) -> None: ...

    @abstractmethod
    def delete(self, path: str) -> None: ...

    def victims(self) -> object:
        """Everything that is to stay as it is."""
        return {path: data for path, data in self.files().items() if path.startswith(VICTIMS)}

    def catalog(self, **options: str) -> Catalog:
        return paimon_spark.load_catalog(f"{self.url}/wh", **self.options, **options)

    def save(self) -> None:
        """Remember the files as they are."""
        files = self.files()
        self._saved = {path: self.read(path) for path in files}
        self._digests = files

    def copy(self, other: Place, kept: tuple[str, ...]) -> Place:
        """Make the files those below some paths that another place saved, and save them."""
        for path, data in other._saved.items():
            if path.startswith(kept):
                self.write(path, data)
        self.save()
        return self

    def restore(self) -> None:
        """Make the files what they were."""
        end_recorders()
        files = self.files()
        for path in files.keys() - self._digests.keys():
            self.delete(path)
        for path, digest in self._digests.items():
            if files.get(path) != digest:
                self.write(path, self._saved[path])
        CACHE.clear()

    def named(self, prefix: str) -> list[str]:
        """The paths that begin so, sorted."""
        return sorted(path for path in self.files() if path.startswith(prefix))

    def change_json(self, prefix: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Rewrite files of one JSON object each. Raises AssertionError: there are none."""
        paths = self.named(prefix)
        assert paths, prefix
        for path in paths:
            raw = json.loads(self.read(path))
            change(raw)
            self.write(path, json.dumps(raw).encode())

    def change_records(self, prefix: str, change: Callable[[dict[str, Any]], None], but: str = "\0") -> None:
        """Rewrite Avro files, and the sizes in the lists that name them. Raises AssertionError: there are none."""
        sizes = self._change_records(prefix, change, but)
        assert sizes, prefix
        lists = f"{prefix.rpartition('/')[0]}/manifest-list-"
        if prefix != lists:
            self._change_records(
                lists, lambda row: row.update(_FILE_SIZE=sizes.get(row["_FILE_NAME"], row["_FILE_SIZE"]))
            )
        CACHE.clear()

    def _change_records(self, prefix: str, change: Callable[[dict[str, Any]], None], but: str = "\0") -> dict[str, int]:
        sizes = {}
        for path in self.named(prefix):
            if but in path:
                continue
            reader = fastavro.reader(io.BytesIO(self.read(path)))
            records: list[Any] = list(reader)
            for record in records:
                change(record)
            out = io.BytesIO()
            fastavro.writer(out, fastavro.parse_schema(reader.writer_schema), records)
            self.write(path, out.getvalue())
            sizes[path.rpartition("/")[2]] = len(out.getvalue())
        return sizes


class Memory(Place):
    """In the memory of this process."""

    @property
    def root(self) -> str:
        return "/" + self.url.removeprefix("memory://")

    def files(self) -> dict[str, bytes]:
        start = f"{self.root}/"
        store = MemoryFileSystem.store
        return {path[len(start) :]: file.getvalue() for path, file in store.items() if path.startswith(start)}

    def read(self, path: str) -> bytes:
        return bytes(MemoryFileSystem.store[f"{self.root}/{path}"].getvalue())

    def write(self, path: str, data: bytes) -> None:
        MemoryFileSystem().pipe_file(f"{self.root}/{path}", data)

    def delete(self, path: str) -> None:
        MemoryFileSystem.store.pop(f"{self.root}/{path}")


class Local(Place):
    """On local disk; of victims the times of files and the directories stay, too."""

    @property
    def root(self) -> str:
        return self.url

    def files(self) -> dict[str, bytes]:
        return {os.path.relpath(p, self.url): p.read_bytes() for p in self._walk(Path(self.url)) if p.is_file()}

    def read(self, path: str) -> bytes:
        return (Path(self.url) / path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        place = Path(self.url) / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)

    def delete(self, path: str) -> None:
        (Path(self.url) / path).unlink()

    def victims(self) -> object:
        found = {f"{victim}/{path}": at for victim in VICTIMS for path, at in state(Path(self.url) / victim).items()}
        # A lock in a directory changes its time.
        return {path: (mode, S_ISDIR(mode) or time_ns, data) for path, (mode, time_ns, data) in found.items()}

    def save(self) -> None:
        old = time.time() - OLD_S
        for victim in VICTIMS:
            for path in self._walk(Path(self.url) / victim):
                os.utime(path, (old, old))
        super().save()

    def restore(self) -> None:
        super().restore()
        database = Path(self.url) / "wh" / "db.db"
        for directory, _, _ in os.walk(database, topdown=False):
            if not os.listdir(directory):
                os.rmdir(directory)

    @staticmethod
    def _walk(place: Path) -> Iterator[Path]:
        yield from place.rglob("*")
        yield place


class S3(Place):
    """A bucket of a server on this machine."""

    def __init__(self, url: str, options: Mapping[str, str], client: Any) -> None:
        super().__init__(url, options)
        self._client = client

    @property
    def root(self) -> str:
        return self.url.removeprefix("s3://")

    def files(self) -> dict[str, bytes]:
        found = self._client.find(self.root, detail=True)
        return {path[len(self.root) + 1 :]: info["ETag"].encode() for path, info in found.items()}

    def read(self, path: str) -> bytes:
        return bytes(self._client.cat_file(f"{self.root}/{path}"))

    def write(self, path: str, data: bytes) -> None:
        self._client.pipe_file(f"{self.root}/{path}", data)

    def delete(self, path: str) -> None:
        self._client.rm_file(f"{self.root}/{path}")


def state(place: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every path of a folder: kind, time of the last change, and bytes."""
    found = {}
    for path in [place, *place.rglob("*")] if place.exists() else ():
        status = path.lstat()
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path.relative_to(place))] = (status.st_mode, status.st_mtime_ns, data)
    return found


def prepare(place: Place) -> Place:
    """Make the warehouse and the victims, and save them.

    Tables db.t, with keys, and db.a, without, have partitions, snapshots, a tag v1, a branch fix, a consumer me, a
    savepoint, a backup branch and statistics; db.t is made by the job load of the pipeline with the branch dev.
    """
    catalog = place.catalog()
    for database in ("db", "other"):
        catalog.create_database(database)
    secret = pa.table({"k": pa.array([666], pa.int64()), "v": [SECRET], "p": ["a"]})
    columns = "k BIGINT NOT NULL, v STRING, p STRING NOT NULL"
    other = catalog.create_table("other.t", columns, partition_keys=["p"])
    other.write(secret)
    _fold(place, secret)
    catalog.lineage.enable()
    catalog.create_table("db.src", columns).write(rows(0, 1, partition="a"))
    keyed = {"bucket": "1", "write-only": "true", "changelog-producer": "input"}
    catalog.create_table("db.t", columns, partition_keys=["p"], primary_keys=["p", "k"], options=keyed)
    vectors = {"deletion-vectors.enabled": "true", "write-only": "true"}
    catalog.create_table("db.a", columns, partition_keys=["p"], options=vectors)
    job: dict[str, Any] = {"lineage.job": "load"}
    found = catalog.table("db.src").scan(**job).to_arrow()
    catalog.table("db.t").write(found, **job)
    catalog.table("db.a").write(found, **job)
    for name in ("db.t", "db.a"):
        _history(place, catalog, name)
    catalog.pipeline("db.t").branch("dev")
    done = catalog.pipeline("db.t").branch("done")
    done.table("db.t").write(rows(7, partition="b"))
    done.publish()
    done.delete()
    catalog.lineage.sync()
    catalog.lineage.disable()
    end_recorders()
    place.save()
    return place


def _history(place: Place, catalog: Catalog, name: str) -> None:
    table = catalog.table(name)
    table.create_tag("v1", snapshot_id=1)
    table.create_branch("fix", tag="v1")
    table.branch("fix").write(rows(9, partition="a"))
    table.write(rows(1, 2, partition="a"))
    table.write(rows(3, partition="b"))
    table.delete("k = 2")
    if name == "db.a":
        table.compact(full=True)
        table.delete("k = 1")
    else:
        table.compact(full=True)
    table.write(rows(4, partition="a"))
    table.rollback_to(len(table.snapshots()) - 1, backup=True)
    table.create_savepoint()
    table.reset_consumer("me", next_snapshot=2)
    root = f"wh/db.db/{name[3:]}"
    newest = f"{root}/snapshot/snapshot-{table.snapshots()[-1].id}"
    head = json.loads(place.read(newest))
    statistics = {"snapshotId": head["id"], "schemaId": 0, "mergedRecordCount": 2}
    place.write(f"{root}/statistics/stat-1", json.dumps(statistics).encode())
    place.write(newest, json.dumps({**head, "statistics": "stat-1"}).encode())
    place.write(f"{root}/changelog/changelog-1", place.read(f"{root}/snapshot/snapshot-1"))


def _fold(place: Place, secret: pa.Table) -> None:
    """Make the victims that are folders."""
    out = io.BytesIO()
    pq.write_table(secret, out)
    for victim in VICTIMS[:2]:
        for name in _FOLDER:
            place.write(f"{victim}/{name}", out.getvalue() if name.endswith(".parquet") else f"of {name}".encode())
