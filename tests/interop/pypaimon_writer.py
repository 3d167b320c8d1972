"""Run by pypaimon's own interpreter: writes tables with pypaimon and says what pypaimon reads from them.

    python -m tests.interop.pypaimon_writer FOLDER   -> {name: {"path", "versions": {label: read}} or {"error"}}

A read is {"rows", "schema"} or {"error"}. Nothing of ours is imported but the row form; pypaimon is imported late, so
that the tests can take the names of the scenarios from here.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import sys
import traceback
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.harness.rows import rows_of

Rows = list[list[Any]]
UTC = dt.UTC
_ROWKIND = {"bucket": "1", "rowkind.field": "kind"}


class Writer:
    """One table of a warehouse being written."""

    def __init__(
        self,
        warehouse: Path,
        name: str,
        schema: pa.Schema,
        *,
        pk: list[str] | None = None,
        partition: list[str] | None = None,
        options: dict[str, str] | None = None,
    ) -> None:
        from pypaimon import CatalogFactory, Schema

        self.catalog = CatalogFactory.create({"warehouse": str(warehouse)})
        self.catalog.create_database("db", True)
        self.name = f"db.{name}"
        self.path = warehouse / "db.db" / name
        definition = Schema.from_pyarrow_schema(
            schema, partition_keys=partition, primary_keys=pk, options=options or {}
        )
        self.catalog.create_table(self.name, definition, False)

    def table(self, branch: str | None = None) -> Any:
        return self.catalog.get_table(self.name + (f"$branch_{branch}" if branch else ""))

    def schema(self, branch: str | None = None) -> pa.Schema:
        from pypaimon.schema.data_types import PyarrowFieldParser

        return PyarrowFieldParser.from_paimon_schema(self.table(branch).fields)

    def write(self, rows: Rows, *, branch: str | None = None, overwrite: dict[str, str] | None = None) -> Writer:
        builder = self.table(branch).new_batch_write_builder()
        if overwrite is not None:
            builder = builder.overwrite(overwrite)
        schema = self.schema(branch)
        data = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)
        writer, commit = builder.new_write(), builder.new_commit()
        writer.write_arrow(data)
        commit.commit(writer.prepare_commit())
        writer.close()
        commit.close()
        return self

    def update(self, change: Callable[[Any], Any]) -> Writer:
        """Commit what `change` makes of a batch update of the table."""
        builder = self.table().new_batch_write_builder()
        commit = builder.new_commit()
        commit.commit(change(builder.new_update()))
        commit.close()
        return self

    def alter(self, *changes: Any, branch: str | None = None) -> Writer:
        self.catalog.alter_table(self.name + (f"$branch_{branch}" if branch else ""), list(changes), False)
        return self

    def tag(self, name: str, *, branch: str | None = None, **arguments: Any) -> Writer:
        self.table(branch).create_tag(name, **arguments)
        return self


def append(warehouse: Path) -> Writer:
    table = Writer(warehouse, "append", pa.schema([("id", pa.int64()), ("s", pa.string())]))
    for i in range(5):
        table.write([[i * 10 + j, None if j == 3 else f"s{j}"] for j in range(10)])
    return table.tag("five").write([[None, ""]])


def append_types(warehouse: Path) -> Writer:
    return _types(Writer(warehouse, "append_types", _all_types()))


def append_types_orc(warehouse: Path) -> Writer:
    # pyarrow's ORC writer has no TIME.
    return _types(Writer(warehouse, "append_types_orc", _without(_all_types(), "tm"), options={"file.format": "orc"}))


def append_types_avro(warehouse: Path) -> Writer:
    # pypaimon's Avro knows no TIME, no nanoseconds, no maps, and no null in an array.
    schema = _without(_all_types(), "tm", "t9", "a", "m", "r", "deep")
    return _types(Writer(warehouse, "append_types_avro", schema, options={"file.format": "avro"}))


def append_partitioned(warehouse: Path) -> Writer:
    schema = pa.schema([("p", pa.string()), ("q", pa.int32()), ("d", pa.date32()), ("v", pa.int32())])
    table = Writer(warehouse, "append_partitioned", schema, partition=["p", "q", "d"])
    day = dt.date(2024, 2, 29)
    table.write([[name, i, day, i] for i, name in enumerate(["a", "b c", "x=y", "%41", "日本", "a/b"])])
    return table.write([["a", None, None, 100], [None, -5, dt.date(1969, 12, 31), 101], ["a", 0, day, 102]])


def append_bucketed(warehouse: Path) -> Writer:
    schema = pa.schema([("k", pa.string()), ("n", pa.int64()), ("v", pa.float64())])
    table = Writer(warehouse, "append_bucketed", schema, options={"bucket": "4", "bucket-key": "k,n"})
    table.write([[f"key number {i}" if i % 2 else f"k{i}", i, i / 7] for i in range(40)])
    return table.write([["k0", 0, None], [None, None, 1.0]])


def append_overwritten(warehouse: Path) -> Writer:
    schema = pa.schema([("p", pa.string()), ("v", pa.int32())])
    table = Writer(warehouse, "append_overwritten", schema, partition=["p"])
    table.write([["a", 1], ["b", 2], ["c", 3]]).write([["a", 10]], overwrite={"p": "a"})
    return table.write([["b", 20], ["d", 40]], overwrite={}).write([["a", 11]])


def append_row_tracking(warehouse: Path) -> Writer:
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    schema = pa.schema([("id", pa.int32()), ("a", pa.string()), ("b", pa.string())])
    table = Writer(warehouse, "append_row_tracking", schema, options=options)
    table.write([[i, f"a{i}", f"b{i}"] for i in range(4)]).write([[9, "a9", None]])
    new = pa.table({"_ROW_ID": pa.array([0, 2, 4], pa.int64()), "b": ["new 0", "new 2", "new 4"]})
    return table.update(lambda u: u.with_update_type(["b"]).update_by_arrow_with_row_id(new))


def append_deleted(warehouse: Path) -> Writer:
    options = {
        "row-tracking.enabled": "true",
        "data-evolution.enabled": "true",
        "deletion-vectors.enabled": "true",
    }
    schema = pa.schema([("id", pa.int32()), ("a", pa.string())])
    table = Writer(warehouse, "append_deleted", schema, options=options)
    table.write([[i, f"a{i}"] for i in range(20)]).write([[i, f"b{i}"] for i in range(20, 25)])
    return table.update(lambda u: u.delete_by_row_id([0, 7, 21])).write([[30, "c"]])


def pk(warehouse: Path) -> Writer:
    table = Writer(
        warehouse,
        "pk",
        _keyed(v=pa.string(), d=pa.decimal128(12, 3)),
        pk=["p", "k"],
        partition=["p"],
        options={"bucket": "2"},
    )
    table.write([["ab"[i % 2], i, "one", Decimal("1.5")] for i in range(12)])
    table.write([["ab"[i % 2], i, "two", None] for i in range(0, 12, 3)] + [["c", 1, "new", Decimal("-9.999")]])
    return table.tag("two").write([["c", 1, "three", None], ["a", 1, None, None]])


def pk_types(warehouse: Path) -> Writer:
    schema = _not_null(_all_types(), "id")
    return _types(Writer(warehouse, "pk_types", schema, pk=["id"], options={"bucket": "1"}), again=True)


def pk_partial_update(warehouse: Path) -> Writer:
    options = {"bucket": "1", "merge-engine": "partial-update"}
    table = Writer(warehouse, "pk_partial_update", _keyed(a=pa.int32(), b=pa.string()), pk=["k"], options=options)
    table.write([["x", 1, 1, None], ["x", 2, None, "b2"], ["x", 3, None, None]])
    return table.write([["y", 1, None, "b1"], ["x", 2, 2, None]]).write([["z", 1, 10, None]])


def pk_aggregation(warehouse: Path) -> Writer:
    options = {
        "bucket": "1",
        "merge-engine": "aggregation",
        "fields.s.aggregate-function": "sum",
        "fields.m.aggregate-function": "max",
        "fields.p.aggregate-function": "last_value",
    }
    table = Writer(warehouse, "pk_aggregation", _keyed(s=pa.int64(), m=pa.float64()), pk=["k"], options=options)
    table.write([["x", 1, 1, 0.5], ["x", 2, None, None]]).write([["y", 1, 10, 0.25], ["y", 2, 5, 1.5]])
    return table.write([["z", 1, -3, 9.0]])


def pk_first_row(warehouse: Path) -> Writer:
    options = {"bucket": "1", "merge-engine": "first-row"}
    table = Writer(warehouse, "pk_first_row", _keyed(v=pa.string()), pk=["k"], options=options)
    return table.write([["x", 1, "first"], ["x", 2, "first"]]).write([["y", 1, "second"], ["y", 3, "first"]])


def pk_sequence(warehouse: Path) -> Writer:
    options = {"bucket": "1", "sequence.field": "t"}
    table = Writer(warehouse, "pk_sequence", _keyed(t=pa.int64(), v=pa.string()), pk=["k"], options=options)
    table.write([["x", 1, 100, "new"], ["x", 2, 50, "old"], ["x", 3, None, "null"]])
    return table.write([["y", 1, 90, "late"], ["y", 2, 60, "wins"], ["y", 3, 1, "beats null"]])


def pk_rowkind(warehouse: Path) -> Writer:
    """Rows whose column says that they are deletes, which pypaimon does not count; each commit meets those before."""
    table = Writer(warehouse, "pk_rowkind", _keyed(v=pa.string(), kind=pa.string()), pk=["k"], options=_ROWKIND)
    table.write([["x", i, f"one {i}", "+I"] for i in range(9)])
    table.write([["x", 2, "two 2", "-D"], ["x", 3, "two 3", "+U"], ["x", 4, "two 4", "-U"], ["x", 8, "two", "-D"]])
    return table.write([["x", 0, "three 0", "-D"], ["x", 2, "three 2", "+I"], ["x", 7, None, "-D"]])


def pk_rowkind_apart(warehouse: Path) -> Writer:
    """Deletes in files that share no key with others, of keys written before and of others."""
    table = Writer(warehouse, "pk_rowkind_apart", _keyed(v=pa.string(), kind=pa.string()), pk=["k"], options=_ROWKIND)
    table.write([["x", i, f"one {i}", "+I"] for i in range(3)])
    table.write([["x", 10, "two 10", "+I"], ["x", 11, "two 11", "-D"], ["x", 12, "two 12", "+I"]])
    return table.write([["x", 20, "three 20", "-D"]])


def pk_dynamic_bucket(warehouse: Path) -> Writer:
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "5"}
    table = Writer(warehouse, "pk_dynamic_bucket", _keyed(v=pa.string()), pk=["k"], options=options)
    table.write([["x", i, f"a{i}"] for i in range(12)])
    return table.write([["x", i, f"b{i}"] for i in range(6, 18)])


def evolved(warehouse: Path) -> Writer:
    from pypaimon.schema.data_types import AtomicType
    from pypaimon.schema.schema_change import SchemaChange

    schema = pa.schema([("id", pa.int32()), ("n", pa.int32()), ("s", pa.string()), ("gone", pa.string())])
    table = Writer(warehouse, "evolved", schema)
    table.write([[1, 1, "s1", "g"]])
    table.alter(SchemaChange.add_column("x", AtomicType("DOUBLE")), SchemaChange.rename_column("s", "s2"))
    table.write([[2, 2, "s2", "g2", 0.5]]).tag("two")
    table.alter(SchemaChange.update_column_type("n", AtomicType("BIGINT")), SchemaChange.drop_column("gone"))
    table.write([[3, 3 * 10**10, "s3", None]])
    table.alter(SchemaChange.add_column("gone", AtomicType("INT")), SchemaChange.set_option("file.format", "orc"))
    return table.write([[4, 4, "s4", 4.5, 44]])


def formats_mixed(warehouse: Path) -> Writer:
    from pypaimon.schema.schema_change import SchemaChange

    schema = pa.schema(
        [("id", pa.int32()), ("s", pa.string()), ("t", pa.timestamp("ms")), ("a", pa.list_(pa.string()))]
    )
    table = Writer(warehouse, "formats_mixed", schema, options={"file.format": "orc"})
    moment = dt.datetime(2024, 5, 5, 1, 2, 3, 4000)
    table.write([[1, "orc", moment, ["x", None]], [2, None, None, None]])
    table.alter(SchemaChange.set_option("file.format", "avro")).write([[3, "avro", moment, []]])
    table.alter(SchemaChange.set_option("file.format", "parquet"), SchemaChange.set_option("file.compression", "lz4"))
    return table.write([[4, "parquet", None, ["z"]]])


def tags_and_branches(warehouse: Path) -> Writer:
    table = Writer(warehouse, "tags_and_branches", pa.schema([("id", pa.int32()), ("s", pa.string())]))
    table.write([[1, "a"]]).tag("v1").write([[2, "b"]]).tag("v2").tag("also-1", snapshot_id=1)
    table.table().rename_tag("also-1", "first")
    table.catalog.create_branch(table.name, "dev", "v1")
    table.catalog.create_branch(table.name, "blank")
    table.write([[3, "main"]])
    return table.write([[30, "dev"]], branch="dev").tag("on_dev", branch="dev").write([[31, "dev"]], branch="dev")


def fast_forwarded(warehouse: Path) -> Writer:
    table = Writer(warehouse, "fast_forwarded", pa.schema([("id", pa.int32())]))
    table.write([[1]]).tag("base")
    table.catalog.create_branch(table.name, "dev", "base")
    table.write([[2]], branch="dev").write([[3]], branch="dev")
    table.catalog.fast_forward(table.name, "dev")
    return table.write([[4]])


def rolled_back(warehouse: Path) -> Writer:
    table = Writer(warehouse, "rolled_back", pa.schema([("id", pa.int32())]))
    table.write([[1]]).tag("one").write([[2]]).write([[3]])
    table.table().rollback_to(2)
    return table.write([[4]])


def randomised(warehouse: Path) -> Writer:
    """Overlapping upserts of random size over a composite key."""
    rng = random.Random(20240229)
    schema = pa.schema(
        [
            pa.field("a", pa.string(), False),
            pa.field("b", pa.int64(), False),
            ("v", pa.float64()),
            ("w", pa.string()),
        ]
    )
    table = Writer(warehouse, "randomised", schema, pk=["a", "b"], options={"bucket": "3"})
    for _ in range(8):
        keys = {(rng.choice(["x", "yy", "a longer key"]), rng.randrange(60)) for _ in range(rng.randrange(1, 80))}
        table.write(
            [[a, b, rng.choice([None, rng.random()]), rng.choice([None, "", "w" * rng.randrange(9)])] for a, b in keys]
        )
    return table


SCENARIOS: list[Callable[[Path], Writer]] = [
    append,
    append_types,
    append_types_orc,
    append_types_avro,
    append_partitioned,
    append_bucketed,
    append_overwritten,
    append_row_tracking,
    append_deleted,
    pk,
    pk_types,
    pk_partial_update,
    pk_aggregation,
    pk_first_row,
    pk_sequence,
    pk_rowkind,
    pk_rowkind_apart,
    pk_dynamic_bucket,
    evolved,
    formats_mixed,
    tags_and_branches,
    fast_forwarded,
    rolled_back,
    randomised,
]


def _all_types() -> pa.Schema:
    nested = pa.struct([("p", pa.list_(pa.map_(pa.string(), pa.int64()))), ("q", pa.date32())])
    return pa.schema(
        [
            ("id", pa.int64()),
            ("b", pa.bool_()),
            ("i8", pa.int8()),
            ("i16", pa.int16()),
            ("i32", pa.int32()),
            ("f", pa.float32()),
            ("d", pa.float64()),
            ("n10", pa.decimal128(10, 2)),
            ("n38", pa.decimal128(38, 10)),
            ("s", pa.string()),
            ("by", pa.binary()),
            ("day", pa.date32()),
            ("tm", pa.time32("ms")),
            ("t0", pa.timestamp("s")),
            ("t3", pa.timestamp("ms")),
            ("t6", pa.timestamp("us")),
            ("t9", pa.timestamp("ns")),
            ("z3", pa.timestamp("ms", tz="UTC")),
            ("z6", pa.timestamp("us", tz="UTC")),
            ("a", pa.list_(pa.int32())),
            ("m", pa.map_(pa.string(), pa.int64())),
            ("r", pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])),
            ("deep", nested),
        ]
    )


_VALUES: dict[str, list[Any]] = {
    "b": [True, False],
    "i8": [1, -128],
    "i16": [2, -32768],
    "i32": [3, -(2**31)],
    "f": [1.5, float("nan")],
    "d": [2.5, float("-inf")],
    "n10": [Decimal("12.34"), Decimal("-0.01")],
    "n38": [Decimal("-1234567890.0123456789"), Decimal(0)],
    "s": ["héllo", ""],
    "by": [b"\x00\xff", b""],
    "day": [dt.date(2024, 2, 29), dt.date(1969, 12, 31)],
    "tm": [dt.time(1, 2, 3, 4000), dt.time(23, 59, 59, 999000)],
    "t0": [dt.datetime(2024, 1, 1), dt.datetime(1960, 1, 1)],
    "t3": [dt.datetime(2024, 1, 1, 1, 2, 3, 4000), dt.datetime(1969, 12, 31, 23, 59, 58, 1000)],
    "t6": [dt.datetime(2024, 1, 1, 1, 2, 3, 4), dt.datetime(1960, 1, 1, 0, 0, 0, 1)],
    "t9": [dt.datetime(2024, 1, 1, 1, 2, 3, 4), dt.datetime(1970, 1, 1)],
    "z3": [dt.datetime(2024, 1, 1, tzinfo=UTC), dt.datetime(1960, 1, 1, tzinfo=UTC)],
    "z6": [dt.datetime(2024, 1, 1, 1, 2, 3, 4, UTC), dt.datetime(1960, 1, 1, 0, 0, 0, 1, UTC)],
    "a": [[1, None], []],
    "m": [[("k", 1), ("l", None)], []],
    "r": [{"x": 1, "y": ["p", None]}, {"x": None, "y": []}],
    "deep": [{"p": [[("a", 1)], None], "q": dt.date(2020, 1, 1)}, {"p": None, "q": None}],
}


def _types(table: Writer, *, again: bool = False) -> Writer:
    names = [name for name in table.schema().names if name != "id"]
    table.write([[1, *[_VALUES[n][0] for n in names]], [2, *[None] * len(names)]])
    table.write([[3, *[_VALUES[n][1] for n in names]]])
    if again:
        table.write([[1, *[_VALUES[n][1] for n in names]], [3, *[None] * len(names)]])
    return table


def _without(schema: pa.Schema, *names: str) -> pa.Schema:
    return pa.schema([field for field in schema if field.name not in names])


def _not_null(schema: pa.Schema, *names: str) -> pa.Schema:
    return pa.schema([field.with_nullable(False) if field.name in names else field for field in schema])


def _keyed(**columns: pa.DataType) -> pa.Schema:
    keys = [pa.field("p", pa.string(), False), pa.field("k", pa.int32(), False)]
    return pa.schema([*keys, *[pa.field(name, kind) for name, kind in columns.items()]])


def _versions(table: Writer) -> dict[str, Any]:
    result = {}
    branches = sorted(path.name.removeprefix("branch-") for path in table.path.glob("branch/branch-*"))
    for branch in [None, *branches]:
        home = table.path / "branch" / f"branch-{branch}" if branch else table.path
        prefix = f"branch={branch}," if branch else ""
        result[prefix[:-1] or "latest"] = _read(table, branch, {})
        for path in sorted(home.glob("snapshot/snapshot-*")):
            snapshot = path.name.removeprefix("snapshot-")
            result[f"{prefix}snapshot={snapshot}"] = _read(table, branch, {"scan.snapshot-id": snapshot})
        for path in sorted(home.glob("tag/tag-*")):
            tag = path.name.removeprefix("tag-")
            result[f"{prefix}tag={tag}"] = _read(table, branch, {"scan.tag-name": tag})
    return result


def _read(table: Writer, branch: str | None, options: dict[str, str]) -> dict[str, Any]:
    try:
        version = table.table(branch)
        return describe(version.copy(options) if options else version)
    except Exception as error:  # noqa: BLE001  # whatever the peer's reader raises is its reply
        return {"error": f"{type(error).__name__}: {error}"[:500]}


def describe(table: Any) -> dict[str, Any]:
    """What pypaimon reads from a table of its own: {"schema", "rows"} or {"error"}."""
    try:
        data = read_arrow(table)
        fields = [[field.id, field.name, str(field.type)] for field in table.fields]
        return {"schema": fields, "rows": rows_of(data) if data is not None else []}
    except Exception as error:  # noqa: BLE001  # whatever the peer's reader raises is its reply
        return {"error": f"{type(error).__name__}: {error}"[:500]}


def read_arrow(table: Any) -> pa.Table | None:
    """The rows; None when no file is left to read."""
    builder = table.new_read_builder()
    splits = builder.new_scan().plan().splits()
    return builder.new_read().to_arrow(splits) if splits else None


def _write_all(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for scenario in SCENARIOS:
        try:
            table = scenario(folder)
            result[scenario.__name__] = {"path": str(table.path), "versions": _versions(table)}
        except Exception as error:  # noqa: BLE001  # the test of this table says what pypaimon raised
            traceback.print_exc()
            result[scenario.__name__] = {"error": f"{type(error).__name__}: {error}"[:500]}
    return result


if __name__ == "__main__":
    print(json.dumps(_write_all(Path(sys.argv[1]))))
