"""Options of one batch write, and of the sink of a streaming query.

Keys are taken in any case, because Spark lower-cases them. What the options of a table mean is not decided here:
they are kept as text, for the table made or in force for this write. A sink takes the options of batch writes, but for
those that say what a single write replaces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from paimon_spark.errors import InvalidInputError, InvalidOptionError
from paimon_spark.foreign.options import instead_of_option
from paimon_spark.options.descriptor import Option, boolean, enum_of, integer, nearest, spelt, string, unknown_option
from paimon_spark.options.known import TABLE_OPTION_PREFIXES, TABLE_OPTIONS, is_storage_option, is_table_option
from paimon_spark.options.scan import (
    BRANCH,
    COLUMNS,
    INCREMENTAL_KEYS,
    LOCATION_KEYS,
    TIME_ZONE,
    VERSION_KEYS,
    WHERE,
    branch_named,
)
from paimon_spark.options.write import MERGE_SCHEMA


class WriteMode(StrEnum):
    """Effect of a write on the existing rows."""

    APPEND = "append"
    OVERWRITE = "overwrite"


class PartitionOverwriteMode(StrEnum):
    """Rows that an overwrite without a partition replaces: all, or those of the partitions in the data."""

    STATIC = "static"
    DYNAMIC = "dynamic"


OVERWRITE_MODE = Option(
    "partitionOverwriteMode", enum_of(PartitionOverwriteMode), PartitionOverwriteMode.STATIC,
    "What an overwrite replaces: static the whole table, dynamic the partitions that the data contains.",
)  # fmt: skip
DYNAMIC_OVERWRITE: Option[bool | None] = Option(
    "dynamic-partition-overwrite", boolean, None, "Paimon's name for partitionOverwriteMode = dynamic."
)

OVERWRITE_PARTITION: Option[str | None] = Option(
    "overwrite.partition", string, None, "The partition that an overwrite replaces, such as dt=2024-01-01,hr=5."
)
OF_OVERWRITES: Final = frozenset((OVERWRITE_MODE.key, DYNAMIC_OVERWRITE.key, OVERWRITE_PARTITION.key))
"""Options that say what an overwrite replaces."""
COMMIT_USER: Option[str | None] = Option(
    "commit.user", string, None, "Commit user that snapshots record; the default is a new name for each write."
)
CLUSTERED = Option(
    "write.clustered", boolean, False, "The rows of a bucket come in one task; set by Table.write, which sees to it."
)
CLUSTER = Option("write.cluster", boolean, True, "Table.write sends all rows of a bucket to one task.")
ASSIGNERS: Option[int | None] = Option(
    "write.assigners", integer, None,
    "Number of tasks that assign dynamic buckets to the keys of a partition; Table.write sets it.",
)  # fmt: skip
ROW_LEVEL: Option[str | None] = Option(
    "write.row-level",
    string,
    None,
    "DELETE, UPDATE or MERGE, whose rows say which rows go; set by Table.delete and its kin.",
)
ROW_LEVEL_BASE: Option[int | None] = Option(
    "write.row-level-base",
    integer,
    None,
    "Head before the rows were read, 0 for none; what changed since is a conflict; set by Table.delete and its kin.",
)
ROW_LEVEL_COLUMNS: Option[str | None] = Option(
    "write.row-level-columns",
    string,
    None,
    "Columns that an UPDATE or MERGE sets, as a JSON list; set by Table.update and its kin.",
)
WRITE_ID: Option[str | None] = Option(
    "write.id",
    string,
    None,
    "Name of the write, with which its snapshot stores the numbers of its rows; set by Table.write and its kin.",
)
OPERATION: Option[str | None] = Option(
    "write.operation", string, None, "What the snapshot says has made it; set by CREATE TABLE AS SELECT and its kin."
)
WATERMARK: Option[int | None] = Option(
    "end-input.watermark", integer, None, "Watermark of the snapshot, in epoch milliseconds."
)
OPTIONS: Final = (
    BRANCH, TIME_ZONE, OVERWRITE_MODE, DYNAMIC_OVERWRITE, OVERWRITE_PARTITION, MERGE_SCHEMA, COMMIT_USER, CLUSTER,
    CLUSTERED, ASSIGNERS, ROW_LEVEL, ROW_LEVEL_BASE, ROW_LEVEL_COLUMNS, WRITE_ID, OPERATION,
    WATERMARK,
)  # fmt: skip

_OWN_KEYS: Final = (
    *LOCATION_KEYS, BRANCH.key, *BRANCH.fallbacks, TIME_ZONE.key, OVERWRITE_MODE.key, DYNAMIC_OVERWRITE.key,
    OVERWRITE_PARTITION.key, COMMIT_USER.key, CLUSTER.key, CLUSTERED.key, ASSIGNERS.key, ROW_LEVEL.key,
    ROW_LEVEL_BASE.key, ROW_LEVEL_COLUMNS.key, WRITE_ID.key, OPERATION.key, WATERMARK.key,
)  # fmt: skip
"""Keys that only this write has; all others are of the table or of the file system."""
_READ_KEYS: Final = (*VERSION_KEYS, *INCREMENTAL_KEYS, WHERE.key, COLUMNS.key)
_BY_LOWER: Final = {k.lower(): k for k in (*TABLE_OPTIONS, *_OWN_KEYS, *_READ_KEYS)}
_PAIR: Final = re.compile(
    r"""\s*(?:`(?P<quoted_name>(?:[^`]|``)+)`|(?P<name>[^=,`'"]+?))\s*=\s*"""
    r"""(?:'(?P<single>(?:[^']|'')*)'|"(?P<double>(?:[^"]|"")*)"|(?P<plain>[^,'"]*?))\s*(?:,|$)"""
)


@dataclass(frozen=True, slots=True)
class BatchWriteOptions:
    """Options of one batch write.

    Attributes:
        overwrite_partition: column and text of the partition that an overwrite replaces; None replaces everything.
        table_options: table options as text: of the table made, or in force for this write.
        storage_options: how to reach the file system, as text.
        unknown_options: keys that are not known; a new table stores them.
    """

    branch: str | None = None
    time_zone: str | None = None
    dynamic_overwrite: bool = False
    overwrite_partition: Mapping[str, str] | None = None
    commit_user: str | None = None
    clustered: bool = False
    assigners: int | None = None
    write_id: str | None = None
    operation: str | None = None
    watermark: int | None = None
    table_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    unknown_options: Mapping[str, str] = field(default_factory=dict, repr=False)


def canonical_write(options: Mapping[str, str]) -> dict[str, str]:
    """Spell every known key as documented; unknown keys stay. Raises as `spelt`."""
    return spelt(options, _BY_LOWER)


def overwrite_mode(options: Mapping[str, str]) -> PartitionOverwriteMode | None:
    """The mode that options ask for by either name; None when they do not. Raises InvalidOptionError."""
    dynamic = DYNAMIC_OVERWRITE.get(options)
    if OVERWRITE_MODE.is_set(options):
        mode = OVERWRITE_MODE.get(options)
        return PartitionOverwriteMode.DYNAMIC if dynamic else mode
    return None if dynamic is None else PartitionOverwriteMode.DYNAMIC if dynamic else PartitionOverwriteMode.STATIC


def parse_batch_write_options(options: Mapping[str, str], mode: WriteMode) -> BatchWriteOptions:
    """Parse the options of a batch write; keys that locate the table are ignored.

    Raises:
        InvalidOptionError: a value of the wrong type, two branches, an option of reads, or one of overwrites in
            another mode.
    """
    given = canonical_write(options)
    for key in _READ_KEYS:
        if key in given:
            raise InvalidOptionError(
                f"option {key} chooses what is read; a write goes to the head of a branch: leave it out", option=key
            )
    partition = OVERWRITE_PARTITION.get(given)
    dynamic = overwrite_mode(given) is PartitionOverwriteMode.DYNAMIC
    if partition is not None and mode is not WriteMode.OVERWRITE:
        raise InvalidOptionError(
            f"option {OVERWRITE_PARTITION.key} = {partition!r} is for mode overwrite; the mode is {mode.value}",
            option=OVERWRITE_PARTITION.key,
        )
    if partition is not None and dynamic:
        raise InvalidOptionError(
            f"{OVERWRITE_PARTITION.key} = {partition!r} names what is replaced, and a dynamic overwrite replaces the "
            "partitions of the data; give one of them",
            option=OVERWRITE_PARTITION.key,
        )
    return BatchWriteOptions(
        branch=branch_named(given),
        time_zone=TIME_ZONE.get(given),
        dynamic_overwrite=dynamic and mode is WriteMode.OVERWRITE,
        overwrite_partition=None if partition is None else parse_partition(partition),
        commit_user=_commit_user(given),
        clustered=CLUSTERED.get(given),
        assigners=ASSIGNERS.get(given),
        write_id=WRITE_ID.get(given),
        operation=OPERATION.get(given),
        watermark=WATERMARK.get(given),
        table_options={k: v for k, v in given.items() if k not in _OWN_KEYS and is_table_option(k)},
        storage_options={k: v for k, v in given.items() if is_storage_option(k)},
        unknown_options={
            k: v for k, v in given.items() if k not in _OWN_KEYS and not is_table_option(k) and not is_storage_option(k)
        },
    )


def refuse_unknown(options: BatchWriteOptions, *, creating: bool) -> None:
    """Refuse unknown options, of a new table only misspelt and foreign ones. Raises InvalidOptionError."""
    for key in options.unknown_options:
        if not creating or instead_of_option(key) or nearest(key, _BY_LOWER.values()):
            raise unknown_option(key, _BY_LOWER.values(), "write")


def parse_partition(text: str) -> dict[str, str]:
    """Parse `dt=2024-01-01,hr=5` into text by column. Raises InvalidOptionError.

    Names may be in backquotes, values in quotes, which are doubled inside.
    """
    out: dict[str, str] = {}
    position = 0
    while position < len(text):
        m = _PAIR.match(text, position)
        name = None if m is None else (m["quoted_name"] or "").replace("``", "`") or (m["name"] or "").strip()
        if m is None or not name or m.end() == position:
            break
        if name in out:
            raise InvalidOptionError(
                f"option {OVERWRITE_PARTITION.key} = {text!r} names column {name} twice", option=OVERWRITE_PARTITION.key
            )
        out[name] = m["plain"] or (m["single"] or "").replace("''", "'") or (m["double"] or "").replace('""', '"')
        position = m.end()
    if not out or position < len(text) or text.rstrip().endswith(","):
        raise InvalidOptionError(
            f"option {OVERWRITE_PARTITION.key} = {text!r}: expected column=value pairs such as dt=2024-01-01,hr=5; "
            "put values that hold a comma or a quote into '…'",
            option=OVERWRITE_PARTITION.key,
            value=text,
        )
    return out


def write_mode(text: str) -> WriteMode:
    """The mode called `text`. Raises InvalidInputError."""
    try:
        return WriteMode(text.strip().lower())
    except ValueError:
        raise InvalidInputError(
            f"mode {text!r}: expected append or overwrite; to write only where there is no table, create it first "
            "(Catalog.create_table refuses one that exists)",
            mode=text,
        ) from None


def restore_case(options: Mapping[str, str], columns: Mapping[str, str]) -> dict[str, str]:
    """Give keys that contain a column its case back, which Spark took; `columns` by lower case."""
    out: dict[str, str] = {}
    for key, value in options.items():
        prefix = next((p for p in ("fields.", "file-index.") if key.startswith(p) and p in TABLE_OPTION_PREFIXES), None)
        if prefix is not None:  # followed by `column.option`, `a,b.option` or `kind.column.option`
            parts = [part.split(",") for part in key[len(prefix) :].split(".")]
            key = prefix + ".".join(",".join(columns.get(n.lower(), n) for n in part) for part in parts)
        out[key] = value
    return out


def _commit_user(given: Mapping[str, str]) -> str | None:
    user = COMMIT_USER.get(given)
    if user is not None and not user.strip():
        raise InvalidOptionError(f"option {COMMIT_USER.key} is blank; leave it out", option=COMMIT_USER.key)
    if user is not None and any(c in user for c in "/\\\0"):
        raise InvalidOptionError(
            f"option {COMMIT_USER.key} = {user!r}: a commit user is part of some files' names, so it holds no slash",
            option=COMMIT_USER.key,
        )
    return user


class LostBatches(StrEnum):
    """Reaction of a sink to committed batches that are, or may be, missing from the branch."""

    FAIL = "fail"
    CONTINUE = "continue"


LOST_BATCHES = Option(
    "write.stream.lost-batches", enum_of(LostBatches), LostBatches.FAIL,
    "What a query does if its earlier batches are no longer in the branch: fail, or continue without them.",
)  # fmt: skip
STREAM_OPTIONS: Final = (LOST_BATCHES,)

_OF_SPARK: Final = ("checkpointLocation", "queryName")
"""Options of a query that Spark hands on to its sink."""
_OF_ONE_WRITE: Final = (
    OVERWRITE_PARTITION.key, OVERWRITE_MODE.key, DYNAMIC_OVERWRITE.key, ROW_LEVEL.key, ROW_LEVEL_BASE.key,
    ROW_LEVEL_COLUMNS.key, WRITE_ID.key,
)  # fmt: skip
_SINK_BY_LOWER: Final = {k.lower(): k for k in (LOST_BATCHES.key, *_OF_SPARK)}


@dataclass(frozen=True, slots=True)
class StreamWriteOptions:
    """Options of a query's sink.

    Attributes:
        write: of each batch.
        checkpoint: where the query was told to keep its checkpoint; None where its session says so.
    """

    write: BatchWriteOptions = field(default_factory=BatchWriteOptions)
    lost_batches: LostBatches = LostBatches.FAIL
    query_name: str | None = None
    checkpoint: str | None = None


def canonical_stream_write(options: Mapping[str, str]) -> dict[str, str]:
    """`options` with every known key spelt as documented; unknown keys stay. Raises as `canonical_write`."""
    return spelt(canonical_write(options), _SINK_BY_LOWER)


def parse_stream_write_options(options: Mapping[str, str], *, complete: bool) -> StreamWriteOptions:
    """Parse the options of a sink; keys that locate the table, and those of Spark, are ignored.

    Args:
        options: as text.
        complete: each batch replaces all rows of the table (output mode complete).

    Raises:
        InvalidOptionError: as `parse_batch_write_options`, or an option that is of a single write.
    """
    given = canonical_stream_write(options)
    for key in _OF_ONE_WRITE:
        if key in given:
            raise InvalidOptionError(
                f"option {key} says what a single write replaces; a stream adds rows (output mode append), or replaces "
                "the whole table with every batch (complete): leave it out, or write the batches with foreachBatch",
                option=key,
            )
    if WATERMARK.key in given:
        raise InvalidOptionError(
            f"option {WATERMARK.key} is the watermark of a single write, and every batch of a stream would have the "
            "same: leave it out",
            option=WATERMARK.key,
        )
    batch = {k: v for k, v in given.items() if k not in _SINK_BY_LOWER.values()}
    mode = WriteMode.OVERWRITE if complete else WriteMode.APPEND
    write = parse_batch_write_options(batch, mode)
    for key in write.unknown_options:  # a table that is made would keep what is misspelt
        if instead_of_option(key) or nearest(key, _SINK_BY_LOWER.values()):
            raise unknown_option(key, _SINK_BY_LOWER.values(), "write")
    checkpoint, name = (given.get(key) or None for key in _OF_SPARK)
    return StreamWriteOptions(write, LOST_BATCHES.get(given), name, checkpoint)
