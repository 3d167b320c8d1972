"""The decision whether a change of several tables happens, in one small file.

Each table has its lock and its journal, and each journal names the decision. Whoever finds the journal of a dead
process reads the decision: if the change is to run, it runs the steps of that table; if not, it removes the lock. If
there is no decision yet, it decides that the change does not run. As the file is created exclusively, all tables get
the same decision, and a table without a journal cannot miss the change: the decision to run is made last.

A commit to one of the tables may also decide so, where the change demands the heads that it was planned with: no commit
is lost, and none waits. The change reads the heads again after it wrote the journals. Commits before that show there;
later ones find the journal.

Files are `<warehouse>/paimon.db/_pipelines/changes/<id>`, where no other engine looks.

Source: own, two-phase commit with presumed abort.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

from paimon_spark.errors import CorruptFileError, FileAlreadyThereError
from paimon_spark.format.json_files import decode_object
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.small_files import find_decoded
from paimon_spark.storage.store import Store

DIRECTORY: Final = "paimon.db/_pipelines"
"""Where files about pipelines are, below the warehouse."""
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a change of several tables happens.

    Attributes:
        runs: whether it does.
        tables: the paths of all its tables, relative to the warehouse; empty where it does not run.
        record: what the caller wants to keep until the change is complete, as JSON values.
    """

    runs: bool
    tables: tuple[str, ...] = ()
    record: dict[str, Any] = field(default_factory=dict)


def warehouse_root(handle: TableHandle) -> str:
    """The directory that holds the database directory of a table."""
    return handle.layout.root.rsplit("/", 2)[0]


def decision_path(warehouse: str, decision_id: str) -> str:
    """The file of a decision, in the warehouse at this path."""
    return f"{warehouse}/{DIRECTORY}/changes/{decision_id}"


def find_decision(store: Store, path: str) -> Decision | None:
    """The decision in a file; None when nobody decided yet. Raises CorruptFileError."""
    return find_decoded(store, path, _decode)


def decide(store: Store, path: str, wanted: Decision) -> Decision:
    """Decide, unless somebody has; returns the decision that holds.

    Raises:
        StorageError: whether the decision was made is unknown; call again.
        CorruptFileError: the file cannot be read.
    """
    try:
        store.create_exclusive(path, _encode(wanted))
    except FileAlreadyThereError:
        found = find_decision(store, path)
        return wanted if found is None else found  # deleted meanwhile: complete, as only such are deleted
    return wanted


def _encode(decision: Decision) -> bytes:
    raw = {"version": _VERSION, "runs": decision.runs, "tables": list(decision.tables), "record": decision.record}
    return json.dumps(raw).encode()


def _decode(data: bytes, path: str) -> Decision:
    def build(raw: dict[str, Any]) -> Decision:
        if raw["version"] != _VERSION or not isinstance(raw["runs"], bool) or not isinstance(raw["record"], dict):
            raise ValueError(f"it is not a decision of version {_VERSION}")
        return Decision(raw["runs"], tuple(str(t) for t in raw["tables"]), raw["record"])

    return decode_object(
        data,
        build,
        lambda why: CorruptFileError(
            f"{path} does not hold the decision on a change of several tables: {why}; look at its tables with doctor()",
            path=path,
        ),
    )
