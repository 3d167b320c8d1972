"""What streaming queries noted on a branch of the batches that they committed, where its history becomes another's.

A query believes a note only as far as the history bears it out: one too many does no harm, one too few lets batches
without rows look lost.

Source: own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from paimon_spark.maintenance.changes import Put, Step
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import MAIN, Layout
from paimon_spark.versioning.staging import layout_of, relative


def read_notes(handle: TableHandle, directory: str) -> dict[str, str]:
    """The notes in a branch's directory: text by name of the file. What is no text is left out."""
    store = handle.store
    place = Layout(handle.layout.root, MAIN, None if directory == MAIN else directory).sink_dir
    names = [i.name for i in store.list(place) if not i.is_directory and not i.name.startswith(".")]
    found = zip(names, store.read_many([f"{place}/{n}" for n in names]), strict=True)
    return {n: text for n, data in found if (text := _text(data)) is not None}


def later_notes(notes: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    """Those of `others` that `notes` lack, or that are of a later batch of the same query."""
    return {n: text for n, text in sorted(others.items()) if n not in notes or _batch(text) > _batch(notes[n])}


def put_notes(directory: str, notes: Mapping[str, str]) -> tuple[Step, ...]:
    """Write notes into a branch's directory."""
    place = relative(layout_of(directory).sink_dir)
    return tuple(Put(f"{place}/{n}", text) for n, text in sorted(notes.items()))


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _batch(text: str) -> int:
    """The batch of a note; -1 for one that cannot be understood."""
    try:
        found = json.loads(text)["batch"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return -1
    return found if isinstance(found, int) else -1
