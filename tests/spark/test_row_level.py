"""Table.delete, Table.update and Table.merge as Spark jobs, on every way in which rows go."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession

import paimon_spark
from paimon_spark.errors import (
    ColumnNotFoundError,
    CommitConflictError,
    DataError,
    InvalidInputError,
    PaimonError,
    UnsupportedFeatureError,
)
from tests.harness.marks import slow_except

pytestmark = [pytest.mark.spark, pytest.mark.newest]

KINDS: dict[str, dict[str, str]] = {
    "rewrite": {"partition": "dt"},
    "rewrite_buckets": {"bucket": "2", "bucket-key": "id"},
    "vectors": {"partition": "dt", "deletion-vectors.enabled": "true"},
    "keys": {"primary-key": "id", "bucket": "2"},
    "dynamic_keys": {"primary-key": "dt,id", "partition": "dt"},
    "row_ids": {"partition": "dt", "row-tracking.enabled": "true"},
    "row_ids_vectors": {"row-tracking.enabled": "true", "deletion-vectors.enabled": "true"},
    "evolution": {
        "row-tracking.enabled": "true",
        "data-evolution.enabled": "true",
        "deletion-vectors.enabled": "true",
    },
}


def made(spark: SparkSession, path: Path, kind: str) -> paimon_spark.Table:
    rows = spark.range(0, 60, numPartitions=3).selectExpr("id", "concat('p', id % 3) dt", "id * 2 v")
    rows.write.format("paimon").mode("append").options(**KINDS[kind]).save(str(path))
    return paimon_spark.load_table(str(path))


def found(spark: SparkSession, path: Path) -> dict[int, tuple[str, int]]:
    rows: list[Row] = spark.read.format("paimon").load(str(path)).collect()
    assert len({r.id for r in rows}) == len(rows)
    assert {(r.id, r.dt, r.v) for r in rows} == {
        tuple(r.values()) for r in paimon_spark.load_table(str(path)).scan().to_arrow().to_pylist()
    }
    return {r.id: (r.dt, r.v) for r in rows}


BEFORE = {i: (f"p{i % 3}", i * 2) for i in range(60)}


@pytest.mark.parametrize("kind", slow_except(KINDS, "rewrite", "vectors", "keys", "evolution"))
def test_rows_are_deleted_updated_and_merged(spark: SparkSession, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = made(spark, path, kind)
    head = table.snapshots()[-1].id

    result = table.delete("id % 10 = 3 or hash(id) = 17")
    assert result.snapshot_id == head + 1
    expected = {i: r for i, r in BEFORE.items() if i % 10 != 3}
    assert found(spark, path) == expected

    table.update("id < 20", {"V": "v + 1000", "dt": "dt"} if "keys" not in kind else {"V": "v + 1000"})
    expected = {i: (dt, v + 1000 if i < 20 else v) for i, (dt, v) in expected.items()}
    assert found(spark, path) == expected

    source = spark.createDataFrame(
        [(0, "p0", -1), (1, "p1", -2), (3, "p0", -3), (100, "p1", -4)], "id LONG, dt STRING, n LONG"
    )
    table.merge(
        source,
        "t.id = s.id and t.dt = s.dt",
        when_matched_delete="s.n = -2",
        when_matched_update={"v": "s.n * t.id - 7"},
        when_not_matched_insert={"id": "s.id", "dt": "s.dt", "v": "s.n"},
        when_not_matched_by_source_delete="t.id > 50",
    )
    expected = {i: r for i, r in expected.items() if i <= 50 and i != 1} | {
        0: ("p0", -7),
        3: ("p0", -3),
        100: ("p1", -4),
    }
    assert found(spark, path) == expected

    before = len(table.snapshots())
    assert table.delete("id = 12345").snapshot_ids == ()
    assert len(table.snapshots()) == before
    table.delete("true")
    assert found(spark, path) == {}


@pytest.mark.parametrize("kind", ["table", "reader", "pandas", "stream"])
def test_rows_in_memory_are_merged(spark: SparkSession, kind: str, tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path))
    catalog.create_database("db")
    moment = datetime(2024, 1, 1, 12, tzinfo=UTC)
    columns = "id BIGINT NOT NULL, name STRING, at TIMESTAMP, local TIMESTAMP_NTZ"
    table = catalog.create_table("db.t", columns, primary_keys=["id"], options={"bucket": 1})
    table.write(pa.table({"id": [1], "name": ["a"]}))
    rows = pa.table(
        {
            "id": pa.array([1, 2], pa.uint32()),
            "name": pa.array(["x", "y"]).dictionary_encode(),
            "at": pa.array([moment, None], pa.timestamp("ns", "Europe/Berlin")),
            "local": pa.array([moment.replace(tzinfo=None)] * 2, pa.timestamp("s")),
        }
    )
    source = {
        "table": lambda: rows,
        "reader": rows.to_reader,
        "pandas": rows.to_pandas,
        "stream": lambda: SimpleNamespace(__arrow_c_stream__=rows.__arrow_c_stream__),
    }[kind]()

    table.merge(source, "t.id = s.id", when_matched_update="*", when_not_matched_insert="*")

    local = moment.replace(tzinfo=None)
    assert sorted(tuple(r.values()) for r in table.scan().to_arrow().to_pylist()) == [
        (1, "x", moment, local),
        (2, "y", None, local),
    ]


def test_rows_that_are_not_a_table_cannot_be_merged(spark: SparkSession, tmp_path: Path) -> None:
    table = made(spark, tmp_path / "t", "keys")
    with pytest.raises(
        InvalidInputError, match=r"rows come as a Spark or pandas DataFrame, or as an Arrow.*found builtins\.list"
    ):
        table.merge([{"id": 1}], "t.id = s.id", when_matched_update="*")
    too_fine = pa.table({"id": [1], "at": pa.array([1], pa.timestamp("ns"))})
    with pytest.raises(InvalidInputError, match="the rows to merge do not fit Spark's types"):
        table.merge(too_fine, "t.id = s.id", when_matched_delete="true")
    assert found(spark, tmp_path / "t") == BEFORE


@pytest.mark.parametrize("kind", [k for k in KINDS if k.startswith("row_ids")])
def test_changed_rows_keep_their_ids(spark: SparkSession, kind: str, tmp_path: Path) -> None:
    table = made(spark, tmp_path / "t", kind)

    def ids() -> dict[int, tuple[int, int]]:
        rows = table.scan(columns=["id", "_ROW_ID", "_SEQUENCE_NUMBER"]).to_arrow().to_pylist()
        assert len({r["_ROW_ID"] for r in rows}) == len(rows)
        return {r["id"]: (r["_ROW_ID"], r["_SEQUENCE_NUMBER"]) for r in rows}

    before = ids()
    assert sorted(i for i, _ in before.values()) == list(range(60))
    table.update("id < 20", {"v": "v + 1000"})
    expected = {k: (i, 2 if k < 20 else s) for k, (i, s) in before.items()}
    assert ids() == expected
    table.update(f"_ROW_ID = {before[30][0]}", {"dt": "'moved'"})
    expected[30] = (before[30][0], 3)
    assert ids() == expected
    # The source has row ids too, as one that was read from the table has.
    source = table.scan(columns=["id", "_ROW_ID"]).to_spark().where("id < 3")
    more = spark.createDataFrame([(100, None)], "id LONG, _ROW_ID LONG")
    table.merge(
        source.union(more),
        "t._ROW_ID = s._ROW_ID",
        when_matched_delete="s.id = 2",
        when_matched_update={"v": "-1"},
        when_not_matched_insert={"id": "s.id", "dt": "'p0'", "v": "0"},
    )
    del expected[2]
    assert ids() == {**expected, 0: (before[0][0], 4), 1: (before[1][0], 4), 100: (60, 4)}
    table.compact(full=True)
    assert ids() == {**expected, 0: (before[0][0], 4), 1: (before[1][0], 4), 100: (60, 4)}


FINE: dict[str, dict[str, str]] = {
    "rewrite": {},
    "vectors": {"deletion-vectors.enabled": "true"},
    "row_ids": {"row-tracking.enabled": "true"},
    "evolution": KINDS["evolution"],
    "keys": {"primary-key": "id", "bucket": "2"},
    "keys_sequence": {"primary-key": "id", "bucket": "2", "sequence.field": "t"},
    "partial_update": {
        "primary-key": "id",
        "bucket": "1",
        "merge-engine": "partial-update",
        "partial-update.remove-record-on-delete": "true",
    },
}
NANOS = 1_700_000_000_123_456_789


@pytest.mark.parametrize("kind", slow_except(FINE, "keys"))
def test_nanoseconds_survive_changes_of_other_columns(spark: SparkSession, kind: str, tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path))
    catalog.create_database("db")
    options = dict(FINE[kind])
    keys = [options.pop("primary-key")] if "primary-key" in options else []
    columns = [
        ("id", pa.int64()), ("t", pa.timestamp("ns")), ("z", pa.timestamp("ns", "UTC")), ("v", pa.string())
    ]  # fmt: skip
    table = catalog.create_table("db.t", pa.schema(columns), primary_keys=keys, options=options)
    rows = {i: (None if i == 3 else NANOS + i, NANOS // 100 * 100 + 100 * i, "a") for i in range(8)}
    given = [(i, *r) for i, r in rows.items()]
    arrays = [pa.array([g[n] for g in given], pa.int64()).cast(columns[n][1]) for n in range(3)]
    table.write(pa.table([*arrays, pa.array(["a"] * 8)], schema=pa.schema(columns)))

    def found() -> dict[int, list[int | str | None]]:
        read = table.scan().to_arrow()
        t, z = (read[n].cast(pa.int64()).to_pylist() for n in ("t", "z"))
        return {i: r for i, *r in zip(read["id"].to_pylist(), t, z, read["v"].to_pylist(), strict=True)}

    expected: dict[int, list[int | str | None]] = {i: list(r) for i, r in rows.items()}
    assert found() == expected
    table.update("id in (1, 3)", {"v": "'new'"})
    for i in (1, 3):
        expected[i][2] = "new"
    assert found() == expected
    catalog.sql("UPDATE db.t SET v = concat(v, '!') WHERE id = 2", session=spark)
    expected[2][2] = "a!"
    assert found() == expected
    source = spark.createDataFrame([(4, "s"), (5, "x"), (100, "n")], "id LONG, n STRING")
    stamp = "timestamp_ntz'2024-01-01 00:00:00.000001'"
    table.merge(
        source,
        "t.id = s.id",
        when_matched_delete="s.n = 'x'",
        when_matched_update={"v": "s.n"},
        when_not_matched_insert={"id": "s.id", "t": stamp, "z": "cast(0 as timestamp)", "v": "s.n"},
        when_not_matched_by_source_delete="t.id = 0",
    )
    del expected[0], expected[5]
    expected[4][2] = "s"
    expected[100] = [1_704_067_200_000_001_000, 0, "n"]
    assert found() == expected
    if "sequence" not in kind:
        table.update("id = 6", {"t": stamp})
        expected[6][0] = 1_704_067_200_000_001_000
        assert found() == expected
    table.delete("id = 7")
    del expected[7]
    table.compact(full=True)
    assert found() == expected


def test_nanoseconds_that_would_be_lost_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    fine = pa.timestamp("ns")
    rows = pa.table({"id": pa.array([1], pa.int64()), "t": pa.array([NANOS], fine), "v": ["a"]})
    nested = rows.append_column("n", pa.array([[NANOS]], pa.list_(fine)))
    catalog = paimon_spark.load_catalog(str(tmp_path))
    catalog.create_database("db")
    keyed = catalog.create_table("db.keyed", rows.schema, primary_keys=["t"], options={"bucket": "2"})
    inside = catalog.create_table("db.inside", nested.schema)
    evolves = catalog.create_table("db.evolves", nested.schema, options=KINDS["evolution"])
    for table, given in ((keyed, rows), (inside, nested), (evolves, nested)):
        table.write(given)
    with pytest.raises(UnsupportedFeatureError, match=r"column t of .* is part of the primary key"):
        keyed.update("id = 1", {"v": "'x'"})
    source = spark.createDataFrame([(1, "x")], "id LONG, v STRING")
    with pytest.raises(UnsupportedFeatureError, match=r"column t of .* is part of the primary key"):
        keyed.merge(source, "t.id = s.id", when_matched_delete="true")
    with pytest.raises(UnsupportedFeatureError, match=r"column n of .* holds them inside other values"):
        inside.merge(source, "t.id = s.id", when_matched_update={"v": "s.v"})
    evolves.merge(source, "t.id = s.id", when_matched_update={"v": "s.v"})
    for table, v in ((keyed, "a"), (inside, "a"), (evolves, "x")):
        read = table.scan().to_arrow()
        assert (read["t"].cast(pa.int64()).to_pylist(), read["v"].to_pylist()) == ([NANOS], [v])


@pytest.mark.quick
def test_a_merge_of_all_columns_is_an_upsert(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = made(spark, path, "keys")
    source = spark.createDataFrame([(1, "p9", -1), (100, "p1", -2)], "id LONG, dt STRING, v LONG")
    with pytest.raises(InvalidInputError, match="column id is part of the primary key"):
        table.merge(source, "t.id = s.id + 1", when_matched_update="*")
    assert found(spark, path) == BEFORE
    table.merge(source, "t.id = s.id", when_matched_update="*", when_not_matched_insert="*")
    assert found(spark, path) == BEFORE | {1: ("p9", -1), 100: ("p1", -2)}


@pytest.mark.quick
def test_deleted_values_do_not_come_back_and_rows_that_would_stay_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    sums = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    groups = {"merge-engine": "partial-update", "fields.dt.sequence-group": "v"}
    for name, options in (
        ("sums", {**sums, "aggregation.remove-record-on-delete": "true"}),
        ("groups", {**groups, "partial-update.remove-record-on-sequence-group": "dt"}),
    ):
        rows = spark.createDataFrame([(1, "a", 5), (2, None, 6)], "id LONG, dt STRING, v LONG")
        keyed = {"primary-key": "id", "bucket": "1", **options}
        rows.write.format("paimon").mode("append").options(**keyed).save(str(tmp_path / name))
    table = paimon_spark.load_table(str(tmp_path / "sums"))
    table.delete("id = 1")
    table.write(spark.createDataFrame([(1, "b", 3)], "id LONG, dt STRING, v LONG"))
    assert found(spark, tmp_path / "sums") == {1: ("b", 3), 2: (None, 6)}
    table = paimon_spark.load_table(str(tmp_path / "groups"))
    with pytest.raises(UnsupportedFeatureError, match="null in dt"):
        table.delete("id < 3")
    with pytest.raises(UnsupportedFeatureError, match="sequence group"):
        table.update(None, {"v": "1"})
    table.delete("id = 1")
    assert list(found(spark, tmp_path / "groups")) == [2]


@pytest.mark.parametrize("kind", slow_except(["rewrite", "keys"], "keys"))
def test_what_cannot_be_leaves_the_table_as_it_is(spark: SparkSession, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = made(spark, path, kind)
    files = {p for p in path.rglob("*") if p.is_file()}
    twice = spark.createDataFrame([(1, "p1", 5), (1, "p1", 6)], "id LONG, dt STRING, v LONG")
    with pytest.raises(DataError, match="several rows of the source"):
        table.merge(twice, "t.id = s.id", when_matched_update="*" if kind == "rewrite" else {"v": "s.v"})
    with pytest.raises(ColumnNotFoundError, match="did you mean 'dt'"):
        table.update(None, {"dtt": "1"})
    with pytest.raises(InvalidInputError, match="merge has no clause"):
        table.merge(twice, "t.id = s.id")
    with pytest.raises(PaimonError):
        table.update("id = 3", {"v": "'text'"})
    if kind == "keys":
        with pytest.raises(InvalidInputError, match="primary key"):
            table.update(None, {"id": "id + 1"})
    assert found(spark, path) == BEFORE
    assert {p for p in path.rglob("*") if p.is_file()} == files


@pytest.mark.parametrize("kind", ["rewrite", "vectors"])
def test_rows_deleted_by_others_while_they_are_read_do_not_come_back(
    spark: SparkSession, kind: str, tmp_path: Path
) -> None:
    path, marker = tmp_path / "t", tmp_path / "deleted"
    table = made(spark, path, kind)

    def slowly(value: int) -> int:
        with suppress(FileExistsError):
            marker.mkdir()
            paimon_spark.load_table(str(path)).delete("id = 6")
        return value + 1000

    spark.udf.register("slowly", slowly, "long")
    with pytest.raises(CommitConflictError):
        table.update("id < 10", {"v": "slowly(v)"})
    assert marker.exists()
    assert found(spark, path) == {i: r for i, r in BEFORE.items() if i != 6}


@pytest.mark.quick
def test_partial_updates_and_row_kinds_are_respected(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(1, "a", "+I"), (2, "b", "+I"), (3, "c", "+I")], "id INT, v STRING, op STRING")
    options = {"primary-key": "id", "bucket": "1", "merge-engine": "partial-update"}
    rows.write.format("paimon").mode("append").options(**options).save(str(tmp_path / "p"))
    partial = paimon_spark.load_table(str(tmp_path / "p"))
    with pytest.raises(UnsupportedFeatureError, match="set to null"):
        partial.update("id = 1", {"v": "if(id = 1, null, v)"})
    partial.update("id = 1", {"v": "upper(v)"})
    with pytest.raises(UnsupportedFeatureError, match=r"compact the table fully first.*remove-record-on-delete"):
        partial.delete("id = 1")
    assert [r.v for r in spark.read.format("paimon").load(partial.location).orderBy("id").collect()] == ["A", "b", "c"]

    kinds = {"primary-key": "id", "bucket": "1", "rowkind.field": "op"}
    rows.write.format("paimon").mode("append").options(**kinds).save(str(tmp_path / "k"))
    table = paimon_spark.load_table(str(tmp_path / "k"))
    table.delete("id = 1")
    table.update("id = 2", {"v": "upper(v)"})
    assert [r.v for r in spark.read.format("paimon").load(table.location).orderBy("id").collect()] == ["B", "c"]


BESIDE_FALLBACK: dict[str, dict[str, str]] = {
    "rewrite": {},
    "vectors": {"deletion-vectors.enabled": "true"},
    "keys": {"primary-key": "dt,id", "bucket": "1"},
}


@pytest.mark.parametrize("kind", slow_except(BESIDE_FALLBACK, "vectors"))
def test_a_change_reaches_no_row_of_a_fallback_branch_and_reveals_none(
    spark: SparkSession, kind: str, tmp_path: Path
) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path))
    catalog.create_database("db")
    options = {**BESIDE_FALLBACK[kind]}
    keys = [k for k in options.pop("primary-key", "").split(",") if k]
    table = catalog.create_table("db.t", "id INT, dt STRING", primary_keys=keys, partition_keys=["dt"], options=options)
    table.create_branch("b", empty=True)
    table.alter(set_options={"scan.fallback-branch": "b"})
    table = catalog.table("db.t")

    def sql(text: str) -> Any:
        return catalog.sql(text, session=spark)

    sql("INSERT INTO db.`t$branch_b` VALUES (10, 'x'), (20, 'y'), (21, 'y')")
    sql("INSERT INTO db.t VALUES (1, 'x'), (2, 'x'), (3, 'm')")
    source = spark.createDataFrame([(20, "y")], "id INT, dt STRING")
    both = "t.id = s.id and t.dt = s.dt"

    def seen() -> list[int]:
        return sorted(r.id for r in sql("SELECT id FROM db.t").collect())

    unreached: list[Callable[[], object]] = [
        lambda: table.delete("id % 20 = 0"),
        lambda: sql("DELETE FROM db.t WHERE id > 20"),
        lambda: sql("DELETE FROM db.t WHERE dt = 'y'"),
        lambda: table.merge(source, both, when_matched_delete="true"),
        lambda: sql("TRUNCATE TABLE db.t PARTITION (dt = 'y')"),
        lambda: sql("INSERT OVERWRITE db.t PARTITION (dt = 'y') SELECT 1 WHERE false"),
    ]
    if kind != "keys":
        unreached += [
            lambda: table.update("id = 20", {"id": "22"}),
            lambda: table.merge(source, both, when_matched_update="*"),
        ]
    for act in unreached:
        with pytest.raises(UnsupportedFeatureError, match=r"partition dt=y .* are read from branch 'b'"):
            act()
    revealing: list[Callable[[], object]] = [
        lambda: table.delete("id < 3"),
        lambda: sql("DELETE FROM db.t WHERE dt = 'x'"),
        lambda: sql("DELETE FROM db.t WHERE id IN (1, 2, 3) AND hash(id) <> 0"),
        lambda: sql("TRUNCATE TABLE db.t"),
        lambda: sql("ALTER TABLE db.t DROP PARTITION (dt = 'x')"),
        lambda: sql("INSERT OVERWRITE db.t PARTITION (dt = 'x') SELECT 1 WHERE false"),
    ]
    if kind != "keys":
        revealing.append(lambda: table.update("dt = 'x'", {"dt": "'m'"}))
    for act in revealing:
        with pytest.raises(
            UnsupportedFeatureError, match=r"partition dt=x .* is to be emptied, and the rows that branch"
        ):
            act()
    assert seen() == [1, 2, 3, 20, 21] and len(table.snapshots()) == 1
    table.delete("id = 1 or hash(id) = 17")
    table.merge(source, "t.id = s.id + 100", when_matched_delete="true", when_not_matched_by_source_delete="t.id = 3")
    if kind != "keys":
        table.update("id = 2", {"id": "5", "dt": "'x'"})
    assert seen() == [2 if kind == "keys" else 5, 20, 21]
