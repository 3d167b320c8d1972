"""CompactionOptions: how this package compacts.

Source: Java `CoreOptions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from paimon_spark.options.descriptor import Option, boolean, names
from paimon_spark.options.table import COMPACTION_TRIGGER

ROW_DEDUPLICATE: Final = Option(
    "changelog-producer.row-deduplicate", boolean, False, "A row written again unchanged gives no -U and +U."
)
ROW_DEDUPLICATE_IGNORED: Final[Option[tuple[str, ...]]] = Option(
    "changelog-producer.row-deduplicate-ignore-fields", names, (), "Columns whose change alone is none."
)
BITMAP64: Final = Option("deletion-vectors.bitmap64", boolean, False, "Deletion vectors have positions of 64 bits.")


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    """How this package compacts.

    Attributes:
        trigger: so many sorted runs, or small files beside each other, are worth being made one.
        row_deduplicate: a row written again unchanged is no change.
        row_deduplicate_ignored: columns that do not count for that.
    """

    trigger: int
    row_deduplicate: bool
    row_deduplicate_ignored: tuple[str, ...]


def parse_compaction_options(raw: Mapping[str, str]) -> CompactionOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type."""
    return CompactionOptions(
        trigger=COMPACTION_TRIGGER.get(raw),
        row_deduplicate=ROW_DEDUPLICATE.get(raw),
        row_deduplicate_ignored=ROW_DEDUPLICATE_IGNORED.get(raw),
    )
