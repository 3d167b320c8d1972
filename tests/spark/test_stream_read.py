"""spark.readStream.format("paimon") in a classic session: every row once, restarts, limits, kinds, branches, errors."""

from __future__ import annotations

import ast
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import datasource as ds
from pyspark.sql.streaming.query import StreamingQuery

import paimon_spark
from paimon_spark.api.table import Table

pytestmark = [pytest.mark.spark, pytest.mark.streaming, pytest.mark.oldest]

LIMITS_KNOWN = hasattr(ds.DataSourceStreamReader, "getDefaultReadLimit")
limits_known = pytest.mark.skipif(not LIMITS_KNOWN, reason="PySpark 4.1 lets no source limit its batches")
LATEST = {"scan.mode": "latest"}
ALL = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}

Batches = list[list[tuple[Any, ...]]]


def make(home: Path, keys: tuple[str, ...] = (), **options: str) -> Table:
    catalog = paimon_spark.load_catalog(str(home))
    catalog.create_database("db", ignore_if_exists=True)
    given = {k.replace("_", "-"): v for k, v in options.items()}
    if keys:
        given = {"bucket": "2", **given}
    return catalog.create_table("db.t", "k BIGINT, v STRING", primary_keys=list(keys), options=given)


def put(table: Table, *keys: int, v: str = "a") -> None:
    table.write(pa.table({"k": pa.array(keys, pa.int64()), "v": [v] * len(keys)}))


def stream(spark: SparkSession, table: Table, **options: str) -> DataFrame:
    return spark.readStream.format("paimon").options(**options).load(table.location)


def run(df: DataFrame, checkpoint: Path, *, once: bool = False, fail: bool = False) -> Batches:
    """The rows of every batch until there are no more, those without rows left out."""
    found: Batches = []

    def keep(batch: DataFrame, _: int) -> None:
        rows = sorted(map(tuple, batch.collect()))
        if fail:
            raise RuntimeError("the sink fails")
        if rows:
            found.append(rows)

    writer = df.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    query = (writer.trigger(once=True) if once else writer.trigger(availableNow=True)).start()
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()
    return found


def keys_of(batches: Batches) -> list[list[int]]:
    return [[row[0] for row in rows] for rows in batches]


def failure(query: StreamingQuery) -> str:
    """What a user sees of a query that fails."""
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(120)
    error = query.exception()
    assert error is not None
    assert str(error)[:200] in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    "keys", [pytest.param((), marks=pytest.mark.newest, id="append"), pytest.param(("k",), id="keys")]
)
def test_a_restarted_query_reads_exactly_what_is_new(
    spark: SparkSession, keys: tuple[str, ...], tmp_path: Path
) -> None:
    table, checkpoint = make(tmp_path, keys), tmp_path / "c"
    put(table, 1, 2)
    put(table, 3)
    assert keys_of(run(stream(spark, table), checkpoint)) == [[1, 2, 3]]
    put(table, 4)
    put(table, 5)
    assert keys_of(run(stream(spark, table), checkpoint)) == [[4, 5]]


@pytest.mark.newest
def test_an_empty_table_begins_with_what_comes(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path)
    assert run(stream(spark, table), tmp_path / "c") == []
    put(table, 1)
    assert keys_of(run(stream(spark, table), tmp_path / "c")) == [[1]]
    assert run(stream(spark, table), tmp_path / "c") == []


@pytest.mark.slow
def test_files_of_a_file_sink_hold_every_row_once(spark: SparkSession, tmp_path: Path) -> None:
    table, out = make(tmp_path), tmp_path / "out"
    for n in range(3):
        put(table, n)
        writer = stream(spark, table).writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "c"))
        assert writer.trigger(availableNow=True).start(str(out)).awaitTermination(120)
    assert sorted(r.k for r in spark.read.parquet(str(out)).collect()) == [0, 1, 2]


def test_a_running_query_follows_the_table_and_tells_where_it_is(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path, ("k",))
    put(table, 1)
    writer = stream(spark, table).writeStream.format("memory").queryName("following")
    query = writer.trigger(processingTime="100 milliseconds").start()
    try:
        query.processAllAvailable()
        put(table, 2)
        put(table, 3)
        query.processAllAvailable()
        assert sorted(r.k for r in spark.table("following").collect()) == [1, 2, 3]
        progress = [p for p in query.recentProgress if p["numInputRows"]]
    finally:
        query.stop()
    source = json.loads(json.dumps(progress[-1]["sources"][0]))
    start, end = (as_dict(source[which]) for which in ("startOffset", "endOffset"))
    assert (start["snapshot"], end["snapshot"]) in {(1, 3), (2, 3)}
    assert end["table"] == table.location and end["branch"] == "main"
    if LIMITS_KNOWN:
        assert as_dict(source["latestOffset"])["snapshot"] == 3


def as_dict(offset: Any) -> dict[str, Any]:
    # PySpark 4.1 tells it as the text of a Python dictionary.
    found = ast.literal_eval(offset) if isinstance(offset, str) and not LIMITS_KNOWN else offset
    found = json.loads(found) if isinstance(found, str) else found
    assert isinstance(found, dict)
    return found


def test_the_first_batch_runs_again_from_where_it_began(spark: SparkSession, tmp_path: Path) -> None:
    table, checkpoint = make(tmp_path), tmp_path / "c"
    put(table, 1)
    df = stream(spark, table, **ALL)
    with pytest.raises(PySparkException, match="the sink fails"):
        run(df, checkpoint, fail=True)
    put(table, 2)
    # It begins elsewhere now; what was begun is ended first.
    found = run(stream(spark, table, **LATEST), checkpoint)
    if not LIMITS_KNOWN:  # older PySpark runs one batch at a time
        found += run(stream(spark, table, **LATEST), checkpoint)
    assert keys_of(found) == [[1], [2]]


@limits_known
def test_limits_make_batches_of_so_much(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path)
    for n in range(4):
        put(table, 2 * n, 2 * n + 1)
    one_file = {"read.stream.maxFilesPerTrigger": "1"}
    assert keys_of(run(stream(spark, table, **one_file), tmp_path / "c1")) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    several = {**ALL, "read.stream.maxRowsPerTrigger": "100", "read.stream.maxFilesPerTrigger": "3"}
    assert list(map(len, run(stream(spark, table, **several), tmp_path / "c2"))) == [6, 2]
    patient = {**ALL, "read.stream.minRowsPerTrigger": "100", "read.stream.maxTriggerDelayMs": "600000"}
    assert list(map(len, run(stream(spark, table, **patient), tmp_path / "c3"))) == [8]


@limits_known
def test_a_trigger_once_reads_everything_whatever_the_limits(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path)
    for n in range(3):
        put(table, n)
    df = stream(spark, table, **ALL, **{"read.stream.maxFilesPerTrigger": "1"})
    assert keys_of(run(df, tmp_path / "c", once=True)) == [[0, 1, 2]]


@pytest.mark.quick
@limits_known
def test_aligned_batches_are_snapshots(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path, ("k",))
    put(table, 1, 2)
    put(table, 3)
    put(table, 1, v="b")
    aligned = {"read.stream.aligned": "true"}
    found = run(stream(spark, table, **ALL, **aligned), tmp_path / "c1")
    assert found == [[(1, "a"), (2, "a")], [(3, "a")], [(1, "b")]]
    two = {**aligned, "read.stream.aligned.snapshots": "2"}
    assert list(map(len, run(stream(spark, table, **ALL, **two), tmp_path / "c2"))) == [3, 1]


@pytest.mark.skipif(LIMITS_KNOWN, reason="of PySpark 4.1")
def test_older_pyspark_refuses_limits(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path)
    writer = stream(spark, table, **{"read.stream.aligned": "true"}).writeStream.format("noop")
    assert "need PySpark 4.2 or later" in failure(writer.start())


@pytest.mark.quick
def test_a_changelog_comes_with_kinds_and_without_them_deletes_stay_out(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path, ("k",), changelog_producer="lookup")
    put(table, 1, 2)
    put(table, 1, v="b")
    table.delete("k = 2")
    options = {**ALL, "read.changelog": "true"}
    (rows,) = run(stream(spark, table, **options), tmp_path / "c1")
    kinds = [("+I", 1, "a"), ("+I", 2, "a"), ("-U", 1, "a"), ("+U", 1, "b"), ("-D", 2, "a")]
    assert rows == sorted(kinds)
    assert run(stream(spark, table, **ALL), tmp_path / "c2") == [sorted(k[1:] for k in kinds if k[0][0] == "+")]


@pytest.mark.newest
def test_updates_of_a_key_come_in_order_in_one_task(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path, ("k",))
    for n in range(12):
        put(table, *range(6), v=f"{n:02}")
    found: list[tuple[int, int, str]] = []

    def keep(batch: DataFrame, _: int) -> None:
        from pyspark.sql.functions import spark_partition_id

        found.extend(map(tuple, batch.select(spark_partition_id(), "k", "v").collect()))

    options = {**ALL, "source.split.target-size": "1", "source.split.open-file-cost": "32 mb"}
    writer = stream(spark, table, **options).writeStream.foreachBatch(keep)
    assert writer.trigger(availableNow=True).start().awaitTermination(120)
    assert len({task for task, _, _ in found}) == 2
    for key in range(6):
        of_key = [(task, v) for task, k, v in found if k == key]
        assert [v for _, v in of_key] == [f"{n:02}" for n in range(12)]
        assert len({task for task, _ in of_key}) == 1


@pytest.mark.newest
def test_columns_where_and_schemas_choose_what_is_read(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path)
    put(table, 1, 2, 3, v="x")
    assert stream(spark, table, columns="v,k").columns == ["v", "k"]
    reader = spark.readStream.format("paimon").schema("v STRING, K DECIMAL(20,0)").option("where", "k > 1")
    (rows,) = run(reader.load(table.location), tmp_path / "c")
    assert [(v, int(k)) for v, k in rows] == [("x", 2), ("x", 3)]


@pytest.mark.newest
def test_progress_keeps_what_was_not_read(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path)
    put(table, 1)
    put(table, 2)
    options = {**ALL, "consumer-id": "me"}
    assert keys_of(run(stream(spark, table, **options), tmp_path / "c1")) == [[1, 2]]
    (consumer,) = table.consumers()
    assert (consumer.name, consumer.next_snapshot <= 3) == ("me", True)
    put(table, 3)
    put(table, 4)
    run(stream(spark, table, **options), tmp_path / "c1")
    (consumer,) = table.consumers()
    assert consumer.next_snapshot >= 3
    table.reset_consumer("me", next_snapshot=4)
    assert keys_of(run(stream(spark, table, **{"consumer-id": "me"}), tmp_path / "new")) == [[4]]


@pytest.mark.quick
def test_a_branch_is_followed_and_main_is_not(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path)
    put(table, 1)
    table.create_tag("t1")
    table.create_branch("fix", tag="t1")
    branch = table.branch("fix")
    put(branch, 2)
    put(table, 9)
    assert keys_of(run(stream(spark, table, branch="fix"), tmp_path / "c")) == [[1, 2]]
    put(branch, 3)
    put(table, 8)
    named = spark.readStream.format("paimon").load(f"{table.location}$branch_fix")
    assert keys_of(run(named, tmp_path / "c")) == [[3]]


@pytest.mark.newest
def test_a_start_that_has_expired_stops_no_restart(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path)
    put(table, 1)
    put(table, 2)
    assert keys_of(run(stream(spark, table, **ALL), tmp_path / "c")) == [[1, 2]]
    put(table, 3)
    table.expire_snapshots(retain_max=2, older_than=datetime.now(UTC))
    assert [s.id for s in table.snapshots()] == [2, 3]
    assert keys_of(run(stream(spark, table, **ALL), tmp_path / "c")) == [[3]]
    with pytest.raises(PySparkException, match="expired"):
        spark.read.format("paimon").option("scan.snapshot-id", "1").load(table.location).collect()
    writer = stream(spark, table, **ALL).writeStream.format("noop")
    text = failure(writer.trigger(availableNow=True).start())
    assert "SnapshotExpiredError" in text and "snapshot 1" in text


@pytest.mark.newest
def test_what_expired_unread_is_told(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path)
    put(table, 1)
    run(stream(spark, table), tmp_path / "c")
    for n in range(3):
        put(table, n)
    table.expire_snapshots(retain_max=1, older_than=datetime.now(UTC))
    writer = stream(spark, table).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
    text = failure(writer.trigger(availableNow=True).start())
    assert "SnapshotExpiredError" in text and "snapshot 2" in text and "consumer-id" in text


def test_a_roll_back_under_a_running_query_is_told(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path)
    put(table, 1)
    put(table, 2)
    writer = stream(spark, table).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
    query = writer.trigger(processingTime="100 milliseconds").start()
    try:
        query.processAllAvailable()
        table.rollback_to(1)
        put(table, 3)
        text = failure(query)
    finally:
        query.stop()
    assert "HistoryChangedError" in text
    assert "HistoryChangedError" in failure(writer.trigger(availableNow=True).start())


BAD_STREAMS: dict[str, tuple[dict[str, str], str, str]] = {
    "a system table": ({}, "$files", "is a system table, which is no stream; spark.read reads it"),
    "limits and alignment": (
        {"read.stream.aligned": "true", "read.stream.maxRowsPerTrigger": "1"},
        "",
        "read.stream.aligned = 'true' makes a micro-batch of whole snapshots",
    ),
    "a range": ({"incremental-between": "1,2"}, "", "cannot say where a stream begins"),
    "a version that does not exist": ({"scan.version": "nope"}, "", "has no version 'nope'"),
}


EACH_BAD_STREAM = [pytest.param(c, marks=() if "version" in c else pytest.mark.newest) for c in BAD_STREAMS]


@pytest.mark.parametrize("case", EACH_BAD_STREAM)
def test_what_streams_cannot_do_says_so(spark: SparkSession, case: str, tmp_path: Path) -> None:
    table = make(tmp_path)
    put(table, 1)
    put(table, 2)
    options, suffix, message = BAD_STREAMS[case]
    df = spark.readStream.format("paimon").options(**options).load(table.location + suffix)
    assert message in failure(df.writeStream.format("noop").trigger(availableNow=True).start())


@pytest.mark.quick
def test_a_misspelt_option_fails_at_load(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path)
    with pytest.raises(PySparkException, match=r"did you mean 'read\.stream\.aligned'"):
        stream(spark, table, **{"read.stream.alligned": "true"})
