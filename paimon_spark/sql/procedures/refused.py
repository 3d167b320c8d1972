"""Procedures of Paimon's Spark connector that cannot be done here, each with what to do instead."""

from __future__ import annotations

from typing import Final

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.sql.call_context import CallContext
from paimon_spark.sql.procedures.procedure import DONE, OPTIONS, TABLE, Arguments, Kind, Parameter, Procedure, Rows

_PARTITIONS: Final = Parameter("partitions")
_WHERE: Final = Parameter("where")
_PARALLELISM: Final = Parameter("parallelism", Kind.INT)
_OPTIONS_MAP: Final = Parameter("options_map", Kind.MAP)
_INDEX: Final = (TABLE, Parameter("index_column", required=True), Parameter("index_type", required=True), _PARTITIONS)
_FUNCTION: Final = Parameter("function", required=True)
_NO_REST: Final = (
    "functions and views in a catalog need Paimon's REST catalog, through Java Paimon; in a Spark session "
)


def _refused(
    name: str, doc: str, instead: str, *parameters: Parameter, result: str = DONE, feature: str = ""
) -> Procedure:
    def refuse(place: CallContext, arguments: Arguments) -> Rows:
        raise UnsupportedFeatureError(f"{arguments.caller} is not available here: {instead}", feature=feature or name)

    return Procedure(name, doc, parameters, result, refuse, instead=instead)


_DELETION_VECTORS: Final = _refused(
    "materialize_deletion_vectors",
    "Rewrite files of data-evolution tables without their deleted rows.",
    "use CALL sys.compact(table => …, compact_strategy => 'full'), which rewrites files with deleted rows",
    TABLE,
    _PARTITIONS,
    OPTIONS,
    _WHERE,
    result="result BOOLEAN NOT NULL",
)

PROCEDURES: Final = (
    _DELETION_VECTORS,
    _refused(
        "compact_chain_table",
        "Merge the snapshot and delta branches of a chain table.",
        "chain tables are not supported; use Java Paimon, or write the merged rows with INSERT OVERWRITE",
        TABLE,
        Parameter("partition", required=True),
        Parameter("overwrite", Kind.BOOLEAN),
        result="result BOOLEAN NOT NULL",
    ),
    _refused(
        "rescale",
        "Rewrite partitions with another number of buckets.",
        "ALTER TABLE t SET TBLPROPERTIES ('bucket' = 'n'), then write the rows anew with INSERT OVERWRITE",
        TABLE,
        Parameter("bucket_num", Kind.INT),
        _PARTITIONS,
        _WHERE,
    ),
    _refused(
        "migrate_database",
        "Turn the Hive tables of a database into Paimon tables.",
        "create the tables with CREATE TABLE … AS SELECT * FROM the Hive ones",
        Parameter("source_type", required=True),
        Parameter("database", required=True),
        OPTIONS,
        _OPTIONS_MAP,
        _PARALLELISM,
        result="result STRING",
    ),
    _refused(
        "migrate_table",
        "Turn a Hive table into a Paimon table.",
        "create the table with CREATE TABLE … AS SELECT * FROM the Hive one",
        Parameter("source_type", required=True),
        TABLE,
        OPTIONS,
        Parameter("delete_origin", Kind.BOOLEAN),
        Parameter("target_table"),
        _OPTIONS_MAP,
        _PARALLELISM,
    ),
    _refused(
        "copy",
        "Copy the files of a table to another.",
        "use CREATE TABLE … AS SELECT, or INSERT INTO … SELECT; to go on from a table's state, create_branch copies "
        "nothing",
        Parameter("source_table", required=True),
        Parameter("target_table", required=True),
        _WHERE,
    ),
    _refused(
        "remove_unexisting_files",
        "Take files that are missing out of the table's list of files.",
        "CALL sys.doctor(table => …) tells what is missing; CALL sys.rollback(…) goes back to a state that is whole",
        TABLE,
        Parameter("dry_run", Kind.BOOLEAN),
        _PARALLELISM,
        result="fileName STRING NOT NULL",
    ),
    _refused(
        "repair",
        "Bring the catalog's metastore in line with the file system.",
        "a file-system warehouse has no metastore beside its files, so there is nothing to repair; CALL sys.doctor(…) "
        "looks after a table's refs",
        Parameter("database_or_table", required=True),
    ),
    _refused(
        "repair_earliest_snapshot",
        "Let the history begin after a gap.",
        "CALL sys.doctor(table => …, repair => true) mends hints that name the wrong snapshot",
        TABLE,
        Parameter("snapshot_id", Kind.BIGINT, required=True),
        result="previous_earliest_snapshot_id BIGINT NOT NULL, current_earliest_snapshot_id BIGINT NOT NULL",
    ),
    _refused(
        "rewrite_file_index",
        "Make file indexes anew.",
        "file indexes are not written here; use Java Paimon. Statistics of files skip without them",
        TABLE,
        _WHERE,
        result="written_partitions INT NOT NULL, written_indexes INT NOT NULL",
    ),
    _refused(
        "create_global_index",
        "Index a column over all files.",
        "global indexes are not written here; use Java Paimon",
        *_INDEX,
        OPTIONS,
    ),
    _refused(
        "drop_global_index",
        "Drop the index of a column.",
        "global indexes are not written here; use Java Paimon",
        *_INDEX,
        Parameter("dry_run", Kind.BOOLEAN),
        result="result BOOLEAN, dropped_file_count BIGINT",
    ),
    _refused(
        "reassign_row_id",
        "Give rows of data-evolution tables new ids.",
        "row ids of data-evolution tables are not changed here; use Java Paimon",
        TABLE,
        _PARTITIONS,
        result="result STRING",
    ),
    _refused(
        "alter_view_dialect",
        "Change the query of a view for an engine.",
        f"{_NO_REST}CREATE TEMPORARY VIEW makes one",
        Parameter("view", required=True),
        Parameter("action", required=True),
        Parameter("engine"),
        Parameter("query"),
    ),
    _refused(
        "create_function",
        "Create a function in the catalog.",
        f"{_NO_REST}CREATE TEMPORARY FUNCTION makes one",
        _FUNCTION,
        Parameter("inputParams", required=True),
        Parameter("returnParams", required=True),
        Parameter("deterministic", Kind.BOOLEAN),
        Parameter("comment"),
        OPTIONS,
    ),
    _refused(
        "alter_function",
        "Change a function of the catalog.",
        f"{_NO_REST}CREATE OR REPLACE TEMPORARY FUNCTION changes one",
        _FUNCTION,
        Parameter("change", required=True),
    ),
    _refused(
        "drop_function",
        "Drop a function of the catalog.",
        f"{_NO_REST}DROP TEMPORARY FUNCTION drops one",
        _FUNCTION,
    ),
)
