"""The decision whether a change of several tables happens, in one small file.

Each table has its lock and its journal, and each journal names the decision. Whoever finds the journal of a dead
process reads the decision: if the change is to run, it runs the steps of that table; if not, it removes the lock. If
there is no decision yet, it decides that the change does not run. As the file is created exclusively, all tables get
the same decision, and a table without a journal cannot miss the change: the decision to run is made last.

A commit to one of the tables may also decide so, where the change demands the heads that it was planned with: no commit
is lost, and none waits. The change reads the heads again after it wrote the journals. Commits before that show there;
later ones find the journal.

Files are `<warehouse>/paimon.db/_pipelines/changes/<id>`, where no other engine looks. Whoever may write there must not
reach other files through those who complete a change: ids and paths of tables are checked when written and when read.

Source: own, two-phase commit with presumed abort.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

from paimon_spark.errors import CorruptFileError, FileAlreadyThereError
from paimon_spark.format.json_files import decode_object
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import is_file_name
from paimon_spark.metadata.small_files import find_decoded
from paimon_spark.options.location import DATABASE_SUFFIX
from paimon_spark.storage.local import within
from paimon_spark.storage.store import Store

DIRECTORY: Final = "paimon.db/_pipelines"
"""Where files about pipelines are, below the warehouse."""
_VERSION: Final = 1
_ID: Final = re.compile(r"[0-9a-z]{1,64}")


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a change of several tables happens.

    Attributes:
        runs: whether it does.
        tables: the paths of all its tables, `<database>.db/<table>` below the warehouse; empty where it does not run.
        record: what the caller wants to keep until the change is complete, as JSON values.
    """

    runs: bool
    tables: tuple[str, ...] = ()
    record: dict[str, Any] = field(default_factory=dict)


def split_root(handle: TableHandle) -> tuple[str, str]:
    """The warehouse of a table, and the path of the table below it.

    Raises CorruptFileError: the table is not in a database of a warehouse, so that no change of several tables has it.
    """
    warehouse, *names = handle.layout.root.rsplit("/", 2)
    path = "/".join(names)
    if not warehouse or not is_table_path(path):
        raise CorruptFileError(
            f"a change of table {handle.name} waits for others of a warehouse, but "
            f"{handle.store.url(handle.layout.root)} is not <warehouse>/<database>.db/<table>; nothing was done. If no "
            "process works on the table, remove its directory intent/ and look at it with doctor()",
            path=handle.layout.root,
        )
    return warehouse, path


def is_table_path(path: str) -> bool:
    """Whether a path is `<database>.db/<table>`, which stays in its warehouse."""
    database, _, table = path.partition("/")
    name = database.removesuffix(DATABASE_SUFFIX)
    return name != database and is_file_name(name) and is_file_name(table)


def is_decision_id(text: str) -> bool:
    """Whether a text is the id of a decision, and so the name of its file."""
    return _ID.fullmatch(text) is not None


def decision_path(warehouse: str, decision_id: str) -> str:
    """Path of a decision's file in the warehouse. Raises ValueError for an invalid id."""
    if not is_decision_id(decision_id):
        raise ValueError(f"{decision_id!r} is not the id of a decision")
    return f"{warehouse}/{DIRECTORY}/changes/{decision_id}"


def find_decision(store: Store, path: str) -> Decision | None:
    """Read the decision in a file; None before it is decided. Raises CorruptFileError."""
    return find_decoded(_in_warehouse(store, path), path, _decode)


def decide(store: Store, path: str, wanted: Decision) -> Decision:
    """Decide, unless it is decided already; returns the decision that holds.

    Raises:
        StorageError: whether the decision was made is unknown; call again.
        CorruptFileError: the file cannot be read.
    """
    try:
        _in_warehouse(store, path).create_exclusive(path, _encode(wanted))
    except FileAlreadyThereError:
        found = find_decision(store, path)
        return wanted if found is None else found  # deleted meanwhile: complete, as only such are deleted
    return wanted


def _in_warehouse(store: Store, path: str) -> Store:
    """The store of a table when it follows no links on the way to the file of a decision, beside the table."""
    return within(store, path.partition(f"/{DIRECTORY}/")[0])


def _encode(decision: Decision) -> bytes:
    wrong = [path for path in decision.tables if not is_table_path(path)]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is not the path of a table below a warehouse")
    raw = {"version": _VERSION, "runs": decision.runs, "tables": list(decision.tables), "record": decision.record}
    return json.dumps(raw).encode()


def _decode(data: bytes, path: str) -> Decision:
    def build(raw: dict[str, Any]) -> Decision:
        if raw["version"] != _VERSION or not isinstance(raw["runs"], bool) or not isinstance(raw["record"], dict):
            raise ValueError(f"it is not a decision of version {_VERSION}")
        tables = raw["tables"]
        if not isinstance(tables, list) or not all(isinstance(t, str) and is_table_path(t) for t in tables):
            raise ValueError("it names what is no table of its warehouse")
        return Decision(raw["runs"], tuple(tables), raw["record"])

    return decode_object(
        data,
        build,
        lambda why: CorruptFileError(
            f"{path} does not hold the decision on a change of several tables: {why}; look at its tables with doctor()",
            path=path,
        ),
    )
