"""Changes of a schema: columns, nested fields, types, keys and options, and which are refused."""

from __future__ import annotations

import shutil
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import (
    AlreadyExistsError,
    ColumnNotFoundError,
    InvalidInputError,
    InvalidOptionError,
    PaimonError,
    StorageError,
    UnsupportedFeatureError,
)
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.definition.alter import alter_table, apply
from paimon_spark.metadata.definition.create import create_table, new_schema
from paimon_spark.metadata.definition.ddl import data_type, row_type
from paimon_spark.metadata.definition.schema_changes import (
    AddColumn,
    After,
    Before,
    DropColumn,
    DropPrimaryKey,
    First,
    Last,
    MoveColumn,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateComment,
    UpdateDefault,
    UpdateNullability,
    UpdateTableComment,
    UpdateType,
    parse_path,
    shown,
)
from paimon_spark.metadata.handle import open_table
from paimon_spark.metadata.schemas import list_schema_ids, read_schema
from paimon_spark.storage.urls import open_store
from paimon_spark.types import DataType, RowType
from tests.harness.fault_store import MUTATING, Fault, FaultStore
from tests.harness.golden import golden_path
from tests.harness.tables import MetadataTable, a_snapshot

COLUMNS = (
    "k BIGINT, p STRING, v INT, s STRUCT<a: INT, r: STRUCT<b: INT>>, l ARRAY<STRUCT<x: INT>>, "
    "m MAP<STRING, STRUCT<y: INT>>, n ARRAY<INT>"
)


def keyed(**options: str) -> TableSchema:
    given = {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
    return new_schema(row_type(COLUMNS), ["k", "p"], ["p"], given)


def append(**options: str) -> TableSchema:
    given = {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
    return new_schema(row_type(COLUMNS), (), (), given)


def after(schema: TableSchema, *changes: SchemaChange, written: bool = True) -> TableSchema:
    return apply(schema, changes, has_snapshots=lambda: written)


def type_text(schema: TableSchema, column: str) -> str:
    return str(schema.row_type.field(column).type)


def ids(t: DataType) -> dict[str, int]:
    assert isinstance(t, RowType)
    return {f.name: f.id for f in t}


# Columns


def test_columns_are_added_with_new_ids_at_their_place() -> None:
    schema = after(
        keyed(),
        AddColumn(("c",), data_type("STRUCT<q: INT>"), "comment"),
        AddColumn(("d",), data_type("INT"), default="7", position=First()),
        AddColumn(("e",), data_type("INT"), position=After("k")),
        AddColumn(("f",), data_type("INT"), position=Before("v")),
    )
    assert schema.row_type.names == ("d", "k", "e", "p", "f", "v", "s", "l", "m", "n", "c")
    top = keyed().highest_field_id
    assert [schema.row_type.field(n).id for n in "cdef"] == [top + 1, top + 3, top + 4, top + 5]
    assert ids(schema.row_type.field("c").type) == {"q": top + 2}
    assert schema.highest_field_id == top + 5
    assert (schema.id, schema.row_type.field("c").description, schema.row_type.field("d").default_value) == (
        1,
        "comment",
        "7",
    )


def test_fields_are_added_inside_rows_arrays_and_maps() -> None:
    schema = after(
        append(),
        AddColumn(("s", "r", "c"), data_type("INT")),
        AddColumn(("l", "element", "z"), data_type("STRING")),
        AddColumn(("m", "value", "w"), data_type("STRING"), position=First()),
    )
    assert type_text(schema, "s") == "ROW<a INT, r ROW<b INT, c INT>>"
    assert type_text(schema, "l") == "ARRAY<ROW<x INT, z STRING>>"
    assert type_text(schema, "m") == "MAP<STRING NOT NULL, ROW<w STRING, y INT>>"
    with pytest.raises(ColumnNotFoundError, match=r"say l\.element\.z"):
        after(append(), AddColumn(("l", "z"), data_type("STRING")))


def test_new_columns_stand_before_the_partition_keys_when_the_table_says_so() -> None:
    schema = after(keyed(add_column_before_partition="true"), AddColumn(("c",), data_type("INT")))
    assert schema.row_type.names[:3] == ("k", "c", "p")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (AddColumn(("v",), data_type("INT")), AlreadyExistsError, "exists already"),
        (AddColumn(("V",), data_type("INT")), AlreadyExistsError, "there is a column 'v'"),
        (AddColumn(("c",), data_type("INT NOT NULL")), InvalidInputError, "cannot be added as NOT NULL"),
        (AddColumn(("c",), data_type("INT"), default="x"), InvalidInputError, "is no value of type INT"),
        (AddColumn(("_KEY_c",), data_type("INT")), InvalidInputError, "Paimon keeps it for itself"),
        (AddColumn(("c",), data_type("INT"), position=After("zz")), ColumnNotFoundError, "there is no column zz"),
        (AddColumn(("q", "c"), data_type("INT")), ColumnNotFoundError, "there is no column q"),
        (AddColumn(("v", "c"), data_type("INT")), ColumnNotFoundError, "is of type INT, not a row"),
        (DropColumn(("k",)), InvalidInputError, "it is part of the primary key"),
        (DropColumn(("p",)), InvalidInputError, "it is part of the partition key"),
        (DropColumn(("zz",)), ColumnNotFoundError, "the columns are k, p, v"),
        (
            DropColumn(("s", "aa")),
            ColumnNotFoundError,
            r"no column s\.aa; did you mean 's\.a'\?; the columns are s\.a, s\.r",
        ),
        (DropColumn(("s", "r", "b")), InvalidInputError, "it is the last one"),
        (RenameColumn(("p",), "q"), InvalidInputError, "cannot be renamed: it is part of the partition key"),
        (RenameColumn(("v",), "s"), AlreadyExistsError, "column s cannot be made: it exists already"),
        (RenameColumn(("v",), "S"), AlreadyExistsError, "there is a column 's'"),
        (RenameColumn(("zz",), "y"), ColumnNotFoundError, "there is no column zz"),
        (UpdateType(("k",), data_type("STRING")), InvalidInputError, "part of the primary key"),
        (UpdateType(("p",), data_type("INT")), InvalidInputError, "part of the partition key"),
        (UpdateType(("v",), data_type("VARIANT")), InvalidInputError, "values cannot be cast so"),
        (UpdateType(("v",), data_type("INT NOT NULL")), InvalidInputError, "cannot become NOT NULL"),
        (UpdateType(("s",), data_type("STRUCT<a: INT>")), InvalidInputError, r"by their path, such as s\.x"),
        (UpdateType(("m", "key"), data_type("INT")), InvalidInputError, "keys of a map never change"),
        (UpdateNullability(("k",), True), InvalidInputError, "part of the primary key"),
        (UpdateNullability(("v",), False), InvalidInputError, "alter-column-null-to-not-null"),
        (UpdateDefault(("v",), "x"), InvalidInputError, "is no value of type INT"),
        (MoveColumn(("v",), After("v")), InvalidInputError, "next to itself"),
        (DropPrimaryKey(), InvalidInputError, "rows were written with it"),
    ],
)
def test_changes_that_cannot_be_made_are_refused(change: SchemaChange, error: type[PaimonError], message: str) -> None:
    with pytest.raises(error, match=message):
        after(keyed(bucket="2"), change)


def test_the_last_column_stays() -> None:
    with pytest.raises(InvalidInputError, match="it is the last one"):
        after(new_schema(row_type("a INT")), DropColumn(("a",)))


def test_an_id_is_never_given_again() -> None:
    schema = after(append(), DropColumn(("n",)), AddColumn(("n",), data_type("ARRAY<INT>")))
    assert schema.row_type.field("n").id == append().highest_field_id + 1


def test_columns_move_and_change_their_texts() -> None:
    schema = after(
        append(),
        MoveColumn(("v",), First()),
        MoveColumn(("k",), Last()),
        MoveColumn(("l",), Before("s")),
        MoveColumn(("s", "r"), First()),
        UpdateComment(("s", "a"), "inner"),
        UpdateComment(("v",), "text"),
        UpdateDefault(("v",), "3"),
        UpdateTableComment("the table"),
    )
    assert schema.row_type.names == ("v", "p", "l", "s", "m", "n", "k")
    assert type_text(schema, "s") == "ROW<r ROW<b INT>, a INT>"
    assert schema.comment == "the table"
    assert (schema.row_type.field("v").description, schema.row_type.field("v").default_value) == ("text", "3")
    assert {f.id for f in schema.fields} == {f.id for f in append().fields}


def test_types_change_in_place() -> None:
    schema = after(
        append(),
        UpdateType(("v",), data_type("STRING")),
        UpdateType(("s", "a"), data_type("BIGINT")),
        UpdateType(("l", "element", "x"), data_type("DOUBLE")),
        UpdateType(("n", "element"), data_type("BIGINT")),
        UpdateType(("m",), data_type("MAP<STRING, STRUCT<y: BIGINT>>")),
    )
    assert [type_text(schema, c) for c in "vslnm"] == [
        "STRING",
        "ROW<a BIGINT, r ROW<b INT>>",
        "ARRAY<ROW<x DOUBLE>>",
        "ARRAY<BIGINT>",
        "MAP<STRING NOT NULL, ROW<y BIGINT>>",
    ]
    before = append().row_type
    assert ids(schema.row_type) == ids(before)
    assert ids(schema.row_type.field("m").type.value) == ids(before.field("m").type.value)  # type: ignore[attr-defined]
    assert schema.highest_field_id == append().highest_field_id


def test_explicit_casts_and_nulls_are_governed_by_options() -> None:
    with pytest.raises(InvalidInputError, match="disable-explicit-type-casting"):
        after(append(disable_explicit_type_casting="true"), UpdateType(("v",), data_type("TINYINT")))
    after(append(disable_explicit_type_casting="true"), UpdateType(("v",), data_type("BIGINT")))
    schema = after(
        append(),
        SetOption("alter-column-null-to-not-null.disabled", "false"),
        UpdateNullability(("v",), False),
    )
    assert type_text(schema, "v") == "INT NOT NULL"


def test_a_default_must_fit_the_new_type() -> None:
    schema = after(append(), UpdateType(("v",), data_type("STRING")), UpdateDefault(("v",), "abc"))
    with pytest.raises(InvalidInputError, match="the default 'abc' is no value of type INT"):
        after(schema, UpdateType(("v",), data_type("INT")))


def test_a_bucket_key_keeps_its_type() -> None:
    schema = append(bucket="2", bucket_key="v")
    with pytest.raises(InvalidInputError, match="part of the bucket key"):
        after(schema, UpdateType(("v",), data_type("BIGINT")))


def test_keys_and_options_follow_a_renamed_column() -> None:
    schema = new_schema(
        row_type("k INT, a INT, b INT, c STRING, d STRING, m MAP<STRING, INT>"),
        ["k"],
        options={
            "bucket": "2",
            "bucket-key": "k",
            "merge-engine": "partial-update",
            "fields.a,b.sequence-group": "c,d",
            "fields.c.aggregate-function": "last_non_null_value",
            "fields.default-aggregate-function": "last_non_null_value",
            "file-index.bloom-filter.columns": "a,m[x]",
            "file-index.bloom-filter.a.fpp": "0.1",
            "partial-update.remove-record-on-sequence-group": "a",
        },
    )
    renames = [RenameColumn((old,), old + "2") for old in "kacm"]
    changed = after(schema, *renames)
    assert changed.primary_keys == ("k2",)
    assert changed.options == {
        "bucket": "2",
        "bucket-key": "k2",
        "merge-engine": "partial-update",
        "fields.a2,b.sequence-group": "c2,d",
        "fields.c2.aggregate-function": "last_non_null_value",
        "fields.default-aggregate-function": "last_non_null_value",
        "file-index.bloom-filter.columns": "a2,m2[x]",
        "file-index.bloom-filter.a2.fpp": "0.1",
        "partial-update.remove-record-on-sequence-group": "a2",
    }


def test_a_column_that_an_option_needs_is_not_dropped() -> None:
    with pytest.raises(InvalidOptionError, match=r"sequence\.field = 'v': the table has no such column"):
        after(keyed(sequence__field="v"), DropColumn(("v",)))
    after(keyed(sequence__field="v"), RemoveOption("sequence.field"), DropColumn(("v",)))


# Options


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (SetOption("merge-engine", "aggregation"), "cannot change once there are rows"),
        (SetOption("bucket-key", "k"), "cannot change once there are rows"),
        (SetOption("primary-key", "k"), "cannot change once there are rows"),
        (SetOption("bucket", "-1"), "cannot change from 2 to -1"),
        (SetOption("deletion-vectors.enabled", "true"), "deletion-vectors.modifiable"),
        (RemoveOption("ignore-delete"), "cannot go from true to false"),
        (SetOption("ignore-delete", "false"), "cannot go from true to false"),
        (RemoveOption("bucket"), "cannot change once there are rows"),
        (SetOption("manifest.format", "orc"), "cannot change once there are rows"),
        (SetOption("manifest.format", "csv"), "expected one of avro, orc, parquet"),
        (SetOption("type", "format-table"), "never changes"),
        (SetOption("path", "/x"), "is not stored in it"),
        (SetOption("fs.key", "secret"), "is not stored in it"),
        (SetOption("write-buffer-size", "much"), "expected a size"),
        (SetOption("sequence.field", "zz"), "no such column"),
    ],
)
def test_options_that_rows_were_written_with_stay(change: SchemaChange, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        after(keyed(bucket="2", ignore_delete="true"), change)


def test_before_the_first_snapshot_options_are_free() -> None:
    schema = after(
        append(),
        SetOption("primary-key", "k"),
        SetOption("merge-engine", "aggregation"),
        SetOption("bucket", "3"),
        SetOption("deletion-vectors.enabled", "true"),
        written=False,
    )
    assert (schema.primary_keys, schema.row_type.field("k").type.nullable) == (("k",), False)
    assert "primary-key" not in schema.options
    back = after(schema, DropPrimaryKey(), RemoveOption("merge-engine"), SetOption("bucket", "-1"), written=False)
    assert back.primary_keys == ()


def test_setting_what_is_set_changes_nothing() -> None:
    schema = keyed(bucket="2")
    assert (
        after(schema, SetOption("bucket", "2"), SetOption("primary-key", "k, p"), SetOption("partition", "p")) is schema
    )
    assert after(schema, RemoveOption("merge-engine"), UpdateComment(("v",), None)) is schema


def test_the_format_of_manifests_is_free_before_the_first_snapshot_and_stays_then() -> None:
    schema = after(append(), SetOption("manifest.format", "orc"), written=False)
    assert after(schema, SetOption("manifest.format", "ORC")).options["manifest.format"].lower() == "orc"
    assert after(append(), SetOption("manifest.format", "avro")).id >= 0
    with pytest.raises(InvalidOptionError, match="cannot change once there are rows"):
        after(schema, RemoveOption("manifest.format"))


def test_a_bucket_number_may_change_to_another() -> None:
    assert after(keyed(bucket="2"), SetOption("bucket", "4")).options["bucket"] == "4"


def test_a_table_is_not_made_unreadable() -> None:
    with pytest.raises(UnsupportedFeatureError, match="query-auth"):
        after(append(), SetOption("query-auth.enabled", "true"))
    with pytest.raises(UnsupportedFeatureError, match=r"branch 'b'.*csv"):
        apply(append(), [SetOption("file.format", "csv")], table="branch 'b'")


# Paths


def test_paths_are_written_with_dots_and_quotes() -> None:
    assert parse_path("a.b.element", ["a"]) == ("a", "b", "element")
    assert parse_path("a.b", ["a.b"]) == ("a.b",)
    assert parse_path("`a.b`.c", []) == ("a.b", "c")
    assert shown(("a.b", "c")) == "`a.b`.c"
    for text in ("", "a..b", "`a", "`a`b", "a."):
        with pytest.raises(InvalidInputError):
            parse_path(text, [])


@given(st.lists(st.text(alphabet="ab .", min_size=1, max_size=4).filter(str.strip), min_size=1, max_size=3))
def test_a_shown_path_reads_as_itself(names: list[str]) -> None:
    path = tuple(n.strip() for n in names)
    assert parse_path(shown(path), []) == path


# Committed


def table_in_memory(schema: TableSchema) -> tuple[FaultStore, str]:
    root = f"/{uuid.uuid4().hex}/t"
    store = FaultStore(open_store("memory://")[0])
    create_table(store, root, schema.row_type, schema.primary_keys, schema.partition_keys, schema.options)
    return store, root


def test_racing_changes_all_land_without_a_hole(tmp_path: Path) -> None:
    store, root = open_store(str(tmp_path / "t"))
    create_table(store, root, row_type("a INT"))

    def alter(number: int) -> int:
        handle = open_table(store, root)
        return alter_table(handle, [AddColumn((f"c{number}",), data_type("INT"))], clock_ms=lambda: 1).id

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(alter, range(24)))
    assert sorted(made) == list(range(1, 25))
    handle = open_table(store, root)
    assert list_schema_ids(store, handle.layout) == list(range(25))
    assert set(handle.schema.row_type.names) == {"a", *(f"c{i}" for i in range(24))}
    assert sorted(f.id for f in handle.schema.fields) == list(range(25))


def test_of_two_racing_additions_of_one_column_one_is_told() -> None:
    store, root = table_in_memory(new_schema(row_type("a INT")))
    stale = open_table(store, root)
    alter_table(open_table(store, root), [AddColumn(("c",), data_type("INT"))])
    with pytest.raises(AlreadyExistsError, match="column c cannot be made"):
        alter_table(stale, [AddColumn(("c",), data_type("INT"))])


def test_changes_may_be_made_for_the_newest_schema() -> None:
    store, root = table_in_memory(new_schema(row_type("a INT")))
    stale = open_table(store, root)

    def wanted(newest: TableSchema) -> list[SchemaChange]:
        return [] if "c" in newest.row_type.names else [AddColumn(("c",), data_type("INT"))]

    assert alter_table(stale, wanted).id == 1
    assert alter_table(stale, wanted).id == 1


@pytest.mark.parametrize("after_it", [False, True])
def test_a_failing_store_changes_the_table_whole_or_not_at_all(after_it: bool) -> None:
    for at in range(1, 10):
        store, root = table_in_memory(new_schema(row_type("a INT")))
        handle = open_table(store, root)
        store.arm(Fault(at, after=after_it, verbs=MUTATING))
        try:
            alter_table(handle, [AddColumn(("c",), data_type("INT"))])
            altered = True
        except StorageError:
            altered = False
        failed = store.failed
        store.arm(None)
        assert open_table(store, root).schema.row_type.names == (("a", "c") if altered else ("a",))
        if not failed:
            return
    raise AssertionError("the calls of a change never end")


def test_a_change_of_a_branch_leaves_main_alone() -> None:
    table = MetadataTable()
    for branch in ("main", "fix"):
        table.schema(branch=branch).snapshots([1], branch)
    alter_table(table.open("fix"), [AddColumn(("c",), data_type("INT"))])
    assert table.open("fix").schema.row_type.names == ("k", "v", "c")
    assert table.open().schema.row_type.names == ("k", "v")
    assert list_schema_ids(table.store, table.layout()) == [0]


def test_only_the_snapshots_of_the_branch_fix_its_options() -> None:
    table = MetadataTable().schema().schema(branch="fix").snapshots([a_snapshot(1)])
    with pytest.raises(InvalidOptionError):
        alter_table(table.open(), [SetOption("bucket", "2"), SetOption("bucket-key", "k")])
    alter_table(table.open("fix"), [SetOption("bucket", "2"), SetOption("bucket-key", "k")])


def test_a_fallback_branch_must_exist() -> None:
    table = MetadataTable().schema().schema(branch="fix")
    with pytest.raises(InvalidOptionError, match="the table has no such branch"):
        alter_table(table.open(), [SetOption("scan.fallback-branch", "nope")])
    alter_table(table.open(), [SetOption("scan.fallback-branch", "fix")])


def test_what_others_wrote_into_the_schema_file_stays() -> None:
    schema = replace(append(), extra={"owner": {"name": "x"}}, version=2)
    assert after(schema, SetOption("file.compression", "lz4")).extra == {"owner": {"name": "x"}}
    assert after(schema, SetOption("file.compression", "lz4")).version == 3


def test_old_files_are_read_with_the_new_schema(tmp_path: Path) -> None:
    import paimon_spark

    shutil.copytree(golden_path("branches"), tmp_path / "t")
    table = paimon_spark.load_table(str(tmp_path / "t"))
    before = table.scan().to_arrow()
    first, second = before.schema.names[:2]
    changed = table.alter(add={"extra": "STRING"}, rename={second: "renamed"})
    read = changed.scan().to_arrow()
    assert read.schema.names == [first, "renamed", *before.schema.names[2:], "extra"]
    assert read["renamed"].to_pylist() == before[second].to_pylist()
    assert read["extra"].null_count == read.num_rows == before.num_rows
    assert "extra" not in paimon_spark.load_table(str(tmp_path / "t$branch_from_tag")).row_type.names


# A model: columns by field id


class Model:
    """What a table's columns are, by field id: name and type."""

    def __init__(self) -> None:
        self.schema = new_schema(row_type("k INT, a INT, b STRING"), ["k"])
        self.columns: dict[int, list[str]] = {0: ["k", "INT NOT NULL"], 1: ["a", "INT"], 2: ["b", "STRING"]}
        self.order = [0, 1, 2]
        self.given = 2

    def try_to(self, change: SchemaChange, possible: bool) -> bool:
        try:
            changed = apply(self.schema, [change], has_snapshots=lambda: True)
        except PaimonError:
            assert not possible, change
            return False
        assert possible, change
        self.schema = changed
        return True

    def id_of(self, name: str) -> int | None:
        return next((i for i in self.order if self.columns[i][0] == name), None)

    def check(self) -> None:
        assert [(f.id, f.name, str(f.type)) for f in self.schema.fields] == [(i, *self.columns[i]) for i in self.order]
        assert self.schema.highest_field_id == self.given


_NAMES = st.sampled_from(["k", "a", "b", "c", "d"])
_STEPS = st.one_of(
    st.tuples(st.just("add"), _NAMES, st.sampled_from(["INT", "STRING"])),
    st.tuples(st.just("drop"), _NAMES, st.none()),
    st.tuples(st.just("rename"), _NAMES, _NAMES),
    st.tuples(st.just("type"), _NAMES, st.sampled_from(["BIGINT", "STRING", "VARIANT"])),
    st.tuples(st.just("first"), _NAMES, st.none()),
)
_CASTS = {("INT", "BIGINT"), ("INT", "STRING"), ("BIGINT", "STRING"), ("STRING", "BIGINT")}


@given(st.lists(_STEPS, max_size=25))
def test_any_sequence_of_changes_leaves_columns_with_their_ids(steps: list[tuple[str, str, Any]]) -> None:
    model = Model()
    for verb, name, more in steps:
        found = model.id_of(name)
        if verb == "add":
            if model.try_to(AddColumn((name,), data_type(more)), found is None):
                model.given += 1
                model.columns[model.given] = [name, more]
                model.order.append(model.given)
        elif verb == "drop":
            if model.try_to(DropColumn((name,)), found not in (None, 0)):
                model.order.remove(found)  # type: ignore[arg-type]
        elif verb == "rename":
            free = model.id_of(more) is None or more == name
            if model.try_to(RenameColumn((name,), more), found is not None and free):
                model.columns[found][0] = more  # type: ignore[index]
        elif verb == "type":
            old = "" if found is None else model.columns[found][1]
            possible = found not in (None, 0) and (old == more or (old, more) in _CASTS)
            if model.try_to(UpdateType((name,), data_type(more)), possible):
                model.columns[found][1] = more  # type: ignore[index]
        elif model.try_to(MoveColumn((name,), First()), found is not None):
            model.order.remove(found)  # type: ignore[arg-type]
            model.order.insert(0, found)  # type: ignore[arg-type]
        model.check()


def test_schemas_of_the_past_stay_readable() -> None:
    store, root = table_in_memory(new_schema(row_type("a INT")))
    handle = open_table(store, root)
    for number in range(3):
        alter_table(handle, [AddColumn((f"c{number}",), data_type("INT"))])
    assert [read_schema(store, handle.layout, i).row_type.names for i in range(3)] == [
        ("a",),
        ("a", "c0"),
        ("a", "c0", "c1"),
    ]
