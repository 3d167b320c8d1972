"""WriteOptions: what decides how rows are taken in, before they are files.

Source: Java `CoreOptions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from paimon_spark.options.descriptor import Option, boolean, integer, memory_size, string
from paimon_spark.options.table import IGNORE_DELETE, MERGE_ENGINE, MergeEngine

WRITE_BUFFER_SIZE: Final = Option(
    "write-buffer-size", memory_size, 256 << 20, "Memory for rows that are not yet in files, of one writing task."
)
SPILLABLE: Final = Option(
    "write-buffer-spillable", boolean, True, "Rows may be put aside on local disk when memory is short."
)
SPILL_MAX_DISK: Final[Option[int | None]] = Option(
    "write-buffer-spill.max-disk-size", memory_size, None, "Local disk a writer may use before it writes files."
)
MAX_OPEN_WRITERS: Final = Option(
    "write-max-writers-to-spill", integer, 10, "Most buckets whose files are open at once; rows of others wait."
)
ROWKIND_FIELD: Final[Option[str | None]] = Option(
    "rowkind.field", string, None, "A text column whose values +I, -U, +U, -D say what rows do."
)
REMOVE_ON_DELETE: Final = Option(
    "partial-update.remove-record-on-delete", boolean, False, "A row of kind -D removes the whole row of its key."
)
IGNORE_UPDATE_BEFORE: Final = Option("ignore-update-before", boolean, False, "Rows of kind -U are skipped.")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How rows are taken in.

    Attributes:
        buffer_bytes: memory for rows that wait; beyond it they go to files, of the table or aside.
        spillable: whether local disk may be used; without it small files are written when memory is short.
        max_open_writers: most buckets whose files are open at once.
        rowkind_field: column of row kinds; None: rows are +I unless a column `_VALUE_KIND` says otherwise.
        ignore_delete: rows of kind -U and -D are skipped.
        ignore_update_before: rows of kind -U are skipped.
        retracts_refused: why the merge engine takes no rows of kind -U and -D; None when it does.
    """

    buffer_bytes: int
    spillable: bool
    max_open_writers: int
    rowkind_field: str | None
    ignore_delete: bool
    ignore_update_before: bool
    retracts_refused: str | None = None


def parse_write_options(raw: Mapping[str, str]) -> WriteOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type."""
    return WriteOptions(
        buffer_bytes=WRITE_BUFFER_SIZE.get(raw),
        spillable=SPILLABLE.get(raw),
        max_open_writers=max(1, MAX_OPEN_WRITERS.get(raw)),
        rowkind_field=ROWKIND_FIELD.get(raw),
        ignore_delete=IGNORE_DELETE.get(raw),
        ignore_update_before=IGNORE_UPDATE_BEFORE.get(raw),
        retracts_refused=_retracts_refused(raw),
    )


def _retracts_refused(raw: Mapping[str, str]) -> str | None:
    """Why retracts cannot be merged.

    Java finds out when two rows of a key meet, which may be after the commit: a table that nobody can read any more.

    Source: Java `mergetree/compact/FirstRowMergeFunction`, `PartialUpdateMergeFunction`.
    """
    match MERGE_ENGINE.get(raw):
        case MergeEngine.FIRST_ROW:
            return "keeps the first row of each key (merge-engine = first-row)"
        case MergeEngine.PARTIAL_UPDATE:
            grouped = any(k.startswith("fields.") and k.endswith(".sequence-group") for k in raw)
            if not grouped and not REMOVE_ON_DELETE.get(raw):
                return (
                    "merges columns (merge-engine = partial-update) without a rule for deletes: neither "
                    "partial-update.remove-record-on-delete nor sequence groups"
                )
    return None
