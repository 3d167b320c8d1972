"""DynamicBucketOptions: how keys of a table without a bucket count are put into buckets.

Source: Java `CoreOptions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.descriptor import Option, integer

TARGET_ROWS: Final = Option(
    "dynamic-bucket.target-row-num", integer, 2_000_000, "Keys a bucket takes before it is full."
)
INITIAL_BUCKETS: Final[Option[int | None]] = Option(
    "dynamic-bucket.initial-buckets", integer, None, "Buckets that the first keys of a partition are spread over."
)
MAX_BUCKETS: Final = Option("dynamic-bucket.max-buckets", integer, -1, "Most buckets of a partition; -1 is no limit.")
ASSIGNER_PARALLELISM: Final[Option[int | None]] = Option(
    "dynamic-bucket.assigner-parallelism", integer, None, "Tasks among which keys are divided to be given a bucket."
)

MOST_BUCKETS: Final = 32767
"""Bucket numbers are Java shorts in memory, so there are no more."""
_DEFAULT_SPREAD: Final = 8


@dataclass(frozen=True, slots=True)
class DynamicBucketOptions:
    """How new keys find a bucket.

    Attributes:
        target_rows: keys a bucket takes before it is full.
        initial_buckets: buckets the first keys are spread over; None when the option is not set.
        max_buckets: most buckets of a partition, when limited.
        assigner_parallelism: tasks among which keys are divided; None when the option is not set.
    """

    target_rows: int
    initial_buckets: int | None
    max_buckets: int | None
    assigner_parallelism: int | None

    @property
    def spread(self) -> int:
        """Buckets that writers which know nothing of each other spread new keys over."""
        return min(self.initial_buckets or _DEFAULT_SPREAD, self.max_buckets or MOST_BUCKETS)

    @property
    def bucket_limit(self) -> int:
        """One more than the largest bucket number."""
        return min(self.max_buckets or MOST_BUCKETS, MOST_BUCKETS)


def parse_dynamic_bucket_options(raw: Mapping[str, str]) -> DynamicBucketOptions:
    """The group of `raw`. Raises InvalidOptionError for a value of the wrong type or range."""
    most = MAX_BUCKETS.get(raw)
    for option, value in ((TARGET_ROWS, TARGET_ROWS.get(raw)), (INITIAL_BUCKETS, INITIAL_BUCKETS.get(raw))):
        if value is not None and value < 1:
            raise InvalidOptionError(f"option {option.key} = {value}: expected at least 1", option=option.key)
    if most == 0 or most < -1:
        raise InvalidOptionError(
            f"option {MAX_BUCKETS.key} = {most}: expected -1 or at least 1", option=MAX_BUCKETS.key
        )
    return DynamicBucketOptions(
        target_rows=TARGET_ROWS.get(raw),
        initial_buckets=INITIAL_BUCKETS.get(raw),
        max_buckets=None if most == -1 else most,
        assigner_parallelism=ASSIGNER_PARALLELISM.get(raw),
    )
