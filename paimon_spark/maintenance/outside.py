"""Tell the files outside a table's directory that may be deleted for it from those that are left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.format.arrays.arrow_numpy import array_of
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.metadata.external_files import ExternalFiles, data_files_of, index_refusal
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.catalog import ALLOWED_EXTERNAL_PATHS
from paimon_spark.options.data_files import EXTERNAL_PATHS
from paimon_spark.text import counted, safe

_LAST_SEGMENT: Final = r"/[^/]*$"
_SHOWN: Final = 5
"""Most paths in a message."""


def external_directories(entries: pa.Table) -> pa.DictionaryArray | None:
    """The directories of the external paths of entries, null where there is none; None when no entry has one."""
    external = entries.column("external_path").combine_chunks()
    if external.null_count == len(external):
        return None
    return pc.replace_substring_regex(external, _LAST_SEGMENT, "").dictionary_encode()


def followed(files: ExternalFiles, entries: pa.Table, *, delete: bool) -> pa.Array | None:
    """Whether the file of each entry may be read or deleted; None for all, as none has an external path."""
    directories = external_directories(entries)
    if directories is None:
        return None
    # A file is deleted by its name in the directory of its external path, together with the files beside it.
    may = [
        files.refusal(f"{directory}/file", delete=delete) is None for directory in directories.dictionary.to_pylist()
    ]
    return pc.fill_null(array_of(may, pa.bool_()).take(directories.indices), fill_value=True)


def deletable(handle: TableHandle, entries: pa.Table) -> tuple[pa.Table, list[str]]:
    """The entries whose files may be deleted, and the external paths of the others."""
    may = followed(data_files_of(handle), entries, delete=True)
    if may is None:
        return entries, []
    left = entries.filter(pc.invert(may)).column("external_path").to_pylist()
    return entries.filter(may), left


def deletable_indexes(
    handle: TableHandle, entries: Iterable[IndexManifestEntry]
) -> tuple[list[IndexManifestEntry], list[str]]:
    """The index files that may be deleted, and the external paths of the others."""
    may: list[IndexManifestEntry] = []
    left = []
    for entry in entries:
        if index_refusal(handle, entry) is None:
            may.append(entry)
        else:
            left.append(str(entry.external_path))
    return may, left


def left_outside(paths: Sequence[str]) -> str:
    """The message about files that were not deleted, or will not be."""
    shown = ", ".join(map(safe, paths[:_SHOWN])) + (", …" if len(paths) > _SHOWN else "")
    return (
        f"left {counted(len(paths), 'file')} outside the table, below no root that both its option "
        f"{EXTERNAL_PATHS.key} and the catalog option {ALLOWED_EXTERNAL_PATHS.key} list: {shown}"
    )
