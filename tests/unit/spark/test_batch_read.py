"""The reader without a session: what Spark's planning worker and its executors do with it."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import datasource as ds
from pyspark.sql import types as st

from paimon_spark.errors import ColumnNotFoundError, SchemaMismatchError
from paimon_spark.jobs.read.table_scan import open_scan
from paimon_spark.spark.batch_read import BatchReader, batch_reader
from paimon_spark.spark.schema import spark_schema
from paimon_spark.spark.source import PaimonDataSource
from paimon_spark.spark.task_read import SplitsPartition, TaskReader
from tests.harness.golden import golden_path

TABLE = str(golden_path("pk_lsm_levels"))


def reader_of(path: str, **options: str) -> BatchReader:
    scan = open_scan(path, options)
    return batch_reader(scan, spark_schema(scan.row_type))


@pytest.mark.ci
def test_an_executor_needs_only_the_pickled_reader_and_partition(tmp_path: Path) -> None:
    reader = reader_of(TABLE)
    (partition,) = reader.partitions()
    expected = sum(b.num_rows for b in reader.read(partition))
    assert expected
    sent = tmp_path / "sent"
    sent.write_bytes(pickle.dumps((reader, partition)))
    script = """
import pickle, sys
reader, partition = pickle.loads(open(sys.argv[1], "rb").read())
print(sum(b.num_rows for b in reader.read(partition)))
driver = ("engine.scan", "metadata.resolve", "api", "metadata.manifests")
print([m for m in driver if f"paimon_spark.{m}" in sys.modules])
print([m for m in ("pandas", "sqlglot", "pyspark.sql.connect") if m in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(sent)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.stdout.split("\n")[:3] == [str(expected), "[]", "[]"], done.stderr


def test_what_travels_is_small() -> None:
    reader = reader_of(TABLE)
    assert isinstance(pickle.loads(pickle.dumps(reader)), TaskReader)
    assert len(pickle.dumps(reader)) < 4000
    assert all(len(pickle.dumps(p)) < 500 + 200 * len(TABLE) for p in reader.partitions())


def test_the_source_does_not_carry_its_scan_to_executors() -> None:
    source = PaimonDataSource({"path": TABLE})
    schema = source.schema()
    assert isinstance(schema, st.StructType)
    planned = pickle.loads(pickle.dumps(source))
    planned.reader(schema)
    assert len(pickle.dumps(planned)) < 300


def test_a_partition_that_spark_made_itself_has_no_rows() -> None:
    reader = reader_of(str(golden_path("empty_table")))
    assert list(reader.partitions()) == []
    assert list(reader.read(ds.InputPartition(None))) == []


@pytest.mark.parametrize("path", [TABLE, f"{TABLE}$files"])
def test_filters_are_left_to_spark(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql.worker.data_source_pushdown_filters", sys)
    # Spark looks whether this is overridden, and pushes nothing where it is not.
    assert type(reader_of(path)).pushFilters is ds.DataSourceReader.pushFilters


def test_a_declared_schema_is_checked_before_anything_is_read() -> None:
    scan = open_scan(TABLE, {})
    name = scan.row_type.names[0]
    with pytest.raises(ColumnNotFoundError, match="has no column 'nope'"):
        batch_reader(scan, st.StructType().add("nope", st.IntegerType()))
    with pytest.raises(SchemaMismatchError, match=f"declares column {name}"):
        batch_reader(scan, st.StructType().add(name, st.DateType()))


def test_partitions_say_how_much_they_hold() -> None:
    (partition,) = reader_of(TABLE).partitions()
    assert isinstance(partition, SplitsPartition)
    assert "files" in repr(partition)
