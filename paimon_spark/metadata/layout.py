"""Layout: where every file of a table lies. Nothing else joins paths.

Names that come from metadata files are checked here, so that no file of a table leads outside it.

Source: Paimon spec, chapter File Layout; Java `utils/FileStorePathFactory`, `utils/BranchManager`,
`io/DataFilePathFactory`. `MAIN-BRANCH`: PIP-14.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from paimon_spark.errors import CorruptFileError, InvalidInputError, InvalidOptionError

MAIN: Final = "main"
SNAPSHOT_PREFIX: Final = "snapshot-"
CHANGELOG_PREFIX: Final = "changelog-"
SCHEMA_PREFIX: Final = "schema-"
TAG_PREFIX: Final = "tag-"
BRANCH_PREFIX: Final = "branch-"
LATEST: Final = "LATEST"
EARLIEST: Final = "EARLIEST"
POSTPONE_BUCKET: Final = -2


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths of one branch of a table, all below `root`.

    Snapshots, schemas, tags, changelogs and consumers belong to the branch; everything else is shared by all.

    Attributes:
        root: the table's directory, without trailing slash.
        branch: the branch as the user names it.
        main_branch: the branch that `main` means (file `MAIN-BRANCH`); None means the table's own directory.
        data_directory: option `data-file.path-directory`, checked to be inside the table.
    """

    root: str
    branch: str = MAIN
    main_branch: str | None = None
    data_directory: str | None = None

    def __post_init__(self) -> None:
        check_ref_name(self.branch, "branch")
        if self.data_directory is not None:
            _check_data_directory(self.data_directory)

    def with_branch(self, branch: str) -> Layout:
        return replace(self, branch=branch)

    @property
    def directory_branch(self) -> str:
        """The branch whose directory is used: `branch`, or the one that main means."""
        return (self.main_branch or MAIN) if self.branch == MAIN else self.branch

    @property
    def branch_root(self) -> str:
        name = self.directory_branch
        return self.root if name == MAIN else f"{self.branches_dir}/{BRANCH_PREFIX}{name}"

    @property
    def branches_dir(self) -> str:
        return f"{self.root}/branch"

    @property
    def main_branch_file(self) -> str:
        return f"{self.root}/MAIN-BRANCH"

    @property
    def fork_file(self) -> str:
        """Where the branch left another one. No other engine looks there."""
        return f"{self.branch_root}/FORK"

    @property
    def rebased_file(self) -> str:
        """File with the base of the branch's rebases (`jobs.rebase.earlier`). Other engines ignore it."""
        return f"{self.branch_root}/REBASED"

    @property
    def schema_dir(self) -> str:
        return f"{self.branch_root}/schema"

    def schema_path(self, schema_id: int) -> str:
        return f"{self.schema_dir}/{SCHEMA_PREFIX}{schema_id:d}"

    @property
    def snapshot_dir(self) -> str:
        return f"{self.branch_root}/snapshot"

    def snapshot_path(self, snapshot_id: int) -> str:
        return f"{self.snapshot_dir}/{SNAPSHOT_PREFIX}{snapshot_id:d}"

    @property
    def changelog_dir(self) -> str:
        return f"{self.branch_root}/changelog"

    def changelog_path(self, snapshot_id: int) -> str:
        return f"{self.changelog_dir}/{CHANGELOG_PREFIX}{snapshot_id:d}"

    @property
    def tag_dir(self) -> str:
        return f"{self.branch_root}/tag"

    def tag_path(self, name: str) -> str:
        """Raises InvalidInputError: `name` cannot be part of a path."""
        check_ref_name(name, "tag")
        return f"{self.tag_dir}/{TAG_PREFIX}{name}"

    @property
    def tag_success_dir(self) -> str:
        return f"{self.tag_dir}/tag-success-file"

    @property
    def consumer_dir(self) -> str:
        return f"{self.branch_root}/consumer"

    @property
    def sink_dir(self) -> str:
        """Directory of the notes of streaming queries about committed batches. Other engines ignore it."""
        return f"{self.branch_root}/sink"

    def manifest_path(self, name: str) -> str:
        """A manifest, manifest list or index manifest. Raises CorruptFileError: `name` leads elsewhere."""
        return f"{self.root}/manifest/{file_name(name, self.root)}"

    def statistics_path(self, name: str) -> str:
        """A statistics file. Raises CorruptFileError: `name` would lead elsewhere."""
        return f"{self.root}/statistics/{file_name(name, self.root)}"

    def index_path(self, name: str, bucket_path: str | None = None) -> str:
        """An index file: in `index/`, or with `index-file-in-data-file-dir` in the bucket, `bucket_path`.

        Raises CorruptFileError: `name` would lead elsewhere.
        """
        return f"{bucket_path or self.root + '/index'}/{file_name(name, self.root)}"

    @property
    def shared_dirs(self) -> tuple[str, str, str]:
        """The directories of manifests, index files and statistics of all branches."""
        return f"{self.root}/manifest", f"{self.root}/index", f"{self.root}/statistics"

    @property
    def data_root(self) -> str:
        """The directory below which partitions and buckets lie."""
        return f"{self.root}/{self.data_directory.strip('/')}" if self.data_directory else self.root

    def bucket_path(self, partition_path: str, bucket: int) -> str:
        """The directory of a bucket's data files; `partition_path` is from the module so named."""
        parts = [self.data_root]
        if partition_path:
            parts.append(partition_path)
        parts.append("bucket-postpone" if bucket == POSTPONE_BUCKET else f"bucket-{bucket:d}")
        return "/".join(parts)

    def data_path(self, bucket_path: str, name: str) -> str:
        """A data file without an external path, or a file beside one.

        Raises CorruptFileError: `name` would lead elsewhere.
        """
        return f"{bucket_path}/{file_name(name, self.root)}"


def is_file_name(name: str) -> bool:
    """Whether `name` is one path segment that stays in its directory."""
    return bool(name) and name not in (".", "..") and not any(c in name for c in "/\\\0")


def file_name(name: str, table: str) -> str:
    """`name` when it is the name of a file. Raises CorruptFileError otherwise."""
    if not is_file_name(name):
        raise CorruptFileError(
            f"the metadata of table {table} names a file {name!r}, which is not a plain file name; "
            "the metadata is damaged or hostile and is not followed",
            path=table,
            name=name,
        )
    return name


def is_ref_name(name: object) -> bool:
    """Whether `name`, whatever a caller gave, can be part of the path of a branch or tag."""
    if not isinstance(name, str) or not name.strip():
        return False
    # Half of a surrogate pair is text to Python, and to no store.
    return not any(c in "/\\\0" or 0xD800 <= ord(c) < 0xE000 for c in name)


def check_ref_name(name: str, what: str) -> None:
    """Check that a branch or tag name given by a user can be part of a path. Raises InvalidInputError."""
    if not is_ref_name(name):
        raise InvalidInputError(
            f"{name!r} cannot be the name of a {what}: a name is text, not blank, and holds no slash", name=name
        )


def _check_data_directory(directory: str) -> None:
    parts = directory.strip("/").split("/")
    if "://" in directory or not all(map(is_file_name, parts)):
        raise InvalidOptionError(
            f"option data-file.path-directory = {directory!r} is not a directory inside the table",
            option="data-file.path-directory",
        )
