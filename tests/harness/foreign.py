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
        "CALL sys.compact(table => '{t}', order_by => 'a,b', order_strategy => 'order')",
    ),
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
    ("SELECT * FROM {t}.history", "in place of Iceberg's history, read db.t$snapshots"),
    ("SELECT * FROM {t}$history", "in place of Iceberg's history, read db.t$snapshots"),
    ("SELECT * FROM {t}.all_data_files", "read db.t$files"),
    ("ALTER TABLE {t} ADD PARTITION FIELD bucket(16, a)", "CREATE TABLE … PARTITIONED BY (…) AS SELECT * FROM {t}"),
    ("ALTER TABLE {t} DROP PARTITION FIELD b", "CREATE TABLE … PARTITIONED BY (…) AS SELECT * FROM {t}"),
    ("ALTER TABLE {t} SET IDENTIFIER FIELDS a, b", "TBLPROPERTIES ('primary-key' = 'a,b') AS SELECT * FROM {t}"),
    ("ALTER TABLE {t} WRITE ORDERED BY b DESC NULLS LAST, a", "'clustering.columns' = 'b,a')"),
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
        "Use CREATE TABLE {n} LIKE {t} and INSERT INTO {n} SELECT * FROM {t}",
    ),
    ("CONVERT TO DELTA {t}", "CREATE TABLE spark_catalog.… USING DELTA AS SELECT * FROM {t}"),
    ("UNDROP TABLE {n}", "Restore the directory of {n} from a backup of the storage"),
    ("GENERATE symlink_format_manifest FOR TABLE {t}", "USING PARQUET SELECT * FROM {t}"),
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
