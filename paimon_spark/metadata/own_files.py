"""Files of a table: those of its folder that writers of Paimon make, and external ones.

Other files in the folder belong to somebody else: dropping a table leaves them. External files are those that manifests
name, also manifests of expired snapshots.

Source: Paimon spec, chapter File Layout; Java `utils/FileStorePathFactory`, `io/DataFilePathFactory`,
`iceberg/IcebergPathFactory`, `service/ServiceManager`; Java Flink `partition/actions/SuccessFileMarkDoneAction`,
`compact/changelog/format/CompactedChangelogReadOnlyFormat`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final, NamedTuple, TypeVar

import pyarrow.compute as pc

from paimon_spark.errors import FileMissingError, FormatError, PaimonError
from paimon_spark.format.metadata_files.manifest import ManifestFileMeta
from paimon_spark.metadata.branches import UNDO_FILE
from paimon_spark.metadata.external_files import OPTIONS, data_files_of, index_refusal
from paimon_spark.metadata.handle import TableHandle, branch_names, open_table, read_main_branch
from paimon_spark.metadata.journal.lock import LOCK_DIRECTORY
from paimon_spark.metadata.layout import BRANCH_PREFIX, MAIN, Layout, is_file_name
from paimon_spark.metadata.manifests import (
    changelog_manifests,
    data_manifests,
    find_index_manifests,
    find_manifest_lists,
    read_manifests,
)
from paimon_spark.metadata.schemas import HANDOVER, latest_schema
from paimon_spark.metadata.snapshots import list_snapshots
from paimon_spark.metadata.tags import list_tags
from paimon_spark.redaction import get_logger
from paimon_spark.storage.local import is_link
from paimon_spark.storage.store import Store, concurrently

_LOG = get_logger(__name__)
Directory = tuple[str, ...]
"""A directory of the table by the segments of its path; of the table itself, none."""

_UUID: Final = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_TEMPORARY: Final = re.compile(rf"\..+\.{_UUID}\.tmp|\..+\.crc", re.DOTALL)
"""Names of incomplete files, in our stores and in Java's, and of Hadoop's checksums."""
_HISTORY: Final = "|LATEST|EARLIEST"
_OF_BRANCHES: Final[Mapping[Directory, re.Pattern[str]]] = {
    ("snapshot",): re.compile(r"snapshot-\d+" + _HISTORY, re.ASCII),
    ("changelog",): re.compile(r"changelog-\d+" + _HISTORY, re.ASCII),
    ("schema",): re.compile(r"schema-\d+", re.ASCII),
    ("tag",): re.compile(r"tag-.+", re.DOTALL),
    ("tag", "tag-success-file"): re.compile(r".+_SUCCESS", re.DOTALL),
    ("consumer",): re.compile(r"consumer-.+", re.DOTALL),
    ("sink",): re.compile(r"sink-.+", re.DOTALL),
}
_BRANCH_ITSELF: Final = re.compile(rf"MAIN-BRANCH|FORK|REBASED|{UNDO_FILE}")
_SHARED: Final = re.compile(rf".*{_UUID}.*|(?:manifest|index|stats?)-.+", re.DOTALL)
_OTHERS: Final[Mapping[Directory, re.Pattern[str]]] = {
    ("manifest",): _SHARED,
    ("index",): _SHARED,
    ("statistics",): _SHARED,
    (LOCK_DIRECTORY,): re.compile(r".+", re.DOTALL),
    ("service",): re.compile(r"service-.+", re.DOTALL),
    ("metadata",): re.compile(rf"v\d+\.metadata\.json|version-hint\.text|.*{_UUID}.*\.avro", re.ASCII),
}
_PARTITION: Final = re.compile(r"_SUCCESS")
_BUCKET: Final = re.compile(r"bucket-(?:\d+|postpone)", re.ASCII)


def ref_directories(layout: Layout) -> list[tuple[str, re.Pattern[str]]]:
    """The directories of a branch's own files, and patterns of their names; other files there are temporary."""
    return [("/".join((layout.branch_root, *parts)), names) for parts, names in _OF_BRANCHES.items()]


class FoundFiles(NamedTuple):
    """Paths in a table's folder, whatever they hold.

    Attributes:
        own: files that writers of Paimon make, and symbolic links.
        directories: directories in which such files are, outer ones first.
        others: files and directories of others, which are not looked into.
    """

    own: list[str]
    directories: list[str]
    others: list[str]


@dataclass(frozen=True)
class OwnFiles:
    """Tells the files of a table from others in its folder. Reads its newest schema.

    Raises CorruptFileError, StorageError: the schema cannot be read.
    """

    store: Store
    root: str

    def find(self) -> FoundFiles:
        """List the folder."""
        out = FoundFiles([], [], [])
        level: list[Directory] = [()]
        while level:
            directories = ["/".join((self.root, *at)) for at in level]
            out.directories.extend(directories)
            deeper: list[Directory] = []
            lists = concurrently(self.store.list, directories)
            for at, directory, infos in zip(level, directories, lists, strict=True):
                for info in infos:
                    path = f"{directory}/{info.name}"
                    if info.is_directory and self._is_own_directory((*at, info.name)):
                        deeper.append((*at, info.name))
                    elif not info.is_directory and (self._is_own_file(at, info.name) or is_link(self.store, path)):
                        out.own.append(path)
                    else:
                        out.others.append(path)
            level = deeper
        return out

    def _is_own_directory(self, at: Directory) -> bool:
        if self._names(at) is not None or at == ("branch",):
            return True
        return at == self._data_directory[: len(at)]

    def _is_own_file(self, at: Directory, name: str) -> bool:
        names = self._names(at)
        if names is None:
            return False
        if names.fullmatch(name) or _TEMPORARY.fullmatch(name):
            return True
        if at[-1:] == ("schema",):
            return name == HANDOVER
        return bool(at) and _BUCKET.fullmatch(at[-1]) is not None and name in self._named

    def _names(self, at: Directory) -> re.Pattern[str] | None:
        """Pattern of the names of Paimon's files in a directory; None: it has none."""
        if at[:1] == ("branch",):
            if len(at) == 1 or not at[1].startswith(BRANCH_PREFIX):
                return None
            return _OF_BRANCHES.get(at[2:]) if at[2:] else _BRANCH_ITSELF
        if not at:
            return _BRANCH_ITSELF
        return _OF_BRANCHES.get(at) or _OTHERS.get(at) or self._names_of_data(at)

    def _names_of_data(self, at: Directory) -> re.Pattern[str] | None:
        base = self._data_directory
        if at[: len(base)] != base:
            return None
        at = at[len(base) :]
        partition = tuple(itertools.takewhile(lambda part: "=" in part, at))
        keys = self._schema[0]
        if keys is None:  # an interrupted deletion has removed the schemas, after all files
            keys = len(partition)
        if len(partition) < min(keys, len(at)):
            return None
        if len(at) <= keys:
            return _PARTITION if at else None
        return self._data if len(at) == keys + 1 and _BUCKET.fullmatch(at[-1]) else None

    @cached_property
    def _schema(self) -> tuple[int | None, Mapping[str, str]]:
        """Number of partition keys, and options; None and empty without a schema."""
        main = Layout(self.root, main_branch=read_main_branch(self.store, self.root))
        schema = latest_schema(self.store, main)
        for branch in branch_names(self.store, main) if schema is None else ():
            schema = schema or latest_schema(self.store, main.with_branch(branch))
        return (None, {}) if schema is None else (len(schema.partition_keys), schema.options)

    @cached_property
    def _data_directory(self) -> Directory:
        given = self._schema[1].get("data-file.path-directory")
        return tuple(given.strip("/").split("/")) if given else ()

    @cached_property
    def _data(self) -> re.Pattern[str]:
        """Names of data files: by Java's pattern, with its prefixes or those of the table."""
        options = self._schema[1]
        given = [options.get(key, "") for key in ("data-file.prefix", "changelog-file.prefix")]
        prefixes = "|".join(map(re.escape, ("data-", "changelog-", "compacted-changelog-", *filter(None, given))))
        return re.compile(rf"(?:{prefixes}).+|.*{_UUID}-\d+(?:\..+)?|index-.+", re.DOTALL)

    @cached_property
    def _named(self) -> frozenset[str]:
        """Names of data files in snapshots and tags: files of migrated tables keep their names."""
        found: set[str] = set()
        try:
            for branch in (MAIN, *branch_names(self.store, Layout(self.root))):
                found.update(_named_in(open_table(self.store, self.root, branch)))
        except PaimonError as e:
            _LOG.warning("files that only metadata names are not told from others: %s", e)
        return frozenset(found)


def _named_in(handle: TableHandle) -> Iterator[str]:
    snapshots = [*list_snapshots(handle), *(tag.snapshot for tag in list_tags(handle))]
    metas = {
        meta.file_name: meta
        for snapshot in snapshots
        for meta in (*data_manifests(handle, snapshot), *changelog_manifests(handle, snapshot))
    }
    entries = read_manifests(handle, list(metas.values()), statistics=False)
    yield from entries.column("file_name").to_pylist()
    for names in entries.column("extra_files").to_pylist():
        yield from names or ()


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
