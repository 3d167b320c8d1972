"""Consumers: who reads a branch as a stream."""

from __future__ import annotations

import re

from paimon_spark.cli.answer import Answer, rows, sentence
from paimon_spark.cli.call import Call
from paimon_spark.cli.command import Argument, Command, Kind
from paimon_spark.cli.failure import UsageError
from paimon_spark.cli.removed import names
from paimon_spark.cli.text import safe
from paimon_spark.errors import NotFoundError

_NAME = Argument("name", "consumer", positional=True, required=True, spellings=("--consumer-id",))


def _list(call: Call) -> Answer:
    found = call.table().consumers()
    shown = [(c.name, c.goes_on_with, "rows of that snapshot" if c.in_state else "") for c in found]
    return rows(("name", "reads next", "still reading"), shown, data=found, empty="no consumers")


def _reset(call: Call) -> Answer:
    table, name, following = call.table(), call["name"], call["next_snapshot"]
    if following is not None:
        if call["dry_run"]:
            return sentence(f"consumer {safe(name)} would read snapshot {following} next", {"dry_run": True})
        made = table.reset_consumer(name, following)
        return sentence(f"consumer {safe(name)} of {safe(table.name)} reads snapshot {following} next", made)
    known = [c.name for c in table.consumers()]
    if name not in known:
        raise NotFoundError(
            f"{table.name} has no consumer {name!r}; its consumers are {', '.join(known) or 'none'}", consumer=name
        )

    def act() -> None:
        table.reset_consumer(name)

    def answer(_: None, dry_run: bool) -> Answer:
        told = f"{'would remove' if dry_run else 'removed'} consumer {safe(name)} of {safe(table.name)}"
        return sentence(told, {"dry_run": dry_run, "removed": [name]})

    return call.deleting(f"remove consumer {name} of {table.name}", plan=lambda: None, act=act, answer=answer)


def _clear(call: Call) -> Answer:
    table = call.table()
    including, excluding = call["including"], call["excluding"]

    def plan() -> tuple[str, ...]:
        try:
            wanted, unwanted = re.compile(including), None if excluding is None else re.compile(excluding)
        except re.error as e:
            raise UsageError(f"{e.pattern!r} is no regular expression: {e}") from e
        return tuple(
            c.name
            for c in table.consumers()
            if wanted.fullmatch(c.name) and not (unwanted and unwanted.fullmatch(c.name))
        )

    def answer(found: tuple[str, ...], dry_run: bool) -> Answer:
        told = f"{'would remove' if dry_run else 'removed'} {names(found, 'consumer')}" if found else "no such consumer"
        return sentence(told, {"dry_run": dry_run, "removed": found})

    return call.deleting(
        f"remove consumers of {table.name}",
        plan=plan,
        act=lambda: table.clear_consumers(including, excluding),
        answer=answer,
    )


COMMANDS = (
    Command("consumer", "list", "list the consumers of a branch", _list),
    Command(
        "consumer",
        "reset",
        "let a consumer go on with a snapshot, or remove it",
        _reset,
        (_NAME, Argument("next_snapshot", "id of the snapshot to read next; else the consumer goes", parse=int)),
        Kind.DELETE,
        aliases=("reset-consumer",),
    ),
    Command(
        "consumer",
        "clear",
        "remove consumers by their names",
        _clear,
        (
            Argument(
                "including",
                "regular expression of whole names",
                default=".*",
                spellings=("--including-consumers",),
            ),
            Argument("excluding", "regular expression of names that stay", spellings=("--excluding-consumers",)),
        ),
        Kind.DELETE,
        aliases=("clear-consumers",),
    ),
)
