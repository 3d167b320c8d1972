"""Validation of table definitions: contradictions and unsupported features are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paimon_spark.errors import InvalidInputError, InvalidOptionError, UnsupportedFeatureError
from paimon_spark.format.metadata_files.table_schema import decode
from paimon_spark.metadata.definition.create import check_new, new_schema
from paimon_spark.metadata.definition.ddl import row_type
from paimon_spark.metadata.definition.validate import validate
from paimon_spark.types import DataField, OpaqueType, RowType
from tests.harness.golden import FIXTURES

COLUMNS = (
    "k BIGINT, p STRING, v INT, w DOUBLE, t TIMESTAMP_NTZ(9), ts TIMESTAMP, s STRUCT<a: INT>, l ARRAY<INT>, "
    "m MAP<STRING, INT>, b BINARY, c STRING"
)


def check(primary_keys: str = "", partition: str = "", **options: Any) -> None:
    """Validate a table of `COLUMNS`; options are written with `__` for a dot and `_` for a dash."""
    text = {k.replace("__", ".").replace("_", "-"): str(v) for k, v in options.items()}
    check_raw(primary_keys, partition, text)


def check_raw(primary_keys: str = "", partition: str = "", options: dict[str, str] | None = None) -> None:
    check_new(new_schema(row_type(COLUMNS), primary_keys, partition, options), "table db.t")


ACCEPTED: list[tuple[str, str, dict[str, str]]] = [
    ("", "", {}),
    ("", "p", {}),
    ("", "", {"bucket": "4", "bucket-key": "k,v"}),
    ("k", "", {"bucket": "4"}),
    ("k,p", "p", {"bucket": "-1"}),
    ("k", "p", {}),
    ("k", "", {"bucket": "-2"}),
    ("k,v", "", {"bucket": "2", "bucket-key": "v"}),
    ("k", "", {"sequence.field": "v,w", "sequence.field.sort-order": "DESCENDING"}),
    ("k", "", {"merge-engine": "first-row", "changelog-producer": "lookup"}),
    ("k", "", {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}),
    ("k", "", {"merge-engine": "partial-update", "fields.v,w.sequence-group": "c,b"}),
    ("k", "", {"deletion-vectors.enabled": "true", "changelog-producer": "input"}),
    ("", "", {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}),
    ("", "p", {"manifest-sort.enabled": "true", "manifest-sort.partition-field": "p"}),
    ("", "", {"file-index.bloom-filter.columns": "k,m[x]", "file-index.bloom-filter.k.fpp": "0.01"}),
    ("", "", {"metadata.stats-mode": "Truncate(20)", "snapshot.time-retained": "2 h", "target-file-size": "1 gb"}),
    ("k", "", {"file.format.per.level": "0:orc, 5:parquet", "rowkind.field": "c"}),
    ("", "", {"scan.mode": "from-snapshot", "scan.snapshot-id": "3"}),
    ("", "", {"scan.snapshot-id": "3"}),
    ("", "", {"incremental-between": "1,2"}),
    ("", "", {"manifest.format": "ORC", "manifest.compression": "zlib"}),
    ("", "", {"manifest.format": "parquet", "manifest.compression": "gzip"}),
]


@pytest.mark.parametrize(("primary_keys", "partition", "options"), ACCEPTED)
def test_tables_that_paimon_has_are_accepted(primary_keys: str, partition: str, options: dict[str, str]) -> None:
    check_raw(primary_keys, partition, options)


REFUSED: list[tuple[str, str, dict[str, str], str]] = [
    ("p", "p", {}, "holds only partition keys"),
    ("k,k", "", {}, "a column is named twice in the primary key"),
    ("x", "", {}, "primary key 'x' is not among the columns"),
    ("", "x", {}, "partition key 'x' is not among the columns"),
    ("l", "", {}, "primary key 'l' is of type ARRAY<INT>"),
    ("", "s", {}, "partition key 's' is of type ROW"),
    ("", "", {"bucket": "0"}, "option bucket = 0: a number of at least 1"),
    ("", "", {"bucket": "-2"}, "option bucket = -2"),
    ("", "", {"bucket": "3"}, "needs option bucket-key"),
    ("", "", {"bucket-key": "k"}, "needs a number of buckets"),
    ("", "", {"bucket": "3", "bucket-key": "m"}, "bucket key 'm' is of type MAP"),
    ("", "", {"bucket": "3", "bucket-key": "q"}, "'q' is not among the columns"),
    ("", "p", {"bucket": "3", "bucket-key": "p"}, "'p' is a partition key"),
    ("k", "", {"bucket": "3", "bucket-key": "v"}, "'v' is not in the primary key"),
    ("", "", {"bucket": "many"}, "expected a whole number"),
    ("", "", {"changelog-producer": "input"}, "needs a table with a primary key"),
    ("k", "", {"merge-engine": "replace"}, "expected one of deduplicate"),
    ("k", "", {"merge-engine": "first-row", "changelog-producer": "input"}, "only none or lookup"),
    ("k", "", {"merge-engine": "first-row", "sequence.field": "v"}, "does not go with merge-engine = first-row"),
    ("k", "", {"merge-engine": "first-row", "deletion-vectors.enabled": "true"}, "never deletes a row"),
    ("k", "", {"sequence.field": "x"}, "the table has no such column"),
    ("k", "", {"sequence.field": "v,v"}, "names a column twice"),
    ("k", "p", {"sequence.field": "v"}, "needs all partition keys"),
    ("k", "", {"sequence.field": "v", "fields.v.aggregate-function": "sum"}, "no aggregate function of its own"),
    ("k", "", {"fields.x.aggregate-function": "sum"}, "the table has no column 'x'"),
    ("k", "", {"fields.s.a.aggregate-function": "sum"}, "inside the row 's' have no effect"),
    ("k", "", {"merge-engine": "aggregation", "fields.c.aggregate-function": "sum"}, "needs a number"),
    ("k", "", {"merge-engine": "partial-update", "fields.v.sequence-group": "k"}, "primary key column 'k'"),
    ("k", "", {"merge-engine": "partial-update", "fields.v.sequence-group": "x"}, "no column 'x'"),
    ("k", "", {"deletion-vectors.enabled": "true", "changelog-producer": "full-compaction"}, "not full-compaction"),
    ("k", "", {"changelog-producer": "lookup", "full-compaction.delta-commits": "3"}, "use changelog-producer ="),
    ("k", "", {"changelog-producer": "lookup", "streaming-read-overwrite": "true"}, "changes would be read twice"),
    ("", "", {"streaming-read-overwrite": "true"}, "needs a primary key"),
    ("", "", {"full-compaction.delta-commits": "3"}, "needs buckets"),
    ("k", "", {"row-tracking.enabled": "true"}, "needs a table without primary key"),
    ("", "", {"row-tracking.enabled": "true", "bucket": "2", "bucket-key": "k"}, "needs bucket = -1"),
    ("", "", {"data-evolution.enabled": "true"}, "needs row-tracking"),
    ("", "", {"sequence.snapshot-ordering": "true"}, "needs a primary key"),
    ("k", "", {"sequence.snapshot-ordering": "true"}, "needs write-only"),
    ("k", "", {"rowkind.field": "v"}, "so it is a STRING"),
    ("k", "", {"rowkind.field": "nope"}, "no such column"),
    ("k", "", {"record-level.time-field": "c"}, "can tell a time"),
    ("", "", {"snapshot.num-retained.min": "0"}, "at least 1"),
    ("", "", {"snapshot.num-retained.min": "9", "snapshot.num-retained.max": "5"}, "is more than"),
    ("", "", {"changelog.num-retained.max": "5"}, r"changelog\.num-retained\.min = 10 is more than"),
    ("", "", {"metadata.stats-mode": "some"}, "expected none, counts, full or truncate"),
    ("", "", {"metadata.stats-mode.per.level": "0:some"}, "expected none, counts"),
    ("", "", {"file.format.per.level": "orc"}, "expected <level>:<value>"),
    ("", "", {"snapshot.time-retained": "soon"}, "expected a duration"),
    ("", "", {"target-file-size": "big"}, "expected a size"),
    ("", "", {"deletion-vectors.enabled": "yes"}, "expected true or false"),
    ("", "", {"num-levels": "99999999999"}, "expected a whole number up to"),
    ("", "", {"file.format": "avro"}, r"column 't' holds values of type TIMESTAMP\(9\)"),
    ("", "", {"scan.mode": "from-snapshot"}, "needs exactly one of"),
    ("", "", {"scan.mode": "latest", "scan.snapshot-id": "1"}, "does not go with"),
    ("", "", {"scan.snapshot-id": "1", "scan.tag-name": "x"}, "needs exactly one of"),
    ("", "", {"scan.timestamp-millis": "1", "scan.tag-name": "x"}, "does not go with scan.timestamp-millis"),
    ("", "", {"upsert-key": "zz"}, "no such column"),
    ("k", "", {"upsert-key": "v"}, "does not go with the primary key"),
    ("", "", {"manifest-sort.enabled": "true"}, "needs a partitioned table"),
    ("", "", {"clustering.columns": "qq"}, "no such column"),
    ("", "", {"file-index.bloom-filter.columns": "qq"}, "no such column"),
    ("", "", {"scan.fallback-branch": "a", "scan.primary-branch": "b"}, "exclude each other"),
    ("", "", {"table-read.sequence-number.enabled": "true"}, "needs a primary key"),
    ("", "", {"manifest.format": "csv"}, "expected one of avro, orc, parquet"),
    ("", "", {"manifest.format": "orc", "manifest.compression": "gzip"}, "cannot be written in orc files"),
    ("", "", {"manifest.compression": "gzip"}, "cannot be written in Avro files"),
]


@pytest.mark.parametrize(("primary_keys", "partition", "options", "message"), REFUSED)
def test_contradictions_are_refused(primary_keys: str, partition: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        check_raw(primary_keys, partition, options)


@pytest.mark.parametrize(
    ("primary_keys", "options", "feature"),
    [
        ("", {"file.format": "csv"}, "csv"),
        ("k", {"merge-engine": "aggregation", "fields.v.aggregate-function": "median"}, "median"),
        ("k", {"pk-clustering-override": "true"}, "pk-clustering-override"),
        ("k", {"pk-btree.index.columns": "v"}, "pk-btree"),
        ("", {"type": "format-table"}, "type"),
        ("", {"fields.m.map.storage-layout": "shared-shredding"}, "map.storage-layout"),
    ],
)
def test_features_that_are_not_here_are_refused_by_name(
    primary_keys: str, options: dict[str, str], feature: str
) -> None:
    with pytest.raises(UnsupportedFeatureError, match=feature):
        check_raw(primary_keys, "", options)


def test_types_that_cannot_be_read_make_no_table() -> None:
    columns = RowType(
        False, (DataField(0, "b", OpaqueType(text="BLOB")), DataField(1, "k", row_type("k INT").fields[0].type))
    )
    with pytest.raises(UnsupportedFeatureError, match="BLOB"):
        check_new(new_schema(columns))


def test_rows_have_fields_with_names_of_their_own() -> None:
    row = row_type("s STRUCT<a: INT, a: INT>")
    with pytest.raises(InvalidInputError, match=r"column s\.a is there twice"):
        check_new(new_schema(row))
    with pytest.raises(InvalidInputError, match="at least one"):
        check_new(new_schema(RowType(False, (DataField(0, "s", RowType()),))))
    with pytest.raises(InvalidInputError, match="at least one column"):
        check_new(new_schema(RowType(False, ())))


def test_the_message_names_the_table() -> None:
    with pytest.raises(InvalidOptionError, match=r"^table db\.t: option bucket = 0") as caught:
        check(bucket=0)
    assert caught.value.context["table"] == "table db.t"


@pytest.mark.parametrize(
    "path", sorted(FIXTURES.glob("*/*/table/schema/schema-*")), ids=lambda p: "-".join(p.parts[-5:])
)
def test_the_tables_of_other_writers_are_valid(path: Path) -> None:
    schema = decode(path.read_bytes(), str(path))
    validate(schema)
