"""The stops of a read and of a write in docs/how-it-works.md are those that a read and a write make."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from paimon_spark.spark.source import PaimonDataSource

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "how-it-works.md"
STOP = re.compile(r"^\d+\. `(?P<file>[\w/]+\.py)`: `(?P<function>[\w.]+)`", re.MULTILINE)
ROWS = pa.table({"k": pa.array([1, 2, 3], pa.int64()), "v": ["a", "b", "c"]})


def stops(heading: str) -> list[tuple[str, str]]:
    """The (file, function) of each stop below a heading of the page."""
    section = PAGE.read_text().split(f"\n### {heading}\n", 1)[1].split("\n#", 1)[0]
    return [(m["file"], m["function"].rpartition(".")[2]) for m in STOP.finditer(section)]


def calls(act: Callable[[], Any]) -> list[tuple[str, str]]:
    """The (file, function) that `act` calls in the package, each at its first call, in order, of all threads."""
    seen: dict[tuple[str, str], None] = {}
    package = f"{ROOT}/paimon_spark/"

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(package):
            seen.setdefault((frame.f_code.co_filename.removeprefix(package), frame.f_code.co_name))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return list(seen)


def check(heading: str, most: int, act: Callable[[], Any]) -> None:
    wanted, made = stops(heading), calls(act)
    assert 5 <= len(wanted) <= most
    assert [stop for stop in wanted if stop not in made] == [], "stops that are not made"
    assert sorted(wanted, key=made.index) == wanted, "the order of the stops"


def write(path: Path) -> None:
    options = {"path": str(path), "primary-key": "k", "bucket": "2"}
    writer = PaimonDataSource(options).writer(from_arrow_schema(ROWS.schema), False)
    writer.commit([writer.write(iter(ROWS.to_batches()))])


def test_a_write_makes_the_stops_of_the_page(tmp_path: Path) -> None:
    check("The stops of a write", 16, lambda: write(tmp_path / "t"))


def test_a_read_makes_the_stops_of_the_page(tmp_path: Path) -> None:
    for _ in range(2):
        write(tmp_path / "t")

    schema = PaimonDataSource({"path": str(tmp_path / "t")}).schema()

    def read() -> None:
        reader = PaimonDataSource({"path": str(tmp_path / "t")}).reader(schema)
        rows = [batch.num_rows for part in reader.partitions() for batch in reader.read(part)]
        assert sum(rows) == len(ROWS)

    check("The stops of a read", 13, read)


@pytest.mark.parametrize("heading", ["The stops of a read", "The stops of a write"])
def test_the_stops_are_files_and_functions_of_the_package(heading: str) -> None:
    for file, function in stops(heading):
        text = (ROOT / "paimon_spark" / file).read_text()
        assert re.search(rf"^\s*def {function}\b", text, re.MULTILINE), f"{file} has no {function}"
