"""SimpleStats: minimum, maximum and null count of columns, as stored in manifests.

Source: Paimon spec, chapter Manifest; Java `stats/SimpleStats`.
"""

from __future__ import annotations

from typing import NamedTuple


class SimpleStats(NamedTuple):
    """Statistics of some columns, still encoded.

    Attributes:
        min_values, max_values: BinaryRow bytes with the 4-byte big-endian arity prefix. A null in them means unknown.
        null_counts: nulls per column, in the same order; None where not counted.
    """

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...] | None
