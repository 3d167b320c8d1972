"""Procedures on lineage: which snapshot of which table came from which. All are this package's own."""

from __future__ import annotations

from typing import Final

from paimon_spark.sql.call_context import CallContext
from paimon_spark.sql.procedures.procedure import DONE, Arguments, Kind, Parameter, Procedure, Rows


def _enable(place: CallContext, a: Arguments) -> Rows:
    place.catalog.lineage.enable(table=a.truth("table_lineage", True), data=a.truth("data_lineage", True))
    return [(True,)]


def _disable(place: CallContext, a: Arguments) -> Rows:
    place.catalog.lineage.disable()
    return [(True,)]


def _unified_version(place: CallContext, a: Arguments) -> Rows:
    names = [place.name(text.strip(), a.caller) for text in a.text("tables").split(",")]
    found = place.catalog.lineage.unified_version([str(n) for n in names])
    return list(found.items())


def _forget_job(place: CallContext, a: Arguments) -> Rows:
    return [(place.catalog.lineage.forget_job(a.text("job")),)]


def _rebuild(place: CallContext, a: Arguments) -> Rows:
    place.catalog.lineage.rebuild()
    return [(True,)]


PROCEDURES: Final = (
    Procedure(
        "enable_lineage",
        "Record for all jobs of the warehouse which tables, and which snapshots, they read and write.",
        (
            Parameter("table_lineage", Kind.BOOLEAN, doc="Which tables.", default="true"),
            Parameter("data_lineage", Kind.BOOLEAN, doc="Which snapshots.", default="true"),
        ),
        DONE,
        _enable,
        is_own=True,
    ),
    Procedure("disable_lineage", "Record no more; what was recorded stays.", (), DONE, _disable, is_own=True),
    Procedure(
        "unified_version",
        "The newest snapshots of some tables that stem from the same snapshots of all that they have in common.",
        (Parameter("tables", required=True, doc="Names of tables, with commas between."),),
        "table STRING, snapshot_id BIGINT",
        _unified_version,
        is_own=True,
    ),
    Procedure(
        "forget_lineage_job",
        "Remove what was recorded of a job that came to its end, and free its name.",
        (Parameter("job", required=True, doc="Name of the job."),),
        "removed_rows BIGINT",
        _forget_job,
        is_own=True,
    ),
    Procedure(
        "rebuild_lineage",
        "Make the lineage tables anew from all snapshots and tags alive.",
        (),
        DONE,
        _rebuild,
        is_own=True,
    ),
)
