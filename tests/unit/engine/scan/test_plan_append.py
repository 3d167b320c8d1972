"""Plans of tables without keys: packing of files into splits, and pruning by partitions and statistics."""

from __future__ import annotations

import pickle

import pytest

from paimon_spark.engine.scan.plan import Plan, plan_batch
from paimon_spark.engine.scan.query import Reason, ScanQuery
from paimon_spark.engine.tasks import SplitMode
from paimon_spark.errors import ColumnNotFoundError, CorruptFileError, UnsupportedFeatureError
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INT,
    STRING,
    CharType,
    DataField,
    DecimalType,
    OpaqueType,
    RowType,
    TimestampType,
)
from tests.harness.table_builder import File, TableBuilder

ROW = RowType(
    False,
    (DataField(0, "id", INT), DataField(1, "s", STRING), DataField(2, "x", DOUBLE), DataField(3, "dt", STRING)),
)
PLAIN = TableSchema(0, ROW, 3, options={"bucket": "-1"})
BY_DAY = TableSchema(0, ROW, 3, partition_keys=("dt",), options={"bucket": "-1"})
BUCKETED = TableSchema(0, ROW, 3, options={"bucket": "4", "bucket-key": "id"})


def plan(table: TableBuilder, where: str | None = None, **query: object) -> Plan:
    CACHE.clear()
    handle = table.open()
    predicate = None if where is None else parse_predicate(where, handle.schema.row_type, "UTC")
    return plan_batch(handle, table.last, ScanQuery(predicate=predicate, **query))  # type: ignore[arg-type]


def names(p: Plan) -> list[str]:
    return [f.file_name for s in p.splits for f in s.files]


def skipped(p: Plan) -> dict[Reason, int]:
    return {s.reason: s.files for s in p.report.skipped}


def test_files_of_a_bucket_are_packed_oldest_first() -> None:
    t = TableBuilder(PLAIN)
    t.commit(File("c", sequence=(20, 29)), File("a", sequence=(0, 9)), File("b", sequence=(10, 19)))
    p = plan(t)
    assert names(p) == ["a", "b", "c"]
    assert [s.mode for s in p.splits] == [SplitMode.RAW]
    assert p.splits[0].bucket_path == f"{t.table.root}/bucket-0"
    assert p.row_count == 30


def test_a_split_is_closed_before_it_grows_too_heavy() -> None:
    t = TableBuilder(TableSchema(0, ROW, 3, options={
        "bucket": "-1", "source.split.target-size": "10 b", "source.split.open-file-cost": "4 b"
    }))  # fmt: skip
    t.commit(*(File(f"f{i}", size=size, sequence=(i, i)) for i, size in enumerate([1, 5, 3, 20, 2, 4])))
    assert [[f.file_size for f in s.files] for s in plan(t).splits] == [[1, 5], [3], [20], [2, 4]]


def test_partitions_and_buckets_are_not_mixed() -> None:
    t = TableBuilder(BY_DAY)
    t.commit(File("a", {"dt": "x"}), File("b", {"dt": "y"}), File("c", {"dt": "x"}), File("d", {"dt": None}))
    p = plan(t)
    assert sorted(sorted(f.file_name for f in s.files) for s in p.splits) == [["a", "c"], ["b"], ["d"]]
    by_file = {s.files[0].file_name: s for s in p.splits}
    assert by_file["b"].bucket_path == f"{t.table.root}/dt=y/bucket-0"
    assert by_file["d"].bucket_path == f"{t.table.root}/dt=__DEFAULT_PARTITION__/bucket-0"
    assert by_file["b"].partition == t.partition({"dt": "y"})


def test_deleted_files_are_gone() -> None:
    t = TableBuilder(PLAIN)
    a, b = File("a"), File("b")
    t.commit(a, b)
    t.commit(File("c"), deletes=[a])
    assert sorted(names(plan(t))) == ["b", "c"]


def test_a_partition_is_found_without_opening_the_manifests_of_others() -> None:
    t = TableBuilder(BY_DAY)
    for day in "abcd":
        t.commit(File(f"f-{day}", {"dt": day}), File(f"g-{day}", {"dt": day}))
    p = plan(t, "dt = 'c' AND id >= 0")
    assert sorted(names(p)) == ["f-c", "g-c"]
    assert (p.report.manifests, p.report.manifests_skipped, p.report.files_in_skipped) == (4, 3, 6)


def test_partition_conditions_are_exact_where_statistics_of_manifests_are_not() -> None:
    t = TableBuilder(BY_DAY)
    t.commit(*(File(f"f-{day}", {"dt": day}) for day in ["a", "b", "c", None]))
    assert names(plan(t, "dt = 'b'")) == ["f-b"]
    assert names(plan(t, "dt IS NULL")) == ["f-None"]
    assert sorted(names(plan(t, "dt IN ('a', 'c') AND dt <> 'a'"))) == ["f-c"]
    assert sorted(names(plan(t, "NOT dt = 'b'"))) == ["f-a", "f-c"]
    assert skipped(plan(t, "dt = 'b'")) == {Reason.PARTITION: 3}


def test_a_manifest_with_the_deletion_of_a_wanted_file_is_opened() -> None:
    t = TableBuilder(BY_DAY)
    gone = File("gone", {"dt": "b"})
    t.commit(gone, File("a", {"dt": "a"}))
    t.commit(File("c", {"dt": "c"}), deletes=[gone])
    assert names(plan(t, "dt = 'b'")) == []


def test_conditions_over_partition_and_column_together_use_both() -> None:
    t = TableBuilder(BY_DAY)
    for day, low in (("a", 0), ("b", 100)):
        t.commit(File(f"f-{day}", {"dt": day}, low={"id": low}, high={"id": low + 9}, nulls={"id": 0}))
    assert names(plan(t, "(dt = 'a' AND id = 5) OR (dt = 'b' AND id = 5)")) == ["f-a"]
    assert skipped(plan(t, "dt = 'a' AND id = 50")) == {Reason.STATISTICS: 1}


def test_statistics_skip_files() -> None:
    t = TableBuilder(PLAIN)
    t.commit(
        *(File(f"f{i}", low={"id": 10 * i}, high={"id": 10 * i + 9}, nulls={"id": i % 2}) for i in range(5)),
        File("unknown"),
    )
    assert names(plan(t, "id = 25")) == ["f2", "unknown"]
    assert names(plan(t, "id < 0")) == ["unknown"]
    assert names(plan(t, "id IS NULL")) == ["f1", "f3", "unknown"]
    assert skipped(plan(t, "id = 25")) == {Reason.STATISTICS: 4}


def test_statistics_of_some_columns_only_are_matched_by_name() -> None:
    t = TableBuilder(PLAIN)
    bounds = {"low": {"id": 1, "s": "a"}, "high": {"id": 5, "s": "f"}, "nulls": {"id": 0, "s": 0}}
    t.commit(
        File("all", **bounds),  # type: ignore[arg-type]
        File("s-only", stats_cols=("s",), **bounds),  # type: ignore[arg-type]
        File("s-id", stats_cols=("s", "id"), **bounds),  # type: ignore[arg-type]
        File("none", stats_cols=(), **bounds),  # type: ignore[arg-type]
        File("other", stats_cols=("x",), **bounds),  # type: ignore[arg-type]
    )
    assert names(plan(t, "s = 'z'")) == ["none", "other"]
    assert names(plan(t, "id = 9")) == ["s-only", "none", "other"]
    assert names(plan(t, "id = 9 AND s = 'z'")) == ["none", "other"]
    assert len(names(plan(t, "id = 2 AND s = 'b'"))) == 5


@pytest.mark.parametrize("high", ["x" * 15 + "y", None], ids=["rounded up", "cannot be rounded up"])
def test_text_bounds_that_were_cut_short_are_not_values(high: str | None) -> None:
    """`metadata.stats-mode = truncate(16)`: every row of the file holds 20 times x."""
    t = TableBuilder(PLAIN)
    t.commit(File("f", low={"s": "x" * 16}, high={"s": high}, nulls={"s": 0}))
    full, cut = "x" * 20, "x" * 16
    for where in (f"s = '{full}'", f"s <> '{cut}'", f"s > '{cut}'", f"s LIKE '{full}%'", f"s NOT IN ('{cut}')"):
        assert names(plan(t, where)) == ["f"], where
    assert names(plan(t, "s IS NULL")) == []


def test_buckets_follow_from_equality_on_the_bucket_key() -> None:
    t = TableBuilder(BUCKETED)
    t.commit(*(File(f"f{b}", bucket=b, total_buckets=4) for b in range(4)))
    # hashes of INT 0, 1 and -1 lie in buckets 3, 2 and 3 of 4
    assert names(plan(t, "id = 1")) == ["f2"]
    assert names(plan(t, "id = 0")) == ["f3"]
    assert sorted(names(plan(t, "id IN (0, 1)"))) == ["f2", "f3"]
    assert sorted(names(plan(t, "id = 0 OR id = 1"))) == ["f2", "f3"]
    assert names(plan(t, "id IN (0, 1) AND id = 1")) == ["f2"]
    assert len(names(plan(t, "id = 1 OR s = 'x'"))) == 4
    assert len(names(plan(t, "id > 1"))) == 4
    assert names(plan(t, "id IN (0, 1) AND id = 7")) == []
    assert skipped(plan(t, "id = 1")) == {Reason.BUCKET: 3}


def test_each_partition_has_its_own_number_of_buckets() -> None:
    t = TableBuilder(BUCKETED)
    t.commit(*(File(f"old{b}", bucket=b, total_buckets=16) for b in range(16)))
    t.commit(*(File(f"new{b}", bucket=b, total_buckets=4) for b in range(4)), File("unknown", total_buckets=-1))
    assert sorted(names(plan(t, "id = 1"))) == ["new2", "old14", "unknown"]


def test_buckets_are_not_told_from_a_key_that_had_another_type() -> None:
    t = TableBuilder(BUCKETED)
    t.commit(*(File(f"f{b}", bucket=b, total_buckets=4) for b in range(4)))
    t.evolve(TableSchema(1, RowType(False, (DataField(0, "id", BIGINT), *ROW.fields[1:])), 3, options=BUCKETED.options))
    t.commit(*(File(f"g{b}", bucket=b, total_buckets=4, schema_id=1) for b in range(4)))
    assert sorted(names(plan(t, "id = -1"))) == ["f0", "f1", "f2", "f3", "g0"]


def test_statistics_follow_columns_through_renames_and_type_changes() -> None:
    t = TableBuilder(PLAIN)
    old = File(
        "old", low={"id": 1, "s": "a", "x": 1.0}, high={"id": 9, "s": "c", "x": 2.0}, nulls={"id": 0, "s": 0, "x": 0}
    )
    t.commit(old)
    new_row = RowType(
        False,
        (
            DataField(1, "id", STRING),  # s, renamed
            DataField(0, "number", BIGINT),  # id, renamed and widened
            DataField(2, "x", INT),  # narrowed: bounds say nothing
            DataField(3, "dt", STRING),
            DataField(4, "added", INT),
        ),
    )
    t.evolve(TableSchema(1, new_row, 4, options={"bucket": "-1"}))
    t.commit()
    assert names(plan(t, "number = 5")) == ["old"]
    assert names(plan(t, "number = 50")) == []
    assert names(plan(t, "id = 'b'")) == ["old"]
    assert names(plan(t, "id = 'z'")) == []
    assert names(plan(t, "x = 7")) == ["old"]
    assert names(plan(t, "added = 1")) == []
    assert names(plan(t, "added IS NULL")) == ["old"]


@pytest.mark.parametrize(
    ("stored", "wanted", "value", "where", "keeps"),
    [
        (DecimalType(True, 5, 2), DecimalType(True, 10, 4), "1.25", "c = 1.26", False),
        (DecimalType(True, 10, 4), DecimalType(True, 5, 2), "1.2567", "c = 1.26", True),
        (TimestampType(True, 3), TimestampType(True, 6), None, "c IS NOT NULL", False),
        (STRING, INT, None, "c = 1", True),
    ],
)
def test_only_safe_type_changes_keep_bounds(
    stored: object, wanted: object, value: str | None, where: str, keeps: bool
) -> None:
    from decimal import Decimal

    row = RowType(False, (DataField(0, "c", stored),))  # type: ignore[arg-type]
    t = TableBuilder(TableSchema(0, row, 0, options={"bucket": "-1"}))
    bound = None if value is None else Decimal(value)
    t.commit(File("f", low={"c": bound}, high={"c": bound}, nulls={"c": 10 if bound is None else 0}))
    t.evolve(TableSchema(1, RowType(False, (DataField(0, "c", wanted),)), 0, options={"bucket": "-1"}))  # type: ignore[arg-type]
    t.commit()
    assert bool(names(plan(t, where))) is keeps


def test_dates_of_partitions_are_named_and_compared_as_dates() -> None:
    row = RowType(False, (DataField(0, "id", INT), DataField(1, "day", DATE)))
    from datetime import date

    t = TableBuilder(TableSchema(0, row, 1, partition_keys=("day",), options={"bucket": "-1"}))
    t.commit(*(File(f"f{d}", {"day": date(2024, 1, d)}) for d in (1, 2, 3)))
    p = plan(t, "day >= '2024-01-03'")
    assert names(p) == ["f3"]
    assert p.splits[0].bucket_path.endswith("/day=19725/bucket-0")


def test_deletion_vectors_go_with_their_files() -> None:
    t = TableBuilder(PLAIN)
    t.commit(File("a", sequence=(0, 1)), File("b", sequence=(2, 3)), vectors={"b": (1, 3)})
    (split,) = plan(t).splits
    assert split.deletions[0] is None
    assert split.deletions[1] is not None
    assert (split.deletions[1].path, split.deletions[1].offset) == (f"{t.table.root}/index/index-0", 1)
    assert split.deletions[1].cardinality == 3
    assert plan(t, "id = 1").splits[0].deletions == split.deletions


def test_a_limit_stops_at_files_that_surely_hold_enough() -> None:
    t = TableBuilder(TableSchema(0, ROW, 3, options={"bucket": "-1", "source.split.target-size": "1 b"}))
    t.commit(*(File(f"f{i}", sequence=(i, i)) for i in range(4)), vectors={"f0": (1, 6)})
    assert names(plan(t, limit=10)) == ["f0", "f1"]
    assert skipped(plan(t, limit=10)) == {Reason.LIMIT: 2}
    assert len(names(plan(t, "id = 1", limit=1))) == 4
    t.commit(vectors={"f0": (1, None)})
    assert names(plan(t, limit=10)) == ["f0", "f1"]
    assert len(names(plan(t, limit=100))) == 4


def test_an_empty_table_has_an_empty_plan() -> None:
    t = TableBuilder(PLAIN)
    p = plan(t, "id = 1")
    assert p.splits == ()
    assert p.row_type == ROW
    assert p.requests["main"].columns == ROW.names


def test_the_plan_explains_itself() -> None:
    t = TableBuilder(BY_DAY)
    for day in "ab":
        t.commit(*(File(f"f-{day}{i}", {"dt": day}, low={"id": i}, high={"id": i}, nulls={"id": 0}) for i in range(3)))
    text = str(plan(t, "dt = 'b' AND id = 1", columns=("id",)))
    assert text.splitlines()[0].endswith("/t, branch main, snapshot 2") or "db.t, branch main, snapshot 2" in text
    for line in (
        "columns: id",
        "where: dt = 'b' AND id = 1",
        "manifests: 1 of 2 opened, 1 skipped by their statistics (3 files)",
        "files: 1 of 3 read, 1000 bytes of 2.9 KiB",
        "skipped by file statistics: 2 files, 2.0 KiB",
        "splits: 1 (1 raw), at most 10 rows",
    ):
        assert line in text


def test_plans_survive_pickling_and_are_remembered() -> None:
    t = TableBuilder(BY_DAY)
    t.commit(File("a", {"dt": "x"}))
    first = plan(t)
    assert plan_batch(t.open(), t.last, ScanQuery()) is first
    assert plan_batch(t.open(), t.last, ScanQuery(batch_rows=7)) is not first
    copied = pickle.loads(pickle.dumps((first.splits, first.requests)))
    assert copied[0] == first.splits
    t.commit(File("b", {"dt": "x"}))
    assert len(names(plan_batch(t.open(), t.last, ScanQuery()))) == 2


def test_statistics_stay_behind_so_that_splits_are_small() -> None:
    t = TableBuilder(PLAIN)
    t.commit(File("a", low={"s": "x" * 1000}, high={"s": "y" * 1000}))
    assert len(pickle.dumps(plan(t).splits)) < 1200


def test_unknown_columns_and_unreadable_types_are_refused() -> None:
    row = RowType(False, (*ROW.fields, DataField(9, "blob", OpaqueType(True, "BLOB"))))
    t = TableBuilder(TableSchema(0, row, 9, options={"bucket": "-1"}))
    t.commit(File("a"))
    with pytest.raises(UnsupportedFeatureError, match="column 'blob'"):
        plan(t)
    assert names(plan(t, columns=("id",))) == ["a"]
    with pytest.raises(ColumnNotFoundError, match="'ids'"):
        plan(t, columns=("ids",))


def test_a_damaged_row_inside_a_manifest_names_the_snapshot() -> None:
    t = TableBuilder(BY_DAY)
    t.partition = lambda values: b"\x00\x00\x00\x01"  # type: ignore[method-assign]
    t.commit(File("a", {"dt": "x"}))
    with pytest.raises(CorruptFileError, match="snapshot 1 of"):
        plan(t)


def test_a_file_of_an_unknown_schema_is_corrupt_metadata() -> None:
    t = TableBuilder(PLAIN)
    t.schemas[7] = PLAIN
    t.commit(File("a", schema_id=7))
    with pytest.raises(CorruptFileError, match="schema-7"):
        plan(t)


def test_bounds_of_char_columns_are_not_trusted() -> None:
    # Java's ORC writer pads them: the file's value 'ab' has the bounds 'ab   '.
    row = RowType(False, (DataField(0, "c", CharType(True, 5, varying=False)),))
    t = TableBuilder(TableSchema(0, row, 0, options={"bucket": "4", "bucket-key": "c"}))
    t.commit(File("f", low={"c": "ab   "}, high={"c": "ab   "}, nulls={"c": 0}, total_buckets=4))
    assert names(plan(t, "c = 'ab'")) == ["f"]
    assert names(plan(t, "c IS NULL")) == []


def test_nulls_that_read_as_a_default_keep_their_file() -> None:
    t = TableBuilder(TableSchema(0, ROW, 3, options={"bucket": "-1", "fields.id.default-value": "42"}))
    t.commit(File("a", low={"id": 1, "s": "a"}, high={"id": 5, "s": "f"}, nulls={"id": 3, "s": 0}))
    assert names(plan(t, "id = 42")) == ["a"]
    assert names(plan(t, "s = 'z'")) == []
