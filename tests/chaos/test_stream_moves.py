"""Branches are moved between any two steps of a query: the rows are right, or the documented error says why not."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import pytest

from paimon_spark.errors import (
    BatchesLostError,
    BranchNotFoundError,
    HistoryChangedError,
    PaimonError,
)
from tests.harness.fault_points import FULL, SHARE, selected_points
from tests.harness.stream_tables import Move, Pair, rows

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800), pytest.mark.faults]

FOREIGN = 1000
"""The key of rows that others write to the sink."""
KEYED = {"keys": ("k",), "options": {"bucket": "1"}}
TABLES: dict[str, Pair] = {
    "append": Pair(warehouse=""),
    "keys": Pair(**KEYED, warehouse=""),  # type: ignore[arg-type]
    "input": Pair(("k",), {"bucket": "1", "changelog-producer": "input"}, warehouse=""),
}


@dataclass(frozen=True)
class Moved:
    """A move, and where the query reads and writes.

    Attributes:
        fails: what may come of it; nothing: the query has to go on.
        fails_restarted: what may come of it besides in another process, which knows less.
        to_end: what it must come to when it happens after everything was read and written.
        more: whether the source gets another row then, so that there is a batch to notice it.
    """

    act: Move
    from_branch: str = "main"
    to_branch: str = "main"
    fails: tuple[type[PaimonError], ...] = ()
    fails_restarted: tuple[type[PaimonError], ...] = ()
    to_end: type[PaimonError] | None = None
    more: bool = True


def source_rolled_back(pair: Pair) -> None:
    pair.table("src").rollback_to("snapshot.1")


def source_rolled_back_and_written(pair: Pair) -> None:
    source_rolled_back(pair)
    pair.table("src").write(rows((21, "new 2")))
    pair.table("src").write(rows((31, "new 3")))
    pair.table("src").write(rows((41, "new 4")))


def source_rolled_back_to_head(pair: Pair) -> None:
    pair.table("src").rollback_to("snapshot.3")


def source_merged(pair: Pair) -> None:
    pair.table("src").merge_branch("fix", if_main_moved="replace")


def source_replaced(pair: Pair) -> None:
    pair.table("src").replace_main("fix")


def source_deleted(pair: Pair) -> None:
    pair.table("src").delete_branch("fix")


def source_made_again(pair: Pair) -> None:
    source_deleted(pair)
    pair.table("src").create_branch("fix", tag="base")
    pair.table("src", "fix").write(rows((51, "again 2")))


def source_renamed(pair: Pair) -> None:
    pair.table("src").rename_branch("fix", "fixed")


def source_published(pair: Pair) -> None:
    pair.table("src").merge_branch("fix", if_main_moved="replace")


def sink_rolled_back(pair: Pair) -> None:
    pair.table("dst", pair.to_branch).rollback_to("snapshot.1")


def sink_rolled_back_by_one(pair: Pair) -> None:
    table = pair.table("dst", pair.to_branch)
    head = table.snapshots()[-1].id
    if head > 1:
        table.rollback_to(f"snapshot.{head - 1}")


def sink_rolled_back_and_written(pair: Pair) -> None:
    sink_rolled_back(pair)
    for _ in range(4):
        pair.table("dst", pair.to_branch).write(rows((FOREIGN, "others")))


def sink_merged(pair: Pair) -> None:
    if pair.to_branch != "out":
        pair.table("dst", "out").write(rows((FOREIGN, "others")))
    pair.table("dst").merge_branch("out", if_main_moved="replace")


def sink_replaced(pair: Pair) -> None:
    if pair.to_branch != "out":
        pair.table("dst", "out").write(rows((FOREIGN, "others")))
    pair.table("dst").replace_main("out")


def sink_deleted(pair: Pair) -> None:
    pair.table("dst").delete_branch("out")


def sink_made_again(pair: Pair) -> None:
    sink_deleted(pair)
    pair.table("dst").create_branch("out", tag="base")


def sink_compacted_and_expired(pair: Pair) -> None:
    table = pair.table("dst", pair.to_branch)
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=datetime.now(UTC))


CHANGED, LOST, GONE = HistoryChangedError, BatchesLostError, BranchNotFoundError
MOVES: dict[str, Moved] = {
    "source-rolled-back": Moved(source_rolled_back, fails=(CHANGED,), to_end=CHANGED, more=False),
    "source-rolled-back-and-written": Moved(source_rolled_back_and_written, fails=(CHANGED,), to_end=CHANGED),
    "source-rolled-back-to-head": Moved(source_rolled_back_to_head),
    "source-merged": Moved(source_merged, fails=(CHANGED,), to_end=CHANGED),
    "source-replaced": Moved(source_replaced, fails=(CHANGED,), to_end=CHANGED),
    "source-published": Moved(source_published, from_branch="fix"),
    "source-deleted": Moved(source_deleted, from_branch="fix", fails=(GONE,), to_end=GONE),
    "source-made-again": Moved(source_made_again, from_branch="fix", fails=(GONE, CHANGED), to_end=CHANGED),
    "source-renamed": Moved(source_renamed, from_branch="fix", fails=(GONE,), to_end=GONE),
    "sink-rolled-back": Moved(sink_rolled_back, fails=(LOST,), to_end=LOST),
    "sink-rolled-back-by-one": Moved(sink_rolled_back_by_one, fails=(LOST,), to_end=LOST),
    "sink-rolled-back-and-written": Moved(sink_rolled_back_and_written, fails=(LOST,), to_end=LOST),
    "sink-branch-rolled-back": Moved(sink_rolled_back, to_branch="out", fails=(LOST,), to_end=LOST),
    "sink-branch-merged": Moved(sink_merged, to_branch="out"),
    "sink-merged": Moved(sink_merged, fails=(LOST,), to_end=LOST),
    "sink-replaced": Moved(sink_replaced, fails=(LOST,), to_end=LOST),
    "sink-branch-replaces": Moved(sink_replaced, to_branch="out"),
    "sink-deleted": Moved(sink_deleted, to_branch="out", fails=(GONE,), to_end=GONE),
    "sink-made-again": Moved(sink_made_again, to_branch="out", fails=(LOST,), to_end=LOST),
    # Between the commit of a batch and Spark's note of it, only the snapshot says that it was made.
    "sink-expired": Moved(sink_compacted_and_expired, fails_restarted=(LOST,)),
}


@cache
def _template(table: str) -> Pair:
    pair = replace(TABLES[table], warehouse=f"memory://{uuid4().hex}/wh").make()
    source, sink = pair.table("src"), pair.table("dst")
    source.write(rows((11, "1"), (12, "1")))
    source.create_tag("base")
    source.create_branch("fix", tag="base")
    for branch in ("main", "fix"):
        for n in (2, 3):
            pair.table("src", branch).write(rows((10 * n + 1, f"{branch} {n}"), (11, f"{branch} {n}")))
    sink.write(rows((FOREIGN, "others")))
    sink.create_tag("base")
    sink.create_branch("out", tag="base")
    return pair


def a_pair(table: str, moved: Moved) -> Pair:
    """The tables of a run of its own."""
    read = {"read.stream.aligned": "true", "scan.snapshot-id": "1"}
    warehouse = f"memory://{uuid4().hex}/wh"
    pair = replace(
        TABLES[table], warehouse=warehouse, read=read, from_branch=moved.from_branch, to_branch=moved.to_branch
    )
    return pair.copy(_template(table))


def ours(pair: Pair) -> Counter[tuple[int, str]]:
    """What the query wrote."""
    return Counter({row: n for row, n in pair.written_rows().items() if row[0] != FOREIGN})


def outcome(pair: Pair, moved: Moved, at: int, restart: bool, checkpoint: Path) -> tuple[bool, PaimonError | None]:
    """Move after so many steps, go on, and start again until nothing changes. Whether there were so many, the error."""
    steps = pair.engine(checkpoint).steps()
    done = sum(1 for _ in zip(range(at), steps, strict=False))
    over = done < at
    moved.act(pair)
    if moved.more and (moved.act not in (source_deleted, source_renamed)):
        pair.table("src", pair.from_branch).write(rows((91, "more")))
    error: PaimonError | None = None
    for again in range(4):
        if again or restart:
            steps = pair.engine(checkpoint).steps()
        try:
            for _ in steps:
                pass
            error = None
        except PaimonError as e:
            error = e
    return over, error


@cache
def _steps(table: str, from_branch: str, to_branch: str) -> int:
    """The steps of a query when nothing moves."""
    pair = a_pair(table, Moved(source_renamed, from_branch, to_branch))
    with TemporaryDirectory() as folder:
        return sum(1 for _ in pair.engine(Path(folder) / "checkpoint").steps())


# All of them, or a share, when asked for; else each move on one table, after every thirteenth step.
CASES = [
    (m, t) for i, m in enumerate(MOVES) for j, t in enumerate(TABLES) if FULL or SHARE or (i - j) % len(TABLES) == 0
]


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize(("move", "table"), CASES)
def test_a_branch_moves_between_any_two_steps(move: str, table: str, restart: bool, tmp_path: Path) -> None:
    moved = MOVES[move]
    seen: Counter[str] = Counter()
    steps = _steps(table, moved.from_branch, moved.to_branch)
    turn = list(MOVES).index(move) + 6 * restart
    for at in (*selected_points(range(steps + 1), 13, turn), steps + 1):
        pair = a_pair(table, moved)
        checkpoint = tmp_path / str(at)
        over, error = outcome(pair, moved, at, restart, checkpoint)
        where = f"after {at} steps: {error!r}"
        assert over is (at > steps), where
        if error is None:
            assert ours(pair) == pair.read_rows(), where
            assert not over or moved.to_end is None, where
        else:
            assert type(error) in (*moved.fails, *(moved.fails_restarted if restart else ())), where
            if type(error) is not BranchNotFoundError:
                assert max(ours(pair).values(), default=0) <= 1, where
        seen[type(error).__name__] += 1
        if over:
            assert moved.to_end is None or type(error) is moved.to_end, where
        shutil.rmtree(checkpoint)
    print(move, table, dict(seen))
