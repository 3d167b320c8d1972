"""Bytes that are no data file, and data files with a few bytes changed: rows or our error, soon, in little memory."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_spark
from paimon_spark.errors import PaimonError
from paimon_spark.format.data_files.registry import read_rows
from paimon_spark.format.data_files.requests import FileRead
from paimon_spark.storage.local import LocalStore
from paimon_spark.types import BIGINT, DataField
from tests.harness.golden import golden_path
from tests.harness.search import examples

FORMATS = ("parquet", "orc", "avro")
MOST_SECONDS = 20
MAX_BYTES = 512 << 20
TABLES = ("append_all_types_parquet", "append_all_types_orc", "append_all_types_avro", "append_orc_java_quirks")


class Bytes(LocalStore):
    """A store all whose files are the same bytes."""

    data = b""

    def read(self, path: str) -> bytes:
        return self.data

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self.data[offset : offset + length]

    def open(self, path: str, size: int | None = None) -> pa.NativeFile:
        return pa.BufferReader(self.data)


class Sample(NamedTuple):
    name: str
    data: bytes
    fields: tuple[DataField, ...]
    row_count: int


def samples(table: str) -> Iterator[Sample]:
    plan = paimon_spark.load_table(str(golden_path(table))).scan().plan()
    for split in plan.splits:
        for file in split.files:
            fields = plan.requests[split.branch].schema.fields
            yield Sample(file.file_name, Path(split.bucket_path, file.file_name).read_bytes(), fields, file.row_count)


SAMPLES = {table: next(samples(table)) for table in TABLES}


def changed(data: bytes, chance: random.Random) -> bytes:
    """The bytes with something amiss, often near the end, where metadata lies."""
    out = bytearray(data)
    reach = len(out) if chance.random() < 0.5 else min(len(out), 1500)

    def place() -> int:
        return len(out) - 1 - chance.randrange(min(reach, len(out)))

    match chance.randrange(5):
        case 0 | 1:
            for _ in range(chance.choice((1, 1, 2, 16))):
                out[place()] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        case 2:
            at = place()
            del out[at : at + chance.choice((1, 2, 8, 100))]
        case 3:
            at = place()
            out[at:at] = chance.randbytes(chance.choice((1, 2, 8, 100)))
        case 4:
            at, count = place(), chance.choice((4, 8, 32))
            out[at : at + count] = chance.choice((b"\xff", b"\0", b"\x7f", b"\x80")) * count
    return bytes(out)


def is_read_or_refused(sample: Sample, data: bytes) -> bool:
    """Whether rows came, as many as were promised; an error of ours must name the file."""
    store = Bytes()
    object.__setattr__(store, "data", data)
    started = time.thread_time()
    refusal = None
    rows = 0
    try:
        rows = _rows(FileRead(store, f"/t/bucket-0/{sample.name}", sample.fields, sample.row_count))
    except PaimonError as e:
        refusal = str(e)
    assert time.thread_time() - started < MOST_SECONDS
    assert rows == sample.row_count if refusal is None else sample.name in refusal
    return refusal is None


def _rows(read: FileRead) -> int:
    before, count = pa.total_allocated_bytes(), 0
    for run in read_rows(read):
        count += run.row_count
        assert [len(a) for a in run.arrays] == [run.row_count] * len(read.fields)
        assert pa.total_allocated_bytes() - before < MAX_BYTES
    return count


@pytest.mark.parametrize("table", TABLES)
@settings(max_examples=examples(150))
@given(seed=st.integers(0, 2**32))
def test_changed_files(table: str, seed: int) -> None:
    sample = SAMPLES[table]
    is_read_or_refused(sample, changed(sample.data, random.Random(seed)))


@pytest.mark.parametrize("kind", FORMATS)
@given(data=st.binary(max_size=300), framed=st.booleans())
def test_random_bytes(kind: str, data: bytes, framed: bool) -> None:
    head, end = {"parquet": (b"PAR1", b"PAR1"), "orc": (b"ORC", b"ORC\x0e"), "avro": (b"Obj\x01", b"")}[kind]
    sample = Sample(f"data-1.{kind}", b"", (DataField(0, "id", BIGINT),), 3)
    assert not is_read_or_refused(sample, head + data + end if framed else data)


def test_samples_are_read_unchanged() -> None:
    for sample in SAMPLES.values():
        if sample is not SAMPLES["append_orc_java_quirks"]:
            assert is_read_or_refused(sample, sample.data)
