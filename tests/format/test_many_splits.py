"""The plan of a large table, whose splits are made when they are asked for, equals that of a small one."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

import paimon_spark
from paimon_spark.engine.scan import splits as module
from paimon_spark.engine.scan.plan import Plan, plan_batch
from paimon_spark.engine.scan.query import Reason, ScanQuery
from paimon_spark.engine.scan.splits import ManySplits, totals_of
from paimon_spark.engine.tasks import DataSplit
from paimon_spark.jobs.read.scan import Scan
from paimon_spark.metadata.manifests import CACHE
from tests.harness.golden import GoldenRead, golden_reads
from tests.harness.planned import appended
from tests.harness.table_builder import File

READS = [read for read in golden_reads() if read.columns is None]
TABLES = {path: paimon_spark.load_table(str(path)) for path in sorted({r.path for r in READS})}
KEYED = [path for path, table in TABLES.items() if table.schema.primary_keys and len(table.snapshots()) > 1]


def planned(scan: Scan, together: int, monkeypatch: pytest.MonkeyPatch) -> Plan:
    CACHE.clear()
    monkeypatch.setattr(module, "_TOGETHER", together)
    return scan.plan()


def check_alike(many: Sequence[DataSplit], few: Sequence[DataSplit]) -> None:
    assert isinstance(many, ManySplits)
    assert isinstance(few, tuple)
    assert (len(many), tuple(many)) == (len(few), few)
    assert [many[i] for i in range(-len(few), len(few))] == [*few, *few]
    assert [many[:2], many[1:], many[::-1], many[5:3]] == [few[:2], few[1:], few[::-1], ()]
    assert pickle.loads(pickle.dumps(many)) == few
    assert totals_of(many) == totals_of(few)
    assert many.nbytes > 0
    with pytest.raises(IndexError):
        many[len(few)]


@pytest.mark.parametrize("read", READS, ids=str)
def test_a_snapshot_of_every_kind_of_table(read: GoldenRead, monkeypatch: pytest.MonkeyPatch) -> None:
    table = paimon_spark.load_table(str(read.path), **read.options)
    few = planned(table.scan(), 1_000_000, monkeypatch)
    many = planned(table.scan(), 1, monkeypatch)
    if isinstance(many.splits, ManySplits):
        check_alike(many.splits, few.splits)
    else:  # not more than one file, or made of two plans
        assert many.splits == few.splits
    assert str(many) == str(few)
    assert (many.size_bytes, many.row_count) == (few.size_bytes, few.row_count)


@pytest.mark.ci
def test_plans_of_golden_tables_are_large_and_of_several_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    modes: set[str] = set()
    for read in READS:
        plan = planned(paimon_spark.load_table(str(read.path), **read.options).scan(), 1, monkeypatch)
        if isinstance(plan.splits, ManySplits):
            modes |= {mode.value for mode in plan.splits.totals.modes}
            if any(s.deletions for s in plan.splits):
                modes.add("deletions")
    assert {"raw", "merge", "evolved", "deletions"} <= modes


@pytest.mark.parametrize("path", KEYED, ids=lambda path: path.parent.name)
def test_differences_of_two_states(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = TABLES[path]
    ids = [s.id for s in table.snapshots()]
    options = {"incremental-between": f"{ids[0]},{ids[-1]}", "incremental-between-scan-mode": "diff"}
    few = planned(table.scan(**options), 1_000_000, monkeypatch)
    assert planned(table.scan(**options), 1, monkeypatch).splits == few.splits


def test_a_limit_keeps_the_first_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    t = appended(**{"source.split.target-size": "1 b"})
    t.commit(*(File(f"f{i}", rows=10, sequence=(i, i)) for i in range(9)))
    monkeypatch.setattr(module, "_TOGETHER", 1)
    CACHE.clear()
    plan = plan_batch(t.open(), t.last, ScanQuery(limit=25))
    assert [f.file_name for s in plan.splits for f in s.files] == ["f0", "f1", "f2"]
    assert [(s.reason, s.files) for s in plan.report.skipped] == [(Reason.LIMIT, 6)]


@pytest.mark.parametrize("seed", range(200))
def test_bins_are_as_full_as_they_can_be(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    t = appended(**{"source.split.target-size": "100 b", "source.split.open-file-cost": f"{random.choice([1, 30])} b"})
    sizes = [random.choice([1, 10, 40, 99, 100, 101, 300]) for _ in range(random.randint(1, 30))]
    t.commit(*(File(f"f{i}", size=size, sequence=(i, i)) for i, size in enumerate(sizes)))
    monkeypatch.setattr(module, "_TOGETHER", 7)
    CACHE.clear()
    handle = t.open()
    bins = [[f.file_size for f in s.files] for s in plan_batch(handle, t.last, ScanQuery()).splits]
    expected: list[list[int]] = []
    cost = handle.options.split_open_cost_bytes
    for size in sizes:
        if expected and sum(max(s, cost) for s in (*expected[-1], size)) <= 100:
            expected[-1].append(size)
        else:
            expected.append([size])
    assert bins == expected
