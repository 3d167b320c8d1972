"""The declared operations → docs/reference/command-line.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from paimon_spark.cli.commands import commands
from paimon_spark.cli.exit_codes import EXIT_CODES
from paimon_spark.cli.help import INTRODUCTION, spelled, usage_of
from paimon_spark.cli.parser import SHARED_OPTIONS
from paimon_spark.operations.operation import DELETE_OPTIONS, TABLE, Argument, Effect, Operation
from tools.reference.text import code, escaped, page, table

_ABOUT_ACTIONS = (
    "In these names, `_` and `-` are the same. The table is `--database d --table t`, or `--path`. Without a terminal, "
    "actions run without confirmation; the commands that they stand for require `--yes`."
)


def command_line_page() -> str:
    """The page."""
    known = commands()
    parts = [
        escaped(INTRODUCTION),
        "## Options of all commands",
        _options(SHARED_OPTIONS),
        "## Exit codes",
        table(("code", "meaning"), ((str(int(number)), text) for number, text in EXIT_CODES.items())),
    ]
    for noun in dict.fromkeys(c.noun for c in known if not c.is_action):
        parts.append(f"## {noun}")
        for command in (c for c in known if c.noun == noun and not c.is_action):
            parts += _command(command)
    parts += [
        "## Actions of other engines",
        _ABOUT_ACTIONS,
        table(("action", "is"), sorted(_actions(known))),
    ]
    return page("Command line", *parts)


def _actions(known: Sequence[Operation]) -> Iterable[tuple[str, str]]:
    for command in known:
        yield from ((code(name), code(command.command)) for name in command.action_names)
        if command.is_action:
            yield code(command.command), command.help


def _command(command: Operation) -> Iterable[str]:
    yield f"### {command.command}"
    yield code(f"paimon-spark {usage_of(command)}")
    yield command.sentence
    if command.details:
        yield command.details
    if command.synonyms:
        yield f"Also: {', '.join(map(code, command.synonyms))}."
    if command.effect is Effect.DELETE:
        yield "It asks for confirmation; `--dry-run` only prints what would be done, `--yes` does not ask."
    arguments = [a for a in command.positionals if a is not TABLE]
    if arguments:
        yield table(("argument", ""), ((code(a.shown), escaped(a.description)) for a in arguments))
    options = [a for a in command.own_options if a not in DELETE_OPTIONS]
    if options:
        yield _options(options)


def _options(options: Iterable[Argument]) -> str:
    return table(("option", ""), ((code(spelled(a)), escaped(a.description)) for a in options))
