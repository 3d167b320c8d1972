"""Input of writes: columns by name, defaults, nulls, conversions and refusals."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.engine.tasks import NANOSECONDS
from paimon_spark.engine.write.input import InputMapper, check_input
from paimon_spark.errors import DataError, PaimonError, SchemaMismatchError, UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.write import parse_write_options
from paimon_spark.types import RowKind
from tests.harness.search import examples
from tests.harness.writing import empty_table


def mapper(handle: TableHandle, source: pa.Schema) -> InputMapper:
    return InputMapper(handle.schema, source, parse_write_options(handle.options.raw), "table db.t")


def mapped(handle: TableHandle, batch: pa.RecordBatch) -> pa.RecordBatch:
    out = mapper(handle, batch.schema).apply(batch)
    out.validate(full=True)
    return out


def column(kind: Any, array: pa.Array, default: str | None = None) -> list[Any]:
    """What becomes of an array in a column."""
    handle = empty_table({"c": kind}, defaults={} if default is None else {"c": default})
    out = mapped(handle, pa.record_batch([array], ["c"]))
    assert out.schema.equals(arrow_schema(handle.schema.fields), check_metadata=True)
    values: list[Any] = out.column(0).to_pylist()
    return values


def test_columns_match_by_name_in_any_order() -> None:
    handle = empty_table({"a": "INT", "B": "STRING"})
    out = mapped(handle, pa.record_batch({"b": ["x"], "a": pa.array([1], pa.int32())}))
    assert out.to_pylist() == [{"a": 1, "B": "x"}]


def test_nanoseconds_take_the_place_of_values_that_spark_cut() -> None:
    handle = empty_table({"t": "TIMESTAMP(9)", "v": "TIMESTAMP(6)"})
    cut = pa.array([1, 2, None, None], pa.timestamp("us"))
    whole = pa.array([1999, None, None, 5], pa.int64())
    out = mapped(handle, pa.record_batch([cut, cut, whole], ["t", "v", f"{NANOSECONDS}t"]))
    assert out.schema.names == ["t", "v"]
    assert out.column(0).cast(pa.int64()).to_pylist() == [1999, 2000, None, 5]
    assert out.column(1).cast(pa.int64()).to_pylist() == [1, 2, None, None]
    with pytest.raises(SchemaMismatchError, match="no column"):  # whose values Spark does not cut
        mapper(handle, pa.schema([("v", pa.timestamp("us")), (f"{NANOSECONDS}v", pa.int64())]))


def test_an_exact_name_wins_and_an_ambiguous_one_is_refused() -> None:
    handle = empty_table({"a": "INT", "A": "INT"})
    out = mapped(handle, pa.record_batch({"A": pa.array([1], pa.int32()), "a": pa.array([2], pa.int32())}))
    assert out.to_pylist() == [{"a": 2, "A": 1}]
    handle = empty_table({"ab": "INT", "AB": "INT"})
    with pytest.raises(SchemaMismatchError, match="no column 'aB'"):
        mapper(handle, pa.schema([("aB", pa.int32())]))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"idd": pa.int64()}, "no column 'idd'; did you mean 'id'"),
        ({"id": pa.int64(), "ID": pa.int64()}, "column id of table db.t twice"),
        ({"v": pa.string()}, "column id of table db.t is BIGINT NOT NULL, and the rows to write have no such column"),
        ({"id": pa.float64()}, r"column id .* have double.*CAST\(id AS BIGINT\)"),
        ({"id": pa.string()}, r"have string.*CAST\(id AS BIGINT\)"),
        ({"id": pa.bool_()}, "bool"),
        ({"id": pa.decimal128(10, 2)}, "decimal128"),
    ],
)
def test_what_can_never_be_written_is_told_before_any_row(source: dict[str, pa.DataType], message: str) -> None:
    handle = empty_table({"id": "BIGINT NOT NULL", "v": "STRING"})
    with pytest.raises(SchemaMismatchError, match=message):
        check_input(handle.schema, pa.schema(list(source.items())), parse_write_options({}), "table db.t")


def test_a_missing_column_is_null_or_its_default() -> None:
    handle = empty_table({"a": "INT", "b": "INT", "c": "INT NOT NULL"}, defaults={"b": "7", "c": "8"})
    out = mapped(handle, pa.record_batch({"a": pa.array([1, 2], pa.int32())}))
    assert out.to_pylist() == [{"a": 1, "b": 7, "c": 8}, {"a": 2, "b": 7, "c": 8}]


def test_a_null_becomes_the_default_but_not_in_a_column_that_has_no_nulls() -> None:
    assert column("INT", pa.array([1, None], pa.int32()), default="9") == [1, 9]
    assert column("STRING", pa.array(["", None]), default="x y") == ["", "x y"]
    with pytest.raises(DataError, match="have a null in it"):
        column("INT NOT NULL", pa.array([1, None], pa.int32()), default="9")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("BOOLEAN", "true", True),
        ("DECIMAL(5, 2)", "1.5", Decimal("1.50")),
        ("DATE", "2024-01-02", date(2024, 1, 2)),
        ("DOUBLE", "1.5", 1.5),
        ("TIMESTAMP(3)", "2024-01-02 03:04:05", datetime(2024, 1, 2, 3, 4, 5)),
        ("BYTES", "ab", b"ab"),
        ("STRING", "'a b'", "a b"),
        ("CHAR(3)", "a", "a  "),
    ],
)
def test_defaults_are_text_of_the_column_s_type(kind: str, text: str, value: Any) -> None:
    array = pa.nulls(1, pa.null())
    assert column(kind, array, default=text) == [value]


def test_a_default_of_another_type_is_refused() -> None:
    with pytest.raises(SchemaMismatchError, match="default 'abc' of column c"):
        column("INT", pa.nulls(1), default="abc")
    with pytest.raises(SchemaMismatchError, match="default '1000'"):
        column("DECIMAL(3, 1)", pa.nulls(1), default="1000")


INTS = {"type": "ARRAY", "element": "INT"}
STRICT_INTS = {"type": "ARRAY", "element": "INT NOT NULL"}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TEXTS = {"type": "ARRAY", "element": "STRING"}
STAMPS = {"type": "MAP", "key": "STRING", "value": "TIMESTAMP_LTZ(3)"}
COUNTS = pa.map_(pa.large_string(), pa.int64())
STRICT_ROW = {"type": "ROW", "fields": [{"id": 9, "name": "x", "type": "INT NOT NULL"}]}
NESTED_ROW = {
    "type": "ROW",
    "fields": [{"id": 9, "name": "x", "type": "INT"}, {"id": 8, "name": "y", "type": "STRING"}],
}

F32_TENTH = 0.10000000149011612

FITS: list[tuple[Any, pa.Array, list[Any]]] = [
    ("TINYINT", pa.array([1, -128, None], pa.int64()), [1, -128, None]),
    ("INT", pa.array([1], pa.uint64()), [1]),
    ("BIGINT", pa.array([Decimal(5)], pa.decimal128(10, 0)), [5]),
    ("DOUBLE", pa.array([1.5], pa.float32()), [1.5]),
    ("DOUBLE", pa.array([2**53], pa.int64()), [float(2**53)]),
    ("FLOAT", pa.array([1.5], pa.float16()), [1.5]),
    ("DOUBLE", pa.array([Decimal("-1.10"), Decimal("9.99"), None], pa.decimal128(15, 2)), [-1.1, 9.99, None]),
    ("DOUBLE", pa.array([Decimal("1234567890123456.789"), None], pa.decimal128(19, 3)), [1234567890123456.8, None]),
    ("DOUBLE", pa.array([Decimal(10**38 - 1), Decimal(2**53 + 1)], pa.decimal128(38, 0)), [1e38, 2.0**53]),
    ("FLOAT", pa.array([Decimal("0.1"), Decimal("16777217.0")], pa.decimal128(18, 1)), [F32_TENTH, 16777216.0]),
    ("FLOAT", pa.array([0.1, 1e300, -1e300, math.inf, None]), [F32_TENTH, math.inf, -math.inf, math.inf, None]),
    ("DECIMAL(5, 2)", pa.array([Decimal("1.50"), None], pa.decimal128(10, 3)), [Decimal("1.50"), None]),
    ("DECIMAL(38, 2)", pa.array([Decimal("1.5")], pa.decimal256(50, 2)), [Decimal("1.50")]),
    ("DECIMAL(5, 2)", pa.array([999], pa.int64()), [Decimal(999)]),
    ("STRING", pa.array(["a", None], pa.large_string()), ["a", None]),
    ("STRING", pa.array(["a", None], pa.string_view()), ["a", None]),
    ("STRING", pa.array(["a", "a", None]).dictionary_encode(), ["a", "a", None]),
    ("STRING", pa.array([1, None], pa.int32()), ["1", None]),
    ("STRING", pa.array([2**63], pa.uint64()), [str(2**63)]),
    ("STRING", pa.array([1e20, 0.1, None]), ["1.0E20", "0.1", None]),
    ("STRING", pa.array([Decimal("-1.50")], pa.decimal128(10, 2)), ["-1.50"]),
    ("STRING", pa.array([True]), ["true"]),
    ("STRING", pa.array([date(2024, 1, 2)]), ["2024-01-02"]),
    ("CHAR(3)", pa.array(["a", "äöü", "abc  ", None]), ["a", "äöü", "abc", None]),
    ("VARCHAR(3)", pa.array(["a", "äöü", "abc  "]), ["a", "äöü", "abc"]),
    ("BYTES", pa.array([b"a"], pa.large_binary()), [b"a"]),
    ("BINARY(2)", pa.array([b"ab", None], pa.binary(2)), [b"ab", None]),
    ("DATE", pa.array([date(2024, 1, 2)], pa.date64()), [date(2024, 1, 2)]),
    ("TIMESTAMP(6)", pa.array([date(2024, 1, 2)]), [datetime(2024, 1, 2)]),
    ("TIMESTAMP(3)", pa.array([5000], pa.timestamp("us")), [datetime(1970, 1, 1, 0, 0, 0, 5000)]),
    ("TIMESTAMP(6)", pa.array([1], pa.timestamp("s")), [datetime(1970, 1, 1, 0, 0, 1)]),
    ("TIMESTAMP_LTZ(6)", pa.array([0], pa.timestamp("us", "America/New_York")), [datetime(1970, 1, 1, tzinfo=UTC)]),
    ("TIMESTAMP(6)", pa.array([0], pa.timestamp("us", "America/New_York")), [datetime(1969, 12, 31, 19)]),
    ("INT", pa.nulls(2), [None, None]),
    ("INT", pa.array([1, 2, 2, None]).cast(pa.int32()).dictionary_encode(), [1, 2, 2, None]),
    (INTS, pa.array([[1, None], None, []], pa.large_list(pa.int64())), [[1, None], None, []]),
    ({"type": "ARRAY", "element": "BIGINT"}, pa.array([[1, 2]], pa.list_(pa.int32(), 2)), [[1, 2]]),
    ({"type": "MAP", "key": "STRING", "value": "INT"}, pa.array([[("a", 1)], None], COUNTS), [[("a", 1)], None]),
    (STRICT_INTS, pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2)), [[1, 2], None, [3, 4]]),
    (STRICT_INTS, pa.array([[1], None, []], pa.list_view(pa.int32())), [[1], None, []]),
    (STRICT_INTS, pa.array([[1], None, []], pa.large_list_view(pa.int32())), [[1], None, []]),
    ({"type": "ARRAY", "element": INTS}, pa.array([[[1], None]], pa.list_(pa.large_list(pa.int8()))), [[[1], None]]),
    (TEXTS, pa.array([["a", "a"]], pa.list_(pa.dictionary(pa.int32(), pa.string()))), [["a", "a"]]),
    (STAMPS, pa.array([[("a", 0)]], pa.map_(pa.string(), pa.timestamp("s", "UTC"))), [[("a", EPOCH)]]),
    ({"type": "MULTISET", "element": "STRING"}, pa.array([[("a", 2)]], pa.map_(pa.string(), pa.int32())), [[("a", 2)]]),
    (NESTED_ROW, pa.array([{"Y": "b", "x": 1}, None]), [{"x": 1, "y": "b"}, None]),
    (NESTED_ROW, pa.array([{"x": 1}]), [{"x": 1, "y": None}]),
    ("VARIANT", pa.array([{"metadata": b"m", "value": b"v"}, None]), [{"value": b"v", "metadata": b"m"}, None]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "array", "values"), FITS, ids=[f"{k}-{a.type}" for k, a, _ in FITS])
def test_what_fits_is_written(kind: Any, array: pa.Array, values: list[Any]) -> None:
    assert column(kind, array) == values
    padded = pa.concat_arrays([array.slice(0, 1), array]).slice(1)  # values that do not start their buffer
    assert column(kind, padded) == values
    assert column(kind, array.slice(0, 0)) == []


LOST: list[tuple[Any, pa.Array, str]] = [
    ("TINYINT", pa.array([5, 128], pa.int32()), "cannot hold 128"),
    ("BIGINT", pa.array([2**63], pa.uint64()), "cannot hold 9223372036854775808"),
    ("DOUBLE", pa.array([0, 2**53 + 1], pa.int64()), "cannot hold 9007199254740993"),
    ("FLOAT", pa.array([2**24 + 1], pa.int32()), "cannot hold 16777217"),
    ("DECIMAL(5, 2)", pa.array([Decimal("1.505")], pa.decimal128(10, 3)), r"cannot hold 1\.505"),
    ("DECIMAL(5, 2)", pa.array([Decimal(1000)], pa.decimal128(10, 0)), "cannot hold 1000"),
    ("DECIMAL(5, 2)", pa.array([1, 1000], pa.int64()), "cannot hold 1000"),
    ("DECIMAL(38, 38)", pa.array([7], pa.int64()), "cannot hold 7"),
    ("CHAR(3)", pa.array(["ab", "abcd"]), "'abcd'.*longer than 3 characters"),
    ("VARCHAR(2)", pa.array(["äöü"]), "'äöü'.*longer than 2 characters"),
    ("BINARY(2)", pa.array([b"abc"]), "longer than 2 bytes"),
    ("TIMESTAMP(3)", pa.array([5001], pa.timestamp("us")), "TIMESTAMP"),
    ("TIMESTAMP(4)", pa.array([150], pa.timestamp("us")), "finer than 4 digits"),
    ("TIMESTAMP(6)", pa.array([1001], pa.timestamp("ns")), "TIMESTAMP"),
    ("TIME(0)", pa.array([1001], pa.time64("us")), "TIME"),
    ("TIME(0)", pa.array([-1], pa.int32()), "cannot hold -1"),
    ({"type": "ARRAY", "element": "TINYINT"}, pa.array([[1], [300]]), r"c\.element.*cannot hold 300"),
    ({"type": "ARRAY", "element": "INT NOT NULL"}, pa.array([[1, None]]), r"c\.element.*NOT NULL"),
    ({"type": "MAP", "key": "STRING", "value": "INT NOT NULL"}, pa.array([[("a", None)]], COUNTS), r"c\.value"),
    (STRICT_ROW, pa.array([{"x": None}], pa.struct([("x", pa.int32())])), r"c\.x"),
    ("INT NOT NULL", pa.array([1, None], pa.int32()), "have a null in it"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "array", "message"), LOST, ids=[f"{k}-{a.type}" for k, a, _ in LOST])
def test_what_would_lose_something_is_an_error_with_an_example(kind: Any, array: pa.Array, message: str) -> None:
    with pytest.raises(DataError, match=message):
        column(kind, array)


REFUSED: list[tuple[Any, pa.DataType]] = [
    ("DECIMAL(5, 2)", pa.float64()), ("INT", pa.float32()), ("INT", pa.string()), ("INT", pa.decimal128(5, 1)),
    ("DATE", pa.timestamp("us")), ("DATE", pa.string()), ("BOOLEAN", pa.int8()),
    ("STRING", pa.timestamp("us")), ("STRING", pa.binary()), ("BYTES", pa.string()),
    ("TIMESTAMP_LTZ(6)", pa.timestamp("us")), ("TIMESTAMP_LTZ(6)", pa.date32()), ("TIMESTAMP(6)", pa.int64()),
    ("INT", pa.list_(pa.int32())), ({"type": "ARRAY", "element": "INT"}, pa.int32()),
    ({"type": "ARRAY", "element": "INT"}, pa.list_(pa.string())),
    ({"type": "MAP", "key": "INT", "value": "INT"}, pa.struct([("key", pa.int32())])),
    (NESTED_ROW, pa.struct([("z", pa.int32())])), ("VARIANT", pa.struct([("value", pa.binary())])),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "source"), REFUSED, ids=[f"{k}-{t}" for k, t in REFUSED])
def test_casts_that_could_lose_for_any_value_are_refused(kind: Any, source: pa.DataType) -> None:
    handle = empty_table({"c": kind})
    with pytest.raises(SchemaMismatchError, match="column c"):
        mapper(handle, pa.schema([("c", source)]))


def test_extension_types_are_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="extension type"):
        mapper(empty_table({"c": "STRING"}), pa.schema([("c", pa.json_())]))


def test_nulls_that_a_null_parent_hides_do_not_count() -> None:
    array = pa.StructArray.from_arrays([pa.array([None, 1], pa.int32())], ["x"], mask=pa.array([True, False]))
    assert column(STRICT_ROW, array) == [None, {"x": 1}]
    hidden = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array([None, 3], pa.int32()),
                                      mask=pa.array([True, False]))  # fmt: skip
    assert column({"type": "ARRAY", "element": "INT NOT NULL"}, hidden) == [None, [3]]


def test_a_null_names_the_row_it_is_in() -> None:
    handle = empty_table({"id": "INT NOT NULL", "v": "STRING"}, primary_keys=("id",), options={"bucket": "1"})
    rows = pa.record_batch({"id": pa.array([1, None], pa.int32()), "v": ["a", "b"]})
    with pytest.raises(
        DataError, match=r"column id of table db\.t is a column of the primary key, .*have a null in it.*v = 'b'"
    ):
        mapped(handle, rows)


KINDS = [k.symbol for k in RowKind]


def keyed(**options: str) -> TableHandle:
    given_options = {"bucket": "1", **options}
    return empty_table({"id": "INT NOT NULL", "op": "STRING"}, primary_keys=("id",), options=given_options)


def kind_rows(ops: Sequence[str | None]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(len(ops)), pa.int32()), pa.array(ops, pa.string())], ["id", "op"])


def kinds_of(batch: pa.RecordBatch) -> list[int]:
    kinds: list[int] = batch.column("_VALUE_KIND").to_pylist()
    return kinds


def test_a_column_says_what_rows_do() -> None:
    handle = keyed(**{"rowkind.field": "op"})
    out = mapped(handle, kind_rows(KINDS))
    assert kinds_of(out) == [0, 1, 2, 3]
    assert out.column("op").to_pylist() == KINDS
    dictionary = kind_rows(KINDS).set_column(1, "op", pa.array(KINDS).dictionary_encode())
    assert kinds_of(mapped(handle, dictionary)) == [0, 1, 2, 3]


@pytest.mark.parametrize("wrong", [None, "", "+i", "D"])
def test_other_words_are_refused(wrong: str | None) -> None:
    with pytest.raises(DataError, match=re.escape("NULL" if wrong is None else repr(wrong)) + " is none of"):
        mapped(keyed(**{"rowkind.field": "op"}), kind_rows(["+I", wrong]))


def test_a_rowkind_field_must_be_there() -> None:
    with pytest.raises(SchemaMismatchError, match=r"rowkind\.field = 'op', which is not among the rows"):
        mapper(keyed(**{"rowkind.field": "op"}), pa.schema([("id", pa.int32())]))
    with pytest.raises(SchemaMismatchError, match="no text column"):
        mapper(keyed(**{"rowkind.field": "id"}), kind_rows([]).schema)


@pytest.mark.parametrize("kinds", [pa.array([0, 3], pa.int8()), pa.array(["+I", "-D"]), pa.array([0, 3], pa.int64())])
def test_row_kinds_come_beside_the_columns_too(kinds: pa.Array) -> None:
    rows = kind_rows(["x", "y"]).append_column("_VALUE_KIND", kinds)
    assert kinds_of(mapped(keyed(), rows)) == [0, 3]


def test_without_kinds_all_rows_are_inserts_and_no_column_says_so() -> None:
    assert mapped(keyed(), kind_rows(["x"])).schema.names == ["id", "op"]


@pytest.mark.parametrize(("option", "left"), [("ignore-delete", [0, 2]), ("ignore-update-before", [0, 2, 3])])
def test_kinds_that_are_skipped(option: str, left: list[int]) -> None:
    out = mapped(keyed(**{"rowkind.field": "op", option: "true"}), kind_rows(KINDS))
    assert kinds_of(out) == left
    assert out.column("id").to_pylist() == left


def test_tables_without_keys_take_no_retracts_unless_they_are_skipped() -> None:
    columns = {"id": "INT", "op": "STRING"}
    handle = empty_table(columns, options={"rowkind.field": "op"})
    assert mapped(handle, kind_rows(["+I", "+U"])).num_rows == 2
    with pytest.raises(DataError, match=r"no row of kind -D; filter.*ignore-delete"):
        mapped(handle, kind_rows(["+I", "-D"]))
    ignoring = empty_table(columns, options={"rowkind.field": "op", "ignore-delete": "true"})
    assert mapped(ignoring, kind_rows(KINDS)).column("id").to_pylist() == [0, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"merge-engine": "first-row"}, "keeps the first row of each key"),
        ({"merge-engine": "partial-update"}, "without a rule for deletes"),
        ({"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}, None),
        ({"merge-engine": "partial-update", "fields.op.sequence-group": "id"}, None),
        ({"merge-engine": "first-row", "ignore-delete": "true"}, None),
        ({"merge-engine": "aggregation"}, None),
        ({}, None),
    ],
)
def test_engines_that_cannot_take_back_rows_say_so_before_a_file_is_written(
    options: dict[str, str], message: str | None
) -> None:
    handle = keyed(**{"rowkind.field": "op", **options})
    assert mapped(handle, kind_rows(["+I", "+U"])).num_rows == 2
    for kind in ("-U", "-D"):
        if message is None:
            mapped(handle, kind_rows(["+I", kind]))
            continue
        with pytest.raises(DataError, match=f"{message}.*no row of kind {kind}; filter.*ignore-delete"):
            mapped(handle, kind_rows(["+I", kind]))


@given(
    values=st.lists(st.none() | st.integers(-(2**40), 2**40), max_size=40),
    start=st.integers(0, 5),
    kind=st.sampled_from(["TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL(6, 2)", "FLOAT", "DOUBLE", "STRING"]),
)
@settings(max_examples=examples(200), deadline=None)
def test_integers_are_kept_exactly_or_refused(values: list[int | None], start: int, kind: str) -> None:
    array = pa.array(values, pa.int64()).slice(start)
    try:
        out = column(kind, array)
    except PaimonError as e:
        shown = str(e.context["value"])
        assert int(shown) in values[start:]
        assert kind != "STRING"
        return
    assert [None if v is None else int(v) for v in out] == values[start:]


EXACT = Context(prec=100)


@given(unscaled=st.integers(-(10**38) + 1, 10**38 - 1), data=st.data())
@settings(max_examples=examples(300), deadline=None)
def test_decimals_are_kept_exactly_or_refused(unscaled: int, data: st.DataObject) -> None:
    unscaled //= 10 ** data.draw(st.integers(0, 38))
    scale = data.draw(st.integers(0, 38))
    precision = data.draw(st.integers(1, 38))
    target_scale = data.draw(st.integers(0, precision))
    value = Decimal(unscaled).scaleb(-scale, context=EXACT)
    array = pa.array([Decimal(0), value], pa.decimal256(76, scale))
    shifted = Decimal(unscaled).scaleb(target_scale - scale, context=EXACT)
    fits = shifted == shifted.to_integral_value(context=EXACT) and abs(shifted) < 10**precision
    try:
        out = column(f"DECIMAL({precision}, {target_scale})", array)
    except DataError:
        assert not fits
        return
    assert fits
    assert out == [0, value]


@settings(max_examples=examples(20))
@given(
    unscaled=st.lists(st.integers(-(10**15) + 1, 10**15 - 1), min_size=1, max_size=50),
    scale=st.integers(0, 15),
)
def test_decimals_of_fifteen_digits_become_the_nearest_double(unscaled: list[int], scale: int) -> None:
    values = [Decimal(number).scaleb(-scale, context=EXACT) for number in unscaled]
    assert column("DOUBLE", pa.array(values, pa.decimal128(15, scale))) == [float(value) for value in values]
