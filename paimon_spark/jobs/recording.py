"""Recording: what one commit says of whence it came, and who writes it to the lineage tables once it is there."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.lineage.properties import encode
from paimon_spark.lineage.tables import rows_of
from paimon_spark.options.lineage import JOB

if TYPE_CHECKING:
    from paimon_spark.engine.commit.listeners import CommitEvent
    from paimon_spark.lineage.model import Provenance
    from paimon_spark.lineage.place import Home
    from paimon_spark.lineage.recorder import Recorder

_LOG = logging.getLogger(__name__)
LINEAGE_IS_OFF: Final = (
    f"option {JOB.key} is of no use, as lineage is off in the warehouse: what jobs read and write is not recorded. "
    "catalog.lineage.enable() switches it on"
)
_MOST: Final = 1000
_warned: set[tuple[str, str]] = set()
_lock: Final = Lock()


@dataclass(frozen=True, slots=True)
class Recording:
    """The recording of one commit, made before it. Nothing here raises, and none of it changes the commit.

    Attributes:
        provenance: what the snapshot says.
        home: the branch committed to.
        recorder: writes the rows.
    """

    provenance: Provenance
    home: Home
    recorder: Recorder

    @property
    def properties(self) -> dict[str, str]:
        """For the snapshot of the rows; none of them for that of a compaction."""
        return encode(self.provenance)

    def on_commit(self, event: CommitEvent) -> None:
        """The snapshot is there: made just now, or by an earlier attempt. A `CommitListener`."""
        record(self.recorder, event)

    def nothing_made(self) -> None:
        """There was nothing to commit: what was read is recorded all the same."""
        try:
            self.recorder.add(rows_of(self.provenance, self.home.ref, None))
        except Exception as e:  # noqa: BLE001 - recording changes no outcome
            warn_once(self.home.ref.name, "what a batch without rows has read cannot be recorded", e)


def record(recorder: Recorder, event: CommitEvent) -> None:
    """Have the rows of a snapshot written, when it says where it came from. Never raises."""
    if event.kind is CommitKind.COMPACT:
        return
    try:
        recorder.on_commit(event)
    except Exception as e:  # noqa: BLE001 - the commit is done
        warn_once(f"table {event.table}", "its commits cannot be recorded", e)


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


def seconds() -> float:
    """Seconds of a clock that only goes forward."""
    return time.monotonic()


def _unforeseen(error: Exception | None) -> Exception | None:
    """An error that is none of ours comes with its stack."""
    from paimon_spark.errors import PaimonError

    return None if error is None or isinstance(error, PaimonError | OSError) else error
