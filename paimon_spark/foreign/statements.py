"""Words of Iceberg and Delta Lake for statements, clauses and tables; equivalents here.

`{table}` and its like in texts stand for what a statement names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

METADATA_TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "history": ("snapshots",),
    "metadata_log_entries": ("schemas",),
    "refs": ("branches", "tags"),
    "data_files": ("files",),
    "delete_files": ("files",),
    "position_deletes": ("files",),
    "entries": ("files",),
    "all_files": ("files",),
    "all_data_files": ("files",),
    "all_delete_files": ("files",),
    "all_entries": ("files",),
    "all_manifests": ("manifests",),
    "partition_statistics_files": ("statistics",),
}
"""Iceberg's metadata tables that have another name here; `snapshots`, `files` and `manifests` have the same."""

_SELECTORS: Final = (
    (re.compile(r"tag_(.+)", re.IGNORECASE), "VERSION AS OF '{}'"),
    (re.compile(r"snapshot_id_(\d+)", re.IGNORECASE), "VERSION AS OF {}"),
    (re.compile(r"at_timestamp_(\d+)", re.IGNORECASE), "TIMESTAMP AS OF timestamp_millis({})"),
)
"""How Iceberg names versions of a table, `db.t.tag_v1`, and the clauses of a query that read them."""


class _Equivalent(NamedTuple):
    """A statement of Iceberg or Delta Lake as docs show it, and what to do here, with `{names}` of what it says."""

    theirs: str
    ours: str


CHECKS_AT_PUBLISHING: Final = (
    "Table.merge_branch('fix', checks={'positive': 'SELECT * FROM {table} WHERE v <= 0'}), whose queries return the "
    "rows that are wrong"
)
"""What refuses rows in place of constraints."""
_ROLLBACK: Final = (
    "Use `CALL sys.rollback_to_as_latest(table => '{table}', version => '{version}')`, which keeps later versions, or "
    "`CALL sys.rollback(table => '{table}', version => '{version}')`, which deletes them"
)
_COPY: Final = (
    "{drop}`CREATE TABLE {if_not_exists}{new} LIKE {table}{properties}` and "
    "`INSERT INTO {new} SELECT * FROM {table}{at}`{unless}"
)
_EXPIRE: Final = (
    "`CALL sys.expire_snapshots(table => '{table}'{older_than}{dry_run})`, which deletes old versions and their files "
    "(the newest stay, as many as the table option `snapshot.num-retained.min` says, 10 by default; `retain_min` and "
    "`retain_max` change that)"
)
STATEMENTS: Final[Mapping[str, _Equivalent]] = {
    "OPTIMIZE": _Equivalent("OPTIMIZE t", "Use `CALL sys.compact(table => '{table}'{full}{where})`"),
    "ZORDER": _Equivalent(
        "OPTIMIZE t ZORDER BY (a, b)",
        "Use `CALL sys.compact(table => '{table}', order_strategy => 'zorder', order_by => '{columns}'{full}{where})`",
    ),
    "VACUUM": _Equivalent(
        "VACUUM t RETAIN 168 HOURS",
        f"Use {_EXPIRE}, "
        "or `CALL sys.remove_orphan_files(table => '{table}'{dry_run})`, which deletes files that no version needs",
    ),
    "RESTORE": _Equivalent("RESTORE TABLE t TO VERSION AS OF 3", _ROLLBACK),
    "RESTORE TIMESTAMP": _Equivalent(
        "RESTORE TABLE t TO TIMESTAMP AS OF '2024-01-01'",
        "Use `CALL sys.rollback_to_timestamp(table => '{table}', timestamp => unix_millis({timestamp}))`, "
        "which deletes later versions, or `CALL sys.rollback_to_as_latest(table => '{table}', version => '…')`, which "
        "keeps them, with a version of `DESCRIBE HISTORY {table}`",
    ),
    "DESCRIBE DETAIL": _Equivalent(
        "DESCRIBE DETAIL t",
        "Use `DESCRIBE EXTENDED {table}` and `SHOW TBLPROPERTIES {table}`; files and bytes are in "
        "`SELECT count(*), sum(file_size_in_bytes) FROM {table}$files`",
    ),
    "SHALLOW CLONE": _Equivalent(
        "CREATE TABLE x SHALLOW CLONE t",
        "Use a branch, which shares the files of the table: {drop_branch}`ALTER TABLE {table} CREATE BRANCH "
        "{if_not_exists}{branch}{as_of}`, then `{table}$branch_{branch}`; or copy the rows: " + _COPY,
    ),
    "DEEP CLONE": _Equivalent("CREATE TABLE x DEEP CLONE t", "Use " + _COPY),
    "CLONE OF FILES": _Equivalent(
        "CREATE TABLE x CLONE delta.`/data/t`",
        "Use `CREATE {or_replace}TABLE {if_not_exists}{new}{properties} AS SELECT * FROM {table}{at}`, which copies "
        "the rows",
    ),
    "CONVERT TO DELTA": _Equivalent(
        "CONVERT TO DELTA t",
        "Use Delta Lake for a copy in its format: `CREATE TABLE spark_catalog.… USING DELTA AS SELECT * FROM {table}`",
    ),
    "UNDROP TABLE": _Equivalent(
        "UNDROP TABLE t",
        "Restore the directory of {table} from a backup of the storage: DROP TABLE deletes the files at once",
    ),
    "UNDROP TABLE WITH ID": _Equivalent(
        "UNDROP TABLE WITH ID '…'",
        "Restore the directory of the table from a backup of the storage: DROP TABLE deletes the files at once",
    ),
    "GENERATE": _Equivalent(
        "GENERATE symlink_format_manifest FOR TABLE t",
        "Other engines read {table} by their Paimon connectors; for plain Parquet files use "
        "`INSERT OVERWRITE DIRECTORY '…' USING PARQUET SELECT * FROM {table}`",
    ),
    "REORG TABLE": _Equivalent("REORG TABLE t APPLY (PURGE)", "Use `CALL sys.compact(table => '{table}'{where})`"),
    "FSCK REPAIR TABLE": _Equivalent(
        "FSCK REPAIR TABLE t",
        "Use `CALL sys.doctor(table => '{table}')`, which says what is missing; `repair => true` repairs what it can",
    ),
    "table_changes": _Equivalent(
        "SELECT * FROM table_changes('t', 2, 3)",
        "Use `paimon_incremental_query('{table}', {before}, {end})` for the rows that were added, or "
        "`paimon_table_diff('{table}', '<old version>', '<new version>')` for all rows that differ; changes of a table "
        "with a primary key are in `{table}$audit_log`",
    ),
    "table_changes TIMESTAMPS": _Equivalent(
        "SELECT * FROM table_changes('t', '2024-01-01', '2024-02-01')",
        "Use `paimon_incremental_between_timestamp('{table}', {before}, {end})` for the rows that were added; changes "
        "of a table with a primary key are in `{table}$audit_log`",
    ),
    "PARTITION FIELD": _Equivalent(
        "ALTER TABLE t ADD PARTITION FIELD a",
        "The partitions of a table are fixed; copy the rows: "
        "`CREATE TABLE … PARTITIONED BY (…) AS SELECT * FROM {table}`. Buckets are properties of the new table: "
        "`TBLPROPERTIES ('bucket' = '4', 'bucket-key' = '…')`",
    ),
    "IDENTIFIER FIELDS": _Equivalent(
        "ALTER TABLE t SET IDENTIFIER FIELDS a, b",
        "The primary key of a table is fixed; copy the rows: "
        "`CREATE TABLE … TBLPROPERTIES ('primary-key' = '{columns}') AS SELECT * FROM {table}`",
    ),
    "WRITE ORDERED BY": _Equivalent(
        "ALTER TABLE t WRITE ORDERED BY a, b",
        "Use `ALTER TABLE {table} SET TBLPROPERTIES ('clustering.incremental' = 'true', "
        "'clustering.columns' = '{columns}')`, which compaction sorts by, or sort in the query that writes: "
        "`INSERT INTO {table} SELECT …{distribute} SORT BY {order}`",
    ),
    "WRITE UNORDERED": _Equivalent(
        "ALTER TABLE t WRITE UNORDERED",
        "Rows are not sorted unless the table is clustered: `ALTER TABLE {table} UNSET TBLPROPERTIES IF EXISTS "
        "('clustering.incremental', 'clustering.columns')`",
    ),
    "WRITE DISTRIBUTED BY PARTITION": _Equivalent(
        "ALTER TABLE t WRITE DISTRIBUTED BY PARTITION",
        "Distribute the rows in the query that writes: `INSERT INTO {table} SELECT … DISTRIBUTE BY …`, with the "
        "partition columns",
    ),
}
"""By what the statement is called in errors."""

_EXAMPLES: Final[Mapping[str, str]] = {
    "table": "t", "columns": "a,b", "order": "a, b", "distribute": "", "where": "", "full": "",
    "older_than": ", older_than => current_timestamp() - INTERVAL 168 HOURS",
    "dry_run": "", "version": "3", "timestamp": "TIMESTAMP '2024-01-01'", "new": "x", "branch": "x", "as_of": "",
    "at": "", "before": "1", "end": "3", "drop": "", "if_not_exists": "", "or_replace": "", "properties": "",
    "unless": "", "drop_branch": "",
}  # fmt: skip
"""What the texts hold where docs show them."""


def instead_of_statement(what: str, **values: str) -> str:
    """Sentence with the equivalent of a statement of `STATEMENTS`; `values` fill its text, others are blank."""
    blank = dict.fromkeys(_EXAMPLES, "")
    return STATEMENTS[what].ours.replace("`", "").format(**{**blank, **values})


def documented_statements() -> list[tuple[str, str]]:
    """Statements and what to do here, in Markdown."""
    return [(f"`{e.theirs}`", e.ours.format(**_EXAMPLES).removeprefix("Use ")) for e in STATEMENTS.values()]


def instead_of_table(name: str, table: str) -> str | None:
    """The system tables, or the table with a clause, that are read in place of `name` of a table; None of others.

    `t$branches and t$tags` for Iceberg's `refs`, in any case, and `t VERSION AS OF 'v1'` for its version `tag_v1`.
    """
    ours = METADATA_TABLES.get(name.lower())
    if ours is not None:
        return " and ".join(f"{table}${each}" for each in ours)
    for pattern, clause in _SELECTORS:
        if found := pattern.fullmatch(name):
            version = found[1].replace("'", "\\'")
            return f"{table} {clause.format(version)}"
    return None


def documented_tables() -> list[tuple[str, str]]:
    """Metadata tables and what to read here, in Markdown."""
    return [(f"`t.{name}`", " and ".join(f"`t${each}`" for each in ours)) for name, ours in METADATA_TABLES.items()]
