"""What a commit has written, so that what is not needed can go."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, cast

from paimon_spark.metadata.handle import TableHandle
from paimon_spark.storage.store import Store

_LOG = logging.getLogger(__name__)


class _Recording:
    """A store that notes the path of each file before it is written."""

    def __init__(self, inner: Store, paths: list[str]) -> None:
        self._inner = inner
        self._paths = paths

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write(self, path: str, data: bytes) -> None:
        self._paths.append(path)
        self._inner.write(path, data)


@dataclass(frozen=True, slots=True)
class Written:
    """The metadata files written for one snapshot, over all attempts, whole or not.

    Attributes:
        handle: the branch; metadata of the commit is written through it alone.
    """

    handle: TableHandle
    paths: list[str] = field(default_factory=list)

    @classmethod
    def through(cls, handle: TableHandle) -> Written:
        """Records what is written from now on."""
        paths: list[str] = []
        store = cast(Store, _Recording(handle.store, paths))
        return cls(replace(handle, store=store), paths)

    def remove(self, keep: Iterable[str] = ()) -> None:
        """Delete what was written, but for the paths in `keep`. Failures leave orphans and are logged."""
        kept = set(keep)
        gone = [p for p in self.paths if p not in kept]
        self.paths[:] = [p for p in self.paths if p in kept]
        if not gone:
            return
        try:
            self.handle.store.delete_many(gone)
        except Exception as e:  # noqa: BLE001 - whatever it is, it must not make a commit look failed
            _LOG.warning("files of a failed attempt to commit to %s stay: %s", self.handle.describe(), e)
