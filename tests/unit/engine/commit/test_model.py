"""Any sequence of commits, by two users on one table, against a dictionary of live files."""

from __future__ import annotations

import itertools
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from paimon_spark.engine.commit.overwrite import NamedPartitions, Overwritten, PresentPartitions, WholeTable
from paimon_spark.errors import CommitConflictError
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.manifest import files_of
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests, read_manifest_list
from paimon_spark.metadata.snapshots import latest_snapshot, list_snapshots
from paimon_spark.storage.urls import open_store
from tests.harness.commits import (
    KEYED_PARTITIONED,
    a_file,
    committer,
    compaction,
    files,
    make_table,
    manifest_names,
    message,
)
from tests.harness.search import examples

pytestmark = pytest.mark.slow

Place = tuple[int, int]
PLACES = st.tuples(st.sampled_from([1, 2, 3]), st.sampled_from([0, 1]))


class Commits(RuleBasedStateMachine):
    """The model: live files by (partition, bucket), and what every snapshot held."""

    def __init__(self) -> None:
        super().__init__()
        store, root = open_store(f"memory://{uuid4().hex}/t")
        self.table = make_table(
            store, root, KEYED_PARTITIONED,
            manifest__merge_min_count="3", manifest__target_file_size="3 kb",
            manifest__full_compaction_threshold_size="6 kb",
        )  # fmt: skip
        self.live: dict[Place, list[DataFileMeta]] = {}
        self.stale: list[tuple[Place, DataFileMeta]] = []
        self.history: dict[int, set[str]] = {}
        self.names = itertools.count()

    def _new(self, level: int = 0) -> DataFileMeta:
        n = next(self.names)
        return a_file(f"f{n}", keys=(10 * n, 10 * n + 9), rows=n % 7 + 1, level=level)

    def _done(self, result: Any) -> None:
        for snapshot_id in result.snapshot_ids:
            self.history[snapshot_id] = {f.file_name for found in self.live.values() for f in found}

    @rule(places=st.lists(PLACES, min_size=1, max_size=3, unique=True))
    def append(self, places: list[Place]) -> None:
        new = {place: self._new() for place in places}
        result = committer(self.table).commit([message(self.table, f, p=p, bucket=b) for (p, b), f in new.items()])
        for place, f in new.items():
            self.live.setdefault(place, []).append(f)
        self._done(result)

    @precondition(lambda self: any(self.live.values()))
    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        place = data.draw(st.sampled_from(sorted(p for p, found in self.live.items() if found)))
        old = self.live[place]
        new = [self._new(level=5)] if data.draw(st.booleans()) else []
        result = committer(self.table).commit([compaction(self.table, old, new, p=place[0], bucket=place[1])])
        self.stale += [(place, f) for f in old]
        self.live[place] = new
        self._done(result)

    @precondition(lambda self: any(self.live.values()))
    @rule(data=st.data())
    def rewrite(self, data: st.DataObject) -> None:
        place = data.draw(st.sampled_from(sorted(p for p, found in self.live.items() if found)))
        old, new = data.draw(st.sampled_from(self.live[place])), self._new()
        result = committer(self.table).commit([message(self.table, new, deleted=[old], p=place[0], bucket=place[1])])
        self.stale.append((place, old))
        self.live[place] = [*(f for f in self.live[place] if f is not old), new]
        self._done(result)

    @precondition(lambda self: self.stale)
    @rule(data=st.data())
    def delete_what_is_gone(self, data: st.DataObject) -> None:
        (p, b), old = data.draw(st.sampled_from(self.stale))
        before = latest_snapshot(self.table)
        try:
            committer(self.table, "late").commit([compaction(self.table, [old], [self._new(5)], p=p, bucket=b)])
        except CommitConflictError:
            assert latest_snapshot(self.table) == before
        else:
            raise AssertionError

    @rule(place=PLACES, kind=st.sampled_from(["whole", "named", "present"]))
    def overwrite(self, place: Place, kind: str) -> None:
        p, b = place
        replaced: dict[str, Overwritten] = {
            "whole": WholeTable(), "named": NamedPartitions(({"p": p},)), "present": PresentPartitions()
        }  # fmt: skip
        new = self._new()
        result = committer(self.table).overwrite([message(self.table, new, p=p, bucket=b)], partitions=replaced[kind])
        gone = [at for at in self.live if kind == "whole" or at[0] == p]
        self.stale += [(at, f) for at in gone for f in self.live.pop(at)]
        self.live[place] = [new._replace(level=5)]
        self._done(result)

    @rule(p=st.sampled_from([1, 2, 3]))
    def drop_partition(self, p: int) -> None:
        result = committer(self.table).drop_partitions([{"p": str(p)}])
        for at in [at for at in self.live if at[0] == p]:
            self.stale += [(at, f) for f in self.live.pop(at)]
        self._done(result)

    @invariant()
    def the_table_holds_the_live_files(self) -> None:
        wanted = {f.file_name: f for found in self.live.values() for f in found}
        assert files(self.table) == wanted
        head = latest_snapshot(self.table)
        assert head is None or head.total_record_count == sum(f.row_count for f in wanted.values())

    def teardown(self) -> None:
        snapshots = list_snapshots(self.table)
        assert [s.id for s in snapshots] == sorted(self.history)
        needed: set[str] = set()
        for s in snapshots:
            live = live_entries(self.table, data_manifests(self.table, s))
            assert {f.file_name for f in files_of(live)} == self.history[s.id]
            needed |= _needed(self, s)
        assert manifest_names(self.table) == needed


def _needed(machine: Commits, snapshot: Snapshot) -> set[str]:
    lists = [snapshot.base_manifest_list, snapshot.delta_manifest_list]
    return set(lists) | {m.file_name for name in lists for m in read_manifest_list(machine.table, name)}


TestCommits = Commits.TestCase
TestCommits.settings = settings(max_examples=examples(15), stateful_step_count=20, deadline=None)
