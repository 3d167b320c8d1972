"""List the external paths in the manifests of a table, also in those of expired snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import pyarrow.compute as pc

from paimon_spark.errors import FileMissingError, FormatError
from paimon_spark.format.metadata_files.manifest import ManifestFileMeta
from paimon_spark.metadata.external_files import OPTIONS, data_files_of, index_refusal
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import is_file_name
from paimon_spark.metadata.manifests import find_index_manifests, find_manifest_lists, read_manifests
from paimon_spark.redaction import get_logger

_LOG = get_logger(__name__)
T = TypeVar("T")


def named_outside(handle: TableHandle, *, delete: bool) -> Iterator[tuple[str, bool]]:
    """Yield external paths, some more than once, and whether these files may be read, or with `delete` be deleted.

    Nothing is read of a table whose options list no external paths, else all its manifests.

    Manifests that are damaged or gone are left out; damaged ones are logged.
    """
    if not any(handle.options.raw.get(key, "").strip() for key in OPTIONS):
        return
    directory = handle.layout.shared_dirs[0]
    names = [info.name for info in handle.store.list(directory) if not info.is_directory]
    yield from _data_files(handle, names, delete)
    yield from _index_files(handle, names, delete)


def _data_files(handle: TableHandle, names: list[str], delete: bool) -> Iterator[tuple[str, bool]]:
    """Yield external data files with the files beside them."""
    allowed = data_files_of(handle)
    metas: dict[str, ManifestFileMeta] = {}
    for name in names:
        if "manifest-list-" in name:
            found = _readable(name, partial(find_manifest_lists, handle, [name])) or {}
            metas.update((meta.file_name, meta) for rows in found.values() for meta in rows or ())
    for name, meta in metas.items():
        entries = _readable(name, partial(read_manifests, handle, [meta], statistics=False))
        if entries is None:
            continue
        some = entries.select(["file_name", "extra_files", "external_path"])
        for row in some.filter(pc.is_valid(some.column("external_path"))).to_pylist():
            directory = row["external_path"].rpartition("/")[0]
            for file in (row["file_name"], *row["extra_files"]):
                url = f"{directory}/{file}"
                yield url, is_file_name(file) and allowed.refusal(url, delete=delete) is None


def _index_files(handle: TableHandle, names: list[str], delete: bool) -> Iterator[tuple[str, bool]]:
    """Yield external index files."""
    for name in names:
        if "index-manifest-" in name:
            found = _readable(name, partial(find_index_manifests, handle, [name])) or {}
            for entry in (entry for entries in found.values() for entry in entries or ()):
                if entry.external_path is not None:
                    yield entry.external_path, index_refusal(handle, entry, delete=delete) is None


def _readable(name: str, read: Callable[[], T]) -> T | None:
    """Contents of a metadata file; None if it is missing or damaged."""
    try:
        return read()
    except FileMissingError:  # of a snapshot that expired in part
        return None
    except FormatError as e:
        _LOG.warning("external files that %s names stay: %s", name, e)
        return None
