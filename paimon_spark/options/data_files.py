"""Options of a table for new data files: formats, sizes, names, statistics and indexes.

Source: Java `CoreOptions`, `io/KeyValueFileWriterFactory`, `utils/StatsCollectorFactories`,
`fileindex/FileIndexOptions`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from typing import Any, Final, NamedTuple, TypeVar

from paimon_spark.errors import InvalidOptionError, UnsupportedFeatureError
from paimon_spark.options.descriptor import (
    COLUMN_PREFIX,
    Option,
    at_least_one,
    boolean,
    field_of,
    fraction,
    integer,
    lower,
    memory_size,
    names,
    option,
    parse_group,
    string,
    texts_by_column,
)

T = TypeVar("T")

FORMATS: Final = ("parquet", "orc", "avro")
"""Formats that data files are written in."""
_LEAST_ZSTD: Final = -(1 << 17)
_MOST_ZSTD: Final = 22
_CODEC_EXTENSIONS: Final = {"gzip": "gz", "bzip2": "bz2", "zstd": "zst", "none": ""}
_TRUNCATE: Final = re.compile(r"truncate\s*\(\s*(\d+)\s*\)")


class StatsKind(StrEnum):
    """Statistics kept of a column: none, the number of nulls, or also minimum and maximum."""

    NONE = "none"
    COUNTS = "counts"
    VALUES = "values"


class StatsMode(NamedTuple):
    """Statistics of a column; `length` is where text and bytes are cut, None for nowhere."""

    kind: StatsKind
    length: int | None = None

    def __str__(self) -> str:
        if self.kind is not StatsKind.VALUES:
            return str(self.kind.value)
        return "full" if self.length is None else f"truncate({self.length})"


def stats_mode(text: str) -> StatsMode:
    """`none`, `counts`, `truncate(n)` or `full`, in any case."""
    word = text.strip().lower()
    match word:
        case "none":
            return StatsMode(StatsKind.NONE)
        case "counts":
            return StatsMode(StatsKind.COUNTS)
        case "full":
            return StatsMode(StatsKind.VALUES)
    found = _TRUNCATE.fullmatch(word)
    if found is None or int(found[1]) == 0:
        raise ValueError("expected none, counts, full or truncate(<characters>)")
    return StatsMode(StatsKind.VALUES, int(found[1]))


def per_level(parse: Callable[[str], T]) -> Callable[[str], Mapping[int, T]]:
    """A parser of values by level, such as `0:avro,3:parquet`."""

    def parsed(text: str) -> Mapping[int, T]:
        out: dict[int, T] = {}
        for part in filter(None, (p.strip() for p in text.split(","))):
            level, colon, value = part.partition(":")
            if not colon or not level.strip().isdigit() or not value.strip():
                raise ValueError("expected <level>:<value>, separated by commas, such as 0:avro,5:parquet")
            out[int(level)] = parse(value.strip())
        return out

    return parsed


FILE_FORMAT_PER_LEVEL: Option[Mapping[int, str]] = Option(
    "file.format.per.level", per_level(lower), {}, "Format of the files of single levels, such as 0:avro,3:parquet."
)


@wraps(integer)  # the options reference names the kind of value by it
def zstd_level(text: str) -> int:
    """A level of zstd: the nearest one that there is, as zstd itself takes it for Java."""
    return max(_LEAST_ZSTD, min(integer(text), _MOST_ZSTD))


ZSTD_LEVEL = Option("file.compression.zstd-level", zstd_level, 1, "Compression level of zstd.")
TARGET_FILE_ROWS: Option[int | None] = Option(
    "target-file-row-num",
    at_least_one(integer),
    None,
    "Maximum number of rows of a data file; compaction ignores it.",
)
STATS_MODE = Option(
    "metadata.stats-mode",
    stats_mode,
    StatsMode(StatsKind.VALUES, 16),
    "Statistics of columns in manifests: none, counts, truncate(n) or full.",
)
EXTERNAL_PATHS: Option[tuple[str, ...]] = Option(
    "data-file.external-paths", names, (), "Locations of data files outside the table."
)
_FORMAT_SETTINGS: Final = tuple(f"{name}." for name in FORMATS)
_APPEND_TARGET: Final = 256 << 20
_KEYED_TARGET: Final = 128 << 20


class FileKindOptions(NamedTuple):
    """How files of one level, or changelog files, look."""

    prefix: str
    format: str
    compression: str
    stats: StatsMode

    def extension(self, with_codec: bool) -> str:
        """The ending of file names."""
        codec = _CODEC_EXTENSIONS.get(self.compression, self.compression) if with_codec else ""
        return f".{codec}.{self.format}" if codec else f".{self.format}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileOptions:
    """How new data files look.

    Attributes:
        target_file_size: size at which a new file begins, where it is set; `target_bytes` has the default.
        column_stats: statistics of single columns, by name; they win over every other setting.
        settings: options of the formats themselves, prefix included.
    """

    format: str = option("file.format", lower, "parquet", "Format of data files: parquet, orc or avro.")
    format_per_level: Mapping[int, str] = field_of(FILE_FORMAT_PER_LEVEL)
    compression: str = option("file.compression", lower, "zstd", "Compression of data files.")
    compression_per_level: Mapping[int, str] = option(
        "file.compression.per.level",
        per_level(lower),
        {},
        "Compression of the files of single levels, such as 0:lz4,1:zstd.",
    )
    zstd_level: int = field_of(ZSTD_LEVEL)
    block_size: int | None = option("file.block-size", memory_size, None, "Size of a row group or stripe.")
    target_file_size: int | None = option(
        "target-file-size",
        memory_size,
        None,
        "Target size of a data file; the default is 128 mb with a primary key, otherwise 256 mb.",
    )
    target_file_rows: int | None = field_of(TARGET_FILE_ROWS)
    prefix: str = option("data-file.prefix", string, "data-", "Prefix of the names of data files.")
    changelog_prefix: str = option(
        "changelog-file.prefix", string, "changelog-", "Prefix of the names of changelog files."
    )
    changelog_format: str | None = option(
        "changelog-file.format", lower, None, "Format of changelog files; the default is that of data files."
    )
    changelog_compression: str | None = option(
        "changelog-file.compression", lower, None, "Compression of changelog files; the default is that of data files."
    )
    changelog_stats: StatsMode | None = option(
        "changelog-file.stats-mode",
        stats_mode,
        None,
        "Statistics of changelog files; the default is that of data files.",
    )
    suffix_with_codec: bool = option(
        "file.suffix.include.compression", boolean, False, "Include the compression in the names of data files."
    )
    stats: StatsMode = field_of(STATS_MODE)
    stats_per_level: Mapping[int, StatsMode] = option(
        "metadata.stats-mode.per.level", per_level(stats_mode), {}, "Statistics of the files of single levels."
    )
    stats_first_columns: int = option(
        "metadata.stats-keep-first-n-columns", integer, -1, "Number of first columns that have statistics; -1: all."
    )
    stats_dense: bool = option(
        "metadata.stats-dense-store", boolean, True, "Do not store columns without statistics in manifests."
    )
    column_stats: Mapping[str, StatsMode]
    thin_mode: bool = option(
        "data-file.thin-mode", boolean, False, "Do not store the key columns twice in files of primary-key tables."
    )
    settings: Mapping[str, str]

    def target_bytes(self, keyed: bool) -> int:
        """The size at which a new file begins, of a table with or without a primary key."""
        default = _KEYED_TARGET if keyed else _APPEND_TARGET
        return default if self.target_file_size is None else self.target_file_size

    def data(self, level: int) -> FileKindOptions:
        """Data files of `level`."""
        return FileKindOptions(
            self.prefix,
            self.format_per_level.get(level, self.format),
            self.compression_per_level.get(level, self.compression),
            self.stats_per_level.get(level, self.stats),
        )

    def changelog(self, level: int) -> FileKindOptions:
        """Changelog files made for `level`: their own settings where there are any, else those of the level."""
        data = self.data(level)
        return FileKindOptions(
            self.changelog_prefix,
            self.changelog_format or data.format,
            self.changelog_compression or data.compression,
            self.changelog_stats or data.stats,
        )


def parse_data_file_options(raw: Mapping[str, str]) -> DataFileOptions:
    """The group of `raw`, the options of a table in force.

    Raises:
        InvalidOptionError: a value of the wrong type.
        UnsupportedFeatureError: a format that cannot be written, or data files outside the table.
    """
    if EXTERNAL_PATHS.get(raw):
        raise UnsupportedFeatureError(
            f"option {EXTERNAL_PATHS.key} puts new data files outside the table, which cannot be written yet",
            feature=EXTERNAL_PATHS.key,
        )
    out = parse_group(
        DataFileOptions,
        raw,
        column_stats=_column_stats(raw),
        settings={k: v for k, v in raw.items() if k.startswith(_FORMAT_SETTINGS)},
    )
    for name in (out.format, *out.format_per_level.values(), out.changelog_format):
        if name is not None and name not in FORMATS:
            raise UnsupportedFeatureError(
                f"data files cannot be written as {name!r}; formats that can are {', '.join(FORMATS)}",
                feature=f"file.format={name}",
            )
    for prefix in (out.prefix, out.changelog_prefix):
        if not prefix or any(c in prefix for c in "/\\\0"):
            raise InvalidOptionError(f"{prefix!r} cannot begin the name of a file", value=prefix)
    return out


def _column_stats(raw: Mapping[str, str]) -> dict[str, StatsMode]:
    suffix = ".stats-mode"
    return {
        name: Option(f"{COLUMN_PREFIX}{name}{suffix}", stats_mode, STATS_MODE.default, "").get(raw)
        for name in texts_by_column(raw, suffix)
    }


INDEX_PREFIX: Final = "file-index."
DEFAULT_ITEMS: Final = 1_000_000
DEFAULT_FALSE_POSITIVES: Final = 0.1
DEFAULT_BLOCK_BYTES: Final = 16 << 10
BITMAP_VERSIONS: Final = (1, 2)
_COLUMNS: Final = ".columns"
READ_ENABLED = Option("file-index.read.enabled", boolean, True, "Skip data files and rows by their file indexes.")


class IndexOption(NamedTuple):
    """An index that new data files have.

    Attributes:
        kind: such as `bloom-filter`.
        column: its column.
        key: the key of a MAP column whose values are indexed; None for a column that is indexed as a whole.
        settings: its own options by their last part, such as `items`, as text.
    """

    kind: str
    column: str
    key: str | None
    settings: Mapping[str, str]

    def setting(self, name: str, parse: Callable[[str], T], default: Any) -> T:
        """An own option. Raises InvalidOptionError."""
        found: T = Option(f"{INDEX_PREFIX}{self.kind}.{self.column}.{name}", parse, default, "").get(
            {f"{INDEX_PREFIX}{self.kind}.{self.column}.{k}": text for k, text in self.settings.items()}
        )
        return found

    @property
    def items(self) -> int:
        """How many values a bloom filter is made for."""
        return max(self.setting("items", integer, DEFAULT_ITEMS), 1)

    @property
    def false_positives(self) -> float:
        """The share of absent values that a bloom filter does not rule out."""
        found = self.setting("fpp", fraction, DEFAULT_FALSE_POSITIVES)
        if not 0 < found < 1:
            key = f"{INDEX_PREFIX}{self.kind}.{self.column}.fpp"
            raise InvalidOptionError(f"option {key} = {found}: expected a share above 0 and below 1", option=key)
        return found

    @property
    def version(self) -> int:
        """The version of a bitmap."""
        found = self.setting("version", integer, 2)
        if found not in BITMAP_VERSIONS:
            key = f"{INDEX_PREFIX}{self.kind}.{self.column}.version"
            raise InvalidOptionError(f"option {key} = {found}: expected 1 or 2", option=key)
        return found

    @property
    def block_bytes(self) -> int:
        """Bytes of a block of the values of a bitmap."""
        return self.setting("index-block-size", memory_size, DEFAULT_BLOCK_BYTES)

    @property
    def chunk_bytes(self) -> int | None:
        """Bytes of a chunk of the dictionary of a range bitmap; None for that of the type."""
        return self.setting("chunk-size", memory_size, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIndexOptions:
    """Which indexes new data files have, and where these are stored."""

    in_manifest_bytes: int = option(
        "file-index.in-manifest-threshold",
        memory_size,
        500,
        "Bytes up to which the indexes of a data file are stored in its manifest entry, not in a file beside it.",
    )
    indexes: tuple[IndexOption, ...]


def parse_file_index_options(raw: Mapping[str, str]) -> FileIndexOptions:
    """The group of `raw`. Raises InvalidOptionError: a value of the wrong type, or an option of no indexed column."""
    settings: dict[tuple[str, str], dict[str, str]] = {}
    for key, text in raw.items():
        parts = key.removeprefix(INDEX_PREFIX).split(".") if key.startswith(INDEX_PREFIX) else ()
        if len(parts) == 3:
            settings.setdefault((parts[0], parts[1]), {})[parts[2]] = text
    out = []
    for key, text in raw.items():
        if not (key.startswith(INDEX_PREFIX) and key.endswith(_COLUMNS)):
            continue
        kind = key[len(INDEX_PREFIX) : -len(_COLUMNS)]
        for name in names(text):
            column, bracket, item = name.partition("[")
            is_map = bool(bracket) and name.endswith("]")
            own = {**settings.get((kind, column), {}), **settings.get((kind, name), {})}
            found = IndexOption(kind, column if is_map else name, item[:-1] if is_map else None, own)
            if found not in out:
                out.append(found)
    declared = {(i.kind, n) for i in out for n in (i.column, f"{i.column}[{i.key}]")}
    for kind, column in settings:
        if (kind, column) not in declared:
            key = f"{INDEX_PREFIX}{kind}{_COLUMNS}"
            raise InvalidOptionError(
                f"options {INDEX_PREFIX}{kind}.{column}.… are of a column without such an index; "
                f"add {column!r} to {key}",
                option=key,
            )
    return parse_group(FileIndexOptions, raw, indexes=tuple(out))
