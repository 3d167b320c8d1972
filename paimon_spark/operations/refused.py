"""Procedures and actions of Paimon that cannot be done here, each with what to do instead."""

from __future__ import annotations

from typing import Any, Final

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.operations.operation import DONE, Argument, Operation, Request, Style, Subject, Type


def refusal(name: str, instead: str) -> UnsupportedFeatureError:
    """The error for a procedure or action that cannot be done here."""
    return UnsupportedFeatureError(f"{name} is not available here: {instead}", feature=name.removeprefix("sys."))


def _refused(help: str, instead: str, procedure: str, parameters: str, result: str = DONE) -> Operation:
    """An entry for a procedure with these parameters, such as `table* STRING, bucket_num INT`; `*`: required."""

    def run(request: Request) -> Any:
        raise refusal(request.caller, instead)

    found = [text.partition(" ") for text in parameters.split("; ")]
    arguments = (
        Argument(name.rstrip("*"), "refused", Type(kind), required=name.endswith("*"), style=Style.CALL)
        for name, _, kind in found
    )
    return Operation(
        help, run, tuple(arguments), subject=Subject.NOTHING, procedure=procedure, result=result, instead=instead
    )


_NO_CATALOG: Final = (
    "functions and views in a catalog need Paimon's REST catalog, through Java Paimon; in a Spark session "
)
_INDEX: Final = "table* STRING; index_column* STRING; index_type* STRING; partitions STRING"
_USE_SQL: Final = "use `paimon-spark sql 'MERGE INTO …'`"

ACTIONS: Final = {
    "clone": "copy the table's directory: it holds no absolute path",
    "copy-files": "copy the table's directory: it holds no absolute path",
    "data-evolution-merge-into": _USE_SQL,
    "merge-into": _USE_SQL,
    "query-service": "use a Java engine",
    "remove-unexisting-manifests": "`paimon-spark doctor` shows what is missing; roll back to a complete version",
}
"""Refused actions that are no procedures, with what to do instead."""

OPERATIONS = (
    _refused(
        "rewrite files of data-evolution tables without their deleted rows",
        "row ids are not changed here, so the deleted rows stay in their files; use Java Paimon",
        "materialize_deletion_vectors",
        "table* STRING; partitions STRING; options STRING; where STRING",
        "result BOOLEAN NOT NULL",
    ),
    _refused(
        "merge the snapshot and delta branches of a chain table",
        "chain tables are not supported; use Java Paimon, or write the merged rows with INSERT OVERWRITE",
        "compact_chain_table",
        "table* STRING; partition* STRING; overwrite BOOLEAN",
        "result BOOLEAN NOT NULL",
    ),
    _refused(
        "turn the Hive tables of a database into Paimon tables",
        "create the tables with CREATE TABLE … AS SELECT * FROM the Hive ones",
        "migrate_database",
        "source_type* STRING; database* STRING; options STRING; options_map MAP<STRING, STRING>; parallelism INT",
        "result STRING",
    ),
    _refused(
        "turn a Hive table into a Paimon table",
        "create the table with CREATE TABLE … AS SELECT * FROM the Hive one",
        "migrate_table",
        "source_type* STRING; table* STRING; options STRING; delete_origin BOOLEAN; target_table STRING; "
        "options_map MAP<STRING, STRING>; parallelism INT",
    ),
    _refused(
        "copy the files of a table to another",
        "use CREATE TABLE … AS SELECT, or INSERT INTO … SELECT; to continue from a table's state, create_branch "
        "copies nothing",
        "copy",
        "source_table* STRING; target_table* STRING; where STRING",
    ),
    _refused(
        "remove missing files from the table's manifests",
        "CALL sys.doctor(table => …) shows what is missing; CALL sys.rollback(…) restores a complete state",
        "remove_unexisting_files",
        "table* STRING; dry_run BOOLEAN; parallelism INT",
        "fileName STRING NOT NULL",
    ),
    _refused(
        "bring the catalog's metastore in line with the file system",
        "a file-system warehouse has no metastore beside its files, so there is nothing to repair; CALL sys.doctor(…) "
        "checks a table's tags and branches",
        "repair",
        "database_or_table* STRING",
    ),
    _refused(
        "start the history after a gap",
        "CALL sys.doctor(table => …, repair => true) repairs hints that name the wrong snapshot",
        "repair_earliest_snapshot",
        "table* STRING; snapshot_id* BIGINT",
        "previous_earliest_snapshot_id BIGINT NOT NULL, current_earliest_snapshot_id BIGINT NOT NULL",
    ),
    _refused(
        "rebuild file indexes",
        "only new files get indexes here: compact the table, or use Java Paimon for files that stay",
        "rewrite_file_index",
        "table* STRING; where STRING",
        "written_partitions INT NOT NULL, written_indexes INT NOT NULL",
    ),
    _refused(
        "index a column over all files",
        "global indexes are not written here; use Java Paimon",
        "create_global_index",
        f"{_INDEX}; options STRING",
    ),
    _refused(
        "drop the index of a column",
        "global indexes are not written here; use Java Paimon",
        "drop_global_index",
        f"{_INDEX}; dry_run BOOLEAN",
        "result BOOLEAN, dropped_file_count BIGINT",
    ),
    _refused(
        "give rows of data-evolution tables new ids",
        "row ids of data-evolution tables are not changed here; use Java Paimon",
        "reassign_row_id",
        "table* STRING; partitions STRING",
        "result STRING",
    ),
    _refused(
        "change the query of a view for an engine",
        f"{_NO_CATALOG}CREATE TEMPORARY VIEW makes one",
        "alter_view_dialect",
        "view* STRING; action* STRING; engine STRING; query STRING",
    ),
    _refused(
        "create a function in the catalog",
        f"{_NO_CATALOG}CREATE TEMPORARY FUNCTION makes one",
        "create_function",
        "function* STRING; inputParams* STRING; returnParams* STRING; deterministic BOOLEAN; comment STRING; "
        "options STRING",
    ),
    _refused(
        "change a function of the catalog",
        f"{_NO_CATALOG}CREATE OR REPLACE TEMPORARY FUNCTION changes one",
        "alter_function",
        "function* STRING; change* STRING",
    ),
    _refused(
        "drop a function of the catalog",
        f"{_NO_CATALOG}DROP TEMPORARY FUNCTION drops one",
        "drop_function",
        "function* STRING",
    ),
)
