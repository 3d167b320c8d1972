"""One stream of a branch, read by this package as a query would and by Java as a job would, and what differs.

Both are followed step by step. Ours is cut into micro-batches at random, its offset kept as JSON between them and its
source made anew at times, as after a restart. Java plans snapshot by snapshot.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

import paimon_spark
from paimon_spark.engine.read.split_reader import read_split
from paimon_spark.engine.scan.plan import Plan
from paimon_spark.engine.tasks import DataSplit
from paimon_spark.jobs.read.stream import open_stream
from paimon_spark.options.stream_read import ReadLimits
from paimon_spark.streaming.offset import Phase, StreamOffset, decode, encode
from paimon_spark.streaming.source import StreamSource
from tests.harness.rows import Row, difference, rows_of
from tests.interop.java_paimon import JavaPaimon

_CUTS: Final = (
    None,
    ReadLimits(),
    ReadLimits(max_files=1),
    ReadLimits(max_rows=3),
    ReadLimits(max_bytes=1000),
    ReadLimits(max_files=3, max_rows=8),
)


@dataclass(frozen=True, slots=True)
class Span:
    """Whole snapshots that a stream has read, and their rows in the order in which they came.

    Attributes:
        after: the snapshot before the first; the rows are those of later ones.
        last: the last of them.
        schema_id: the schema that was read with.
    """

    after: int
    last: int
    rows: tuple[Row, ...]
    schema_id: int = 0


class OurStream:
    """A query's source and its offset.

    Attributes:
        schema_id: the schema that the query reads with.
    """

    def __init__(
        self,
        path: str,
        options: dict[str, str],
        dice: random.Random,
        cuts: Sequence[ReadLimits | None] = _CUTS,
    ) -> None:
        """Begin a new query, cut at random as `cuts` allow; None is by the options. Raises PaimonError."""
        self.schema_id: int
        self._path, self._options, self._dice = path, {"read.changelog": "true", **options}, dice
        self._cuts = cuts
        self.source = self._open()
        self.offset = self._kept(self.source.first())
        self._rows: list[Row] = []
        self._after = _before(self.offset)

    def restart(self) -> None:
        """The query ends and starts again with the table's definition of now."""
        self.source = self._open()

    def follow(self) -> list[Span]:
        """Micro-batches until there is nothing new; what they hold, by whole snapshots."""
        spans: list[Span] = []
        while True:
            before = self.offset
            span = self.step()
            if span is not None:
                spans.append(span)
            if self.offset == before:
                return spans

    def step(self) -> Span | None:
        """One micro-batch; what is whole with it, if anything is."""
        if self._dice.random() < 0.1:
            self.source = self._reopened()
        limits = self._dice.choice(self._cuts)
        end = self.source.next(self.offset, *([] if limits is None else [limits]))
        if end == self.offset:
            return None
        end = self._kept(end)
        if self._dice.random() < 0.1:
            self.source = self._reopened()  # the batch is planned from the offsets alone
        self._rows += rows_of_plan(self.source.plan(self.offset, end), self._dice)
        self.source.committed(end)
        self.offset = end
        if end.part is not None or end.snapshot_id is None:
            return None
        span = Span(self._after, end.snapshot_id, tuple(self._rows), self.schema_id)
        self._rows, self._after = [], end.snapshot_id
        return span

    def _reopened(self) -> StreamSource:
        """A source made anew, unless the table was defined anew meanwhile: that would be another query."""
        schema_id, source = self.schema_id, self.source
        fresh = self._open()
        if self.schema_id == schema_id:
            return fresh
        self.schema_id = schema_id
        return source

    def _open(self) -> StreamSource:
        branch = {"branch": self._options["branch"]} if "branch" in self._options else {}
        self.schema_id = paimon_spark.load_table(self._path, **branch).schema.id
        return open_stream(self._path, self._options)

    @staticmethod
    def _kept(offset: StreamOffset) -> StreamOffset:
        """The offset as it comes back from a checkpoint."""
        text = json.dumps(encode(offset))
        back = decode(json.loads(text))
        assert back == offset, text
        return back


@dataclass(slots=True)
class JavaStream:
    """A streaming job's scan: where it goes on, by what it was started with."""

    path: str
    options: dict[str, str]
    branch: str | None = None
    next: int | None = None
    calls_made: int = field(default=0)

    def call(self, **more: Any) -> dict[str, Any]:
        """The call that plans and reads on."""
        call = {"op": "stream", "path": self.path, "options": self.options, "restore": self.next, **more}
        return {**call, "branch": self.branch} if self.branch else call

    def take(self, reply: dict[str, Any]) -> list[dict[str, Any]]:
        """The plans of the reply; the scan has gone on."""
        assert "error" not in reply, reply["error"]
        self.next = reply["next"]
        plans: list[dict[str, Any]] = reply["plans"]
        return plans

    def follow(self, java: JavaPaimon, **more: Any) -> list[dict[str, Any]]:
        """Plans until there is nothing new."""
        return self.take(java.run([self.call(**more)])[0])


def rows_of_plan(plan: Plan, dice: random.Random) -> list[Row]:
    """The plan's rows in the form of the Java driver, as tasks give them: buckets in any order, each in its own."""
    types = {f.name: str(f.type) for f in plan.row_type.fields}
    buckets: dict[tuple[bytes, int], list[DataSplit]] = defaultdict(list)
    for split in plan.splits:
        buckets[split.partition, split.bucket].append(split)
    rows: list[Row] = []
    for key in dice.sample(sorted(buckets), len(buckets)):
        for split in buckets[key]:
            for batch in read_split(plan.requests[split.branch], split):
                rows += rows_of(pa.Table.from_batches([batch]), types)
    return [{**{k: v for k, v in row.items() if k != "rowkind"}, "_KIND": row.get("rowkind")} for row in rows]


def disagreement(
    ours: Sequence[Span],
    theirs: Sequence[dict[str, Any]],
    keys: Sequence[str],
    view: Callable[[Row], Row | None] = lambda row: row,
) -> str | None:
    """What differs between our spans and Java's plans, through `view`; None if nothing does.

    Every span holds the same rows as Java's plans of its snapshots, and those of one key in the same order. In a state
    with which a stream begins Java shows how some rows came to be (+U), and gives rows that are not in their buckets
    yet in any order: there a row that came is +I, and orders are not compared.
    """
    left = [_inserted(plan) for plan in theirs]
    left = [{**plan, "rows": [seen for row in plan["rows"] if (seen := view(row)) is not None]} for plan in left]
    if any(key not in row for span in ours for row in span.rows for key in keys):
        keys = []  # the stream does not read them
    for span in ours:
        within = [plan for plan in left if span.after < plan["snapshot"] <= span.last]
        left = [plan for plan in left if plan not in within]
        wanted = [row for plan in within for row in plan["rows"]]
        about = f"snapshots after {span.after} to {span.last}"
        found = difference(wanted, span.rows)
        if found is not None:
            return f"{about}: {found}"
        theirs_by_key, ours_by_key = _by_key(wanted, keys), _by_key(span.rows, keys)
        for key, line in theirs_by_key.items():
            if line != ours_by_key[key] and not any(plan["first"] for plan in within):
                return f"{about}: key {key}: want {line}, got {ours_by_key[key]}"
    if left:
        return f"not read: {left[0]}"
    return None


def _inserted(plan: dict[str, Any]) -> dict[str, Any]:
    """A plan of Java's with every row that came or changed as +I, where it is the state with which a stream begins."""
    if not plan["first"]:
        return plan
    return {**plan, "rows": [{**r, "_KIND": "+I" if r["_KIND"] == "+U" else r["_KIND"]} for r in plan["rows"]]}


def _by_key(rows: Sequence[Row], keys: Sequence[str]) -> dict[tuple[Any, ...], list[str]]:
    """The changes of each key in their order; nothing for a table without keys, whose rows have none."""
    lines: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for row in rows if keys else ():
        lines[tuple(row[k] for k in keys)].append(json.dumps(row))
    return lines


def _before(offset: StreamOffset) -> int:
    """The snapshot before the first that is read from `offset` on."""
    if offset.snapshot_id is None:
        return 0
    if offset.part is None:
        return offset.snapshot_id
    assert offset.part.phase is Phase.STATE, offset
    return offset.snapshot_id - 1
