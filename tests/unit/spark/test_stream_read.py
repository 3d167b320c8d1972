"""The stream reader without a session: what Spark's worker beside the driver and its executors do with it."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import datasource as ds
from pyspark.sql import types as st

import paimon_spark
from paimon_spark.engine.scan.plan import Plan
from paimon_spark.engine.tasks import SplitMode, output_type
from paimon_spark.errors import (
    ColumnNotFoundError,
    InvalidOptionError,
    PaimonError,
    SchemaMismatchError,
    SnapshotExpiredError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from paimon_spark.jobs.read import stream as stream_jobs
from paimon_spark.jobs.read.stream import OpenStream, stream_row_type
from paimon_spark.jobs.read.table_scan import open_scan
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.stream_read import ReadLimits, StreamReadOptions
from paimon_spark.spark.schema import spark_schema
from paimon_spark.spark.source import PaimonDataSource, stream_reader
from paimon_spark.spark.stream_read import PaimonStreamReader, UnlimitedStreamReader
from paimon_spark.spark.task_read import StreamTaskReader
from paimon_spark.storage.local import LocalStore
from paimon_spark.streaming.offset import StreamOffset, encode
from paimon_spark.streaming.source import StreamSource
from paimon_spark.types import RowType
from tests.harness import sinks
from tests.harness.golden import golden_path
from tests.harness.keywords import keywords

TABLE = str(golden_path("pk_lsm_levels"))
BRANCHES = str(golden_path("branches"))

limits_known = pytest.mark.skipif(not hasattr(ds.DataSourceStreamReader, "getDefaultReadLimit"), reason="PySpark 4.1")


def at(snapshot_id: int | None, **more: Any) -> StreamOffset:
    return StreamOffset(TABLE, "main", snapshot_id, **more)


@dataclass
class FakeSource:
    """A stream that always has the same rows, and remembers what it was asked."""

    handle: TableHandle
    options: StreamReadOptions
    one_plan: Plan
    begins: int = 3
    head: int = 7
    asked: list[Any] = field(default_factory=list)

    @property
    def row_type(self) -> RowType:
        asked = self.options.rows
        return output_type(self.handle.schema, asked.columns, table="t", row_kind=asked.row_kind)

    @property
    def table_name(self) -> str:
        return self.handle.name

    def first(self) -> StreamOffset:
        return at(self.begins)

    def next(self, start: StreamOffset, limits: ReadLimits | None = None) -> StreamOffset:
        self.asked.append(limits)
        assert start.snapshot_id is not None
        return start if start.snapshot_id >= self.head else at(self.head)

    def newest(self) -> StreamOffset | None:
        return at(self.head) if self.head else None

    def stop_at_newest(self) -> None:
        self.asked.append("stop")

    def plan(self, start: StreamOffset, end: StreamOffset) -> Plan:
        self.asked.append((start, end))
        return self.one_plan

    def committed(self, end: StreamOffset) -> None:
        self.asked.append(end)


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> FakeSource:
    scan = open_scan(TABLE, {})
    made = FakeSource(scan.handle, StreamReadOptions(), scan.plan())

    def opened(path: str, options: dict[str, str], columns: list[str]) -> OpenStream:
        made.asked.append("opened")
        columns = [c for c in columns if not (made.options.rows.row_kind and c == "rowkind")]
        made.options = replace(made.options, rows=replace(made.options.rows, columns=tuple(columns)))
        return OpenStream(cast(StreamSource, made), made.handle, made.options)

    monkeypatch.setattr(stream_jobs, "open_columns", opened)
    return made


def declared(source: FakeSource) -> st.StructType:
    return spark_schema(source.row_type)


def reader_of(source: FakeSource) -> Any:
    return stream_reader({"path": TABLE}, declared(source))


def test_a_reader_opens_its_table_when_it_is_asked_something(source: FakeSource) -> None:
    reader = reader_of(source)
    sent = pickle.loads(pickle.dumps(reader))
    assert isinstance(sent, StreamTaskReader)
    assert source.asked == []
    reader.initialOffset()
    reader.initialOffset()
    assert source.asked == ["opened"]


@pytest.mark.ci
def test_an_executor_needs_only_the_pickled_reader_and_partition(source: FakeSource, tmp_path: Path) -> None:
    reader = reader_of(source)
    (partition,) = reader.partitions(encode(at(3)), encode(at(7)))
    expected = sum(b.num_rows for b in reader.read(partition))
    assert expected
    assert len(pickle.dumps(reader)) < 1500
    sent = tmp_path / "sent"
    sent.write_bytes(pickle.dumps((reader, partition)))
    script = """
import pickle, sys
reader, partition = pickle.loads(open(sys.argv[1], "rb").read())
print(sum(b.num_rows for b in reader.read(partition)))
driver = ("engine.scan", "metadata.resolve", "api", "streaming", "metadata.manifests")
print([m for m in driver if f"paimon_spark.{m}" in sys.modules])
print([m for m in ("pandas", "sqlglot", "pyspark.sql.connect") if m in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(sent)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.stdout.split("\n")[:3] == [str(expected), "[]", "[]"], done.stderr


def test_nothing_between_two_equal_offsets_is_not_planned(source: FakeSource) -> None:
    offset = encode(at(3))
    assert list(reader_of(source).partitions(offset, dict(offset))) == []
    assert source.asked == []


def test_columns_come_as_declared_in_any_case_and_order(source: FakeSource) -> None:
    full = declared(source)
    whole = rows_of(reader_of(source))
    asked = st.StructType([st.StructField(f.name.upper(), f.dataType, f.nullable) for f in reversed(full.fields)])
    found = rows_of(stream_reader({"path": TABLE}, asked))
    assert found == [{k.upper(): v for k, v in reversed(row.items())} for row in whole] != []
    assert list(found[0]) == asked.names


def rows_of(reader: PaimonStreamReader) -> list[dict[str, Any]]:
    partitions = reader.partitions(encode(at(3)), encode(at(7)))
    return [row for p in partitions for batch in reader.read(p) for row in batch.to_pylist()]


def test_a_condition_on_a_column_that_there_is_not_says_so() -> None:
    name = stream_row_type(TABLE, {}).names[0]
    columns = st.StructType().add(name, st.IntegerType())
    with pytest.raises(
        ColumnNotFoundError, match=r"where = 'nope = 1' .*pk_lsm_levels/table: column 'nope' .*; there"
    ) as e:
        stream_reader({"path": TABLE, "where": "nope = 1"}, columns).initialOffset()
    assert "option columns" not in str(e.value)


def test_a_declared_schema_is_checked_by_the_first_question(source: FakeSource) -> None:
    with pytest.raises(ColumnNotFoundError, match=r"no column 'nope'.*option columns"):
        stream_reader({"path": TABLE}, st.StructType().add("nope", st.IntegerType())).initialOffset()
    name = source.handle.schema.row_type.names[0]
    with pytest.raises(SchemaMismatchError, match=f"declares column {name} .* made the DataFrame, create it again"):
        stream_reader({"path": TABLE}, st.StructType().add(name, st.DateType())).initialOffset()


def test_row_kinds_are_not_left_out_of_a_declared_schema(source: FakeSource) -> None:
    plain = declared(source)
    source.options = replace(source.options, rows=replace(source.options.rows, row_kind=True))
    with pytest.raises(InvalidOptionError, match=r"read\.changelog.*rowkind"):
        stream_reader({"path": TABLE}, plain).initialOffset()
    last = st.StructType([*plain.fields, st.StructField("rowkind", st.StringType())])
    assert stream_reader({"path": TABLE}, last).initialOffset()["snapshot"] == 3


def test_the_first_batch_says_where_the_query_began(source: FakeSource) -> None:
    """Spark asks for the beginning once more when it has to run that batch again; it may be another by then."""
    plain = UnlimitedStreamReader({"path": TABLE}, declared(source))
    end = json.loads(json.dumps(plain.latestOffset()))
    assert plain.initialOffset()["snapshot"] == 3
    source.begins = 6
    again = UnlimitedStreamReader({"path": TABLE}, declared(source))
    again.partitions(again.initialOffset(), end)
    assert source.asked[-1] == (at(3), at(7))


def test_a_first_batch_without_rows_has_none_later_either(source: FakeSource) -> None:
    source.begins = 7
    plain = UnlimitedStreamReader({"path": TABLE}, declared(source))
    end = plain.latestOffset()
    source.begins, source.head = 9, 9
    again = UnlimitedStreamReader({"path": TABLE}, declared(source))
    assert list(again.partitions(again.initialOffset(), end)) == []


def test_nothing_new_is_the_very_offset_that_spark_knows(source: FakeSource) -> None:
    plain = UnlimitedStreamReader({"path": TABLE}, declared(source))
    end = plain.latestOffset()
    assert plain.latestOffset() == end
    source.head = 8
    assert plain.latestOffset() == encode(at(8))
    later = {**encode(at(8)), "of a later release": 1}
    plain.partitions(end, later)
    assert plain.latestOffset() == later


def test_without_limits_a_checkpoint_that_is_told_late_counts(source: FakeSource) -> None:
    """PySpark 4.1 asks for the end of `Trigger.AvailableNow` before it says where the query stands."""
    plain = UnlimitedStreamReader({"path": TABLE}, declared(source))
    end = plain.latestOffset()
    plain.partitions(encode(at(5)), encode(at(5)))
    plain.partitions(encode(at(5)), end)
    assert source.asked[-1] == (at(5), at(7))
    assert list(plain.partitions(encode(at(7)), end)) == []


def test_without_limits_a_start_that_is_gone_matters_to_new_queries_only(
    source: FakeSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "first", gone)
    plain = UnlimitedStreamReader({"path": TABLE}, declared(source))
    end = plain.latestOffset()
    assert end == encode(at(7))
    plain.partitions(encode(at(5)), end)
    assert source.asked[-1] == (at(5), at(7))
    with pytest.raises(SnapshotExpiredError):
        plain.initialOffset()


def gone() -> StreamOffset:
    raise SnapshotExpiredError("snapshot 3 has expired")


def test_without_limits_a_state_and_its_changes_are_one_batch() -> None:
    options = {"path": BRANCHES, "scan.mode": "from-snapshot-full", "scan.snapshot-id": "1", "read.changelog": "true"}
    schema = PaimonDataSource({"path": BRANCHES, "read.changelog": "true"}).schema()
    assert isinstance(schema, st.StructType)
    plain = UnlimitedStreamReader(options, schema)
    end = plain.latestOffset()
    assert end["snapshot"] == 2 and end["start"]["part"]["phase"] == "state"
    (partition,) = plain.partitions(plain.initialOffset(), end)
    kept = {r["k"]: r["v"] for b in plain.read(partition) for r in b.to_pylist()}
    assert kept == {r["k"]: r["v"] for r in paimon_spark.load_table(BRANCHES).scan().to_arrow().to_pylist()}


def test_without_limits_a_state_comes_as_inserts_and_its_changes_with_their_kinds(tmp_path: Path) -> None:
    path = tmp_path / "t"
    sinks.batch(path, 0, sinks.rows_of(1, 2, 9), **keywords({"primary-key": "id", "bucket": "1", "write-only": "true"}))
    table = paimon_spark.load_table(str(path))
    kinds = pa.array(["+U", "-D"])
    table.write(sinks.rows_of(2, 9).append_column("_VALUE_KIND", kinds))
    table.write(sinks.rows_of(2, 3), mode="overwrite")
    asked = {"path": str(path), "read.changelog": "true", "streaming-read-overwrite": "true"}
    schema = PaimonDataSource(asked).schema()
    assert isinstance(schema, st.StructType)
    start = {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2"}
    plain = UnlimitedStreamReader({**asked, **start}, schema)
    end = plain.latestOffset()
    (partition,) = plain.partitions(plain.initialOffset(), end)
    found = [(r["rowkind"], r["id"]) for b in plain.read(partition) for r in b.to_pylist()]
    assert sorted(found[:2]) == [("+I", 1), ("+I", 2)]
    assert sorted(found[2:]) == [("+I", 2), ("+I", 3), ("-D", 1), ("-D", 2)]


def test_without_limits_a_restart_goes_on_where_spark_says(source: FakeSource) -> None:
    plain = UnlimitedStreamReader({"path": TABLE}, declared(source))
    source.begins = 100  # it would not be allowed to ask
    assert list(plain.partitions(encode(at(5)), encode(at(5)))) == []
    assert plain.latestOffset() == encode(at(7))


@pytest.mark.parametrize("asked", [StreamReadOptions(aligned=1), StreamReadOptions(limits=ReadLimits(max_rows=5))])
def test_older_pyspark_has_no_limits(source: FakeSource, asked: StreamReadOptions) -> None:
    source.options = asked
    with pytest.raises(UnsupportedFeatureError, match=r"PySpark 4\.2"):
        UnlimitedStreamReader({"path": TABLE}, declared(source)).latestOffset()


def test_a_commit_is_told_to_the_source(source: FakeSource) -> None:
    reader_of(source).commit(encode(at(5)))
    assert source.asked[-1] == at(5)


@limits_known
@pytest.mark.parametrize(
    ("asked", "stands_for"),
    [
        (StreamReadOptions(), "ReadAllAvailable()"),
        (StreamReadOptions(aligned=2), "ReadMinRows(min_rows=1)"),
        (StreamReadOptions(limits=ReadLimits(max_rows=5)), "ReadMaxRows(max_rows=5)"),
        (StreamReadOptions(limits=ReadLimits(max_files=5)), "ReadMaxFiles(max_files=5)"),
        (StreamReadOptions(limits=ReadLimits(max_bytes=5)), "ReadMaxBytes(max_bytes=5)"),
        (StreamReadOptions(limits=ReadLimits(min_rows=5, max_delay_ms=1)), "ReadMinRows(min_rows=5)"),
        (StreamReadOptions(limits=ReadLimits(max_files=2, max_rows=5)), "ReadMaxRows(max_rows=5)"),
    ],
)
def test_limits_of_the_options_come_back_as_such(source: FakeSource, asked: StreamReadOptions, stands_for: str) -> None:
    from pyspark.sql.datasource_internal import ReadLimitRegistry
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    source.options = asked
    reader = reader_of(source)
    given = reader.getDefaultReadLimit()
    assert str(given) == stands_for
    as_spark_sends_it = ReadLimitRegistry().get({**vars(given), "_type": type(given).__name__})
    reader.latestOffset(encode(at(3)), as_spark_sends_it)
    assert source.asked[-1] is None
    reader.latestOffset(encode(at(3)), ReadAllAvailable())
    assert source.asked[-1] == (None if stands_for == "ReadAllAvailable()" else ReadLimits())


@limits_known
def test_another_limit_of_sparks_own_is_kept(source: FakeSource) -> None:
    from pyspark.sql.streaming.datasource import ReadMaxBytes, ReadMaxFiles, ReadMaxRows

    reader = reader_of(source)
    for limit, expected in (
        (ReadMaxRows(9), ReadLimits(max_rows=9)),
        (ReadMaxFiles(9), ReadLimits(max_files=9)),
        (ReadMaxBytes(9), ReadLimits(max_bytes=9)),
    ):
        reader.latestOffset(encode(at(3)), limit)
        assert source.asked[-1] == expected


@limits_known
def test_spark_sees_a_source_with_limits_and_an_end(source: FakeSource) -> None:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

    reader = reader_of(source)
    assert SupportsTriggerAvailableNow in type(reader).__mro__
    reader.prepareForTriggerAvailableNow()
    assert source.asked[-1] == "stop"
    assert reader.reportLatestOffset() == encode(at(7))
    source.head = 0
    assert reader.reportLatestOffset() is None


@limits_known
def test_offsets_are_passed_on_as_spark_gave_them(source: FakeSource) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    reader, everything = reader_of(source), ReadAllAvailable()
    first = reader.initialOffset()
    end = reader.latestOffset(json.loads(json.dumps(first)), everything)
    reader.partitions(first, end)
    assert source.asked[-1] == (at(3), at(7))
    assert reader.latestOffset(end, everything) == end
    source.head = 9
    later = reader.latestOffset(end, everything)
    assert later == encode(at(9))
    reader.partitions(end, later)
    assert source.asked[-1] == (at(7), at(9))


def many_splits(plan: Plan, buckets: int, mode: SplitMode) -> Plan:
    """Two splits of each bucket, big enough for tasks of their own."""
    split = plan.splits[0]
    big = tuple(f._replace(file_size=64 << 20) for f in split.files)
    splits = [replace(split, bucket=i % buckets, mode=mode, files=big) for i in range(2 * buckets)]
    return replace(plan, splits=tuple(splits))


def test_changes_of_a_bucket_come_in_one_task(source: FakeSource) -> None:
    source.one_plan = many_splits(source.one_plan, 8, SplitMode.CHANGES)
    dealt = [p.splits for p in reader_of(source).partitions(encode(at(3)), encode(at(7)))]
    assert len(dealt) > 2
    tasks_of: dict[int, set[int]] = {}
    for task, splits in enumerate(dealt):
        for s in splits:
            tasks_of.setdefault(s.bucket, set()).add(task)
    assert set(map(len, tasks_of.values())) == {1}
    assert sum(len(s) for s in dealt) == 16


def test_a_state_is_dealt_out_freely(source: FakeSource) -> None:
    source.one_plan = many_splits(source.one_plan, 1, SplitMode.MERGE)
    assert len(reader_of(source).partitions(encode(at(3)), encode(at(7)))) == 2


def names_of(schema: st.StructType | str) -> list[str]:
    assert isinstance(schema, st.StructType)
    return schema.names


@pytest.mark.parametrize(
    "options",
    [
        {"scan.mode": "compacted-full"},
        {"scan.file-creation-time-millis": "5"},
        {"scan.mode": "from-snapshot-full", "scan.tag-name": "t1"},
        {"versionAsOf": "a tag that was deleted"},
        {"scan.snapshot-id": "77"},
        {"read.stream.aligned": "true", "consumer-id": "me"},
    ],
    ids=str,
)
def test_the_schema_does_not_ask_whether_it_is_a_stream(options: dict[str, str]) -> None:
    expected = names_of(PaimonDataSource({"path": BRANCHES}).schema())
    assert names_of(PaimonDataSource({"path": BRANCHES, **options}).schema()) == expected


def test_a_batch_read_of_a_version_that_is_gone_still_fails() -> None:
    batch = PaimonDataSource({"path": BRANCHES, "scan.snapshot-id": "77"})
    schema = batch.schema()
    assert isinstance(schema, st.StructType)
    with pytest.raises(Exception, match="77"):
        batch.reader(schema)


def test_what_neither_a_batch_nor_a_stream_may_ask_fails_at_once() -> None:
    with pytest.raises(InvalidOptionError, match=r"^unknown read option 'scan\.mod'; did you mean [^;]*$"):
        PaimonDataSource({"path": BRANCHES, "scan.mod": "x"}).schema()
    with pytest.raises(TableNotFoundError):
        PaimonDataSource({"path": "/nowhere/t", "scan.mode": "latest"}).schema()
    with pytest.raises(ColumnNotFoundError, match="nope"):
        PaimonDataSource({"path": BRANCHES, "columns": "nope"}).schema()
    with pytest.raises(UnsupportedFeatureError) as raised:
        PaimonDataSource({"path": f"{BRANCHES}$snapshots", "scan.mode": "from-nowhere"}).schema()
    assert "not available in batch reads" in str(raised.value) and "stream" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "batch", "stream"),
    [
        (
            {"scan.mode": "from-snapshto"},
            "'from-snapshto' is not available in batch reads; did you mean 'from-snapshot'",
            "expected one of default, .*; did you mean 'from-snapshot'",
        ),
        (
            {"scan.watermark": "soon", "scan.mode": "from-timestamp"},
            "found scan.watermark",
            "'soon' cannot say where a stream begins",
        ),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_a_batch_and_a_stream_refuse_an_option_each_in_its_own_words(
    options: dict[str, str], batch: str, stream: str
) -> None:
    source = PaimonDataSource({"path": BRANCHES, **options})
    schema = source.schema()
    assert isinstance(schema, st.StructType)
    with pytest.raises(PaimonError, match=batch) as of_batch:
        source.reader(schema)
    assert "stream" not in str(of_batch.value)
    with pytest.raises(PaimonError, match=stream) as of_stream:
        source.streamReader(schema).initialOffset()
    assert "batch" not in str(of_stream.value)


def test_an_option_of_streams_says_that_it_is_one() -> None:
    options = {"scan.mode": "from-nowhere", "read.stream.maxRowsPerTrigger": "5"}
    with pytest.raises(InvalidOptionError, match="expected one of default") as raised:
        PaimonDataSource({"path": BRANCHES, **options}).schema()
    assert "batch" not in str(raised.value)


def test_a_stream_reader_is_made_of_any_options_and_does_not_carry_a_scan() -> None:
    source = PaimonDataSource({"path": BRANCHES})
    schema = source.schema()
    assert isinstance(schema, st.StructType)
    planned = pickle.loads(pickle.dumps(source))
    assert isinstance(planned.streamReader(schema), PaimonStreamReader)
    assert len(pickle.dumps(planned)) < 300


def test_a_system_table_is_no_stream() -> None:
    with pytest.raises(
        InvalidOptionError, match=r"\$files is a system table, which is no stream; spark\.read reads it"
    ):
        stream_row_type(f"{BRANCHES}$files", {})


def test_a_stream_names_its_branch_as_a_batch_read_does() -> None:
    full = stream_row_type(f"{BRANCHES}$branch_from_tag", {})
    assert full == stream_row_type(BRANCHES, {"branch": "from_tag"})
    chosen = stream_row_type(BRANCHES, {"columns": "v", "read.changelog": "true"})
    assert chosen.names == ("rowkind", "v")


@limits_known
def test_the_progress_of_a_query_costs_no_look_at_the_branch(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    options = {"path": BRANCHES, "scan.snapshot-id": "1"}
    schema = PaimonDataSource(options).schema()
    assert isinstance(schema, st.StructType)
    reader: Any = stream_reader(options, schema)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    with monkeypatch.context() as patch:
        patch.delattr(LocalStore, "read")
        assert reader.reportLatestOffset()["snapshot"] == end["snapshot"] == 2
    assert reader.reportLatestOffset()["snapshot"] == 2
    assert sum(b.num_rows for p in reader.partitions(reader.initialOffset(), end) for b in reader.read(p)) > 0
