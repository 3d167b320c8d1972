"""Two sources of a query that follow a job: always at the same batch, whatever is recorded when they are asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import LineageError
from paimon_spark.lineage.asking.following import FollowedBatch, Follower
from paimon_spark.lineage.asking.table_history import TableHistory
from paimon_spark.lineage.index.job_registry import Registration, register_query
from paimon_spark.lineage.index.provenance import Provenance, SourceRange, TableRef
from paimon_spark.lineage.index.tables import SINK_JOB, SINK_SNAPSHOT, SOURCE_JOB, SOURCE_SNAPSHOT, rows_of
from paimon_spark.lineage.index.warehouse import WarehouseTable
from paimon_spark.streaming.offset import Phase, StreamOffset
from tests.harness.lineage_index import MemoryIndex

T2, T3, T5 = TableRef("db", "t2"), TableRef("db", "t3"), TableRef("db", "t5")


def new() -> StreamOffset:
    return StreamOffset("t", "main", None, begins_with=Phase.STATE)


def moved(start: StreamOffset, batch: FollowedBatch | None) -> StreamOffset:
    """What `StreamSource.next_up_to` makes of a batch."""
    if batch is None:
        return start
    snapshot_id = max(batch.snapshot_id, start.snapshot_id or 0) or start.snapshot_id
    return StreamOffset("t", "main", snapshot_id, begins_with=start.begins_with, barrier=batch.barrier)


@dataclass
class World:
    """The job `etl 1` that reads t2 and t3, and a query `etl 2` that follows it; time passes with every look at it."""

    index: MemoryIndex = field(default_factory=lambda: MemoryIndex().switch_on())
    ends: dict[int, tuple[int, int]] = field(default_factory=dict)
    now: int = 0

    def clock_s(self) -> float:
        return self.tick() * 10.0

    def tick(self) -> int:
        self.now += 1
        return self.now

    def batch(self, barrier: int, t2: int, t3: int) -> None:
        """A batch of the job, recorded as its sink does it."""
        self.ends[barrier] = t2, t3
        ranges = tuple(SourceRange(ref, last=last) for ref, last in ((T2, t2), (T3, t3)))
        self.index.upsert(rows_of(Provenance("etl 1", barrier, ranges), T5, barrier + 1))

    def source(self, ref: TableRef, job: str = "etl 1", name: str = "etl 2") -> Follower:
        home = WarehouseTable(self.index.warehouse, ref)
        return Follower(home, self.index, job, name, self.tick(), self.clock_s, self.tick)


def test_a_new_query_begins_at_the_newest_batch_and_then_takes_each() -> None:
    world = World()
    world.batch(0, 1, 0)
    world.batch(1, 4, 2)
    two, three = world.source(T2), world.source(T3)
    assert (two.next_batch(new()), three.next_batch(new())) == ((1, 4), (1, 2))
    at_two, at_three = moved(new(), FollowedBatch(1, 4)), moved(new(), FollowedBatch(1, 2))
    assert two.next_batch(at_two) is None and three.next_batch(at_three) is None
    world.batch(2, 4, 3)
    world.batch(5, 9, 3)
    assert (two.next_batch(at_two), three.next_batch(at_three)) == ((2, 4), (2, 3))
    at_two, at_three = moved(at_two, FollowedBatch(2, 4)), moved(at_three, FollowedBatch(2, 3))
    assert (two.next_batch(at_two), three.next_batch(at_three)) == ((5, 9), (5, 3))


def test_what_is_recorded_between_two_questions_is_left_to_the_next_batch() -> None:
    world = World()
    world.batch(0, 1, 1)
    two, three = world.source(T2), world.source(T3)
    at = [moved(new(), two.next_batch(new())), moved(new(), three.next_batch(new()))]
    assert two.next_batch(at[0]) is None
    world.batch(1, 2, 2)
    assert three.next_batch(at[1]) is None  # t2 was asked before
    assert (two.next_batch(at[0]), three.next_batch(at[1])) == ((1, 2), (1, 2))


@pytest.mark.ci
@given(st.data())
def test_sources_are_in_step_over_restarts_in_any_order(data: st.DataObject) -> None:
    """Batches are recorded before any question; the order of sources may change with each run, drivers die anywhere."""
    world = World()
    world.batch(0, 1, 1)
    at = {T2: new(), T3: new()}
    seen: list[int] = []
    for _ in range(data.draw(st.integers(1, 4), "runs")):
        order = data.draw(st.permutations([T2, T3]), "order")
        sources = {ref: world.source(ref) for ref in order}
        for _ in range(data.draw(st.integers(1, 6), "triggers")):
            ends = {}
            for ref in order:
                for _ in range(data.draw(st.integers(0, 2), "recorded now")):
                    t2, t3 = world.ends[max(world.ends)]
                    steps = data.draw(st.tuples(st.integers(0, 2), st.integers(0, 2)), "steps")
                    world.batch(max(world.ends) + 1, t2 + steps[0], t3 + steps[1])
                ends[ref] = moved(at[ref], sources[ref].next_batch(at[ref]))
            if data.draw(st.booleans(), "driver dies before the offsets are written"):
                break
            assert ends[T2].barrier == ends[T3].barrier
            assert all((e.snapshot_id or 0) >= (at[ref].snapshot_id or 0) for ref, e in ends.items())
            barrier = ends[T2].barrier
            if barrier is not None:
                assert (ends[T2].snapshot_id, ends[T3].snapshot_id) == world.ends[barrier]
                seen += [barrier] if barrier not in seen else []
            at = ends
    assert seen == list(range(seen[0], seen[0] + len(seen))) if seen else True


def test_a_batch_of_the_job_that_ended_within_a_snapshot_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    for barrier in range(3):
        world.batch(barrier, barrier + 1, barrier + 1)

    def provenance(_self: object, _node: object, snapshot_id: int) -> Provenance:
        barrier = snapshot_id - 1
        within = 9 if barrier == 1 else None
        return Provenance("etl 1", barrier, (SourceRange(T2, last=barrier + 1, within=within),))

    monkeypatch.setattr(TableHistory, "provenance", provenance)
    at = StreamOffset("t", "main", 1, barrier=0)
    assert world.source(T2).next_batch(at) == (2, 3)


def test_a_batch_within_a_snapshot_is_passed_over_before_the_row_of_its_sink_is_written() -> None:
    world = World()
    world.batch(0, 1, 1)
    within = Provenance("etl 1", 1, (SourceRange(T2, last=1, within=2),))
    world.index.commit(T5, Provenance("etl 1", 0, (SourceRange(T2, last=1),)))
    world.index.commit(T5, within)
    rows = rows_of(within, T5, 2)
    del rows[SINK_SNAPSHOT.name]  # written after the others
    world.index.upsert(rows)
    at = StreamOffset("t", "main", 1, barrier=0)
    assert world.source(T2).next_batch(at) is None
    world.index.upsert(rows_of(Provenance("etl 1", 2, (SourceRange(T2, last=2),)), None, None))  # makes no snapshot
    assert world.source(T2).next_batch(at) == (2, 2)


def test_a_query_that_is_further_than_the_job_waits_for_it() -> None:
    world = World()
    world.batch(0, 2, 1)
    world.batch(1, 3, 1)
    source = world.source(T2)
    ahead = StreamOffset("t", "main", 5)  # its checkpoint is from before it followed
    assert source.next_batch(ahead) is None
    world.batch(2, 5, 2)
    world.batch(3, 6, 2)
    assert source.next_batch(ahead) == (2, 5)


def test_a_query_that_ends_takes_what_was_there_when_it_began() -> None:
    world = World()
    world.batch(0, 1, 1)
    world.batch(1, 2, 2)
    two, three = world.source(T2), world.source(T3)
    two.stop_at_newest()
    three.stop_at_newest()
    world.batch(2, 3, 3)
    assert (two.next_batch(new()), three.next_batch(new())) == ((1, 2), (1, 2))
    at = StreamOffset("t", "main", 2, barrier=1)
    assert two.next_batch(at) is None and three.next_batch(at) is None


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda w: w.source(T2, "etl one"), r"'etl one': no such job is recorded .*there are 'etl 1'.*start it first"),
        (lambda w: w.source(TableRef("db", "t4")), r"does not read db\.t4; it reads db\.t2, db\.t3"),
        (lambda w: w.index.delete(SINK_JOB, "job = 'etl 1'"), "writes no table"),
        (lambda w: w.index.switch_on(data=False), r"lineage\.enable\(\)"),
    ],
)
def test_a_job_that_cannot_be_followed_is_refused(spoil: Callable[[World], object], says: str) -> None:
    world = World()
    world.batch(0, 1, 1)
    spoiled = spoil(world)
    source = spoiled if isinstance(spoiled, Follower) else world.source(T2)
    with pytest.raises(LineageError, match=says):
        source.next_batch(new())


def test_a_job_that_is_forgotten_while_it_is_followed_ends_the_query() -> None:
    world = World()
    world.batch(0, 1, 1)
    source = world.source(T2)
    at = moved(new(), source.next_batch(new()))
    world.index.delete(SOURCE_JOB, "job = 'etl 1'"), world.index.delete(SINK_SNAPSHOT, "job = 'etl 1'")
    source.clock_s = lambda: 1e9  # it is looked up once a minute
    with pytest.raises(LineageError, match="no such job"):
        source.next_batch(at)


def test_a_job_that_is_started_again_with_a_new_checkpoint_ends_the_query() -> None:
    world = World()
    world.batch(7, 1, 1)
    source = world.source(T2)
    at = moved(new(), source.next_batch(new()))
    for table in (SOURCE_SNAPSHOT, SINK_SNAPSHOT):
        world.index.delete(table, "job = 'etl 1'")
    world.batch(0, 1, 1)
    says = r"followed the job up to batch 7, and the newest that is recorded is 0, .* new checkpoint too"
    with pytest.raises(LineageError, match=says):
        world.source(T2).next_batch(at)
    source.clock_s = lambda: 1e9
    with pytest.raises(LineageError, match=says):
        source.next_batch(at)


def test_a_job_that_has_ended_is_waited_for_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.batch(0, 1, 1)
    register_query(world.index.warehouse, "q", Registration("etl 1", ended_ms=5))
    source = world.source(T2)
    at = moved(new(), source.next_batch(new()))
    source.clock_s = lambda: 1e9
    assert source.next_batch(at) is None
    assert "job 'etl 1' has ended; query 'etl 2', which follows it, waits until it runs again" in caplog.text
    world.batch(1, 2, 2)
    source.clock_s = lambda: 2e9
    assert source.next_batch(at) == (1, 2)


def test_two_queries_of_one_name_are_told_apart() -> None:
    world = World()
    world.batch(0, 1, 1)
    first = world.source(T2)
    at = moved(new(), first.next_batch(new()))
    world.source(T2).next_batch(at)
    with pytest.raises(LineageError, match=r"another streaming query with lineage\.job = 'etl 2'"):
        first.next_batch(at)


def test_a_source_does_not_take_the_batch_of_another_query_of_its_name() -> None:
    world = World()
    world.batch(0, 1, 1)
    two, three = world.source(T2), world.source(T3)
    at = [moved(new(), two.next_batch(new())), moved(new(), three.next_batch(new()))]
    world.batch(1, 2, 2)
    assert two.next_batch(at[0]) == (1, 2)
    world.batch(2, 3, 3)
    world.source(T2).next_batch(moved(at[0], FollowedBatch(1, 2)))  # of the other query
    with pytest.raises(LineageError, match=r"another streaming query with lineage\.job = 'etl 2'"):
        three.next_batch(at[1])


def test_the_file_of_a_query_that_is_lost_is_written_again() -> None:
    world = World()
    world.batch(0, 1, 1)
    two, three = world.source(T2), world.source(T3)
    at = [moved(new(), two.next_batch(new())), moved(new(), three.next_batch(new()))]
    world.index.warehouse.store.delete_tree(f"{world.index.warehouse.lineage_dir}/follow")
    assert three.next_batch(at[1]) is None
    world.batch(1, 2, 2)
    assert (two.next_batch(at[0]), three.next_batch(at[1])) == ((1, 2), (1, 2))
