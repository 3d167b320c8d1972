"""Switch: whether lineage is on in a warehouse, as rows of `catalog_options` say.

Every read and write asks, so the answer is remembered for a minute in each process.

Source: PIP-5 for `table-lineage` and `data-lineage`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Final, NamedTuple

from paimon_spark.errors import InvalidOptionError, PaimonError
from paimon_spark.lineage.tables import CATALOG_OPTIONS, Index
from paimon_spark.lineage.warehouse import Warehouse
from paimon_spark.options.descriptor import Option, boolean
from paimon_spark.options.lineage import FLUSH_INTERVAL, JOB

_LOG = logging.getLogger(__name__)

TABLE_LINEAGE: Final = Option(
    "table-lineage", boolean, False, "Which jobs read and write which tables of the warehouse is recorded."
)
DATA_LINEAGE: Final = Option(
    "data-lineage", boolean, False, "Which snapshots came from which is recorded, and so which tables did."
)

LINEAGE_IS_OFF: Final = (
    f"option {JOB.key} is of no use, as lineage is off in the warehouse: what jobs read and write is not recorded. "
    "catalog.lineage.enable() switches it on"
)
_REMEMBERED_S: Final = 60.0
_MOST: Final = 1000


@dataclass(frozen=True, slots=True)
class LineageSettings:
    """What is recorded in a warehouse.

    Attributes:
        table: which jobs read and write which tables.
        data: which snapshots came from which; implies `table`.
        flush_interval_ms: least time between two commits of a process to the lineage tables; None: as jobs say.
    """

    table: bool = False
    data: bool = False
    flush_interval_ms: int | None = None

    def interval_ms(self, asked: int | None) -> int | None:
        """The interval in force for a job that asks for one, or for none."""
        return self.flush_interval_ms if asked is None else asked


OFF: Final = LineageSettings()


class _Remembered(NamedTuple):
    switch: LineageSettings
    since_s: float
    failed: bool


_REMEMBERED: Final[dict[tuple[str, str], _Remembered]] = {}
_WARNED: Final[set[str]] = set()
_warned: set[tuple[str, str]] = set()
_lock: Final = Lock()


def settings_of(index: Index, clock_s: Callable[[], float] = time.monotonic) -> LineageSettings:
    """What is recorded in a warehouse, as it was at most a minute ago. Raises nothing.

    What cannot be read is as it was last, off in the beginning; that is warned about once.
    """
    key, now = index.warehouse.identity, clock_s()
    known = _REMEMBERED.get(key)
    if known is not None and now - known.since_s < _REMEMBERED_S:
        return known.switch
    try:
        known = _Remembered(read_settings(index), now, failed=False)
    except PaimonError as e:
        found = OFF if known is None else known.switch
        if known is None or not known.failed:
            state = "on" if found.table else "off"
            _LOG.warning(
                "whether lineage is on in warehouse %s cannot be read, so it is %s: %s", index.warehouse.url, state, e
            )
        known = _Remembered(found, now, failed=True)
    if len(_REMEMBERED) >= _MOST:
        _REMEMBERED.clear()
    _REMEMBERED[key] = known
    return known.switch


def read_settings(index: Index) -> LineageSettings:
    """What is recorded in a warehouse by now; one look where there are no lineage tables. Raises StorageError."""
    rows = index.options()
    where = f"{CATALOG_OPTIONS.name} of warehouse {index.warehouse.url}"
    data = _value(DATA_LINEAGE, rows, where)
    interval = _value(FLUSH_INTERVAL, rows, where) if FLUSH_INTERVAL.is_set(rows) else None
    return LineageSettings(bool(data or _value(TABLE_LINEAGE, rows, where)), bool(data), interval)


def write_settings(index: Index, *, table: bool, data: bool) -> None:
    """Say what is recorded from now on. Raises StorageError, CommitError: there must be lineage tables."""
    rows = ((TABLE_LINEAGE, table), (DATA_LINEAGE, data))
    index.upsert({CATALOG_OPTIONS.name: [(option.key, str(on).lower()) for option, on in rows]})
    forget_settings(index.warehouse)


def enable(index: Index, *, data: bool = True) -> None:
    """Make the lineage tables that are missing, and record from now on. Raises StorageError, CommitError."""
    index.create()
    write_settings(index, table=True, data=data)


def forget_settings(warehouse: Warehouse) -> None:
    """Look anew at the next question, as what is recorded was just changed."""
    _REMEMBERED.pop(warehouse.identity, None)


def _value(option: Option[bool] | Option[int], rows: Mapping[str, str], where: str) -> bool | int | None:
    """The value of a row; None, with a warning, when it is none of the option's."""
    try:
        return option.get(rows)
    except InvalidOptionError as e:
        text = f"{where}: {e}; the row is taken as if it were not there"
        if text not in _WARNED:
            _WARNED.add(text)
            _LOG.warning(text)
        return None


def records_data(index: Index) -> bool:
    """Whether rows of snapshots are written, not only those of jobs. Raises StorageError."""
    switch = settings_of(index)
    return switch.data or not switch.table


def warn_once(about: str, what: str, error: Exception | None = None) -> None:
    """Warn, but once for each process of the same thing."""
    key = (about, what)
    with _lock:
        if key in _warned:
            return
        if len(_warned) >= _MOST:
            _warned.clear()
        _warned.add(key)
    _LOG.warning("lineage of %s: %s%s", about, what, "" if error is None else f": {error}", exc_info=_unforeseen(error))


def forget_warnings() -> None:
    """Warn anew, as a process that just began."""
    with _lock:
        _warned.clear()


def _unforeseen(error: Exception | None) -> Exception | None:
    """An error that is none of ours comes with its stack."""
    from paimon_spark.errors import PaimonError

    return None if error is None or isinstance(error, PaimonError | OSError) else error
