"""Rows with awkward values of every type, and random conditions over them: for comparisons with Spark."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TINYINT,
    DataField,
    DataType,
    DecimalType,
    RowType,
    TimestampType,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZONE: Final = "America/Havana"
"""Its clocks skip and repeat midnight."""

TYPES: Final[dict[str, DataType]] = {
    "flag": BOOLEAN,
    "tiny": TINYINT,
    "small": SMALLINT,
    "i": INT,
    "j": INT,
    "big": BIGINT,
    "f": FLOAT,
    "d": DOUBLE,
    "dec": DecimalType(True, 10, 2),
    "wide": DecimalType(True, 25, 5),
    "s": STRING,
    "t": STRING,
    "num": STRING,
    "day": DATE,
    "ts": TimestampType(True, 6),
    "lz": TimestampType(True, 6, True),
}
ROW_TYPE: Final = RowType(False, tuple(DataField(n, name, t) for n, (name, t) in enumerate(TYPES.items())))
SPARK_TYPES: Final = {
    name: str(t).replace("TIMESTAMP(6) WITH LOCAL TIME ZONE", "TIMESTAMP").replace("TIMESTAMP(6)", "TIMESTAMP_NTZ")
    for name, t in TYPES.items()
}

VALUES: Final[dict[str, tuple[str | None, ...]]] = {
    "flag": ("true", "false", None),
    "tiny": ("0", "1", "-3", "100", None),
    "small": ("0", "7", "-300", "255", None),
    "i": ("0", "1", "-1", "2", "5", "-7", "2000000000", "16777217", None),
    "j": ("0", "1", "3", "-2", "4", None),
    "big": ("0", "1", "-9", "9007199254740993", "9007199254740992", "4", None),
    "f": ("0.0", "-0.0", "1.5", "0.1", "NaN", "Infinity", "16777216", "-2.5", None),
    "d": ("0.0", "-0.0", "1.5", "0.1", "NaN", "-Infinity", "9007199254740992", "2.5", "1e10", None),
    "dec": ("0", "1.50", "-1.25", "99999999.99", "0.10", "3", None),
    "wide": ("0", "1.5", "-12345678901234567.12345", "0.10000", "3", None),
    "s": ("", "a", "A", "abc", "aBC", "Straße", "é", "a\\nb", "a%b", "ab\\n", " x ", "ΑΣ", "😀b", "_", "b.c", None),
    "t": ("", "a", "abc", "ABC", "b", "É", None),
    "num": ("0", "1", " 2 ", "-3", "5", None),
    "day": ("2024-01-01", "1969-12-31", "2024-02-29", "2024-03-10", "2024-11-03", "0001-01-01", "9999-12-31", None),
    "ts": (
        "2024-01-01 00:00:00", "2024-03-10 00:30:00", "2024-03-10 01:30:00", "2024-11-03 00:30:00",
        "2024-11-03 01:00:00", "1969-12-31 23:59:59.999999", "2024-02-29 12:34:56.789", None,
    ),
    "lz": (
        "2024-01-01 05:00:00Z", "2024-03-10 05:30:00Z", "2024-11-03 04:30:00Z", "2024-11-03 05:30:00Z",
        "2024-11-03 05:00:00Z", "1969-12-31 23:59:59.999999Z", "2024-02-29 12:34:56.789Z", "1900-01-01 05:29:36Z", None,
    ),
}  # fmt: skip

_AT_ONCE: Final = 25
_NUMBERS: Final = ("tiny", "small", "i", "j", "big", "f", "d", "dec", "wide")
_WHOLE: Final = ("0", "1", "2", "-1", "5", "-7", "100", "3000000000", "9007199254740993", "16777217")
_EXACT: Final = ("1.5", "0.1", "-2.50", "100.0", "0.05", "1.25")
_REAL: Final = ("1.5D", "0.1D", "1e3", "1.5F", "0.1F", "-2.5D", "9007199254740992D")
_PATTERNS: Final = ("a%", "%b", "_", "a_b", "%", "a\\\\%b", "abc", "%a%")
_REGEXES: Final = (
    "^a", "b$", "a.b", "[a-c]+$", "^$", "\\\\d", "(a|b)c", "a|é", "\\\\s", "[^a]", "x{1,2}", "^[^b]$", "B?C", "😀.",
)  # fmt: skip
_UNITS: Final = (
    "year",
    "QUARTER",
    "month",
    "MM",
    "week",
    "day",
    "DD",
    "hour",
    "minute",
    "second",
    "millisecond",
    "era",
)
_DATES: Final = ("DATE '2024-01-01'", "DATE '2024-03-10'", "DATE '1969-12-31'", "DATE '2024-11-03'")
_MOMENTS: Final = (
    "TIMESTAMP '2024-01-01 00:00:00'", "TIMESTAMP '2024-03-10 00:30:00'", "TIMESTAMP '2024-11-03 00:30:00'",
    "TIMESTAMP '2024-11-03 05:30:00Z'", "TIMESTAMP_NTZ '2024-11-03 00:30:00'", "TIMESTAMP_NTZ '2024-03-10 01:30:00'",
    "TIMESTAMP '2024-11-03 04:30:00Z'", "TIMESTAMP '2024-03-10 05:30:00Z'",
)  # fmt: skip


def make_rows(spark: SparkSession, count: int, seed: int, path: str) -> pa.RecordBatch:
    """Random rows as a view `awkward` of Spark, with a column `id`, and as a batch."""
    texts = rows(count, seed)
    values = ", ".join(f"({n}, {', '.join(map(_text, row.values()))})" for n, row in enumerate(texts))
    columns = ", ".join(f"CAST({name} AS {t}) AS {name}" for name, t in SPARK_TYPES.items())
    query = f"SELECT id, {columns} FROM VALUES {values} AS v(id, {', '.join(TYPES)})"
    spark.sql(query).write.mode("overwrite").parquet(path)  # Spark would evaluate conditions on literals in another way
    spark.read.parquet(path).createOrReplaceTempView("awkward")
    found = spark.table("awkward").orderBy("id").toArrow()
    schema = arrow_schema(ROW_TYPE)
    arrays = [found.column(f.name).combine_chunks().cast(_utc(f.type)).cast(f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _utc(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", "UTC") if pa.types.is_timestamp(kind) and kind.tz else kind


def _text(value: str | None) -> str:
    return "NULL" if value is None else f"'{value}'"


def true_in_spark(spark: SparkSession, conditions: Sequence[str]) -> dict[str, list[int] | str]:
    """The ids for which each condition is true, in the view `awkward`; text for a condition that is an error."""
    from pyspark.errors import PySparkException

    if len(conditions) > _AT_ONCE:
        parts = [conditions[n : n + _AT_ONCE] for n in range(0, len(conditions), _AT_ONCE)]
        return {c: ids for part in parts for c, ids in true_in_spark(spark, part).items()}
    columns = ", ".join(f"({c}) AS c{n}" for n, c in enumerate(conditions))
    try:
        found = spark.sql(f"SELECT id, {columns} FROM awkward").collect()
    except PySparkException as e:
        if len(conditions) == 1:
            return {conditions[0]: str(e).split("\n")[0]}
        half = len(conditions) // 2
        return {**true_in_spark(spark, conditions[:half]), **true_in_spark(spark, conditions[half:])}
    return {c: sorted(row.id for row in found if row[f"c{n}"] is True) for n, c in enumerate(conditions)}


def rows(count: int, seed: int) -> list[dict[str, str | None]]:
    """Rows as texts that Spark casts to the types of the columns."""
    rnd = random.Random(seed)
    return [{name: rnd.choice(VALUES[name]) for name in TYPES} for _ in range(count)]


class RandomConditions:
    """Conditions in SQL; most are of types that fit, some are not."""

    def __init__(self, seed: int) -> None:
        self.rnd = random.Random(seed)

    def condition(self, depth: int = 2) -> str:
        """A condition."""
        kind = self.rnd.randrange(12 if depth else 9)
        if kind < 4:
            side = self.rnd.choice((self.number, self.number, self.text, self.time, self.boolean))
            other = side if self.rnd.random() < 0.93 else self.rnd.choice((self.number, self.text, self.time))
            return f"{side(depth)} {self.rnd.choice(('=', '<>', '<', '<=', '>', '>=', '<=>'))} {other(depth)}"
        if kind == 4:
            side = self.rnd.choice((self.number, self.text, self.time))
            more = ", ".join(side(0) for _ in range(self.rnd.randint(1, 3))) + self.rnd.choice(("", "", ", NULL"))
            return f"{side(depth)} {self.rnd.choice(('', 'NOT '))}IN ({more})"
        if kind == 5:
            side = self.rnd.choice((self.number, self.time, self.text))
            return f"{side(depth)} BETWEEN {side(1)} AND {side(1)}"
        if kind == 6:
            return f"{self.text(depth)} LIKE '{self.rnd.choice(_PATTERNS)}'"
        if kind == 7:
            return f"{self.text(depth)} RLIKE '{self.rnd.choice(_REGEXES)}'"
        if kind == 8:
            side = self.rnd.choice((self.number, self.text, self.time))
            return f"{side(depth)} IS {self.rnd.choice(('', 'NOT '))}NULL"
        if kind == 9:
            return f"NOT ({self.condition(depth - 1)})"
        return f"({self.condition(depth - 1)}) {self.rnd.choice(('AND', 'OR'))} ({self.condition(depth - 1)})"

    def boolean(self, depth: int) -> str:
        """A value of type BOOLEAN."""
        return self.rnd.choice(("flag", "true", "coalesce(flag, false)", "CAST(i AS BOOLEAN)", "(i < j)", "'yes'"))

    def number(self, depth: int) -> str:
        """A number."""
        kind = self.rnd.randrange(16 if depth else 5)
        if kind < 3:
            return self.rnd.choice(_NUMBERS)
        if kind < 5:
            return self.rnd.choice(self.rnd.choice((_WHOLE, _WHOLE, _EXACT, _REAL)))
        if kind < 9:
            return f"({self.number(depth - 1)} {self.rnd.choice('+-*/%')} {self.number(depth - 1)})"
        if kind == 9:
            return f"abs({self.number(depth - 1)})"
        if kind == 10:
            return f"(- {self.number(depth - 1)})"
        if kind == 11:
            return f"length({self.text(depth - 1)})"
        if kind == 12:
            return f"{self.rnd.choice(('year', 'month', 'day'))}({self.time(depth - 1)})"
        if kind == 13:
            kinds = ("INT", "BIGINT", "DOUBLE", "FLOAT", "DECIMAL(12, 3)", "SMALLINT", "DECIMAL(5, 1)")
            return f"CAST({self.number(depth - 1)} AS {self.rnd.choice(kinds)})"
        if kind == 14:
            return f"CAST(num AS {self.rnd.choice(('INT', 'DOUBLE', 'DECIMAL(8, 2)', 'BIGINT'))})"
        return f"coalesce({self.number(depth - 1)}, {self.number(depth - 1)})"

    def text(self, depth: int) -> str:
        """Text."""
        kind = self.rnd.randrange(10 if depth else 4)
        if kind < 2:
            return self.rnd.choice(("s", "t"))
        if kind < 4:
            return self.rnd.choice(("'a'", "'abc'", "''", "'A'", "'é'", "'it''s'", "'a\\\\b'"))
        if kind == 4:
            return f"lower({self.text(depth - 1)})"
        if kind == 5:
            return f"upper({self.text(depth - 1)})"
        if kind == 6:
            return f"substring({self.text(depth - 1)}, {self.rnd.randint(-4, 4)}, {self.rnd.randint(-1, 4)})"
        if kind == 7:
            return f"coalesce({self.text(depth - 1)}, {self.text(depth - 1)})"
        if kind == 8:
            return f"CAST({self.rnd.choice(('i', 'big', 'dec', 'wide', 'flag', 'day', 'ts', 'lz'))} AS STRING)"
        return f"substring({self.text(depth - 1)}, {self.rnd.randint(-4, 4)})"

    def time(self, depth: int) -> str:
        """A date or a timestamp."""
        kind = self.rnd.randrange(9 if depth else 5)
        if kind < 3:
            return self.rnd.choice(("day", "ts", "lz"))
        if kind == 3:
            return self.rnd.choice(_DATES)
        if kind == 4:
            return self.rnd.choice(_MOMENTS)
        if kind == 5:
            return f"date({self.time(depth - 1)})"
        if kind < 8:
            return f"date_trunc('{self.rnd.choice(_UNITS)}', {self.time(depth - 1)})"
        return f"CAST({self.time(depth - 1)} AS {self.rnd.choice(('TIMESTAMP', 'TIMESTAMP_NTZ', 'DATE'))})"
