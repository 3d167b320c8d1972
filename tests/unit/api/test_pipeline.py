"""`catalog.pipeline`: branches of all tables downstream of a fault, their starts, publication and undo."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import paimon_spark
from paimon_spark import Catalog
from paimon_spark.api.lineage_question import warehouse_of
from paimon_spark.api.pipeline_branch import start_of_replay
from paimon_spark.api.release import Release
from paimon_spark.errors import (
    BranchAlreadyExistsError,
    BranchDivergedError,
    InvalidInputError,
    JobNotFoundError,
    LineageError,
    NotFoundError,
    TableNotFoundError,
    TagAlreadyExistsError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from paimon_spark.lineage.index.job_registry import Registration, register_query
from paimon_spark.pipelines.records import ReleaseRecord
from paimon_spark.versioning.main_change import MainChange, PartitionRows
from tests.harness.real_tables import put

SHAPE = {
    "clean": ("raw", "orders"),
    "daily": ("orders", "daily"),
    "top": ("orders", "top"),
    "report": ("daily", "report"),
}
"""job → its source and its sink."""


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """raw → orders → daily → report, and orders → top; lineage is on, and nothing is written."""
    made = paimon_spark.load_catalog(str(tmp_path / "wh"))
    made.create_database("shop")
    for name in ("raw", "orders", "daily", "top", "report", "other"):
        made.create_table(f"shop.{name}", "id BIGINT")
    made.lineage.enable()
    return made


def run(catalog: Catalog, *jobs: str) -> None:
    """Run batch jobs, each of which replaces its sink by its source."""
    for job in jobs:
        source, sink = SHAPE[job]
        named = {"lineage.job": job}
        rows = catalog.table(f"shop.{source}").scan(**named).to_arrow()
        catalog.table(f"shop.{sink}").write(rows, mode="overwrite", **named)


def ids(catalog: Catalog, table: str, branch: str = "main") -> list[int]:
    return sorted(catalog.table(f"shop.{table}").branch(branch).scan().to_arrow()["id"].to_pylist())


def heads(catalog: Catalog) -> dict[str, list[int]]:
    """Ids of the snapshots of main, and the branches, of each table."""
    return {
        name: [
            *(s.id for s in catalog.table(name).snapshots()),
            *(hash(b.name) for b in catalog.table(name).branches()),
        ]
        for name in (f"shop.{t}" for t in catalog.list_tables("shop"))
    }


@pytest.fixture
def faulty(catalog: Catalog) -> Catalog:
    """Two runs of all jobs; the second one after the wrong row -1, snapshot 2 of raw. Then one more row."""
    put(catalog.table("shop.raw"), 1)
    run(catalog, "clean", "daily", "top", "report")
    put(catalog.table("shop.raw"), -1)
    run(catalog, "clean", "daily", "top", "report")
    put(catalog.table("shop.raw"), 3)
    return catalog


def replay(catalog: Catalog, branch: str) -> None:
    """Correct the rows on a branch, and run each job there."""
    put(catalog.table("shop.raw").branch(branch), 2, 3)
    for job in ("clean", "daily", "top", "report"):
        source, sink = SHAPE[job]
        rows = catalog.table(f"shop.{source}").branch(branch).scan().to_arrow()
        catalog.table(f"shop.{sink}").branch(branch).write(rows, mode="overwrite")


@pytest.mark.ci
def test_tables_and_jobs_downstream_in_the_order_of_the_flow(faulty: Catalog) -> None:
    found = faulty.pipeline("shop.raw")
    assert found.tables == ["shop.raw", "shop.orders", "shop.daily", "shop.top", "shop.report"]
    assert found.jobs == ["clean", "daily", "top", "report"]
    assert [found.scope.order[job] for job in found.jobs] == [1, 2, 2, 3]
    assert str(found).splitlines()[0] == "5 tables, 4 jobs"
    assert "shop.report" in found.graph().to_mermaid()
    assert "report" in found._repr_html_()
    assert pickle.loads(pickle.dumps(found)).tables == found.tables


@pytest.mark.ci
def test_a_pipeline_is_cut_where_told(faulty: Catalog) -> None:
    assert faulty.pipeline("shop.raw", stop_at=["shop.orders"]).tables == ["shop.raw", "shop.orders"]
    assert faulty.pipeline("shop.daily").tables == ["shop.daily", "shop.report"]
    up = faulty.pipeline("shop.daily", downstream=False, upstream=True)
    assert up.tables == ["shop.raw", "shop.orders", "shop.daily"]
    assert up.jobs == ["clean", "daily"]
    assert faulty.pipeline("shop.daily", "shop.other", downstream=False).jobs == []


@pytest.mark.ci
def test_what_was_not_recorded_is_named(faulty: Catalog) -> None:
    put(faulty.table("shop.other"), 7)
    text = str(faulty.pipeline("shop.raw"))
    assert "shop.other" in text


@pytest.mark.ci
def test_tables_that_cannot_begin_a_pipeline_are_refused(faulty: Catalog) -> None:
    with pytest.raises(InvalidInputError, match="at least one table"):
        faulty.pipeline()
    with pytest.raises(TableNotFoundError, match="no table 'raws'; did you mean 'raw'"):
        faulty.pipeline("shop.raws")
    faulty.table("shop.raw").create_branch("fix")
    with pytest.raises(InvalidInputError, match=r"is a branch; .* give shop\.raw"):
        faulty.pipeline("shop.raw$branch_fix")
    with pytest.raises(InvalidInputError, match="list of tables"):
        faulty.pipeline("shop.raw", stop_at="shop.orders")


def test_without_lineage_only_the_tables_given_are_a_pipeline(tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path / "wh"))
    catalog.create_database("shop")
    catalog.create_table("shop.raw", "id BIGINT")
    with pytest.raises(LineageError, match="never switched on"):
        catalog.pipeline("shop.raw")
    put(catalog.table("shop.raw"), 1)
    made = catalog.pipeline("shop.raw", downstream=False).branch("fix")
    put(catalog.table("shop.raw").branch("fix"), 2)
    assert made.publish().tables == {"shop.raw": 2}
    assert ids(catalog, "raw") == [1, 2]


@pytest.mark.ci
def test_a_branch_starts_before_the_faulty_snapshot(faulty: Catalog) -> None:
    before = heads(faulty)
    planned = faulty.pipeline("shop.raw").branch("fix", before=("shop.raw", 2), dry_run=True)
    assert planned.tables == dict.fromkeys(planned.tables, 1)
    assert "would start from before shop.raw, snapshot 2" in str(planned)
    assert heads(faulty) == before
    assert faulty.pipeline_branches() == []
    made = faulty.pipeline("shop.raw").branch("fix", before=("shop.raw", 2))
    assert made.tables == planned.tables
    assert all(ids(faulty, t, "fix") == [1] for t in ("raw", "orders", "daily", "top", "report"))
    assert [b.name for b in faulty.pipeline_branches()] == ["fix"]
    assert faulty.pipeline_branch("fix").tables == made.tables
    assert made.table("shop.raw").branch_name == "fix"
    assert "because" in made._repr_html_()
    assert pickle.loads(pickle.dumps(made)).tables == made.tables


def test_tables_that_the_fault_did_not_reach_start_from_their_heads(faulty: Catalog) -> None:
    put(faulty.table("shop.raw"), -4)  # snapshot 4, which no job has read
    run(faulty, "report")
    made = faulty.pipeline("shop.raw").branch("fix", before=("shop.raw", 4))
    assert made.tables["shop.raw"] == 3
    assert made.tables["shop.orders"] == 2
    assert made.tables["shop.report"] == 3


@pytest.mark.ci
def test_derived_tables_start_from_snapshots_of_the_same_sources(catalog: Catalog) -> None:
    put(catalog.table("shop.raw"), 1)
    run(catalog, "clean", "daily", "top")
    put(catalog.table("shop.raw"), 2)
    run(catalog, "clean", "daily")  # top is behind
    put(catalog.table("shop.raw"), -3)
    run(catalog, "clean", "daily", "top")
    made = catalog.pipeline("shop.raw").branch("fix", before=("shop.raw", 3))
    assert made.tables["shop.raw"] == 2, "nobody would bring its rows back"
    assert made.tables["shop.top"] == 1
    assert made.tables["shop.daily"] == 1, "as top is"
    assert made.tables["shop.orders"] == 1
    assert "stems from the same snapshots" in str(made)


def test_a_table_whose_first_snapshot_is_faulty_starts_empty(catalog: Catalog) -> None:
    put(catalog.table("shop.raw"), -1)
    run(catalog, "clean", "daily")
    made = catalog.pipeline("shop.raw").branch("fix", before=("shop.raw", 1))
    assert made.tables == {"shop.raw": None, "shop.orders": None, "shop.daily": None}
    assert ids(catalog, "daily", "fix") == []
    with pytest.raises(InvalidInputError, match="has no snapshot, so the pipeline branch cannot be published"):
        made.publish(if_main_moved="replace")


@pytest.mark.ci
def test_a_tag_keeps_the_start_of_an_expired_snapshot(faulty: Catalog) -> None:
    for name in ("raw", "orders", "daily", "top", "report"):
        faulty.table(f"shop.{name}").create_tag("good", snapshot_id=1)
    for name in ("raw", "orders", "daily", "top", "report"):
        faulty.table(f"shop.{name}").expire_snapshots(retain_max=1, retain_min=1)
    made = faulty.pipeline("shop.raw").branch("fix", before=("shop.raw", 2))
    assert set(made.tables.values()) == {1}
    assert all(ids(faulty, t, "fix") == [1] for t in ("raw", "orders", "daily", "top", "report"))


@pytest.mark.ci
def test_an_expired_start_is_refused_by_table(faulty: Catalog) -> None:
    faulty.table("shop.daily").expire_snapshots(retain_max=1, retain_min=1)
    with pytest.raises(NotFoundError, match=r"(?s)shop\.daily.* have expired"):
        faulty.pipeline("shop.raw").branch("fix", before=("shop.raw", 2))
    assert faulty.pipeline_branches() == []


@pytest.mark.ci
def test_a_branch_from_a_tag_needs_it_on_every_table(faulty: Catalog) -> None:
    faulty.table("shop.raw").create_tag("good", snapshot_id=1)
    with pytest.raises(NotFoundError, match=r"(?s)shop\.orders.*shop\.report"):
        faulty.pipeline("shop.raw").branch("fix", tag="good")
    for name in ("orders", "daily", "top", "report"):
        faulty.table(f"shop.{name}").create_tag("good", snapshot_id=2)
    made = faulty.pipeline("shop.raw").branch("fix", tag="good")
    assert made.tables == {**dict.fromkeys(made.tables, 2), "shop.raw": 1}


@pytest.mark.ci
def test_a_branch_from_a_time_needs_a_snapshot_then(faulty: Catalog) -> None:
    at = faulty.table("shop.report").snapshots()[0].time_ms
    moment = datetime.fromtimestamp(at / 1000, UTC)
    made = faulty.pipeline("shop.raw").branch("fix", timestamp=moment)
    assert made.tables["shop.report"] == 1
    assert set(made.tables.values()) <= {1, 2}
    with pytest.raises(NotFoundError, match="5 tables of the pipeline have no version"):
        faulty.pipeline("shop.raw").branch("old", timestamp=moment - timedelta(days=1))


def test_wrong_starts_are_refused(faulty: Catalog) -> None:
    pipeline = faulty.pipeline("shop.raw")
    with pytest.raises(InvalidInputError, match="before and tag"):
        pipeline.branch("fix", before=("shop.raw", 2), tag="good")
    with pytest.raises(InvalidInputError, match="expected a table and one of its snapshots"):
        pipeline.branch("fix", before="shop.raw")  # type: ignore[arg-type]
    with pytest.raises(VersionNotFoundError):
        pipeline.branch("fix", before=("shop.raw", 99))
    with pytest.raises(InvalidInputError, match="not the name of a pipeline branch"):
        pipeline.branch(" ")
    with pytest.raises(InvalidInputError):
        pipeline.branch("main")


def test_one_table_with_such_a_branch_stops_all(faulty: Catalog) -> None:
    faulty.table("shop.top").create_branch("fix")
    before = heads(faulty)
    for dry_run in (True, False):
        with pytest.raises(BranchAlreadyExistsError, match=r"shop\.top"):
            faulty.pipeline("shop.raw").branch("fix", dry_run=dry_run)
    assert heads(faulty) == before
    faulty.pipeline("shop.daily").branch("other")
    with pytest.raises(BranchAlreadyExistsError, match="has a pipeline branch 'other' already"):
        faulty.pipeline("shop.raw").branch("other")


def test_a_compaction_holds_no_wrong_rows(faulty: Catalog) -> None:
    faulty.table("shop.raw").compact(full=True)
    with pytest.raises(InvalidInputError, match=r"snapshot 4 of shop\.raw is a compaction, which adds no rows; name"):
        faulty.pipeline("shop.raw").branch("fix", before=("shop.raw", 4))


@pytest.mark.ci
def test_published_together_and_undone_together(faulty: Catalog) -> None:
    tables = ("raw", "orders", "daily", "top", "report")
    before = {t: ids(faulty, t) for t in tables}
    made = faulty.pipeline("shop.raw").branch("fix", before=("shop.raw", 2))
    replay(faulty, "fix")
    state = heads(faulty)
    with pytest.raises(BranchDivergedError, match=r"shop\.raw"):
        made.publish()
    assert heads(faulty) == state
    assert made.publish(if_main_moved="replace", dry_run=True).id == 0
    assert heads(faulty) == state
    assert faulty.releases() == []
    release = made.publish(if_main_moved="replace")
    assert all(ids(faulty, t) == [1, 2, 3] for t in tables)
    assert release.id == 1
    assert release.tables == {f"shop.{t}": 2 for t in tables}
    assert set(release.backups) == set(release.tables)
    for t, rows in before.items():
        assert ids(faulty, t, release.backups[f"shop.{t}"]) == rows, "nothing is lost"
    put(faulty.table("shop.raw"), 4)
    read = faulty.release(1)
    assert sorted(read.table("shop.raw").scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
    with pytest.raises(InvalidInputError, match=r"has no table 'shop\.other'"):
        read.table("shop.other")
    with pytest.raises(BranchDivergedError, match="moved since"):
        release.undo()
    assert release.undo(if_main_moved="replace", dry_run=True).id == 0
    assert ids(faulty, "daily") == [1, 2, 3]
    undone = release.undo(if_main_moved="replace")
    assert {t: ids(faulty, t) for t in tables} == before
    assert (undone.id, undone.record.undoes, faulty.release(1).record.undone_by) == (2, 1, 2)
    assert sorted(faulty.release(1).table("shop.raw").scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
    with pytest.raises(InvalidInputError, match="undone already, by release 2"):
        faulty.release(1).undo()
    undone.undo()
    assert all(ids(faulty, t) == [1, 2, 3] for t in tables if t != "raw")
    assert ids(faulty, "raw") == [1, 2, 3, 4]
    assert [r.id for r in faulty.releases()] == [1, 2, 3]


@pytest.mark.parametrize("expired", [False, True])
def test_a_second_correction_starts_before_the_faulty_rows(faulty: Catalog, expired: bool) -> None:
    """A job corrected the table from its own rows, so the table is downstream of itself."""
    named = {"lineage.job": "repair"}
    for _ in range(2):
        rows = faulty.table("shop.raw").scan(**named).to_arrow()
        faulty.table("shop.raw").write(rows, mode="overwrite", **named)
    found = faulty.lineage.impact("shop.raw", snapshot=2)
    assert [a.node.name for a in (found.origin, *found.tables)].count("shop.raw") == 1
    assert found.origin.first == 2
    if expired:
        faulty.table("shop.raw").expire_snapshots(retain_max=2, retain_min=1)
        with pytest.raises(NotFoundError, match=r"shop\.raw \(before snapshot 2\)"):
            faulty.pipeline("shop.raw").branch("fix2", before=("shop.raw", 2))
        return
    made = faulty.pipeline("shop.raw").branch("fix2", before=("shop.raw", 2))
    assert ids(faulty, "raw", "fix2") == [1]
    assert made.tables["shop.raw"] == 1
    assert all(-1 not in ids(faulty, t, "fix2") for t in ("orders", "daily", "top", "report"))


@pytest.mark.ci
def test_a_release_stays_readable_through_later_ones(faulty: Catalog) -> None:
    tables = ("raw", "orders", "daily", "top", "report")
    faulty.pipeline("shop.raw").branch("fix", before=("shop.raw", 2))
    replay(faulty, "fix")
    faulty.pipeline_branch("fix").publish(if_main_moved="replace")
    first = {t: ids(faulty, t) for t in tables}
    faulty.pipeline("shop.raw").branch("again", before=("shop.raw", 2))
    for t in tables:
        put(faulty.table(f"shop.{t}").branch("again"), 7)
    second = faulty.pipeline_branch("again").publish(if_main_moved="replace")
    assert ids(faulty, "raw") == [1, 7]
    for t, rows in first.items():
        assert sorted(faulty.release(1).table(f"shop.{t}").scan().to_arrow()["id"].to_pylist()) == rows
    assert second.record.lost["shop.raw"] == "1 snapshot (2)"
    assert "main lost 1 snapshot (2)" in str(second)
    put(faulty.table("shop.orders"), 9)
    assert sorted(faulty.release(2).table("shop.orders").scan().to_arrow()["id"].to_pylist()) != ids(faulty, "orders")
    for t in tables:
        backup = second.backups[f"shop.{t}"]
        faulty.table(f"shop.{t}").delete_branch(backup)
    with pytest.raises(VersionNotFoundError, match=r"no branch of .* has its tag 'release-1'"):
        faulty.release(1).table("shop.raw")


def test_main_with_a_change_of_its_columns_or_a_tag_has_moved(faulty: Catalog) -> None:
    faulty.pipeline("shop.raw").branch("fix")
    put(faulty.table("shop.raw").branch("fix"), 5)
    state = heads(faulty)
    faulty.table("shop.top").alter(add={"v": "STRING"})  # nothing of it is published
    faulty.table("shop.raw").alter(add={"v": "STRING"})
    with pytest.raises(BranchDivergedError, match=r"shop\.raw was not merged: main has tags or schema changes"):
        faulty.pipeline_branch("fix").publish()
    assert heads(faulty) == state
    faulty.pipeline_branch("fix").publish(if_main_moved="replace")
    assert [faulty.table(f"shop.{t}").row_type.names for t in ("raw", "top")] == [("id",), ("id", "v")]


def test_changes_of_the_branch_come_on_top_of_main(faulty: Catalog) -> None:
    tables = ("raw", "orders", "daily", "top", "report")
    made = faulty.pipeline("shop.raw").branch("fix")
    for table in tables[:3]:
        put(faulty.table(f"shop.{table}").branch("fix"), 7)
    put(faulty.table("shop.raw"), 4)
    put(faulty.table("shop.top"), 5)
    state = heads(faulty)
    with pytest.raises(UnsupportedFeatureError, match="checks of a rebase need its rows"):
        made.publish(if_main_moved="rebase", dry_run=True, checks={"none": "SELECT 1 FROM {shop.raw}"})
    planned = made.publish(if_main_moved="rebase", dry_run=True)
    assert heads(faulty) == state
    release = made.publish(if_main_moved="rebase")
    assert planned.tables == release.tables
    assert {t: ids(faulty, t) for t in tables} == {
        "raw": [-1, 1, 3, 4, 7],
        "orders": [-1, 1, 7],
        "daily": [-1, 1, 7],
        "top": [-1, 1, 5],
        "report": [-1, 1],
    }
    assert [s.id for s in faulty.table("shop.raw").snapshots()] == [1, 2, 3, 4, 5], "the history of main is kept"
    assert all(
        {b.name for b in faulty.table(f"shop.{t}").branches()} <= {"fix", *release.backups.values()} for t in tables
    ), "no branch of a rebase is left"
    assert sorted(release.table("shop.raw").scan().to_arrow()["id"].to_pylist()) == [-1, 1, 3, 4, 7]
    origin = faulty.lineage.upstream("shop.raw", snapshot=5)
    assert "shop.raw$branch_fix" in str(origin)
    assert faulty.pipeline("shop.daily", downstream=False, upstream=True).jobs == ["clean", "daily"]
    again = made.publish(if_main_moved="rebase")
    assert ids(faulty, "raw") == [-1, 1, 3, 4, 7]
    assert again.already_published and again.backups == {}, "main has all that the branch changed"
    put(faulty.table("shop.raw").branch("fix"), 8)
    more = made.publish(if_main_moved="rebase")
    assert ids(faulty, "raw") == [-1, 1, 3, 4, 7, 8]
    more.undo()
    assert ids(faulty, "raw") == [-1, 1, 3, 4, 7]


def test_tables_without_changes_are_part_of_the_release(faulty: Catalog) -> None:
    made = faulty.pipeline("shop.orders").branch("fix")
    put(faulty.table("shop.daily").branch("fix"), 9)
    release = made.publish()
    assert release.tables == {"shop.orders": 2, "shop.daily": 3, "shop.top": 2, "shop.report": 2}
    assert set(release.backups) == {"shop.daily"}
    assert release.table("shop.top").scan().to_arrow().num_rows == 2
    undone = release.undo()
    assert ids(faulty, "daily") == [-1, 1]
    assert undone.table("shop.top").scan().to_arrow().num_rows == 2
    assert sorted(undone.table("shop.daily").scan().to_arrow()["id"].to_pylist()) == [-1, 1]
    assert [t.name for t in faulty.table("shop.top").tags() if t.name.startswith("release")] == ["release-2"]
    before = len(faulty.releases())
    nothing = faulty.pipeline("shop.orders").branch("nothing").publish()
    assert nothing.already_published and nothing.id == 0 and len(faulty.releases()) == before
    undone.undo()  # what changed nothing does not stand in the way
    with pytest.raises(InvalidInputError, match="no release to undo: nothing was published"):
        nothing.undo()


@pytest.mark.ci
def test_only_the_newest_release_of_a_table_is_undone(faulty: Catalog) -> None:
    for n in (1, 2):
        made = faulty.pipeline("shop.top").branch(f"fix{n}")
        put(faulty.table("shop.top").branch(f"fix{n}"), 10 + n)
        made.publish()
    with pytest.raises(InvalidInputError, match="release 2 is newer and changed tables of it"):
        faulty.release(1).undo()
    faulty.release(2).undo()
    faulty.release(1).undo()
    assert ids(faulty, "top") == [-1, 1]


@pytest.mark.ci
def test_a_backup_that_is_gone_stops_the_undo_of_all(faulty: Catalog) -> None:
    made = faulty.pipeline("shop.raw").branch("fix", before=("shop.raw", 2))
    replay(faulty, "fix")
    release = made.publish(if_main_moved="replace")
    faulty.table("shop.top").delete_branch(release.backups["shop.top"])
    state = heads(faulty)
    with pytest.raises(InvalidInputError, match=r"of table shop\.top is gone"):
        release.undo()
    assert heads(faulty) == state
    assert [r.id for r in faulty.releases()] == [1]


@pytest.mark.ci
def test_a_tag_of_the_name_of_the_release_stops_it(faulty: Catalog) -> None:
    faulty.table("shop.daily").create_tag("release-1")
    made = faulty.pipeline("shop.orders").branch("fix")
    put(faulty.table("shop.top").branch("fix"), 9)
    with pytest.raises(TagAlreadyExistsError, match="release-1"):
        made.publish()
    assert ids(faulty, "top") == [-1, 1]
    faulty.table("shop.daily").delete_tag("release-1")
    assert made.publish().id == 2, "numbers may be skipped"


@pytest.mark.ci
def test_deleted_with_its_branches(faulty: Catalog) -> None:
    made = faulty.pipeline("shop.raw").branch("fix", before=("shop.raw", 2))
    replay(faulty, "fix")
    assert made.delete(dry_run=True).dry_run
    assert faulty.pipeline_branch("fix").tables
    faulty.drop_table("shop.top")
    assert [step.job for step in made.replay_plan()] == ["clean", "daily", "top", "report"], "one table is gone"
    faulty.table("shop.report").delete_branch("fix")
    removed = made.delete()
    assert removed.paths
    assert faulty.pipeline_branches() == []
    assert [b.name for b in faulty.table("shop.raw").branches()] == []
    with pytest.raises(NotFoundError, match="has no pipeline branch 'fix'; there is none"):
        faulty.pipeline_branch("fix")
    with pytest.raises(NotFoundError, match="has no pipeline branch 'fix'"):
        made.delete()
    with pytest.raises(NotFoundError, match="no release 7; nothing was published"):
        faulty.release(7)


def test_streams_go_on_after_what_their_sinks_hold(catalog: Catalog) -> None:
    for n in (1, 2, 3):
        put(catalog.table("shop.raw"), n)
        run(catalog, "clean")
    register_query(warehouse_of(catalog), "q1", Registration("clean", "file:///checkpoints/clean"))
    made = catalog.pipeline("shop.raw").branch("fix", before=("shop.raw", 3))
    assert made.tables == {"shop.raw": 2, "shop.orders": 2}
    (step,) = made.replay_plan()
    assert (step.job, step.kind, step.order) == ("clean", "stream", 1)
    assert step.sources == ("shop.raw$branch_fix",)
    assert step.sinks == ("shop.orders$branch_fix",)
    assert step.start_options == {"shop.raw$branch_fix": {"scan.mode": "from-snapshot", "scan.snapshot-id": "3"}}
    assert step.checkpoint == "file:///checkpoints/clean-fix"
    assert "scan.snapshot-id=3" in str(step)
    assert step.settings == {
        "spark.paimon.branch": "fix",
        "spark.paimon.*.shop.raw.scan.mode": "from-snapshot",
        "spark.paimon.*.shop.raw.scan.snapshot-id": "3",
    }


def stream(catalog: Catalog) -> None:
    """The job `clean` is a stream from raw to orders, which has read three snapshots, one after the other."""
    for n in (1, 2, -3):
        put(catalog.table("shop.raw"), n)
        run(catalog, "clean", "daily")
    register_query(warehouse_of(catalog), "q1", Registration("clean", "file:///checkpoints/clean"))


def test_a_source_that_is_right_has_no_branch_and_the_stream_reads_main(catalog: Catalog) -> None:
    """The fault is in the stream: its source begins at any snapshot on main, and goes on there."""
    stream(catalog)
    put(catalog.table("shop.raw"), 4)
    made = catalog.pipeline("shop.raw").branch("fix", before=("shop.orders", 2))
    assert made.tables == {"shop.orders": 1, "shop.daily": 1}
    assert made.note == "no branch of shop.raw, which has none of these rows: jobs on the branch read main"
    assert [b.name for b in catalog.table("shop.raw").branches()] == []
    step = made.replay_plan()[0]
    assert (step.job, step.sources, step.sinks) == ("clean", ("shop.raw",), ("shop.orders$branch_fix",))
    assert step.start_options == {"shop.raw": {"scan.mode": "from-snapshot", "scan.snapshot-id": "2"}}
    assert "reads shop.raw: scan.mode=from-snapshot, scan.snapshot-id=2" in str(step)
    assert start_of_replay(catalog, "fix", "clean", "shop", "raw", on_branch=False) == step.start_options["shop.raw"]
    assert step.settings["spark.paimon.*.shop.raw.scan.snapshot-id"] == "2"
    made.delete()
    assert catalog.pipeline("shop.raw").branch("fix", before=("shop.raw", 3)).tables["shop.raw"] == 2


def test_the_stream_that_writes_the_first_table_is_in_the_plan(catalog: Catalog) -> None:
    stream(catalog)
    made = catalog.pipeline("shop.orders").branch("fix", before=("shop.orders", 3))
    assert made.tables == {"shop.orders": 2, "shop.daily": 2}
    assert [(s.job, s.kind, s.order) for s in made.replay_plan()] == [("clean", "stream", 1), ("daily", "batch", 2)]
    assert made.start_options("clean", "shop.raw") == {"scan.mode": "from-snapshot", "scan.snapshot-id": "3"}
    assert {s.job for s in made.statements()} == set(), "what wrote the first table is not run again from its text"


def test_a_stream_whose_source_branch_begins_too_late_is_refused(catalog: Catalog) -> None:
    """From the heads, where the stream is behind: its next snapshot of the source is before the branch's first one."""
    stream(catalog)
    put(catalog.table("shop.raw"), 4)
    put(catalog.table("shop.raw"), 5)
    made = catalog.pipeline("shop.raw").branch("fix")
    assert made.tables["shop.raw"] == 5
    step = made.replay_plan()[0]
    assert step.start_options == {}
    assert "cannot run: stream 'clean' must read shop.raw from snapshot 4 on, but its branch begins at 5" in str(step)
    with pytest.raises(InvalidInputError, match=r"make it without shop\.raw: the stream then reads main") as refused:
        start_of_replay(catalog, "fix", "clean", "shop", "raw", on_branch=True)
    assert len(str(refused.value)) < 220
    made.delete()
    made = catalog.pipeline("shop.orders").branch("fix")
    assert made.start_options("clean", "shop.raw")["scan.snapshot-id"] == "4"


def test_a_stream_and_its_replay_are_one_step_of_the_next_plan(catalog: Catalog) -> None:
    put(catalog.table("shop.raw"), 1)
    run(catalog, "clean")
    put(catalog.table("shop.raw"), 2)
    again = paimon_spark.load_catalog(catalog.warehouse, **{"lineage.job": "clean@fix"})
    again.table("shop.orders").write(again.table("shop.raw").scan().to_arrow())
    register_query(warehouse_of(catalog), "q1", Registration("clean", "file:///checkpoints/clean"))
    register_query(
        warehouse_of(catalog), "q2", Registration("clean@fix", "file:///checkpoints/clean-fix", replays="clean")
    )
    put(catalog.table("shop.raw"), 3)
    assert catalog.pipeline("shop.raw").jobs == ["clean", "clean@fix"]
    (step,) = catalog.pipeline("shop.raw").branch("next", before=("shop.raw", 3)).replay_plan()
    assert (step.job, step.kind, step.sinks) == ("clean", "stream", ("shop.orders$branch_next",))
    assert step.start_options == {"shop.raw$branch_next": {"scan.mode": "from-snapshot", "scan.snapshot-id": "3"}}
    assert step.checkpoint == "file:///checkpoints/clean-fix-next", "of the one that ran last"


def test_a_stream_into_an_empty_branch_reads_from_the_beginning(catalog: Catalog) -> None:
    put(catalog.table("shop.raw"), -1)
    run(catalog, "clean")
    register_query(warehouse_of(catalog), "q1", Registration("clean"))
    (step,) = catalog.pipeline("shop.raw").branch("fix", before=("shop.raw", 1)).replay_plan()
    assert step.sources == ("shop.raw$branch_fix",)
    assert step.start_options == {}
    assert step.checkpoint is None


@pytest.mark.ci
def test_batch_jobs_run_again_as_a_whole(faulty: Catalog) -> None:
    made = faulty.pipeline("shop.raw").branch("fix", before=("shop.raw", 2))
    steps = made.replay_plan()
    assert [(s.job, s.kind, s.order) for s in steps] == [
        ("clean", "batch", 1), ("daily", "batch", 2), ("top", "batch", 2), ("report", "batch", 3),
    ]  # fmt: skip
    assert steps[0].sources == ("shop.raw$branch_fix",)
    assert all(s.start_options == {} and s.checkpoint is None for s in steps)


def test_only_if_main_is_holds_for_all_tables(faulty: Catalog) -> None:
    made = faulty.pipeline("shop.orders").branch("fix")
    put(faulty.table("shop.daily").branch("fix"), 9)
    put(faulty.table("shop.orders"), 8)
    heads = {t: faulty.table(t).snapshots()[-1].id for t in ("shop.orders", "shop.daily")}
    assert made.publish(if_main_moved="replace", only_if_main_is=heads, dry_run=True).dry_run
    put(faulty.table("shop.orders"), 9)
    ways: tuple[Any, ...] = ("replace", "rebase", "refuse")
    for way in ways:
        for dry_run in (False, True):
            with pytest.raises(
                BranchDivergedError, match=r"main of table shop\.orders is at snapshot 4, not at 3 as only"
            ):
                made.publish(if_main_moved=way, only_if_main_is=heads, dry_run=dry_run)
    with pytest.raises(BranchDivergedError, match="at snapshot 4, not at 3"):
        made.publish(replace=["shop.orders"], only_if_main_is=heads)
    assert faulty.releases() == []
    wrong: tuple[tuple[Any, str], ...] = (
        (3, "expected a mapping"), ({"shop.orders": None}, "without a snapshot id"), ({"shop.other": 3}, "no table"),
        ({"shop.orders": "4"}, "not the id of a snapshot"),
    )  # fmt: skip
    for given, message in wrong:
        with pytest.raises(InvalidInputError, match=message):
            made.publish(only_if_main_is=given)
    assert made.publish(if_main_moved="rebase", only_if_main_is={**heads, "shop.orders": 4}).id == 1


def test_a_release_says_what_main_loses_and_gains(faulty: Catalog) -> None:
    made = faulty.pipeline("shop.orders").branch("fix")
    put(faulty.table("shop.daily").branch("fix"), 9)
    put(faulty.table("shop.daily"), 7)
    planned = made.publish(if_main_moved="replace", dry_run=True)
    assert {t: (c.rows_lost, c.rows_gained) for t, c in planned.changes.items()} == {"shop.daily": (1, 1)}
    assert "main would lose 1 snapshot (3), would gain 1 snapshot" in str(planned)
    done = made.publish(if_main_moved="replace")
    assert faulty.release(1).changes == done.changes == planned.changes
    assert "    rows: main lost 1 and gained 1" in str(faulty.release(1))
    assert json.loads(json.dumps(done.to_dict()))["changes"]["shop.daily"]["rows_lost"] == 1
    undone = done.undo()
    assert undone.changes["shop.daily"].rows_gained == 1
    assert (
        str(undone).splitlines()[-1].startswith("next: correct the branch and publish it again, or undo this release")
    )
    again = undone.undo()
    assert "next:" not in str(again) and again.undo().next_step == ""
    put(faulty.table("shop.daily").branch("fix"), 10)
    assert made.publish(if_main_moved="replace").id == 5, "the next step works"


def test_the_text_of_a_release_of_many_tables_is_short(faulty: Catalog) -> None:
    parts = tuple(PartitionRows(f"dt={n}", n, n) for n in range(5))
    change = MainChange(1, 1, 10, 10, parts, 90)
    for count in (1, 8, 15, 18, 19, 60):
        tables = {f"shop.t{n}": n for n in range(count)}
        record = ReleaseRecord(1, tables, changes=dict.fromkeys(tables, change), undoes=7)
        assert len(list(Release(faulty, record, next_step="correct it").text_lines())) <= 40


PRODUCE: dict[str, Any] = {"lineage.job": "produce", "lineage.no-sources": "true"}


@pytest.fixture
def corrected(faulty: Catalog) -> Catalog:
    """A correction by a copy: branch `fix` of raw gets good rows of main; all jobs run there, and it is published."""
    put(faulty.table("shop.raw"), 4, **PRODUCE)
    fix = faulty.pipeline("shop.raw").branch("fix", before=("shop.raw", 2))
    named: dict[str, Any] = {"lineage.job": "shop.raw:insert:8f521a83"}
    rows = faulty.table("shop.raw").scan(**named).to_arrow()
    good = rows.filter(pc.greater(rows["id"], 1))
    faulty.table("shop.raw").branch("fix").write(good, **named)
    on_branch = paimon_spark.load_catalog(faulty.warehouse, branch="fix")
    run(on_branch, *SHAPE)
    fix.publish(if_main_moved="replace")
    return faulty


def test_a_copy_by_hand_to_a_branch_is_no_step_of_the_next_correction(corrected: Catalog) -> None:
    found = corrected.pipeline("shop.raw")
    assert found.jobs == ["clean", "daily", "top", "report"]
    assert "-  shop.raw" in str(found).splitlines()
    plan = found.branch("fix2", before=("shop.raw", 2), dry_run=True).replay_plan()
    assert [step.job for step in plan] == ["clean", "daily", "top", "report"]
    assert plan[0].sources == ("shop.raw$branch_fix2",)


def test_lineage_of_main_after_its_branch_was_deleted(corrected: Catalog) -> None:
    def answers() -> list[dict[str, Any]]:
        """Of each table of main: what the last snapshot of raw is in, and what its own last one was made from."""
        lineage = corrected.lineage
        into = {t.node.name: t.snapshots for t in lineage.impact("shop.raw", 2).tables if "$" not in t.node.name}
        heads = {sink: corrected.table(f"shop.{sink}").snapshots()[-1].id for _, sink in SHAPE.values()}
        return [into, *(lineage.upstream(f"shop.{t}", snapshot=i).snapshots for t, i in heads.items())]

    before = answers()
    assert before[0] == {f"shop.{sink}": (2,) for _, sink in SHAPE.values()}
    assert "shop.raw$branch_fix" in corrected.lineage.jobs()["clean"].sources
    corrected.pipeline_branch("fix").delete()
    assert answers() == before
    jobs = corrected.lineage.jobs()
    assert {t for job in jobs for t in (*job.sources, *job.sinks) if "$" in t} == set()
    assert str(jobs).splitlines()[-1].startswith("5 deleted branches are left out; ask for them with --all")
    every = corrected.lineage.jobs(include_internal=True)
    assert every["clean"].deleted == {"shop.raw$branch_fix", "shop.orders$branch_fix"}
    assert "shop.raw$branch_fix (deleted)" in str(every)
    assert "shop.orders$branch_fix (deleted)  " in str(corrected.lineage.upstream("shop.daily", snapshot=2))
    assert "$branch" not in str(corrected.lineage.impact("shop.raw", 2)).replace("→ shop.", "")
    listed = corrected.lineage.impact("shop.raw", 2, include_internal=True)
    assert {t.node.name for t in listed.tables if t.is_deleted} == {
        f"shop.{s}$branch_fix" for _, s in SHAPE.values()
    } | {"shop.raw$branch_fix"}


def test_a_job_that_wrote_only_a_deleted_branch_is_left_out(faulty: Catalog) -> None:
    fix = faulty.pipeline("shop.raw").branch("fix", before=("shop.raw", 2))
    named: dict[str, Any] = {"lineage.job": "trial"}
    rows = faulty.table("shop.raw").scan(**named).to_arrow()
    faulty.table("shop.orders").branch("fix").write(rows, **named)
    assert "trial" in faulty.lineage.jobs()
    fix.delete()
    jobs = faulty.lineage.jobs()
    assert "trial" not in jobs
    assert "1 deleted branch is left out, with 1 job that wrote nothing else; ask for it" in str(jobs)
    with pytest.raises(
        JobNotFoundError, match=r"'trial' wrote only branches that are deleted: .*include_internal=True"
    ):
        jobs["trial"]
    assert "trial" in faulty.lineage.jobs(include_internal=True)


def test_a_snapshot_of_a_main_that_was_replaced_is_marked(corrected: Catalog) -> None:
    """The copy read up to snapshot 4 of the former main; the present one has snapshots 1 and 2."""
    itself = corrected.lineage.upstream("shop.raw", snapshot=2)
    assert itself.snapshots["shop.raw"] == 4
    assert "4 (replaced since)" in str(itself)
    put(corrected.table("shop.raw"), 5, **PRODUCE)
    run(corrected, "clean")
    head = corrected.table("shop.orders").snapshots()[-1].id
    found = corrected.lineage.upstream("shop.orders", snapshot=head)
    assert found.snapshots["shop.raw"] == 3, "not the 4 that the copy had read"
    assert "replaced" not in str(found)
