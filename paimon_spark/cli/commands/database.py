"""Databases of a warehouse."""

from __future__ import annotations

from paimon_spark.cli.answer import Answer, lines, rows, sentence
from paimon_spark.cli.call import Call
from paimon_spark.cli.command import Argument, Command, Kind, Scope, flag
from paimon_spark.cli.removed import names
from paimon_spark.cli.text import safe

_NAME = Argument("name", "database", positional=True, required=True, spellings=("--database",))


def _list(call: Call) -> Answer:
    found = call.catalog().list_databases()
    return rows(("database",), [(name,) for name in found], data=found, empty="no databases")


def _create(call: Call) -> Answer:
    call.catalog(may_make=True).create_database(call["name"], ignore_if_exists=call["if_not_exists"])
    return sentence(f"database {safe(call['name'])}", {"database": call["name"]})


def _drop(call: Call) -> Answer:
    catalog, name = call.catalog(), call["name"]
    found = catalog.list_tables(name)

    def act() -> None:
        catalog.drop_database(name, cascade=call["cascade"])

    def answer(_: None, dry_run: bool) -> Answer:
        told = [f"{'would drop' if dry_run else 'dropped'} database {safe(name)}"]
        if found:
            told.append(f"with {names(found, 'table')}")
        if found and not call["cascade"]:
            told = [f"database {safe(name)} is not empty: {names(found, 'table')}; --cascade drops them with it"]
        return lines(told, {"dry_run": dry_run, "database": name, "tables": found})

    return call.deleting(f"drop database {name}", plan=lambda: None, act=act, answer=answer)


COMMANDS = (
    Command("database", "list", "list the databases of the warehouse", _list, scope=Scope.WAREHOUSE),
    Command(
        "database",
        "create",
        "make a database",
        _create,
        (_NAME, flag("if_not_exists", "do nothing where there is one")),
        Kind.WRITE,
        Scope.WAREHOUSE,
        aliases=("create-database",),
    ),
    Command(
        "database",
        "drop",
        "remove a database",
        _drop,
        (_NAME, flag("cascade", "with all its tables")),
        Kind.DELETE,
        Scope.WAREHOUSE,
        aliases=("drop-database",),
    ),
)
