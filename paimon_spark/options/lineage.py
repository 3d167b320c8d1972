"""Options of lineage and commit listeners: of a job, and of a catalog.

Options of a job are never stored in a table: a stored option would name code that every reader of the table runs, or
record the work of others under one job. They are read from `TableHandle.overrides` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.descriptor import Option, boolean, duration_ms, integer, names, string

JOB: Option[str | None] = Option(
    "lineage.job",
    string,
    None,
    "Name of the job in the lineage tables; the default is the name of the streaming query, or its id.",
)
BARRIER: Option[int | None] = Option(
    "lineage.barrier", integer, None, "Number of this run of a batch job; the default is the next number of the job."
)
FOLLOW: Option[str | None] = Option(
    "lineage.follow",
    string,
    None,
    "Of a streaming read: job whose batches it reads too, each as one micro-batch, at the same snapshots.",
)
FLUSH_INTERVAL = Option(
    "lineage.flush-interval",
    duration_ms,
    10_000,
    "Minimum time between two commits of a process to the lineage tables.",
)
NO_SOURCES = Option(
    "lineage.no-sources",
    boolean,
    False,
    "State that the rows that a batch job writes come from no Paimon table.",
)
UNKNOWN_SOURCES = Option(
    "lineage.unknown-sources",
    boolean,
    False,
    "State that the rows also come from reads that do not name the job, such as those of a view.",
)
STATEMENT: Option[str | None] = Option(
    "lineage.statement",
    string,
    None,
    "Set by SQL statements: the statement that writes, which its snapshot keeps, so that it can be run again.",
)
STATEMENT_VALUES = Option(
    "lineage.statement-values",
    boolean,
    True,
    "Whether the statement that a snapshot keeps has the values of its parameters, which every reader of the table "
    "sees. With `false` it has `:name` and `?` in their place, and cannot be run again.",
)
LISTENERS: Option[tuple[str, ...]] = Option(
    "commit.listeners",
    names,
    (),
    "Classes that are called after each completed commit, as module:Class, separated by commas.",
)
TABLE_LINEAGE: Option[bool | None] = Option(
    "table-lineage", boolean, None, "Record which jobs read and write which tables of the warehouse."
)
DATA_LINEAGE: Option[bool | None] = Option(
    "data-lineage", boolean, None, "Record which snapshots were made from which; implies table-lineage."
)
OF_CATALOG: Final = (TABLE_LINEAGE.key, DATA_LINEAGE.key)
"""Keys of options of a catalog, which no table has."""
_MOST_BARRIER: Final = 2**62
OPTIONS: Final = (
    JOB,
    BARRIER,
    FOLLOW,
    FLUSH_INTERVAL,
    NO_SOURCES,
    UNKNOWN_SOURCES,
    STATEMENT,
    STATEMENT_VALUES,
    LISTENERS,
)
OF_ONE_USE: Final = tuple(o.key for o in OPTIONS)
"""Keys that are given for one use of a table, and never stored in it."""


@dataclass(frozen=True, slots=True)
class LineageOptions:
    """The job of one read or write.

    Attributes:
        barrier: None for the next one.
        flush_interval_ms: None when not given.
        statement: encoded, as snapshots keep it (`lineage.index.provenance`).
    """

    job: str | None = None
    barrier: int | None = None
    flush_interval_ms: int | None = None
    no_sources: bool = False
    unknown_sources: bool = False
    statement: str | None = None


@dataclass(frozen=True, slots=True)
class CatalogLineage:
    """Lineage options of a catalog for its warehouse; None where an option is not given."""

    table: bool | None = None
    data: bool | None = None

    @property
    def is_given(self) -> bool:
        return self != _NOTHING_ASKED

    @property
    def is_on(self) -> bool:
        """Whether recording is asked for."""
        return bool(self.table or self.data)


_NOTHING_ASKED: Final = CatalogLineage()


def parse_catalog_lineage(options: Mapping[str, str]) -> CatalogLineage:
    """Parse `table-lineage` and `data-lineage` among the options of a catalog.

    Raises:
        InvalidOptionError: neither true nor false, or data lineage without table lineage.
    """
    asked = CatalogLineage(TABLE_LINEAGE.get(options), DATA_LINEAGE.get(options))
    if asked.data and asked.table is False:
        raise InvalidOptionError(
            f"catalog option {DATA_LINEAGE.key} = true needs {TABLE_LINEAGE.key}, which is false; set both to true, or "
            "leave one out",
            options=OF_CATALOG,
        )
    return asked


def check_job_options(overrides: Mapping[str, str]) -> None:
    """Check the options of a job among those given for one use of a table. Raises InvalidOptionError."""
    parse_lineage_options(overrides)
    STATEMENT_VALUES.get(overrides)
    parse_listeners(overrides)


def refuse_follow(options: Iterable[str], what: str) -> None:
    """Raise InvalidOptionError for `lineage.follow` among the options of anything but a streaming read."""
    if FOLLOW.key in options:
        raise InvalidOptionError(
            f"option {FOLLOW.key} has no effect on {what}; give it to spark.readStream", option=FOLLOW.key
        )


def parse_listeners(overrides: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Module and class of each listener. Raises InvalidOptionError: a name is not of the form module:Class."""
    found = []
    for name in LISTENERS.get(overrides):
        module, colon, cls = (part.strip() for part in name.partition(":"))
        if not (colon and cls.isidentifier() and all(part.isidentifier() for part in module.split("."))):
            raise InvalidOptionError(
                f"option {LISTENERS.key} = {overrides[LISTENERS.key]!r}: expected module:Class, found {name!r}",
                option=LISTENERS.key,
            )
        found.append((module, cls))
    return tuple(found)


def parse_lineage_options(overrides: Mapping[str, str]) -> LineageOptions:
    """Parse the job options given for one use of a table.

    Raises:
        InvalidOptionError: a blank job, a negative number, no duration, or neither true nor false.
    """
    job, barrier = JOB.get(overrides), BARRIER.get(overrides)
    if job is not None and not job.strip():
        raise InvalidOptionError(f"option {JOB.key} is blank; name the job, or leave it out", option=JOB.key)
    if barrier is not None and not 0 <= barrier < _MOST_BARRIER:
        raise InvalidOptionError(
            f"option {BARRIER.key} = {barrier}: expected 0 or more, and less than 2^62, as later runs count on from it",
            option=BARRIER.key,
        )
    interval = FLUSH_INTERVAL.get(overrides) if FLUSH_INTERVAL.is_set(overrides) else None
    return LineageOptions(
        job,
        barrier,
        interval,
        NO_SOURCES.get(overrides),
        UNKNOWN_SOURCES.get(overrides),
        STATEMENT.get(overrides),
    )
