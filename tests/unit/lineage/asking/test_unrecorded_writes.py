"""Snapshots that nothing tells the sources of: which they are, what they cost, and how answers name them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paimon_spark.errors import StorageError
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.lineage.asking.graph import Node
from paimon_spark.lineage.asking.unrecorded_writes import Unrecorded, find_unrecorded
from paimon_spark.lineage.index.job_registry import claim_name
from paimon_spark.lineage.index.provenance import JOB, Provenance, TableRef
from paimon_spark.lineage.index.tables import declare_source, read_settings, retract_source, rows_of
from tests.harness.lineage_index import MemoryIndex, ref_of

T, U = ref_of("db.t"), ref_of("db.u")
HOUR = 3_600_000


def index() -> MemoryIndex:
    return MemoryIndex().switch_on()


def ids(found: Unrecorded) -> dict[str, list[int]]:
    return {table.node.name: [s.id for s in table.snapshots] for table in found}


def test_what_brought_rows_in_and_says_nothing_is_named() -> None:
    made = index()
    made.commit(T, Provenance("j", 0))
    made.commit(T)
    made.commit(T, kind=CommitKind.COMPACT)
    made.commit(T, kind=CommitKind.ANALYZE)
    made.commit(T, kind=CommitKind.OVERWRITE)
    made.commit(T, properties={JOB: "of a later release"})
    made.commit(T, Provenance("k", 7, knows_sources=False))
    made.commit(U, Provenance("j", 1))
    found = find_unrecorded([made])
    assert ids(found) == {"db.t": [2, 5, 7]} and found.is_whole
    assert [(s.commit_user, s.job, s.time_ms) for s in found.tables[0].snapshots] == [
        ("user", None, 2000), ("user", None, 5000), ("user", "k", 7000),
    ]  # fmt: skip
    one, other = found.lines()
    assert one == (
        "sources unknown: db.t (2 snapshots, newest 5), written without recorded lineage; for rows from outside: "
        "catalog.lineage.declare_source('db.t')"
    )
    assert other == "not all sources known: db.t (snapshot 7), written by job k"


def test_many_tables_of_unknown_sources_are_one_short_line() -> None:
    made = index()
    for n in range(12):
        made.commit(ref_of(f"db.first_table_{n:02}"))
    (line,) = find_unrecorded([made]).lines()
    assert "db.first_table_01 (snapshot 1) and 10 more tables, written" in line and len(line) <= 220


def test_a_declared_source_has_no_unknown_sources_on_any_branch_until_it_is_retracted() -> None:
    made = index()
    for ref in (T, T.on_branch("fix"), U):
        made.commit(ref)
    declare_source(made, "db.t")
    declare_source(made, "db.t")
    assert ids(find_unrecorded([made])) == {"db.u": [1]} and read_settings(made).declared == {"db.t"}
    assert retract_source(made, "db.t") and not retract_source(made, "db.t")
    assert set(ids(find_unrecorded([made]))) == {"db.t", "db.t$branch_fix", "db.u"}


def test_what_brought_nothing_in_is_not() -> None:
    made = index()
    for n, change in enumerate(
        ({"operation": "DELETE"}, {"operation": "TRUNCATE"}, {"total_record_count": 0}, {"delta_record_count": 0})
    ):
        made.commit(T)
        made.histories[T][n] = replace(made.histories[T][n], **change)  # type: ignore[arg-type]
    assert not find_unrecorded([made]).tables


def test_only_some_tables_up_to_a_snapshot_and_only_since_a_moment() -> None:
    made = index()
    for n in range(4):
        made.commit(T, time_ms=n * HOUR)
        made.commit(U, time_ms=n * HOUR)
    url = made.warehouse.url
    assert ids(find_unrecorded([made], {Node(url, T): 2})) == {"db.t": [1, 2]}
    assert ids(find_unrecorded([made], {Node(url, T): 0})) == {}
    assert ids(find_unrecorded([made], since_ms=2 * HOUR)) == {"db.t": [3, 4], "db.u": [3, 4]}
    assert ids(find_unrecorded([made], since_ms=2 * HOUR + 1)) == {"db.t": [3, 4], "db.u": [3, 4]}  # clocks differ
    assert ids(find_unrecorded([made], besides=Node(url, T))) == {"db.u": [1, 2, 3, 4]}


def test_what_a_branch_has_of_main_is_mains() -> None:
    made, fix = index(), TableRef.of("db", "t", "fix")
    made.commit(T)
    made.histories[fix] = list(made.histories[T])
    made.commit(T)
    made.commit(fix)
    assert ids(find_unrecorded([made])) == {"db.t": [1, 2], "db.t$branch_fix": [2]}


def test_rows_of_other_engines_count_and_those_of_our_jobs_do_not() -> None:
    made = index()
    for _ in range(3):
        made.commit(T)
    made.upsert(rows_of(Provenance("flink", 0), T, 1))
    made.upsert(rows_of(Provenance("ours", 0), T, 2))  # its snapshot was rolled back, and 2 is another's by now
    claim_name(made.warehouse, "ours", None)
    assert ids(find_unrecorded([made])) == {"db.t": [2, 3]}


def test_where_tables_alone_are_recorded_those_that_jobs_write_are_not_named() -> None:
    made = MemoryIndex().switch_on(data=False)
    made.commit(T)
    made.commit(U)
    rows = rows_of(Provenance("j", 0), T, None)
    made.upsert(rows)
    assert ids(find_unrecorded([made])) == {"db.u": [1]}


def test_the_next_look_reads_what_is_new() -> None:
    made = index()
    for _ in range(300):
        made.commit(T)
    found = find_unrecorded([made])
    assert ids(found)["db.t"] == list(range(201, 301)) and not found.is_whole and made.snapshots_read <= 101
    assert "newest 100 of a table" in found.lines()[-1]
    read = made.snapshots_read
    made.commit(T)
    assert ids(find_unrecorded([made]))["db.t"][-1] == 301 and made.snapshots_read - read == 2
    made.roll_back(T, 299)
    made.commit(T, Provenance("j", 0))
    made.commit(T)
    assert ids(find_unrecorded([made]))["db.t"][-2:] == [299, 301]


def test_a_table_that_cannot_be_read_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    made = index()
    made.commit(T)
    made.commit(U)
    usual = made.snapshots

    def failing(ref: TableRef, after: int = 0):  # type: ignore[no-untyped-def]
        if ref == U:
            raise StorageError("no")
        return usual(ref, after)

    monkeypatch.setattr(made, "snapshots", failing)
    found = find_unrecorded([made])
    assert ids(found) == {"db.t": [1]} and not found.is_whole
