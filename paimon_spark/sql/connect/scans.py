"""The read of each table in a query, with only the columns and rows that it needs."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from datetime import date, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.engine.tasks import BUCKET, METADATA_COLUMNS
from paimon_spark.errors import InvalidInputError, UnsupportedFeatureError
from paimon_spark.jobs.read.table_scan import open_scan
from paimon_spark.jobs.row_diff.comparison import RowComparison
from paimon_spark.options.lineage import JOB
from paimon_spark.options.scan import START_KEYS, TIME_ZONE, VERSION_AS_OF
from paimon_spark.predicate.ast import Predicate
from paimon_spark.sql.connect.filters import condition
from paimon_spark.sql.functions import read_of_call
from paimon_spark.sql.queries.clauses import VersionClause
from paimon_spark.sql.queries.parse import ParsedQuery
from paimon_spark.sql.queries.references import Reference, refuse_table
from paimon_spark.sql.session import Session
from paimon_spark.types import ROW_ID, SEQUENCE_NUMBER

if TYPE_CHECKING:
    from paimon_spark.api.table import Table
    from paimon_spark.jobs.read.scan import Scan

_TIMESTAMP: Final = "timestampAsOf"
_MILLIS: Final = "scan.timestamp-millis"
_NAMES_IN_QUOTES: Final = "spark.sql.ansi.doubleQuotedIdentifiers"
_NAMES_BY_PATTERN: Final = "spark.sql.parser.quotedRegexColumnNames"
_ALL_WORDS: Final = frozenset(("NATURAL", "PIVOT", "UNPIVOT", "IDENTIFIER", "|>"))
"""Keywords of what uses columns without naming them."""
_TRACKING: Final = (ROW_ID, SEQUENCE_NUMBER)


def read_of(
    parsed: ParsedQuery, reference: Reference, job: str | None, *, has_all: bool = False
) -> Scan | RowComparison:
    """The read of a table in a query. Its reads have the lineage job `job`; with `has_all` it reads all columns.

    Raises:
        NotFoundError: the table or version does not exist.
        InvalidInputError: a parameter of a version has no value.
        InvalidOptionError: an option is unknown or wrong.
    """
    session = reference.session
    if reference.function is not None:
        return _function_read(session, parsed, reference, job)
    options = session.options(reference.name)
    options.update(() if reference.options is None else reference.options.options)
    if reference.version is not None:
        for key in START_KEYS:
            options.pop(key, None)
        options.update(_version(session, parsed, reference, reference.version))
    options.setdefault(TIME_ZONE.key, session.time_zone)
    if job is not None:
        options[JOB.key] = job
    table = session.table(reference.name, options)
    scan = table.scan()  # opens the table again, so it is made once
    columns = _columns(session, parsed, reference, table, scan.row_type.names, has_all=has_all)
    if columns is not None:
        scan = scan.project(columns)
    where = _where(session, parsed, reference, table, scan)
    return scan if where is None else scan.filtered([where])


def metadata_columns(parsed: ParsedQuery, reference: Reference, scan: Scan) -> tuple[str, ...]:
    """The metadata columns that a scan returns because the query names them; a `*` must not include them."""
    own = set(scan.schema.row_type.names)
    asked = scan.options.columns or ()
    return tuple(c for c in asked if c not in own and c in (*METADATA_COLUMNS, *_TRACKING))


def _columns(
    session: Session, parsed: ParsedQuery, reference: Reference, table: Table, own: tuple[str, ...], *, has_all: bool
) -> tuple[str, ...] | None:
    """The columns to read of a table, whose columns are `own`; None for all.

    Every name in the query counts unless it certainly means something else.
    """
    node, name = reference.node, reference.key
    foreign = parsed.scopes.foreign(node, name)
    metadata = () if table.is_system else _metadata(parsed, reference, table, own, foreign)
    if has_all or not _has_default_semantics(session, parsed) or _needs_all(parsed, reference):
        return (*own, *metadata) if metadata else None
    if parsed.scopes.stars(node, name):
        foreign = frozenset()
    names = {w.text.lower() for w in parsed.tokens if not w.is_text and w.start not in foreign}
    found = (*(c for c in own if c.lower() in names), *metadata)
    if found:
        return found
    # Only the number of rows counts: the bucket is known without reading the files.
    return own[:1] if table.is_system else (BUCKET,)


def _needs_all(parsed: ParsedQuery, reference: Reference) -> bool:
    """Whether the query may use columns without naming them."""
    keys = [w.keyword for w in parsed.tokens]
    if _ALL_WORDS.intersection(keys) or ("BY", "ALL") in pairwise(keys) or reference.function is not None:
        return True
    return parsed.scopes.needs_all(reference.node, reference.key)


def _metadata(
    parsed: ParsedQuery, reference: Reference, table: Table, own: tuple[str, ...], foreign: Collection[int]
) -> tuple[str, ...]:
    """The metadata columns that the query names."""
    columns = [c for c, _ in parsed.scopes.columns if c.table in ("", reference.key)]
    named = {c.name for c in columns if c.this.meta.get("start") not in foreign}
    candidates = (*METADATA_COLUMNS, *(_TRACKING if table.options.row_tracking else ()))
    return tuple(c for c in candidates if c not in own and c.lower() in named)


def _where(session: Session, parsed: ParsedQuery, reference: Reference, table: Table, scan: Scan) -> Predicate | None:
    if table.is_system or table.read_options.row_kind or not _has_default_semantics(session, parsed):
        return None
    return condition(parsed, reference, scan.schema.row_type, session.args)


def _has_default_semantics(session: Session, parsed: ParsedQuery) -> bool:
    """Whether no setting changes the meaning of quotes and comparisons of text."""
    if session.conf.get(_NAMES_IN_QUOTES, "false").lower() == "true" and '"' in parsed.sql:
        return False
    if session.conf.get(_NAMES_BY_PATTERN, "false").lower() == "true":
        return False
    return not any("collation" in key and "default" in key for key in session.conf)


def _function_read(
    session: Session, parsed: ParsedQuery, reference: Reference, job: str | None
) -> Scan | RowComparison:
    assert reference.function is not None
    if reference.version is not None:
        refuse_table(parsed, reference.function, "a function takes no version")
    inner = parsed.sql[reference.start : reference.end].partition("(")[2].rstrip()[:-1]
    found = read_of_call(session, reference.function, inner)
    if job is None or isinstance(found, RowComparison):
        return found
    place = {**found.handle.load_options, "branch": found.handle.branch}
    return open_scan(found.load_path, {**found.option_text, **place, JOB.key: job})


def _version(session: Session, parsed: ParsedQuery, reference: Reference, version: VersionClause) -> Mapping[str, str]:
    """Read options for a version."""
    value: Any = version.value
    if version.parameter is not None:
        value = _parameter(session, parsed, reference, version)
    elif version.is_timestamp and (value is None or version.expression[:1] not in "'\"0123456789"):
        return {_MILLIS: str(_millis(session, version))}
    if not version.is_timestamp:
        return {VERSION_AS_OF: str(value)}
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return {_TIMESTAMP: value.isoformat(sep=" ", timespec="microseconds")}
        return {_MILLIS: str(math.floor(value.timestamp() * 1000))}
    return {_TIMESTAMP: value.isoformat() if isinstance(value, date) else str(value)}


def _parameter(session: Session, parsed: ParsedQuery, reference: Reference, version: VersionClause) -> Any:
    """The value of a parameter in a version clause."""
    args, name = session.args, version.parameter
    if name == "?":
        before = sum(w.keyword == "?" and w.start < version.end for w in parsed.tokens) - 1
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


def _millis(session: Session, version: VersionClause) -> int:
    """Epoch milliseconds of a timestamp expression, evaluated by Spark."""
    if "?" in version.expression:
        raise UnsupportedFeatureError(
            f"TIMESTAMP AS OF {version.expression} holds a parameter by position; name it, as :moment",
            feature="positional parameter in a version",
        )
    query = f"SELECT unix_micros(CAST(({version.expression}) AS TIMESTAMP)) AS m"
    micros = session.run(query).collect()[0]["m"]
    if micros is None:
        raise InvalidInputError(
            f"TIMESTAMP AS OF {version.expression} is null; give a timestamp", value=version.expression
        )
    return int(micros) // 1000
