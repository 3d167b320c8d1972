"""Statements of Paimon's Spark SQL documentation on versions, branches, tags and procedures, beside Java's connector.

Every statement form is compared with the answer of Java's connector 0.9 where that has it, else with what it leaves, or
is refused with another way.

Both sides begin with copies of one warehouse, so that snapshots have the same ids and times.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.operations import PROCEDURES
from paimon_spark.operations import refused as refused_operations
from tests.harness.doors import Door, refused
from tests.harness.keywords import keywords
from tests.interop.connector import Connector

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.newest]

STATE = (
    "SELECT * FROM t",
    "SELECT snapshot_id FROM `t$snapshots`",
    "SELECT tag_name, snapshot_id FROM `t$tags`",
    "SELECT branch_name FROM `t$branches`",
    "SELECT consumer_id, next_snapshot_id FROM `t$consumers`",
    "SELECT * FROM p",
)
"""What is compared after calls."""
SHOWN_AFTER = ("expire_partitions", "rollback", "expire_snapshots")
"""Late calls after which that is asked."""

QUERIES = (
    "SELECT * FROM t VERSION AS OF 1",
    "SELECT * FROM t VERSION AS OF 'my_tag'",
    "SELECT * FROM t TIMESTAMP AS OF '{text2}'",
    "SELECT * FROM t TIMESTAMP AS OF {seconds_after}",
    "SELECT * FROM t VERSION AS OF 'watermark-1500'",
    "SELECT * FROM paimon_incremental_query('t', 1, 3)",
    "SELECT * FROM paimon_incremental_query('t', 'my_tag', 'TAG3')",
    "SELECT k FROM `t$branch_test_branch` WHERE k > 1",
    "SELECT * FROM `t$branch_from_tag`",
    "SELECT count(*) FROM t VERSION AS OF 2 AS a JOIN t AS b ON a.k = b.k",
)
CALLS = (
    "CALL sys.create_tag(table => 'db.t', tag => 'my_tag', snapshot => 2, time_retained => '1 d')",
    "CALL sys.create_tag(table => 'db.t', tag => 'TAG3', snapshot => 3)",
    "CALL sys.create_tag('db.t', 'head')",
    "CALL paimon.sys.create_tag_from_timestamp(`table` => 'db.t', `tag` => 'since', `timestamp` => {ms3})",
    "CALL sys.create_branch(table => 'db.t', branch => 'test_branch', tag => 'my_tag')",
    "CALL sys.create_branch(table => 'db.t', branch => 'from_tag', tag => 'my_tag')",
    "CALL sys.create_branch('db.t', 'empty')",
    "CALL sys.delete_branch(table => 'db.t', branch => 'empty')",
    "CALL sys.delete_tag(table => 'db.t', tag => 'since')",
    "CALL sys.reset_consumer(table => 'db.t', consumerId => 'myid', nextSnapshotId => 3)",
    "CALL sys.reset_consumer(table => 'db.t', consumerId => 'other', nextSnapshotId => 2)",
    "CALL sys.reset_consumer(table => 'db.t', consumerId => 'other')",
    "CALL sys.mark_partition_done(table => 'db.p', partitions => 'dt=2001-01-01')",
    "CALL sys.mark_partition_done(table => 'db.p', partitions => 'dt=2001-01-01;dt=2999-01-01')",
)
LATER_CALLS = (
    "CALL sys.compact(table => 'db.t')",
    "CALL sys.compact(table => 'db.p', where => 'dt > \"2001-02-01\"')",
    "CALL sys.expire_partitions(table => 'db.p', expiration_time => '1 d', timestamp_formatter => 'yyyy-MM-dd')",
    "CALL sys.remove_orphan_files(table => 'db.*', older_than => '2023-10-31 12:00:00', dry_run => true)",
    "CALL sys.remove_orphan_files(table => 'db.t', older_than => '2010-10-31 12:00:00')",
    "CALL sys.remove_orphan_files(table => 'db.t', older_than => '2023-10-31 12:00:00')",
    "CALL sys.remove_orphan_files(table => 'db.t')",
    "CALL sys.remove_orphan_files(table => 'db.p')",
    "CALL sys.reset_consumer(table => 'db.t', consumerId => 'myid')",
    "CALL sys.rollback(table => 'db.t', version => '3')",
    "CALL sys.rollback(table => 'db.t', version => 'TAG3')",
    "CALL sys.expire_snapshots(table => 'db.t', retain_max => 2, retain_min => 1)",
)
SINCE_2 = {
    "rollback": [["previous_snapshot_id", "bigint", False], ["current_snapshot_id", "bigint", False]],
    "remove_orphan_files": [["deletedFileCount", "bigint", True], ["deletedFileTotalLenInBytes", "bigint", True]],
}
"""Columns of results in Java's 2.0 where they are not 0.9's: OUTPUT_TYPE of RollbackProcedure and of
RemoveOrphanFilesProcedure in org.apache.paimon.spark.procedure. Values: see `expected_since_2`."""
ORPHANS = {
    "t/bucket-0/data-00000000-0000-0000-0000-000000000001-0.parquet": 10,
    "t/manifest/manifest-00000000-0000-0000-0000-000000000002-0": 200,
    "p/dt=2001-01-01/bucket-0/data-00000000-0000-0000-0000-000000000003-0.parquet": 3000,
    "p/dt=2999-01-01/bucket-0/changelog-00000000-0000-0000-0000-000000000004-0.parquet": 40000,
}
"""Files that nothing names, and their sizes in bytes."""


def rows(answer: Any) -> list[Any]:
    """Rows in one order, without the guards of branches, which are ours alone."""
    assert not isinstance(answer, dict), answer
    return sorted((r for r in answer if not str(r[0] if r else "").startswith("branch-guard")), key=repr)


def steps(times: dict[str, str]) -> list[str]:
    """Every statement in order, with what is asked after it."""
    out = ["USE paimon.db"]
    out += [text.format(**times) for text in CALLS]
    out += [*STATE, *(text.format(**times) for text in QUERIES)]
    for text in LATER_CALLS:
        name = procedure_of(text)
        # What a roll back says since 2.0 is seen from the snapshots before and after it.
        out += [STATE[1]] if name == "rollback" else []
        out += [text.format(**times), *(STATE if name in SHOWN_AFTER else ())]
    return out


def procedure_of(text: str) -> str | None:
    """Name of the procedure that the statement calls."""
    found = re.match(r"CALL (?:paimon\.)?sys\.(\w+)\(", text)
    return found[1] if found else None


def expected_since_2(name: str, answer: list[Any], before: Sequence[Any] = (), after: Sequence[Any] = ()) -> list[Any]:
    """The rows that Java's 2.0 gives where 0.9 gave these.

    Args:
        name: the procedure.
        answer: rows of 0.9: whether it rolled back, or the paths of files.
        before: rows of `$snapshots` before the call, by Java.
        after: the same, after it.
    """
    if name == "rollback":
        assert answer == [[True]]
        return [[max(i for (i,) in before), max(i for (i,) in after)]]
    paths = [path.split("/db.db/", 1)[1] for (path,) in answer]
    return [[len(paths), sum(ORPHANS[path] for path in paths)]]


def state(catalog: Catalog) -> dict[str, list[list[Any]]]:
    """What the queries of `STATE` give, read without Spark."""
    table = catalog.table("db.t")
    return {
        STATE[0]: [list(row.values()) for row in table.scan().to_arrow().to_pylist()],
        STATE[1]: [[s.id] for s in table.snapshots()],
        STATE[2]: [[t.name, t.snapshot.id] for t in table.tags()],
        STATE[3]: [[b.name] for b in table.branches()],
        STATE[4]: [[c.name, c.next_snapshot] for c in table.consumers()],
        STATE[5]: [list(row.values()) for row in catalog.table("db.p").scan().to_arrow().to_pylist()],
    }


def plant(database: Path) -> None:
    """Put `ORPHANS` there, old ones."""
    for name, size in ORPHANS.items():
        path = database / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
        os.utime(path, (1_600_000_000, 1_600_000_000))


@pytest.fixture(scope="module")
def sides(connector: Connector, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], list[Any]]:
    """A warehouse, the statements, and what Java's connector answers on a copy of it."""
    home = tmp_path_factory.mktemp("sql")
    catalog = paimon_spark.load_catalog(warehouse=str(home / "ours"))
    catalog.create_database("db")
    table = catalog.create_table("db.t", "k BIGINT, v STRING")
    for i in (1, 2, 3, 4):
        table.write(pa.table({"k": [i], "v": [f"v{i}"]}), **keywords({"end-input.watermark": str(1000 * i)}))
    parted = catalog.create_table("db.p", "k BIGINT, dt STRING", partition_keys=["dt"])
    for i in (1, 2):
        parted.write(pa.table({"k": [i, i], "dt": ["2001-01-01", "2999-01-01"]}))
    plant(home / "ours" / "db.db")
    shutil.copytree(home / "ours", home / "theirs")
    snapshots = table.snapshots()
    moment = datetime.fromtimestamp(snapshots[1].time_ms / 1000, UTC)
    times = {
        "text2": moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{snapshots[1].time_ms % 1000:03d}",
        "seconds_after": str(snapshots[-1].time_ms // 1000 + 1),
        "ms3": str(snapshots[2].time_ms),
    }
    statements = steps(times)
    return (
        home / "ours",
        statements,
        connector.answers({"paimon": home / "theirs"}, ["SET TIME ZONE 'UTC'", *statements])[1:],
    )


def test_documented_forms_answer_as_javas_connector_does(
    sides: tuple[Path, list[str], list[Any]], spark: SparkSession, door: Door, tmp_path: Path
) -> None:
    warehouse, statements, theirs = sides
    shutil.copytree(warehouse, tmp_path / "wh")
    catalog = door.load_catalog(str(tmp_path / "wh"))
    problems: list[str] = []
    last = ""
    for i, (text, answer) in enumerate(zip(statements, theirs, strict=True)):
        name = procedure_of(text)
        last = text if name else last
        columns: Any = None
        try:
            if text in STATE:
                ours = rows(state(catalog)[text])
            else:
                frame = catalog.sql(text, session=spark)
                columns = [[f.name, f.dataType.simpleString(), f.nullable] for f in frame.schema.fields]
                ours = rows([list(row) for row in frame.collect()])
        except Exception as e:  # noqa: BLE001  # all of them are told at once
            ours = [type(e).__name__, str(e)[:300]]
        if "error" in answer:
            problems.append(f"{text}: Java says {answer['error'][:300]}; ours {ours}")
            continue
        expected = rows(answer["rows"])
        if name in SINCE_2:
            around = (
                [theirs[i - 1]["rows"], theirs[i + 1 + STATE.index(STATE[1])]["rows"]] if name == "rollback" else []
            )
            expected = expected_since_2(name, expected, *around)
        if ours != expected:
            problems.append(f"after {last!r}, {text}: Java {expected}, ours {ours}")
        named = SINCE_2.get(name or "", answer["columns"])
        if name and columns != named:
            problems.append(f"{text}: Java's columns {named}, ours {columns}")
    assert not problems, "\n".join(problems)


Run = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def catalog(tmp_path: Path, door: Door) -> Catalog:
    """A catalog with a fresh `db.T` of three snapshots."""
    catalog = door.load_catalog(str(tmp_path))
    catalog.create_database("db")
    table = catalog.create_table("db.T", "k BIGINT, v STRING")
    for i in (1, 2, 3):
        table.write(pa.table({"k": [i], "v": ["x"]}), **keywords({"end-input.watermark": str(1000 * i)}))
    return catalog


@pytest.fixture
def run(catalog: Catalog, spark: SparkSession) -> Run:
    """Run SQL in the database of `T`."""

    def run(text: str) -> list[tuple[Any, ...]]:
        return sorted((tuple(row) for row in catalog.sql(text, session=spark).collect()), key=repr)

    run("USE db")
    return run


def test_documented_forms_that_are_newer_do_what_they_say(run: Run) -> None:
    def tags() -> dict[str, int]:
        return dict(run("SELECT tag_name, snapshot_id FROM `T$tags` WHERE guarded_branch IS NULL"))

    run("ALTER TABLE T CREATE TAG `TAG-1`")
    run("ALTER TABLE T CREATE TAG IF NOT EXISTS `TAG-1`")
    run("ALTER TABLE T CREATE TAG `TAG-2` RETAIN 7 DAYS")
    run("ALTER TABLE T CREATE TAG `TAG-3` AS OF VERSION 1")
    run("ALTER TABLE T CREATE TAG `TAG-4` AS OF VERSION 2 RETAIN 12 HOURS")
    run("ALTER TABLE T REPLACE TAG `TAG-4` AS OF VERSION 2 RETAIN 24 HOURS")
    run("ALTER TABLE T CREATE OR REPLACE TAG `TAG-5` AS OF VERSION 2 RETAIN 24 HOURS")
    assert tags() == {"TAG-1": 3, "TAG-2": 3, "TAG-3": 1, "TAG-4": 2, "TAG-5": 2}
    assert run("SHOW TAGS T") == [("TAG-1",), ("TAG-2",), ("TAG-3",), ("TAG-4",), ("TAG-5",)]
    run("ALTER TABLE T DELETE TAG `TAG-1`")
    run("ALTER TABLE T DELETE TAG IF EXISTS `TAG-1`")
    run("ALTER TABLE T DELETE TAG `TAG-2,TAG-3`")
    run("ALTER TABLE T RENAME TAG `TAG-4` TO `TAG-6`")
    assert tags() == {"TAG-6": 2, "TAG-5": 2}
    assert run("CALL sys.rename_tag(table => 'db.T', tag => 'TAG-6', target_tag => 'a')") == [(True,)]
    assert run("CALL sys.replace_tag(table => 'db.T', tag => 'a', snapshot => 1, time_retained => '1 d')") == [(True,)]
    expired = run("CALL sys.expire_tags(table => 'db.T', older_than => '2000-01-01 00:00:00')")
    assert expired == [("No expired tags.", datetime(2000, 1, 1))]
    assert run("CALL sys.trigger_tag_automatic_creation(table => 'db.T')") == [(True,)]
    assert run("SELECT k FROM paimon_incremental_between_timestamp('T', '1000', '99999999999999')") == [
        (1,),
        (2,),
        (3,),
    ]
    assert run(
        "SELECT k FROM paimon_incremental_between_timestamp('T', '2020-03-12 00:00:00', '2999-03-12 00:08:00')"
    ) == [
        (1,),
        (2,),
        (3,),
    ]
    assert run("SELECT k FROM paimon_incremental_query('db.T', 'a', 3)") == [(2,), (3,)]
    assert run("CALL sys.create_branch(table => 'db.T', branch => 'b', tag => 'a')") == [(True,)]
    run("CALL sys.create_tag(table => 'db.T$branch_b', tag => 'on_b')")
    assert run("CALL sys.create_branch(table => 'db.T$branch_b', branch => 'c', tag => 'on_b')") == [(True,)]
    assert run("CALL sys.rename_branch(table => 'db.T', from_branch => 'c', to_branch => 'd')") == [(True,)]
    run("INSERT INTO `T$branch_b` VALUES (9, 'y')")
    assert run("SELECT k FROM T VERSION AS OF 'b'") == [(1,), (9,)]
    assert run("SELECT k FROM T VERSION AS OF b.on_b") == [(1,)]
    assert run("CALL sys.merge_branch(table => 'db.T', source_branch => 'b', target_branch => 'd')") == [(True,)]
    assert run("CALL sys.merge_branch(table => 'db.T', source_branch => 'b')") == [(True,)]
    assert run("SELECT k FROM T") == [(1,), (2,), (3,), (9,)]
    assert run("CALL sys.merge_branch('db.T', 'b')")[0][:3] == (True, 2, 3)
    assert run("SELECT k FROM T") == [(1,), (9,)]
    assert run("CALL sys.delete_branch(table => 'db.T', branch => 'd')") == [(True,)]
    assert run("CALL sys.clear_consumers(table => 'T', includingConsumers => '', excludingConsumers => 'a.*')") == [
        (True,)
    ]
    assert run("CALL sys.compact_manifest(`table` => 'db.T')") == [(True,)]
    assert run("CALL sys.compact_database(including_databases => 'db', options => 'target-file-size=128m')") == [
        ("Compact database finished. Success: 1, Failed: 0",)
    ]
    assert run("CALL sys.rollback_to_watermark(table => 'db.T', watermark => 1500)") == [(3, 3)]
    assert run("CALL sys.rollback_to_timestamp(table => 'db.T', timestamp => 99999999999999)") == [(3, 3)]
    assert run("CALL sys.rollback(table => 'db.T', version => 1)") == [(3, 1)]
    assert run("CALL sys.purge_files(table => 'db.T')") == [("Success",)]
    assert run("SELECT k FROM T") == []


def test_documented_forms_that_cannot_be_done_name_the_way(run: Run, catalog: Catalog) -> None:
    forms = {
        "CALL sys.migrate_table(source_type => 'hive', table => 'default.T', parallelism => 6)": "AS SELECT",
        "CALL sys.repair('test_db.T,test_db01,test_db.T2')": "nothing to repair",
        'CALL sys.copy(source_table => "t1", target_table => "t1_copy", where => "day = \'2025-08-17\'")': "AS SELECT",
        "CALL sys.alter_view_dialect('view_identifier', 'add', 'spark', 'query')": "CREATE TEMPORARY VIEW",
        "CALL sys.drop_function(`function` => 'f')": "DROP TEMPORARY FUNCTION",
        "CALL sys.compact_manifest(`table` => 'db.T', manifest_sort_enabled => true)": "manifest_sort_enabled out",
        "SELECT sys.path_to_descriptor('file:///x')": "Java Paimon",
    }
    for text, way in forms.items():
        with refused(catalog, UnsupportedFeatureError, re.escape(way)):
            run(text)
    assert refused_operations.OPERATIONS
    for operation in refused_operations.OPERATIONS:
        assert operation.instead, operation.procedure
        assert PROCEDURES[operation.procedure] == (operation,)
        with refused(catalog, UnsupportedFeatureError, re.escape(operation.instead)):
            run(f"CALL sys.{operation.procedure}()")
    refused_names = {operation.procedure for operation in refused_operations.OPERATIONS}
    assert refused_names == {name for name, forms in PROCEDURES.items() if any(form.instead for form in forms)}
