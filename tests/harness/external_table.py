"""A table whose data files lie outside its directory, as Java Paimon writes them or as somebody forges it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import fastavro
import fsspec
import pyarrow as pa

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.metadata.manifests import CACHE

OPTION = "data-file.external-paths"
ALLOWED = "catalog.allowed-external-paths"


@dataclass
class ExternalTable:
    """A table `db.t` of a warehouse, changed behind the back of its catalog."""

    warehouse: str
    columns: str = "k INT"
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        catalog = paimon_spark.load_catalog(self.warehouse)
        catalog.create_database("db", ignore_if_exists=True)
        catalog.create_table("db.t", self.columns, options=dict(self.options))

    @property
    def root(self) -> str:
        return f"{self.warehouse}/db.db/t"

    def table(self, allowed: str | None = None, **options: str) -> Table:
        given = {} if allowed is None else {ALLOWED: allowed}
        return paimon_spark.load_catalog(self.warehouse, **given).table("db.t", **options)

    def write(self, *keys: int) -> ExternalTable:
        """Append rows, as long as the table lists no external paths."""
        self.table().write(pa.table({"k": pa.array(keys, pa.int32())}))
        return self

    def keys(self, allowed: str | None = None, **options: str) -> list[int]:
        return sorted(self.table(allowed, **options).scan().to_arrow().column("k").to_pylist())

    def data_files(self) -> list[str]:
        """Names of the files in bucket-0."""
        fs, root = fsspec.core.url_to_fs(self.root)
        return sorted(path.rpartition("/")[2] for path in fs.ls(f"{root}/bucket-0", detail=False))

    def move_files(self, to: str) -> list[str]:
        """Move the data files to a directory, and let the manifests name them there. Returns the URLs."""
        fs, root = fsspec.core.url_to_fs(self.root)
        there, directory = fsspec.core.url_to_fs(to)
        there.makedirs(directory, exist_ok=True)
        names = self.data_files()
        for name in names:
            there.pipe_file(f"{directory}/{name}", fs.cat_file(f"{root}/bucket-0/{name}"))
            fs.rm_file(f"{root}/bucket-0/{name}")
        self.name_files(lambda name: f"{to}/{name}")
        return [f"{to}/{name}" for name in names]

    def name_files(self, url_of: Callable[[str], str | None]) -> None:
        """Give each data file an external path, or none."""

        def change(record: dict[str, Any]) -> None:
            record["_FILE"]["_EXTERNAL_PATH"] = url_of(record["_FILE"]["_FILE_NAME"])

        sizes = self._change_avro("manifest-", change, but="list")
        self._change_avro("manifest-list-", lambda r: r.update(_FILE_SIZE=sizes[r["_FILE_NAME"]]))

    def name_index_files(self, url_of: Callable[[str], str]) -> None:
        """Give each index file an external path."""
        self._change_avro("index-manifest-", lambda r: r.update(_EXTERNAL_PATH=url_of(r["_FILE_NAME"])))

    def set_option(self, key: str, value: str) -> ExternalTable:
        """Store an option in all schemas of the table."""
        fs, root = fsspec.core.url_to_fs(self.root)
        for path in fs.ls(f"{root}/schema", detail=False):
            schema = json.loads(fs.cat_file(path))
            schema["options"][key] = value
            fs.pipe_file(path, json.dumps(schema).encode())
        CACHE.clear()
        return self

    def _change_avro(self, prefix: str, change: Callable[[dict[str, Any]], None], but: str = "\0") -> dict[str, int]:
        """Rewrite files of records; returns their new sizes."""
        sizes = {}
        fs, root = fsspec.core.url_to_fs(self.root)
        for path in fs.ls(f"{root}/manifest", detail=False):
            name = path.rpartition("/")[2]
            if not name.startswith(prefix) or but in name:
                continue
            reader = fastavro.reader(io.BytesIO(fs.cat_file(path)))
            records: list[Any] = list(reader)
            for record in records:
                change(record)
            out = io.BytesIO()
            fastavro.writer(out, reader.writer_schema, records)
            fs.pipe_file(path, out.getvalue())
            sizes[name] = len(out.getvalue())
        CACHE.clear()
        return sizes


def contents(url: str) -> dict[str, bytes]:
    """The bytes of all files below a directory."""
    fs, root = fsspec.core.url_to_fs(url)
    return {path.removeprefix(root): fs.cat_file(path) for path in fs.find(root)}
