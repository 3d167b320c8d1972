"""Version text and version options as values. Nothing is read here; `resolve` finds what they mean.

Source: Java `table/source/snapshot/TimeTravelUtil`; PIP-4 and PIP-14 for savepoints and branches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from paimon_spark.errors import InvalidOptionError, VersionSyntaxError
from paimon_spark.metadata.timestamp import epoch_ms


class VersionKind(str, Enum):
    """What a version names. TEXT is the grammar of `VERSION AS OF`, whose meaning depends on what exists."""

    TEXT = "version"
    SNAPSHOT = "snapshot"
    TAG = "tag"
    TAG_ID = "tag-id"
    SAVEPOINT = "savepoint"
    WATERMARK = "watermark"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class VersionSpec:
    """A version asked for.

    Attributes:
        value: text for TEXT and TAG; a snapshot id for SNAPSHOT, TAG_ID and SAVEPOINT; epoch milliseconds
            for WATERMARK and TIMESTAMP.
        asked: what the user wrote, for messages; empty means the value itself.
    """

    kind: VersionKind
    value: str | int
    asked: str = ""

    def __str__(self) -> str:
        if self.kind is VersionKind.TEXT:
            return f"version {self.value!r}"
        return f"{self.kind.value} {self.asked or self.value!r}"


_TYPED: Final = (
    (re.compile(r"snapshot\.(\d{1,19})", re.ASCII), VersionKind.SNAPSHOT),
    (re.compile(r"savepoint\.(\d{1,19})", re.ASCII), VersionKind.SAVEPOINT),
    (re.compile(r"tag-id\.(\d{1,19})", re.ASCII), VersionKind.TAG_ID),
    (re.compile(r"watermark-(-?\d{1,19})", re.ASCII), VersionKind.WATERMARK),
)
_OPTION_KINDS: Final = {
    "versionasof": VersionKind.TEXT,
    "scan.version": VersionKind.TEXT,
    "scan.snapshot-id": VersionKind.SNAPSHOT,
    "scan.tag-name": VersionKind.TAG,
    "scan.tag-id": VersionKind.TAG_ID,
    "scan.savepoint-id": VersionKind.SAVEPOINT,
    "scan.watermark": VersionKind.WATERMARK,
    "timestampasof": VersionKind.TIMESTAMP,
    "scan.timestamp": VersionKind.TIMESTAMP,
    "scan.timestamp-millis": VersionKind.TIMESTAMP,
}


def text_version(text: str) -> VersionSpec:
    """The version of a text after `VERSION AS OF`. Raises VersionSyntaxError when it is blank."""
    if not text.strip():
        raise VersionSyntaxError(
            "the version is blank; give a snapshot id, a tag, a branch, <branch>.<tag> or a typed version "
            "such as snapshot.3, savepoint.3, tag-name.t, tag-id.3 or watermark-<ms>"
        )
    return VersionSpec(VersionKind.TEXT, text.strip())


def typed_version(text: str) -> VersionSpec | None:
    """The version that `text` names by its type (`snapshot.3`, `tag-name.t` …); None when it is not so written."""
    for pattern, kind in _TYPED:
        match = pattern.fullmatch(text)
        if match is not None:
            return VersionSpec(kind, int(match[1]), match[1])
    name = text.removeprefix("tag-name.")
    return VersionSpec(VersionKind.TAG, name) if name and name != text else None


def branch_version(text: str) -> tuple[str, str] | None:
    """Branch and rest of `<branch>.<rest>`; None when there is no dot, or nothing on one side of it."""
    branch, _, rest = text.partition(".")
    return (branch, rest) if branch and rest else None


def snapshot_number(text: str) -> int | None:
    """The snapshot id of a text of digits; None for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def from_options(pairs: Iterable[tuple[str, str]], time_zone: str | None = None) -> VersionSpec | None:
    """The version that read options name; None when none does.

    Args:
        pairs: option keys, in any case, with their text; keys that name no version are passed over.
        time_zone: zone of timestamps written without one; None means the machine's.

    Raises:
        InvalidOptionError: two options name a version, or an id is not a number.
        VersionSyntaxError: a timestamp or version cannot be read.
    """
    given = [(key, text) for key, text in pairs if key.lower() in _OPTION_KINDS]
    if len(given) > 1:
        raise InvalidOptionError(
            "only one option may name a version; given are " + " and ".join(f"{key} = {text!r}" for key, text in given),
            options=[key for key, _ in given],
        )
    return from_option(*given[0], time_zone) if given else None


def from_option(key: str, text: str, time_zone: str | None = None) -> VersionSpec:
    """The version that one option names. Raises as `from_options`."""
    kind = _OPTION_KINDS[key.lower()]
    if kind is VersionKind.TEXT:
        return text_version(text)
    if kind is VersionKind.TAG:
        return VersionSpec(kind, text)
    if kind is VersionKind.TIMESTAMP and key.lower() != "scan.timestamp-millis":
        return VersionSpec(kind, epoch_ms(text, time_zone, key), repr(text))
    try:
        return VersionSpec(kind, int(text.strip()), text.strip())
    except ValueError:
        raise InvalidOptionError(f"option {key} = {text!r}: expected a whole number", option=key, value=text) from None
