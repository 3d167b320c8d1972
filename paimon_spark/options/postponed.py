"""How many buckets a partition gets whose rows have waited for them.

Source: Java `CoreOptions`, `table/PostponeUtils.determineBucketNum`. There the default is the parallelism of the job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.descriptor import Option, integer

DEFAULT_BUCKETS: Final = Option(
    "postpone.default-bucket-num", integer, 1, "Buckets of a partition whose rows get buckets for the first time."
)
TARGET_ROWS: Final[Option[int | None]] = Option(
    "postpone.target-row-num-per-bucket", integer, None, "Rows that such a partition gets a bucket for."
)


def buckets_of_new_partition(raw: Mapping[str, str], row_count: int) -> int:
    """How many buckets a partition of `row_count` waiting rows gets.

    Raises:
        InvalidOptionError: an option is no positive number.
    """
    for option in (DEFAULT_BUCKETS, TARGET_ROWS):
        value = option.get(raw)
        if value is not None and value <= 0:
            raise InvalidOptionError(f"option {option.key} = {value}: expected a number above 0", option=option.key)
    target = TARGET_ROWS.get(raw)
    return DEFAULT_BUCKETS.get(raw) if target is None else max(1, -(-row_count // target))
