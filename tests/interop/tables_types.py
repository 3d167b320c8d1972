"""Tables of every type for Java to write, in each data format, with nulls and extremes."""

from __future__ import annotations

from typing import Any

from tests.interop.table_script import TableScript, Type, array, map_of, multiset, row

T = TableScript
LTZ = "WITH LOCAL TIME ZONE"

Column = tuple[str, Type, list[Any]]

# Per column: usual, extreme one way, extreme the other way, odd.
SCALARS: list[Column] = [
    ("bool", "BOOLEAN", [True, False, True, None]),
    ("i8", "TINYINT", [1, 127, -128, 0]),
    ("i16", "SMALLINT", [1, 32767, -32768, None]),
    ("i32", "INT", [1, 2**31 - 1, -(2**31), 0]),
    ("i64", "BIGINT", [1, 2**63 - 1, -(2**63), None]),
    ("f32", "FLOAT", [1.5, 3.4028234663852886e38, "-Infinity", "NaN"]),
    ("f64", "DOUBLE", [0.1, 1.7976931348623157e308, "Infinity", "NaN"]),
    ("n5", "DECIMAL(5, 0)", ["1", "99999", "-99999", None]),
    ("n9", "DECIMAL(9, 2)", ["1.50", "9999999.99", "-9999999.99", "0.00"]),
    ("n18", "DECIMAL(18, 18)", ["0.5", "0.999999999999999999", "-0.999999999999999999", None]),
    (
        "n38",
        "DECIMAL(38, 18)",
        ["1.5", "99999999999999999999.999999999999999999", "-0.000000000000000001", "0"],
    ),
    ("c", "CHAR(5)", ["abcde", "日本語です", "x", None]),
    ("vc", "VARCHAR(20)", ["héllo", "z" * 20, "", " "]),
    ("s", "STRING", ["text", "q" * 300, 'line\nbreak\t"quoted" \\ \u0000end', "🐟"]),
    ("bin", "BINARY(4)", ["00ff10a0", "ffffffff", "00000000", None]),
    ("vb", "VARBINARY(10)", ["01", "ff" * 10, "", None]),
    ("by", "BYTES", ["deadbeef", "ab" * 200, "", None]),
    ("d", "DATE", ["2024-02-29", "9999-12-31", "0001-01-01", "1969-12-31"]),
    ("tm", "TIME(3)", ["12:34:56.789", "23:59:59.999", "00:00:00", None]),
    ("tm0", "TIME(0)", ["12:34:56", "23:59:59", "00:00:00", None]),
]
NESTED: list[Column] = [
    ("a", array("INT"), [[1, None, 3], [], [2**31 - 1], None]),
    ("as", array("STRING"), [["a", None, ""], [], ["日本"], None]),
    ("an", array("DECIMAL(20, 3)"), [["1.5", None], [], ["-12345678901234567.891"], None]),
    ("at", array("TIMESTAMP(6)"), [["2024-01-01T00:00:00.000001", None], [], ["1969-12-31T23:59:59.999999"], None]),
    ("aa", array(array("BIGINT")), [[[1], [], None, [None, 2]], [], [[]], None]),
    (
        "ar",
        array(row(("x", "BIGINT"), ("y", array("DOUBLE")))),
        [[[1, [0.5, None]], None, [None, []]], [], [[2, None]], None],
    ),
    ("m", map_of("STRING", "INT"), [[["k1", 1], ["k2", None]], [], [["", 0]], None]),
    ("mi", map_of("INT", array("STRING")), [[[1, ["x", None]], [2, []], [3, None]], [], [[-1, [""]]], None]),
    ("md", map_of("DATE", "DECIMAL(10, 2)"), [[["2024-01-01", "1.50"]], [], [["1969-12-31", None]], None]),
    (
        "r",
        row(("a", "INT"), ("b", "STRING"), ("c", "DECIMAL(10, 3)")),
        [[7, "bee", "3.142"], [0, "", "0.000"], [None, None, "1"], None],
    ),
    (
        "deep",
        row(("p", row(("q", array(map_of("STRING", "BIGINT"))), ("r", "DATE"))), ("s", "TIMESTAMP(3)")),
        [
            [[[[["m", 1]], None, []], "2020-01-01"], "2020-01-01T00:00:00.001"],
            [[[], None], None],
            [None, "1969-12-31T23:59:58"],
            None,
        ],
    ),
    (
        "mr",
        map_of("STRING", row(("x", "INT"), ("y", array("INT")))),
        [[["k", [1, [1]]], ["l", None]], [], [["e", [None, None]]], None],
    ),
    ("nn", array("INT NOT NULL"), [[1, 2], [], [0], None]),
]

FRACTIONS = ["", ".1", ".12", ".123", ".1234", ".12345", ".123456", ".1234567", ".12345678", ".123456789"]


def scripts() -> list[TableScript]:
    """Every table of types."""
    result = []
    for data_format in ("parquet", "orc", "avro"):
        columns = [*SCALARS, *NESTED]
        result.append(_append(f"types_append_{data_format}", data_format, columns))
        result.append(_primary_key(f"types_pk_{data_format}", data_format, columns))
        result.append(_timestamps(data_format))
    return [*result, _multiset("parquet"), _multiset("orc"), *_variants(), *_large_types(), _not_null()]


def _append(name: str, data_format: str, columns: list[Column]) -> TableScript:
    fields = [["id", "INT NOT NULL"], *[[column, type_, f"a {column}"] for column, type_, _ in columns]]
    script = T(
        name,
        f"every type in {data_format}: usual values, extremes, nulls",
        fields,
        options={"file.format": data_format},
    )
    rows = [[i, *[values[i] for _, _, values in columns]] for i in range(4)]
    script.write(rows[:2]).write(rows[2:]).write([[4, *[None] * len(columns)]])
    script.where("i32 = -2147483648", ["=", "i32", -(2**31)]).where("n9 > 1.50", [">", "n9", "1.50"])
    script.where("s IS NULL", ["is null", "s"]).where("d < DATE '1970-01-01'", ["<", "d", "1970-01-01"])
    script.where("bool = true AND i64 >= 1", ["and", ["=", "bool", True], [">=", "i64", 1]])
    return script


def _primary_key(name: str, data_format: str, columns: list[Column]) -> TableScript:
    fields = [["id", "INT NOT NULL"], *[[column, type_] for column, type_, _ in columns]]
    script = T(
        name,
        f"every type merged, {data_format}",
        fields,
        pk=["id"],
        options={"bucket": "1", "file.format": data_format},
    )
    rows = [[i, *[values[i] for _, _, values in columns]] for i in range(4)]
    script.pile(rows).pile([[1, *rows[2][1:]], [3, *rows[0][1:]], [5, *[None] * len(columns)]])
    return script


def _timestamps(data_format: str) -> TableScript:
    # Avro knows milliseconds and microseconds only.
    precisions = range(7) if data_format == "avro" else range(10)
    fields: list[list[Any]] = [["id", "INT"]]
    fields += [[f"t{p}", f"TIMESTAMP({p})"] for p in precisions]
    fields += [[f"z{p}", f"TIMESTAMP({p}) {LTZ}"] for p in precisions]
    script = T(
        f"types_timestamps_{data_format}",
        f"timestamps of every precision, {data_format}",
        fields,
        options={"file.format": data_format},
    )
    rows: list[list[Any]] = []
    bases = [
        "2024-02-29T12:34:56",
        "1969-12-31T23:59:58",
        "1970-01-01T00:00:00",
        "1900-01-01T00:00:00",
        "2261-12-31T23:59:59",
    ]
    for i, base in enumerate(bases):
        plain = [base + FRACTIONS[p] for p in precisions]
        rows.append([i, *plain, *[text + "Z" for text in plain]])
    rows.append([9, *[None] * (2 * len(precisions))])
    script.write(rows[:3]).write(rows[3:])
    if data_format == "parquet":
        # Outside of what 64 bits of nanoseconds hold, for the precisions stored in micro- and milliseconds.
        for i, base in enumerate(("0001-01-01T00:00:00", "9999-12-31T23:59:59", "1582-10-10T00:00:00")):
            far: list[str | None] = [base + FRACTIONS[p] if p <= 6 else None for p in precisions]
            script.write([[20 + i, *far, *[None if text is None else text + "Z" for text in far]]])
    script.where("t3 > TIMESTAMP '2000-01-01 00:00:00'", [">", "t3", "2000-01-01T00:00:00"])
    return script


def _multiset(data_format: str) -> TableScript:
    fields = [["id", "INT"], ["m", multiset("STRING")], ["n", multiset("INT")]]
    script = T(f"types_multiset_{data_format}", "multisets", fields, options={"file.format": data_format})
    return script.write([[1, [["a", 2], ["b", 1]], [[5, 1]]], [2, [], None], [3, None, []]])


def _variants() -> list[TableScript]:
    texts = [
        '{"a": 1, "b": [true, null, 1.5], "c": {"d": "text"}}',
        '"just text"',
        "12345678901",
        "[1, 2, 3]",
        "null",
        "{}",
    ]
    plain = T("types_variant", "VARIANT", [["id", "INT"], ["v", "VARIANT"]])
    plain.write([[i, text] for i, text in enumerate(texts)]).write([[9, None]])
    inferred = T(
        "types_variant_shredded",
        "shredded VARIANT",
        [["id", "INT"], ["v", "VARIANT"]],
        options={"variant.inferShreddingSchema": "true"},
        may_refuse="shredded",
    )
    inferred.write([[i, f'{{"a": {i}, "b": "text {i}"}}'] for i in range(20)])
    return [plain, inferred]


def _large_types() -> list[TableScript]:
    blob = T(
        "types_blob",
        "BLOB in files of their own",
        [["id", "INT"], ["b", "BLOB"]],
        options={"row-tracking.enabled": "true", "data-evolution.enabled": "true", "blob-field": "b"},
        may_refuse="BLOB",
        java_may_fail="BLOB needs options that differ from release to release",
    )
    blob.write([[1, "00ff"], [2, None], [3, "ab" * 5000]]).write([[4, ""]])
    vector = T(
        "types_vector",
        "VECTOR",
        [["id", "INT"], ["v", {"type": "VECTOR", "element": "FLOAT", "length": 3}]],
        may_refuse="VECTOR",
        java_may_fail="VECTOR needs options that differ from release to release",
    )
    vector.write([[1, [0.5, 1.0, -1.5]], [2, None], [3, [0.0, 0.0, 0.0]]])
    return [blob, vector]


def _not_null() -> TableScript:
    fields = [
        ["id", "INT NOT NULL"],
        ["s", "STRING NOT NULL"],
        ["r", {**_row(("x", "INT NOT NULL"), ("y", "STRING NOT NULL")), "type": "ROW NOT NULL"}],
        ["a", {"type": "ARRAY NOT NULL", "element": "STRING NOT NULL"}],
        ["m", {"type": "MAP NOT NULL", "key": "INT NOT NULL", "value": "BIGINT NOT NULL"}],
    ]
    script = T("types_not_null", "NOT NULL at every depth", fields)
    return script.write([[1, "a", [1, "y"], ["e"], [[1, 2]]], [2, "", [2, ""], [], []]])


def _row(*fields: tuple[str, Type]) -> dict[str, Any]:
    type_ = row(*fields)
    assert isinstance(type_, dict)
    return type_
