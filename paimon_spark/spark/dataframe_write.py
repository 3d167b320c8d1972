"""Table.write of a Spark DataFrame, in classic and in Connect sessions. User's process."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from paimon_spark import errors
from paimon_spark.engine.commit.committer import new_commit_user
from paimon_spark.errors import PaimonError
from paimon_spark.jobs.batch_write import place_of
from paimon_spark.jobs.commit import WriteResult
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.jobs.write_target import opened
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import find_snapshot, latest_snapshot
from paimon_spark.options.batch_write import (
    ASSIGNERS,
    CLUSTER,
    CLUSTERED,
    COMMIT_USER,
    WriteMode,
    canonical_write,
    parse_batch_write_options,
)
from paimon_spark.spark.clustering import Clustered, cluster
from paimon_spark.spark.dataframe import is_missing_source
from paimon_spark.spark.register import find_sources_here, register
from paimon_spark.spark.schema import arrow_schema
from paimon_spark.spark.source import PaimonPyDataSource

_ERROR: Final = re.compile(
    r"paimon_spark\.errors\.(\w+): (.*?)(?=\n\s*(?:at |\n|JVM stacktrace|SQLSTATE)|\n?$)", re.DOTALL
)


def write(table: OpenedTable, rows: DataFrame, mode: WriteMode, options: Mapping[str, str]) -> WriteResult:
    """Write `rows` to the branch of `table` as a Spark job, clustered so that each bucket is written by one task.

    Raises as `Table.write`.
    """
    asked = parse_batch_write_options(options, mode)
    # What is wrong with the columns is found here, where its error is not wrapped in Spark's.
    handle = opened(place_of(table, asked), asked, arrow_schema(rows.schema))
    clustered = cluster(rows, handle) if CLUSTER.get(canonical_write(options)) else Clustered(rows)
    return save_job(handle, clustered.rows, {**options, **_how(clustered)}, mode)


def save_job(
    handle: TableHandle, rows: DataFrame, options: Mapping[str, str], mode: WriteMode = WriteMode.APPEND
) -> WriteResult:
    """Run `rows.write` to the branch of `handle`; what it made is looked up by who committed.

    Raises as `Table.write`.
    """
    base = latest_snapshot(handle)
    user = COMMIT_USER.get(options) or new_commit_user(handle.options.raw)
    _save(rows, handle, mode, {**options, COMMIT_USER.key: user})
    return WriteResult(_made(handle, user, 0 if base is None else base.id))


def _how(clustered: Clustered) -> dict[str, str]:
    """What tasks are told of their rows."""
    out = {CLUSTERED.key: str(clustered.disjoint).lower()}
    if clustered.assigners:
        out[ASSIGNERS.key] = str(clustered.assigners)
    return out


def _save(rows: DataFrame, handle: TableHandle, mode: WriteMode, options: Mapping[str, str]) -> None:
    find_sources_here(rows.sparkSession)
    # The second name is ours in every session; the first may be the JAR's.
    writer = rows.write.format(PaimonPyDataSource.name()).mode(mode.value).options(**options)
    try:
        try:
            writer.save(handle.location)
        except PySparkException as e:
            if not is_missing_source(e):
                raise
            register(rows.sparkSession)
            writer.save(handle.location)
    except PySparkException as e:
        ours = unwrapped(e)
        if ours is None:
            raise
        raise ours from e


def unwrapped(error: PySparkException) -> PaimonError | None:
    """The error of this package that Spark shows as text; None when there is none in it."""
    for name, message in reversed(_ERROR.findall(str(error))):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, PaimonError):
            return kind(message.strip())
    return None


def _made(handle: TableHandle, user: str, after: int) -> tuple[int, ...]:
    """Ids of the snapshots that `user` made after the snapshot `after`, ascending."""
    found = []
    snapshot = latest_snapshot(handle)
    while snapshot is not None and snapshot.id > after:
        if snapshot.commit_user == user:
            found.append(snapshot.id)
        snapshot = find_snapshot(handle, snapshot.id - 1)
    return tuple(reversed(found))
