"""Lineage settings of a warehouse: what is recorded, as rows of `catalog_options`.

Every read and write asks for them, so each process remembers them for a minute.

Source: PIP-5 for `table-lineage` and `data-lineage`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from paimon_spark.errors import InvalidOptionError, PaimonError
from paimon_spark.lineage.tables import CATALOG_OPTIONS, Index
from paimon_spark.lineage.warehouse import Warehouse
from paimon_spark.options.descriptor import Option, boolean
from paimon_spark.options.lineage import FLUSH_INTERVAL, JOB

_LOG = logging.getLogger(__name__)

TABLE_LINEAGE: Final = Option(
    "table-lineage", boolean, False, "Record which jobs read and write which tables of the warehouse."
)
DATA_LINEAGE: Final = Option(
    "data-lineage", boolean, False, "Record which snapshots were made from which; implies table-lineage."
)
LINEAGE_IS_OFF: Final = (
    f"option {JOB.key} has no effect, as lineage is off in the warehouse; catalog.lineage.enable() switches it on"
)
_REMEMBERED_S: Final = 60.0
_MOST: Final = 1000


@dataclass(frozen=True, slots=True)
class LineageSettings:
    """What is recorded in a warehouse.

    Attributes:
        table: which jobs read and write which tables.
        data: which snapshots were made from which; implies `table`.
        flush_interval_ms: least time between two commits of a process to the lineage tables; None: as jobs ask.
    """

    table: bool = False
    data: bool = False
    flush_interval_ms: int | None = None

    def interval_ms(self, asked: int | None) -> int | None:
        """The flush interval of a job that asks for one, or for none."""
        return self.flush_interval_ms if asked is None else asked


OFF: Final = LineageSettings()


class _Remembered(NamedTuple):
    settings: LineageSettings
    since_s: float
    failed: bool


_REMEMBERED: Final[dict[tuple[str, str], _Remembered]] = {}
_WARNED: Final[set[str]] = set()


def settings_of(index: Index, clock_s: Callable[[], float] = time.monotonic) -> LineageSettings:
    """The settings of a warehouse, at most a minute old. Raises nothing.

    Where they cannot be read, the last ones hold (off at first), with one warning.
    """
    key, now = index.warehouse.identity, clock_s()
    known = _REMEMBERED.get(key)
    if known is not None and now - known.since_s < _REMEMBERED_S:
        return known.settings
    try:
        known = _Remembered(read_settings(index), now, failed=False)
    except PaimonError as e:
        found = OFF if known is None else known.settings
        if known is None or not known.failed:
            state = "on" if found.table else "off"
            _LOG.warning(
                "cannot read the lineage settings of warehouse %s, so lineage stays %s: %s",
                index.warehouse.url,
                state,
                e,
            )
        known = _Remembered(found, now, failed=True)
    if len(_REMEMBERED) >= _MOST:
        _REMEMBERED.clear()
    _REMEMBERED[key] = known
    return known.settings


def read_settings(index: Index) -> LineageSettings:
    """Read the settings; one request where there are no lineage tables. Raises StorageError."""
    rows = index.options()
    where = f"{CATALOG_OPTIONS.name} of warehouse {index.warehouse.url}"
    data = _value(DATA_LINEAGE, rows, where)
    interval = _value(FLUSH_INTERVAL, rows, where) if FLUSH_INTERVAL.is_set(rows) else None
    return LineageSettings(bool(data or _value(TABLE_LINEAGE, rows, where)), bool(data), interval)


def write_settings(index: Index, *, table: bool, data: bool) -> None:
    """Write what is recorded from now on; the lineage tables must exist. Raises StorageError, CommitError."""
    rows = ((TABLE_LINEAGE, table), (DATA_LINEAGE, data))
    index.upsert({CATALOG_OPTIONS.name: [(option.key, str(on).lower()) for option, on in rows]})
    forget_settings(index.warehouse)


def enable(index: Index, *, data: bool = True) -> None:
    """Create the lineage tables that are missing, and record from now on. Raises StorageError, CommitError."""
    index.create()
    write_settings(index, table=True, data=data)


def forget_settings(warehouse: Warehouse) -> None:
    """Read the settings again when they are next needed."""
    _REMEMBERED.pop(warehouse.identity, None)


def records_data(index: Index) -> bool:
    """Whether rows of snapshots are written, not only those of jobs. Raises StorageError."""
    settings = settings_of(index)
    return settings.data or not settings.table


def _value(option: Option[bool] | Option[int], rows: Mapping[str, str], where: str) -> bool | int | None:
    """The value of a row; None, with a warning, when it is invalid."""
    try:
        return option.get(rows)
    except InvalidOptionError as e:
        text = f"{where}: {e}; the row is ignored"
        if text not in _WARNED:
            _WARNED.add(text)
            _LOG.warning(text)
        return None
