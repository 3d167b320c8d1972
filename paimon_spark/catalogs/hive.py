"""HiveRegistry: names and locks in a Hive metastore, as Java Paimon's catalog keeps them.

A table is listed with its columns as Hive names their types, Paimon's input format, and its directory.

Source: Java `hive/HiveCatalog`, `hive/HiveCatalogLock`, `hive/HiveTypeUtils`; Hive's `hive_metastore.thrift`, and its
`HiveVarchar` and `HiveChar` for lengths.
"""

from __future__ import annotations

import getpass
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

from paimon_spark.catalogs.registered import wait_for_lock
from paimon_spark.errors import CatalogError, InvalidOptionError, PaimonError
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.options.catalog import CatalogOptions
from paimon_spark.redaction import get_logger, shown_option
from paimon_spark.text import reason
from paimon_spark.types import (
    ArrayType,
    AtomicType,
    CharType,
    DataType,
    DecimalType,
    MapType,
    MultisetType,
    RowType,
    TimestampType,
    TimeType,
    VectorType,
)

_LOG = get_logger(__name__)
_INPUT: Final = "org.apache.paimon.hive.mapred.PaimonInputFormat"
_OUTPUT: Final = "org.apache.paimon.hive.mapred.PaimonOutputFormat"
_SERDE: Final = "org.apache.paimon.hive.PaimonSerDe"
_PARAMETERS: Final = {"table_type": "PAIMON", "storage_handler": "org.apache.paimon.hive.PaimonStorageHandler"}
_LOCATION: Final = "paimon_location"
"""Property with the location, where Java keeps it out of Hive's own fields (`location-in-properties`)."""
_EXTERNAL: Final = "EXTERNAL_TABLE"
_OWN_OPTIONS: Final = "hive."
_IN_METASTORE: Final = "metastore.partitioned-table"
_ATOMIC: Final = {"VARIANT": "struct<value:binary,metadata:binary>"}
_LONGEST_VARCHAR: Final = 65535
_LONGEST_CHAR: Final = 255
_BATCH: Final = 300
_CONNECT_MS: Final = 20_000
_CALL_MS: Final = 120_000
_PORT: Final = 9083


@dataclass(frozen=True)
class HiveRegistry:
    """A registry in a Hive metastore.

    Attributes:
        options: of the catalog; `uri` is `thrift://host[:port]`, or several with commas between, tried in order.
            Without it `hive-site.xml` in `hive_conf_dir` or in HIVE_CONF_DIR names them.
    """

    options: CatalogOptions = field(repr=False)

    @property
    def address(self) -> str:
        return ",".join(self._addresses())

    def default_warehouse(self) -> str:
        """The directory where the metastore makes databases."""
        with self._connected() as hive:
            return str(hive.get_config_value("hive.metastore.warehouse.dir", ""))

    def list_databases(self) -> list[str]:
        with self._connected() as hive:
            return sorted(hive.get_all_databases())

    def database_url(self, database: str, default: str) -> str | None:
        with self._connected() as hive:
            found = _or_none(hive.get_database, database)
        if found is None:
            return None
        return str((found.parameters or {}).get(_LOCATION) or found.locationUri or default)

    def add_database(self, database: str, url: str) -> bool:
        from pymetastore.hive_metastore import ttypes

        with self._connected() as hive:
            try:
                hive.create_database(ttypes.Database(name=database, locationUri=url, parameters={}))
            except ttypes.AlreadyExistsException:
                return False
        return True

    def remove_database(self, database: str) -> None:
        with self._connected() as hive:
            hive.drop_database(database, False, False)

    def list_tables(self, database: str) -> list[str]:
        with self._connected() as hive:
            names = hive.get_all_tables(database)
            parts = [names[i : i + _BATCH] for i in range(0, len(names), _BATCH)]
            found = [table for part in parts for table in hive.get_table_objects_by_name(database, part)]
        return sorted(table.tableName for table in found if _is_paimon(table))

    def table_url(self, database: str, table: str, default: str) -> str | None:
        found = self._find(database, table)
        if found is None:
            return None
        return str((found.parameters or {}).get(_LOCATION) or found.sd.location or default)

    def keeps_files(self, database: str, table: str) -> bool:
        found = self._find(database, table)
        return found is not None and found.tableType == _EXTERNAL

    def add_table(self, database: str, table: str, url: str, schema: TableSchema) -> bool:
        from pymetastore.hive_metastore import ttypes

        now = int(time.time())
        made = ttypes.Table(
            tableName=table,
            dbName=database,
            owner=_user(),
            createTime=now,
            lastAccessTime=now,
            retention=2**31 - 1,
            sd=ttypes.StorageDescriptor(
                location=url,
                inputFormat=_INPUT,
                outputFormat=_OUTPUT,
                serdeInfo=ttypes.SerDeInfo(serializationLib=_SERDE, parameters={}),
                bucketCols=[],
                sortCols=[],
                parameters={},
            ),
            parameters=dict(_PARAMETERS),
            tableType="MANAGED_TABLE",
        )
        _describe(made, schema)
        with self._connected() as hive:
            try:
                hive.create_table(made)
            except ttypes.AlreadyExistsException as e:
                found = hive.get_table(database, table)
                if not _is_paimon(found):
                    raise CatalogError(
                        f"table {database}.{table} cannot be created: the metastore {self.address} has a table or view "
                        "of this name that is not Paimon's; choose another name",
                        table=f"{database}.{table}",
                    ) from e
                return False
        return True

    def change_table(self, database: str, table: str, schema: TableSchema) -> None:
        from pymetastore.hive_metastore import ttypes

        with self._connected() as hive:
            found = _or_none(hive.get_table, database, table)
            if found is None:
                return
            _describe(found, schema)
            try:
                hive.alter_table(database, table, found)
            except ttypes.InvalidOperationException as e:  # engines of Paimon read the table's own schema
                _LOG.warning("the metastore keeps the former columns of table %s.%s: %s", database, table, _reason(e))

    def remove_table(self, database: str, table: str) -> None:
        from pymetastore.hive_metastore import ttypes

        with self._connected() as hive, suppress(ttypes.NoSuchObjectException):
            hive.drop_table(database, table, False)

    def rename_table(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        with self._connected() as hive:
            found = hive.get_table(*old)
            found.dbName, found.tableName = new
            hive.alter_table(*old, found)

    def move_table(self, database: str, table: str, url: str) -> None:
        with self._connected() as hive:
            found = hive.get_table(database, table)
            found.sd.location = url
            if _LOCATION in (found.parameters or {}):
                found.parameters[_LOCATION] = url
            hive.alter_table(database, table, found)

    @contextmanager
    def lock(self, database: str, table: str) -> Iterator[None]:
        with self._connected() as hive:
            held = self._acquire(hive, database, table)
        try:
            yield
        finally:
            try:
                with self._connected() as hive:
                    _release(hive, held)
            except CatalogError as e:  # what it guarded is done; the metastore breaks the lock after a while
                _LOG.warning("the lock of table %s.%s could not be released: %s", database, table, e)

    def _acquire(self, hive: Any, database: str, table: str) -> int:
        from pymetastore.hive_metastore import ttypes

        part = ttypes.LockComponent(
            type=ttypes.LockType.EXCLUSIVE, level=ttypes.LockLevel.TABLE, dbname=database, tablename=table
        )
        part.operationType = None  # as clients of older releases, which Java's is
        name = f"{database}.{table} of {self.address}"
        answer = hive.lock(ttypes.LockRequest(component=[part], user=_user(), hostname=socket.gethostname()))
        lock, states = int(answer.lockid), iter([answer.state])

        def is_acquired() -> bool:
            state = next(states, None) or hive.check_lock(ttypes.CheckLockRequest(lockid=lock)).state
            if state not in (ttypes.LockState.ACQUIRED, ttypes.LockState.WAITING):
                raise CatalogError(f"lock {name} was refused: its state is {state}; try again", retryable=True)
            return bool(state == ttypes.LockState.ACQUIRED)

        try:
            wait_for_lock(is_acquired, name, self.options)
        except BaseException:
            _release(hive, lock)
            raise
        return lock

    def _find(self, database: str, table: str) -> Any | None:
        """The Paimon table of this name."""
        with self._connected() as hive:
            found = _or_none(hive.get_table, database, table)
        return found if found is not None and _is_paimon(found) else None

    def _addresses(self) -> Sequence[str]:
        named = self.options.uri or _uris_of_site(self.options.hive_conf_dir or os.environ.get("HIVE_CONF_DIR"))
        found = [uri.strip() for uri in named.split(",") if uri.strip()]
        wrong = [uri for uri in found if urlsplit(uri).scheme != "thrift" or not urlsplit(uri).hostname]
        if wrong or not found:
            shown = shown_option("uri", named)
            raise InvalidOptionError(
                f"uri = {shown!r} is no address of a Hive metastore; expected thrift://host[:port], or leave it out "
                "and name the folder of hive-site.xml with hive-conf-dir or HIVE_CONF_DIR",
                option="uri",
            )
        return found

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """A client of the first metastore that answers. Raises CatalogError."""
        addresses = self._addresses()
        try:
            from pymetastore.hive_metastore import ThriftHiveMetastore
            from thrift.protocol.TBinaryProtocol import TBinaryProtocol
            from thrift.transport.TSocket import TSocket
            from thrift.transport.TTransport import TBufferedTransport
        except ImportError as e:
            raise CatalogError("no client of Hive metastores is installed: install paimon-spark[hive]") from e
        for number, address in enumerate(addresses, 1):
            parts = urlsplit(address)
            transport = TSocket(parts.hostname, parts.port or _PORT)
            transport.setTimeout(_CONNECT_MS)
            try:
                transport.open()
            except Exception as e:
                if number < len(addresses):
                    continue
                raise CatalogError(
                    f"no Hive metastore answers at {self.address}: {_reason(e)}; check the option uri", retryable=True
                ) from e
            break
        transport.setTimeout(_CALL_MS)
        try:
            yield ThriftHiveMetastore.Client(TBinaryProtocol(TBufferedTransport(transport)))
        except PaimonError:
            raise
        except Exception as e:  # of Thrift and of the server
            raise CatalogError(f"the Hive metastore {self.address} failed: {_reason(e)}") from e
        finally:
            transport.close()


def _describe(table: Any, schema: TableSchema) -> None:
    """Give a table of the metastore the columns and properties of a schema."""
    from pymetastore.hive_metastore import ttypes

    columns = {
        f.name: ttypes.FieldSchema(name=f.name, type=_hive_type(f.type), comment=f.description)
        for f in schema.row_type.fields
    }
    by_partition = schema.options.get(_IN_METASTORE, "").strip().lower() == "true"
    keys = list(schema.partition_keys) if by_partition else []
    table.sd.cols = [column for name, column in columns.items() if name not in keys]
    table.partitionKeys = [columns[name] for name in keys]
    table.parameters = {
        **(table.parameters or {}),
        **{k.removeprefix(_OWN_OPTIONS): v for k, v in schema.options.items() if k.startswith(_OWN_OPTIONS)},
    }
    if schema.comment:
        table.parameters["comment"] = schema.comment


def _hive_type(data_type: DataType) -> str:
    """The name of the type in Hive that a column of the table has there."""
    match data_type:
        case AtomicType(name=name):
            return _ATOMIC.get(name, name.lower())
        case DecimalType(precision=precision, scale=scale):
            return f"decimal({precision},{scale})"
        case CharType(length=length, varying=True):
            return f"varchar({length})" if length <= _LONGEST_VARCHAR else "string"
        case CharType(length=length):
            return f"char({length})" if length <= _LONGEST_CHAR else "string"
        case TimestampType():
            # Hive 2 has no type for times with a zone, and Java gives the same name to both there.
            return "timestamp"
        case ArrayType(element=element) | VectorType(element=element):
            return f"array<{_hive_type(element)}>"
        case MultisetType(element=element):
            return f"map<{_hive_type(element)},int>"
        case MapType(key=key, value=value):
            return f"map<{_hive_type(key)},{_hive_type(value)}>"
        case RowType(fields=fields):
            return f"struct<{','.join(f'{field.name}:{_hive_type(field.type)}' for field in fields)}>"
        case TimeType():
            return "string"
    return "binary"


def _is_paimon(table: Any) -> bool:
    return table.sd is not None and (table.sd.inputFormat, table.sd.outputFormat) == (_INPUT, _OUTPUT)


def _or_none(get: Any, *names: str) -> Any | None:
    from pymetastore.hive_metastore import ttypes

    try:
        return get(*names)
    except ttypes.NoSuchObjectException:
        return None


def _release(hive: Any, lock: int) -> None:
    from pymetastore.hive_metastore import ttypes

    with suppress(ttypes.NoSuchLockException):
        hive.unlock(ttypes.UnlockRequest(lockid=lock))


def _uris_of_site(folder: str | None) -> str:
    """The addresses that `hive-site.xml` of a folder names."""
    path = os.path.join(folder, "hive-site.xml") if folder else ""
    if not path or not os.path.exists(path):
        return ""
    for found in ET.parse(path).iter("property"):  # noqa: S314 - the user's own file
        if found.findtext("name") == "hive.metastore.uris":
            return found.findtext("value") or ""
    return ""


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a name for its user
        return "unknown"


def _reason(cause: Exception) -> str:
    """As `text.reason`; errors of Thrift have their text in a field."""
    return reason(cause, getattr(cause, "message", None) or None)
