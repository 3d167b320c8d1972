"""The stops of a read and of a write in docs/how-it-works.md are those that a read and a write make."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from paimon_spark.spark.source import PaimonDataSource
from tests.harness.flows import PAGE, ROOT, check_stops, stops

ROWS = pa.table({"k": pa.array([1, 2, 3], pa.int64()), "v": ["a", "b", "c"]})


def write(path: Path) -> None:
    options = {"path": str(path), "primary-key": "k", "bucket": "2"}
    writer = PaimonDataSource(options).writer(from_arrow_schema(ROWS.schema), False)
    writer.commit([writer.write(iter(ROWS.to_batches()))])


def test_a_write_makes_the_stops_of_the_page(tmp_path: Path) -> None:
    check_stops("The stops of a write", 16, lambda: write(tmp_path / "t"))


def test_a_read_makes_the_stops_of_the_page(tmp_path: Path) -> None:
    for _ in range(2):
        write(tmp_path / "t")

    schema = PaimonDataSource({"path": str(tmp_path / "t")}).schema()

    def read() -> None:
        reader = PaimonDataSource({"path": str(tmp_path / "t")}).reader(schema)
        batches: list[Any] = [batch for part in reader.partitions() for batch in reader.read(part)]
        assert sum(batch.num_rows for batch in batches) == len(ROWS)

    check_stops("The stops of a read", 13, read)


@pytest.mark.parametrize(
    "heading", re.findall(r"^### (The stops of .*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
)
def test_the_stops_are_files_and_functions_of_the_package(heading: str) -> None:
    for file, function in stops(heading):
        text = (ROOT / "paimon_spark" / file).read_text()
        assert re.search(rf"^\s*def {function}\b", text, re.MULTILINE), f"{file} has no {function}"
