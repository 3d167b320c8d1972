"""What is measured, and the bars."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Contender:
    """One side of a case: which worker gets which request, and how many of its processes share the work."""

    label: str
    worker: str
    request: dict[str, Any]
    processes: int = 1


@dataclass(frozen=True)
class Case:
    """Our figure against others'.

    Attributes:
        ours: the measured side.
        others: label of the other side and the largest allowed ratio ours/other; None is shown without a bar.
        extra_ms: instead of a ratio, milliseconds we may take on top of the first other.
        agree: whether rows and checksums must be equal.
        rate: rows a second that we must reach, where there is no other.
        note: why others are faster, for the page of figures.
    """

    name: str
    ours: Contender
    others: tuple[tuple[Contender, float | None], ...]
    agree: bool = True
    rate: float | None = None
    extra_ms: float | None = None
    note: str = field(default="")


def read(worker: str, table: str, **more: object) -> Contender:
    return Contender(worker, worker, {"op": "read", "table": table, **more})


def spark(label: str, op: str, format: str, table: str, worker: str = "spark", **more: object) -> Contender:
    return Contender(label, worker, {"op": op, "format": format, "table": table, **more})


def java(table: str, op: str, **more: object) -> Contender:
    """Java Paimon 2.0 in one warm JVM."""
    return Contender("Java core", "java-core", {"op": op, "table": table, **more})


def java_read(table: str, bar: float, threads: int = 2) -> tuple[Contender, float]:
    """A read by Java Paimon 2.0, whose threads read one split after the other."""
    label = f"Java core, {threads} threads"
    return Contender(label, "java-core", {"op": "read", "table": table, "threads": threads}), bar


def _merge(engine: str, rust_bar: float) -> Case:
    table = f"merge-{engine}"
    return Case(
        f"merge-on-read {engine}, 5M rows in 5 overlapping runs",
        read("ours", table),
        ((read("pypaimon", table), 1 / 30), (read("rust", table), rust_bar), java_read(table, 0.8)),
    )


def _read_by(engine: str) -> Case:
    table = "merge-deduplicate"
    return Case(
        f"{engine}: merge-on-read deduplicate, 5M rows",
        Contender("ours", "ours", {"op": "read-by", "engine": engine, "table": table}),
        ((Contender("ours, to_arrow()", "ours", read("ours", table).request), 1.1), (read("pypaimon", table), 1 / 30)),
    )


def _two_processes(what: str, table: str, bar: float) -> Case:
    """A read that two processes share: each reads every second split."""
    return Case(
        f"{what}, 5M rows, by two processes",
        Contender("ours", "ours", {"op": "read", "table": table}, processes=2),
        ((Contender("Java core", "java-core", {"op": "read", "table": table}, processes=2), bar),),
    )


def _upkeep(op: str, name: str) -> Case:
    """Maintenance of a copy of a table of tiny files, for which the number of deleted files must be equal."""
    table = f"history-{op}"
    return Case(name, Contender("ours", "ours", {"op": op, "table": table}), ((java(table, op), 1.0),))


def write(worker: str, table: str, keys: list[str], commits: int = 1, **options: str) -> Contender:
    request = {"op": "write", "table": table, "keys": keys, "commits": commits, "options": options}
    return Contender(worker, worker, request)


def spark_write(label: str, format: str, table: str, worker: str, keys: list[str], **options: str) -> Contender:
    request = {"op": "write", "format": format, "table": table, "keys": keys, "options": options}
    return Contender(label, worker, request)


def _spark_writes(worker: str, about: str, append_bar: float, keys_bar: float) -> tuple[Case, ...]:
    parquet = "df.write.parquet, zstd"
    return (
        Case(
            f"Spark: append write of 5M rows, {about}",
            spark_write("ours", "paimon", "write-append", worker, [], bucket="-1"),
            (
                (spark_write(parquet, "parquet", "write-append", worker, []), append_bar),
                (spark_write("a data source that drops the rows", "bare", "write-append", worker, []), None),
                (spark_write("Java connector", "paimon", "write-append", "java", [], bucket="-1"), None),
            ),
            agree=False,
            note=STOCK_SETTINGS if worker == "spark" else "",
        ),
        Case(
            f"Spark: write of 1M rows with keys into 4 buckets, {about}",
            spark_write("ours", "paimon", "write-keys", worker, ["id"], bucket="4"),
            (
                (spark_write(parquet, "parquet", "write-keys", worker, []), keys_bar),
                (spark_write("a data source that drops the rows", "bare", "write-keys", worker, []), None),
                (spark_write("Java connector", "paimon", "write-keys", "java", ["id"], bucket="4"), None),
            ),
            agree=False,
            note=STOCK_SETTINGS if worker == "spark" else SORTED,
        ),
    )


def _first_query(label: str, kind: str) -> Contender:
    return Contender(label, "ours", {"op": "first-query", "kind": kind, "table": WIDE, "column": "c7"})


def _hashes(key: str, **type: object) -> Case:
    name = f"bucket of 5M keys, {type.get('type') or ('int64' if key == 'id' else 'string')}"
    return Case(
        name, Contender("ours", "ours", {"op": "hashes", "table": "write-append", "key": key, **type}), (), rate=10e6
    )


PYTHON_SOURCE = (
    "Spark turns the Arrow batches of a Python worker into its rows, which takes as long with a data source that does "
    "nothing but hand over pyarrow's batches. In attached catalogs Spark decodes files itself: see the cases of Spark "
    "SQL."
)
STOCK_SETTINGS = (
    "Under Spark's stock settings a Python data source that drops every row takes nearly as long: Spark measures its "
    "Arrow buffers at each row. `configure_session`, which `attach` calls, changes that."
)
SORTED = (
    "A table with a key has its rows divided into buckets, sorted and made unique. Spark's Parquet files hold them as "
    "they come."
)
FLOORS = {"a data source that drops the rows", "pyarrow's batches as a data source", "spark.range", "ours, to_arrow()"}
"""Labels of contenders that do only a part of the work of a case."""
COMPILED = (
    "After a thousand commits Java's are machine code. Ours are 6,000 calls of Python functions, of which none takes "
    "more than one part in twenty; half of the time is in Arrow, Parquet, Avro and files."
)
ONE = ["r"]
WIDE = "bench.db/wide"
UNIVERSAL = {
    "bucket": "4",
    "write-only": "false",
    "num-sorted-run.compaction-trigger": "5",
    "num-sorted-run.stop-trigger": "5",
}
CHANGES = {"incremental-between": "0,10", "incremental-between-scan-mode": "changelog"}
CASES = (
    _merge("deduplicate", 0.7),
    _merge("partial-update", 0.25),
    _merge("aggregation", 0.25),
    _read_by("polars"),
    _read_by("duckdb"),
    Case(
        "append read, 5M rows",
        read("ours", "append"),
        ((read("pypaimon", "append"), 0.65), (read("rust", "append"), None), java_read("append", 1.0)),
    ),
    _two_processes("merge-on-read deduplicate", "merge-deduplicate", 0.8),
    _two_processes("append read", "append", 1.0),
    Case(
        "plan 50,000 files, cold",
        Contender("ours", "ours", {"op": "plan", "table": "plan"}),
        (
            (Contender("pypaimon", "pypaimon", {"op": "plan", "table": "plan"}), 1 / 12),
            (java("plan", "plan"), 1.0),
        ),
    ),
    Case(
        "plan a million files, cold",
        Contender("ours", "ours", {"op": "plan", "table": "plan-million", "count": "splits"}),
        (
            (Contender("rust", "rust", {"op": "plan", "table": "plan-million"}), 1.2),
            (java("plan-million", "plan", count="splits"), 1.0),
        ),
    ),
    Case(
        "plan one partition of a hundred",
        Contender("ours", "ours", {"op": "plan", "table": "plan", "partition": "2024-007"}),
        ((Contender("pypaimon", "pypaimon", {"op": "plan", "table": "plan", "partition": "2024-007"}), 0.5),),
    ),
    Case(
        "plan 50,000 files again in the session",
        Contender("ours, again", "ours", {"op": "plan", "table": "plan", "cold": False}),
        ((Contender("ours, cold", "ours", {"op": "plan", "table": "plan"}), 0.1),),
    ),
    Case(
        "Spark: full append scan to noop",
        spark("ours", "noop", "paimon", "append"),
        (
            (spark("spark.read.parquet", "noop", "parquet", "append"), 1.1),
            (spark("pyarrow's batches as a data source", "noop", "bare", "append"), None),
            (spark("Java connector", "noop", "paimon", "append", "java"), 1.0),
        ),
        note=PYTHON_SOURCE,
    ),
    Case(
        "Spark: merge-on-read scan to noop",
        spark("ours", "noop", "paimon", "merge-deduplicate"),
        (
            (spark("row_number window", "window", "parquet", "merge-deduplicate"), 0.3),
            (spark("Java connector", "noop", "paimon", "merge-deduplicate", "java"), 1.0),
        ),
    ),
    Case(
        "Spark: sum of one column of eight",
        spark("ours", "sum", "paimon", "append", columns=ONE),
        (
            (spark("spark.read.parquet", "sum", "parquet", "append", columns=ONE), 1.6),
            (spark("pyarrow's batches as a data source", "sum", "bare", "append", columns=ONE), None),
            (spark("Java connector", "sum", "paimon", "append", "java", columns=ONE), 1.0),
        ),
        note=PYTHON_SOURCE,
    ),
    *(
        Case(
            f"Spark SQL: one column of sixty, {what}",
            spark("catalog.sql", op, "sql", WIDE, columns=["c7"]),
            (
                (spark("spark.read.parquet", op, "parquet", WIDE, columns=["c7"]), 1.3),
                (spark("Java connector", op, "paimon", WIDE, "java", columns=["c7"]), 1.0),
            ),
        )
        for op, what in (("sum", "summed"), ("noop", "to noop"))
    ),
    Case(
        "Spark SQL: first query of a session, with `attach`",
        _first_query("ours", "attached"),
        ((_first_query("spark.read.parquet", "parquet"), None),),
        note="Spark starts a Python process to look for installed data sources when the first one is registered, and "
        "compiles the Java parts of the catalog.",
    ),
    Case(
        "Spark: smallest warm query",
        spark("ours", "smallest", "paimon", "small"),
        (
            (spark("spark.range", "smallest", "range", "small"), None),
            (spark("Java connector", "smallest", "paimon", "small", "java"), 1.0),
        ),
        agree=False,
        extra_ms=200,
        note="Spark asks Python processes for the schema, the plan and the rows of a Python data source.",
    ),
    Case(
        "write of 1M rows with keys into 4 buckets",
        write("ours", "write-keys", ["id"], bucket="4"),
        (
            (write("pypaimon", "write-keys", ["id"], bucket="4"), 1 / 30),
            (write("rust", "write-keys", ["id"], bucket="4"), 0.7),
            (java("write-keys", "write", keys=["id"], options={"bucket": "4"}), 1.0),
        ),
    ),
    Case(
        "write of 1M rows with keys in 10 commits, compacted as they come",
        write("ours", "write-keys", ["id"], commits=10, **UNIVERSAL),
        ((java("write-keys", "write", keys=["id"], commits=10, options=UNIVERSAL), 1.0),),
    ),
    Case(
        "changelog of 10 commits of 100,000 rows",
        Contender("ours", "ours", {"op": "read", "table": "changes", "options": CHANGES}),
        ((java("changes", "read", options=CHANGES, check=False), 1.0),),
        agree=False,
    ),
    Case(
        "full compaction of 5M rows in 5 overlapping runs, 4 buckets",
        Contender("ours", "ours", {"op": "compact", "table": "merge-deduplicate"}),
        ((java("merge-deduplicate", "compact"), 1.0),),
    ),
    Case(
        "append write of 5M rows",
        write("ours", "write-append", [], bucket="-1"),
        (
            (Contender("pyarrow's Parquet writer", "ours", {"op": "write-parquet", "table": "write-append"}), 1.1),
            (write("pypaimon", "write-append", [], bucket="-1"), None),
            (write("rust", "write-append", [], bucket="-1"), None),
            (java("write-append", "write", keys=[], options={"bucket": "-1"}), 1.0),
        ),
    ),
    _hashes("id"),
    _hashes("name"),
    *(_hashes("r", type=name) for name in ("int8", "int16", "int32", "float64", "date32")),
    _hashes("r", type="float32"),
    _hashes("r", type="timestamp", arguments=["ms"]),
    _hashes("r", type="timestamp", arguments=["us"]),
    _hashes("r", type="decimal128", arguments=[20, 0]),
    _hashes("name", type="binary"),
    *(
        Case(
            f"commit of one row at {at:,} snapshots",
            Contender("ours", "ours", {"op": "commits", "table": "write-append", "at": at, "both": [10, 1000]}),
            ((java("write-append", "commits", at=at, options={"bucket": "-1"}), 1.0),),
            agree=False,
            note=COMPILED,
        )
        for at in (10, 1000)
    ),
    Case(
        "commit of one file at 1,000 snapshots",
        Contender("ours", "ours", {"op": "commits", "table": "write-append", "at": 1000, "both": [10, 1000]}),
        (
            (
                Contender(
                    "ours at 10", "ours", {"op": "commits", "table": "write-append", "at": 10, "both": [10, 1000]}
                ),
                1.3,
            ),
        ),
        agree=False,
    ),
    _upkeep("expire", "expiry of 1,000 snapshots of a table of 10,000 files"),
    _upkeep("orphans", "removal of 10,000 orphan files among 200,000"),
    *_spark_writes("spark-tuned", "session configured", 0.85, 1.0),
    *_spark_writes("spark", "stock settings", 1.4, 1.4),
)
