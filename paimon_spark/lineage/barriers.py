"""Numbers of the runs of a batch job: `_lineage/jobs/<name>/<n>`, made exclusively, so that no two draw the same.

Only the newest few files stay. Whoever drew a number that could have been taken and pruned before draws again.

Source: own.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from paimon_spark.errors import FileAlreadyThereError
from paimon_spark.lineage.file_names import quoted
from paimon_spark.lineage.place import Warehouse
from paimon_spark.lineage.sql import is_, newest
from paimon_spark.lineage.tables import SINK_SNAPSHOT, SOURCE_SNAPSHOT
from paimon_spark.metadata.small_files import numbered

if TYPE_CHECKING:
    from paimon_spark.lineage.tables import Index

_KEPT: Final = 16
"""Files kept below the newest number."""


def draw_barrier(index: Index, job: str) -> int:
    """The next number of a batch job's runs. No two processes draw the same; some numbers may be left out.

    The first one follows the newest barrier of the job in the lineage tables.

    Raises:
        StorageError: the numbers cannot be listed or made.
    """
    warehouse = index.warehouse
    folder = _folder(warehouse, job)
    drawn = numbered(warehouse.store, folder, "")
    mine = drawn[-1] + 1 if drawn else _first(index, job)
    while True:
        try:
            warehouse.store.create_exclusive(f"{folder}/{mine}", uuid.uuid4().hex.encode())
        except FileAlreadyThereError:
            mine += 1
            continue
        drawn = numbered(warehouse.store, folder, "")
        newest_drawn = max(drawn, default=mine)
        if newest_drawn - mine < _KEPT:
            _prune(warehouse, folder, [n for n in drawn if n <= newest_drawn - _KEPT])
            return mine
        mine = newest_drawn + 1


def keep_barrier(warehouse: Warehouse, job: str, barrier: int) -> None:
    """Numbers drawn later are greater than this one, which the user chose. Raises StorageError."""
    folder = _folder(warehouse, job)
    drawn = numbered(warehouse.store, folder, "")
    if drawn and drawn[-1] >= barrier:
        return
    try:
        warehouse.store.create_exclusive(f"{folder}/{barrier}", uuid.uuid4().hex.encode())
    except FileAlreadyThereError:
        return


def _folder(warehouse: Warehouse, job: str) -> str:
    return f"{warehouse.own}/jobs/{quoted(job)}"


def _first(index: Index, job: str) -> int:
    where = is_("job", job)
    return 1 + max(newest(index, SINK_SNAPSHOT, where), newest(index, SOURCE_SNAPSHOT, where))


def _prune(warehouse: Warehouse, folder: str, numbers: list[int]) -> None:
    if numbers:
        warehouse.store.delete_many([f"{folder}/{n}" for n in numbers])
