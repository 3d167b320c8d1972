"""Messages of writers that shared buckets, made ready for one commit. Driver only.

A bucket has one HASH file. Writers that shared it each wrote one: what the base snapshot had, and their own new keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from uuid import uuid4

import numpy as np

from paimon_spark.engine.tasks.commit_message import CommitMessage
from paimon_spark.engine.write.dynamic_buckets import I32, delete_index_files, hash_entry, write_hashes
from paimon_spark.errors import PaimonError
from paimon_spark.format.metadata_files.index_manifest import HASH, IndexManifestEntry, decode_hashes
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.partition_path import index_file_path


def combine(handle: TableHandle, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
    """The same messages, with one HASH file for each bucket: the union of those that its writers made.

    The files that were united are removed. After an error the messages given are still right to abort, and no file
    made here is left.

    Raises:
        StorageError, CorruptFileError: a file could not be read or written.
    """
    found: dict[tuple[bytes, int], list[IndexManifestEntry]] = {}
    for message in messages:
        for entry in message.data.new_index_files:
            if entry.index_type == HASH:
                found.setdefault((message.partition, message.bucket), []).append(entry)
    shared = {bucket: entries for bucket, entries in found.items() if len(entries) > 1}
    if not shared:
        return list(messages)
    united = _unite(handle, shared)
    out = []
    for message in messages:
        files = message.data.new_index_files
        if (message.partition, message.bucket) in shared and any(e.index_type == HASH for e in files):
            first = united.pop((message.partition, message.bucket), None)
            kept = [e for e in files if e.index_type != HASH] + ([] if first is None else [first])
            message = replace(message, data=replace(message.data, new_index_files=tuple(kept)))
        out.append(message)
    delete_index_files(handle, [e for entries in shared.values() for e in entries])
    return out


def _unite(
    handle: TableHandle, shared: dict[tuple[bytes, int], list[IndexManifestEntry]]
) -> dict[tuple[bytes, int], IndexManifestEntry]:
    name = f"index-{uuid4()}"
    made: dict[tuple[bytes, int], IndexManifestEntry] = {}
    try:
        for (partition, bucket), entries in shared.items():
            hashes: I32 = np.unique(np.concatenate([_read(handle, e) for e in entries]))
            entry = hash_entry(partition, bucket, f"{name}-{len(made)}", len(hashes))
            made[partition, bucket] = entry
            write_hashes(handle, entry, hashes)
    except BaseException:
        with suppress(PaimonError):
            delete_index_files(handle, list(made.values()))
        raise
    return made


def _read(handle: TableHandle, entry: IndexManifestEntry) -> I32:
    path = index_file_path(handle, entry)
    return decode_hashes(handle.store.read(path), handle.store.url(path))
