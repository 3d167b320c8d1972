"""RecordExpiryOptions: how long rows are kept by the time that one of their columns tells.

Source: Java `CoreOptions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.descriptor import Option, duration_ms, string

EXPIRE_TIME: Final[Option[int | None]] = Option(
    "record-level.expire-time", duration_ms, None, "Compactions leave rows out that are older."
)
TIME_FIELD: Final[Option[str | None]] = Option(
    "record-level.time-field", string, None, "The column that tells how old a row is."
)


@dataclass(frozen=True, slots=True)
class RecordExpiryOptions:
    """How long rows are kept.

    Attributes:
        kept_s: seconds.
        column: tells when a row was young.
    """

    kept_s: int
    column: str


def parse_record_expiry_options(raw: Mapping[str, str]) -> RecordExpiryOptions | None:
    """The group of `raw`; None where rows do not expire. Raises InvalidOptionError."""
    kept_ms, column = EXPIRE_TIME.get(raw), (TIME_FIELD.get(raw) or "").strip()
    if kept_ms is None:
        return None
    if not column:
        raise InvalidOptionError(
            f"{EXPIRE_TIME.key} says how long rows are kept, and nothing tells how old they are: set {TIME_FIELD.key}",
            option=TIME_FIELD.key,
        )
    return RecordExpiryOptions(kept_ms // 1000, column)
