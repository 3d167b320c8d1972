"""CommitListener: notified of completed commits.

Source: PIP-5, whose `CommitListener` gets the identifier, the snapshot id and the kind.

Tests: tests/unit/engine/commit/test_listeners.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import Protocol, runtime_checkable

from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.lineage import LISTENERS, parse_listeners
from paimon_spark.redaction import get_logger

_LOG = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CommitEvent:
    """A commit that was completed: its snapshot is there for everybody.

    Attributes:
        table: how messages call the table: `db.t`, or its URL.
        location: URL of the table's directory.
        identifier: number of the commit among the user's; the micro-batch id of a streaming query.
        kind: APPEND, OVERWRITE, COMPACT or ANALYZE.
        time_ms: epoch milliseconds of the snapshot.
        properties: of the snapshot.
    """

    table: str
    branch: str
    location: str
    commit_user: str
    identifier: int
    snapshot_id: int
    kind: CommitKind
    time_ms: int
    properties: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class CommitListener(Protocol):
    """Notified of each snapshot of this process, in order, after it is committed. Must be quick and thread-safe.

    An exception is logged and changes nothing: the commit is done. Listeners are not notified when
    the process dies right after the commit, nor of a commit that an earlier attempt made.
    """

    def on_commit(self, event: CommitEvent) -> None:
        """A commit was completed."""
        ...


def event_of(handle: TableHandle, snapshot: Snapshot) -> CommitEvent:
    """The event of a snapshot just made."""
    return CommitEvent(
        handle.name,
        handle.branch,
        handle.location,
        snapshot.commit_user,
        snapshot.commit_identifier,
        snapshot.id,
        snapshot.commit_kind,
        snapshot.time_ms,
        dict(snapshot.properties or {}),
    )


def notify(listeners: Sequence[CommitListener], handle: TableHandle, snapshot: Snapshot) -> None:
    """Notify listeners of a new snapshot. Never raises an Exception: the commit is done and must not look failed."""
    for listener in listeners:
        try:
            listener.on_commit(event_of(handle, snapshot))
        except Exception:  # noqa: BLE001 - see above
            _LOG.exception(
                "%s failed after snapshot %s of %s", type(listener).__qualname__, snapshot.id, handle.describe()
            )


def named_listeners(handle: TableHandle) -> Sequence[CommitListener]:
    """The listeners that the options of this use of the table name, without those that cannot be made. Never raises."""
    found: list[CommitListener] = []
    for module, cls in parse_listeners(handle.overrides):
        try:
            found.append(_made(module, cls))
        except Exception:  # noqa: BLE001 - whatever the module or the class raises
            _LOG.exception(
                "option %s names %s:%s, which cannot be made; commits to %s go on without it",
                LISTENERS.key,
                module,
                cls,
                handle.describe(),
            )
    return found


@lru_cache(maxsize=64)
def _made(module: str, cls: str) -> CommitListener:
    """The listener, one for this process. It is made without arguments."""
    listener: CommitListener = getattr(import_module(module), cls)()
    if not callable(getattr(listener, "on_commit", None)):
        raise TypeError(f"{module}:{cls} has no method on_commit(event)")
    return listener
