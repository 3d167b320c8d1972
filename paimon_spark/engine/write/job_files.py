"""Names of the files of one job, so that those of tasks that were killed can be found and removed.

The UUID in such a name begins with text that all files of the job share; 60 random bits keep jobs apart.
"""

from __future__ import annotations

import logging
from typing import Final
from uuid import UUID, uuid4

from paimon_spark.errors import StorageError
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.storage.store import Store

_LOG = logging.getLogger(__name__)

_SHARED: Final = 19
"""Characters of a UUID that a job's files share: `xxxxxxxx-xxxx-4xxx-`."""
_NOT_DATA: Final = frozenset(
    ("snapshot", "schema", "manifest", "branch", "tag", "changelog", "consumer", "statistics", "service", "sink")
)
"""Directories of a table that hold nothing that writers make."""


def new_job() -> str:
    """Text that no other job's files have."""
    return str(uuid4())[:_SHARED]


def job_of(digest: bytes) -> str:
    """As `new_job`, but the same for the same digest, of which the first 16 bytes count."""
    return str(UUID(bytes=digest[:16], version=4))[:_SHARED]


def new_file_id(job: str | None) -> str:
    """A UUID for names of files; of the job when there is one."""
    fresh = str(uuid4())
    return fresh if job is None else job + fresh[_SHARED:]


def remove_job_files(handle: TableHandle, job: str) -> int:
    """Remove all files that writers of `job` have made, whole or not. Driver; lists the table; raises nothing.

    Returns how many there were.

    Only for jobs of which no commit was tried.
    """
    store, root = handle.store, handle.layout.root
    found: list[str] = []
    try:
        for info in store.list(root):
            if info.is_directory and info.name not in _NOT_DATA:
                _find(store, f"{root}/{info.name}", job, found)
        store.delete_many(found)
    except StorageError as e:
        _LOG.warning("files of a failed write to %s may stay, with %s in their names: %s", handle.describe(), job, e)
    return len(found)


def _find(store: Store, directory: str, job: str, found: list[str]) -> None:
    for info in store.list(directory):
        path = f"{directory}/{info.name}"
        if info.is_directory:
            _find(store, path, job, found)
        elif job in info.name:
            found.append(path)
