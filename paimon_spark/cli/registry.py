"""All commands, in the order in which help lists them."""

from __future__ import annotations

from functools import lru_cache

from paimon_spark.cli.command import Command


@lru_cache(maxsize=1)
def commands() -> tuple[Command, ...]:
    """Every command."""
    from paimon_spark.cli.commands import (
        actions,
        branch,
        consumer,
        database,
        expiry,
        history,
        lineage,
        savepoint,
        self,
        show,
        snapshot,
        sql,
        table,
        tag,
        upkeep,
    )

    modules = (
        history, show, database, table, branch, tag, savepoint, snapshot, expiry, consumer, upkeep, lineage, sql, self,
        actions,
    )  # fmt: skip
    return tuple(command for module in modules for command in module.COMMANDS)
