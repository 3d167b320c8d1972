"""Option descriptors → docs/reference/options.md."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from importlib import import_module
from types import ModuleType
from typing import Any, Final

import paimon_spark.options
from paimon_spark.metadata.features import IMMUTABLE_OPTIONS, REFUSALS, WITHOUT_SIDE_EFFECTS, WRITE_REFUSALS
from paimon_spark.options import descriptor, lineage, scan, write_request
from paimon_spark.options import stream_read as stream_read
from paimon_spark.options.core import FieldOptions
from paimon_spark.options.data_files import StatsMode
from paimon_spark.options.descriptor import Option, options_of
from paimon_spark.options.known import STORAGE_PREFIXES, TABLE_OPTION_PREFIXES, TABLE_OPTIONS
from paimon_spark.spark.session import FILE_READER
from paimon_spark.sql.session import CATALOG_SETTING, SETTING
from tools.reference.options_without_effect import by_reason
from tools.reference.text import code, codes, page, table

_KINDS: Final = {
    "boolean": "true or false",
    "integer": "whole number",
    "fraction": "number",
    "string": "text",
    "names": "list",
    "memory_size": "size",
    "duration_ms": "duration",
    "_limit": "whole number",
    "time_of_day_ms": "`hh:mm`",
    "whole_days": "whole days, such as `1 d`",
}
_SIZES: Final = ((2**30, "gb"), (2**20, "mb"), (2**10, "kb"))
_TIMES: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))

VERSIONS: Final = {
    "versionAsOf": "Any form of [version](../versions.md).",
    "scan.version": "The same as `versionAsOf`.",
    "scan.snapshot-id": "The snapshot with this id.",
    "scan.tag-name": "The tag with this name.",
    "scan.tag-id": "The tag of the snapshot with this id.",
    "scan.savepoint-id": "The savepoint with this id.",
    "scan.watermark": "The first snapshot with this watermark or a later one.",
    "timestampAsOf": "The newest snapshot at or before a time: text, or seconds since 1970.",
    "scan.timestamp": "The same as `timestampAsOf`.",
    "scan.timestamp-millis": "The newest snapshot at or before a time in milliseconds since 1970.",
    "scan.file-creation-time-millis": "Rows of files created at or after a time.",
    "scan.creation-time-millis": "Rows of files, or of snapshots, created at or after a time.",
    "incremental-between": (
        "Changes between two [versions](../versions.md#between-two-versions), `a,b`: after the first, up to the second."
    ),
    "incremental-between-timestamp": "Changes between two times, `a,b`: after the first, up to the second.",
    "incremental-to-auto-tag": (
        "Changes between the previous automatic tag and this one; no rows if there is no such tag."
    ),
}
"""Options that name what is read; `metadata.version` and `options.scan` read them."""

PLACES: Final = {
    "warehouse": "Path or URL of the warehouse; the default is `PAIMON_WAREHOUSE`, then the configuration file.",
    "fs.<key>": (
        "Setting of the store by the name that fsspec's clients give it, such as `fs.key`, `fs.secret`, "
        "`fs.endpoint_url` ([all of object stores](../tasks/stores-and-catalogs.md#options))."
    ),
    "s3.endpoint, s3.access-key, s3.secret-key, s3.path.style.access, s3.region": "S3 settings, with Paimon's names.",
    "gs.<key>, azure.<key>": "Settings of Google Cloud Storage and Azure, with Hadoop's names.",
}

SETTINGS: Final = {
    f"{CATALOG_SETTING}<name>.warehouse": (
        "Warehouse of the attached catalog `<name>`, if `attach` is given none. `attach` sets it."
    ),
    f"{CATALOG_SETTING}<name>.<option>": (
        "Option of this catalog, as an argument of `load_catalog`: of the store, such as `s3.endpoint`; of the job, "
        "such as `lineage.job`; for new tables, `table-default.<option>`. An argument of `attach` overrides it."
    ),
    f"{CATALOG_SETTING}<name>": (
        "`attach` sets it to `paimon_spark`. With another value, the catalog is Spark's, and `attach` refuses the name."
    ),
    f"{SETTING}<option>": "Option of all tables that the session reads or writes in SQL or by an attached catalog.",
    f"{SETTING}<catalog>.<database>.<table>.<option>": "Option of one table; `*` stands for any name.",
    FILE_READER: (
        "`false`: Python reads all data files. `true` (default): Spark's own readers read those that they can. The "
        "former name `spark.paimon-spark.native-parquet` still works."
    ),
}
"""Settings of a Spark session, and what they do."""

WITHOUT_DESCRIPTOR: Final = {
    "primary-key": "Columns of the primary key, separated by commas. Only when a table is created.",
    "partition": "Partition columns, separated by commas. Only when a table is created.",
    "bucket-key": "Columns that determine the bucket; default: the primary key without partition columns.",
    "auto-create": "`true` is refused: create a table with a statement, a method or a write.",
    "add-column-before-partition": "Add new columns before the partition columns.",
    "alter-column-null-to-not-null.disabled": "Do not allow a nullable column to become NOT NULL.",
    "disable-explicit-type-casting": "Only allow changes of column types that lose no values.",
    "deletion-vectors.modifiable": "Whether `deletion-vectors.enabled` may be changed.",
    "global-index.external-path": "Its location counts as one of `data-file.external-paths` for index files.",
    "write.compaction-skip": "Older name of `write-only`.",
    "log.scan.timestamp-millis": "Older name of `scan.timestamp-millis`.",
    "blob.stored-descriptor-fields": "Older name of `blob-descriptor-field`: refused.",
    "path": "Location of the table; not stored with its options.",
}
"""Options of tables that the code reads by their name alone, and what they do."""

CHECKED: Final = frozenset(
    (
        "blob-descriptor-field", "blob-field", "blob-view-field", "vector-field", "vector.file.format",
        "manifest-sort.enabled", "manifest-sort.partition-field",
    )
)  # fmt: skip
"""Options of tables whose value is checked when a table is made, as Paimon does, and that do nothing else here."""

_REFUSED_OF_READS: Final = ("scan.bucket", "scan.partitions")


def descriptors() -> dict[str, Option[Any]]:
    """Every option with a descriptor, by its key."""
    names = [m.name for m in pkgutil.iter_modules(paimon_spark.options.__path__)]
    modules = [import_module(f"paimon_spark.options.{name}") for name in names]
    return {option.key: option for module in modules for option in _stated(module)}


def _stated(module: ModuleType) -> list[Option[Any]]:
    """Options of a module, and of the groups that it has."""
    values = vars(module).values()
    groups = [v for v in values if isinstance(v, type) and is_dataclass(v) and v is not FieldOptions]
    return [v for v in values if isinstance(v, Option)] + [o for g in groups for o in options_of(g).values()]


def options_page() -> str:
    """The page."""
    all_options = descriptors()
    keys = set(all_options)

    def take(wanted: Iterable[str]) -> dict[str, Option[Any]]:
        taken = {key: all_options[key] for key in wanted if key in keys}
        keys.difference_update(taken)
        return taken

    lineage_options = take((*lineage.OF_CATALOG, *(o.key for o in lineage.OPTIONS)))
    reads = take(o.key for o in scan.OPTIONS)
    own = write_request.ROW_LEVEL, write_request.ROW_LEVEL_BASE, write_request.ROW_LEVEL_COLUMNS, write_request.WRITE_ID
    internal = take(o.key for o in (write_request.CLUSTERED, *own))
    writes = take(o.key for o in write_request.OPTIONS)
    writes |= take(sorted(key for key in keys if key.startswith("write.merge-schema")))
    streams = take(o.key for o in _stated(stream_read))
    sinks = take(o.key for o in write_request.STREAM_OPTIONS)
    commits = take(sorted(key for key in keys if key.startswith(("commit.", "manifest.", "snapshot.", "changelog."))))
    tags = take(sorted(key for key in keys if key.startswith(("tag.", "savepoint.", "sink."))))
    expiry = take(sorted(key for key in keys if key.startswith(("partition.", "consumer", "record-level."))))
    stored = take(sorted(keys))
    del internal  # they go between this package's own driver and tasks
    return page(
        "Options",
        _INTRODUCTION,
        "## Locations",
        table(("option", "what it does"), ((codes(k.split(", ")), v) for k, v in PLACES.items())),
        "## Settings of a Spark session\n\nGiven as `--conf key=value`, `spark.conf.set(…)` or `SET`.",
        table(("setting", "what it does"), ((code(k), v) for k, v in SETTINGS.items())),
        "## Versions\n\nFor reads. Two of them at once are an error.",
        table(("option", "what is read"), ((code(k), v) for k, v in VERSIONS.items())),
        "## Reads",
        _described(reads),
        f"Refused, because they would leave out rows: {codes(_REFUSED_OF_READS)}. Use `where`.",
        "## Streaming reads",
        _described(streams),
        "## Writes",
        _described(writes),
        "## Streaming writes",
        _described(sinks),
        "## Lineage and listeners\n\nFor a job or for `load_catalog`; they are not stored in tables. "
        f"{codes(lineage.OF_CATALOG)} can only be given to `load_catalog` and in the configuration file.",
        _described(lineage_options),
        "## Tables: commits, snapshots, manifests",
        _described(commits),
        "## Tables: tags and savepoints",
        _described(tags),
        "## Tables: expiry of partitions, consumers, records",
        _described(expiry),
        "## Tables: other options",
        _described(stored),
        table(("option", "what it does"), ((code(k), v) for k, v in sorted(WITHOUT_DESCRIPTOR.items()))),
        "## Tables: refused",
        table(("option", "refused in", "reason"), _refused()),
        "## Tables: cannot be changed",
        "These options define how files are written. They cannot be changed once a table has data.",
        codes(sorted(IMMUTABLE_OPTIONS)),
        "## Tables: only checked\n\nChecked when a table is created, and stored for other engines.",
        codes(sorted(CHECKED)),
        "## Tables: without effect",
        "Options of Paimon that are stored for other engines and have no effect here. Options that begin with "
        + codes(f"{p}…" for p in (*TABLE_OPTION_PREFIXES, *STORAGE_PREFIXES))
        + " are also accepted: they name a column, or are passed to a library or a store.",
        table(("reason", "options"), ((why, codes(found)) for why, found in by_reason(kept(all_options)).items())),
    )


_INTRODUCTION: Final = """
All options are text, and their names are not case-sensitive. An unknown option of a read or write is an error that
suggests the nearest name. A size is `128 mb` or a number of bytes; a duration is `1 h`, `30 min`, or a number of
milliseconds; a list is separated by commas.

Table options are stored with the table when it is created or altered. Given to one read or write, or as
`SET spark.paimon.<key>` in SQL, they apply only to it.
"""


def kept(all_options: Mapping[str, Option[Any]]) -> list[str]:
    """Options of tables that are known and do nothing here."""
    spoken_of = {key for option in all_options.values() for key in (option.key, *option.fallbacks)}
    refused = {r.option for r in (*REFUSALS, *WRITE_REFUSALS)}
    named = {*VERSIONS, *CHECKED, *WITHOUT_DESCRIPTOR, *WITHOUT_SIDE_EFFECTS, *_REFUSED_OF_READS}
    return sorted(TABLE_OPTIONS - spoken_of - refused - named)


def _refused() -> list[tuple[str, str, str]]:
    rows = [(r.option, "reads and writes", r.why) for r in REFUSALS]
    rows += [(r.option, "writes", r.why) for r in WRITE_REFUSALS]
    rows += [(key, "nothing; a write warns", "it has no effect here") for key in WITHOUT_SIDE_EFFECTS]
    return [(code(key), where, why) for key, where, why in rows]


def _described(options: Mapping[str, Option[Any]]) -> str:
    return table(
        ("option", "value", "default", "what it does"),
        ((code(o.key), kind(o), code(default(o)), _sentence(o)) for o in options.values()),
    )


def _sentence(option: Option[Any]) -> str:
    older = f" Older names: {codes(option.fallbacks)}." if option.fallbacks else ""
    return option.doc + older


def kind(option: Option[Any]) -> str:
    """What values an option takes, in words."""
    if isinstance(option.default, Enum):
        return codes(str(m.value) for m in type(option.default))
    return _KINDS.get(getattr(option.parse, "__name__", ""), "text")


def default(option: Option[Any]) -> str:
    """The value without the option, as one would write it."""
    value = option.default
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple) and not isinstance(value, StatsMode):
        return ",".join(map(str, value))
    if isinstance(value, int) and value > 0:
        units = {"memory_size": _SIZES, "duration_ms": _TIMES}.get(getattr(option.parse, "__name__", ""), ())
        for size, unit in units:
            if value % size == 0:
                return f"{value // size} {unit}"
        if option.parse is descriptor.duration_ms:
            return f"{value} ms"
    value = value.value if isinstance(value, Enum) else value
    return "" if value is None else str(value)
