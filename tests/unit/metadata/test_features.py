"""Tables with unsupported features are refused by name, those with harmless ones are opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paimon_spark.errors import InvalidOptionError, UnsupportedFeatureError
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.definition.create import create_table
from paimon_spark.metadata.features import REFUSALS, check_overrides, check_readable, check_writable
from paimon_spark.storage.local import LocalStore
from paimon_spark.types import DataField, RowType, parse_type
from tests.harness.tables import MetadataTable, a_schema

PK: Any = {"primary_keys": ("k",)}
REFUSED = {
    "type": ["format-table", "object-table", "iceberg-table", "lance-table", "from-the-future"],
    "chain-table.enabled": ["true"],
    "scan.fallback-snapshot-branch": ["b"],
    "scan.fallback-delta-branch": ["b"],
    "pk-clustering-override": ["TRUE"],
    "sequence.snapshot-ordering": ["true"],
    "scan.bucket": ["0"],
    "query-auth.enabled": ["true"],
}


@pytest.mark.parametrize(("option", "value"), [(k, v) for k, vs in REFUSED.items() for v in vs])
def test_unreadable_features_are_refused_by_name(option: str, value: str) -> None:
    schema = a_schema(options={option: value}, **PK)
    with pytest.raises(UnsupportedFeatureError, match=option) as caught:
        check_readable(schema, schema.options, "db.t")
    assert "db.t" in str(caught.value)
    assert caught.value.context["feature"] == option


@pytest.mark.parametrize("kind", ["format-table", "object-table"])
def test_a_table_of_another_type_is_not_made_whatever_its_options(kind: str, tmp_path: Path) -> None:
    columns = a_schema().row_type
    with pytest.raises(UnsupportedFeatureError, match=rf"cannot be made: it has type = '{kind}'.*spark\.read\.csv"):
        create_table(LocalStore(), str(tmp_path / "t"), columns, options={"type": kind, "file.format": "csv"})
    assert not list(tmp_path.iterdir())


def test_every_refusal_has_a_test() -> None:
    assert {r.option for r in REFUSALS} == set(REFUSED)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"type": "table"},
        {"type": "materialized-table"},
        {"chain-table.enabled": "false"},
        {"scan.fallback-branch": "b"},
        {"data-evolution.enabled": "true", "row-tracking.enabled": "true"},
        {"query-auth.enabled": "false"},
        {"sequence.snapshot-ordering": "true", "deletion-vectors.enabled": "true"},
        {"record-level.expire-time": "1 d"},
    ],
)
def test_what_does_not_mislead_is_read(options: dict[str, str]) -> None:
    check_readable(a_schema(options=options, **PK), options, "t")


def test_an_append_table_has_no_order_to_mistake() -> None:
    check_readable(a_schema(), {"sequence.snapshot-ordering": "true"}, "t")


def test_a_vector_table_that_is_merged_has_one() -> None:
    options = {
        "sequence.snapshot-ordering": "true",
        "deletion-vectors.enabled": "true",
        "deletion-vectors.merge-on-read": "true",
    }
    with pytest.raises(UnsupportedFeatureError, match=r"sequence\.snapshot-ordering"):
        check_readable(a_schema(**PK), options, "t")


def wide() -> TableSchema:
    types: list[object] = [
        "INT", "BLOB", "GEOMETRY(OGC:CRS84)", {"type": "VECTOR", "element": "FLOAT", "length": 3},
        {"type": "ARRAY", "element": {"type": "ROW", "fields": [{"id": 9, "name": "x", "type": "BLOB"}]}},
        {"type": "MAP", "key": "INT", "value": "FROM_THE_FUTURE(1, 2)"}, "VARIANT",
    ]  # fmt: skip
    fields = tuple(DataField(i, f"c{i}", parse_type(t)) for i, t in enumerate(types))  # type: ignore[arg-type]
    return a_schema(row_type=RowType(False, fields))


@pytest.mark.parametrize(
    ("column", "named"),
    [("c1", "BLOB"), ("c2", "GEOMETRY"), ("c3", "VECTOR"), ("c4", "BLOB"), ("c5", "FROM_THE_FUTURE")],
)
def test_columns_of_unreadable_types_are_refused_when_asked_for(column: str, named: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=named) as caught:
        check_readable(wide(), {}, "db.t", ["c0", column])
    assert column in str(caught.value)
    assert "option columns, such as c0, c6" in str(caught.value)


def test_other_columns_of_such_a_table_are_read() -> None:
    check_readable(wide(), {}, "t", ["c0", "c6"])
    with pytest.raises(UnsupportedFeatureError, match="c1"):
        check_readable(wide(), {}, "t")


@pytest.mark.parametrize(
    ("key", "value"),
    [("merge-engine", "quantum"), ("bucket-function.type", "x"), ("changelog-producer", "later")],
)
def test_a_definition_of_a_later_paimon_is_no_wrong_option(key: str, value: str) -> None:
    table = MetadataTable().schema(a_schema(options={key: value}))
    with pytest.raises(UnsupportedFeatureError, match=f"{key} = '{value}'"):
        table.open()


def test_a_read_cannot_redefine_the_table() -> None:
    schema = a_schema(options={"merge-engine": "aggregation"}, **PK)
    check_overrides(schema, {"merge-engine": "aggregation", "primary-key": " k ", "scan.parallelism": "3"}, "t")
    with pytest.raises(InvalidOptionError, match=r"merge-engine = 'first-row'.*'aggregation'"):
        check_overrides(schema, {"merge-engine": "first-row"}, "t")
    with pytest.raises(InvalidOptionError, match="its default"):
        check_overrides(schema, {"row-tracking.enabled": "true"}, "t")
    check_overrides(schema, {"manifest.format": "avro"}, "t")
    with pytest.raises(InvalidOptionError, match=r"manifest\.format = 'orc' cannot be given"):
        check_overrides(schema, {"manifest.format": "orc"}, "t")


PARTITIONED_KEYS: Any = {"primary_keys": ("k",), "partition_keys": ("v",)}


@pytest.mark.parametrize(
    ("changes", "options", "named"),
    [
        (PK, {"sequence.snapshot-ordering": "true"}, r"sequence\.snapshot-ordering"),
        (PK, {"sequence.snapshot-ordering": "true", "deletion-vectors.enabled": "true"}, r"snapshot-ordering"),
        (PK, {"write.sequence-number-init-mode": "SNAPSHOT"}, "init-mode"),
        (PK, {"pk-vector.index.columns": "v"}, "pk-vector"),
        (PK, {"pk-clustering-override": "true"}, "clustering"),
        (PARTITIONED_KEYS, {"sequence.field": "v"}, r"sequence\.field"),
        (PARTITIONED_KEYS, {"primary-key.nullable": "true"}, "nullable"),
        ({}, {"metadata.iceberg.storage": "hadoop-catalog"}, "iceberg"),
        ({}, {"data-file.external-paths": "s3://b/p"}, "external-paths"),
        ({}, {"type": "format-table"}, "type"),
    ],
)
def test_what_would_be_written_wrong_is_refused(changes: Any, options: dict[str, str], named: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=named) as caught:
        check_writable(a_schema(options=options, **changes), options, "db.t")
    assert "table db.t cannot be written" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({}, {}),
        ({}, {"sequence.snapshot-ordering": "true"}),
        ({}, {"metadata.iceberg.storage": "disabled"}),
        (PK, {"postpone.merge-on-read": "true", "bucket": "-2"}),
        (PK, {"row-tracking.enabled": "false"}),
        (PK, {"primary-key.nullable": "true"}),
        (PARTITIONED_KEYS, {"bucket": "2"}),
    ],
)
def test_what_is_written_right_is_not_refused(changes: Any, options: dict[str, str]) -> None:
    check_writable(a_schema(options=options, **changes), options, "t")


def test_all_columns_must_be_writable() -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"c1.*BLOB"):
        check_writable(wide(), {}, "t")


def test_side_effects_that_do_not_happen_are_said(caplog: pytest.LogCaptureFixture) -> None:
    check_writable(a_schema(), {"commit.callbacks": "a.B", "metastore.partitioned-table": "false"}, "t")
    assert "commit.callbacks" in caplog.text
    assert "metastore" not in caplog.text
