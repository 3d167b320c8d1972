"""A place where a table is read → the read that stands there: only the columns and rows that the statement needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.errors import InvalidInputError, UnsupportedFeatureError
from paimon_spark.handoff.read_request import BUCKET, METADATA_COLUMNS
from paimon_spark.options.lineage import JOB
from paimon_spark.options.scan import INCREMENTAL_KEYS, TIME_ZONE, VERSION_KEYS
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.sql.queries.clauses import Version
from paimon_spark.sql.queries.conditions import condition
from paimon_spark.sql.queries.find import Reference, refuse
from paimon_spark.sql.queries.needed import metadata_named, names, needs_all
from paimon_spark.sql.queries.tree import Reading
from paimon_spark.sql.session import Session
from paimon_spark.types import ROW_ID, SEQUENCE_NUMBER

if TYPE_CHECKING:
    from paimon_spark.table.scan import Scan
    from paimon_spark.table.table import Table

_VERSION: Final = "versionAsOf"
_TIMESTAMP: Final = "timestampAsOf"
_MILLIS: Final = "scan.timestamp-millis"
_NAMES_IN_QUOTES: Final = "spark.sql.ansi.doubleQuotedIdentifiers"
_TRACKING: Final = (ROW_ID, SEQUENCE_NUMBER)


def scan_of(
    session: Session, reading: Reading, reference: Reference, job: str | None, *, has_all: bool = False
) -> Scan:
    """What is read at a place of a statement.

    Args:
        session: where the statement runs.
        reading: the statement.
        reference: the place.
        job: the lineage job of what is read.
        has_all: read all columns, whatever the statement needs.

    Raises:
        NotFoundError: the table or version does not exist.
        InvalidInputError: a parameter of a version is not given.
        InvalidOptionError: an option is unknown or wrong.
    """
    if reference.function is not None:
        return _function_scan(session, reading, reference, job)
    options = session.options(reference.name)
    options.update(() if reference.settings is None else reference.settings.options)
    if reference.version is not None:
        for key in (*VERSION_KEYS, *INCREMENTAL_KEYS, "scan.mode"):
            options.pop(key, None)
        options.update(_version(session, reading, reference, reference.version))
    options.setdefault(TIME_ZONE.key, session.time_zone)
    if job is not None:
        options[JOB.key] = job
    table = session.table(reference.name, options)
    columns = _columns(session, reading, reference, table, has_all=has_all)
    where = _where(session, reading, reference, table)
    return table.scan(columns=columns, where=where)


def metadata_columns(reading: Reading, reference: Reference, scan: Scan) -> tuple[str, ...]:
    """The metadata columns that a scan gives because the statement names them, where a `*` must not show them."""
    own = set(scan.schema.row_type.names)
    asked = scan.options.columns or ()
    return tuple(c for c in asked if c not in own and c in (*METADATA_COLUMNS, *_TRACKING))


def _columns(
    session: Session, reading: Reading, reference: Reference, table: Table, *, has_all: bool
) -> tuple[str, ...] | None:
    """The columns to read; None for all."""
    own = table.scan().row_type.names
    metadata = () if table.is_system else _metadata(reading, reference, table, own)
    if has_all or needs_all(reading, reference) or not _means_the_usual(session, reading):
        return (*own, *metadata) if metadata else None
    named = names(reading)
    found = (*(c for c in own if c.lower() in named), *metadata)
    if found:
        return found
    # Only their number counts: the bucket is known without a look into the files.
    return own[:1] if table.is_system else (BUCKET,)


def _metadata(reading: Reading, reference: Reference, table: Table, own: tuple[str, ...]) -> tuple[str, ...]:
    candidates = (*METADATA_COLUMNS, *(_TRACKING if table.options.row_tracking else ()))
    return metadata_named(reading, reference, [c for c in candidates if c not in own])


def _where(session: Session, reading: Reading, reference: Reference, table: Table) -> str | None:
    if table.is_system or table.read_options.row_kind or not _means_the_usual(session, reading):
        return None
    row_type, asked = table.scan().schema.row_type, table.read_options.where
    found = condition(reading, reference, row_type, session.args)
    if found is None or asked is None:
        return found
    parse_predicate(asked, row_type, table.read_options.time_zone)  # its brackets must match without those added here
    return f"({asked}\n) AND ({found})"  # a new line, as it may end with a comment


def _means_the_usual(session: Session, reading: Reading) -> bool:
    """Whether no setting changes what quotes and comparisons of text mean."""
    if session.conf.get(_NAMES_IN_QUOTES, "false").lower() == "true" and '"' in reading.sql:
        return False
    return not any("collation" in key and "default" in key for key in session.conf)


def _function_scan(session: Session, reading: Reading, reference: Reference, job: str | None) -> Scan:
    from paimon_spark.sql.functions.incremental import scan_of_call

    assert reference.function is not None
    if reference.version is not None:
        refuse(reading, reference.function, "a version after a function means nothing")
    inner = reading.sql[reference.start : reference.end].partition("(")[2].rstrip()[:-1]
    scan = scan_of_call(session, reference.function, inner)
    if job is None:
        return scan
    from paimon_spark.table.loading import open_scan

    return open_scan(scan.load_path, {**scan.option_text, "branch": scan.handle.branch, JOB.key: job})


def _version(session: Session, reading: Reading, reference: Reference, version: Version) -> Mapping[str, str]:
    """Read options for a version."""
    value: Any = version.value
    if version.parameter is not None:
        value = _parameter(session, reading, reference, version)
    elif version.is_timestamp and (value is None or version.expression[:1] not in "'\"0123456789"):
        return {_MILLIS: str(_millis(session, version))}
    if not version.is_timestamp:
        return {_VERSION: str(value)}
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return {_TIMESTAMP: value.isoformat(sep=" ", timespec="microseconds")}
        return {_MILLIS: str(math.floor(value.timestamp() * 1000))}
    return {_TIMESTAMP: value.isoformat() if isinstance(value, date) else str(value)}


def _parameter(session: Session, reading: Reading, reference: Reference, version: Version) -> Any:
    """The value of a parameter that stands for a version."""
    args, name = session.args, version.parameter
    if name == "?":
        before = sum(w.keyword == "?" and w.start < version.end for w in reading.words) - 1
        found = args[before] if not isinstance(args, Mapping | None) and before < len(args) else None
    else:
        found = args.get(name or "") if isinstance(args, Mapping) else None
    if found is None:
        raise InvalidInputError(
            f"the version of {reference.name} is the parameter {version.expression}, which has no value; give it in "
            "args",
            parameter=name,
        )
    if not isinstance(found, str | int | float | date) or isinstance(found, bool):
        raise InvalidInputError(
            f"the version of {reference.name} is the parameter {version.expression} = {found!r}; give text, a number "
            "or a datetime",
            parameter=name,
        )
    return found


def _millis(session: Session, version: Version) -> int:
    """Epoch milliseconds of a timestamp's expression, which Spark evaluates."""
    if "?" in version.expression:
        raise UnsupportedFeatureError(
            f"TIMESTAMP AS OF {version.expression} holds a parameter by position; name it, as :moment",
            feature="positional parameter in a version",
        )
    query = f"SELECT unix_micros(CAST(({version.expression}) AS TIMESTAMP)) AS m"
    micros = session.run(query).collect()[0]["m"]
    if micros is None:
        raise InvalidInputError(
            f"TIMESTAMP AS OF {version.expression} is null; give a moment", value=version.expression
        )
    return int(micros) // 1000
