"""Tell the external files that may be deleted for a table from those that are left."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.format.arrays.arrow_numpy import array_of
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.metadata.external_files import ExternalFiles, data_files_of, index_refusal
from paimon_spark.metadata.handle import TableHandle

_LAST_SEGMENT: Final = r"/[^/]*$"


def external_directories(entries: pa.Table) -> pa.DictionaryArray | None:
    """Directories of the entries' external paths, null for entries without; None when all are without."""
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
        if index_refusal(handle, entry, delete=True) is None:
            may.append(entry)
        else:
            left.append(str(entry.external_path))
    return may, left
