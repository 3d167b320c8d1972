"""What this family gives to `parse` and `execute`."""

from __future__ import annotations

from typing import Final

from paimon_spark.sql.commands.analyze import analyze
from paimon_spark.sql.commands.show import refresh, show_current, use
from paimon_spark.sql.commands.show import on_table, show_columns, show_create, show_partitions, show_properties
from paimon_spark.sql.commands.describe import describe, describe_database
from paimon_spark.sql.grammar.show import (
    read_analyze,
    read_describe,
    read_refresh,
    read_set_catalog,
    read_show_columns,
    read_show_create,
    read_show_current,
    read_show_databases,
    read_show_partitions,
    read_show_properties,
    read_show_tables,
    read_use,
)
from paimon_spark.sql.commands.show import show_databases, show_tables
from paimon_spark.sql.grammar.show import (
    Analyze,
    Describe,
    DescribeDatabase,
    Refresh,
    ShowColumns,
    ShowCreateTable,
    ShowCurrent,
    ShowDatabases,
    ShowPartitions,
    ShowProperties,
    ShowTables,
    Use,
)
from paimon_spark.sql.statement import Family

FAMILY: Final = Family(
    readers={
        ("DESCRIBE",): read_describe,
        ("DESC",): read_describe,
        ("SHOW", "CREATE", "TABLE"): read_show_create,
        ("SHOW", "COLUMNS"): read_show_columns,
        ("SHOW", "PARTITIONS"): read_show_partitions,
        ("SHOW", "TBLPROPERTIES"): read_show_properties,
        ("SHOW", "TABLES"): read_show_tables,
        ("SHOW", "TABLE", "EXTENDED"): read_show_tables,
        ("SHOW", "DATABASES"): read_show_databases,
        ("SHOW", "SCHEMAS"): read_show_databases,
        ("SHOW", "NAMESPACES"): read_show_databases,
        ("SHOW", "CURRENT"): read_show_current,
        ("USE",): read_use,
        ("SET", "CATALOG"): read_set_catalog,
        ("REFRESH", "TABLE"): read_refresh,
        ("ANALYZE", "TABLE"): read_analyze,
    },
    runners={
        Describe: describe,
        DescribeDatabase: describe_database,
        ShowCreateTable: on_table(show_create),
        ShowColumns: on_table(show_columns),
        ShowPartitions: on_table(show_partitions),
        ShowProperties: on_table(show_properties),
        ShowTables: show_tables,
        ShowDatabases: show_databases,
        ShowCurrent: show_current,
        Use: use,
        Refresh: on_table(refresh),
        Analyze: on_table(analyze),
    },
)
