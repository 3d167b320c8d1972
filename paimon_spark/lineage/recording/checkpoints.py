"""Checkpoints of streaming queries: what each source had read at the end of a micro-batch.

Spark writes `offsets/<n>` before batch n runs, and `commits/<n>` after it. Offsets of Paimon tables are recognised by
their content (`streaming/offset.py`). Checksum files are ignored.

Source: Spark `execution/streaming/checkpointing/{HDFSMetadataLog,OffsetSeqLog,OffsetSeq}.scala`,
`runtime/{StreamMetadata,StreamingQueryCheckpointMetadata}.scala`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from paimon_spark.errors import CorruptFileError, FileMissingError, FormatError, OffsetError, PaimonError
from paimon_spark.format.json_files import decode_object, json_value
from paimon_spark.jobs.lineage_port import QueryRun
from paimon_spark.lineage.index.provenance import SourceRange, TableRef
from paimon_spark.lineage.index.warehouse import Warehouse, is_lineage_table, split_table_path
from paimon_spark.metadata.layout import MAIN
from paimon_spark.redaction import without_user_password
from paimon_spark.storage.store import Store
from paimon_spark.storage.urls import external_path, split_url
from paimon_spark.streaming.offset import START, Phase, StreamOffset, decode

Offsets: TypeAlias = Mapping[str, StreamOffset]
"""Offsets of Paimon tables by source: its position in the query, or its name in format 2."""

_NEWEST_FORMAT: Final = 2
_LOOKED_AT: Final = 200
"""Most directories below the configured one to search for a query's id."""
_ONE_SLASH: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(?!/)")


@dataclass(frozen=True, slots=True)
class Ends:
    """A file of offsets.

    Attributes:
        ends: where the batch ends.
        starts: where the query began, of the sources whose first end this is.
    """

    ends: Offsets
    starts: Offsets


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint of a query; `root` is its directory in `store`."""

    store: Store
    root: str

    @property
    def url(self) -> str:
        return self.store.url(self.root)

    def query_id(self) -> str | None:
        """The id of the query; None without a checkpoint. Raises CorruptFileError, StorageError."""
        path = f"{self.root}/metadata"
        try:
            data = self.store.read(path)
        except FileMissingError:
            return None
        return decode_object(
            data,
            lambda raw: str(raw["id"]),
            lambda why: CorruptFileError(f"{self.store.url(path)} does not hold the id of a query ({why})", path=path),
        )

    def ends(self, batch_id: int) -> Ends:
        """Where a batch ends that has begun.

        Raises:
            FileMissingError: it has not begun, or its file was removed.
            CorruptFileError: the file is none that Spark writes.
        """
        path = f"{self.root}/offsets/{batch_id}"
        return decode_ends(self.store.read(path), self.store.url(path))

    def ends_before(self, batch_id: int) -> Ends | None:
        """Where the batch before begins; None for the first one, and where Spark has removed the file."""
        if batch_id <= 0:
            return None
        try:
            return self.ends(batch_id - 1)
        except FileMissingError:
            return None


def decode_ends(data: bytes, path: str) -> Ends:
    """The offsets in the bytes of a file; `path` is for messages. Raises CorruptFileError."""
    lines = data.decode("utf-8", "replace").split("\n")
    version = lines[0].strip()
    if len(lines) < 2 or not re.fullmatch(r"v[0-9]{1,9}", version) or int(version[1:]) > _NEWEST_FORMAT:
        raise CorruptFileError(
            f"{path} is not a known offset log of Spark: expected v1 or v2, found {lines[0][:40]!r}",
            path=path,
        )
    ends: dict[str, StreamOffset] = {}
    starts: dict[str, StreamOffset] = {}
    for number, line in enumerate(lines[2:]):
        source, text = (str(number), line) if version == "v1" else line.partition(":")[::2]
        try:
            raw = json_value(text)
        except FormatError:  # no offset, or one of another source, which chooses its content
            continue
        if (end := _offset(raw)) is not None:
            ends[source] = end
            if (start := _offset(raw.get(START))) is not None:
                starts[source] = start
    return Ends(ends, starts)


def source_ranges(before: Ends | None, now: Ends, warehouse: Warehouse) -> tuple[SourceRange, ...]:
    """Ranges that a batch read of each branch, as seen from a sink in `warehouse`.

    A branch that a query reads more than once counts as read as far as by the slowest of its readers. `before` is where
    the batch before ended; None for the first one, or when its file is gone.
    """
    found: dict[tuple[Any, ...], SourceRange] = {}
    for source, end in now.ends.items():
        start = before.ends.get(source) if before is not None else None
        if start is None or _branch_of(start) != _branch_of(end):
            start = now.starts.get(source)
        one = range_between(start, end, warehouse)
        if one is None:
            continue
        key = one.ref, one.warehouse, one.location
        known = found.get(key)
        found[key] = one if known is None else _slowest(known, one)
    return tuple(sorted(found.values(), key=lambda r: (r.warehouse or "", r.ref or ("", ""), r.location or "")))


def range_between(start: StreamOffset | None, end: StreamOffset, warehouse: Warehouse) -> SourceRange | None:
    """Range between two offsets, None for a table that is never recorded. A None `start` means unknown."""
    root, database, table = split_table_url(end.table)
    after = None if start is None else read_whole(start)
    last, within = read_whole(end), read_in_part(end)
    if root is None:
        location = end.table if end.branch == MAIN else f"{end.table}$branch_{end.branch}"
        return SourceRange(None, location=without_user_password(location), after=after, last=last, within=within)
    ref = TableRef.of(database, table, end.branch)
    if is_lineage_table(ref):
        return None
    return SourceRange(
        ref, None if root == warehouse.url else without_user_password(root), after=after, last=last, within=within
    )


def read_whole(offset: StreamOffset) -> int | None:
    """The last snapshot that was read completely: 0 before the first one, None without any.

    The state of a snapshot is read whole or not at all: as long as a part of it is left, no snapshot is.
    """
    if offset.snapshot_id is None or offset.part is None:
        return offset.snapshot_id
    return None if offset.part.phase is Phase.STATE else offset.snapshot_id - 1


def read_in_part(offset: StreamOffset) -> int | None:
    """The snapshot that was read in part; None where an offset is between two."""
    return offset.snapshot_id if offset.part is not None and offset.part.units else None


def split_table_url(url: str) -> tuple[str | None, str, str]:
    """Split a table's URL into warehouse (None outside of a database), database and table."""
    parts = split_table_path(url.rstrip("/"))
    return (None, "", "") if parts is None or parts[0].endswith(("/", ":")) else parts


def open_checkpoint(near: Store, location: str) -> Checkpoint:
    """The checkpoint at a path or URL, as users give it to Spark. Reads nothing.

    `near` is a store whose options are those for other stores. Raises InvalidInputError, StorageError.
    """
    return Checkpoint(*external_path(near, _with_slashes(location)))


def find_checkpoint(near: Store, run: QueryRun) -> Checkpoint:
    """The checkpoint of a query that runs; `near` as in `open_checkpoint`.

    It is the one that the query was given, else one below the directory of its session, where Spark makes a directory
    for each query: of its name, or of a random one. One of another query is not taken.

    Raises:
        StorageError: it is not found, or cannot be reached.
    """
    looked = []
    for root in _possible_locations(near, run.checkpoint):
        looked.append(root)
        found = open_checkpoint(near, root)
        if found.query_id() == run.query_id:
            return found
    for root in _possible_locations(near, run.checkpoint_conf):
        looked.append(root)
        below = _below(open_checkpoint(near, root), run)
        if below is not None:
            return below
    where = f"looked in {', '.join(looked)}" if looked else "neither the query nor its session names one"
    raise FileMissingError(
        f"the checkpoint of streaming query {run.query_id} is not found; {where}", query_id=run.query_id
    )


def _below(folder: Checkpoint, run: QueryRun) -> Checkpoint | None:
    """The checkpoint of a query in a directory of this one; its name is tried first, then the newest directories."""

    def candidates() -> Iterator[str]:
        if run.name:
            yield run.name
        entries = [i for i in folder.store.list(folder.root) if i.is_directory]
        entries.sort(key=lambda i: (-(i.modified_ms or 0), i.name))
        yield from (i.name for i in entries[:_LOOKED_AT])

    for name in candidates():
        found = Checkpoint(folder.store, f"{folder.root}/{name}")
        with suppress(PaimonError):  # another query's damage
            if found.query_id() == run.query_id:
                return found
    return None


def _possible_locations(near: Store, location: str | None) -> Iterator[str]:
    """URLs that a location may mean: a path without a scheme is on the cluster's file system, maybe the table's."""
    if not location or not location.strip():
        return
    yield location
    if location.startswith("dbfs:"):
        yield "/dbfs/" + location.removeprefix("dbfs:").lstrip("/")
    elif location.startswith("/"):
        scheme, authority, _ = split_url(near.url("/"))
        if authority:
            yield f"{scheme}://{authority}{location}"


def _with_slashes(location: str) -> str:
    """Add the slashes after the scheme that Hadoop leaves out."""
    scheme, found = "", _ONE_SLASH.match(location)
    if found is not None and "://" not in location:
        scheme = found.group(1).lower()
    return location if scheme in ("", "file") else f"{scheme}:///{location[found.end() :] if found else ''}"


def _branch_of(offset: StreamOffset) -> tuple[str, ...]:
    """A key of an offset's branch that stays the same when the warehouse is moved."""
    _, database, table = split_table_url(offset.table)
    return (database, table, offset.branch) if table else (offset.table, offset.branch)


def _slowest(one: SourceRange, other: SourceRange) -> SourceRange:
    first, second = sorted((one, other), key=lambda r: (-1 if r.last is None else r.last, r.within is not None))
    after = None if one.after is None or other.after is None else min(one.after, other.after)
    within = first.within if first.last != second.last or first.within is not None else second.within
    return SourceRange(first.ref, first.warehouse, first.location, after, first.last, within)


def _offset(raw: Any) -> StreamOffset | None:
    """The offset of a Paimon table; None for one of another source."""
    if not isinstance(raw, dict):
        return None
    try:
        return decode(raw)
    except OffsetError:
        return None
