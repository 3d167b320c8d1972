"""Every statement form of Paimon's Spark SQL documentation on branches, tags, time travel, incremental queries and
procedures: as Java's connector 0.9 answers it, where that has it; else by what it leaves; else refused with a way.

Both sides begin with copies of one warehouse, so that snapshots have the same ids and times.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.sql.procedures.registry import PROCEDURES
from paimon_spark.table.catalog import Catalog
from tests.interop import peers

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
    "CALL sys.remove_orphan_files(table => 'db.t')",
    "CALL sys.remove_orphan_files(table => 'db.t', older_than => '2023-10-31 12:00:00')",
    "CALL sys.remove_orphan_files(table => 'db.*', older_than => '2023-10-31 12:00:00', dry_run => true)",
    "CALL sys.reset_consumer(table => 'db.t', consumerId => 'myid')",
    "CALL sys.rollback(table => 'db.t', version => '3')",
    "CALL sys.rollback(table => 'db.t', version => 'TAG3')",
    "CALL sys.expire_snapshots(table => 'db.t', retain_max => 2, retain_min => 1)",
)
OTHER_RESULTS = ("rollback", "remove_orphan_files", "expire_partitions", "compact")
"""Procedures whose columns 2.x changed, or whose result tells of files that the sides name and pack differently."""


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
        out += [text.format(**times), *(STATE if any(f"sys.{name}(" in text for name in SHOWN_AFTER) else ())]
    return out


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


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[Catalog, list[str], list[Any]]:
    """Our catalog, the statements, and what Java's connector answers."""
    home = tmp_path_factory.mktemp("sql")
    catalog = paimon_spark.load_catalog(warehouse=str(home / "ours"))
    catalog.create_database("db")
    table = catalog.create_table("db.t", "k BIGINT, v STRING")
    for i in (1, 2, 3, 4):
        table.write(pa.table({"k": [i], "v": [f"v{i}"]}), **{"end-input.watermark": str(1000 * i)})
    parted = catalog.create_table("db.p", "k BIGINT, dt STRING", partition_keys=["dt"])
    for i in (1, 2):
        parted.write(pa.table({"k": [i, i], "dt": ["2001-01-01", "2999-01-01"]}))
    shutil.copytree(home / "ours", home / "theirs")
    snapshots = table.snapshots()
    moment = datetime.fromtimestamp(snapshots[1].time_ms / 1000, timezone.utc)
    times = {
        "text2": moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{snapshots[1].time_ms % 1000:03d}",
        "seconds_after": str(snapshots[-1].time_ms // 1000 + 1),
        "ms3": str(snapshots[2].time_ms),
    }
    statements = steps(times)
    python, jar = peers.connector()
    given = [json.dumps({"paimon": str(home / "theirs")}), json.dumps(["SET TIME ZONE 'UTC'", *statements])]
    command = [str(python), "-m", "tests.interop.connector_sql", str(jar), *given]
    done = subprocess.run(command, cwd=peers.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return catalog, statements, json.loads(done.stdout.splitlines()[-1])[1:]


def test_documented_forms_answer_as_javas_connector_does(
    sides: tuple[Catalog, list[str], list[Any]], spark: SparkSession
) -> None:
    catalog, statements, theirs = sides
    problems: list[str] = []
    last = ""
    for text, answer in zip(statements, theirs, strict=True):
        last = text if text.startswith("CALL") else last
        try:
            asked = state(catalog)[text] if text in STATE else catalog.sql(text, session=spark).collect()
            ours = rows([list(row) for row in asked])
        except Exception as e:  # noqa: BLE001  # all of them are told at once
            ours = [type(e).__name__, str(e)[:300]]
        if isinstance(answer, dict):
            problems.append(f"{text}: Java says {answer['error'][:300]}; ours {ours}")
        elif not (text.startswith("CALL") and any(f"sys.{name}(" in text for name in OTHER_RESULTS)):
            expected = rows(answer)
            if ours != expected:
                problems.append(f"after {last!r}, {text}: Java {expected}, ours {ours}")
        elif not ours or not isinstance(ours[0], list):
            problems.append(f"{text}: {ours}")
    assert not problems, "\n".join(problems)


@pytest.fixture
def run(tmp_path: Path, spark: SparkSession) -> Callable[[str], list[tuple[Any, ...]]]:
    """Run SQL on a fresh `db.T` of three snapshots."""
    catalog = paimon_spark.load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    table = catalog.create_table("db.T", "k BIGINT, v STRING")
    for i in (1, 2, 3):
        table.write(pa.table({"k": [i], "v": ["x"]}), **{"end-input.watermark": str(1000 * i)})

    def run(text: str) -> list[tuple[Any, ...]]:
        return sorted((tuple(row) for row in catalog.sql(text, session=spark).collect()), key=repr)

    run("USE db")
    return run


def test_documented_forms_that_are_newer_do_what_they_say(run: Callable[[str], list[tuple[Any, ...]]]) -> None:
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
    assert run("CALL sys.expire_tags(table => 'db.T', older_than => '2000-01-01 00:00:00')") == [("No expired tags.",)]
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


def test_documented_forms_that_cannot_be_done_name_the_way(run: Callable[[str], list[tuple[Any, ...]]]) -> None:
    forms = {
        "CALL sys.migrate_table(source_type => 'hive', table => 'default.T', parallelism => 6)": "AS SELECT",
        "CALL sys.repair('test_db.T,test_db01,test_db.T2')": "nothing to repair",
        'CALL sys.copy(source_table => "t1", target_table => "t1_copy", where => "day = \'2025-08-17\'")': "AS SELECT",
        "CALL sys.rescale(table => 'db.T', bucket_num => 16, partitions => 'dt=20250217,hh=08')": "INSERT OVERWRITE",
        "CALL sys.alter_view_dialect('view_identifier', 'add', 'spark', 'query')": "CREATE TEMPORARY VIEW",
        "CALL sys.drop_function(`function` => 'f')": "DROP TEMPORARY FUNCTION",
        "CALL sys.compact(table => 'T', order_strategy => 'zorder', order_by => 'a,b')": "overwrite the table",
        "CALL sys.compact_manifest(`table` => 'db.T', manifest_sort_enabled => true)": "manifest_sort_enabled out",
        "SELECT sys.path_to_descriptor('file:///x')": "Java Paimon",
    }
    for text, way in forms.items():
        with pytest.raises(UnsupportedFeatureError) as e:
            run(text)
        assert way in str(e.value), text
    assert all(p.instead for p in PROCEDURES.values() if not p.is_supported)
