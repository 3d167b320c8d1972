"""Catalog: the databases and tables of a file-system warehouse. Only forwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.api.table import Table, load
from paimon_spark.api.views import CatalogViews
from paimon_spark.catalogs.file_system import FileSystemCatalog
from paimon_spark.catalogs.open import default_warehouse, open_catalog
from paimon_spark.display import ShownList, named_after
from paimon_spark.errors import InvalidInputError, InvalidOptionError, TableAlreadyExistsError
from paimon_spark.jobs.definition.alter import SchemaLike, columns_of
from paimon_spark.jobs.opened_table import LackedBranch, OptionValue, as_text
from paimon_spark.metadata.branches import is_branch
from paimon_spark.metadata.layout import Layout
from paimon_spark.options.descriptor import boolean, unknown_option
from paimon_spark.options.known import is_storage_option
from paimon_spark.options.lineage import (
    OF_CATALOG,
    OF_ONE_USE,
    check_job_options,
    parse_catalog_lineage,
    refuse_follow,
)
from paimon_spark.options.location import (
    CATALOG,
    CREATE_BRANCH,
    MAIN,
    SESSION_BRANCH,
    TABLE_DEFAULT,
    configured,
    in_catalog,
    is_name,
    split_name,
    split_suffix,
    table_defaults,
)
from paimon_spark.options.scan import chooses_state
from paimon_spark.redaction import ShownOptions, without_passwords
from paimon_spark.spark_port import spark_sql
from paimon_spark.storage.store import Store
from paimon_spark.text import safe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from paimon_spark.api.lineage_verbs import Lineage
    from paimon_spark.api.pipeline import Pipeline
    from paimon_spark.api.pipeline_branch import PipelineBranch
    from paimon_spark.api.release import Release
    from paimon_spark.pipelines.preparation import Preparation


_OPTIONS: Final = (*OF_ONE_USE, *OF_CATALOG, SESSION_BRANCH, CREATE_BRANCH)
"""Options of a catalog besides those of its file system and defaults of tables."""


@named_after
@dataclass(frozen=True, slots=True, repr=False)
class Catalog(CatalogViews):
    """A warehouse. Picklable; nothing is cached, so every call sees the warehouse as it is.

    Attributes:
        warehouse: path or URL.
        options: how to reach its file system, as text; `table-default.<option>` is for the tables it makes;
            `table-lineage` and `data-lineage` are what the warehouse is to record; `branch` is the branch to which
            reads and writes go of the tables that have it.
        name: may stand before the database in names of tables, `paimon.db.t`; the one that `attach` was given.
    """

    warehouse: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    name: str = CATALOG

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", ShownOptions(self.options))

    def __str__(self) -> str:
        return f"catalog of {safe(without_passwords(self.warehouse))}"

    def __repr__(self) -> str:
        return f"<{self}>"

    def _repr_html_(self) -> str:
        from paimon_spark.api.notebook import catalog_html

        return catalog_html(without_passwords(self.warehouse), self.options, self.list_databases)

    def list_databases(self) -> list[str]:
        """Names of the databases, sorted.

        Raises:
            WarehouseNotFoundError: the directory of the warehouse does not exist; `create_database` makes it.
        """
        return self._tables.list_databases()

    def list_tables(self, db: str) -> list[str]:
        """Names of the tables of a database, sorted.

        Raises:
            DatabaseNotFoundError, WarehouseNotFoundError: there is no such database, or not even the warehouse.
        """
        return self._tables.list_tables(db)

    def list_functions(self, db: str) -> list[str]:
        """Names of the functions of a database, sorted; none where the catalog holds no functions.

        Raises:
            CatalogError: the server of a REST catalog failed.
        """
        return self._tables.list_functions(db)

    def create_database(self, name: str, *, ignore_if_exists: bool = False) -> None:
        """Create a database: a directory of the warehouse, which the first one creates too.

        Raises:
            DatabaseAlreadyExistsError: there is one, unless `ignore_if_exists`.
            InvalidOptionError: the name is invalid.
            StorageError, CommitError: `table-lineage` is asked for, and the lineage tables cannot be written.
        """
        self._tables.create_database(name, ignore_if_exists)
        _apply_lineage(self)  # the warehouse may be new

    def drop_database(self, name: str, *, ignore_if_not_exists: bool = False, cascade: bool = False) -> list[str]:
        """Remove a database, with all its tables when `cascade`.

        Only tables of Paimon are dropped. A folder that is a symbolic link is not emptied; the link is deleted.

        Returns:
            URLs of what stays in the folder of a database that a metastore does not list any more; it is logged, too.

        Raises:
            DatabaseNotFoundError: there is none, unless `ignore_if_not_exists`.
            InvalidInputError: it holds tables, or anything else, and not `cascade`; or, in a catalog without a
                metastore, files remain after its tables were dropped. The message names them.
        """
        return self._tables.drop_database(name, ignore_if_not_exists, cascade)

    def create_table(
        self,
        name: str,
        schema: SchemaLike,
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, OptionValue] | None = None,
        comment: str | None = None,
        ignore_if_exists: bool = False,
    ) -> Table:
        """Create the table `db.t` and open it. Exactly one of several racing callers creates it.

        Args:
            name: `db.t`, of a database that exists.
            schema: pyarrow.Schema, pyspark StructType or DDL text such as `id BIGINT NOT NULL, name STRING`.
            primary_keys: columns, NOT NULL from then on.
            partition_keys: columns.
            options: table options of Paimon; unknown ones are kept and warned about.
            comment: of the table.
            ignore_if_exists: open an existing table instead, whatever its columns.

        Raises:
            TableAlreadyExistsError: there is one, unless `ignore_if_exists`.
            DatabaseNotFoundError: there is no such database.
            InvalidInputError, InvalidOptionError: the definition is invalid.
            UnsupportedFeatureError: it needs a feature that this package lacks.
        """
        name = in_catalog(name, self.name)
        place = self._tables.new_place(name)
        stored = {**table_defaults(self.options), **as_text(options or {})}
        columns = columns_of(schema)
        try:
            self._tables.create_table(place, columns, primary_keys, partition_keys, stored, comment)
        except TableAlreadyExistsError:
            if not ignore_if_exists:
                raise
        return self.table(name)

    def drop_table(self, name: str, *, ignore_if_not_exists: bool = False) -> list[str]:
        """Remove the table `db.t` with its branches and files. Interrupted, it is finished by calling again.

        A folder that is a symbolic link is not emptied; the link is deleted. Files outside the table's directory go
        where `catalog.allowed-external-paths` lists their place, too; the log names those that stay.

        Returns:
            URLs of what stays in the folder because no writer of Paimon makes such files; it is logged, too.

        Raises:
            TableNotFoundError, DatabaseNotFoundError: there is none, unless `ignore_if_not_exists`.
        """
        name = in_catalog(name, self.name)
        self._refuse_whole(name, "dropped")
        return self._tables.drop_table(name, ignore_if_not_exists)

    def rename_table(self, old: str, new: str, *, ignore_if_not_exists: bool = False) -> None:
        """Rename the table `db.t`, also into another database of the warehouse.

        Atomic where the file system renames directories; on object stores the files are copied.

        Raises:
            TableNotFoundError, DatabaseNotFoundError: there is no table `old` (unless `ignore_if_not_exists`), or no
                database of `new`.
            TableAlreadyExistsError: there is something at the place of `new`.
        """
        old, new = (in_catalog(name, self.name) for name in (old, new))
        self._refuse_whole(old, "renamed")
        self._tables.rename_table(old, new, ignore_if_not_exists)

    def table(self, name: str, **options: OptionValue) -> Table:
        """The table called `db.t`, or `db.t$branch_<name>`; `$<system table>`, such as `$files`, may follow.

        A catalog with the option `branch` opens that branch of a table that has it, unless the name or an option says
        which branch or version. A table that lacks it is opened on main, and is only read, unless option
        `branch.create` is true: then the first change creates the branch from the head of main.

        Raises:
            TableNotFoundError, DatabaseNotFoundError, BranchNotFoundError: it does not exist.
            InvalidOptionError: not such a name, or a wrong option.
        """
        name = in_catalog(name, self.name)
        bare = split_suffix(name)[0]
        if not is_name(bare):
            raise InvalidOptionError(f"{name!r} is not the name of a table; expected database.table", name=name)
        given = as_text(options)
        branch = self._branch_of(name, given)
        is_lacked = branch is not None and not has_branch(self, *split_name(bare), branch.name)
        of_catalog = {} if branch is None or is_lacked else {SESSION_BRANCH: branch.name}
        found = load(name, {**self._tables.options, **of_catalog, **given, "warehouse": self.warehouse})
        return replace(found, lacked=branch) if is_lacked else found

    def _branch_of(self, name: str, given: Mapping[str, str]) -> LackedBranch | None:
        """The catalog's branch, unless a name or options of a use say which branch or version is meant."""
        branch = self.options.get(SESSION_BRANCH, MAIN)
        if branch == MAIN or split_suffix(name)[1] is not None or chooses_state(given):
            return None
        text = self.options.get(CREATE_BRANCH, "false")
        try:
            creates = boolean(text)
        except ValueError as e:
            raise InvalidOptionError(f"{CREATE_BRANCH} = {text!r}: {e}", option=CREATE_BRANCH) from e
        return LackedBranch(branch, f"option {SESSION_BRANCH} of the catalog", creates)

    def on_main(self) -> Catalog:
        """The same catalog without the option `branch`."""
        return replace(
            self, options={k: v for k, v in self.options.items() if k not in (SESSION_BRANCH, CREATE_BRANCH)}
        )

    def _refuse_whole(self, name: str, verb: str) -> None:
        """Refuse to drop or rename a whole table where the catalog works on a branch. Raises InvalidInputError."""
        branch = self._branch_of(name, {})
        if branch is not None:
            raise InvalidInputError(
                f"{name} would be {verb} with all its branches, and {branch.set_by} is {branch.name!r}; use a catalog "
                "without it",
                table=name,
                branch=branch.name,
            )

    def sql(
        self,
        statement: str,
        *,
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        session: SparkSession | None = None,
    ) -> DataFrame:
        """Run one SQL statement on the tables of this warehouse, by Spark; classic and Connect sessions.

        Names are as in `spark.sql` where this catalog is the current one: `db.t` and `paimon.db.t` are a table of the
        warehouse, `t` is one of the current database (`USE db`; at first `default`), unless a temporary view has the
        name. Tables of other catalogs have their names, as `spark_catalog.db.t`. `t$branch_fix` is a branch, `t$tags` a
        system table, and `VERSION AS OF '<version>'` takes what `Table.at` takes. Statements on tables of the warehouse
        run at once, queries when their rows are needed, reading only the columns and files that they need.

        Args:
            statement: SELECT, CREATE, ALTER, DROP, COMMENT, INSERT, DELETE, UPDATE, MERGE, TRUNCATE, SHOW, DESCRIBE,
                USE, EXECUTE IMMEDIATE, `CALL sys.…`, or anything else that Spark runs.
            args: values of the parameters `:name` or `?` in queries, as `spark.sql` takes them.
            session: default is the active session, else one is made.

        Returns:
            The rows; of statements that have none, a DataFrame without columns.
            INSERT, DELETE, UPDATE, MERGE and TRUNCATE have one row: the numbers of rows changed, null where unknown.

        Raises:
            SqlSyntaxError: a statement on Paimon tables is malformed, or there are several.
            NotFoundError: a table, version, column or procedure does not exist.
            UnsupportedFeatureError: what cannot be done here; says what to do instead.
            pyspark.errors.AnalysisException: Spark's error about a statement on Paimon tables, in one line.
            Others as the verbs of Catalog and Table that do it; Spark's own for its part.
        """
        return spark_sql().execute(self, statement, args, session)

    def register_functions(self, session: SparkSession | None = None, *, prefix: str = "") -> list[str]:
        """Give plain `spark.sql` table functions on this warehouse; classic and Connect. Returns their names.

        `paimon_table('db.t', 'fix.v1')` is a table, branch (`db.t$branch_fix`) or system table (`db.t$tags`) at a
        version, which may be left out; `paimon_incremental_query('db.t', 1, 'v1')`,
        `paimon_incremental_between_timestamp` and `paimon_incremental_to_auto_tag` are what changed between two;
        `paimon_table_diff('db.t', 'main', 'fix')` is the rows that differ between two, as `Table.diff` has them.
        Names without a database are of database `default`; times without a zone are read in the zone that the session
        has now. Arguments are constants.

        One task reads such a table, whole: conditions and columns of the query do not reach the files, and rows go
        through Python one by one. For large tables take `catalog.sql`, or a view by `Table.create_temp_view`.

        Args:
            session: default is the active session, else one is made.
            prefix: in front of the names, for sessions with several warehouses.
        """
        return spark_sql().register_functions(self, session, prefix)

    @property
    def lineage(self) -> Lineage:
        """Lineage of the warehouse: switch it on, and ask which snapshots came from which."""
        from paimon_spark.api.lineage_verbs import Lineage

        return Lineage(self)

    def pipeline(
        self,
        *tables: str | Table,
        downstream: bool = True,
        upstream: bool = False,
        stop_at: Sequence[str | Table] = (),
    ) -> Pipeline:
        """The pipeline of some tables: the tables and jobs downstream or upstream of them, from lineage.

        Args:
            tables: names, `db.t`, or opened tables, where it begins.
            downstream: follow jobs from the tables that they read to those that they write.
            upstream: follow jobs from the tables that they write to those that they read.
            stop_at: tables that belong to the pipeline, and beyond which it does not go.

        Raises:
            InvalidInputError: no table is given, or a branch.
            LineageError: lineage was never switched on.
            TableNotFoundError, DatabaseNotFoundError: there is no such table, and no job knows it.
            StorageError: a store failed.
        """
        from paimon_spark.api.pipeline import find_pipeline

        return find_pipeline(self, tables, downstream=downstream, upstream=upstream, stop_at=stop_at)

    def prepare(
        self,
        *tables: str | Table,
        keep: str | None = "7 d",
        tags: str | None = None,
        savepoint_days: int | None = None,
        downstream: bool = True,
        dry_run: bool = False,
    ) -> Preparation:
        """Set options of the tables of a pipeline so that a fault can be corrected when it is found, and lineage on.

        Options are set on main of each table by itself; what a table keeps already, or longer, stays.

        Args:
            tables: names, `db.t`, or opened tables.
            keep: how long snapshots are kept, `snapshot.time-retained`; `snapshot.num-retained.max` is reset. None
                leaves both as they are.
            tags: period of automatic tags, kept for 30 days: `daily`, `two-hours` or `hourly`; None makes none.
            savepoint_days: days between automatic savepoints, which this package makes; None makes none.
            downstream: also the tables downstream, as far as lineage knows them.
            dry_run: only return what would be set.

        Raises:
            InvalidInputError, InvalidOptionError: no table is given, or an argument is wrong.
            TableNotFoundError, DatabaseNotFoundError: there is no such table.
            StorageError, CommitError: an option cannot be set; those of earlier tables are.
        """
        from paimon_spark.api.pipeline import prepare_pipeline

        return prepare_pipeline(self, tables, (keep, tags, savepoint_days), downstream=downstream, dry_run=dry_run)

    def pipeline_branch(self, name: str) -> PipelineBranch:
        """Get the pipeline branch of a name. Raises NotFoundError, which names the existing ones."""
        from paimon_spark.api.pipeline_branch import get_pipeline_branch

        return get_pipeline_branch(self, name)

    def pipeline_branches(self) -> list[PipelineBranch]:
        """The pipeline branches of the warehouse, by name. Raises StorageError, CorruptFileError."""
        from paimon_spark.api.pipeline_branch import find_pipeline_branches

        return ShownList(find_pipeline_branches(self), "Pipeline branches", ("name", "tables"))

    def releases(self) -> list[Release]:
        """The releases of the warehouse: what was published or undone together, oldest first.

        Interrupted publications are finished first, so that each release is there as a whole.

        Raises:
            StorageError, CorruptFileError: a record cannot be read.
        """
        from paimon_spark.api.release import find_releases

        return ShownList(find_releases(self), "Releases", ("id", "time_ms", "tables"))

    def release(self, release_id: int) -> Release:
        """Get the release of a number. Raises NotFoundError, which names the newest ones."""
        from paimon_spark.api.release import get_release

        return get_release(self, release_id)

    def register_table(self, name: str) -> None:
        """List the table `db.t`, whose files are in the warehouse, where the metastore does not know it.

        A table that was written by its path is not listed by a JDBC or Hive metastore. Nothing changes in a warehouse
        without a metastore.

        Raises:
            InvalidOptionError: not such a name.
            TableNotFoundError: there are no files of such a table.
            CatalogError: the metastore failed.
        """
        self._tables.register(*split_name(name, self.name))

    @property
    def _tables(self) -> FileSystemCatalog:
        return open_catalog(self.warehouse, self.options)


def load_catalog(warehouse: str | None = None, **options: OptionValue) -> Catalog:
    """The catalog of a warehouse, which is created with its first database.

    Args:
        warehouse: path or URL; default is `PAIMON_WAREHOUSE`, else that of the configuration file.
        options: how to reach the file system: `**{"fs.key": "…"}`; options of the tables that the catalog makes:
            `**{"table-default.file.format": "orc"}`; those of a job, for all its tables: `**{"lineage.job": "j"}`;
            the branch to which reads and writes go of the tables that have it: `branch="fix"`;
            and what the warehouse records: `**{"table-lineage": "true", "data-lineage": "true"}` switch lineage on as
            `catalog.lineage.enable(table=…, data=…)` does, if the warehouse exists; else the first database does it.

    Raises:
        InvalidOptionError: no warehouse is given, an option is not known, or lineage is false here and on in the
            warehouse.
        StorageError, CommitError: lineage cannot be switched on.
    """
    defaults = configured()
    given = as_text(options)
    where = warehouse or defaults.pop("warehouse", None) or default_warehouse({**defaults, **given})
    if not where:
        raise InvalidOptionError("no warehouse is given; pass warehouse=… or set PAIMON_WAREHOUSE", option="warehouse")
    for key in given:
        if not is_storage_option(key) and not key.startswith(TABLE_DEFAULT) and key not in _OPTIONS:
            raise unknown_option(key, ["warehouse", *_OPTIONS], "catalog")
    check_job_options(given)
    refuse_follow(given, "a catalog")
    defaults.pop("warehouse", None)
    catalog = Catalog(where, {**defaults, **given})
    open_catalog(where, catalog.options)  # checks them
    _apply_lineage(catalog)
    return catalog


def has_branch(catalog: Catalog, database: str, table: str, branch: str) -> bool:
    """Whether a table exists and has this branch; False for `main`."""
    place = find_directory(catalog, database, table)
    return place is not None and is_branch(place[0], Layout(place[1]), branch)


def find_directory(catalog: Catalog, database: str, table: str) -> tuple[Store, str] | None:
    """The store and the directory of a table, which need not exist; None where this is not the name of one."""
    try:
        place = open_catalog(catalog.warehouse, catalog.options).place(database, table)
    except InvalidOptionError:
        return None
    return place.store, place.root


def _apply_lineage(catalog: Catalog) -> None:
    """Switch lineage on where the options of a catalog ask for it. Raises as `load_catalog`."""
    asked = parse_catalog_lineage(catalog.options)
    if asked.is_given:
        from paimon_spark.api.lineage_verbs import apply_catalog_options

        apply_catalog_options(catalog.lineage, asked)
