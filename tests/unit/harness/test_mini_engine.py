"""The engine that stands in for Spark: what it asks of a source and a sink, and what a death leaves behind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.streaming.offset import StreamOffset
from paimon_spark.types import BIGINT, DataField, RowType
from tests.harness.mini_engine import Checkpoint, MiniEngine, Step

COLUMNS = RowType(False, (DataField(0, "n", BIGINT),))
BEGINNING = StreamOffset("memory://t", "main", 0)


@dataclass
class Numbers:
    """A source of snapshots 1, 2, ..., one a batch."""

    head: int = 3
    row_type: RowType = COLUMNS
    confirmed: list[int | None] = field(default_factory=list)
    firsts: int = 0
    fails: bool = False
    plans: list[tuple[int | None, int | None]] = field(default_factory=list)

    def first(self) -> StreamOffset:
        self.firsts += 1
        return BEGINNING

    def next(self, start: StreamOffset) -> StreamOffset:
        return replace(start, snapshot_id=min((start.snapshot_id or 0) + 1, self.head))

    def stop_at_newest(self) -> None: ...

    def plan(self, start: StreamOffset, end: StreamOffset) -> Any:
        self.plans.append((start.snapshot_id, end.snapshot_id))

        @dataclass
        class Planned:
            splits: tuple[Any, ...] = ()
            requests: dict[str, Any] = field(default_factory=dict)

        self.range = (start.snapshot_id, end.snapshot_id)
        return Planned()

    def committed(self, end: StreamOffset) -> None:
        self.confirmed.append(end.snapshot_id)


@dataclass
class Task:
    fails: bool

    def write(self, rows: Iterable[Any], number: int, query_id: str, batch: int) -> tuple[str, int]:
        if self.fails:
            raise ValueError("the task failed")
        return query_id, batch


LANDED: list[tuple[str, int]] = []
ABORTED: list[tuple[str, int]] = []


@dataclass
class Sink:
    """Keeps what was committed; more than once what came more than once."""

    fails: str = ""

    def task(self) -> Task:
        return Task(self.fails == "task")

    def commit(self, rows: list[tuple[str, int]], batch: int) -> None:
        LANDED.extend(rows)
        if self.fails == "commit":
            raise ValueError("the commit failed")

    def sweep(self, rows: list[tuple[str, int]]) -> None: ...

    def abort(self, rows: list[tuple[str, int]]) -> None:
        ABORTED.extend(rows)


@pytest.fixture(autouse=True)
def _none_landed() -> None:
    LANDED.clear()
    ABORTED.clear()


def opened(columns: pa.Schema) -> Any:
    assert columns.names == ["n"]
    return Sink()


def engine(path: Path, source: Numbers, sink: Sink | None = None) -> MiniEngine:
    given: Any = source

    def sunk(columns: pa.Schema) -> Any:
        return sink or opened(columns)

    return MiniEngine(Checkpoint(path), lambda: given, sunk)


def test_a_run_does_every_step_of_every_batch(tmp_path: Path) -> None:
    batch = [Step.ADMITTED, Step.LOGGED, Step.CONFIRMED, Step.PLANNED, Step.WRITTEN, Step.COMMITTED, Step.DONE]
    first = [step for step in batch if step is not Step.CONFIRMED]
    assert list(engine(tmp_path, Numbers()).steps()) == [Step.OPENED, *first, *batch, *batch, Step.ADMITTED]


def test_a_batch_is_confirmed_to_the_source_when_the_next_one_began(tmp_path: Path) -> None:
    source = Numbers()
    engine(tmp_path, source).run()
    assert source.confirmed == [1, 2]


def test_the_first_offset_is_asked_for_twice(tmp_path: Path) -> None:
    source = Numbers()
    engine(tmp_path, source).run()
    assert source.firsts == 2


def test_a_first_batch_runs_even_when_there_is_nothing(tmp_path: Path) -> None:
    engine(tmp_path, Numbers(head=0)).run()
    assert (Checkpoint(tmp_path).begun(), Checkpoint(tmp_path).ended()) == (0, 0)


@pytest.mark.parametrize("died_after", range(1, 21))
def test_after_a_death_the_batch_that_had_begun_runs_again(died_after: int, tmp_path: Path) -> None:
    steps = engine(tmp_path, Numbers()).steps()
    done = [next(steps) for _ in range(died_after)]
    begun, ended = Checkpoint(tmp_path).begun(), Checkpoint(tmp_path).ended()
    assert begun == (None if Step.LOGGED not in done else done.count(Step.LOGGED) - 1)
    landed = len(LANDED)
    source = Numbers(head=3)
    again = engine(tmp_path, source).steps()
    assert next(again) is Step.OPENED
    if begun is not None and begun != ended:
        assert next(again) is Step.PLANNED
        assert source.range == (begun, begun + 1)
    for _ in again:
        pass
    batches = [batch for _, batch in LANDED]
    assert batches[landed:] == list(range(0 if ended is None else ended + 1, 3))
    assert len({query for query, _ in LANDED}) == 1
    assert (Checkpoint(tmp_path).begun(), Checkpoint(tmp_path).ended()) == (2, 2)


@pytest.mark.parametrize("what", ["task", "commit"])
def test_what_failed_runs_again(what: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"the {what} failed"):
        engine(tmp_path, Numbers(), Sink(what)).run()
    assert (Checkpoint(tmp_path).begun(), Checkpoint(tmp_path).ended()) == (0, None)
    engine(tmp_path, Numbers()).run()
    assert [batch for _, batch in LANDED] == ([0] if what == "commit" else []) + [0, 1, 2]


def test_two_runs_of_one_query_notice_each_other(tmp_path: Path) -> None:
    one, two = engine(tmp_path, Numbers()).steps(), engine(tmp_path, Numbers()).steps()
    for steps in (one, two):
        assert [next(steps), next(steps)] == [Step.OPENED, Step.ADMITTED]
    assert next(one) is Step.LOGGED
    with pytest.raises(FileExistsError, match="two runs of one query"):
        next(two)


def test_a_source_stands_still_while_another_one_goes_on(tmp_path: Path) -> None:
    slow, fast = Numbers(head=1), Numbers(head=3)
    given: Any = [slow, fast]
    checkpoint = Checkpoint(tmp_path)
    MiniEngine(checkpoint, lambda: given, opened).run()
    assert (slow.plans, fast.plans) == ([(0, 1)], [(0, 1), (1, 2), (2, 3)])
    ends = [[checkpoint.offset(batch, source).snapshot_id for source in (0, 1)] for batch in range(3)]
    assert ends == [[1, 1], [1, 2], [1, 3]]
    assert (slow.confirmed, fast.confirmed) == ([1, 1], [1, 2])
    assert [len(checkpoint.kept(batch)) for batch in range(3)] == [2, 2, 2]


def test_a_join_gets_the_rows_of_every_source_of_a_batch(tmp_path: Path) -> None:
    sides: list[int] = []

    def join(tables: Sequence[pa.Table]) -> pa.Table:
        sides.append(len(tables))
        return pa.table({"n": [1, 2, 3]})

    given: Any = [Numbers(head=1), Numbers(head=2)]
    MiniEngine(Checkpoint(tmp_path), lambda: given, opened, join=join).run()
    assert sides == [2, 2, 2]  # for the columns, and for each batch


def test_a_sink_is_told_what_spark_tells_it(tmp_path: Path) -> None:
    assert Checkpoint(tmp_path).spark_options() == {"checkpointlocation": str(tmp_path)}
    assert Checkpoint(tmp_path).spark_options("etl")["queryname"] == "etl"


def test_a_file_that_was_not_finished_is_no_batch(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / ".0.d3b07384.tmp").write_text("v1")
    assert Checkpoint(tmp_path).begun() is None
