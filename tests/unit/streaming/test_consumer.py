"""Consumers of streams keep the snapshots that are not yet read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from paimon_spark.errors import CorruptFileError, HistoryChangedError, InvalidInputError, SnapshotExpiredError
from paimon_spark.maintenance.consumers import Consumer, LastRead, find_consumer
from paimon_spark.maintenance.expiry import Limits, expire_snapshots
from paimon_spark.metadata.journal.lock import Owner
from paimon_spark.options.stream_read import ReadLimits
from paimon_spark.streaming.offset import Part, Phase, StreamOffset
from paimon_spark.streaming.start import needed
from tests.harness.commits import a_file, committer, message
from tests.harness.history import History
from tests.harness.streams import names, stream, table_of

ONE = Limits(retain_max=1)


def at(snapshot_id: int | None, part: Part | None = None, begins_with: Phase = Phase.CHANGES) -> StreamOffset:
    return StreamOffset("t", "main", snapshot_id, "m", 1, part, begins_with)


def file_of(history: History, branch: str = "main") -> dict[str, object]:
    layout = history.on(branch).layout
    found: dict[str, object] = json.loads(history.store.read(f"{layout.consumer_dir}/consumer-c"))
    found.pop("last", None)
    return found


@pytest.mark.parametrize(
    ("offset", "next_snapshot", "in_state"),
    [
        (at(7), 8, False),
        (at(0), 1, False),
        (at(None), 1, False),
        (at(None, begins_with=Phase.STATE), 1, True),
        (at(7, Part(Phase.STATE, 0, 0, "")), 7, True),
        (at(7, Part(Phase.STATE, 3, 5, "d")), 7, True),
        (at(7, Part(Phase.CHANGES, 3, 5, "d")), 7, False),
    ],
)
def test_a_consumer_needs_what_is_not_wholly_read(offset: StreamOffset, next_snapshot: int, in_state: bool) -> None:
    found = needed("c", offset)
    assert replace(found, last=None) == Consumer("c", next_snapshot, in_state)
    assert found.last == (None if not offset.snapshot_id else LastRead(7, "m", 1))


@pytest.mark.parametrize(
    ("offset", "consumer"),
    [
        (at(7), Consumer("c", 7, has_read=True)),
        (at(0), Consumer("c", 1)),
        (at(None, begins_with=Phase.STATE), Consumer("c", 1, in_state=True)),
        (at(7, Part(Phase.STATE, 3, 5, "d")), Consumer("c", 7, in_state=True)),
        (at(7, Part(Phase.CHANGES, 3, 5, "d")), Consumer("c", 6, has_read=True)),
        (at(1, Part(Phase.CHANGES, 3, 5, "d")), Consumer("c", 1)),
    ],
)
def test_a_consumer_that_compares_snapshots_needs_the_one_before_too(offset: StreamOffset, consumer: Consumer) -> None:
    assert replace(needed("c", offset, compares=True), last=None) == consumer


@pytest.mark.parametrize("expires", [False, True])
def test_a_consumer_of_a_history_that_is_gone_begins_no_query(expires: bool) -> None:
    history = History()
    history.commits(5)
    source = stream(history.on(), scan__snapshot_id="1", consumer_id="c")
    source.committed(source.next(source.first()))
    assert stream(history.on(), consumer_id="c").first().snapshot_id == 5
    table_of(history).rollback_to(3)
    with pytest.raises(HistoryChangedError, match="continues with snapshot 6"):
        stream(history.on(), consumer_id="c").first()
    made = [history.commit(), history.commit(overwrite=True), history.commit()]
    if expires:
        for i in range(1, 6):
            history.expire(i)
    with pytest.raises(HistoryChangedError, match=r"snapshot [56] (is not|was not made on) the one that it has read"):
        stream(history.on(), consumer_id="c").first()
    table_of(history).reset_consumer("c", next_snapshot=made[-1].id)
    assert stream(history.on(), consumer_id="c").first().snapshot_id == made[-2].id


def test_a_consumer_of_another_engine_is_believed() -> None:
    history = History()
    history.commits(5)
    history.store.write(f"{history.on().layout.consumer_dir}/consumer-c", b'{"nextSnapshot": 4}')
    assert stream(history.on(), consumer_id="c").first().snapshot_id == 3


@pytest.mark.parametrize("mode", ["latest", "latest-full"])
def test_a_consumer_holds_snapshots_from_the_first_moment(mode: str) -> None:
    history = History()
    history.commits(3)
    source = stream(history.on(), scan__mode=mode, consumer_id="c")
    start = source.first()
    history.commits(2)
    expire_snapshots(history.on(), ONE)
    assert history.ids() == ([3, 4, 5] if mode == "latest-full" else [4, 5])
    files: list[str] = []
    while (end := source.next(start)) != start:
        files += names(source, start, end)
        start = end
    assert files == [f"f{n}" for n in range(4 if mode == "latest" else 1, 6)]


def test_a_consumer_goes_on_only_past_what_was_committed() -> None:
    history = History()
    history.commits(1)
    source = stream(history.on(), scan__snapshot_id="1", consumer_id="c")
    start = source.first()
    assert file_of(history) == {"nextSnapshot": 1}
    history.commits(2)
    end = source.next(start)
    source.plan(start, end)
    assert file_of(history) == {"nextSnapshot": 1}
    source.committed(end)
    assert file_of(history) == {"nextSnapshot": 4}
    expire_snapshots(history.on(), ONE)
    assert history.ids() == [3]
    assert source.next(end) == end


def test_a_snapshot_read_in_part_is_held() -> None:
    history = History()
    handle = history.on()
    committer(handle).commit([message(handle, *(a_file(f"g{n}") for n in range(4)))])
    history.commit()
    source = stream(handle, scan__snapshot_id="1", consumer_id="c")
    start = source.first()
    end = source.next(start, ReadLimits(max_files=2))
    source.committed(end)
    assert end.part is not None and file_of(history) == {"nextSnapshot": 1}
    expire_snapshots(handle, ONE)
    rest = source.next(end, ReadLimits(max_files=3))
    assert names(source, end, rest) == ["g2", "g3", "f1"]


def test_a_state_that_was_not_read_is_read_by_a_query_that_begins_again() -> None:
    history = History()
    history.commits(2)
    died = stream(history.on(), consumer_id="c").first()
    assert file_of(history) == {"nextSnapshot": 2, "inState": True}
    history.commit()
    source = stream(history.on(), consumer_id="c")
    start = source.first()
    assert died.part == start.part and start.snapshot_id == 3
    end = source.next(start)
    assert names(source, start, end) == ["f1", "f2", "f3"]
    source.committed(end)
    assert file_of(history) == {"nextSnapshot": 4}
    history.commit()
    later = stream(history.on(), consumer_id="c")
    assert names(later, later.first(), later.next(later.first())) == ["f4"]


def test_what_the_first_answer_needs_is_held_when_a_beginning_is_asked_for_again() -> None:
    history = History()
    history.commits(2)
    first = stream(history.on(), consumer_id="c").first()
    end = stream(history.on(), consumer_id="c").next(first)
    history.commits(2)
    again = stream(history.on(), consumer_id="c")
    assert again.first().snapshot_id == 4
    expire_snapshots(history.on(), ONE)
    assert names(again, first, end) == ["f1", "f2"]
    again.committed(end)
    assert file_of(history) == {"nextSnapshot": 3}


def test_a_state_of_a_branch_that_was_empty_is_read_by_a_query_that_begins_again() -> None:
    history = History()
    stream(history.on(), consumer_id="c").first()
    history.commits(2)
    assert stream(history.on(), consumer_id="c").first().part is not None


def test_a_start_that_expires_before_its_consumer_is_written_is_looked_for_anew() -> None:
    history = History()
    history.commits(3)
    source = stream(history.on(), consumer_id="c")
    write, done = history.store.write, list[Any]()

    def late(path: str, data: bytes) -> None:
        if path.endswith("consumer-c") and not done:
            history.commits(2)
            for i in (1, 2, 3):
                history.expire(i)
            done.append(path)
        write(path, data)

    object.__setattr__(history.store, "write", late)
    assert source.first().snapshot_id == 5
    assert file_of(history) == {"nextSnapshot": 5, "inState": True}


def test_a_start_that_has_expired_is_an_error_with_a_consumer_too() -> None:
    history = History()
    history.commits(3)
    history.expire(1)
    with pytest.raises(SnapshotExpiredError):
        stream(history.on(), scan__snapshot_id="1", consumer_id="c").first()


def test_an_expiry_that_does_not_know_of_a_new_consumer_is_waited_for() -> None:
    history = History()
    history.commits(3)
    intent = f"{history.root}/intent/intent"
    raw = {"version": 1, "kind": "expire-snapshots", "sinceMillis": 1, "owner": Owner.new().encode()}
    history.store.write(intent, json.dumps(raw).encode())
    waits: list[float] = []

    def expiry_goes_on(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            history.expire(1)
            history.expire(2)
            history.store.delete(intent)

    source = stream(history.on(), around={"sleep": expiry_goes_on}, scan__snapshot_id="2", consumer_id="c")
    with pytest.raises(SnapshotExpiredError):
        source.first()
    assert len(waits) == 3


class Clock:
    def __init__(self) -> None:
        self.now = 10**12

    def __call__(self) -> int:
        return self.now


def writes(history: History) -> int:
    return history.store.count(frozenset(("write",)), "consumer-c")


@pytest.mark.parametrize(("life", "interval_ms"), [("20 min", 300_000), ("10 d", 3_600_000), (None, 3_600_000)])
def test_a_consumer_that_has_nothing_to_read_does_not_expire(life: str | None, interval_ms: int) -> None:
    history = History(**({} if life is None else {"consumer__expiration_time": life}))
    history.commit()
    clock = Clock()
    source = stream(history.on(), around={"clock_ms": clock}, consumer_id="c", scan__mode="latest")
    start = source.first()
    history.store.arm(None)
    for _ in range(5):
        source.next(start)
        source.committed(start)
    assert writes(history) == 0
    clock.now += interval_ms
    source.next(start)
    assert writes(history) == 1
    source.next(start)
    assert writes(history) == 1
    clock.now += interval_ms
    source.committed(start)
    assert writes(history) == 2
    assert file_of(history) == {"nextSnapshot": 2}


def test_a_clock_that_is_put_back_lets_no_consumer_expire() -> None:
    history = History()
    history.commit()
    clock = Clock()
    source = stream(history.on(), around={"clock_ms": clock}, consumer_id="c", scan__mode="latest")
    start = source.first()
    history.store.arm(None)
    clock.now -= 86_400_000
    source.next(start)
    assert writes(history) == 1
    source.next(start)
    assert writes(history) == 1


def test_a_query_that_starts_again_takes_its_consumer_up_where_it_was() -> None:
    history = History()
    history.commits(5)
    source = stream(history.on(), scan__snapshot_id="1", consumer_id="c")
    start = source.first()
    end = source.next(start)
    # What Spark says of a batch comes when it builds the one after the next; died before.
    stream(history.on(), consumer_id="c").next(end)
    assert file_of(history) == {"nextSnapshot": 1}
    # Somebody cleared it, or it expired while the query stood still.
    table_of(history).clear_consumers()
    stream(history.on(), consumer_id="c").next(end)
    assert file_of(history) == {"nextSnapshot": 6}


def test_a_consumer_further_on_than_the_checkpoint_is_taken_back() -> None:
    history = History()
    history.commits(5)
    source = stream(history.on(), scan__snapshot_id="3", consumer_id="c")
    start = source.first()
    table_of(history).reset_consumer("c", next_snapshot=5)
    stream(history.on(), consumer_id="c").next(start)
    assert file_of(history) == {"nextSnapshot": 3}


def test_a_consumer_follows_main_to_another_directory() -> None:
    history = History()
    history.commits(2)
    source = stream(history.on(), scan__mode="latest", consumer_id="c")
    start = source.first()
    table_of(history).create_branch("next", snapshot_id=2)
    history.commit("next")
    table_of(history).replace_main("next")
    end = source.next(start)
    source.committed(end)
    assert file_of(history) == {"nextSnapshot": 4}
    assert history.on().layout.consumer_dir.endswith("branch/branch-next/consumer")


def test_without_a_consumer_nothing_is_written() -> None:
    history = History()
    history.commits(2)
    history.store.arm(None)
    source = stream(history.on())
    start = source.first()
    end = source.next(start)
    source.plan(start, end)
    source.committed(end)
    assert not {c.verb for c in history.store.calls} - {"read", "read_many", "list"}


def test_bad_names_and_bad_files_are_refused() -> None:
    history = History()
    history.commit()
    with pytest.raises(InvalidInputError, match="without a slash"):
        stream(history.on(), consumer_id="a/b")
    history.store.write(f"{history.on().layout.consumer_dir}/consumer-c", b"{}")
    source = stream(history.on(), scan__mode="latest", consumer_id="c")
    with pytest.raises(CorruptFileError, match="reset the consumer"):
        source.next(stream(history.on(), scan__mode="latest").first())
    assert find_consumer(history.on(), "other") is None
