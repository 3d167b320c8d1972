"""Find files that snapshots, tags and changelogs need and that are gone or of another size.

Every directory is listed and every manifest decoded once; no data file is opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import FileMissingError
from paimon_spark.format.arrays.arrow_numpy import array_of
from paimon_spark.format.data_files.registry import PREFIX as COMPACTED_CHANGELOG
from paimon_spark.format.metadata_files.manifest import ManifestFileMeta
from paimon_spark.maintenance.listing import FILES, DirectoryTree, list_files, listed, own_tree
from paimon_spark.maintenance.reachable import entry_paths, followed
from paimon_spark.maintenance.roots import branch_directories, changelog_lists, grouped, state_lists, still_there
from paimon_spark.metadata.external_files import data_files_of, index_files_of, index_refusal
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import Root, RootKind
from paimon_spark.metadata.manifests import find_index_manifests, find_manifest_lists, read_manifests
from paimon_spark.metadata.own_files import named_outside
from paimon_spark.spark_port import spread
from paimon_spark.storage.store import FileInfo

_MANY_BYTES: Final = 32 << 20
"""Bytes of manifests that are worth a Spark job."""
_TOGETHER: Final = 256
"""Manifest lists fetched together."""
_ANY: Final = -1
"""Stands for a size that no metadata states."""
_USES: Final = pa.schema([("manifest", pa.string()), ("name", pa.string()), ("size", pa.int64()), ("adds", pa.bool_())])


class Lost(NamedTuple):
    """A file that is needed: its name, its size as the metadata states it, and its size now, None when it is gone."""

    name: str
    size: int
    found: int | None

    def __str__(self) -> str:
        return f"{self.name} is gone" if self.found is None else f"{self.name} has {self.found} bytes, not {self.size}"


class Damaged(NamedTuple):
    """A root and the files that it needs and lacks, metadata first."""

    root: Root
    files: tuple[Lost, ...]


def damaged_roots(handle: TableHandle, roots: Sequence[Root], *, here: bool = False) -> list[Damaged]:
    """Roots, among those read before, that lack a file and still exist.

    Looked at are manifest lists, manifests, index manifests, index files, statistics, and the data and changelog files
    that are alive in a root, but none whose external path may not be read. Executors of the active session list and
    read where there is much, unless `here`.

    Raises CorruptFileError: a list or manifest cannot be decoded. StorageError: a directory cannot be listed.
    """
    main = branch_directories(handle)[0]
    disk = _Disk.of(handle, here=here)
    metadata = _Metadata.read(main, roots, disk)
    uses = _lost_uses(main, list(metadata.metas.values()), disk, here=here)
    found = [Damaged(root, files) for root in roots if (files := tuple(_lost_of(root, metadata, uses, disk)))]
    return [damaged for damaged in found if still_there(main, damaged.root)]


@dataclass(frozen=True, slots=True)
class _Disk:
    """The files of a table by their names, which no two files share."""

    names: pa.Array
    sizes: pa.Array

    @staticmethod
    def of(handle: TableHandle, *, here: bool) -> _Disk:
        inside = list_files([own_tree(handle)], _every, here=here)
        files = pa.concat_tables([t.select(("name", "size")) for t in (inside, _outside(handle))]).combine_chunks()
        return _Disk(*(files.column(name).combine_chunks() for name in ("name", "size")))

    def sizes_of(self, names: pa.Array) -> pa.Array:
        """The size of each file; null where it is gone."""
        return self.sizes.take(pc.index_in(names, value_set=self.names))

    def lost(self, names: Sequence[str], sizes: Sequence[int]) -> Iterator[Lost]:
        """Files among a few that are missing or have another size."""
        found = self.sizes_of(array_of(list(names), pa.string())).to_pylist()
        for name, size, now in zip(names, sizes, found, strict=True):
            if now is None or size not in (_ANY, now):
                yield Lost(name, size, now)


def _outside(handle: TableHandle) -> pa.Table:
    """The files in directories outside the table where it has files that may be read."""
    allowed = index_files_of(handle, "")
    directories = {url.rpartition("/")[0] for url, may in named_outside(handle, delete=False) if may}
    found = [FILES.empty_table()]
    for directory in sorted(directories):
        store, path = allowed.open(handle.store, f"{directory}/file", handle.name)
        parent = path.rpartition("/")[0]
        found.append(listed(0, parent, [i for i in store.list(parent) if not i.is_directory]))
    return pa.concat_tables(found)


def _every(tree: DirectoryTree, directory: str, infos: list[FileInfo]) -> list[FileInfo]:
    return infos


@dataclass(frozen=True, slots=True)
class _Metadata:
    """Manifests by list, and by name; what index manifests name, and what of both cannot be read."""

    lists: dict[str, list[str]] = field(default_factory=dict)
    metas: dict[str, ManifestFileMeta] = field(default_factory=dict)
    indexes: dict[str, list[Lost]] = field(default_factory=dict)

    @staticmethod
    def read(main: TableHandle, roots: Sequence[Root], disk: _Disk) -> _Metadata:
        made = _Metadata()
        names = dict.fromkeys(name for root in roots for name in (*state_lists(root), *changelog_lists(root)))
        for some in _parts(list(names)):
            for name, metas in find_manifest_lists(main, some).items():
                made.lists[name] = [m.file_name for m in metas or ()]
                made.metas.update((m.file_name, m) for m in metas or ())
        for some in _parts(list(dict.fromkeys(index for root in roots if (index := _index_of(root))))):
            for name, entries in find_index_manifests(main, some).items():
                files = {
                    e.file_name: e.file_size for e in entries or () if index_refusal(main, e, delete=False) is None
                }
                made.indexes[name] = list(disk.lost(list(files), list(files.values())))
        return made


def _index_of(root: Root) -> str | None:
    return None if root.kind is RootKind.CHANGELOG else root.snapshot.index_manifest


def _parts(names: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(names), _TOGETHER):
        yield names[start : start + _TOGETHER]


def _lost_uses(
    main: TableHandle, metas: Sequence[ManifestFileMeta], disk: _Disk, *, here: bool
) -> dict[str, list[tuple[Lost, int]]]:
    """By manifest: its entries of files that are gone or of another size, 1 for an ADD, -1 for a DELETE."""
    is_small = sum(meta.file_size for meta in metas) < _MANY_BYTES
    groups = list(grouped(metas, lambda meta: meta.file_size))
    found: dict[str, list[tuple[Lost, int]]] = {}
    for uses in spread(partial(_uses, main), groups, here=here or is_small):
        sizes = disk.sizes_of(uses.column("name").combine_chunks())
        stated = uses.column("size").combine_chunks()
        is_other = pc.and_kleene(pc.not_equal(stated, _ANY), pc.not_equal(stated, sizes))
        lost = pc.or_(pc.is_null(sizes), pc.fill_null(is_other, fill_value=True))
        rows = uses.append_column("found", sizes).filter(lost)
        for row in rows.to_pylist():
            use = Lost(row["name"], row["size"], row["found"]), 1 if row["adds"] else -1
            found.setdefault(row["manifest"], []).append(use)
    return found


def _uses(main: TableHandle, metas: Sequence[ManifestFileMeta]) -> pa.Table:
    """The files that entries of manifests name, as `_USES`. Those of manifests that are gone are left out."""
    out = [_USES.empty_table()]
    for meta in metas:
        try:
            entries = read_manifests(main, [meta], statistics=False)
        except FileMissingError:
            continue
        may = followed(data_files_of(main), entries, delete=False)
        entries = entries if may is None else entries.filter(may)
        adds = pc.equal(entries.column("kind").combine_chunks(), 0)
        names, sizes = (entries.column(name).combine_chunks() for name in ("file_name", "file_size"))
        if pc.any(pc.starts_with(names, COMPACTED_CHANGELOG)).as_py():  # several entries share a file
            names = pc.replace_substring_regex(entry_paths(main, entries)[: len(entries)], r"^.*/", "").cast(
                pa.string()
            )
            sizes = pa.repeat(pa.scalar(_ANY, pa.int64()), len(names))
        extra = entries.column("extra_files").combine_chunks()
        beside = pc.list_flatten(extra)
        parts = (
            (names.cast(pa.string()), sizes, adds),
            (
                beside.cast(pa.string()),
                pa.repeat(pa.scalar(_ANY, pa.int64()), len(beside)),
                adds.take(pc.list_parent_indices(extra)),
            ),
        )
        for of, size, kind in parts:
            manifest = pa.repeat(pa.scalar(meta.file_name, pa.string()), len(of))
            out.append(pa.Table.from_arrays([manifest, of, size.cast(pa.int64()), kind], schema=_USES))
    return pa.concat_tables(out)


def _lost_of(root: Root, metadata: _Metadata, uses: dict[str, list[tuple[Lost, int]]], disk: _Disk) -> Iterator[Lost]:
    """Files that a root needs and lacks."""
    state, changelog = state_lists(root), changelog_lists(root)
    index = _index_of(root)
    named = [*state, *changelog, *([index] if index else [])]
    named += [root.snapshot.statistics] if root.snapshot.statistics and root.kind is not RootKind.CHANGELOG else []
    yield from disk.lost(named, [_ANY] * len(named))
    manifests = list(dict.fromkeys(m for name in (*state, *changelog) for m in metadata.lists.get(name, ())))
    yield from disk.lost(manifests, [metadata.metas[m].file_size for m in manifests])
    yield from metadata.indexes.get(index, ()) if index else ()
    for lists in (state, changelog):
        counts: Counter[Lost] = Counter()
        for name in lists:
            for manifest in metadata.lists.get(name, ()):
                for lost, count in uses.get(manifest, ()):
                    counts[lost] += count
        yield from (lost for lost, count in counts.items() if count > 0)
