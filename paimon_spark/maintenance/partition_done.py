"""Partitions marked as done: a file `_SUCCESS` in their directories, for those who wait for them.

Source: Java `partition/actions/SuccessFileMarkDoneAction`, `partition/file/SuccessFile`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from paimon_spark.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.partition_path import PartitionDirectories
from paimon_spark.metadata.retry import now_ms

_ACTION: Final = "partition.mark-done-action"
_SUCCESS_FILE: Final = "success-file"


def mark_done(
    handle: TableHandle, partitions: Sequence[Mapping[str, object]], *, clock_ms: Callable[[], int] = now_ms
) -> None:
    """Mark partitions of a table as done; those marked already get a new time of modification.

    Args:
        handle: the table.
        partitions: values by partition column, all of them or the first ones, as directories are named.
        clock_ms: epoch milliseconds.

    Raises:
        InvalidInputError: a partition is not named by its first columns.
        UnsupportedFeatureError: option `partition.mark-done-action` asks for more than the file.
        CorruptFileError: a file `_SUCCESS` that is there is none of Paimon's.
    """
    actions = handle.options.expiry.mark_done_action
    if any(action.strip() != _SUCCESS_FILE for action in actions.split(",")):
        raise UnsupportedFeatureError(
            f"partitions of {handle.describe()} cannot be marked done as option {_ACTION} = {actions!r} says: only "
            f"{_SUCCESS_FILE} is done here",
            feature=_ACTION,
        )
    directories = PartitionDirectories(handle)
    for path in [f"{handle.layout.root}/{directories.named(_texts(handle, p))}/_SUCCESS" for p in partitions]:
        now = clock_ms()
        created = _created_ms(handle, path) if handle.store.exists(path) else now
        text = json.dumps({"creationTime": created, "modificationTime": now}, indent=2)
        handle.store.write(path, text.encode())


def _texts(handle: TableHandle, partition: Mapping[str, object]) -> list[str]:
    keys = handle.schema.partition_keys[: len(partition)]
    if not partition or set(keys) != set(partition):
        raise InvalidInputError(
            f"a partition of {handle.describe()} is named by {', '.join(handle.schema.partition_keys)}, or the first "
            f"of them; found {', '.join(partition) or 'nothing'}",
            table=handle.name,
        )
    null = handle.options.partition_default_name
    return [null if partition[k] is None else str(partition[k]) for k in keys]


def _created_ms(handle: TableHandle, path: str) -> int:
    try:
        return int(json.loads(handle.store.read(path))["creationTime"])
    except (ValueError, KeyError, TypeError) as e:
        raise CorruptFileError(
            f"{handle.store.url(path)} does not say when the partition was done; delete it and mark anew", path=path
        ) from e
