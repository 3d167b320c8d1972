"""Whose a job's name is, the numbers of its runs, and that it can be forgotten."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import CorruptFileError, StorageError
from paimon_spark.lineage.index import job_registry as barriers
from paimon_spark.lineage.index import job_registry as jobs
from paimon_spark.lineage.index.job_registry import (
    Owner,
    Registration,
    all_forgotten,
    claim_name,
    draw_barrier,
    find_owner,
    find_registration,
    forgotten_before_ms,
    mark_ended,
    note_query,
    register_query,
    registrations,
    reserve_barrier,
)
from paimon_spark.lineage.index.provenance import Provenance, SourceRange
from paimon_spark.lineage.index.tables import SINK_SNAPSHOT, SOURCE_SNAPSHOT, rows_of
from paimon_spark.lineage.index.warehouse import Warehouse, forget_warnings
from paimon_spark.lineage.recording.maintenance import forget_job
from paimon_spark.metadata.small_files import numbered
from paimon_spark.storage.local import LocalStore
from tests.harness.fault_store import Fault, FaultStore
from tests.harness.lineage_index import MemoryIndex, memory_warehouse, ref_of

FIRST = "11111111-aaaa-4bbb-8ccc-000000000001"
SECOND = "22222222-aaaa-4bbb-8ccc-000000000002"
NAMES = (
    "plain",
    "a b",
    "it's",
    'say "so"',
    "../up",
    "a/b/c",
    ".",
    "..",
    "",
    "ü名",
    "%2E",
    "x" * 3000,
    "a\x00b",
    "\ud800",
)


def local_warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(LocalStore(), str(tmp_path / "wh"))


# --- names


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_its_first_querys_and_the_next_query_gets_one_of_its_own(tmp_path: Path, name: str) -> None:
    warehouse = local_warehouse(tmp_path)
    mine = claim_name(warehouse, name, FIRST)
    assert claim_name(warehouse, name, FIRST) == mine
    assert claim_name(warehouse, name, SECOND) == f"{mine}@22222222"
    assert claim_name(warehouse, name, SECOND) == f"{mine}@22222222"
    assert find_owner(warehouse, mine) == Owner(mine, FIRST)
    assert mine == name or name == "\ud800"
    mine.encode()


@given(st.lists(st.tuples(st.sampled_from(["j", "k", "j@11111111"]), st.sampled_from([FIRST, SECOND, None]))))
def test_no_two_queries_ever_have_one_name(asked: list[tuple[str, str | None]]) -> None:
    warehouse = memory_warehouse()
    owners: dict[str, str | None] = {}
    for name, query_id in asked:
        job = claim_name(warehouse, name, query_id)
        assert owners.setdefault(job, query_id) == query_id
        assert claim_name(warehouse, name, query_id) == job


def test_queries_whose_ids_begin_alike_are_told_apart_by_the_whole_id() -> None:
    warehouse = memory_warehouse()
    claim_name(warehouse, "j", FIRST)
    assert claim_name(warehouse, "j", SECOND) == "j@22222222"
    assert claim_name(warehouse, "j", SECOND[:8] + "-other") == "j@22222222-other"


def test_batch_jobs_share_a_name_and_never_one_with_a_query() -> None:
    warehouse = memory_warehouse()
    assert claim_name(warehouse, "nightly", None) == claim_name(warehouse, "nightly", None) == "nightly"
    assert claim_name(warehouse, "nightly", FIRST) == "nightly@11111111"
    assert claim_name(warehouse, "stream", FIRST) == "stream"
    assert claim_name(warehouse, "stream", None) == "stream@batch"


def test_whoever_does_not_get_the_name_is_told_once_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    warehouse = memory_warehouse()
    claim_name(warehouse, "j", FIRST)
    assert not caplog.records
    for _ in range(3):
        claim_name(warehouse, "j", SECOND)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    for part in ("'j'", "'j@22222222'", "lineage.job", "forget_job"):
        assert part in record.getMessage()


def test_damage_is_an_error_that_names_the_file() -> None:
    warehouse = memory_warehouse()
    claim_name(warehouse, "j", FIRST)
    path = jobs.job_path(warehouse, "j")
    warehouse.store.write(path, b"{")
    with pytest.raises(CorruptFileError, match=r"jobs/j\.json.*remove it"):
        claim_name(warehouse, "j", SECOND)


@pytest.mark.parametrize("after", [False, True])
def test_a_name_that_could_not_be_written_down_is_had_at_the_next_try(after: bool) -> None:
    inner = memory_warehouse()
    store = FaultStore(inner.store)
    warehouse = Warehouse(store, inner.root)
    store.arm(Fault(1, after=after, verbs=frozenset(("create_exclusive",))))
    with pytest.raises(StorageError):
        claim_name(warehouse, "j", FIRST)
    assert claim_name(warehouse, "j", FIRST) == "j"


RACE = """
import sys
from paimon_spark.lineage.index.job_registry import claim_name
from paimon_spark.lineage.index.warehouse import Warehouse
from paimon_spark.metadata.small_files import numbered
from paimon_spark.storage.local import LocalStore
sys.stdin.readline()
print(claim_name(Warehouse(LocalStore(), sys.argv[1]), "the job", sys.argv[2]))
"""


@pytest.mark.ci
def test_of_processes_that_race_for_a_name_exactly_one_gets_it(tmp_path: Path) -> None:
    ids = [f"{i}{i}{i}{i}{i}{i}{i}{i}-query" for i in range(1, 5)]
    got = race(RACE, [[str(tmp_path / "wh"), i] for i in ids])
    assert sorted(len(lines) for lines in got) == [1] * 4
    names = [lines[0] for lines in got]
    assert names.count("the job") == 1
    assert sorted(n for n in names if n != "the job") == sorted(
        f"the job@{i[:8]}" for i, n in zip(ids, names, strict=True) if n != "the job"
    )


def race(script: str, arguments: list[list[str]]) -> list[list[str]]:
    """What processes print that begin at one moment."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script), *a],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for a in arguments
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    out = [process.communicate(timeout=120)[0].splitlines() for process in started]
    assert all(process.returncode == 0 for process in started)
    return out


# --- registrations


def test_what_is_known_of_a_query_is_read_back() -> None:
    warehouse = memory_warehouse()
    assert find_registration(warehouse, FIRST) is None
    assert registrations(warehouse) == {}
    one = Registration("j", "file:///ck", sink_records_sources=True)
    register_query(warehouse, FIRST, one)
    register_query(warehouse, SECOND, Registration("k"))
    assert find_registration(warehouse, FIRST) == one
    assert registrations(warehouse) == {FIRST: one, SECOND: Registration("k")}


def test_a_checkpoint_that_was_known_stays_known() -> None:
    warehouse = memory_warehouse()
    register_query(warehouse, FIRST, Registration("j", "file:///ck"))
    register_query(warehouse, FIRST, Registration("j", None, sink_records_sources=True))
    assert find_registration(warehouse, FIRST) == Registration("j", "file:///ck", sink_records_sources=True)
    register_query(warehouse, FIRST, Registration("other", None))
    assert find_registration(warehouse, FIRST) == Registration("other")


def test_the_end_of_a_query_is_noted_until_it_runs_again() -> None:
    warehouse = memory_warehouse()
    note_query(warehouse, FIRST, ended=True)  # of another warehouse
    assert registrations(warehouse) == {}
    one = Registration("j", "file:///ck", sink_records_sources=True)
    begins: tuple[Callable[[], None], ...] = (
        lambda: note_query(warehouse, FIRST, ended=False),
        lambda: register_query(warehouse, FIRST, one),
    )
    for begin in begins:
        register_query(warehouse, FIRST, one)
        mark_ended(warehouse, FIRST, 7)
        assert find_registration(warehouse, FIRST) == Registration("j", "file:///ck", True, ended_ms=7)
        begin()
        assert find_registration(warehouse, FIRST) == one
    note_query(warehouse, FIRST, ended=True)
    assert registrations(warehouse)[FIRST].ended_ms is not None


def test_a_failing_store_does_not_stop_the_listeners_of_a_session(caplog: pytest.LogCaptureFixture) -> None:
    warehouse = memory_warehouse()
    register_query(warehouse, FIRST, Registration("j"))
    store = FaultStore(warehouse.store)
    failing = Warehouse(store, warehouse.root)
    store.arm(Fault(1, verbs=frozenset(["write"])))
    forget_warnings()
    note_query(failing, FIRST, ended=True)
    assert [call.verb for call in store.failed] == ["write"]
    assert f"cannot note that streaming query {FIRST} ended" in caplog.text


def test_a_checkpoint_whose_url_holds_a_password_is_not_written_down() -> None:
    warehouse = memory_warehouse()
    register_query(warehouse, FIRST, Registration("j", "sftp://me:secret@host/c", True))
    assert find_registration(warehouse, FIRST) == Registration("j", None, True)


def test_a_registration_that_is_damaged_is_passed_over_and_made_anew() -> None:
    warehouse = memory_warehouse()
    register_query(warehouse, FIRST, Registration("j"))
    register_query(warehouse, SECOND, Registration("k"))
    warehouse.store.write(jobs.query_path(warehouse, FIRST), b'{"version": 1}')
    assert registrations(warehouse) == {SECOND: Registration("k")}
    register_query(warehouse, FIRST, Registration("j"))
    assert find_registration(warehouse, FIRST) == Registration("j")


# --- numbers of runs


def test_numbers_go_up_by_one_and_old_files_go(tmp_path: Path) -> None:
    index = MemoryIndex(local_warehouse(tmp_path))
    assert [draw_barrier(index, "a/b") for _ in range(100)] == list(range(100))
    assert len(index.warehouse.store.list(f"{index.warehouse.lineage_dir}/jobs/a%2Fb")) <= 20
    assert draw_barrier(index, "other") == 0


@pytest.mark.parametrize("table", [SINK_SNAPSHOT, SOURCE_SNAPSHOT])
def test_the_first_number_follows_the_newest_barrier_in_the_tables(table: object) -> None:
    index = MemoryIndex()
    ref = ref_of("d.t")
    if table is SINK_SNAPSHOT:
        index.upsert(rows_of(Provenance("it's j", 41), ref, 3))
    else:
        index.upsert(rows_of(Provenance("it's j", 41, (SourceRange(ref, last=3),)), None, None))
    index.upsert(rows_of(Provenance("k", 900), ref, 4))
    assert draw_barrier(index, "it's j") == 42


def test_numbers_drawn_follow_one_that_the_user_chose() -> None:
    index = MemoryIndex()
    reserve_barrier(index.warehouse, "j", 20261122)
    reserve_barrier(index.warehouse, "j", 7)
    assert draw_barrier(index, "j") == 20261123


def test_whoever_stalls_before_drawing_does_not_draw_a_number_that_was_pruned(monkeypatch: pytest.MonkeyPatch) -> None:
    index = MemoryIndex()
    draw_barrier(index, "j")
    stalled: list[int] = []

    def stall(*args: Any) -> list[int]:
        found = numbered(*args)
        if not stalled:
            stalled.append(1)
            others.extend(draw_barrier(index, "j") for _ in range(60))
        return found

    others: list[int] = []
    monkeypatch.setattr(barriers, "numbered", stall)
    mine = draw_barrier(index, "j")
    assert others == list(range(1, 61))
    assert mine == 61


DRAW = """
import sys
from paimon_spark.lineage.index.job_registry import draw_barrier
from paimon_spark.lineage.index.warehouse import Warehouse
from paimon_spark.metadata.small_files import numbered
from paimon_spark.storage.local import LocalStore
from tests.harness.lineage_index import MemoryIndex
index = MemoryIndex(Warehouse(LocalStore(), sys.argv[1]))
sys.stdin.readline()
for _ in range(60):
    print(draw_barrier(index, "j"))
"""


@pytest.mark.ci
def test_processes_that_race_never_draw_the_same_number(tmp_path: Path) -> None:
    got = race(DRAW, [[str(tmp_path / "wh")]] * 3)
    drawn = [int(n) for lines in got for n in lines]
    assert len(drawn) == len(set(drawn)) == 180
    for lines in got:
        assert [int(n) for n in lines] == sorted(int(n) for n in lines)


# --- forgotten


def test_a_forgotten_job_has_no_rows_and_its_name_is_free() -> None:
    index = MemoryIndex()
    ref, source = ref_of("d.t"), SourceRange(ref_of("d.s"), last=1)
    for job in ("it's", "kept"):
        claim_name(index.warehouse, job, FIRST)
        register_query(index.warehouse, FIRST if job == "it's" else SECOND, Registration(job))
        index.upsert(rows_of(Provenance(job, 0, (source,)), ref, 1))
    assert forget_job(index, "it's", now_ms=5_000) == 4
    assert {row[0] for rows in index.everything().values() for row in rows} == {"kept"}
    assert registrations(index.warehouse) == {SECOND: Registration("kept")}
    assert claim_name(index.warehouse, "it's", SECOND) == "it's"
    assert forgotten_before_ms(index.warehouse, "it's") == 5_000
    assert forgotten_before_ms(index.warehouse, "kept") is None
    assert all_forgotten(index.warehouse) == {"it's": 5_000}


def test_a_job_that_is_forgotten_twice_is_forgotten_up_to_the_later_moment() -> None:
    index = MemoryIndex()
    forget_job(index, "j", now_ms=9_000)
    forget_job(index, "j", now_ms=5_000)
    assert forgotten_before_ms(index.warehouse, "j") == 9_000


def test_numbers_of_a_forgotten_job_are_not_drawn_again() -> None:
    index = MemoryIndex()
    assert [draw_barrier(index, "j") for _ in range(3)] == [0, 1, 2]
    forget_job(index, "j")
    assert draw_barrier(index, "j") == 3


def test_what_says_when_a_job_was_forgotten_is_passed_over_when_damaged() -> None:
    index = MemoryIndex()
    forget_job(index, "j", now_ms=1)
    (info,) = index.warehouse.store.list(f"{index.warehouse.lineage_dir}/forgotten")
    index.warehouse.store.write(f"{index.warehouse.lineage_dir}/forgotten/{info.name}", json.dumps({"job": 1}).encode())
    assert forgotten_before_ms(index.warehouse, "j") is None
    assert all_forgotten(index.warehouse) == {}
