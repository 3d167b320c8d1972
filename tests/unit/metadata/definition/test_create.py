"""Creation of a table: its schema file as Java writes it, races, failing stores and refusals."""

from __future__ import annotations

import json
import logging
import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.errors import (
    InvalidInputError,
    InvalidOptionError,
    PaimonError,
    StorageError,
    TableAlreadyExistsError,
    UnsupportedFeatureError,
)
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.definition.alter import check_set
from paimon_spark.metadata.definition.create import create_table, new_schema
from paimon_spark.metadata.definition.ddl import row_type
from paimon_spark.metadata.handle import open_table
from paimon_spark.metadata.layout import Layout
from paimon_spark.storage.store import AtomicCreate
from paimon_spark.storage.urls import open_store
from tests.harness.fault_store import MUTATING, Fault, FaultStore

COLUMNS = "k BIGINT, p STRING, v INT, s STRUCT<a: STRUCT<b: INT, c: INT>, d: INT>, m MAP<STRING, STRUCT<e: INT>>, z INT"


def schema_of(ddl: str = COLUMNS, **arguments: Any) -> TableSchema:
    return new_schema(row_type(ddl), **arguments)


def test_field_ids_are_given_as_java_does() -> None:
    schema = schema_of()
    ids = {f.name: f.id for f in schema.fields}
    row, mapped = schema.row_type.field("s").type, schema.row_type.field("m").type
    # A column comes before what is inside it, but a field of a row after it (Java evaluates the inner type first).
    assert ids == {"k": 0, "p": 1, "v": 2, "s": 3, "m": 8, "z": 10}
    assert [(f.name, f.id) for f in row] == [("a", 6), ("d", 7)]  # type: ignore[attr-defined]
    assert [(f.name, f.id) for f in row.fields[0].type] == [("b", 4), ("c", 5)]  # type: ignore[attr-defined]
    assert [(f.name, f.id) for f in mapped.value] == [("e", 9)]  # type: ignore[attr-defined]
    assert schema.highest_field_id == 10


def test_keys_may_come_as_options_and_leave_them() -> None:
    schema = schema_of(options={"primary-key": " k , p", "partition": "p", "bucket-key": "k , ", "bucket": "2"})
    assert (schema.primary_keys, schema.partition_keys) == (("k", "p"), ("p",))
    assert schema.options == {"bucket-key": "k", "bucket": "2"}
    assert [f.type.nullable for f in schema.fields][:3] == [False, False, True]
    with pytest.raises(InvalidInputError, match="primary-key is given twice"):
        schema_of(primary_keys=["k"], options={"primary-key": "p"})
    with pytest.raises(InvalidInputError, match=r"primary key 'kk' is not among the columns .*; did you mean 'k'"):
        schema_of("k INT", primary_keys=["kk"])


def test_the_schema_file_is_java_s(tmp_path: Path) -> None:
    store, root = open_store(str(tmp_path / "wh" / "db.db" / "t"))
    created = create_table(
        store,
        root,
        row_type("k BIGINT COMMENT 'key', v STRING DEFAULT 'x'"),
        ["k"],
        options={"bucket": "1"},
        comment="a table",
        clock_ms=lambda: 123,
    )
    text = (tmp_path / "wh/db.db/t/schema/schema-0").read_text()
    assert json.loads(text) == {
        "version": 3,
        "id": 0,
        "fields": [
            {"id": 0, "name": "k", "type": "BIGINT NOT NULL", "description": "key"},
            {"id": 1, "name": "v", "type": "STRING", "defaultValue": "'x'"},
        ],
        "highestFieldId": 1,
        "partitionKeys": [],
        "primaryKeys": ["k"],
        "options": {"bucket": "1"},
        "comment": "a table",
        "timeMillis": 123,
    }
    assert open_table(store, root).schema == created
    assert sorted(p.name for p in (tmp_path / "wh/db.db/t/schema").iterdir()) == ["schema-0"]


def test_a_table_that_exists_stays_as_it_is(tmp_path: Path) -> None:
    store, root = open_store(str(tmp_path / "t"))
    first = create_table(store, root, row_type("k INT"))
    with pytest.raises(TableAlreadyExistsError, match="already exists at"):
        create_table(store, root, row_type("other STRING"))
    assert open_table(store, root).schema == first


def test_of_racing_creators_exactly_one_makes_the_table(tmp_path: Path) -> None:
    store, root = open_store(str(tmp_path / "t"))

    def create(number: int) -> str:
        try:
            create_table(store, root, row_type(f"c{number} INT"), clock_ms=lambda: 1)
        except TableAlreadyExistsError:
            return ""
        return f"c{number}"

    with ThreadPoolExecutor(8) as pool:
        winners = [name for name in pool.map(create, range(16)) if name]
    assert winners == list(open_table(store, root).schema.row_type.names)


@pytest.mark.parametrize("after", [False, True])
def test_a_failing_store_leaves_no_table_or_the_whole_one(after: bool) -> None:
    for at in range(1, 10):
        root = f"/{uuid.uuid4().hex}/t"
        store = FaultStore(open_store("memory://")[0])
        store.arm(Fault(at, after=after, verbs=MUTATING))
        try:
            create_table(store, root, row_type("k INT"))
            created = True
        except StorageError:
            created = False
        failed = store.failed
        store.arm(None)
        assert created == bool(store.list(Layout(root).schema_dir))
        if not created:
            create_table(store, root, row_type("k INT"))
        assert open_table(store, root).schema.row_type.names == ("k",)
        if not failed:
            return
    raise AssertionError("the calls of a creation never end")


def test_a_store_that_cannot_pick_a_winner_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, root = open_store(str(tmp_path / "t"))
    monkeypatch.setattr(type(store), "atomic_create", AtomicCreate.NONE)
    with pytest.raises(UnsupportedFeatureError, match=r"set option commit\.allow-unsafe-create = true"):
        create_table(store, root, row_type("k INT"))
    create_table(store, root, row_type("k INT"), options={"commit.allow-unsafe-create": "true"})


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("primary-keys", "primary-key"),
        ("primary_key", "primary-key"),
        ("Primary-Key", "primary-key"),
        ("primarykey", "primary-key"),
        ("partitions", "partition"),
        ("buckets", "bucket"),
        ("bucket_key", "bucket-key"),
        ("merge_engine", "merge-engine"),
        ("merge-engin", "merge-engine"),
        ("sequence-field", "sequence.field"),
        ("sequence.fields", "sequence.field"),
        ("changelog-produer", "changelog-producer"),
        ("deletion-vector.enabled", "deletion-vectors.enabled"),
        ("row-kind.field", "rowkind.field"),
    ],
)
def test_a_misspelt_option_that_defines_the_table_is_refused(key: str, wanted: str, tmp_path: Path) -> None:
    store, root = open_store(str(tmp_path / "t"))
    message = re.escape(f"unknown table option {key!r}; did you mean {wanted!r}?")
    with pytest.raises(InvalidOptionError, match=message):
        create_table(store, root, row_type("k INT"), options={key: "k"})
    assert not (tmp_path / "t").exists()
    create_table(store, root, row_type("k INT"))
    table = paimon_spark.load_table(str(tmp_path / "t"))
    with pytest.raises(InvalidOptionError, match=message):
        table.alter(set_options={key: "k"})


def test_a_misspelt_option_that_another_engine_stored_is_read_and_removed(tmp_path: Path) -> None:
    store, root = open_store(str(tmp_path / "t"))
    create_table(store, root, row_type("k INT"), options={"tool.owner": "x"})
    file = tmp_path / "t" / "schema" / "schema-0"
    file.write_text(file.read_text().replace("tool.owner", "primary-keys"))
    table = paimon_spark.load_table(str(tmp_path / "t"))
    table.write(pa.table({"k": pa.array([1], pa.int32())}))
    assert table.scan().to_arrow().num_rows == 1
    assert table.alter(set_options={"tool.color": "red"}).schema.options == {"primary-keys": "x", "tool.color": "red"}
    assert table.alter(unset_options=["primary-keys"]).schema.options == {"tool.color": "red"}


def test_tags_as_partitions_of_a_metastore_are_kept_and_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, root = open_store(str(tmp_path / "t"))
    key = "metastore.tag-to-partition"
    with caplog.at_level(logging.WARNING):
        schema = create_table(store, root, row_type("k INT"), options={key: "dt", f"{key}.preview": "process-time"})
    assert schema.options == {key: "dt", f"{key}.preview": "process-time"}
    assert f"option {key} has no effect: it makes tags partitions of a Hive metastore" in caplog.text
    assert f"option {key}.preview has no effect" in caplog.text
    caplog.clear()
    create_table(store, f"{root}2", row_type("k INT"), options={f"{key}.preview": "none", "file.format": "orc"})
    assert caplog.text == ""


def test_options_nobody_knows_are_kept_and_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store, root = open_store(str(tmp_path / "t"))
    with caplog.at_level(logging.WARNING):
        schema = create_table(store, root, row_type("k INT"), options={"tool.owner": "x", "file.formt": "orc"})
    assert schema.options == {"tool.owner": "x", "file.formt": "orc"}
    assert "file.formt is not a Paimon option; did you mean 'file.format'" in caplog.text
    assert "tool.owner" in caplog.text


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("format-version", ": leave it out: the format has no versions to choose; stored anyway"),
        ("write.wap.enabled", ": leave it out: SET spark.wap.branch works for every table; stored anyway"),
        ("write.format.default", ": use file.format; stored anyway"),
        ("delta.logRetentionDuration", ": use snapshot.time-retained; stored anyway"),
        ("delta.feature.x", ": leave it out: the format has no table features to choose; stored anyway"),
        ("fanout-enabled", ": leave it out: rows are distributed by partition and bucket"),
    ],
)
def test_properties_of_iceberg_and_delta_lake_are_stored_with_what_to_use(
    key: str, hint: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, root = open_store(str(tmp_path / "t"))
    with caplog.at_level(logging.WARNING):
        schema = create_table(store, root, row_type("k INT"), options={key: "2"})
    assert schema.options == {key: "2"}
    assert f"{key} is not a Paimon option{hint}" in caplog.text


@pytest.mark.parametrize(
    ("key", "value", "harmless"),
    [
        ("delta.appendOnly", "true", "false"),
        ("delta.appendonly", "TRUE", "false"),
        ("delta.constraints.c", "v > 0", None),
        ("gc.enabled", "false", "true"),
        ("txnAppId", "job", None),
    ],
)
def test_properties_whose_promise_is_not_kept_are_refused(key: str, value: str, harmless: str | None) -> None:
    schema = schema_of(options={} if harmless is None else {key: harmless})
    with pytest.raises(InvalidOptionError, match=f"(?i)property {key} = .* is not supported, and would be stored"):
        schema_of(options={key: value})
    with pytest.raises(InvalidOptionError, match="would be stored without any effect; "):
        check_set(schema, key, value, lambda: False)


@pytest.mark.parametrize("key", ["path", "branch", "fs.key", "s3.secret-key", "warehouse"])
def test_places_and_secrets_are_never_stored(key: str) -> None:
    with pytest.raises(InvalidOptionError, match="is not stored in it"):
        schema_of(options={key: "x"})


@pytest.mark.parametrize(
    "ddl", ["a INT, A INT", "a INT, a INT", "_KEY_a INT", "_ROW_ID BIGINT", "rowkind STRING", "a INT DEFAULT 'x'"]
)
def test_bad_columns_make_no_table(ddl: str, tmp_path: Path) -> None:
    store, root = open_store(str(tmp_path / "t"))
    with pytest.raises(PaimonError):
        create_table(store, root, row_type(ddl))
    assert not (tmp_path / "t").exists()
