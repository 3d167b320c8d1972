"""TableHandle: an opened branch of a table; CatalogServer: a server that has the table.

Every lower layer receives a handle. A server makes the snapshots, schemas and branches of its tables: another writer of
such a file would leave the server with an older state, and the server would refuse all later commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from paimon_spark.errors import (
    BranchNotFoundError,
    CorruptFileError,
    FileMissingError,
    PaimonError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.format.metadata_files.table_schema import decode as decode_schema
from paimon_spark.metadata.features import check_definition, check_overrides, check_readable, check_writable
from paimon_spark.metadata.layout import BRANCH_PREFIX, MAIN, Layout, is_file_name
from paimon_spark.metadata.retry import RACES
from paimon_spark.metadata.schemas import BranchLook, is_visible, latest_schema, list_schema_ids, look_at_branch
from paimon_spark.metadata.small_files import find_bytes
from paimon_spark.options.descriptor import did_you_mean, nearest
from paimon_spark.options.location import TableName
from paimon_spark.options.table import TableOptions, parse_table_options
from paimon_spark.storage.ahead import ahead
from paimon_spark.storage.local import is_link, within
from paimon_spark.storage.store import Store

if TYPE_CHECKING:
    from paimon_spark.metadata.definition.schema_changes import SchemaChange


"""Times that what main means is looked up again when it changes meanwhile."""


@dataclass(frozen=True, slots=True)
class TableHandle:
    """A branch of a table, with the schema and options in force. Picklable.

    Attributes:
        name: how messages call the table.
        schema: the schema to read with: the branch's latest, or that of the snapshot travelled to.
        options: stored options of the branch's latest schema, overridden by `overrides`.
        overrides: options given for this use of the table alone.
    """

    store: Store
    layout: Layout
    name: str
    schema: TableSchema
    options: TableOptions
    overrides: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def branch(self) -> str:
        return self.layout.branch

    @property
    def context(self) -> dict[str, str]:
        """Table and branch, for the context of errors."""
        return {"table": self.name, "branch": self.branch}

    @property
    def location(self) -> str:
        """Full URL of the table's directory."""
        return self.store.url(self.layout.root)

    @property
    def load_path(self) -> str:
        """Text that opens the table again: its URL, or its name in a catalog (with `load_options`)."""
        named = named_in_catalog(self.store)
        return self.location if named is None else named[0].bare

    @property
    def load_options(self) -> dict[str, str]:
        """The option that `load_path` needs."""
        named = named_in_catalog(self.store)
        return {} if named is None else {"warehouse": named[1]}

    def check_readable(self, columns: Iterable[str] | None = None) -> None:
        """As `features.check_readable`."""
        check_readable(self.schema, self.options.raw, self.name, columns)

    def check_writable(self) -> None:
        """As `features.check_writable`."""
        check_writable(self.schema, self.options.raw, self.name)

    def with_schema(self, schema: TableSchema) -> TableHandle:
        """The same branch read with another schema; the options stay.

        Source: Java `AbstractFileStoreTable.tryTimeTravel`.
        """
        return replace(self, schema=schema)

    def on_branch_directory(self, branch: str) -> TableHandle:
        """The files of another branch; schema and options stay this one's, so only metadata may be read with it."""
        return replace(self, layout=self.layout.with_branch(branch))

    def describe(self) -> str:
        """Table and branch, for messages."""
        return f"table {self.name}" if self.branch == MAIN else f"branch {self.branch!r} of table {self.name}"


def open_table(
    store: Store,
    root: str,
    branch: str = MAIN,
    name: str | None = None,
    options: Mapping[str, str] | None = None,
) -> TableHandle:
    """The latest state of a branch's definition. Reads `MAIN-BRANCH`, lists `schema/` and reads one schema.

    Args:
        store: where the table is.
        root: its directory in `store`.
        branch: which of its branches.
        name: how messages call the table; default is `db.table` or the URL, from `root`.
        options: table options that override the stored ones.

    Raises:
        TableNotFoundError: nothing at `root` is a table.
        BranchNotFoundError: the table has no such branch.
        InvalidOptionError: an option has a bad value, or may not be overridden.
        UnsupportedFeatureError: the table's definition has a value of a later Paimon.
        CorruptFileError: the schema cannot be decoded.
    """
    shown = name or table_name(store, root)
    store = within(store, root)
    with ahead(store, [Layout(root).main_branch_file], [Layout(root, MAIN, None).with_branch(branch).schema_dir]):
        return _open(store, root, branch, shown, options or {})


def _open(store: Store, root: str, branch: str, shown: str, options: Mapping[str, str]) -> TableHandle:
    main_branch = read_main_branch(store, root)
    for _ in range(RACES):
        layout = Layout(root, MAIN, main_branch).with_branch(branch)
        failure: CorruptFileError | None = None
        try:
            schema = latest_schema(store, layout)
        except CorruptFileError as e:
            schema, failure = None, e
        if schema is not None:
            return _handle(store, layout, shown, schema, dict(options))
        # Main may have come to mean another directory after MAIN-BRANCH was read, and the former be gone.
        before, main_branch = main_branch, read_main_branch(store, root)
        if before == main_branch:
            raise failure or _not_found(store, layout, shown)
    raise _not_found(store, layout, shown)


def current(handle: TableHandle) -> TableHandle:
    """The handle as long as it is what it was opened as, else the branch opened anew. Two small reads.

    Main may have been given another history, or come to mean another branch, since the handle was opened; then its
    schema is gone or another, and what is read of refs now is not what its schema belongs to. Raises as `open_table`.
    """
    layout, store = handle.layout, handle.store
    path = layout.schema_path(handle.schema.id)
    with ahead(store, [path, layout.main_branch_file] if layout.branch == MAIN else []):
        if layout.branch != MAIN or read_main_branch(store, layout.root) == layout.main_branch:
            try:
                if decode_schema(store.read(path), path) == handle.schema:
                    return handle
            except (FileMissingError, CorruptFileError):
                pass
    return open_table(store, layout.root, layout.branch, handle.name, handle.overrides)


def is_replaced(handle: TableHandle) -> bool:
    """Whether the branch has another history by now, or is gone, so that files of the former one may be gone."""
    try:
        return current(handle) is not handle
    except PaimonError:
        return True  # the next look at the table says why


def open_branch(handle: TableHandle, branch: str) -> TableHandle:
    """Another branch of the same table, with its own latest schema. Raises as `open_table`."""
    if branch == handle.branch:
        return handle
    layout = handle.layout.with_branch(branch)
    schema = latest_schema(handle.store, layout)
    if schema is None:
        raise _not_found(handle.store, layout, handle.name)
    return _handle(handle.store, layout, handle.name, schema, handle.overrides)


def _handle(store: Store, layout: Layout, name: str, schema: TableSchema, overrides: Mapping[str, str]) -> TableHandle:
    check_overrides(schema, overrides, name)
    check_definition(schema, name)
    options = parse_table_options({**schema.options, **overrides})
    layout = replace(layout, data_directory=options.data_file_directory)
    return TableHandle(store, layout, name, schema, options, dict(overrides))


def read_main_branch(store: Store, root: str) -> str | None:
    """The branch that `main` means; None for the table's own directory.

    Raises:
        CorruptFileError: the file `MAIN-BRANCH` does not hold a branch name.
    Source: PIP-14.
    """
    path = Layout(root).main_branch_file
    text = (find_bytes(store, path) or b"").decode("utf-8", "replace").strip()
    if text and not is_file_name(text):
        raise CorruptFileError(f"{store.url(path)} holds {text[:100]!r}, which is no branch name", path=path)
    return text if text and text != MAIN else None


def is_table(store: Store, root: str) -> bool:
    """Whether there is a table at `root`: a schema in its own directory, or a branch that main means."""
    layout = Layout(root)
    if is_link(store, layout.schema_dir):
        return False
    return bool(list_schema_ids(store, layout)) or read_main_branch(store, root) is not None


def branch_names(store: Store, layout: Layout) -> list[str]:
    """Names of the directories below `branch/`, sorted; main is not among them.

    What holds on to files is in any of them. Names that begin with a dot are of directories that operations work in,
    and are no branches to users.
    """
    return [
        info.name.removeprefix(BRANCH_PREFIX)
        for info in store.list(layout.branches_dir)
        if info.is_directory and info.name.startswith(BRANCH_PREFIX) and info.name != BRANCH_PREFIX
    ]


def visible_branch_names(store: Store, layout: Layout) -> list[str]:
    """Names of the branches that readers see, sorted; main is not among them.

    Directories without a schema, which other engines or interrupted commits leave, are no branches; nor are those that
    operations work in. A branch that is renamed meanwhile is listed under one of its names: where a directory is no
    branch, all are looked at again until two looks agree.
    """
    before: list[str] | None = None
    for _ in range(RACES):
        with ahead(store, trees=[layout.branches_dir]):
            names = [name for name in branch_names(store, layout) if not name.startswith(".")]
            looks = {name: look_at_branch(store, layout.with_branch(name)) for name in names}
        seen = [name for name, look in looks.items() if is_visible(name, look, _of_other(look, looks))]
        if seen in (names, before):
            break
        before = seen
    return seen


def _of_other(look: BranchLook, looks: Mapping[str, BranchLook]) -> list[int]:
    """Ids of the schemas of the branch that a handover names."""
    other = None if look.handover is None else looks.get(look.handover.branch or "")
    return [] if other is None else other.ids


def table_name(store: Store, root: str) -> str:
    """`db.table` where the path looks so (`…/db.db/table`), else the URL."""
    parent, _, last = root.rpartition("/")
    database = parent.rpartition("/")[2]
    return f"{database.removesuffix('.db')}.{last}" if database.endswith(".db") else store.url(root)


def _not_found(store: Store, layout: Layout, name: str) -> TableNotFoundError | BranchNotFoundError:
    url = store.url(layout.root)
    if layout.branch != MAIN:
        branches = visible_branch_names(store, layout)
        if branches or list_schema_ids(store, layout.with_branch(MAIN)):
            return BranchNotFoundError(
                f"table {name} has no branch {layout.branch!r}{did_you_mean(layout.branch, branches)}; "
                f"its branches are {', '.join([MAIN, *branches])}",
                table=name,
                branch=layout.branch,
            )
    if layout.directory_branch != layout.branch:
        return TableNotFoundError(
            f"{store.url(layout.main_branch_file)} says that main is the branch {layout.main_branch!r}, "
            "which has no schema; the table is damaged",
            path=layout.root,
        )
    return TableNotFoundError(
        f"{url} is no Paimon table: there is no {store.url(layout.schema_path(0))} nor any later schema; "
        + _what_is_there(store, layout.root),
        path=layout.root,
    )


def _what_is_there(store: Store, root: str) -> str:
    """Probable meaning of a wrong path, for messages."""
    inside = [i.name for i in store.list(root) if i.is_directory]
    tables = [n for n in inside[:200] if list_schema_ids(store, Layout(f"{root}/{n}"))]
    if tables:
        return f"it is a folder of tables ({_some(tables)}); name one of them"
    if any(n.endswith(".db") for n in inside):
        return f"it looks like a warehouse ({_some(inside)}); name one of its tables"
    parent, _, last = root.rpartition("/")
    around = [i.name for i in store.list(parent) if i.is_directory] if parent else []
    close = nearest(last, [n for n in around if n != last], count=5)
    tables = [n for n in close if list_schema_ids(store, Layout(f"{parent}/{n}"))]
    if tables:
        return f"did you mean {' or '.join(store.url(f'{parent}/{n}') for n in tables)}?"
    return "check the path" + ("" if inside or store.exists(root) else "; nothing exists there")


def _some(names: list[str], count: int = 10) -> str:
    return ", ".join(names[:count]) + (", …" if len(names) > count else "")


class CatalogServer(Protocol):
    """Operations of a server for one of its tables. All raise CatalogError."""

    @property
    def address(self) -> str:
        """Its address, for messages."""
        ...

    def change_schema(self, branch: str, changes: Sequence[SchemaChange]) -> None:
        """Make the next schema of a branch. Raises UnsupportedFeatureError: servers know no such change."""
        ...

    def create_branch(self, branch: str, tag: str | None) -> None:
        """Create a branch of main from one of its tags, an empty one without; done before, nothing."""
        ...


def named_in_catalog(store: Store) -> tuple[TableName, str] | None:
    """The table of a store in a metastore or on a server, and the warehouse; None where files are all there is."""
    named: tuple[TableName, str] | None = getattr(store, "named", None)
    return named


def server_of(store: Store) -> CatalogServer | None:
    """The server that a store of a table asks; None where files are all there is."""
    server: CatalogServer | None = getattr(store, "server", None)
    return server


def refuse_on_server(handle: TableHandle, what: str, remedy: str) -> None:
    """Raise UnsupportedFeatureError when a server has the table, as its API has no call for `what`."""
    server = server_of(handle.store)
    if server is not None:
        raise UnsupportedFeatureError(
            f"{what} of {handle.describe()} is not supported: the table is in the REST catalog {server.address}, whose "
            f"API has no such call; {remedy}",
            feature=what,
            table=handle.name,
            branch=handle.branch,
        )
