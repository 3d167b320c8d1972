"""Whether tables keep enough history for corrections, and what makes them do so.

A branch starts from a snapshot or tag before the fault. With Paimon's default of an hour, snapshots have expired long
before somebody notices a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from paimon_spark.display import ShownAsText
from paimon_spark.errors import InvalidInputError
from paimon_spark.lineage.index.table_index import open_index
from paimon_spark.lineage.index.tables import read_settings
from paimon_spark.lineage.index.warehouse import find_warehouse_table, is_lineage_table
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.descriptor import check_choice, duration_ms
from paimon_spark.options.retention import (
    DAY_MS,
    SNAPSHOT_RETAIN_MAX,
    SNAPSHOT_TIME_RETAINED,
    TagCreation,
    parse_savepoint_options,
)
from paimon_spark.options.table import TableOptions
from paimon_spark.text import counted, duration, safe

WEEK_MS: Final = 7 * DAY_MS
"""Time in which a fault is noticed."""
_TAGS: Final[Mapping[str, int]] = {"daily": 30, "two-hours": 360, "hourly": 720}
"""Period of automatic tags → how many are kept, those of 30 days."""
_NAMED: Final = 5
"""Tables that a sentence names."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Retention and automatic tags that tables should have.

    Attributes:
        keep_ms: how long snapshots are kept; None leaves that as it is.
        keep: the same as a value of the option.
        tags: period of automatic tags; None for none.
        savepoint_days: days between automatic savepoints; None for none.
    """

    keep_ms: int | None
    keep: str
    tags: str | None
    savepoint_days: int | None

    @classmethod
    def of(cls, keep: str | None, tags: str | None, savepoint_days: int | None) -> Wanted:
        """The arguments of `Catalog.prepare`. Raises InvalidInputError, InvalidOptionError."""
        if keep is None and tags is None and savepoint_days is None:
            raise InvalidInputError("nothing to prepare: give keep, tags or savepoint_days")
        if tags is not None:
            check_choice("tags", tags, tuple(_TAGS))
        try:
            keep_ms = None if keep is None else duration_ms(str(keep))
        except ValueError as e:
            raise InvalidInputError(f"keep={keep!r}: {e}") from e
        if keep_ms is not None and keep_ms < DAY_MS:
            raise InvalidInputError(f"keep={keep!r}: a fault is rarely noticed within a day; give a day or more")
        if savepoint_days is not None and savepoint_days < 1:
            raise InvalidInputError(f"savepoint_days={savepoint_days!r}: expected a number of days, 1 or more")
        return cls(keep_ms, str(keep), tags, savepoint_days)


@dataclass(frozen=True, slots=True)
class TablePreparation:
    """The options of one table that are set for it to keep its history.

    Attributes:
        table: its name.
        before: what it keeps without them, in words.
        set_options: options by key.
        unset_options: keys that get their default.
    """

    table: str
    before: str
    set_options: Mapping[str, str]
    unset_options: tuple[str, ...]

    @property
    def changes(self) -> bool:
        """Whether anything is to be set."""
        return bool(self.set_options or self.unset_options)

    @classmethod
    def of(cls, handle: TableHandle, wanted: Wanted) -> TablePreparation:
        """Settings of `wanted` that a table lacks; equal or longer ones stay."""
        options = handle.options
        out: dict[str, str] = {}
        unset: list[str] = []
        snapshots = options.expiry.snapshots
        if wanted.keep_ms is not None:
            if snapshots.time_retained_ms < wanted.keep_ms:
                out[SNAPSHOT_TIME_RETAINED.key] = wanted.keep
            if SNAPSHOT_RETAIN_MAX.key in options.raw:
                unset.append(SNAPSHOT_RETAIN_MAX.key)  # would expire snapshots before their time
        if wanted.tags is not None and options.tags.creation is TagCreation.NONE:
            out |= {"tag.automatic-creation": TagCreation.PROCESS_TIME.value, "tag.creation-period": wanted.tags}
            if options.tags.num_retained_max is None and options.tags.default_time_retained_s is None:
                out["tag.num-retained-max"] = str(_TAGS[wanted.tags])
        if wanted.savepoint_days is not None and parse_savepoint_options(options.raw) is None:
            out["savepoint.create-interval"] = f"{wanted.savepoint_days} d"
        return cls(handle.name, _kept(options), out, tuple(unset))

    def text_lines(self) -> Iterator[str]:
        if not self.changes:
            yield f"{safe(self.table)}: nothing to set, {self.before}"
            return
        yield f"{safe(self.table)}: {self.before}"
        yield from (f"  {safe(key)} = {safe(value)}" for key, value in self.set_options.items())
        yield from (f"  {safe(key)} is reset, as it expires snapshots before their time" for key in self.unset_options)


@dataclass(frozen=True, slots=True, repr=False)
class Preparation(ShownAsText):
    """Settings that `Catalog.prepare` makes.

    Attributes:
        tables: in the order of the data flow.
        enables_lineage: whether lineage is switched on.
        dry_run: whether nothing was changed.
    """

    tables: tuple[TablePreparation, ...]
    enables_lineage: bool
    dry_run: bool = False

    def text_lines(self) -> Iterator[str]:
        yield f"lineage: {'is switched on' if self.enables_lineage else 'on'}"
        for table in self.tables:
            yield from table.text_lines()

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values that JSON can hold."""
        return {
            "dry_run": self.dry_run,
            "enables_lineage": self.enables_lineage,
            "tables": [
                {
                    "table": t.table,
                    "before": t.before,
                    "set_options": dict(t.set_options),
                    "unset_options": list(t.unset_options),
                }
                for t in self.tables
            ],
        }

    def settings(self) -> list[tuple[str, str, str | None]]:
        """Table, option and value of each; None for a value that is reset."""
        return [
            (t.table, key, value)
            for t in self.tables
            for key, value in (*t.set_options.items(), *((key, None) for key in t.unset_options))
        ]


def warning_of(handle: TableHandle) -> str | None:
    """The warning for a table of a warehouse with lineage that keeps too little history; None for others."""
    if keeps_enough(handle.options):
        return None
    place = find_warehouse_table(handle)
    if place is None or is_lineage_table(place.ref) or not read_settings(open_index(place.warehouse)).table:
        return None
    return (
        f"{_kept(handle.options)}: too little for a branch from before a fault that is found later; run `paimon-spark "
        f"prepare {place.ref.database}.{place.ref.bare}`"
    )


def warning_of_tables(handles: Iterable[TableHandle]) -> str | None:
    """One warning for all tables that keep too little history."""
    found = [h.name for h in handles if not keeps_enough(h.options)]
    if not found:
        return None
    names = ", ".join(found[:_NAMED]) + (", …" if len(found) > _NAMED else "")
    verb = "keeps" if len(found) == 1 else "keep"
    return (
        f"{counted(len(found), 'table')} {verb} snapshots for less than a week, without automatic tags: too little for "
        f"a branch from before a fault that is found later; run `paimon-spark prepare TABLE …` ({names})"
    )


def keeps_enough(options: TableOptions) -> bool:
    """Whether snapshots live for a week, or automatic tags or savepoints keep some."""
    snapshots = options.expiry.snapshots
    return (
        (snapshots.time_retained_ms >= WEEK_MS and SNAPSHOT_RETAIN_MAX.key not in options.raw)
        or options.tags.creation is not TagCreation.NONE
        or parse_savepoint_options(options.raw) is not None
    )


def prepare(
    handles: Iterable[TableHandle],
    wanted: Wanted,
    *,
    enables_lineage: bool,
    alter: Callable[[TablePreparation], None] | None,
) -> Preparation:
    """Set what tables lack of `wanted`, table by table; `alter` of one of them, None for a dry run."""
    done = []
    for handle in handles:
        table = TablePreparation.of(handle, wanted)
        if alter is not None and table.changes:
            alter(table)
        done.append(table)
    return Preparation(tuple(done), enables_lineage, alter is None)


def _kept(options: TableOptions) -> str:
    """Retention of a table as text: `snapshots are kept for 1 h, no automatic tags`."""
    snapshots, tags = options.expiry.snapshots, options.tags
    most = f", at most {snapshots.retain_max:,}" if SNAPSHOT_RETAIN_MAX.key in options.raw else ""
    savepoints = parse_savepoint_options(options.raw)
    also = [
        f"automatic tags ({tags.creation.value})" if tags.creation is not TagCreation.NONE else "",
        f"a savepoint every {counted(savepoints.days, 'day')}" if savepoints is not None else "",
    ]
    kept = " and ".join(filter(None, also)) or "no automatic tags"
    age = duration(snapshots.time_retained_ms / 1000)
    return f"snapshots are kept for {age}{most}, {kept}"
