"""Options of catalogs: where names of databases and tables are kept.

Source: Java `options/CatalogOptions`, `jdbc/JdbcCatalogOptions`, `hive/HiveCatalogOptions`, `rest/RESTCatalogOptions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from paimon_spark.errors import InvalidOptionError
from paimon_spark.options.descriptor import (
    Option,
    at_least_one,
    boolean,
    duration_ms,
    field_of,
    integer,
    names,
    one_of,
    option,
    options_of,
    parse_group,
    string,
)
from paimon_spark.redaction import shown_option

FILE_SYSTEM: Final = "filesystem"
JDBC: Final = "jdbc"
HIVE: Final = "hive"
REST: Final = "rest"
BEARER: Final = "bear"
DLF: Final = "dlf"
ECS: Final = "ecs"
_JDBC_PREFIX: Final = "jdbc."
_HEADER_PREFIX: Final = "header."
_ECS_METADATA: Final = "http://100.100.100.200/latest/meta-data/Ram/security-credentials/"

ALLOWED_EXTERNAL_PATHS: Final[Option[tuple[str, ...] | None]] = Option(
    "catalog.allowed-external-paths",
    names,
    None,
    "Locations below which tables may have files outside their directories: files there are read where the table's "
    "data-file.external-paths lists them too, and deleted as the table needs them no longer. Default: files of the "
    "table's own bucket or host are read, and none is deleted.",
)
"""Kept by stores with the options that reach them, so that it goes wherever a table goes."""


@dataclass(frozen=True, slots=True, repr=False)
class CatalogOptions:
    """Options of a catalog; durations are in milliseconds."""

    metastore: str = option(
        "metastore",
        one_of({name: name for name in (FILE_SYSTEM, JDBC, HIVE, REST)}),
        FILE_SYSTEM,
        "Where the names of databases and tables are kept: in the directories of the warehouse, in a metastore, or on "
        "the server of a REST catalog.",
    )
    uri: str = option("uri", string, "", "Address of the metastore: jdbc:…, thrift://host:port or https://….")
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
    token_provider: str = option(
        "token.provider",
        one_of({BEARER: BEARER, DLF: DLF}),
        BEARER,
        "How to log in to a REST catalog: with the option token, or by the signatures of Alibaba Cloud DLF.",
    )
    token: str = option("token", string, "", "Bearer token of a REST catalog.")
    data_token: bool | None = option(
        "data-token.enabled",
        boolean,
        None,
        "Whether the server of a REST catalog hands out the keys of the store, a table at a time. Default: as it says.",
    )
    rest_local_warehouse: str = option(
        "rest.local-warehouse",
        string,
        "",
        "Folder of this machine below which the server of a REST catalog may name files. Default: the option warehouse "
        "where that is a folder; else a server may name only object stores and HDFS.",
    )
    dlf_region: str = option("dlf.region", string, "", "Region of DLF; default is the one in uri.")
    dlf_access_key_id: str = option("dlf.access-key-id", string, "", "Access key of DLF.")
    dlf_access_key_secret: str = option("dlf.access-key-secret", string, "", "Secret of the access key of DLF.")
    dlf_security_token: str = option("dlf.security-token", string, "", "Security token of a temporary access key.")
    dlf_token_path: str = option("dlf.token-path", string, "", "File with an access key of DLF, read anew as it ends.")
    dlf_token_loader: str = option(
        "dlf.token-loader",
        one_of({name: name for name in ("local_file", ECS)}),
        "",
        "Where the access key of DLF comes from: dlf.token-path, or the machine's role on ECS.",
    )
    dlf_ecs_url: str = option("dlf.token-ecs-metadata-url", string, _ECS_METADATA, "Where ECS tells access keys.")
    dlf_ecs_role: str = option("dlf.token-ecs-role-name", string, "", "Role on ECS; default is the machine's own.")
    dlf_signing: str = option(
        "dlf.signing-algorithm",
        one_of({name: name for name in ("default", "openapi")}),
        "",
        "How requests to DLF are signed; default is by uri.",
    )
    allowed_external_paths: tuple[str, ...] | None = field_of(ALLOWED_EXTERNAL_PATHS)
    jdbc: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"CatalogOptions(metastore={self.metastore!r}, uri={shown_option('uri', self.uri)!r})"


_NAMES: Final = frozenset(o.key for o in options_of(CatalogOptions).values())


def is_catalog_option(key: str) -> bool:
    """Whether an option says where a catalog is and how to reach it."""
    return key in _NAMES or key.startswith((_JDBC_PREFIX, _HEADER_PREFIX))


def without_permissions(options: Mapping[str, str]) -> dict[str, str]:
    """The options that a server gives, without those that only the user may give."""
    return {k: v for k, v in options.items() if k.lower() != ALLOWED_EXTERNAL_PATHS.key}


def parse_catalog_options(options: Mapping[str, str]) -> CatalogOptions:
    """The options of a catalog. Raises InvalidOptionError: a value is wrong, or `uri` is missing."""
    of_jdbc, headers = (
        {k.removeprefix(prefix): v for k, v in options.items() if k.startswith(prefix)}
        for prefix in (_JDBC_PREFIX, _HEADER_PREFIX)
    )
    found = parse_group(CatalogOptions, options, jdbc=of_jdbc, headers=headers)
    if found.metastore == JDBC and not found.uri:
        raise InvalidOptionError(
            "metastore = 'jdbc' needs the option uri with its address, such as jdbc:postgresql://host:5432/database or "
            "jdbc:sqlite:/path/of/file",
            option="uri",
        )
    if found.metastore == REST:
        _check_rest(found)
    return found


def _check_rest(found: CatalogOptions) -> None:
    if not found.uri:
        raise InvalidOptionError(
            "metastore = 'rest' needs the option uri with the address of its server, such as https://host:port",
            option="uri",
        )
    if found.token_provider == DLF and not (
        (found.dlf_access_key_id and found.dlf_access_key_secret) or found.dlf_token_path or found.dlf_token_loader
    ):
        raise InvalidOptionError(
            "token.provider = 'dlf' needs an access key: dlf.access-key-id and dlf.access-key-secret, dlf.token-path, "
            "or dlf.token-loader",
            option="dlf.access-key-id",
        )
