"""Tables that Java writes are streamed as Java streams them, from every start, whole or in pieces, over restarts.

INTEROP_STREAM_SEEDS=first:last widens the search.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import paimon_spark
from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.metadata.manifests import CACHE
from tests.harness.rows import Row
from tests.interop import our_hand, stream_histories
from tests.interop.java_paimon import JavaPaimon
from tests.interop.random_tables import random_script
from tests.interop.streams import JavaStream, OurStream, disagreement
from tests.interop.table_script import TableScript

pytestmark = pytest.mark.interop

FIRST, LAST = (int(part) for part in os.environ.get("INTEROP_STREAM_SEEDS", "1:1").split(":"))
FOLLOWED = [
    {"scan.mode": "latest-full"},
    {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"},
    {"scan.mode": "latest"},
]


VIEWS: list[tuple[dict[str, str], Callable[[Row], Row | None]]] = [
    ({}, lambda row: row),
    ({"read.changelog": "false"}, lambda row: {**row, "_KIND": None} if row["_KIND"] in ("+I", "+U") else None),
    ({"where": "v >= 2"}, lambda row: row if row["v"] is not None and row["v"] >= 2 else None),
    ({"columns": "v,k"}, lambda row: {name: row[name] for name in ("v", "k", "_KIND")}),
]
"""Options of ours alone, and what a row of Java's is through them."""


class Followed:
    """Our stream and Java's, begun alike and followed step by step."""

    def __init__(self, path: str, options: dict[str, str], dice: random.Random, view: int = 0) -> None:
        more, self.view = VIEWS[view]
        self.options = {**options, **more}
        self.ours, self.theirs = OurStream(path, self.options, dice), JavaStream(path, options)
        if options.get("scan.mode") == "latest" and self.ours.offset.snapshot_id is None:
            self.theirs.next = 1  # a job that runs before the first snapshot comes reads that one, too


def compare(streams: Sequence[Followed], java: JavaPaimon, keys: Sequence[str]) -> list[str]:
    """What differs of what came since; Java reads beside us."""
    calls = [stream.theirs.call(schemaId=stream.ours.schema_id) for stream in streams]
    with ThreadPoolExecutor(1) as beside:
        replies = beside.submit(java.run, calls)
        spans = [stream.ours.follow() for stream in streams]
    problems = []
    for stream, ours, reply in zip(streams, spans, replies.result(), strict=True):
        found = disagreement(ours, stream.theirs.take(reply), keys, stream.view)
        at, there = stream.ours.offset.snapshot_id, stream.theirs.next
        if found is None and at is not None and there is not None and at + 1 != there:
            found = f"we have read up to snapshot {at}, Java goes on with {there}"
        problems += [] if found is None else [f"{stream.options}: {found}"]
    return problems


def live_through(script: TableScript, java: JavaPaimon, root: Path, dice: random.Random, views: int) -> None:
    """Carry the script out, and compare streams after every step; `views` of them may be more than whole."""
    path = script.path(root)
    first, *steps = script.calls(root)
    java.call(**first)
    # Only rows of one bucket have an order, and keys that wander between partitions find themselves in other buckets.
    keys = first["pk"] if set(first["partition"]) <= set(first["pk"]) else []
    followed = [Followed(path, options, dice) for options in [FOLLOWED[0], dice.choice(FOLLOWED[1:])]]
    for number, step in enumerate(steps, start=1):
        if not _carry_out(java, step, path, dice):
            continue
        if step["op"] == "alter" and (_ends_queries(step) or dice.random() < 0.5):
            for stream in followed:
                stream.ours.restart()
        starts = _starts(path, dice)
        begun = dice.sample(starts, min(4 if number == len(steps) else 1, len(starts)))
        fresh = [Followed(path, options, dice, dice.randrange(views)) for options in begun]
        problems = compare([*followed, *fresh], java, keys)
        assert not problems, "\n\n".join([f"{path} step {number} {step['op']}", *problems])


@pytest.mark.parametrize("script", stream_histories.scripts(), ids=str)
def test_streams_give_what_javas_give_after_every_step(script: TableScript, java: JavaPaimon, tmp_path: Path) -> None:
    for seed in range(FIRST, LAST + 1):
        live_through(script, java, tmp_path / str(seed), random.Random(f"{script.name} {seed}"), len(VIEWS))


@pytest.mark.slow
@pytest.mark.random_tables
@pytest.mark.parametrize("seed", range(10 * FIRST, 10 * LAST + 4))
def test_random_tables_are_streamed_as_java_streams_them(seed: int, java: JavaPaimon, tmp_path: Path) -> None:
    live_through(random_script(seed), java, tmp_path, random.Random(seed), 2)


def _carry_out(java: JavaPaimon, step: dict[str, Any], path: str, dice: random.Random) -> bool:
    """The step, mostly by Java's hand, now and then by ours where it is one that we do; whether it was done."""
    if our_hand.can_do(step) and dice.random() < 0.2:
        try:
            our_hand.do(step, path)
        except UnsupportedFeatureError:
            pass
        else:
            return True
    [reply] = java.run([step])
    assert "error" not in reply or step.get("mayFail"), reply
    return "error" not in reply


def _ends_queries(step: dict[str, Any]) -> bool:
    """Whether a query cannot go on with the columns with which it began."""
    return any(change["do"] in ("retype", "drop") for change in step["changes"])


def _starts(path: str, dice: random.Random) -> list[dict[str, str]]:
    """Options of new streams, one of every scan mode, from anywhere in what is alive."""
    CACHE.clear()
    snapshots = paimon_spark.load_table(path).snapshots()
    starts = [{"scan.mode": "latest-full"}, {}, {"scan.mode": "latest"}, {"scan.mode": "compacted-full"}]
    if not snapshots:
        return starts
    ids = [s.id for s in snapshots]
    changelogs = [int(p.name.removeprefix("changelog-")) for p in Path(path).glob("changelog/changelog-*")]
    # Whether a snapshot that expired is later than a moment cannot be told: only Java begins all the same.
    earliest = 0 if changelogs or ids[0] == 1 else snapshots[0].time_ms + 1
    moment = str(max(dice.choice(snapshots).time_ms + dice.choice([-1, 0, 1]), earliest))
    return [
        *starts,
        {"scan.mode": "from-snapshot", "scan.snapshot-id": str(dice.choice([*changelogs, *ids, ids[-1] + 1]))},
        {"scan.mode": "from-snapshot-full", "scan.snapshot-id": str(dice.choice(ids))},
        {"scan.mode": "from-timestamp", "scan.timestamp-millis": moment},
        {"scan.mode": "from-file-creation-time", "scan.file-creation-time-millis": moment},
        {"scan.mode": "from-creation-timestamp", "scan.creation-time-millis": moment},
    ]
