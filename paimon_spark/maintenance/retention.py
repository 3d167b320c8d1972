"""Which snapshots and changelogs have lived long enough. Pure.

Paimon's rule speaks of ids. Here it speaks of positions among the ids that are there, which is the same where ids
follow on one another; where other engines left holes, as many are kept as the numbers say.

Source: Java `table/ExpireSnapshotsImpl.expire`, `table/ExpireChangelogImpl.expire` (2.0).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """What is kept.

    Attributes:
        retain_max: at most so many are kept, however young they are.
        retain_min: so many of the newest are kept, however old.
        older_than_ms: epoch milliseconds from which on one is young.
        limit: how many may expire at a time.
        first_needed: id from which on a consumer needs them; None when none does.
    """

    retain_max: int
    retain_min: int
    older_than_ms: int
    limit: int
    first_needed: int | None = None


def expired_snapshots(ids: Sequence[int], rule: Rule, time_ms: Callable[[int], int | None]) -> int:
    """How many of the oldest snapshots expire; never the last one.

    A snapshot is old when the next one is, so that at every moment looked back to there is a snapshot.

    Args:
        ids: those alive, ascending.
        rule: what is kept.
        time_ms: when a snapshot was made, epoch milliseconds; None when it is gone. Asked for in ascending order, and
            not beyond the first that is young.
    """
    end = _end(ids, len(ids), rule)
    for i in range(_start(len(ids), rule), end):
        made = time_ms(ids[i + 1])
        if made is not None and rule.older_than_ms <= made:
            return i
    return end


def expired_changelogs(
    ids: Sequence[int], rule: Rule, time_ms: Callable[[int], int | None], newest_snapshots: int
) -> int:
    """How many of the oldest long-lived changelogs expire; never the last one.

    Args:
        ids: those there are, ascending.
        rule: what is kept, of changelogs and snapshots together.
        time_ms: as in `expired_snapshots`; a changelog is old by its own time.
        newest_snapshots: how many snapshots are alive after the last changelog.
    """
    count = len(ids) + newest_snapshots
    end = _end(ids, count, rule)
    for i in range(_start(count, rule), end):
        made = time_ms(ids[i])
        if made is not None and rule.older_than_ms <= made:
            return i
    return end


def _start(count: int, rule: Rule) -> int:
    """Positions before this expire however young they are."""
    return max(count - rule.retain_max, 0)


def _end(ids: Sequence[int], count: int, rule: Rule) -> int:
    """Positions from this on stay, whatever their age."""
    end = min(count - rule.retain_min, rule.limit, len(ids) - 1)
    if rule.first_needed is not None:
        end = min(end, bisect_left(ids, rule.first_needed))
    return max(end, 0)
