"""A query is killed at random moments while others are at its source and its sink: each row arrives exactly once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.chaos.stream_checks import check, kill_places
from tests.chaos.streams import FOREIGN, Stream, kept, make, run, write

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

FULL = os.environ.get("PAIMON_SPARK_CHAOS") == "full"
SIZE: dict[str, Any] = {"kills": 30} if FULL else {}
LIMITS = {"read.stream.maxFilesPerTrigger": "2"}
ALIGNED = {"read.stream.aligned": "true"}
QUERIES: dict[str, dict[str, Any]] = {
    "append": {},
    "append-limited": {"read": {"read.stream.maxRowsPerTrigger": "15"}},
    "append-aligned": {"read": ALIGNED},
    "append-own-branch": {"same_table": True},
    "keys": {"producer": "none"},
    "keys-limited-changes": {"producer": "none", "keeps": True, "read": LIMITS},
    "keys-aligned": {"producer": "none", "read": ALIGNED},
    "keys-own-branch": {"producer": "none", "same_table": True, "read": LIMITS},
    "input": {"producer": "input", "read": LIMITS},
    "input-aligned-changes": {"producer": "input", "keeps": True, "read": ALIGNED},
    "lookup-changes": {"producer": "lookup", "keeps": True},
    "lookup-limited-changes": {"producer": "lookup", "keeps": True, "read": LIMITS},
    "lookup-aligned": {"producer": "lookup", "read": {**ALIGNED, "read.stream.aligned.snapshots": "2"}},
}

OFTEN = (
    "append-limited", "append-aligned", "keys-own-branch", "keys-aligned", "input-aligned-changes",
    "lookup-limited-changes",
)  # fmt: skip
"""Those that run always; the others when asked for all."""


@pytest.mark.parametrize("query", QUERIES if FULL else OFTEN)
def test_each_row_arrives_once(query: str, tmp_path: Path) -> None:
    stream = Stream(str(tmp_path / "wh"), tmp_path, **QUERIES[query], **SIZE)
    make(stream)
    figures = run(stream)
    beside = kept(stream)
    print(query, {**figures, **check(stream)}, beside, dict(kill_places(stream)))
    assert min(beside.values()) > 0, beside


@pytest.mark.parametrize("query", ["append", "keys", "input-aligned-changes", "lookup-changes"])
def test_the_check_notices_a_row_that_comes_twice_or_not_at_all(query: str, tmp_path: Path) -> None:
    stream = Stream(str(tmp_path / "wh"), tmp_path, **QUERIES[query])
    make(stream)
    stream.engine(available_now=True).run()
    check(stream)
    sink = stream.sink()
    rows = sink.scan().to_arrow()
    ours = rows.filter(pc.less(rows.column("k"), FOREIGN)).slice(0, 1)
    other = ours.set_column(ours.schema.get_field_index("v"), "v", pa.array(["another"]))
    sink.write(ours if not stream.keyed or stream.keeps else other)
    with pytest.raises(AssertionError, match=r"too many \[\("):
        check(stream)
    stream.sink().rollback_to(f"snapshot.{sink.snapshots()[-1].id - 1}")
    check(stream)
    log = os.open(tmp_path / "writer.log", os.O_WRONLY | os.O_APPEND)
    write(stream, 1, log)
    os.close(log)
    with pytest.raises(AssertionError, match=r"too few \[\("):
        check(stream)
