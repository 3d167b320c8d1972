"""Deletes, updates, appends and overwrites of one append table at once: every snapshot is what its commits make it."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import paimon_spark
from paimon_spark.engine.compaction.run import compact_branch
from paimon_spark.engine.row_level.job import in_process, plan_rows
from paimon_spark.errors import CommitConflictError
from paimon_spark.jobs.row_level.write import KEEPS, OLD_ROW_ID, commit_changes, plan_path_row_level
from paimon_spark.jobs.write.batch import plan_path_write
from paimon_spark.jobs.write.commit import WriteResult
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.options.write_request import ROW_LEVEL_BASE, ROW_LEVEL_COLUMNS, WriteMode
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.spark.row_level_write import row_level_writer
from tests.harness.clock import age_files

Rows: TypeAlias = "Counter[tuple[int, str]]"
Effect: TypeAlias = Callable[[Rows, dict[int, Rows]], Rows]
"""The rows before a commit, and those of every snapshot → the rows after it."""

PATIENCE = {"commit.max-retries": "300", "commit.min-retry-wait": "2 ms", "commit.max-retry-wait": "50 ms"}
KINDS = {
    "rewrite": {},
    "vectors": {"deletion-vectors.enabled": "true"},
    "vectors_of_buckets": {"bucket": "2", "bucket-key": "id", "deletion-vectors.enabled": "true"},
    "row_ids": {"row-tracking.enabled": "true"},
    "row_ids_vectors": {"row-tracking.enabled": "true", "deletion-vectors.enabled": "true"},
    "evolution": {
        "row-tracking.enabled": "true",
        "data-evolution.enabled": "true",
        "deletion-vectors.enabled": "true",
    },
}
PLACE = ["id", "v", "__paimon_file_path", "__paimon_row_index"]
IDS, STEPS, THREADS = 600, 9, 3


def rows_of(ids: list[int], tag: str) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([tag] * len(ids), pa.string())})


@dataclass
class Race:
    """One table, those who change it, and what each snapshot did."""

    path: str
    kind: str
    effects: dict[int, Effect] = field(default_factory=dict)
    errors: list[BaseException] = field(default_factory=list)

    def save(self, rows: pa.Table, mode: WriteMode = WriteMode.APPEND, **options: str) -> WriteResult:
        given = {"path": self.path, **options}
        job = plan_path_write(given, mode, rows.schema, lambda: row_type(rows.schema))
        return job.commit(job.write(rows.to_batches()))

    def run(self, seed: int) -> None:
        chance = random.Random(seed)
        actions = [self.append, self.append, self.delete, self.update, self.update, self.overwrite]
        if self.tracks_rows:
            actions = [self.append, self.append, self.delete, *3 * [self.update_in_place], self.compact]
            actions += [self.overwrite] if chance.random() < 0.3 else []
        try:
            for step in range(STEPS):
                try:
                    chance.choice(actions)(chance, f"{seed}-{step}")
                except CommitConflictError:
                    continue
        except BaseException as e:  # noqa: BLE001 - shown by the test
            self.errors.append(e)

    @property
    def tracks_rows(self) -> bool:
        return "row-tracking.enabled" in KINDS[self.kind]

    def landed(self, result: WriteResult, effect: Effect) -> None:
        if result.snapshot_id is not None:
            self.effects[result.snapshot_id] = effect

    def append(self, chance: random.Random, tag: str) -> None:
        rows = rows_of(chance.choices(range(IDS), k=8), tag)
        self.landed(self.save(rows), lambda before, _: before + counted(rows))

    def overwrite(self, chance: random.Random, tag: str) -> None:
        rows = rows_of(chance.choices(range(IDS), k=20), tag)
        self.landed(self.save(rows, WriteMode.OVERWRITE), lambda _, __: counted(rows))

    def delete(self, chance: random.Random, _: str) -> None:
        low = chance.randrange(IDS)
        handle = paimon_spark.load_table(self.path).handle
        predicate = parse_predicate(f"id >= {low} and id < {low + 150}", handle.schema.row_type, None)
        job = plan_rows(handle, predicate, updates=False)
        base = job.base
        assert base is not None
        result = commit_changes(handle, job.commit_user, in_process(job), job, "DELETE")

        def gone(before: Rows, known: dict[int, Rows]) -> Rows:
            return before - Counter({r: n for r, n in known[base.id].items() if low <= r[0] < low + 150})

        self.landed(result, gone)

    def update(self, chance: random.Random, tag: str) -> None:
        low = chance.randrange(IDS)
        table = paimon_spark.load_table(self.path)
        base = table.snapshots()[-1].id
        read = table.scan(columns=PLACE).to_arrow().to_pylist()
        old = [r for r in read if low <= r["id"] < low + 80]
        time.sleep(0.1 * chance.random())  # Spark reads before it plans the write, and others do not wait
        options = {"path": self.path, ROW_LEVEL_BASE.key: str(base)}
        work = plan_path_row_level(options, rows_of([1], "").schema, "UPDATE")
        places = {f.file_name: number for number, s in enumerate(work.deletes.splits) for f in s.files}
        dropped: dict[int, dict[str, Any]] = {}
        for name in {_file(r) for r in old}:
            if name not in places:
                raise CommitConflictError("as the Spark job says of a file that it does not know")
            positions = sorted(r["__paimon_row_index"] for r in old if _file(r) == name)
            dropped.setdefault(places[name], {})[name] = np.array(positions, np.int64)
        outcomes = [work.deletes.drop(number, files) for number, files in dropped.items()]
        new = rows_of([r["id"] for r in old], tag)
        result = work.commit(work.rows.write(new.to_batches(), 999, shares_buckets=True), outcomes)
        gone = Counter((r["id"], r["v"]) for r in old)

        def changed(before: Rows, _: dict[int, Rows]) -> Rows:
            assert gone <= before
            return before - gone + counted(new)

        self.landed(result, changed)

    def update_in_place(self, chance: random.Random, tag: str) -> None:
        """An UPDATE of `v` as the tasks of Spark run it: rows come with their places and their ids."""
        low = chance.randrange(IDS)
        table = paimon_spark.load_table(self.path)
        base = table.snapshots()[-1].id
        read = (
            table.scan(columns=[*PLACE, "_ROW_ID"])
            .to_arrow()
            .sort_by([(PLACE[2], "ascending"), (PLACE[3], "ascending")])
        )
        old = read.filter((pc.field("id") >= low) & (pc.field("id") < low + 200)).combine_chunks()
        if not old.num_rows:
            return
        time.sleep(0.1 * chance.random())
        sets = {ROW_LEVEL_COLUMNS.key: json.dumps(["v"])} if self.kind == "evolution" else {}
        options = {"path": self.path, ROW_LEVEL_BASE.key: str(base), **sets}
        work = plan_path_row_level(options, rows_of([1], "").schema, "UPDATE")
        new = old.set_column(1, "v", pa.array([tag] * old.num_rows, pa.string())).rename_columns(
            [*old.column_names[:-1], OLD_ROW_ID]
        )
        rows = new.append_column(KEEPS, pa.array([True] * old.num_rows))
        message = row_level_writer(work).write(iter(rows.to_batches()))
        result = work.commit(message.messages, message.outcomes)
        gone = counted(old)

        def changed(before: Rows, _: dict[int, Rows]) -> Rows:
            # With data evolution rows that were deleted meanwhile stay deleted.
            assert self.kind == "evolution" or gone <= before
            still = gone & before
            return before - still + Counter({(i, tag): n for i, n in _by_id(still).items()})

        self.landed(result, changed)

    def compact(self, chance: random.Random, _: str) -> None:
        result = compact_branch(paimon_spark.load_table(self.path).handle, full=True)
        for snapshot_id in result.snapshot_ids:
            self.effects[snapshot_id] = lambda before, _: before


def _by_id(rows: Rows) -> Counter[int]:
    out: Counter[int] = Counter()
    for (i, _), n in rows.items():
        out[i] += n
    return out


def _file(row: dict[str, Any]) -> str:
    return str(row["__paimon_file_path"]).rpartition("/")[2]


def counted(rows: pa.Table) -> Rows:
    return Counter((r["id"], r["v"]) for r in rows.to_pylist())


@pytest.mark.ci
@pytest.mark.parametrize("kind", KINDS)
def test_every_snapshot_is_what_its_commit_makes_of_the_one_before(kind: str, tmp_path: Path) -> None:
    race = Race(str(tmp_path / "t"), kind)
    first = rows_of(list(range(0, IDS, 20)), "first")
    race.save(first, WriteMode.APPEND, **KINDS[kind], **PATIENCE)
    threads = [threading.Thread(target=race.run, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not race.errors
    table = paimon_spark.load_table(race.path)
    known = {1: counted(first)}
    ids: dict[int, int] = {}
    for snapshot in table.snapshots()[1:]:
        known[snapshot.id] = race.effects[snapshot.id](known[snapshot.id - 1], known)
        assert counted(table.scan(columns=["id", "v"], version=snapshot.id).to_arrow()) == known[snapshot.id]
        if race.tracks_rows:  # updates change v alone, so a row id always has the same id
            found = table.scan(columns=["_ROW_ID", "id"], version=snapshot.id).to_arrow()
            now = dict(zip(found["_ROW_ID"].to_pylist(), found["id"].to_pylist(), strict=True))
            assert len(now) == found.num_rows
            ids = {**now, **ids}
            assert now.items() <= ids.items()
    assert len(known) > STEPS
    assert not list(tmp_path.rglob(".*.tmp"))
    age_files(tmp_path)
    assert not table.remove_orphan_files(datetime.now(UTC), dry_run=True).paths
