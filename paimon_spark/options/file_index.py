"""Options of the indexes of data files.

Source: Java `fileindex/FileIndexOptions`, `CoreOptions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.descriptor import Option, boolean, fraction, integer, memory_size, names, option, parse_group

T = TypeVar("T")
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
