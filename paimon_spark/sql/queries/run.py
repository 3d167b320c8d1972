"""Run a query: its Paimon tables become DataFrames that read the columns and rows it needs; Spark does the rest."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark.errors import AnalysisException, PySparkException

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.spark.dataframe import native_dataframe
from paimon_spark.sql.queries.failures import better, lacks_a_column
from paimon_spark.sql.queries.find import Reference, references
from paimon_spark.sql.queries.head import Use
from paimon_spark.sql.queries.known import KnownNames
from paimon_spark.sql.queries.replace import replaced, stars_without_list
from paimon_spark.sql.queries.scalars import with_scalars
from paimon_spark.sql.queries.scans import metadata_columns, scan_of
from paimon_spark.sql.queries.statements import Query
from paimon_spark.sql.queries.tree import Reading, read
from paimon_spark.sql.queries.views import make_cache, make_view
from paimon_spark.sql.session import Session
from paimon_spark.sql.text import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.jobs.scan import Scan

_SETTING: Final = re.compile(
    r"(\s*(?:RE)?SET\s+)(spark\.paimon\.[^\s=`;]*[^\s=`;\w.][^\s=`;]*)((?:\s*=.*)?)", re.IGNORECASE | re.DOTALL
)


def run_query(session: Session, query: Query) -> DataFrame:
    """Let Spark run a statement in which tables of the catalog may stand. Raises as `Catalog.sql`."""
    return _run(session, query.sql, None)


def query_dataframe(session: Session, sql: str, job: str | None = None) -> DataFrame:
    """The rows of a query that is a part of another statement; `job` is the lineage job of what it reads."""
    return _run(session, sql, job)


def _run(session: Session, sql: str, job: str | None) -> DataFrame:
    setting = _SETTING.fullmatch(sql)
    if setting is not None:
        # Spark takes - and * in a key only in quotes.
        return session.run(f"{setting[1]}{quoted(setting[2])}{setting[3]}")
    try:
        return _read_and_run(session, sql, job)
    except PySparkException as e:
        error = better(session, e, sql)
        if error is None:
            raise
        raise error from e


def _read_and_run(session: Session, sql: str, job: str | None) -> DataFrame:
    reading = read(with_scalars(session, sql))
    found = references(KnownNames.over(session), reading)
    if not found:
        return session.run(reading.sql)
    if reading.head.use is Use.ROWS:
        return _rows(session, reading, found, job)
    begin = reading.words[reading.head.body].start
    frame = _rows(session, reading, found, job, begin)
    if reading.head.use is Use.VIEW:
        make_view(reading, frame)
    else:
        make_cache(session, reading, frame)
    return session.nothing()


def _rows(session: Session, reading: Reading, found: Sequence[Reference], job: str | None, begin: int = 0) -> DataFrame:
    """What Spark makes of the statement, from `begin` on, with the tables put in."""
    try:
        return _with_scans(session, reading, found, job, begin)
    except AnalysisException as e:
        if not lacks_a_column(e):
            raise
    # Spark offers the nearest columns of those that it sees: let it see all of them.
    return _with_scans(session, reading, found, job, begin, has_all=True)


def _with_scans(
    session: Session, reading: Reading, found: Sequence[Reference], job: str | None, begin: int, has_all: bool = False
) -> DataFrame:
    scans = [scan_of(session, reading, reference, job, has_all=has_all) for reference in found]
    hidden = {
        r: () if r.function is not None else metadata_columns(reading, r, s) for r, s in zip(found, scans, strict=True)
    }
    for reference, columns in hidden.items():
        _check_hidden(reference, columns)
    frames = {f"p{n}": _frame(session, scan) for n, scan in enumerate(scans)}
    return _without_cut_args(session, reading, found).run(replaced(reading, found, hidden, begin), frames)


def _frame(session: Session, scan: Scan) -> DataFrame:
    frame = native_dataframe(scan, session.spark)
    return scan.to_spark(session.spark) if frame is None else frame


def _check_hidden(reference: Reference, columns: Sequence[str]) -> None:
    from paimon_spark.sql.queries.needed import stars

    if columns and len(stars(reference)) != len(stars_without_list(reference)):
        raise UnsupportedFeatureError(
            f"* EXCEPT beside the metadata column {columns[0]} of {reference.name} is not available; name the columns",
            feature="* EXCEPT with metadata columns",
            table=str(reference.name),
        )


def _without_cut_args(session: Session, reading: Reading, found: Sequence[Reference]) -> Session:
    """The session without the parameters by position that were versions: Spark does not see their places."""
    cut = [r.version for r in found if r.version is not None and r.version.parameter == "?"]
    if not cut or session.args is None or isinstance(session.args, dict):
        return session
    places = [w.start for w in reading.words if w.keyword == "?"]
    gone = {n for n, place in enumerate(places) if any(v.start <= place < v.end for v in cut)}
    return replace(session, args=[a for n, a in enumerate(session.args) if n not in gone] or None)
