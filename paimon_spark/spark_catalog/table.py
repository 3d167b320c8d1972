"""A table, branch or system table of an attached catalog, as Spark reads and writes it.

Source: Spark `connector/catalog/Table.java`, `SupportsRead.java`, `SupportsWrite.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.api.pipeline_branch import start_of_replay
from paimon_spark.engine.scan.splits import totals_of
from paimon_spark.engine.tasks import METADATA_COLUMNS, SplitMode
from paimon_spark.errors import InvalidOptionError, NotFoundError
from paimon_spark.options.lineage import JOB
from paimon_spark.options.location import TableName
from paimon_spark.options.scan import (
    BRANCH,
    START_KEYS,
    TIME_ZONE,
    VERSION_AS_OF,
    canonical,
    chooses_state,
    names_branch,
)
from paimon_spark.spark.schema import spark_schema
from paimon_spark.spark_catalog.jvm.gateway import CATALOG, SQL, Gateway
from paimon_spark.spark_catalog.jvm.proxies import Proxy
from paimon_spark.spark_catalog.reads.predicates import Conditions
from paimon_spark.spark_catalog.reads.scan import TableScanProxy
from paimon_spark.spark_catalog.reads.scan_builder import ScanBuilderProxy
from paimon_spark.spark_catalog.writes.write import MATCHING, WriteBuilderProxy
from paimon_spark.sql.commands.create import check_location
from paimon_spark.sql.commands.show import table_properties
from paimon_spark.sql.commands.target import refuse_exact_case
from paimon_spark.sql.session import Session, options_of_run
from paimon_spark.types import ROW_ID, SEQUENCE_NUMBER, RowType, quoted

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

    from paimon_spark.api.table import Table
    from paimon_spark.jobs.read.scan import Scan

STATE_OPTIONS: Final = (*START_KEYS, BRANCH.key, *BRANCH.fallbacks, "read.changelog")
"""Options of a read that change which rows or columns a table has."""
_CAPABILITY: Final = CATALOG + "TableCapability"
_READS: Final = ("BATCH_READ",)
_ALL: Final = (
    "BATCH_READ", "MICRO_BATCH_READ", "V1_BATCH_WRITE", "BATCH_WRITE", "STREAMING_WRITE", "TRUNCATE",
    "OVERWRITE_BY_FILTER", "OVERWRITE_DYNAMIC", "ACCEPT_ANY_SCHEMA",
)  # fmt: skip
_MILLIS: Final = "scan.timestamp-millis"
_TRAVEL_OPTIONS: Final = (VERSION_AS_OF, "timestampAsOf")


@dataclass(frozen=True, slots=True)
class TimeTravel:
    """VERSION AS OF or TIMESTAMP AS OF."""

    version: str | None = None
    timestamp_us: int | None = None

    def options(self) -> dict[str, str]:
        """The read options that say the same."""
        if self.version is not None:
            return {VERSION_AS_OF: self.version}
        assert self.timestamp_us is not None
        return {_MILLIS: str(self.timestamp_us // 1000)}


class TableProxy(
    Proxy,
    implements=(
        CATALOG + "SupportsRead", CATALOG + "SupportsWrite", CATALOG + "SupportsMetadataColumns",
        "java.util.function.Supplier", "java.util.function.BooleanSupplier",
    ),
    constants=(
        "canRenameConflictingMetadataColumns", "capabilities", "columns", "constraints", "id", "metadataColumns",
        "name", "partitioning", "properties", "schema", "toString", "version",
    ),
):  # fmt: skip
    """A table at the snapshot that was the newest when Spark analyzed the query, or at the version that it names."""

    def __init__(
        self,
        gateway: Gateway,
        session: Session,
        name: TableName,
        travel: TimeTravel | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Open the table. Raises as `Catalog.table`."""
        self.gateway = gateway
        self.session = session
        given = options or {}
        # For a stream the options of a version say where it starts, maybe at a snapshot that is still to come.
        is_fixed = travel is not None or names_branch(given) or name.branch is not None
        asked = None if is_fixed else session.branch_of_settings(name)
        self._branch = None if asked is None else asked.name
        self._stream_name = name if travel is not None or names_branch(given) else session.on_branch(name)
        self.table_name = name if chooses_state(given) else self._stream_name
        self._travel = travel
        self._given = _state(given)
        self._run = options_of_run()
        self._scan, self._failure = self._version({})
        self._row_type = self._scan.row_type
        self._java: dict[str, Any] = {}

    def _table(self, options: Mapping[str, str] | None = None) -> Table:
        """The table with the options of the session, of the time travel and `options`."""
        given = self.session.options(self.table_name)
        asked = canonical({**self._given, **(options or {})})
        if self._travel is not None:
            given = {k: v for k, v in given.items() if k not in START_KEYS}
            # Spark makes the time travel of these options too, and refuses a clause beside them.
            asked = {k: v for k, v in asked.items() if k not in _TRAVEL_OPTIONS} | self._travel.options()
        return self.session.table(
            self.table_name, {TIME_ZONE.key: self.session.time_zone, **given, **asked, **self._run}
        )

    def _scan_with(self, options: Mapping[str, str]) -> Scan:
        return self._table(options).scan()

    def _version(self, options: Mapping[str, str]) -> tuple[Scan, NotFoundError | None]:
        """The read with `options`. Of a version that is not there the head, for streams, and the error of other reads.

        Raises as `Catalog.table`.
        """
        try:
            return self._scan_with(options).pinned(), None
        except NotFoundError as e:
            asked = canonical({**self._given, **options})
            if self._travel is not None or not chooses_state(asked) or names_branch(asked):
                raise
            return self.session.table(self._stream_name, {TIME_ZONE.key: self.session.time_zone}).scan().pinned(), e

    def _once(self, key: str, make: Any) -> Any:
        if key not in self._java:
            self._java[key] = make()
        return self._java[key]

    def has_changed(self) -> bool:
        """Whether a new read would read other rows or columns. Raises as `Catalog.table`."""
        if self._scan.is_system:
            return True
        now, _ = self._version({})
        return (now.snapshot_id, now.row_type) != (self._scan.snapshot_id, self._row_type)

    # Table

    def name(self) -> str:
        """The name in messages and plans."""
        return f"{self.session.catalog_name}.{self.table_name}"

    def id(self) -> str | None:
        """No id: a table that was dropped and created again has the same name."""
        return None

    def version(self) -> str | None:
        """The snapshot that is read, so that Spark reads each query of a DataFrame at the then newest one."""
        snapshot = self._scan.snapshot_id
        return None if self._scan.is_system or self._travel is not None else str(snapshot or 0)

    def schema(self) -> Any:
        """The columns."""
        return self._once("schema", lambda: self.gateway.struct(spark_schema(self._row_type).json()))

    def columns(self) -> Any:
        """The columns, as Spark's V2 has them."""
        return self._once("columns", lambda: self.gateway.columns(self._row_type))

    def partitioning(self) -> Any:
        """The partition columns."""
        return self._once("partitioning", self._partitioning)

    def _partitioning(self) -> Any:
        keys = () if self._scan.is_system else self._scan.handle.schema.partition_keys
        kind = SQL + "connector.expressions.Transform"
        identity = self.gateway.static(SQL + "connector.expressions.Expressions", "identity")
        return self.gateway.array(kind, [identity(quoted(k)) for k in keys])

    def properties(self) -> Any:
        """The options of the table, its primary key and comment, for DESCRIBE and SHOW."""
        return self._once("properties", lambda: self.gateway.java_map(self._properties()))

    def _properties(self) -> dict[str, str]:
        if self._scan.is_system:
            return {"provider": "paimon"}
        found = {**table_properties(self._table()), "provider": "paimon", "location": self._scan.handle.location}
        comment = self._scan.handle.schema.comment
        return found if not comment else {**found, "comment": comment}

    def constraints(self) -> Any:
        """Always None: primary keys are properties."""
        return self.gateway.array(CATALOG + "constraints.Constraint")

    def capabilities(self) -> Any:
        """Capabilities of the table in Spark; a system table and a version are only read."""
        names = _READS if self._is_read_only else _ALL
        return self.gateway.once(
            f"capabilities {names}",
            lambda: self.gateway.java_set([self.gateway.constant(_CAPABILITY, n) for n in names]),
        )

    @property
    def _is_read_only(self) -> bool:
        return self._scan.is_system or self._travel is not None

    # SupportsMetadataColumns

    def metadataColumns(self) -> Any:
        """The columns that are read only if they are named."""
        return self._once("metadata", self._metadata_columns)

    def _metadata_columns(self) -> Any:
        kind = CATALOG + "MetadataColumn"
        if self._scan.is_system:
            return self.gateway.array(kind)
        own = set(self._row_type.names)
        tracking = (ROW_ID, SEQUENCE_NUMBER) if self._scan.handle.options.row_tracking else ()
        names = [n for n in (*METADATA_COLUMNS, *tracking) if n not in own]
        found = RowType(False, tuple(self._scan.columns_named(names)))
        struct = spark_schema(found)

        def make() -> Any:
            return self.gateway.array(kind, [MetadataColumnProxy(self.gateway, f) for f in struct.fields])

        return self.gateway.once(f"metadata columns {struct.json()}", make)

    def canRenameConflictingMetadataColumns(self) -> bool:
        """No: the names are fixed."""
        return False

    # SupportsRead, SupportsWrite

    def newScanBuilder(self, options: Any) -> Any:
        """A read, which takes the columns and conditions of the query."""
        given = _of_reads(self.gateway.text_map(options.asCaseSensitiveMap()))
        new = {k: v for k, v in given.items() if self._given.get(k) != v}
        scan, failure = self._scan, self._failure
        if new:
            scan, failure = self._version(new)
            if any(k in STATE_OPTIONS for k in new) and scan.row_type != self._row_type:
                raise InvalidOptionError(
                    f"{self.name()} has other columns with {', '.join(f'{k}={v}' for k, v in new.items())}; use "
                    "VERSION AS OF, or spark.read.format('paimon')",
                    option=next(iter(new)),
                )
        run = options_of_run()
        if run and not self._run and not scan.is_system:  # of the write that has got this DataFrame
            scan = scan.with_options_of_use(run)
        options = {**self._stream_options(), **given}
        return ScanBuilderProxy(
            self.gateway, self.session.spark, scan, self._row_type, options, failure, self._replay_start(options)
        )

    def _replay_start(self, options: Mapping[str, str]) -> Callable[[str], Mapping[str, str]] | None:
        """Finder of the start of a stream that runs again on the pipeline branch of the session.

        None where the session works on no branch, or the options say where streams start.
        """
        if self._branch is None or not set(START_KEYS).isdisjoint(canonical(options)):
            return None
        branch, name, session = self._branch, self._stream_name, self.session
        of_job = session.settings_of(self.table_name).get(JOB.key)

        def start(query: str) -> Mapping[str, str]:
            has_branch = name.branch is not None
            return start_of_replay(
                session.catalog, branch, of_job or query, name.database, name.table, on_branch=has_branch
            )

        return start

    def _stream_options(self) -> dict[str, str]:
        branch = self._stream_name.branch
        on_branch = {} if branch is None else {BRANCH.key: branch}
        found = {**on_branch, **self.session.options(self.table_name), **self._given}
        return {**found, **(self._travel.options() if self._travel is not None else {})}

    def newWriteBuilder(self, info: Any) -> Any:
        """A write of a DataFrame or a stream. Raises UnsupportedFeatureError: option `path` names another place."""
        refuse_exact_case(self.session)
        name = self.session.to_write(self.table_name)
        check_location(self.session.catalog, name, info.options().get("path"))
        return WriteBuilderProxy(self.gateway, self.session, name, self._row_type, info, self._given)

    def get(self) -> str:
        """The option of writes that says how Spark matches their columns: see `java/TableWrites.java`."""
        return MATCHING

    def getAsBoolean(self) -> bool:
        """Whether Python reads files of the table and merges no rows: see `FilePaths` in `java/TableWrites.java`."""
        if self._scan.is_system or self._failure is not None:
            return False
        scan = self._table().scan()
        if totals_of(scan.plan().splits).modes.keys() - {SplitMode.RAW, SplitMode.EVOLVED}:
            return False  # merged rows are of no single file
        return not TableScanProxy(self.gateway, self.session.spark, scan, Conditions(self.gateway), {}).is_read_by_spark

    def toString(self) -> str:
        return self.name()

    def _key(self) -> str:
        """Which rows are read, so that cached rows are found again."""
        given = sorted(self._given.items())
        run = list(self._run.items())  # cached rows were not read by this run
        of = (self.session.catalog.warehouse, self.session.catalog_name, self.table_name, self._travel, given, run)
        return repr((*of, self._scan.snapshot_id))


class MetadataColumnProxy(
    Proxy,
    implements=(CATALOG + "MetadataColumn",),
    constants=("comment", "dataType", "isNullable", "metadataInJSON", "name", "transform"),
):
    """A column that is read only if it is named."""

    def __init__(self, gateway: Gateway, field: StructField) -> None:
        self.gateway = gateway
        self._field = field

    def name(self) -> str:
        """The name of the column."""
        return self._field.name

    def dataType(self) -> Any:
        """The type of the column."""
        return self.gateway.struct(self._field.dataType.json())

    def isNullable(self) -> bool:
        """Whether it may be null."""
        return bool(self._field.nullable)

    def comment(self) -> str | None:
        """No comment."""
        return None

    def transform(self) -> None:
        """No transform of other columns."""

    def metadataInJSON(self) -> None:
        """No metadata."""


def _state(options: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in options.items() if k.lower() != "path"}


def _of_reads(options: Mapping[str, str]) -> dict[str, str]:
    """Options of a read; Spark adds some of its own."""
    return {k: v for k, v in options.items() if k.lower() not in ("path", "__table_name__")}
