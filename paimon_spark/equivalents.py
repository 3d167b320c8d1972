"""Statements of Iceberg and Delta Lake, and their equivalents here.

Errors of all entrances and the page "Coming from Iceberg or Delta Lake" come from here. Code in texts is in
backquotes; `{table}` and its like stand for what the statement names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Equivalent(NamedTuple):
    """A statement of Iceberg or Delta Lake as docs show it, and what to do here, with `{names}` of what it says."""

    theirs: str
    ours: str


class Procedure(NamedTuple):
    """A procedure of Iceberg.

    Attributes:
        parameters: those of Iceberg, in its order; arguments without names are in this order.
        ours: what to do here; `{call}` is the call of our procedure.
        name: of our procedure; blank without one.
        arguments: our parameters by Iceberg's.
        shown: Iceberg's parameters in the call that docs show.
    """

    parameters: tuple[str, ...]
    ours: str
    name: str = ""
    arguments: Mapping[str, str] = {}
    shown: tuple[str, ...] = ("table",)


_ROLLBACK: Final = (
    "Use `CALL sys.rollback_to_as_latest(table => '{table}', version => '{version}')`, which keeps later versions, or "
    "`CALL sys.rollback(table => '{table}', version => '{version}')`, which deletes them"
)
_COPY: Final = "`CREATE TABLE {new} LIKE {table}` and `INSERT INTO {new} SELECT * FROM {table}{at}`"
STATEMENTS: Final[Mapping[str, Equivalent]] = {
    "OPTIMIZE": Equivalent("OPTIMIZE t", "Use `CALL sys.compact(table => '{table}'{where})`"),
    "ZORDER": Equivalent(
        "OPTIMIZE t ZORDER BY (a, b)",
        "Use `CALL sys.compact(table => '{table}', order_strategy => 'zorder', order_by => '{columns}'{where})`",
    ),
    "VACUUM": Equivalent(
        "VACUUM t RETAIN 168 HOURS",
        "Use `CALL sys.expire_snapshots(table => '{table}'{older_than})`, which deletes old versions and their files, "
        "or `CALL sys.remove_orphan_files(table => '{table}'{dry_run})`, which deletes files that no version needs",
    ),
    "RESTORE": Equivalent("RESTORE TABLE t TO VERSION AS OF 3", _ROLLBACK),
    "RESTORE TIMESTAMP": Equivalent(
        "RESTORE TABLE t TO TIMESTAMP AS OF '2024-01-01'",
        "Use `CALL sys.rollback_to_timestamp(table => '{table}', timestamp => unix_millis(TIMESTAMP {timestamp}))`, "
        "which deletes later versions, or `CALL sys.rollback_to_as_latest(table => '{table}', version => '…')`, which "
        "keeps them, with a version of `DESCRIBE HISTORY {table}`",
    ),
    "DESCRIBE DETAIL": Equivalent(
        "DESCRIBE DETAIL t",
        "Use `DESCRIBE EXTENDED {table}` and `SHOW TBLPROPERTIES {table}`; files and bytes are in "
        "`SELECT count(*), sum(file_size_in_bytes) FROM {table}$files`",
    ),
    "SHALLOW CLONE": Equivalent(
        "CREATE TABLE x SHALLOW CLONE t",
        "Use a branch, which shares the files of the table: `ALTER TABLE {table} CREATE BRANCH {branch}{as_of}`, then "
        "`{table}$branch_{branch}`; or copy the rows: " + _COPY,
    ),
    "DEEP CLONE": Equivalent("CREATE TABLE x DEEP CLONE t", "Use " + _COPY),
    "CONVERT TO DELTA": Equivalent(
        "CONVERT TO DELTA t",
        "Use Delta Lake for a copy in its format: `CREATE TABLE spark_catalog.… USING DELTA AS SELECT * FROM {table}`",
    ),
    "UNDROP TABLE": Equivalent(
        "UNDROP TABLE t",
        "Restore the directory of {table} from a backup of the storage: DROP TABLE deletes the files at once",
    ),
    "GENERATE": Equivalent(
        "GENERATE symlink_format_manifest FOR TABLE t",
        "Other engines read {table} by their Paimon connectors; for plain Parquet files use "
        "`INSERT OVERWRITE DIRECTORY '…' USING PARQUET SELECT * FROM {table}`",
    ),
    "REORG TABLE": Equivalent("REORG TABLE t APPLY (PURGE)", "Use `CALL sys.compact(table => '{table}')`"),
    "FSCK REPAIR TABLE": Equivalent(
        "FSCK REPAIR TABLE t",
        "Use `CALL sys.doctor(table => '{table}')`, which says what is missing; `repair => true` repairs what it can",
    ),
    "table_changes": Equivalent(
        "SELECT * FROM table_changes('t', 2, 3)",
        "Use `paimon_incremental_query('{table}', {before}, {end})` for the rows that were added, or "
        "`paimon_table_diff('{table}', '<old version>', '<new version>')` for all rows that differ; changes of a table "
        "with a primary key are in `{table}$audit_log`",
    ),
    "PARTITION FIELD": Equivalent(
        "ALTER TABLE t ADD PARTITION FIELD a",
        "The partitions of a table are fixed; copy the rows: "
        "`CREATE TABLE … PARTITIONED BY (…) AS SELECT * FROM {table}`. Buckets are properties of the new table: "
        "`TBLPROPERTIES ('bucket' = '4', 'bucket-key' = '…')`",
    ),
    "IDENTIFIER FIELDS": Equivalent(
        "ALTER TABLE t SET IDENTIFIER FIELDS a, b",
        "The primary key of a table is fixed; copy the rows: "
        "`CREATE TABLE … TBLPROPERTIES ('primary-key' = '{columns}') AS SELECT * FROM {table}`",
    ),
    "WRITE ORDERED BY": Equivalent(
        "ALTER TABLE t WRITE ORDERED BY a, b",
        "Use `ALTER TABLE {table} SET TBLPROPERTIES ('clustering.incremental' = 'true', "
        "'clustering.columns' = '{columns}')`, which compaction sorts by, or sort in the query that writes: "
        "`INSERT INTO {table} SELECT … SORT BY {columns}`",
    ),
    "WRITE DISTRIBUTED BY PARTITION": Equivalent(
        "ALTER TABLE t WRITE DISTRIBUTED BY PARTITION",
        "Distribute the rows in the query that writes: `INSERT INTO {table} SELECT … DISTRIBUTE BY …`, with the "
        "partition columns",
    ),
}
"""By what the statement is called in errors."""

EXAMPLES: Final[Mapping[str, str]] = {
    "table": "t", "columns": "a,b", "where": "",
    "older_than": ", older_than => current_timestamp() - INTERVAL 168 HOURS",
    "dry_run": "", "version": "3", "timestamp": "'2024-01-01'", "new": "x", "branch": "x", "as_of": "", "at": "",
    "before": "1", "end": "3",
}  # fmt: skip
"""What the texts hold where docs show them."""

METADATA_TABLES: Final[Mapping[str, str]] = {
    "history": "snapshots",
    "metadata_log_entries": "schemas",
    "refs": "branches",
    "data_files": "files",
    "delete_files": "files",
    "position_deletes": "files",
    "entries": "files",
    "all_files": "files",
    "all_data_files": "files",
    "all_delete_files": "files",
    "all_entries": "files",
    "all_manifests": "manifests",
    "partition_statistics_files": "statistics",
}
"""Iceberg's metadata tables that have another name here; `snapshots`, `files` and `manifests` have the same."""

_SNAPSHOT: Final = ("table", "snapshot_id")
_KEEPS: Final = (
    "Use `{call}`, which keeps later versions as Iceberg does; `CALL sys.rollback(…)` with the same arguments deletes "
    "them"
)
PROCEDURES: Final[Mapping[str, Procedure]] = {
    "rollback_to_snapshot": Procedure(
        _SNAPSHOT, _KEEPS, "rollback_to_as_latest", {"table": "table", "snapshot_id": "version"}, _SNAPSHOT
    ),
    "set_current_snapshot": Procedure(
        ("table", "snapshot_id", "ref"),
        _KEEPS,
        "rollback_to_as_latest",
        {"table": "table", "snapshot_id": "version", "ref": "version"},
        _SNAPSHOT,
    ),
    "rollback_to_timestamp": Procedure(
        ("table", "timestamp"),
        "Use `CALL sys.rollback_to_timestamp(table => {table}, timestamp => unix_millis({timestamp}))`, which deletes "
        "later versions",
        shown=("table", "timestamp"),
    ),
    "cherrypick_snapshot": Procedure(
        _SNAPSHOT,
        "Use `INSERT INTO {table_name} SELECT * FROM paimon_incremental_query({table}, {snapshot_id} - 1, "
        "{snapshot_id})`, which adds the rows that the snapshot added; a branch is published by "
        "`CALL sys.merge_branch(table => {table}, branch => '…')`",
        shown=_SNAPSHOT,
    ),
    "publish_changes": Procedure(
        ("table", "wap_id"),
        "Write on a branch, by `SET spark.paimon.branch`, and use `{call}`",
        "merge_branch",
        {"table": "table", "wap_id": "branch"},
        ("table", "wap_id"),
    ),
    "fast_forward": Procedure(
        ("table", "branch", "to"),
        "Use `{call}`, which moves main",
        "fast_forward",
        {"table": "table", "to": "branch"},
        ("table", "branch", "to"),
    ),
    "expire_snapshots": Procedure(
        (
            "table", "older_than", "retain_last", "max_concurrent_deletes", "stream_results", "snapshot_ids",
            "clean_expired_metadata",
        ),
        "Use `{call}`",
        "expire_snapshots",
        {"table": "table", "older_than": "older_than", "retain_last": "retain_min"},
        ("table", "older_than", "retain_last"),
    ),
    "remove_orphan_files": Procedure(
        (
            "table", "older_than", "location", "dry_run", "max_concurrent_deletes", "file_list_view", "equal_schemes",
            "equal_authorities", "prefix_mismatch_mode", "prefix_listing",
        ),
        "Use `{call}`",
        "remove_orphan_files",
        {"table": "table", "older_than": "older_than", "dry_run": "dry_run"},
        ("table", "older_than"),
    ),
    "rewrite_data_files": Procedure(
        ("table", "strategy", "sort_order", "options", "where", "branch"),
        "Use `{call}`",
        "compact",
        {"table": "table", "sort_order": "order_by", "where": "where"},
    ),
    "rewrite_manifests": Procedure(
        ("table", "use_caching", "spec_id"), "Use `{call}`", "compact_manifest", {"table": "table"}
    ),
    "rewrite_position_delete_files": Procedure(
        ("table", "options", "where"), "Use `{call}`", "compact", {"table": "table", "where": "where"}
    ),
    "snapshot": Procedure(
        ("source_table", "table", "location", "properties", "parallelism"),
        "Use `CREATE TABLE {table_name} AS SELECT * FROM {source_table_name}`, which copies the rows",
        shown=("source_table", "table"),
    ),
    "migrate": Procedure(
        ("table", "properties", "drop_backup", "backup_table_name", "parallelism"),
        "Use `CREATE TABLE … AS SELECT * FROM {table_name}`, which copies the rows",
    ),
    "add_files": Procedure(
        ("table", "source_table", "partition_filter", "check_duplicate_files", "parallelism"),
        "Use `INSERT INTO {table_name} SELECT * FROM {source_table_name}`, which copies the rows",
        shown=("table", "source_table"),
    ),
    "register_table": Procedure(
        ("table", "metadata_file"),
        "A table is known by its directory: put that into the warehouse, as `<database>.db/<table>`",
        shown=("table", "metadata_file"),
    ),
    "ancestors_of": Procedure(("table", "snapshot_id"), "Use `DESCRIBE HISTORY {table_name}`"),
    "create_changelog_view": Procedure(
        (
            "table", "changelog_view", "options", "compute_updates", "identifier_columns", "net_changes",
        ),
        "Use `SELECT * FROM paimon_table_diff({table}, '<old version>', '<new version>')`, or `{table_name}$audit_log` "
        "for the changes of a table with a primary key",
    ),
    "compute_table_stats": Procedure(
        ("table", "snapshot_id", "columns"), "Use `ANALYZE TABLE {table_name} COMPUTE STATISTICS FOR ALL COLUMNS`"
    ),
    "compute_partition_stats": Procedure(
        ("table", "snapshot_id"), "Counts by partition are kept by every commit: see `{table_name}$partitions`"
    ),
    "rewrite_table_path": Procedure(
        ("table", "source_prefix", "target_prefix", "start_version", "end_version", "staging_location"),
        "Copy the directory of the table: its metadata holds no absolute paths",
    ),
}  # fmt: skip
"""Iceberg's procedures, of its database `system`, by name."""

_ARGUMENTS: Final[Mapping[str, str]] = {
    "table": "'t'", "snapshot_id": "3", "branch": "'main'", "to": "'fix'", "wap_id": "'fix'", "source_table": "'s'",
    "older_than": "TIMESTAMP '2024-01-01'", "timestamp": "TIMESTAMP '2024-01-01'", "retain_last": "5",
    "metadata_file": "'…'",
}  # fmt: skip
"""Iceberg's arguments in docs, as SQL."""
_SORTED: Final = "order_by"
_Z_ORDER: Final = "zorder("
_MISSING: Final = "'…'"


def instead(what: str, **values: str) -> str:
    """Sentence with the equivalent of a statement of `STATEMENTS`; `values` fill its text, others are blank."""
    blank = dict.fromkeys(EXAMPLES, "")
    return STATEMENTS[what].ours.replace("`", "").format(**{**blank, **values})


def instead_of_call(name: str, arguments: Mapping[str, str]) -> str:
    """Sentence with the equivalent of a call of a procedure of Iceberg.

    Args:
        name: of `PROCEDURES`.
        arguments: SQL texts by Iceberg's parameters; what is missing is shown as '…'.
    """
    return _of_call(name, arguments, PROCEDURES[name].ours.replace("`", ""))


def arguments_by_name(name: str, positional: tuple[str, ...], named: Mapping[str, str]) -> dict[str, str]:
    """The arguments of a call of a procedure of Iceberg by its parameters; those that it has not are left out."""
    known = PROCEDURES[name].parameters
    found = dict(zip(known, positional, strict=False))
    return {**found, **{k.lower(): v for k, v in named.items() if k.lower() in known}}


def documented() -> list[tuple[str, str]]:
    """All equivalents, in Markdown: what Iceberg or Delta Lake has, and what to do here."""
    out = [(f"`{e.theirs}`", e.ours.format(**EXAMPLES)) for e in STATEMENTS.values()]
    for name, procedure in PROCEDURES.items():
        given = {p: _ARGUMENTS[p] for p in procedure.shown}
        out.append((f"`CALL system.{name}({', '.join(given.values())})`", _of_call(name, given, procedure.ours)))
    out += [(f"`t.{theirs}`", f"`t${ours}`") for theirs, ours in METADATA_TABLES.items()]
    return [(theirs, text.removeprefix("Use ")) for theirs, text in out]


def _of_call(name: str, arguments: Mapping[str, str], text: str) -> str:
    procedure = PROCEDURES[name]
    given = {p: arguments.get(p, _MISSING) for p in procedure.parameters}
    names = {f"{p}_name": value.strip("'") for p, value in given.items()}
    ours = {"table": _MISSING}
    ours.update((to, arguments[theirs]) for theirs, to in procedure.arguments.items() if theirs in arguments)
    listed = ", ".join(f"{parameter} => {value}" for parameter, value in _sorting(ours).items())
    return text.format(call=f"CALL sys.{procedure.name}({listed})", **given, **names)


def _sorting(arguments: dict[str, str]) -> dict[str, str]:
    """The arguments with a sort order of Iceberg, `zorder(a, b)` or `a DESC NULLS LAST, b`, in our two."""
    order = arguments.get(_SORTED)
    if order is None:
        return arguments
    text = order.strip("'")
    is_z_order = text.lower().replace(" ", "").startswith(_Z_ORDER)
    inner = text[text.index("(") + 1 :].rstrip(" )") if is_z_order else text
    columns = ",".join(part.split()[0] for part in inner.split(",") if part.split())
    return {**arguments, "order_strategy": "'zorder'" if is_z_order else "'order'", _SORTED: f"'{columns}'"}
