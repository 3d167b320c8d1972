"""What became of one attempt to publish a snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from paimon_spark.errors import StorageError
from paimon_spark.format.metadata_files.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Committed:
    """The snapshot is there, and it is ours."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class LostRace:
    """Another's snapshot has the id; ours can never take it."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The store answered that it did not do it, and the snapshot is not there."""

    error: StorageError


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody can say whether the snapshot is there, or will be."""

    error: StorageError


Outcome: TypeAlias = Committed | LostRace | Refused | Unknown
