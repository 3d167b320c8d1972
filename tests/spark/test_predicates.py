"""Conditions of our reads and of Spark itself keep the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.errors import DataError, PredicateSyntaxError, UnsupportedFeatureError
from paimon_spark.predicate.arrow import matches
from paimon_spark.predicate.parse import parse_predicate
from tests.harness.conditions import ROW_TYPE, ZONE, RandomConditions, make_rows, true_in_spark
from tests.harness.search import NIGHTLY, PROFILE, SEARCH_FACTOR

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

COUNT = 100
SETTINGS = {
    "spark.sql.session.timeZone": ZONE,
    # Compiling so many expressions takes longer than evaluating them.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    before = {key: spark.conf.get(key, None) for key in SETTINGS}
    for key, text in SETTINGS.items():
        spark.conf.set(key, text)
    yield spark
    for key, former in before.items():
        if former is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, former)


def ours(condition: str, batch: pa.RecordBatch) -> list[int] | None:
    """The rows that a condition keeps; None for one that is refused or an error."""
    try:
        mask = matches(parse_predicate(condition, ROW_TYPE, ZONE), batch)
    except (PredicateSyntaxError, DataError):
        return None
    return [n for n, hit in enumerate(mask.to_pylist()) if hit]


@pytest.mark.newest
def test_random_conditions_keep_the_same_rows_as_in_spark(session: SparkSession, tmp_path: Path) -> None:
    seed, count = 11, COUNT * (SEARCH_FACTOR if PROFILE == NIGHTLY else 1)
    batch = make_rows(session, 40, seed, str(tmp_path / "rows"))
    made = RandomConditions(seed)
    found = {c: ours(c, batch) for c in (made.condition() for _ in range(count))}
    taken = [c for c, ids in found.items() if ids is not None]
    assert len(taken) > len(found) * 0.8
    # Spark evaluates constants before rows, and with them errors that no row would meet.
    without_error = {c: ids for c, ids in true_in_spark(session, taken).items() if not isinstance(ids, str)}
    assert len(without_error) > len(taken) * 0.95
    assert without_error == {c: found[c] for c in without_error}


@pytest.mark.quick
def test_reads_of_a_table_take_functions_and_columns(session: SparkSession, tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path / "wh"))
    catalog.create_database("db")
    table = catalog.create_table("db.t", "id INT, s STRING, a INT, b INT, at TIMESTAMP")
    data = session.sql(
        "SELECT * FROM VALUES (1, 'x', 1, 1, TIMESTAMP '2024-03-09 23:30:00'), (2, 'Y', 2, 1, "
        "TIMESTAMP '2024-03-10 01:30:00'), (3, 'y', 0, 5, NULL) AS t(id, s, a, b, at)"
    )
    table.write(data)
    reader = session.read.format("paimon").option("time-zone", ZONE)
    for where, ids in {
        "upper(s) = 'Y'": {2, 3},
        "a = b": {1},
        "a <> 0 AND b / a < 1": {2},
        "date(at) = DATE '2024-03-10'": {2},
        "date_trunc('day', at) = TIMESTAMP '2024-03-09 00:00:00'": {1},
        "s = 'it''s' OR s RLIKE '^[xY]$'": {1, 2},
    }.items():
        frame = reader.option("where", where).load(table.location)
        assert {row.id for row in frame.collect()} == ids, where
        assert {row.id for row in table.scan(where=where, **{"time-zone": ZONE}).to_spark().collect()} == ids


def test_sql_leaves_functions_in_a_delete_to_spark(session: SparkSession, tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path / "wh"))
    catalog.create_database("db")
    schema = pa.schema([("id", pa.int32()), ("s", pa.string()), ("p", pa.int32())])
    table = catalog.create_table("db.t", schema, partition_keys=("p",))
    table.write(pa.table([[1, 2, 3], ["a", "B", "it's"], [0, 1, 2]], schema=schema))
    catalog.sql("DELETE FROM db.t WHERE upper(s) = 'B' OR p + 1 = 1")
    catalog.sql("DELETE FROM db.t WHERE s = 'it''s' AND p = 0")
    assert [row.id for row in catalog.sql("SELECT id FROM db.t").collect()] == [3]
    fine = catalog.create_table("db.fine", pa.schema([("id", pa.int32()), ("at", pa.timestamp("ns"))]))
    fine.write(pa.table({"id": pa.array([1], pa.int32()), "at": pa.array([1], pa.timestamp("ns"))}))
    with pytest.raises(UnsupportedFeatureError, match=r"call Table[.]delete, which evaluates them in ANSI mode"):
        catalog.sql("DELETE FROM db.fine WHERE id + 1 = 2")
    fine.delete("id + 1 = 2")
    assert fine.scan().to_arrow().num_rows == 0
