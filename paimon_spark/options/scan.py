"""Options of one batch read: ScanOptions.

Keys are taken in any case, because Spark lower-cases them. `metadata.resolve` finds what a version means; here it stays
the pair of key and text that the user gave.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from paimon_spark.errors import InvalidOptionError, UnsupportedFeatureError
from paimon_spark.options.descriptor import (
    Option,
    at_least_one,
    boolean,
    did_you_mean,
    enum_of,
    integer,
    spelt,
    string,
    unknown_option,
)
from paimon_spark.options.known import TABLE_OPTIONS, is_storage_option, is_table_option


class IncrementalMode(StrEnum):
    """Which files of the snapshots between two versions are read (`incremental-between-scan-mode`)."""

    AUTO = "auto"
    DELTA = "delta"
    CHANGELOG = "changelog"
    DIFF = "diff"


VERSION_AS_OF: Final = "versionAsOf"
FILE_TIME_KEY: Final = "scan.file-creation-time-millis"
CREATION_TIME_KEY: Final = "scan.creation-time-millis"
VERSION_KEYS: Final = (
    VERSION_AS_OF, "timestampAsOf", "scan.version", "scan.snapshot-id", "scan.tag-name", "scan.tag-id",
    "scan.savepoint-id", "scan.timestamp", "scan.timestamp-millis", "scan.watermark", FILE_TIME_KEY,
    CREATION_TIME_KEY,
)  # fmt: skip
OLD_KEYS: Final = {"log.scan.timestamp-millis": "scan.timestamp-millis", "log.scan": "scan.mode"}
"""Keys of older releases, and what they are called now."""
INCREMENTAL_KEYS: Final = ("incremental-between", "incremental-between-timestamp", "incremental-to-auto-tag")
SCAN_MODE: Final = "scan.mode"
COMPACTED_FULL: Final = "compacted-full"
"""The value of `scan.mode` that names the newest snapshot made by compaction."""
LATEST_DELTA: Final = "latest-delta"
"""The value of `scan.mode` that names what the newest snapshot changed."""
START_KEYS: Final = (*VERSION_KEYS, *INCREMENTAL_KEYS, SCAN_MODE)
"""Options that say which version or range is read."""

BRANCH: Option[str | None] = Option("branch", string, None, "The branch to read.", ("scan.branch",))
WHERE: Option[str | None] = Option("where", string, None, "SQL condition; only rows for which it is true are read.")
COLUMNS: Option[str | None] = Option(
    "columns", string, None, "Columns to read, separated by commas, in that order; put backquotes around special names."
)
FULL_SCAN: Option[bool] = Option(
    "read.allow.fullScan", boolean, True, "Whether a read may take all files of a partitioned table."
)
TIME_ZONE: Option[str | None] = Option(
    "time-zone",
    string,
    None,
    "Time zone of times that are written without one; the default is that of the Spark session, else the machine's.",
)
ROW_KIND = Option(
    "read.changelog", boolean, False, "Add a first column `rowkind` with the kind of each row: +I, -U, +U or -D."
)
BATCH_ROWS = Option("read.batch-size", at_least_one(integer), 65536, "Maximum number of rows of an Arrow batch.")
_MILLIS: Final[Mapping[str, Option[int | None]]] = {
    key: Option(key, integer, None, f"Only rows of {what} since then, in epoch milliseconds.")
    for key, what in ((FILE_TIME_KEY, "files made"), (CREATION_TIME_KEY, "commits made"))
}
INCREMENTAL_MODE = Option(
    "incremental-between-scan-mode", enum_of(IncrementalMode), IncrementalMode.AUTO,
    "Which files are read between two versions; auto reads changelog files if the table has them.",
)  # fmt: skip
TAG_TO_SNAPSHOT = Option(
    "incremental-between-tag-to-snapshot",
    boolean,
    False,
    "Between two tags, read the changes of their snapshots instead of comparing the two states.",
)
_BRANCH_KEYS: Final = (BRANCH.key, *BRANCH.fallbacks)
_STATE_KEYS: Final = frozenset((*VERSION_KEYS, *INCREMENTAL_KEYS, *_BRANCH_KEYS))
OPTIONS: Final = (BRANCH, WHERE, COLUMNS, TIME_ZONE, ROW_KIND, BATCH_ROWS, INCREMENTAL_MODE, TAG_TO_SNAPSHOT)

LOCATION_KEYS: Final = ("path", "paths", "warehouse")
_SPECIAL_KEYS: Final = (
    *LOCATION_KEYS, *START_KEYS, *(k for o in OPTIONS for k in (o.key, *o.fallbacks)),
)  # fmt: skip
_BY_LOWER: Final = {k.lower(): k for k in (*TABLE_OPTIONS, *_SPECIAL_KEYS)}
_DEFAULT_MODES: Final = ("default", "full", "latest", "latest-full")
"""Values of `scan.mode` that all mean the newest snapshot to a batch read."""
_MODES_BY_KEY: Final = {
    "from-snapshot": ("scan.snapshot-id", "scan.tag-name", "scan.version", VERSION_AS_OF, "scan.watermark"),
    "from-snapshot-full": ("scan.snapshot-id",),
    "from-timestamp": ("scan.timestamp", "scan.timestamp-millis", "timestampAsOf"),
    "from-file-creation-time": (FILE_TIME_KEY,),
    "from-creation-timestamp": (CREATION_TIME_KEY,),
    "incremental": INCREMENTAL_KEYS,
}
_RANGE_KEYS: Final = (INCREMENTAL_MODE.key, TAG_TO_SNAPSHOT.key)
_STORED_START: Final = frozenset(
    (
        SCAN_MODE, "scan.version", "scan.snapshot-id", "scan.tag-name", "scan.timestamp", "scan.timestamp-millis",
        "scan.watermark", FILE_TIME_KEY, CREATION_TIME_KEY, *INCREMENTAL_KEYS, *_RANGE_KEYS,
    )
)  # fmt: skip
"""Options by which a table itself says where its reads start, as Paimon names them."""
_NOT_YET: Final = ("scan.bucket", "scan.partitions")
"""Options that would leave rows out; passing over them would return more than was asked."""


@dataclass(frozen=True, slots=True)
class Incremental:
    """A read of what changed between two versions.

    Attributes:
        key: which of `INCREMENTAL_KEYS` the user gave.
        text: its value, such as `3,7` or the name of a tag.
        tags_are_snapshots: two tags mean the snapshots between them, not the difference of their rows.
    """

    key: str
    text: str
    mode: IncrementalMode = IncrementalMode.AUTO
    tags_are_snapshots: bool = False


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """Options of one read.

    Attributes:
        version: the option that names a version, and its text; None reads the newest snapshot.
        columns: names in output order; None means all columns.
        table_options: table options in force for this read only, as text.
        storage_options: how to reach the file system, as text.
    """

    branch: str | None = None
    version: tuple[str, str] | None = None
    incremental: Incremental | None = None
    where: str | None = None
    columns: tuple[str, ...] | None = None
    time_zone: str | None = None
    row_kind: bool = False
    batch_rows: int = BATCH_ROWS.default
    table_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def version_text(self) -> str | None:
        """The text of the version or range that is named; None for the newest snapshot."""
        if self.version is not None:
            return self.version[1]
        return None if self.incremental is None else self.incremental.text

    @property
    def created_since_ms(self) -> int | None:
        """Epoch milliseconds since when files or commits are read; None for all. Raises InvalidOptionError."""
        if self.version is None or self.version[0] not in (FILE_TIME_KEY, CREATION_TIME_KEY):
            return None
        key, text = self.version
        return _MILLIS[key].get({key: text})

    def at(self, version: tuple[str, str] | None) -> ScanOptions:
        """The same read of another version; an incremental range is forgotten."""
        return replace(self, version=version, incremental=None)


def chooses_state(options: Mapping[str, str]) -> bool:
    """Whether options of a read name a branch or a version. Raises InvalidOptionError as `canonical`."""
    return not _STATE_KEYS.isdisjoint(canonical(options))


def names_branch(options: Mapping[str, str]) -> bool:
    """Whether options of a read name a branch. Raises InvalidOptionError as `canonical`."""
    return not canonical(options).keys().isdisjoint(_BRANCH_KEYS)


def without_start(text: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Options without the version or range that they name, if `given`, spelt as documented, names another one."""
    names_one = any(k in given for k in (*VERSION_KEYS, *INCREMENTAL_KEYS)) or _mode(given) in (
        COMPACTED_FULL,
        LATEST_DELTA,
    )
    return {k: v for k, v in text.items() if not names_one or k not in START_KEYS}


def canonical(options: Mapping[str, str]) -> dict[str, str]:
    """Spell every known key as documented; unknown keys stay. Raises as `spelt`."""
    return spelt(options, _BY_LOWER)


def parse_scan_options(options: Mapping[str, str]) -> ScanOptions:
    """Parse the options of a batch read; keys that locate the table are ignored.

    Raises:
        InvalidOptionError: an unknown option (the nearest name is offered), a value of the wrong type,
            two options that name a version, or two branches.
        UnsupportedFeatureError: an option or a `scan.mode` that this package does not have.
    """
    given = canonical(options)
    _refuse_unknown(given)
    version, incremental = _version(given)
    _check_mode(given, version, incremental)
    columns = COLUMNS.get(given)
    return ScanOptions(
        branch=branch_named(given),
        version=version,
        incremental=incremental,
        where=WHERE.get(given),
        columns=None if columns is None else split_names(columns),
        time_zone=TIME_ZONE.get(given),
        row_kind=ROW_KIND.get(given),
        batch_rows=BATCH_ROWS.get(given),
        table_options={k: v for k, v in given.items() if k not in _SPECIAL_KEYS and not is_storage_option(k)},
        storage_options={k: v for k, v in given.items() if is_storage_option(k)},
    )


def with_stored_start(asked: ScanOptions, given: Mapping[str, str], stored: Mapping[str, str]) -> ScanOptions:
    """Use the version or range stored in the table where the read names none.

    Args:
        asked: the read.
        given: the option text it was made from.
        stored: the options of the table.

    Raises:
        InvalidOptionError, UnsupportedFeatureError: as `parse_scan_options`, of what is stored.

    Source: Java `CoreOptions.startupMode`, which batch reads and streams follow alike.
    """
    if asked.version is not None or asked.incremental is not None or any(k.lower() == SCAN_MODE for k in given):
        return asked
    start = {new: stored[old] for old, new in OLD_KEYS.items() if old in stored}
    start |= {k: v for k, v in stored.items() if k in _STORED_START}
    if not start:
        return asked
    start |= {k: v for k, v in canonical(given).items() if k in _RANGE_KEYS}
    version, incremental = _version(start)
    _check_mode(start, version, incremental)
    return replace(asked, version=version, incremental=incremental)


def split_names(text: str) -> tuple[str, ...]:
    """Comma-separated column names; in backquotes they may hold commas, and `` for a backquote.

    Raises InvalidOptionError: the list is empty, or a name is.
    """
    found = tuple(
        quoted.replace("``", "`") if quoted else plain.strip()
        for quoted, plain in re.findall(r"\s*(?:`((?:[^`]|``)+)`\s*|([^,]*))(?:,|$)", text)
    )
    parts = found[:-1] if found and not found[-1] else found  # the pattern also matches at the very end
    if not parts or not all(parts):
        raise InvalidOptionError(
            f"option columns = {text!r}: expected column names separated by commas", option="columns", value=text
        )
    return parts


def _refuse_unknown(given: Mapping[str, str]) -> None:
    for key in given:
        if key not in _SPECIAL_KEYS and not is_table_option(key) and not is_storage_option(key):
            raise unknown_option(key, _BY_LOWER.values(), "read")
        if key in _NOT_YET:
            raise UnsupportedFeatureError(
                f"read option {key} is not available; use option where to choose rows", feature=key
            )


def branch_named(given: Mapping[str, str]) -> str | None:
    """The branch that is given. Raises InvalidOptionError: it is blank, or there are two."""
    names = {k: given[k].strip() for k in _BRANCH_KEYS if k in given}
    if len(set(names.values())) > 1:
        raise InvalidOptionError(
            "two branches are given: " + " and ".join(f"{k} = {v!r}" for k, v in names.items()), option="branch"
        )
    name = next(iter(names.values()), None)
    if name == "":
        raise InvalidOptionError("option branch is blank; leave it out for main", option="branch")
    return name


def _version(given: Mapping[str, str]) -> tuple[tuple[str, str] | None, Incremental | None]:
    mode = _mode(given)
    keys = [k for k in (*VERSION_KEYS, *INCREMENTAL_KEYS) if k in given]
    if len(keys) > 1:
        raise InvalidOptionError(
            "only one option may name a version; given are " + " and ".join(f"{k} = {given[k]!r}" for k in keys),
            options=keys,
        )
    if not keys and mode == LATEST_DELTA:
        return None, Incremental(SCAN_MODE, mode, IncrementalMode.DELTA)
    if not keys:
        return (SCAN_MODE, mode) if mode == COMPACTED_FULL else None, None
    key, text = keys[0], given[keys[0]].strip()
    if not text:
        raise InvalidOptionError(f"option {key} is blank", option=key, value=given[key])
    if key in _MILLIS:
        _MILLIS[key].get(given)  # no number is refused at once
    if key in VERSION_KEYS:
        return (key, text), None
    return None, Incremental(key, text, INCREMENTAL_MODE.get(given), TAG_TO_SNAPSHOT.get(given))


def _mode(given: Mapping[str, str]) -> str:
    return given.get(SCAN_MODE, "default").strip().lower()


def _check_mode(given: Mapping[str, str], version: tuple[str, str] | None, incremental: Incremental | None) -> None:
    """`scan.mode` must not contradict the version that is asked for. Raises as `parse_scan_options`."""
    mode = _mode(given)
    asked = version[0] if version else incremental.key if incremental else None
    if mode in (*_DEFAULT_MODES, COMPACTED_FULL, LATEST_DELTA):
        if mode != "default" and asked not in (None, SCAN_MODE):
            raise InvalidOptionError(f"scan.mode = {mode!r} contradicts option {asked}; give one of them", option=asked)
        return
    if mode not in _MODES_BY_KEY:
        raise UnsupportedFeatureError(
            f"scan.mode = {mode!r} is not available in batch reads"
            + (
                did_you_mean(mode, (*_MODES_BY_KEY, *_DEFAULT_MODES, COMPACTED_FULL, LATEST_DELTA))
                or f"; name a version instead ({', '.join(VERSION_KEYS)})"
            ),
            feature=SCAN_MODE,
        )
    needed = _MODES_BY_KEY[mode]
    if asked not in needed:
        raise InvalidOptionError(
            f"scan.mode = {mode!r} needs one of {', '.join(needed)}; found {asked or 'none'}", option=SCAN_MODE
        )
