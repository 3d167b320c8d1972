"""`catalog.lineage`: enabling, disabling, synchronizing and querying lineage from Python."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark import Catalog, Picture, Table
from paimon_spark.api.lineage_question import warehouse_of
from paimon_spark.api.lineage_verbs import Lineage
from paimon_spark.errors import (
    BranchNotFoundError,
    InvalidInputError,
    InvalidOptionError,
    JobNotFoundError,
    LineageError,
    PaimonError,
    StorageError,
    TableNotFoundError,
    VersionNotFoundError,
)
from paimon_spark.jobs.read.table_scan import open_scan
from paimon_spark.jobs.write.batch import plan_path_write
from paimon_spark.jobs.write.stream import plan_stream_write
from paimon_spark.lineage.asking.graph import Node
from paimon_spark.lineage.asking.recorded_jobs import Job, Jobs
from paimon_spark.lineage.asking.results import Met, ReachedTable, Relations
from paimon_spark.lineage.index.job_registry import Registration, register_query
from paimon_spark.lineage.index.provenance import Provenance, SourceRange, TableRef
from paimon_spark.lineage.index.table_index import open_index
from paimon_spark.lineage.index.tables import rows_of
from paimon_spark.options.write_request import WriteMode
from tests.harness.real_tables import a_catalog

TABLES = ("t1", "t2", "t3", "t4", "t5", "t6")


def make(folder: Path, *names: str) -> Catalog:
    catalog = a_catalog(folder)
    for name in names:
        catalog.create_table(f"db.{name}", "id INT")
    return catalog


def fill(catalog: Catalog, name: str, snapshots: int) -> None:
    for n in range(snapshots):
        catalog.table(name).write(pa.table({"id": pa.array([n], pa.int32())}))


def record(
    catalog: Catalog, job: str, barrier: int, sources: Mapping[str, int], sink: str | None, snapshot: int | None
) -> None:
    """What a job's recorder writes of a batch."""
    ranges = tuple(SourceRange(TableRef.parse(name), last=last) for name, last in sources.items())
    rows = rows_of(Provenance(job, barrier, ranges), None if sink is None else TableRef.parse(sink), snapshot)
    open_index(warehouse_of(catalog)).upsert(rows)


@pytest.fixture(scope="module")
def proposal(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """PIP-5's picture: two jobs read two tables in common; ETL 2 is one batch behind."""
    catalog = make(tmp_path_factory.mktemp("pip5") / "wh", *TABLES)
    catalog.lineage.enable()
    for name in TABLES:
        fill(catalog, f"db.{name}", 3 if name == "t6" else 4)
    for barrier in range(3):
        source = {"db.t1": barrier + 1, "db.t2": barrier + 2, "db.t3": barrier + 2}
        record(catalog, "ETL 1", barrier, source, "db.t5", barrier + 2)
    for barrier in range(2):
        source = {"db.t2": barrier + 2, "db.t3": barrier + 2, "db.t4": barrier + 1}
        record(catalog, "ETL 2", barrier, source, "db.t6", barrier + 2)
    catalog.table("db.t5").create_tag("good", snapshot_id=3)
    catalog.table("db.t1").create_branch("fix", empty=True)
    return catalog


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return make(tmp_path / "wh", "a", "b")


# Switching


def test_lineage_is_a_frozen_handle_that_pickles(catalog: Catalog) -> None:
    lineage = catalog.lineage
    assert type(lineage) is paimon_spark.Lineage is Lineage
    assert pickle.loads(pickle.dumps(lineage)) == lineage
    with pytest.raises(AttributeError):
        lineage.catalog = catalog  # type: ignore[misc]


def test_lineage_is_off_until_it_is_enabled_and_again_when_disabled(catalog: Catalog) -> None:
    status = catalog.lineage.status()
    assert (status.table, status.data, status.has_tables, status.jobs) == (False, False, False, 0)
    assert catalog.lineage.disable().has_tables is False
    on = catalog.lineage.enable()
    assert (on.table, on.data, on.has_tables) == (True, True, True)
    assert catalog.lineage.enable() == on
    assert set(catalog.list_tables("paimon")) == {
        "catalog_options",
        "job_startup",
        "sink_job_lineage",
        "sink_snapshot_lineage",
        "source_job_lineage",
        "source_snapshot_lineage",
    }
    rows = catalog.table("paimon.catalog_options").scan().to_arrow().to_pylist()
    assert {r["key"]: r["value"] for r in rows} == {"table-lineage": "true", "data-lineage": "true"}
    only_tables = catalog.lineage.enable(data=False)
    assert (only_tables.table, only_tables.data) == (True, False)
    off = catalog.lineage.disable()
    assert (off.table, off.data, off.has_tables) == (False, False, True)


def test_data_lineage_without_table_lineage_is_refused_and_nothing_is_made(catalog: Catalog) -> None:
    for data in (True, False):
        with pytest.raises(InvalidInputError, match="table=True"):
            catalog.lineage.enable(table=False, data=data)
    assert not catalog.lineage.status().has_tables


@pytest.mark.parametrize(
    "ask",
    [
        lambda c: c.lineage.jobs(),
        lambda c: c.lineage.upstream("db.a"),
        lambda c: c.lineage.downstream("db.a"),
        lambda c: c.lineage.impact("db.a", snapshot=1),
        lambda c: c.lineage.unified_version(["db.a"]),
        lambda c: c.lineage.start_options(["db.a"], "j"),
        lambda c: c.lineage.forget_job("j"),
        lambda c: c.lineage.graph(),
        lambda c: c.lineage.sync(),
    ],
)
def test_where_lineage_was_never_on_the_error_says_how_to_switch_it_on(catalog: Catalog, ask: Any) -> None:
    with pytest.raises(LineageError, match=r"lineage\.enable\(\)"):
        ask(catalog)
    assert "paimon" not in catalog.list_databases()


def test_a_warehouse_that_cannot_be_written_is_not_enabled_and_the_error_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    lineage = paimon_spark.load_catalog(str(tmp_path / "file" / "wh")).lineage
    with pytest.raises(
        StorageError, match=r"lineage of warehouse file://.*/file/wh cannot be switched on.*correct the"
    ):
        lineage.enable()
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


# Options of the catalog


def recorded(folder: Path) -> tuple[bool, bool]:
    status = paimon_spark.load_catalog(str(folder)).lineage.status()
    return status.table, status.data


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"table-lineage": "true"}, (True, False)),
        ({"table-lineage": True, "data-lineage": False}, (True, False)),
        ({"data-lineage": "true"}, (True, True)),
        ({"table-lineage": "true", "data-lineage": "true"}, (True, True)),
        ({"table-lineage": "false"}, (False, False)),
    ],
)
def test_options_of_the_catalog_switch_lineage_on_as_the_proposal_has_them(
    tmp_path: Path, options: Mapping[str, Any], expected: tuple[bool, bool]
) -> None:
    make(tmp_path)
    catalog = paimon_spark.load_catalog(str(tmp_path), **options)
    assert recorded(tmp_path) == expected
    assert catalog.create_table("db.t", "id INT").handle.overrides == {}
    assert not {"table-lineage", "data-lineage"} & set(catalog.table("db.t").handle.schema.options)
    assert ("paimon" in catalog.list_databases()) is expected[0]


def test_options_of_the_catalog_that_are_in_force_already_write_nothing(tmp_path: Path) -> None:
    make(tmp_path).lineage.enable()
    for options in ({"table-lineage": "true"}, {"data-lineage": "true"}, {"table-lineage": "true"}):
        catalog = paimon_spark.load_catalog(str(tmp_path), **options)
    assert recorded(tmp_path) == (True, True)  # what is not asked for stays
    assert [s.id for s in catalog.table("paimon.catalog_options").snapshots()] == [1]


@pytest.mark.parametrize("option", ["table-lineage", "data-lineage"])
def test_an_option_of_the_catalog_does_not_switch_lineage_off_for_all_jobs(tmp_path: Path, option: str) -> None:
    make(tmp_path).lineage.enable()
    with pytest.raises(InvalidOptionError, match=rf"{option} = false, but it is true in warehouse .*lineage\.disable"):
        paimon_spark.load_catalog(str(tmp_path), **{option: "false"})
    assert recorded(tmp_path) == (True, True)


def test_data_lineage_without_table_lineage_contradicts_itself(tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(InvalidOptionError, match="data-lineage = true needs table-lineage, which is false"):
        paimon_spark.load_catalog(str(tmp_path), **{"table-lineage": "false", "data-lineage": "true"})
    with pytest.raises(InvalidOptionError, match="did you mean 'table-lineage'"):
        paimon_spark.load_catalog(str(tmp_path), **{"table-linage": "true"})
    assert recorded(tmp_path) == (False, False)


def test_lineage_of_a_new_warehouse_begins_with_its_first_database(tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path / "new"), **{"table-lineage": "true", "data-lineage": "true"})
    assert list(tmp_path.iterdir()) == []  # a misspelt path makes nothing
    pickle.loads(pickle.dumps(catalog)).create_database("db")
    assert recorded(tmp_path / "new") == (True, True)


def test_lineage_is_switched_on_by_the_configuration_file_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = make(tmp_path / "wh", "a")
    file = tmp_path / "config.toml"
    file.write_text("table-lineage = true\n")
    monkeypatch.setenv("PAIMON_CONFIG", str(file))
    assert paimon_spark.load_table(catalog.table("db.a").location).snapshots() == []  # an option of no table
    assert recorded(tmp_path / "wh") == (True, False)
    monkeypatch.setenv("PAIMON_DATA_LINEAGE", "true")
    assert recorded(tmp_path / "wh") == (True, True)


def test_where_lineage_was_switched_off_what_was_recorded_still_answers(catalog: Catalog) -> None:
    catalog.lineage.enable()
    record(catalog, "copy", 0, {"db.a": 1}, "db.b", 1)
    catalog.lineage.disable()
    assert [t.node.name for t in catalog.lineage.upstream("db.b").tables] == ["db.a"]


# Asking


def test_jobs_tell_what_they_read_and_wrote_last(proposal: Catalog) -> None:
    jobs = proposal.lineage.jobs()
    assert [j.name for j in jobs] == ["ETL 1", "ETL 2"] and len(jobs) == 2 and "ETL 1" in jobs
    one = jobs["ETL 1"]
    assert one.sources == {"db.t1": 3, "db.t2": 4, "db.t3": 4}
    assert one.sinks == {"db.t5": 4} and one.barrier == 2 and one.query_id is None
    with pytest.raises(JobNotFoundError, match="'ETL 1', 'ETL 2'"):
        jobs["ETL 3"]
    assert jobs.to_arrow().num_rows == 8


def test_the_query_of_a_streaming_job_is_told(catalog: Catalog) -> None:
    catalog.lineage.enable()
    record(catalog, "copy", 0, {"db.a": 1}, "db.b", 1)
    register_query(warehouse_of(catalog), "query-1", Registration("copy", None))
    assert catalog.lineage.jobs()["copy"].query_id == "query-1"
    register_query(warehouse_of(catalog), "query-1", Registration("copy", None, ended_ms=9))
    assert set(catalog.lineage.jobs().to_arrow().column("ended_ms").to_pylist()) == {9}


def test_a_job_to_follow_is_an_option_of_streaming_reads_alone(catalog: Catalog) -> None:
    follow = {"lineage.follow": "etl 1", "lineage.job": "etl 2"}
    with pytest.raises(InvalidOptionError, match=r"lineage\.follow has no effect on a catalog"):
        paimon_spark.load_catalog(catalog.warehouse, **follow)
    path = catalog.table("db.a").location
    with pytest.raises(InvalidOptionError, match=r"lineage\.follow has no effect on a batch read"):
        open_scan(path, follow)
    with pytest.raises(InvalidOptionError, match=r"lineage\.follow has no effect on a batch read"):
        catalog.table("db.a", **follow).scan()
    rows = pa.schema([("id", pa.int32())])
    with pytest.raises(InvalidOptionError, match=r"lineage\.follow has no effect on a write"):
        plan_path_write({"path": path, **follow}, WriteMode.APPEND, rows, None)
    with pytest.raises(InvalidOptionError, match=r"lineage\.follow has no effect on a write"):
        plan_stream_write({"path": path, "checkpointLocation": "/c", **follow}, False, rows, None)


def test_upstream_of_a_table_a_snapshot_and_a_job(proposal: Catalog) -> None:
    lineage = proposal.lineage
    assert {t.node.name for t in lineage.upstream("db.t5").tables} == {"db.t1", "db.t2", "db.t3"}
    assert lineage.upstream("db.t5", snapshot=3).snapshots == {"db.t1": 2, "db.t2": 3, "db.t3": 3}
    assert {t.node.name for t in lineage.upstream(job="ETL 2").tables} == {"db.t2", "db.t3", "db.t4"}
    assert [j.job for j in lineage.upstream("db.t5").jobs] == ["ETL 1"]
    found = lineage.upstream("db.t5", snapshot=3)
    assert (found.asked, found.snapshot, found.direction) == ("db.t5", 3, "upstream")


def test_a_snapshot_is_named_by_id_tag_or_an_opened_table(proposal: Catalog) -> None:
    lineage, table = proposal.lineage, proposal.table("db.t5")
    expected = lineage.upstream("db.t5", snapshot=3)
    for found in (
        lineage.upstream("db.t5", snapshot="3"),
        lineage.upstream("db.t5", snapshot="good"),
        lineage.upstream("db.t5", snapshot="main.good"),
        lineage.upstream("db.t5", snapshot="snapshot.3"),
        lineage.upstream(table, snapshot=3),
        lineage.upstream(table.at("good")),
    ):
        assert found == expected


def test_downstream_and_impact_of_a_snapshot(proposal: Catalog) -> None:
    lineage = proposal.lineage
    assert lineage.downstream("db.t2", snapshot=2).snapshots == {"db.t5": 2, "db.t6": 2}
    impact = lineage.impact("db.t2", snapshot=2)
    assert lineage.impact("db.t2", 2) == impact
    assert impact.origin.node.name == "db.t2" and impact.note == "no recorded job writes db.t2"
    assert {a.node.name: a.first for a in impact.tables} == {"db.t5": 2, "db.t6": 2}
    t5 = next(a for a in impact.tables if a.node.name == "db.t5")
    assert ("good", 3) in t5.tags and t5.alive is not None and 2 in t5.alive
    assert {j.job for j in impact.jobs} == {"ETL 1", "ETL 2"}


def test_impact_needs_a_snapshot(proposal: Catalog) -> None:
    with pytest.raises(InvalidInputError, match="Give its id"):
        proposal.lineage.impact("db.t2")
    assert proposal.lineage.impact(proposal.table("db.t2").at(3)) == proposal.lineage.impact("db.t2", snapshot=3)


def test_the_unified_version_is_the_newest_that_all_agree_on(proposal: Catalog) -> None:
    lineage = proposal.lineage
    assert lineage.unified_version(["db.t5", "db.t6"]) == {"db.t5": 3, "db.t6": 3}
    assert lineage.unified_version(["db.t5"]) == {"db.t5": 4}
    assert lineage.unified_version([proposal.table("db.t5"), "db.t6"]) == {"db.t5": 3, "db.t6": 3}
    assert list(lineage.unified_version(["db.t6", "db.t5"])) == ["db.t6", "db.t5"]


def test_start_options_are_the_unified_version_and_are_kept(catalog: Catalog) -> None:
    lineage = catalog.lineage
    lineage.enable()
    for name in ("db.a", "db.b"):
        fill(catalog, name, 3)
    record(catalog, "copy", 0, {"db.a": 1}, "db.b", 1)
    record(catalog, "copy", 1, {"db.a": 2}, "db.b", 2)
    starts = lineage.start_options(["db.a", "db.b"], "new")
    version = lineage.unified_version(["db.a", "db.b"])
    assert starts == {
        name: {"scan.mode": "from-snapshot-full", "scan.snapshot-id": str(i), "lineage.job": "new"}
        for name, i in version.items()
    }
    assert lineage.jobs()["copy"].start is None
    batch = lineage.start_options(["db.a"], "new", streaming=False)
    assert set(batch["db.a"]) == {"scan.snapshot-id", "lineage.job"}
    startup = catalog.table("paimon.job_startup").scan().to_arrow().to_pylist()
    assert [(r["job"], r["database"], r["table"]) for r in startup] == [("new", "db", "a")]
    catalog.table("db.a", **batch["db.a"]).scan().to_arrow()
    assert lineage.forget_job("new") == 1
    assert catalog.table("paimon.job_startup").scan().to_arrow().num_rows == 0


def test_a_table_that_no_job_knows_starts_from_its_head(catalog: Catalog) -> None:
    catalog.lineage.enable()
    fill(catalog, "db.a", 2)
    assert catalog.lineage.start_options(["db.a"], "new")["db.a"]["scan.snapshot-id"] == "2"
    with pytest.raises(LineageError, match="no snapshot yet"):
        catalog.lineage.start_options(["db.b"], "new")
    with pytest.raises(LineageError, match="no job reads or writes"):
        catalog.lineage.unified_version(["db.a"])


def test_branches_are_tables_of_their_own(catalog: Catalog) -> None:
    catalog.lineage.enable()
    fill(catalog, "db.a", 2)
    fill(catalog, "db.b", 1)
    catalog.table("db.b").create_branch("fix", snapshot_id=1)
    record(catalog, "copy", 0, {"db.a": 1}, "db.b", 1)
    record(catalog, "replay", 0, {"db.a": 2}, "db.b$branch_fix", 1)
    lineage = catalog.lineage
    assert lineage.upstream("db.b$branch_fix", snapshot=1).snapshots == {"db.a": 2}
    assert lineage.upstream("db.b", snapshot=1).snapshots == {"db.a": 1}
    assert lineage.upstream("db.b", snapshot="fix").asked == "db.b$branch_fix"
    assert lineage.upstream("db.b", snapshot="fix.1").snapshots == {"db.a": 2}
    branch = catalog.table("db.b").branch("fix")
    assert lineage.upstream(branch).asked == "db.b$branch_fix"
    assert {t.node.name for t in lineage.downstream("db.a").tables} == {"db.b", "db.b$branch_fix"}
    assert [b.detail for b in lineage.graph("db.b$branch_fix").nodes if b.name == "db.b"] == ["branch fix"]


def test_a_snapshot_that_a_branch_shares_stems_from_what_the_table_it_left_read(catalog: Catalog) -> None:
    catalog.lineage.enable()
    fill(catalog, "db.a", 2)
    fill(catalog, "db.b", 1)
    record(catalog, "copy", 0, {"db.a": 1}, "db.b", 1)
    table, lineage = catalog.table("db.b"), catalog.lineage
    table.create_branch("fix", snapshot_id=1)
    table.branch("fix").create_branch("again", snapshot_id=1)
    for name in ("db.b$branch_fix", "db.b$branch_again"):
        found = lineage.upstream(name, snapshot=1)
        assert (found.asked, found.snapshots) == ("db.b", {"db.a": 1})
    fill(catalog, "db.b$branch_fix", 1)
    record(catalog, "replay", 0, {"db.a": 2}, "db.b$branch_fix", 2)
    assert lineage.upstream("db.b$branch_fix", snapshot=1).snapshots == {"db.a": 1}
    assert [j.job for j in lineage.upstream("db.b$branch_fix", snapshot=2).jobs] == ["replay"]
    with pytest.raises(LineageError, match=r"no job reads or writes table 'db\.b\$branch_again'"):
        lineage.upstream("db.b$branch_again")


@pytest.mark.parametrize("spelled", ["{0}/wh", "{0}/wh/", "file://{0}/wh", "{0}/./wh", "wh", "memory://m{0}/wh"])
def test_a_warehouse_is_the_same_however_it_is_spelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelled: str
) -> None:
    monkeypatch.chdir(tmp_path)
    url = spelled.format(tmp_path)
    catalog = a_catalog(url)
    for name in ("a", "b"):
        catalog.create_table(f"db.{name}", "id INT")
    catalog.lineage.enable()
    record(catalog, "copy", 0, {"db.a": 1}, "db.b", 1)
    for table in ("db.b", catalog.table("db.b"), paimon_spark.load_table(f"{url.rstrip('/')}/db.db/b")):
        found = catalog.lineage.upstream(table, others=[paimon_spark.load_catalog(url)])
        assert [t.node.name for t in found.tables] == ["db.a"]


def test_a_batch_job_is_followed_from_one_warehouse_to_another(tmp_path: Path) -> None:
    far, near = make(tmp_path / "far", "a"), make(tmp_path / "near", "b", "out")
    for catalog in (far, near):
        catalog.lineage.enable()
    fill(far, "db.a", 3)
    fill(near, "db.b", 2)
    for barrier, read in ((1, 1), (2, 3)):
        job = {"lineage.job": "j", "lineage.barrier": str(barrier)}
        record(far, "j", barrier, {"db.a": read}, None, None)
        rows = near.table("db.b", **job).scan().to_arrow()
        near.table("db.out", **job).write(rows)
    above = {t.node.ref.name: t.snapshot for t in near.lineage.upstream("db.out", snapshot=2, others=[far]).tables}
    assert above == {"db.a": 3, "db.b": 2}
    [table] = far.lineage.impact("db.a", snapshot=3, others=[near]).tables
    assert (table.node.ref.name, table.first, table.snapshots) == ("db.out", 2, (2,))


def test_tables_of_two_warehouses(tmp_path: Path) -> None:
    one, two = make(tmp_path / "one", "a"), make(tmp_path / "two", "a", "b")
    for catalog, name in ((one, "db.a"), (two, "db.a"), (two, "db.b")):
        catalog.lineage.enable()
        fill(catalog, name, 3)
    for barrier in range(2):
        record(one, "copy", barrier, {"db.a": barrier + 1}, None, None)
        record(two, "copy", barrier, {}, "db.a", barrier + 1)
    record(two, "more", 0, {"db.a": 1}, "db.b", 1)
    (found,) = two.lineage.upstream("db.a", others=[one]).tables
    assert found.node.warehouse == warehouse_of(one).url and found.node.name == "db.a"
    assert two.lineage.upstream("db.a").tables == ()
    assert one.lineage.downstream("db.a", others=[two]).tables[0].node.warehouse == warehouse_of(two).url
    assert one.lineage.downstream(one.table("db.a"), others=[two]).snapshot is None
    version = one.lineage.unified_version(["db.a", "db.b"], others=[two])
    assert set(version) == {"db.a", "db.b"}
    both = two.lineage.unified_version([two.table("db.a"), one.table("db.a")])
    assert list(both) == ["db.a", f"{warehouse_of(one).url}/db.a"]
    picture = two.lineage.graph(others=[one])
    assert picture.groups == [warehouse_of(one).url, warehouse_of(two).url]
    starts = two.lineage.start_options(["db.b", one.table("db.a")], "new")
    assert set(starts) == {"db.b", "db.a"}
    for catalog, table in ((one, "a"), (two, "b")):
        rows = catalog.table("paimon.job_startup").scan().to_arrow().to_pylist()
        assert [(r["job"], r["table"]) for r in rows] == [("new", table)]


def test_another_warehouse_without_lineage_is_named_in_the_error(tmp_path: Path) -> None:
    one, two = make(tmp_path / "one", "a"), make(tmp_path / "two", "a")
    one.lineage.enable()
    with pytest.raises(LineageError, match="two"):
        one.lineage.jobs(others=[two])


# Mistakes


@pytest.mark.parametrize(
    ("ask", "error", "says"),
    [
        (lambda x: x.upstream("db.t9"), TableNotFoundError, "no table 't9'"),
        (lambda x: x.upstream("db.t5$branch_no"), BranchNotFoundError, "no"),
        (lambda x: x.upstream("t5"), InvalidOptionError, "database.table"),
        (lambda x: x.upstream("db.t5$files"), InvalidOptionError, "branch_<name>"),
        (lambda x: x.upstream("paimon.catalog_options"), LineageError, "lineage's own"),
        (lambda x: x.upstream("db.t5", snapshot="no such"), VersionNotFoundError, "no such"),
        (lambda x: x.upstream("db.t5", snapshot=0), InvalidInputError, "begin at 1"),
        (lambda x: x.upstream("db.t5", snapshot=True), InvalidInputError, "is not a snapshot"),
        (lambda x: x.upstream(), InvalidInputError, "of what"),
        (lambda x: x.upstream("db.t5", job="ETL 1"), InvalidInputError, "of what"),
        (lambda x: x.upstream(job="ETL 1", snapshot=1), InvalidInputError, "of what"),
        (lambda x: x.upstream(job="ETL 9"), JobNotFoundError, "ETL"),
        (lambda x: x.upstream("db.t5", others=["/wh"]), InvalidInputError, "load_catalog"),
        (lambda x: x.unified_version([]), InvalidInputError, "list of tables"),
        (lambda x: x.unified_version("db.t5"), InvalidInputError, "list of tables"),
        (lambda x: x.unified_version(["db.t5", "db.t5"]), InvalidInputError, "twice"),
        (lambda x: x.unified_version(["db.t5"], ignoring="ETL 1"), InvalidInputError, "list of jobs"),
        (lambda x: x.start_options(["db.t5"], " "), InvalidInputError, "job=' ' is not the name"),
        (lambda x: x.start_options(["db.t5"], None), InvalidInputError, "job=None is not the name"),
        (lambda x: x.forget_job(None), InvalidInputError, "job=None is not the name"),
        (lambda x: x.upstream(job=7), InvalidInputError, "job=7 is not the name"),
        (lambda x: x.upstream(7), InvalidInputError, "7 is not a table"),
        (lambda x: x.impact(None, snapshot=1), InvalidInputError, "None is not a table"),
        (lambda x: x.unified_version([None]), InvalidInputError, "None is not a table"),
        (lambda x: x.graph(["db.t5"]), InvalidInputError, r"\['db.t5'\] is not a table"),
        (lambda x: x.upstream("db.t5", snapshot=5), VersionNotFoundError, "no snapshot 5: its newest is 4"),
        (lambda x: x.downstream("db.t1", snapshot=5), VersionNotFoundError, "no snapshot 5: its newest is 4"),
        (lambda x: x.impact("db.t1", snapshot=99), VersionNotFoundError, "no snapshot 99: its newest is 4; give an id"),
        (lambda x: x.rebuild(["/checkpoint"]), InvalidInputError, "job to the URL"),
        (lambda x: x.forget_job("ETL 9"), JobNotFoundError, "ETL"),
        (lambda x: x.graph("db.nothing"), TableNotFoundError, "nothing"),
    ],
)
def test_mistakes_are_told(proposal: Catalog, ask: Any, error: type[PaimonError], says: str) -> None:
    with pytest.raises(error, match=says):
        ask(proposal.lineage)


def test_an_opened_table_at_a_version_is_refused_where_snapshots_are_looked_for(proposal: Catalog) -> None:
    with pytest.raises(InvalidInputError, match="opened at version"):
        proposal.lineage.unified_version([proposal.table("db.t5").at(3)])
    with pytest.raises(InvalidInputError, match="give one of them"):
        proposal.lineage.upstream(proposal.table("db.t5").at(3), snapshot=2)


def test_a_table_outside_any_warehouse_is_refused(proposal: Catalog, tmp_path: Path) -> None:
    fill(proposal, "db.t1", 0)
    outside = tmp_path / "alone"
    (Path(proposal.warehouse) / "db.db" / "t1").rename(outside)
    try:
        table: Table = paimon_spark.load_table(str(outside))
        with pytest.raises(LineageError, match="outside any warehouse"):
            proposal.lineage.upstream(table)
    finally:
        outside.rename(Path(proposal.warehouse) / "db.db" / "t1")


def test_a_dropped_table_is_still_answered_about(catalog: Catalog) -> None:
    catalog.lineage.enable()
    record(catalog, "copy", 0, {"db.a": 1}, "db.b", 1)
    catalog.drop_table("db.b")
    assert [t.node.name for t in catalog.lineage.upstream("db.b", snapshot=1).tables] == ["db.a"]
    assert [t.node.name for t in catalog.lineage.downstream("db.a").tables] == ["db.b"]
    with pytest.raises(LineageError, match="gone"):
        catalog.lineage.upstream("db.b", snapshot="v1")


def test_a_renamed_table_is_known_by_its_new_name_once_rebuilt_and_by_its_former_one_too(catalog: Catalog) -> None:
    catalog.lineage.enable()
    fill(catalog, "db.a", 1)
    rows = catalog.table("db.a", **{"lineage.job": "copy"}).scan().to_arrow()
    catalog.table("db.b", **{"lineage.job": "copy"}).write(rows)
    catalog.rename_table("db.b", "db.c")
    with pytest.raises(LineageError, match=r"no job reads or writes table 'db\.c'"):
        catalog.lineage.upstream("db.c")
    catalog.lineage.rebuild()
    for name in ("db.b", "db.c"):
        assert catalog.lineage.upstream(name, snapshot=1).snapshots == {"db.a": 1}


def test_a_warehouse_that_cannot_be_written_answers_with_a_warning(
    proposal: Catalog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: object) -> None:
        raise StorageError("read-only")

    monkeypatch.setattr("paimon_spark.api.lineage_question.sync", refused)
    monkeypatch.setattr("paimon_spark.api.lineage_verbs.sync", refused)
    with caplog.at_level(logging.WARNING):
        assert proposal.lineage.unified_version(["db.t5", "db.t6"]) == {"db.t5": 3, "db.t6": 3}
    assert "could not be written: read-only" in caplog.text
    with pytest.raises(StorageError):
        proposal.lineage.sync()


# Results


def test_results_become_arrow_and_pandas_and_show_themselves(proposal: Catalog) -> None:
    pytest.importorskip("pandas")
    lineage = proposal.lineage
    for result, rows in (
        (lineage.upstream("db.t5"), 4),
        (lineage.upstream("db.t5", snapshot=3), 4),
        (lineage.downstream("db.t2", snapshot=4), 4),
        (lineage.impact("db.t2", snapshot=3), 3),
        (lineage.jobs(), 8),
        (lineage.status(), 1),
    ):
        assert result.to_arrow().num_rows == rows, result
        assert len(result.to_pandas()) == rows
        html = result._repr_html_()
        assert html.count("<tr>") == rows + 1
        assert str(result).splitlines()[0].split()[0].lower() in html.lower()
        shown = [line for line in str(result).splitlines() if "without recorded lineage" not in line]
        assert not any("Node(" in line for line in shown) and len(shown) in (rows + 1, rows + 2)
        assert pickle.loads(pickle.dumps(result)) == result


def test_a_table_of_which_nothing_was_read_is_said_so() -> None:
    found = Relations(
        Node("file:///w", TableRef("db", "c")),
        "upstream",
        (
            ReachedTable(Node("file:///w", TableRef("db", "a")), 1, ("db.c", "j", "db.a"), 0),
            ReachedTable(
                Node("file:///w", TableRef("db", "b")),
                1,
                ("db.c", "j", "db.b"),
                0,
                (Met("j", 1, Node("file:///w", TableRef("db", "c")), after=0, last=0, within=1),),
            ),
        ),
        (),
        snapshot=1,
        note="no recorded job writes db.c",
    )
    assert str(found).splitlines() == [
        "Upstream of db.c, snapshot 1; no recorded job writes db.c",
        "kind   name  warehouse  depth  snapshot          path",
        "table  db.a  file:///w  1      nothing read yet  db.c → j → db.a",
        "table  db.b  file:///w  1      part of 1         db.c → j → db.b",
    ]
    html = found._repr_html_()
    assert "nothing read yet" in html and "part of 1" in html
    assert found.to_arrow()["snapshot"].to_pylist() == [0, 0]


def test_an_answer_of_many_rows_is_shown_in_part() -> None:
    found = Jobs(tuple(Job(f"job {i}", {"db.a": 1}, {}) for i in range(230)))
    assert str(found).splitlines()[-1] == "and 30 more"
    assert len(str(found).splitlines()) == 202
    assert "… and 30 more" in found._repr_html_()
    assert found._repr_html_().count("<tr>") == 201


def test_what_notebooks_show_is_text_and_not_markup(catalog: Catalog) -> None:
    catalog.lineage.enable()
    name = "<script>alert('x')</script>"
    record(catalog, name, 0, {"db.a": 1}, "db.b", 1)
    for shown in (catalog.lineage.jobs(), catalog.lineage.upstream("db.b"), catalog.lineage.graph()):
        html = shown._repr_html_()
        assert "<script>" not in html and "&lt;script&gt;" in html


def test_the_graph_is_a_picture_of_everything_or_of_what_is_near(proposal: Catalog) -> None:
    whole = proposal.lineage.graph()
    assert isinstance(whole, Picture)
    assert [n.name for n in whole.nodes] == [*(f"db.{t}" for t in TABLES), "ETL 1", "ETL 2"]
    labels = {(e.source.rpartition(" ")[2], e.target): e.label for e in whole.edges}
    assert labels["db.t2", "job ETL 1"] == "snapshot 4" and labels["db.t2", "job ETL 2"] == "snapshot 3"
    near = proposal.lineage.graph("db.t6")
    assert [n.name for n in near.nodes] == ["db.t2", "db.t3", "db.t4", "db.t6", "ETL 2"]
    with pytest.raises(LineageError, match="no job reads or writes"):
        proposal.lineage.graph("db.t1$branch_fix")


def test_forgetting_a_job_removes_its_rows_only(catalog: Catalog) -> None:
    catalog.lineage.enable()
    record(catalog, "copy", 0, {"db.a": 1}, "db.b", 1)
    record(catalog, "it's \\ odd", 0, {"db.a": 1}, "db.b", 2)
    assert catalog.lineage.forget_job("it's \\ odd") == 4
    assert [j.name for j in catalog.lineage.jobs()] == ["copy"]


def test_a_warehouse_of_which_nothing_tells_is_not_rebuilt_and_nothing_is_made(catalog: Catalog) -> None:
    fill(catalog, "db.a", 1)
    with pytest.raises(LineageError, match="never switched on"):
        catalog.lineage.rebuild()
    assert catalog.list_databases() == ["db"]


def test_rebuild_and_sync_say_what_they_wrote(catalog: Catalog) -> None:
    catalog.lineage.enable()
    rebuilt = catalog.lineage.rebuild()
    assert (dict(rebuilt.rows), rebuilt.jobs, rebuilt.unreadable) == ({}, (), ())
    assert catalog.lineage.sync().unreadable == ()


def test_a_batch_job_in_process_is_found_by_every_question(catalog: Catalog) -> None:
    catalog.lineage.enable()
    fill(catalog, "db.a", 2)
    job = {"lineage.job": "copy"}
    rows = catalog.table("db.a", **job).scan().to_arrow()
    catalog.table("db.b", **job).write(rows)
    assert catalog.lineage.upstream("db.b", snapshot=1).snapshots == {"db.a": 2}
    assert catalog.lineage.jobs()["copy"].sinks == {"db.b": 1}


def test_open_lineage_sends_what_changed(proposal: Catalog) -> None:
    pytest.importorskip("openlineage.client")
    sent: list[Any] = []

    class Client:
        def emit(self, event: Any) -> None:
            sent.append(event)

    client: Any = Client()
    assert [e.job.name for e in proposal.lineage.open_lineage()] == ["ETL 1", "ETL 2"]
    assert len(proposal.lineage.open_lineage(client, namespace="prod")) == 2
    assert len(sent) == 2
    assert {e.job.namespace for e in sent} == {"prod"}
    assert proposal.lineage.open_lineage(client) == []
    fields = sent[0].inputs[0].facets["schema"].fields
    assert [(f.name, f.type) for f in fields] == [("id", "INT")]
    assert len(proposal.lineage.open_lineage(since=0)) == 2


def test_impact_names_guard_tags_and_backups_only_when_asked_for(tmp_path: Path) -> None:
    catalog = make(tmp_path / "wh", "a", "b")
    catalog.lineage.enable()
    fill(catalog, "db.a", 1)
    named = paimon_spark.load_catalog(catalog.warehouse, **{"lineage.job": "j"})
    named.table("db.b").write(named.table("db.a").scan().to_arrow())
    table = catalog.table("db.a")
    table.create_branch("fix")
    fill(catalog, "db.a", 2)
    fill(catalog, "db.a$branch_fix", 3)
    backup = table.merge_branch("fix", if_main_moved="replace").backup_branch
    found = catalog.lineage.impact("db.a", snapshot=1)
    assert (found.origin.tags, [name for name, _ in found.origin.branches]) == ((), ["fix"])
    assert "branch-guard" not in str(found) and str(backup) not in str(found) + found._repr_html_()
    assert "\n1 backup branch holds rows of it too; ask for it with --all, in Python include_internal=True" in str(
        found
    )
    asked = catalog.lineage.impact("db.a", snapshot=1, include_internal=True)
    assert "branch-guard-fix" in str(asked) and backup in dict(asked.origin.branches) and asked.backups == 0


def test_a_source_is_declared_once_and_ends_the_unknown_sources(tmp_path: Path) -> None:
    catalog = make(tmp_path / "wh", "a", "b")
    lineage = catalog.lineage
    with pytest.raises(LineageError, match="enable"):
        lineage.declare_source("db.a")
    assert lineage.declared_sources() == []
    lineage.enable()
    fill(catalog, "db.a", 1)
    named = paimon_spark.load_catalog(catalog.warehouse, **{"lineage.job": "j"})
    named.table("db.b").write(named.table("db.a").scan().to_arrow())
    assert "sources unknown: db.a" in str(lineage.upstream("db.b", snapshot=1))
    assert lineage.declare_source("db.a") == ["db.a"] == lineage.declare_source(catalog.table("db.a"))
    assert paimon_spark.load_catalog(catalog.warehouse).lineage.declared_sources() == ["db.a"]
    assert "unknown" not in str(lineage.upstream("db.b", snapshot=1)) and lineage.is_enabled
    for wrong, error in (("db.nope", PaimonError), ("paimon.catalog_options", LineageError)):
        with pytest.raises(error):
            lineage.declare_source(wrong)
    catalog.table("db.a").create_branch("fix")
    with pytest.raises(InvalidInputError, match="without a branch"):
        lineage.declare_source("db.a$branch_fix")
    with pytest.raises(InvalidInputError, match=r"not a declared source; declared are: db\.a"):
        lineage.retract_source("db.b")
    lineage.disable()
    lineage.enable()
    catalog.drop_table("db.a")
    assert lineage.retract_source("db.a") == []


def test_answers_name_what_was_written_without_being_recorded(tmp_path: Path) -> None:
    catalog = make(tmp_path / "wh", "a", "b", "c", "d")
    catalog.lineage.enable()
    fill(catalog, "db.a", 1)
    named = paimon_spark.load_catalog(catalog.warehouse, **{"lineage.job": "j"})
    named.table("db.b").write(named.table("db.a").scan().to_arrow())
    for source, sink in ("ac", "cd"):
        catalog.table(f"db.{sink}").write(catalog.table(f"db.{source}").scan().to_arrow())
    lineage = catalog.lineage
    impact, downstream = lineage.impact("db.a", snapshot=1), lineage.downstream("db.a")
    for found in (impact, downstream):
        assert [t.node.name for t in found.tables] == ["db.b"]
        assert [(t.node.name, [s.id for s in t.snapshots]) for t in found.unrecorded] == [("db.c", [1]), ("db.d", [1])]
        assert "db.c (snapshot 1), db.d (snapshot 1), written without recorded lineage" in str(found)
        assert "without recorded lineage" in found._repr_html_() and pickle.loads(pickle.dumps(found)) == found
    assert [t.node.name for t in lineage.upstream("db.b", snapshot=1).unrecorded] == ["db.a"]
    unified = lineage.unified_version(["db.b"])
    assert unified == {"db.b": 1} and [t.node.name for t in unified.unrecorded] == ["db.a"]
    boxes = {box.name: box.detail for box in lineage.graph().nodes if box.kind == "table"}
    assert boxes == {"db.a": "1 unrecorded", "db.b": "", "db.c": "1 unrecorded", "db.d": "1 unrecorded"}
    assert {box.name for box in lineage.graph("db.b").nodes if box.kind == "table"} == {"db.a", "db.b"}
