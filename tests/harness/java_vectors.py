"""Vectors that Java wrote: of BinaryRow with types, values, bytes, hash and bucket; of numbers with their text."""

from __future__ import annotations

import csv
import json
import struct
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from paimon_spark.types import DataType, DecimalType, TimestampType, parse_type

_FIXTURES = Path(__file__).parents[1] / "fixtures"
_FILE = _FIXTURES / "java-0.9" / "binary-row-vectors.json"


class JavaVectors(NamedTuple):
    """Rows of one list of types; values as `binary_row.encode` takes them, timestamps raw."""

    types: list[DataType]
    bucket_count: int
    values: list[tuple[Any, ...]]
    rows: list[bytes]
    hashes: list[int]
    buckets: list[int]

    @property
    def name(self) -> str:
        return ", ".join(map(str, self.types[:4])) + (f" and {len(self.types) - 4} more" if len(self.types) > 4 else "")


def keeps_room_for_null(values: tuple[Any, ...], types: list[DataType]) -> bool:
    """Whether a null here has bytes reserved for it, as Java since 1.1 and its bucket keys have; these rows do not."""
    wide = [
        (isinstance(t, DecimalType) and t.precision > 18) or (isinstance(t, TimestampType) and t.precision > 3)
        for t in types
    ]
    return any(v is None and w for v, w in zip(values, wide, strict=True))


def java_vectors() -> list[JavaVectors]:
    return [_vectors(group) for group in json.loads(_FILE.read_text())]


def _vectors(group: dict[str, Any]) -> JavaVectors:
    types = [parse_type(t) for t in group["types"]]
    rows = group["rows"]
    return JavaVectors(
        types,
        group["numBuckets"],
        [tuple(_value(v, t) for v, t in zip(r["values"], types, strict=True)) for r in rows],
        [bytes.fromhex(r["serialized"]) for r in rows],
        [r["hash"] for r in rows],
        [r["bucket"] for r in rows],
    )


def _value(text: Any, t: DataType) -> Any:
    if text is None:
        return None
    match str(t).split("(")[0]:
        case "DECIMAL":
            return Decimal(text)
        case "DATE":
            return date.fromisoformat(text)
        case "BYTES" | "VARBINARY" | "BINARY":
            return bytes.fromhex(text)
        case "DOUBLE":
            return float(text)
        case "FLOAT":
            return struct.unpack("<f", struct.pack("<f", float(text)))[0]
        case "TIME":
            hours, minutes, seconds = text.split(":")
            return round((int(hours) * 3600 + int(minutes) * 60 + float(seconds)) * 1000)
        case "TIMESTAMP":
            return _raw_timestamp(text.rstrip("Z"))
    return text


def _raw_timestamp(text: str) -> tuple[int, int]:
    whole, _, fraction = text.partition(".")
    seconds = (datetime.fromisoformat(whole) - datetime(1970, 1, 1)) // timedelta(seconds=1)
    nanos = int(fraction.ljust(9, "0"))
    return seconds * 1000 + nanos // 1_000_000, nanos % 1_000_000


class FloatTexts(NamedTuple):
    """Numbers, numpy float32 or float64, as two JDKs print them (`tools/fixtures/java/FloatTexts.java`)."""

    numbers: Any
    jdk_25: list[str]
    jdk_17: list[str]


def float_texts(name: str) -> FloatTexts:
    """Numbers at the ends of the range of FLOAT or DOUBLE, and random ones."""
    lines = (_FIXTURES / "java-float-texts.tsv").read_text().splitlines()
    rows = [row for row in csv.reader(lines, delimiter="\t") if row[0] == name]
    bits = np.array([int(row[1], 16) for row in rows], np.uint32 if name == "FLOAT" else np.uint64)
    numbers = bits.view(np.float32 if name == "FLOAT" else np.float64)
    return FloatTexts(numbers, [row[2] for row in rows], [row[3] for row in rows])
