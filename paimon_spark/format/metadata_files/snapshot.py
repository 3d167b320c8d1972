"""Snapshot and Tag: the files `snapshot-<id>`, `changelog-<id>` and `tag-<name>`.

Source: Paimon spec, chapter Snapshot; Java `Snapshot`, `tag/Tag`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, TypeVar

from paimon_spark.display import ShownAsFacts, moment
from paimon_spark.errors import CorruptFileError, FormatError, UnknownFormatVersionError
from paimon_spark.format.json_files import decode_object, encode_value
from paimon_spark.text import counted

CURRENT_VERSION: Final = 3
NO_WATERMARK: Final = -(2**63)
"""The value writers store for "no watermark yet"."""


class CommitKind(StrEnum):
    """Why a snapshot was made; the value is the text on disk."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


@dataclass(frozen=True, slots=True, repr=False)
class Snapshot(ShownAsFacts):
    """One committed state of a branch. Names are of files in `manifest/` or `statistics/`.

    Attributes:
        schema_id: the newest schema when the commit was made.
        base_manifest_list: everything before this commit.
        delta_manifest_list: what this commit added and deleted.
        index_manifest: the complete set of index files, not a delta; None when there is none.
        time_ms: epoch milliseconds of the commit.
        total_record_count: physical rows alive, before merging; None in snapshots of very old writers.
        watermark: epoch milliseconds; None when unknown (`NO_WATERMARK` on disk is also read as None).
        extra: JSON keys this package does not know, kept for rewriting.
    """

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    commit_user: str
    commit_identifier: int
    commit_kind: CommitKind
    time_ms: int
    base_manifest_list_size: int | None = None
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    index_manifest: str | None = None
    total_record_count: int | None = None
    delta_record_count: int | None = None
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: Mapping[str, str] | None = None
    next_row_id: int | None = None
    uuid: str | None = None
    writer_version: str | None = None
    operation: str | None = None
    version: int = CURRENT_VERSION
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rows_before(self) -> int | None:
        """`total_record_count` of the snapshot that this one was made on; None when unknown."""
        if self.total_record_count is None or self.delta_record_count is None:
            return None
        return self.total_record_count - self.delta_record_count

    @property
    def rows_changed(self) -> int | None:
        """Physical rows that it added, less those that it removed; None for kinds that change no rows, and unknown."""
        return self.delta_record_count if self.commit_kind in (CommitKind.APPEND, CommitKind.OVERWRITE) else None

    def may_follow(self, rows: int | None) -> bool:
        """Whether it may have been made on a snapshot with so many rows; True when unknown."""
        return rows is None or self.rows_before in (None, rows)

    def text_lines(self) -> list[str]:
        rows = "" if self.total_record_count is None else f", {counted(self.total_record_count, 'row')}"
        return [f"snapshot {self.id}, {self.commit_kind.value}, {moment(self.time_ms)}{rows}"]


@dataclass(frozen=True, slots=True)
class Tag:
    """A named snapshot that expiry leaves alone.

    Attributes:
        create_time: local wall clock of the creator, without zone; None for tags that live for ever.
        time_retained_s: seconds to live from `create_time`; None means for ever.
    """

    name: str
    snapshot: Snapshot
    create_time: datetime | None = None
    time_retained_s: float | None = None


_JAVA_ORDER: Final = (
    "version", "uuid", "id", "schema_id", "base_manifest_list", "base_manifest_list_size", "delta_manifest_list",
    "delta_manifest_list_size", "changelog_manifest_list", "changelog_manifest_list_size", "index_manifest",
    "commit_user", "writer_version", "commit_identifier", "commit_kind", "time_ms", "total_record_count",
    "delta_record_count", "changelog_record_count", "watermark", "statistics", "properties", "next_row_id", "operation",
)  # fmt: skip
_KEYS: Final = {
    name: "timeMillis" if name == "time_ms" else re.sub("_(.)", lambda m: m[1].upper(), name) for name in _JAVA_ORDER
}
"""The JSON key of each attribute, in the order Java writes them."""
_REQUIRED: Final = frozenset(f.name for f in fields(Snapshot) if f.default is f.default_factory) - {"commit_kind"}
_TEXT: Final = frozenset(f.name for f in fields(Snapshot) if f.type in ("str", "str | None"))
_LAST_ID: Final = 2**63 - 2
"""The largest id of a snapshot that another one can follow."""
_NUMBERED: Final = re.compile(r"(?:snapshot|changelog)-([0-9]{1,19})")
_TAG_CREATE_TIME: Final = "tagCreateTime"
_TAG_TIME_RETAINED: Final = "tagTimeRetained"


@lru_cache(maxsize=16)  # each commit reads its head again, to see whether it is still there
def decode(data: bytes, path: str) -> Snapshot:
    """The snapshot in the bytes of a snapshot or changelog file; `path` is for messages.

    Raises:
        CorruptFileError: not the JSON of a snapshot, or of another id than the file's name.
        UnknownFormatVersionError: written by a format version newer than 3.
    """

    def build(raw: dict[str, Any]) -> Snapshot:
        snapshot = _from_json(raw, path)
        named = _NUMBERED.fullmatch(path.rpartition("/")[2])
        if named is not None and int(named[1]) != snapshot.id:
            raise FormatError(f"id is {snapshot.id}, unlike the file's name")
        return snapshot

    return _guarded(data, path, build)


def decode_tag(data: bytes, name: str, path: str) -> Tag:
    """The tag in the bytes of a tag file. Raises as `decode` does."""

    def build(raw: dict[str, Any]) -> Tag:
        created, retained = raw.pop(_TAG_CREATE_TIME, None), raw.pop(_TAG_TIME_RETAINED, None)
        return Tag(
            name,
            _from_json(raw, path),
            None if created is None else _local_date_time(created),
            None if retained is None else _seconds(retained),
        )

    return _guarded(data, path, build)


_T = TypeVar("_T")


def _guarded(data: bytes, path: str, build: Callable[[dict[str, Any]], _T]) -> _T:
    return decode_object(
        data, build, lambda why: CorruptFileError(f"{path} is not a readable snapshot: {why}", path=path)
    )


def _local_date_time(value: Any) -> datetime:
    """Jackson's array form of a local date-time: [y, M, d, h, m(, s(, nanos))]; text is taken as ISO."""
    if isinstance(value, str):
        return datetime.fromisoformat(value)
    if not isinstance(value, list) or not 3 <= len(value) <= 7:
        raise FormatError(f"{_TAG_CREATE_TIME} is {value!r}")
    parts = [_integer(_TAG_CREATE_TIME, v) for v in value]
    nanos = parts.pop() if len(parts) == 7 else 0
    return datetime(*parts[:6], microsecond=nanos // 1000)  # type: ignore[arg-type, misc]


def _from_json(raw: dict[str, Any], path: str) -> Snapshot:
    values: dict[str, Any] = {}
    for attribute, key in _KEYS.items():
        value = raw.get(key)
        if value is None:
            if attribute in _REQUIRED:
                raise FormatError(f"{key} is missing")
            continue
        values[attribute] = _typed(attribute, key, value)
    if not 1 <= values["id"] <= _LAST_ID:
        raise FormatError(f"id is {values['id']}, expected one from 1 to {_LAST_ID}")
    version = values.get("version", 1)
    if version > CURRENT_VERSION:
        raise UnknownFormatVersionError(
            f"{path} has format version {version}, this package knows versions up to {CURRENT_VERSION}; "
            "use a newer paimon-spark",
            path=path,
            version=version,
        )
    values["version"] = version
    values.setdefault("commit_kind", CommitKind.APPEND)
    if values.get("watermark") == NO_WATERMARK:
        del values["watermark"]
    known = frozenset(_KEYS.values())
    return Snapshot(**values, extra={k: v for k, v in raw.items() if k not in known})


def _typed(attribute: str, key: str, value: Any) -> Any:
    if attribute == "commit_kind":
        return CommitKind(value)
    if attribute == "properties":
        return {str(k): str(v) for k, v in value.items()}
    if attribute in _TEXT:
        if not isinstance(value, str):
            raise FormatError(f"{key} is {value!r}, expected text")
        return value
    return _integer(key, value)


def _integer(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise FormatError(f"{key} is {str(value)[:50]!r}, expected a 64-bit integer")
    return value


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise FormatError(f"{_TAG_TIME_RETAINED} is {str(value)[:50]!r}, expected seconds")
    return float(value)


def encode(snapshot: Snapshot) -> bytes:
    """The bytes of the snapshot file, keys in Java's order, absent ones left out."""
    out: dict[str, Any] = {}
    for attribute, key in _KEYS.items():
        value = getattr(snapshot, attribute)
        if value is not None:
            out[key] = value.value if isinstance(value, CommitKind) else value
    out.update(snapshot.extra)
    return encode_value(out, indent=2)


def encode_tag(tag: Tag) -> bytes:
    """The bytes of the tag file: the snapshot, and the life time when it has one, as Java writes that."""
    data = encode(tag.snapshot)
    if tag.create_time is None or tag.time_retained_s is None:
        return data
    # Java's Duration is a number with nine decimals, which no float of Python is written as.
    life_time = (
        f'  "{_TAG_CREATE_TIME}": {json.dumps(_date_time_parts(tag.create_time))},\n'
        f'  "{_TAG_TIME_RETAINED}": {tag.time_retained_s:.9f}\n'
    )
    return data.removesuffix(b"\n}") + b",\n" + life_time.encode() + b"}"


def _date_time_parts(t: datetime) -> list[int]:
    """Jackson's array form: the nanoseconds, and then the seconds, are left out when they are zero."""
    parts = [t.year, t.month, t.day, t.hour, t.minute]
    if t.second or t.microsecond:
        parts.append(t.second)
    if t.microsecond:
        parts.append(t.microsecond * 1000)
    return parts
