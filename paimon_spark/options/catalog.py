"""Options of catalogs: where names of databases and tables are kept.

Source: Java `options/CatalogOptions`, `jdbc/JdbcCatalogOptions`, `hive/HiveCatalogOptions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.descriptor import (
    at_least_one,
    boolean,
    duration_ms,
    integer,
    one_of,
    option,
    options_of,
    parse_group,
    string,
)

FILE_SYSTEM: Final = "filesystem"
JDBC: Final = "jdbc"
HIVE: Final = "hive"
_JDBC_PREFIX: Final = "jdbc."


@dataclass(frozen=True, slots=True)
class CatalogOptions:
    """What the options say of a catalog; durations are in milliseconds."""

    metastore: str = option(
        "metastore",
        one_of({name: name for name in (FILE_SYSTEM, JDBC, HIVE)}),
        FILE_SYSTEM,
        "Where the names of databases and tables are kept: in the directories of the warehouse, or in a metastore.",
    )
    uri: str = option("uri", string, "", "Address of the metastore: jdbc:… or thrift://host:port.")
    lock_enabled: bool | None = option(
        "lock.enabled",
        boolean,
        None,
        "Whether commits take the lock of the metastore. Default: on object stores, as in Java Paimon.",
    )
    lock_timeout_ms: int = option(
        "lock-acquire-timeout",
        duration_ms,
        480_000,
        "How long to wait for a lock, and how long others wait until they break it.",
    )
    lock_sleep_ms: int = option("lock-check-max-sleep", duration_ms, 8_000, "Longest wait between two looks at a lock.")
    catalog_key: str = option("catalog-key", string, "jdbc", "Name of the catalog in the tables of a JDBC metastore.")
    lock_key_length: int = option(
        "lock-key-max-length", at_least_one(integer), 255, "Longest name of a lock in a JDBC metastore."
    )
    hive_conf_dir: str = option("hive-conf-dir", string, "", "Folder of hive-site.xml, which may name the metastore.")
    jdbc: Mapping[str, str] = field(default_factory=dict)


_NAMES: Final = frozenset(o.key for o in options_of(CatalogOptions).values())


def is_catalog_option(key: str) -> bool:
    """Whether an option says where a catalog is and how to reach it."""
    return key in _NAMES or key.startswith(_JDBC_PREFIX)


def parse_catalog_options(options: Mapping[str, str]) -> CatalogOptions:
    """The options of a catalog. Raises InvalidOptionError: a value is wrong, or `uri` is missing."""
    of_jdbc = {k.removeprefix(_JDBC_PREFIX): v for k, v in options.items() if k.startswith(_JDBC_PREFIX)}
    found = parse_group(CatalogOptions, options, jdbc=of_jdbc)
    if found.metastore == JDBC and not found.uri:
        raise InvalidOptionError(
            "metastore = 'jdbc' needs the option uri with its address, such as jdbc:postgresql://host:5432/database or "
            "jdbc:sqlite:/path/of/file",
            option="uri",
        )
    return found
