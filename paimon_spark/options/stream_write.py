"""What the sink of a streaming query asks for, parsed once into StreamWriteOptions.

The options of batch writes hold, but for those that say what a single write replaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.batch_write import (
    DYNAMIC_OVERWRITE,
    OVERWRITE_MODE,
    OVERWRITE_PARTITION,
    ROW_LEVEL,
    ROW_LEVEL_BASE,
    WATERMARK,
    BatchWriteOptions,
    WriteMode,
    canonical_write,
    parse_batch_write_options,
)
from paimon_spark.options.descriptor import Option, enum_of, nearest, spelt, unknown_option


class LostBatches(str, Enum):
    """What a sink does when batches it committed are missing from the branch, or may be."""

    FAIL = "fail"
    CONTINUE = "continue"


LOST_BATCHES = Option(
    "write.stream.lost-batches", enum_of(LostBatches), LostBatches.FAIL,
    "fail stops a query whose earlier batches are not in the branch any more, continue goes on without them.",
)  # fmt: skip
OPTIONS: Final = (LOST_BATCHES,)

_OF_SPARK: Final = ("checkpointLocation", "queryName")
"""Options of a query that Spark hands on to its sink."""
_OF_ONE_WRITE: Final = (
    OVERWRITE_PARTITION.key, OVERWRITE_MODE.key, DYNAMIC_OVERWRITE.key, ROW_LEVEL.key, ROW_LEVEL_BASE.key,
)  # fmt: skip
_BY_LOWER: Final = {k.lower(): k for k in (LOST_BATCHES.key, *_OF_SPARK)}


@dataclass(frozen=True, slots=True)
class StreamWriteOptions:
    """What a query's sink asks for.

    Attributes:
        write: of each batch.
        lost_batches: what to do when earlier batches are missing.
        query_name: of the query; None for one without a name.
        checkpoint: where the query was told to keep its checkpoint; None where its session says so.
    """

    write: BatchWriteOptions = field(default_factory=BatchWriteOptions)
    lost_batches: LostBatches = LostBatches.FAIL
    query_name: str | None = None
    checkpoint: str | None = None


def canonical_stream_write(options: Mapping[str, str]) -> dict[str, str]:
    """`options` with every known key spelt as documented; unknown keys stay. Raises as `canonical_write`."""
    return spelt(canonical_write(options), _BY_LOWER)


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
    batch = {k: v for k, v in given.items() if k not in _BY_LOWER.values()}
    mode = WriteMode.OVERWRITE if complete else WriteMode.APPEND
    write = parse_batch_write_options(batch, mode)
    for key in write.unknown_options:  # a table that is made would keep what is misspelt
        if nearest(key, _BY_LOWER.values()):
            raise unknown_option(key, _BY_LOWER.values(), "write")
    checkpoint, name = (given.get(key) or None for key in _OF_SPARK)
    return StreamWriteOptions(write, LOST_BATCHES.get(given), name, checkpoint)
