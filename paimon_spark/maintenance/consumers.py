"""Consumers of a branch: named streams with the snapshot that each reads next.

Expiry keeps that snapshot and later ones.

Source: Java `consumer/ConsumerManager`, `consumer/Consumer`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from paimon_spark.display import ShownAsFacts
from paimon_spark.errors import CorruptFileError, InvalidInputError, NotFoundError
from paimon_spark.format.json_files import decode_object
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import is_ref_name
from paimon_spark.metadata.small_files import checked_number, find_decoded, find_many
from paimon_spark.metadata.snapshots import alive_range, find_snapshot
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.storage.store import FileInfo
from paimon_spark.text import safe

CONSUMER_PREFIX: Final = "consumer-"
_IN_STATE: Final = "inState"
_HAS_READ: Final = "hasRead"
_LAST: Final = "last"


class LastRead(NamedTuple):
    """The newest snapshot that a consumer has read, fully or in part.

    Attributes:
        made: name of its delta manifest list, which is unique to its commit.
        rows: its number of rows, on which the next snapshot builds; None when unknown.
    """

    snapshot_id: int
    made: str
    rows: int | None


@dataclass(frozen=True, slots=True, repr=False)
class Consumer(ShownAsFacts):
    """A named stream that reads a branch.

    Attributes:
        next_snapshot: id of the oldest snapshot that it needs: usually the one it reads next.
        in_state: it has yet to read all rows of that snapshot, not only its changes. Other engines write and see only
            the id.
        has_read: it has read that snapshot, and needs it to compute what the next one changed.
        last: shows whether the branch still has the history that was read; None when unknown.
    """

    name: str
    next_snapshot: int
    in_state: bool = False
    has_read: bool = False
    last: LastRead | None = None

    def text_lines(self) -> list[str]:
        state = ", still the rows of that snapshot" if self.in_state else ""
        return [f"consumer {safe(self.name)} reads snapshot {self.reads_next} next{state}"]

    @property
    def reads_next(self) -> int:
        """Id of the snapshot it reads next."""
        return self.next_snapshot + self.has_read


def consumer_path(handle: TableHandle, name: str) -> str:
    """The consumer's file. Raises InvalidInputError: the name is not allowed."""
    if not is_ref_name(name):
        raise InvalidInputError(
            f"{name!r} cannot be the name of a consumer of {handle.describe()}: a name is text, not blank, without "
            "a slash",
            name=name,
        )
    return f"{handle.layout.consumer_dir}/{CONSUMER_PREFIX}{name}"


def consumer_names(handle: TableHandle) -> list[str]:
    """Names of the branch's consumers, sorted."""
    return [_name(info) for info in _files(handle)]


def find_consumer(handle: TableHandle, name: str) -> Consumer | None:
    """Read a consumer; None when it does not exist. Raises CorruptFileError."""
    return find_decoded(handle.store, consumer_path(handle, name), _decode)


def write_consumer(handle: TableHandle, consumer: Consumer) -> None:
    """Create or replace a consumer. Raises InvalidInputError: the name is not allowed."""
    flags = {_IN_STATE: consumer.in_state, _HAS_READ: consumer.has_read}
    raw: dict[str, Any] = {"nextSnapshot": consumer.next_snapshot, **{k: True for k, is_set in flags.items() if is_set}}
    if consumer.last is not None:
        last = consumer.last
        raw[_LAST] = {"snapshot": last.snapshot_id, "made": last.made, "rows": last.rows}
    handle.store.write(consumer_path(handle, consumer.name), json.dumps(raw, indent=2).encode())


def list_consumers(handle: TableHandle) -> list[Consumer]:
    """Read the branch's consumers, by name. Raises CorruptFileError."""
    paths = [consumer_path(handle, name) for name in consumer_names(handle)]
    return [consumer for consumer in find_many(handle.store, paths, _decode) if consumer is not None]


def first_needed(handle: TableHandle) -> int | None:
    """Id of the oldest snapshot that a consumer of the branch needs; None without consumers."""
    return min((c.next_snapshot for c in list_consumers(handle)), default=None)


def reset_consumer(handle: TableHandle, name: str, next_snapshot: int | None = None) -> Consumer | None:
    """Make a consumer continue with `next_snapshot`, creating it if needed; None deletes it.

    Source: Java `ResetConsumerProcedure`.
    """
    path = consumer_path(handle, name)
    if next_snapshot is None:
        names = consumer_names(handle)
        if name not in names:
            raise NotFoundError(
                f"{handle.describe()} has no consumer {name!r}{did_you_mean(name, names)}; "
                f"its consumers are {', '.join(names) or 'none'}",
                name=name,
            )
        handle.store.delete(path)
        return None
    if isinstance(next_snapshot, bool) or not isinstance(next_snapshot, int):
        raise InvalidInputError(
            f"next_snapshot = {next_snapshot!r} of consumer {name!r} is not a snapshot id", name=name
        )
    if find_snapshot(handle, next_snapshot) is None:
        raise InvalidInputError(
            f"consumer {name!r} cannot continue with snapshot {next_snapshot} of {handle.describe()}, which does not "
            f"exist: {alive_range(handle)}; give one of these",
            name=name,
            snapshot_id=next_snapshot,
        )
    consumer = Consumer(name, next_snapshot)
    write_consumer(handle, consumer)
    return consumer


def clear_consumers(handle: TableHandle, including: str = ".*", excluding: str | None = None) -> tuple[str, ...]:
    """Delete the consumers whose whole name matches `including` and not `excluding`; returns their names."""
    return _delete(handle, matching_consumers(handle, including, excluding))


def matching_consumers(handle: TableHandle, including: str = ".*", excluding: str | None = None) -> list[str]:
    """Names that match `including` and not `excluding`. Raises InvalidInputError: not a regular expression."""
    wanted, spared = _regex("including", including), None if excluding is None else _regex("excluding", excluding)
    return [
        name
        for name in consumer_names(handle)
        if wanted.fullmatch(name) and (spared is None or not spared.fullmatch(name))
    ]


def expire_consumers(handle: TableHandle, older_than_ms: int) -> tuple[str, ...]:
    """Delete the consumers whose file was last written before a time, epoch milliseconds; returns their names.

    Where the store reports no times, all are kept.
    """
    going = [_name(i) for i in _files(handle) if i.modified_ms is not None and i.modified_ms < older_than_ms]
    return _delete(handle, going)


def _files(handle: TableHandle) -> list[FileInfo]:
    infos = handle.store.list(handle.layout.consumer_dir)
    return [i for i in infos if not i.is_directory and i.name.startswith(CONSUMER_PREFIX) and _name(i)]


def _name(info: FileInfo) -> str:
    return info.name.removeprefix(CONSUMER_PREFIX)


def _delete(handle: TableHandle, names: list[str]) -> tuple[str, ...]:
    handle.store.delete_many([consumer_path(handle, name) for name in names])
    return tuple(names)


def _regex(argument: str, text: str) -> re.Pattern[str]:
    if not isinstance(text, str):
        raise InvalidInputError(f"{argument} = {text!r} is not a regular expression: it is not text", argument=argument)
    try:
        return re.compile(text)
    except re.error as e:
        raise InvalidInputError(
            f"{argument} = {text!r} is not a regular expression: {e}; it must match whole names of consumers, such as "
            "'etl-.*'",
            argument=argument,
        ) from e


def _decode(data: bytes, path: str) -> Consumer:
    name = path.rpartition("/")[2].removeprefix(CONSUMER_PREFIX)

    def build(raw: dict[str, Any]) -> Consumer:
        value = checked_number(raw["nextSnapshot"])
        return Consumer(name, value, raw.get(_IN_STATE) is True, raw.get(_HAS_READ) is True, _last(raw.get(_LAST)))

    return decode_object(
        data,
        build,
        lambda why: CorruptFileError(
            f"{path} is not a readable consumer file ({why}), so the snapshots that it needs are unknown; reset the "
            "consumer, or clear it",
            path=path,
        ),
    )


def _last(raw: Any) -> LastRead | None:
    try:
        return LastRead(int(raw["snapshot"]), str(raw["made"]), None if raw["rows"] is None else int(raw["rows"]))
    except (ValueError, TypeError, KeyError, OverflowError):
        return None
