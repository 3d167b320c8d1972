"""Parts of compacted changelogs are read as the files they are called; long rows are decoded in parts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from paimon_spark.errors import CorruptFileError
from paimon_spark.format.arrays import pieces
from paimon_spark.format.data_files import registry
from paimon_spark.format.data_files.registry import read_rows
from paimon_spark.format.data_files.requests import FileRead, Rows
from paimon_spark.storage.fsspec_store import FsspecStore
from paimon_spark.storage.local import LocalStore
from paimon_spark.storage.store import Store
from paimon_spark.types import BIGINT, STRING, DataField
from tests.harness.avro_files import avro_file

FORMATS = ("parquet", "orc", "avro")
CHUNKED = pa.ArrowNotImplementedError("Nested data conversions not implemented for chunked array outputs")


def file_of(kind: str, ids: list[int]) -> bytes:
    sink = pa.BufferOutputStream()
    match kind:
        case "parquet":
            pq.write_table(pa.table({"id": ids}), sink)
        case "orc":
            po.write_table(pa.table({"id": ids}), sink)
        case "avro":
            schema = {"type": "record", "name": "record", "fields": [{"name": "id", "type": ["null", "long"]}]}
            return avro_file(schema, [{"id": i} for i in ids])
    return bytes(sink.getvalue())


def compacted(table: Path, kind: str) -> dict[str, list[int]]:
    """A compacted changelog of three buckets; the ids behind each name, relative to the table."""
    parts = {b: list(range(b * 100, b * 100 + 10 + b)) for b in (4, 0, 7)}
    blobs = {b: file_of(kind, ids) for b, ids in parts.items()}
    real = f"compacted-changelog-1f$4-{len(blobs[4])}"
    home = table / "p=a" / "bucket-4"
    home.mkdir(parents=True)
    (home / f"{real}.cc-{kind}").write_bytes(b"".join(blobs.values()))
    out = {f"p=a/bucket-4/{real}.cc-{kind}": parts[4]}
    at = len(blobs[4])
    for b in (0, 7):
        out[f"p=a/bucket-{b}/{real}-{at}-{len(blobs[b])}.cc-{kind}"] = parts[b]
        at += len(blobs[b])
    return out


def read(store: Store, path: Path, count: int) -> list[int]:
    rows = read_rows(FileRead(store, str(path), (DataField(0, "id", BIGINT),), count, batch_rows=8))
    return [i for run in rows for i in run.arrays[0].to_pylist()]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("remote", [False, True], ids=["local", "fsspec"])
def test_every_name_gives_its_rows(tmp_path: Path, kind: str, remote: bool) -> None:
    store: Store = FsspecStore("file", {}) if remote else LocalStore()
    for name, ids in compacted(tmp_path, kind).items():
        assert read(store, tmp_path / name, len(ids)) == ids


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_cut_short_is_named(tmp_path: Path, kind: str) -> None:
    *_, (name, ids) = compacted(tmp_path, kind).items()
    (real,) = (tmp_path / "p=a" / "bucket-4").iterdir()
    real.write_bytes(real.read_bytes()[:-5])
    with pytest.raises(CorruptFileError, match="bucket-4/compacted-changelog-1f"):
        read(LocalStore(), tmp_path / name, len(ids))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    name = tmp_path / "bucket-3" / "compacted-changelog-1f$4-10-10-20.cc-orc"
    with pytest.raises(CorruptFileError, match=r"bucket-4/compacted-changelog-1f\$4-10\.cc-orc is missing"):
        read(LocalStore(), name, 1)


@pytest.mark.parametrize(
    "name",
    ["compacted-changelog-1f.cc-orc", "compacted-changelog-1$x-1.cc-orc", "compacted-changelog-1$1-2-3.cc-orc",
     "compacted-changelog-1$1-2-3-99999999999999999999.cc-orc", "compacted-changelog-1$1-2-3-4-5.cc-orc"],
)  # fmt: skip
def test_names_that_do_not_say_which_bytes_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CorruptFileError, match="invalid name of a compacted changelog"):
        read(LocalStore(), tmp_path / "bucket-0" / name, 1)


@pytest.mark.parametrize("failure", [pa.ArrowCapacityError("array cannot contain more"), CHUNKED], ids=repr)
def test_rows_that_arrow_cannot_decode_together_are_decoded_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    tried = []

    def reader(read: FileRead) -> Iterator[Rows]:
        """Fails in row 40 where it would decode more than 20 rows with it."""
        tried.append((read.batch_rows, read.in_parts))
        for first in range(0, 90, read.batch_rows):
            count = min(read.batch_rows, 90 - first)
            if first <= 40 < first + count and count > 20:
                raise failure
            yield Rows(first, count, [pa.array(range(first, first + count), pa.int64())])

    monkeypatch.setattr(registry, "_format", lambda name: (reader, None))
    read = FileRead(LocalStore(), str(tmp_path / "a.parquet"), (DataField(0, "id", BIGINT),), 90, batch_rows=33)
    runs = list(read_rows(read))
    assert [(run.first, run.row_count, run.arrays[0].to_pylist()) for run in runs] == [
        (start, end - start, list(range(start, end))) for start, end in pairwise((0, 33, *range(34, 91, 2)))
    ]
    assert tried == [(33, False), (2, True)]


def test_an_error_that_fewer_rows_do_not_help_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reader(read: FileRead) -> Iterator[Rows]:
        tried.append(read.batch_rows)
        yield from decode()

    def decode() -> Iterator[Rows]:
        raise pa.ArrowCapacityError("array cannot contain more")

    tried: list[int] = []
    monkeypatch.setattr(registry, "_format", lambda name: (reader, None))
    with pytest.raises(CorruptFileError, match=r"a\.parquet cannot be read: ArrowCapacityError"):
        list(read_rows(FileRead(LocalStore(), str(tmp_path / "a.parquet"), (), 90, batch_rows=4096)))
    assert tried == [4096, 256, 16, 1]


@pytest.mark.parametrize("open_files", [1, 4])
def test_long_rows_are_decoded_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_files: int) -> None:
    monkeypatch.setattr(pieces, "BATCH_BYTES", 4000)
    texts = [f"{n:04}" * 50 for n in range(100)]
    pq.write_table(pa.table({"id": range(100), "s": texts}), tmp_path / "a.parquet", use_dictionary=False)
    fields = (DataField(0, "id", BIGINT), DataField(1, "s", STRING))
    for wanted, most in ((fields, 4000 // open_files // 200), (fields[:1], 4000 // open_files // 8)):
        read = FileRead(LocalStore(), str(tmp_path / "a.parquet"), wanted, 100, open_files=open_files)
        counts = [run.row_count for run in read_rows(read)]
        assert sum(counts) == 100
        assert min(most, 100) // 2 < max(counts) <= min(most, 100)
