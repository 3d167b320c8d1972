"""What this family gives to `parse` and `execute`."""

from __future__ import annotations

from typing import Final

from paimon_spark.sql.statement import Family
from paimon_spark.sql.grammar.databases import (
    DATABASE,
    read_alter_database,
    read_create_database,
    read_create_view,
    read_drop_database,
    read_drop_table,
    read_repair,
)
from paimon_spark.sql.grammar.alter_table import read_alter
from paimon_spark.sql.grammar.create_table import read_create
from paimon_spark.sql.commands.alter_table import (
    add_partitions,
    alter_table,
    drop_some_partitions,
    drop_table,
    misread,
    rename_table,
)
from paimon_spark.sql.commands.create_table import create_like, create_table
from paimon_spark.sql.commands.databases import alter_database, create_database, create_view, drop_database
from paimon_spark.sql.tables.statements import (
    AddPartitions,
    AlterDatabase,
    AlterTable,
    CreateDatabase,
    CreateTable,
    CreateTableLike,
    CreateView,
    DropDatabase,
    DropPartitions,
    DropTable,
    Misread,
    RenameTable,
)

FAMILY: Final = Family(
    readers={
        ("CREATE", "TABLE"): read_create,
        ("CREATE", "OR", "REPLACE", "TABLE"): read_create,
        ("REPLACE", "TABLE"): read_create,
        ("DROP", "TABLE"): read_drop_table,
        ("ALTER", "TABLE"): read_alter,
        ("REPAIR", "TABLE"): read_repair,
        ("MSCK", "REPAIR", "TABLE"): read_repair,
        ("CREATE", "VIEW"): read_create_view,
        ("CREATE", "OR", "REPLACE", "VIEW"): read_create_view,
        **{("CREATE", word): read_create_database for word in DATABASE},
        **{("DROP", word): read_drop_database for word in DATABASE},
        **{("ALTER", word): read_alter_database for word in DATABASE},
    },
    runners={
        CreateTable: create_table,
        CreateTableLike: create_like,
        DropTable: drop_table,
        AlterTable: alter_table,
        RenameTable: rename_table,
        AddPartitions: add_partitions,
        DropPartitions: drop_some_partitions,
        Misread: misread,
        CreateDatabase: create_database,
        DropDatabase: drop_database,
        AlterDatabase: alter_database,
        CreateView: create_view,
    },
)
