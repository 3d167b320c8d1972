"""AppendCompactionOptions: which files of tables without keys are worth being written again.

Source: Java `CoreOptions`, `append/AppendCompactCoordinator`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from paimon_spark.options.compaction import FORCE_REWRITE, SMALL_FILE_RATIO
from paimon_spark.options.data_files import parse_data_file_options
from paimon_spark.options.descriptor import Option, boolean, fraction, integer
from paimon_spark.options.table import SPLIT_OPEN_COST

MIN_FILE_NUM: Final = Option(
    "compaction.min.file-num", integer, 5, "So many small files of a table without keys are worth being made one."
)
DELETE_RATIO: Final = Option(
    "compaction.delete-ratio-threshold",
    fraction,
    0.2,
    "Part of the rows of a file without keys that must be deleted before it is written again for that.",
)
CLUSTERS: Final = Option("clustering.incremental", boolean, False, "Compaction sorts rows by columns, a bit at a time.")


@dataclass(frozen=True, slots=True)
class AppendCompactionOptions:
    """Which files are worth being written again.

    Attributes:
        target_bytes: what files aim at.
        small_bytes: files below are small.
        open_bytes: what opening a file counts for.
        min_files: so many small files are worth being made one.
        delete_ratio: files of which more than this part of the rows is deleted are written again for that alone.
        rewrites_all: a full compaction takes every file.
    """

    target_bytes: int
    small_bytes: int
    open_bytes: int
    min_files: int
    delete_ratio: float
    rewrites_all: bool


def parse_append_compaction_options(raw: Mapping[str, str]) -> AppendCompactionOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type."""
    target = parse_data_file_options(raw, False).target_file_size
    return AppendCompactionOptions(
        target_bytes=target,
        small_bytes=int(target * SMALL_FILE_RATIO.get(raw)),
        open_bytes=SPLIT_OPEN_COST.get(raw),
        min_files=MIN_FILE_NUM.get(raw),
        delete_ratio=DELETE_RATIO.get(raw),
        rewrites_all=FORCE_REWRITE.get(raw),
    )
