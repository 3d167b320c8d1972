"""Where a query began is not in its checkpoint: the first batch runs again all the same, whatever came meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from uuid import uuid4

import pytest

from tests.harness.fault_points import selected_points
from tests.harness.mini_engine import Step
from tests.harness.stream_tables import Pair, rows

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900), pytest.mark.faults]

TABLES: dict[str, Pair] = {
    "append": Pair(warehouse=""),
    "keys": Pair(("k",), {"bucket": "1"}, warehouse=""),
    "lookup": Pair(("k",), {"bucket": "1", "changelog-producer": "lookup"}, warehouse=""),
}
CONSUMER = {"consumer-id": "c"}
LIMITED = {"read.stream.maxFilesPerTrigger": "1"}
ALIGNED = {"read.stream.aligned": "true"}
STARTS: dict[str, Mapping[str, str]] = {
    "full": {},
    "full-limited": LIMITED,
    "full-aligned": ALIGNED,
    "full-consumer": CONSUMER,
    "full-consumer-limited": {**CONSUMER, **LIMITED},
    "full-of-snapshot": {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2", **CONSUMER},
    "from-snapshot": {"scan.snapshot-id": "1", **CONSUMER},
    "from-snapshot-limited": {"scan.snapshot-id": "1", **CONSUMER, **LIMITED},
    "from-snapshot-aligned": {"scan.snapshot-id": "1", **CONSUMER, **ALIGNED},
    "from-timestamp": {"scan.timestamp-millis": "1", **CONSUMER},
}


@cache
def _template(table: str, snapshots: int) -> Pair:
    pair = replace(TABLES[table], warehouse=f"memory://{uuid4().hex}/wh").make()
    for n in range(snapshots):
        pair.table("src").write(rows((n, f"{n}"), (100 + n, f"{n}")))
    return pair


def a_pair(table: str, snapshots: int, read: Mapping[str, str]) -> Pair:
    pair = replace(TABLES[table], warehouse=f"memory://{uuid4().hex}/wh", read=read)
    return pair.copy(_template(table, snapshots))


def goes_on(pair: Pair, turn: int) -> None:
    """What comes while the query is down: rows, a compaction, and expiry of all that nobody fences."""
    source = pair.table("src")
    source.write(rows((200 + turn, "later"), (0, f"later {turn}") if pair.keys else (300 + turn, "later")))
    source.compact(full=True)
    source.write(rows((400 + turn, "last")))
    if source.consumers():
        source.expire_snapshots(retain_max=1, retain_min=1, older_than=datetime.now(UTC))


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("snapshots", [0, 3])
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("table", TABLES)
def test_the_first_batches_run_again(table: str, start: str, snapshots: int, restart: bool, tmp_path: Path) -> None:
    if not snapshots and start in ("full-of-snapshot", "from-timestamp"):
        pytest.skip("there is nothing to begin with")
    turn = list(STARTS).index(start) + 4 * list(TABLES).index(table) + 3 * restart + 2 * snapshots
    for at in selected_points(range(1, 14), 13, turn):
        pair, checkpoint = a_pair(table, snapshots, STARTS[start]), tmp_path / str(at)
        steps = pair.engine(checkpoint).steps()
        done = [step for _, step in zip(range(at), steps, strict=False)]
        goes_on(pair, 1)
        if not restart:
            for _ in steps:
                pass
        else:  # killed twice at the same step
            again = pair.engine(checkpoint).steps()
            for _ in zip(range(at), again, strict=False):
                pass
            goes_on(pair, 2)
        pair.engine(checkpoint).run()
        found, expected = pair.written_rows(), pair.read_rows()
        where = f"{start}, {snapshots} snapshots, after {[s.value for s in done]}"
        assert found == expected, f"{where}: too many {found - expected}, too few {expected - found}"


@pytest.mark.parametrize("at", range(1, 9))
def test_what_is_new_only_is_read_without_a_gap(at: int, tmp_path: Path) -> None:
    pair = a_pair("append", 3, {"scan.mode": "latest"})
    steps = pair.engine(tmp_path).steps()
    logged = any(step is Step.LOGGED for _, step in zip(range(at), steps, strict=False))
    for turn in (1, 2):
        goes_on(pair, turn)
        pair.engine(tmp_path).run()
    found = pair.written_rows()
    came = [
        found[row] for turn in (1, 2) for row in ((200 + turn, "later"), (300 + turn, "later"), (400 + turn, "last"))
    ]
    assert sum(came) == sum(found.values())
    # A run that left no trace is none: then the second begins where it finds the branch.
    assert came == ([1] * 6 if logged else [0, 0, 0, 1, 1, 1])
