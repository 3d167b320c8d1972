"""Statements of Iceberg and Delta Lake, with what their errors say to write here.

`{t}` is the name of an existing table of columns a and b with one snapshot, `{n}` that of one that does not exist.
"""

from __future__ import annotations

from typing import Final

FOREIGN: Final[tuple[tuple[str, str], ...]] = (
    ("CALL {c}.system.rollback_to_snapshot('{t}', 1)", "CALL sys.rollback_to_as_latest(table => '{t}', version => 1)"),
    ("CALL {c}.sys.set_current_snapshot(table => '{t}', ref => 'v1')", "_latest(table => '{t}', version => 'v1')"),
    (
        "CALL {c}.system.rollback_to_timestamp('{t}', TIMESTAMP '2024-01-01')",
        "CALL sys.rollback_to_timestamp(table => '{t}', timestamp => unix_millis(TIMESTAMP '2024-01-01'))",
    ),
    (
        "CALL {c}.system.expire_snapshots(table => '{t}', older_than => TIMESTAMP '2024-01-01', retain_last => 3)",
        "CALL sys.expire_snapshots(table => '{t}', older_than => TIMESTAMP '2024-01-01', retain_min => 3)",
    ),
    (
        "CALL {c}.sys.expire_snapshots(table => '{t}', retain_last => 3)",
        "does not take the arguments of Iceberg. Use CALL sys.expire_snapshots(table => '{t}', retain_min => 3)",
    ),
    (
        "CALL {c}.sys.fast_forward('{t}', 'main', 'fix')",
        "Use CALL sys.fast_forward(table => '{t}', branch => 'fix'), which moves main",
    ),
    (
        "CALL {c}.system.remove_orphan_files(table => '{t}', dry_run => true)",
        "CALL sys.remove_orphan_files(table => '{t}', dry_run => true)",
    ),
    ("CALL {c}.system.rewrite_data_files('{t}')", "Use CALL sys.compact(table => '{t}')"),
    (
        "CALL {c}.sys.rewrite_data_files(table => '{t}', strategy => 'sort', sort_order => 'zorder(a, b)')",
        "CALL sys.compact(table => '{t}', order_by => 'a,b', order_strategy => 'zorder')",
    ),
    (
        "CALL {c}.sys.rewrite_data_files('{t}', 'sort', 'a DESC NULLS LAST, b')",
        "CALL sys.compact(table => '{t}', order_by => 'a,b', order_strategy => 'order'); compact sorts in ascending",
    ),
    (
        "CALL {c}.system.rewrite_data_files(table => '{t}', where => 'a = 1', branch => 'fix')",
        "CALL sys.compact(table => '{t}$branch_fix', where => 'a = 1'); where of compact chooses whole partitions",
    ),
    (
        "CALL {c}.system.expire_snapshots(table => '{t}', snapshot_ids => array(1))",
        "there is no procedure system.expire_snapshots. Single snapshots cannot be expired",
    ),
    (
        "CALL {c}.system.rollback_to_snapshot(table => '{t}', snapshotid => 1)",
        "rollback_to_as_latest(table => '{t}', version => 1)",
    ),
    (
        "CALL {c}.system.rollback_to_snapshot(table => '{t}', snap => 1)",
        "and Iceberg's has no parameter 'snap'. Use CALL sys.rollback_to_as_latest(table => '{t}', version => '…')",
    ),
    ("CALL {c}.system.rollback_to_snapshot('{t}', 1, 2)", "and Iceberg's takes at most 2 arguments, found 3"),
    (
        "CALL {c}.system.fast_forward('{t}', 'audit', 'main')",
        "DROP BRANCH audit and ALTER TABLE {t} CREATE BRANCH audit AS OF VERSION 'main'",
    ),
    (
        "CALL {c}.system.remove_orphan_files(table => '{t}', location => '/x')",
        "(table => '{t}'); the whole directory of the table is looked at, so location has no equivalent",
    ),
    (
        "CALL {c}.system.compute_table_stats(table => '{t}', columns => array('a', 'b'))",
        "ANALYZE TABLE {t} COMPUTE STATISTICS FOR COLUMNS a, b",
    ),
    ("CALL {c}.system.compute_table_stats('{t}')", "ANALYZE TABLE {t} COMPUTE STATISTICS FOR ALL COLUMNS"),
    (
        (
            "CALL {c}.system.create_changelog_view(table => '{t}', options => map('start-snapshot-id', '1', "
            "'end-snapshot-id', '3'), changelog_view => 'cv', net_changes => true)"
        ),
        "CREATE TEMPORARY VIEW cv AS SELECT * FROM paimon_table_diff('{t}', '1', '3'), or ",
    ),
    ("CALL {c}.system.migrate(table => '{t}', drop_backup => true, parallelism => 2)", "the source stays as it is"),
    ("CALL {c}.system.ancestors_of('{t}', 2)", "DESCRIBE HISTORY {t}; snapshot_id has no equivalent here"),
    ("CALL {c}.sys.rewrite_manifests('{t}')", "CALL sys.compact_manifest(table => '{t}')"),
    ("CALL {c}.system.cherrypick_snapshot('{t}', 4)", "SELECT * FROM paimon_incremental_query('{t}', 4 - 1, 4)"),
    ("CALL {c}.system.add_files('{t}', 'parquet.`/x`')", "INSERT INTO {t} SELECT * FROM parquet.`/x`"),
    ("CALL {c}.system.create_changelog_view(table => '{t}')", "SELECT * FROM paimon_table_diff('{t}', "),
    ("CALL {c}.system.create_tag('{t}', 'v2')", "procedures are in the database sys. Use CALL sys.create_tag(…)"),
    ("DESCRIBE DETAIL {t}", "Use DESCRIBE EXTENDED {t} and SHOW TBLPROPERTIES {t}"),
    (
        "SELECT * FROM table_changes('{t}', 2, 3)",
        "Use paimon_incremental_query('{t}', 1, 3) for the rows that were add",
    ),
    ("SELECT * FROM table_changes('{t}', 2) WHERE a > 1", "paimon_incremental_query('{t}', 1, 'main')"),
    (
        "SELECT * FROM table_changes('{t}', '2024-01-01', '2024-02-01')",
        "Use paimon_incremental_between_timestamp('{t}', '2024-01-01', '2024-02-01')",
    ),
    ("SELECT * FROM {t}.refs", "read db.t$branches and db.t$tags"),
    ("SELECT * FROM {t}.tag_v1", "a query reads that version by db.t VERSION AS OF 'v1'"),
    ("SELECT * FROM {t}.snapshot_id_3", "a query reads that version by db.t VERSION AS OF 3"),
    ("SELECT * FROM {t}.at_timestamp_9", "by db.t TIMESTAMP AS OF timestamp_millis(9)"),
    ("SELECT * FROM {t}.history", "in place of Iceberg's history, read db.t$snapshots"),
    ("SELECT * FROM {t}$history", "in place of Iceberg's history, read db.t$snapshots"),
    ("SELECT * FROM {t}.all_data_files", "read db.t$files"),
    ("ALTER TABLE {t} ADD PARTITION FIELD bucket(16, a)", "CREATE TABLE … PARTITIONED BY (…) AS SELECT * FROM {t}"),
    ("ALTER TABLE {t} DROP PARTITION FIELD b", "CREATE TABLE … PARTITIONED BY (…) AS SELECT * FROM {t}"),
    ("ALTER TABLE {t} SET IDENTIFIER FIELDS a, b", "TBLPROPERTIES ('primary-key' = 'a,b') AS SELECT * FROM {t}"),
    ("ALTER TABLE {t} WRITE ORDERED BY b DESC NULLS LAST, a", "'clustering.columns' = 'b,a')"),
    ("ALTER TABLE {t} WRITE ORDERED BY b DESC NULLS LAST, a", "SELECT … SORT BY b DESC NULLS LAST, a"),
    ("ALTER TABLE {t} WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY a", "SELECT … DISTRIBUTE BY … SORT BY a"),
    (
        "ALTER TABLE {t} WRITE UNORDERED",
        "UNSET TBLPROPERTIES IF EXISTS ('clustering.incremental', 'clustering.columns')",
    ),
    (
        "ALTER TABLE {t} ADD CONSTRAINT c CHECK (a > 0)",
        "CHECK constraints: write to a branch, and publish it with checks",
    ),
    ("ALTER TABLE {t} CREATE BRANCH b RETAIN 30 DAYS", "('snapshot.time-retained' = '30 d')"),
    (
        "ALTER TABLE {t} CREATE BRANCH b RETAIN 30 DAYS WITH SNAPSHOT RETENTION 5 SNAPSHOTS 2 DAYS",
        "('snapshot.time-retained' = '2 d', 'snapshot.num-retained.min' = '5')",
    ),
    (
        "ALTER TABLE {t} CREATE TAG q RETAIN 0 DAYS",
        "time_retained = '0 s' for a tag of table db.t: it must be positive",
    ),
    ("ALTER TABLE {t} WRITE DISTRIBUTED BY PARTITION", "INSERT INTO {t} SELECT … DISTRIBUTE BY …"),
    ("OPTIMIZE {t}", "OPTIMIZE is not supported for table db.t. Use CALL sys.compact(table => '{t}')"),
    (
        "OPTIMIZE {t} ZORDER BY (a, b)",
        "Use CALL sys.compact(table => '{t}', order_strategy => 'zorder', order_by => 'a,b')",
    ),
    ("OPTIMIZE {t} WHERE b > 1 ZORDER BY a", "order_strategy => 'zorder', order_by => 'a', where => 'b > 1')"),
    (
        "VACUUM {t} RETAIN 168 HOURS",
        "CALL sys.expire_snapshots(table => '{t}', older_than => current_timestamp() - INTERVAL 168 HOURS)",
    ),
    ("VACUUM {t} DRY RUN", "CALL sys.remove_orphan_files(table => '{t}', dry_run => true)"),
    ("VACUUM {t} DRY RUN", "Use CALL sys.expire_snapshots(table => '{t}', dry_run => true)"),
    (
        "VACUUM {t} LITE USING INVENTORY (SELECT 1) RETAIN 0 HOURS DRY RUN",
        "older_than => current_timestamp() - INTERVAL 0 HOURS, dry_run => true), which",
    ),
    ("VACUUM {t} LITE USING INVENTORY (SELECT 1) RETAIN 0 HOURS", "LITE USING INVENTORY (SELECT 1) has no equivalent"),
    ("VACUUM {t}", "(the newest stay, as many as the table option snapshot.num-retained.min says, 10 by default"),
    ("OPTIMIZE {t} FULL", "CALL sys.compact(table => '{t}', compact_strategy => 'full')"),
    (
        "RESTORE {t} TO TIMESTAMP AS OF current_timestamp() - INTERVAL 1 HOUR",
        "timestamp => unix_millis(current_timestamp() - INTERVAL 1 HOUR))",
    ),
    (
        "RESTORE TABLE {t} TO VERSION AS OF 3",
        (
            "Use CALL sys.rollback_to_as_latest(table => '{t}', version => '3'), which keeps later versions, or "
            "CALL sys.rollback(table => '{t}', version => '3'), which deletes them"
        ),
    ),
    ("RESTORE {t} TO TIMESTAMP AS OF '2024-01-01'", "timestamp => unix_millis(TIMESTAMP '2024-01-01'))"),
    ("CREATE TABLE {n} SHALLOW CLONE {t} VERSION AS OF 3", "ALTER TABLE {t} CREATE BRANCH n AS OF VERSION 3"),
    (
        "CREATE OR REPLACE TABLE {n} DEEP CLONE {t}",
        "Use DROP TABLE IF EXISTS {n}, CREATE TABLE {n} LIKE {t} and INSERT INTO {n} SELECT * FROM {t}",
    ),
    (
        "CREATE TABLE {n} CLONE {t} TIMESTAMP AS OF '2024-01-01'",
        "INSERT INTO {n} SELECT * FROM {t} TIMESTAMP AS OF '2024-01-01'",
    ),
    (
        "CREATE TABLE IF NOT EXISTS {n} DEEP CLONE {t} TBLPROPERTIES ('x' = 'y') LOCATION '/x'",
        (
            "CREATE TABLE IF NOT EXISTS {n} LIKE {t} TBLPROPERTIES ('x' = 'y') and INSERT INTO {n} SELECT * FROM {t}, "
            "if {n} was not there; LOCATION '/x' has no equivalent here"
        ),
    ),
    (
        "CREATE OR REPLACE TABLE {n} SHALLOW CLONE {t}",
        (
            "DROP BRANCH IF EXISTS n, ALTER TABLE {t} CREATE BRANCH n, then {t}$branch_n; or copy the rows: "
            "DROP TABLE IF EXISTS {n}, CREATE TABLE {n} LIKE {t}"
        ),
    ),
    ("CREATE TABLE {n} SHALLOW CLONE parquet.`/x`", "CREATE TABLE {n} AS SELECT * FROM parquet.`/x`, which copies"),
    ("CREATE TABLE {n} (a INT, CONSTRAINT c CHECK (a > 0))", "CHECK constraints"),
    ("CREATE TABLE {n} (a INT CHECK (a > 0))", "CHECK constraints"),
    ("COPY INTO {t} FROM '/x' FILEFORMAT = PARQUET", "INSERT INTO {t} BY NAME SELECT … FROM parquet.`/x`"),
    ("CONVERT TO DELTA {t}", "CREATE TABLE spark_catalog.… USING DELTA AS SELECT * FROM {t}"),
    ("UNDROP TABLE {n}", "Restore the directory of {n} from a backup of the storage"),
    ("GENERATE symlink_format_manifest FOR TABLE {t}", "USING PARQUET SELECT * FROM {t}"),
    ("UNDROP TABLE WITH ID 'abc'", "UNDROP TABLE WITH ID is not supported. Restore the directory of the table"),
    ("REORG TABLE {t} WHERE a = 1 APPLY (PURGE)", "Use CALL sys.compact(table => '{t}', where => 'a = 1')"),
    ("REORG TABLE {t} APPLY (PURGE)", "Use CALL sys.compact(table => '{t}')"),
    ("FSCK REPAIR TABLE {t}", "Use CALL sys.doctor(table => '{t}')"),
)
IN_CURRENT: Final[tuple[tuple[str, str], ...]] = (
    ("SELECT * FROM t.snapshots", "write t$snapshots, or the database before it: db.t$snapshots"),
    ("SELECT * FROM t.history", "write t$snapshots, or the database before it: db.t$snapshots"),
    ("SELECT * FROM t.files", "write t$files, or the database before it: db.t$files"),
)
"""With the database of the table as the current one."""
MISSPELT: Final = (
    "SELECT * FROM {c}.db.t",
    "INSERT INTO {c}.db.t VALUES (1, 2)",
    "DELETE FROM {c}.db.t",
    "CREATE TABLE {c}.db.x (a INT)",
    "DROP TABLE {c}.db.t",
    "CALL {c}.sys.create_tag('db.t', 'v2')",
)
"""Of a catalog `{c}` that is not there."""


def statements(prefix: str, catalog: str, *, is_plain: bool) -> list[tuple[str, str]]:
    """The statements with names that begin with `prefix`, and what is said; `is_plain`: in `spark.sql`."""
    words = {"t": f"{prefix}db.t", "n": f"{prefix}db.n", "c": catalog}
    found = [(sql.format(**words), said.format(**words)) for sql, said in FOREIGN]
    return [(sql, said.replace("CALL sys.", f"CALL {catalog}.sys.") if is_plain else said) for sql, said in found]
