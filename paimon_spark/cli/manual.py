"""Help and the reference, made of the commands as they are declared."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Sequence

from paimon_spark.cli.command import OUTPUT_OPTIONS, STORE_OPTIONS, TABLE_OPTIONS, Argument, Command, Kind
from paimon_spark.cli.failure import MEANINGS

_LEFT = 30
_WIDEST = 100
_INTRODUCTION = (
    "paimon-spark looks at and changes Apache Paimon tables. A table is named db.t in a warehouse (--warehouse, "
    "PAIMON_WAREHOUSE or the configuration file), or by its path or URL; db.t$branch_fix and --branch fix are a branch."
)


def overview(commands: Sequence[Command], noun: str | None = None) -> str:
    """Help of the whole program, or of a noun."""
    chosen = [c for c in commands if (c.noun == noun if noun else not c.is_action)]
    lines = [f"usage: paimon-spark {noun or 'COMMAND'} {'VERB ' if noun else ''}[arguments] [options]", ""]
    lines += [] if noun else [*_filled(_INTRODUCTION), ""]
    lines += ["commands:", *_entries((_usage_words(c), c.help) for c in chosen), ""]
    if noun is None:
        actions = sorted({name for c in commands for name in c.aliases} | {c.name for c in commands if c.is_action})
        lines += ["actions of other engines, with their arguments (--database --table, or --path):"]
        lines += [*_filled(", ".join(actions), "  "), ""]
    lines += ["options of all commands:", *_options((*STORE_OPTIONS, *TABLE_OPTIONS, *OUTPUT_OPTIONS)), ""]
    lines += [*_filled(f"`paimon-spark {noun or 'COMMAND'} {'VERB ' if noun else ''}--help` tells more.")]
    if noun is None:
        lines += ["", "exit codes:", *_entries((str(int(code)), text) for code, text in MEANINGS.items())]
    return "\n".join(lines) + "\n"


def help_of(command: Command) -> str:
    """Help of one command."""
    lines = [f"usage: paimon-spark {_usage_words(command)} [options]", "", *_filled(command.help + ".")]
    if command.details:
        lines += ["", *(line for part in command.details.split("\n") for line in _filled(part))]
    if command.aliases:
        lines += ["", *_filled(f"Also: {', '.join(command.aliases)}.")]
    if command.positionals:
        lines += ["", "arguments:", *_entries((a.shown, _told(a)) for a in command.positionals)]
    own, shared = _own_options(command)
    if own:
        lines += ["", "options:", *_options(own)]
    lines += ["", "options of all commands:", *_options(shared)]
    return "\n".join(lines) + "\n"


def markdown(commands: Sequence[Command]) -> str:
    """The reference of the command line."""
    lines = ["# Command line", "", _INTRODUCTION, "", "## Options of all commands", "", *_md_options(_shared()), ""]
    lines += ["## Exit codes", "", "| code | meaning |", "|---|---|"]
    lines += [f"| {int(code)} | {_cell(text)} |" for code, text in MEANINGS.items()]
    lines += [""]
    for noun in dict.fromkeys(c.noun for c in commands if not c.is_action):
        lines += [f"## {noun}", ""]
        for command in (c for c in commands if c.noun == noun and not c.is_action):
            lines += _md_command(command)
    lines += ["## Actions of other engines", ""]
    lines += ["Under these names, `_` and `-` are the same. The table is `--database d --table t`, or `--path`.", ""]
    lines += ["| action | is |", "|---|---|"]
    table = {name: f"`{c.name}`" for c in commands for name in c.aliases}
    table |= {c.name: c.help for c in commands if c.is_action}
    lines += [f"| `{name}` | {_cell(table[name])} |" for name in sorted(table)]
    return "\n".join(lines) + "\n"


def _md_command(command: Command) -> list[str]:
    lines = [f"### {command.name}", "", f"`paimon-spark {_usage_words(command)}`", "", command.help + ".", ""]
    if command.details:
        lines += [*command.details.split("\n"), ""]
    if command.kind is Kind.DELETE:
        lines += ["It asks before it takes anything away; `--dry-run` only tells, `--yes` does not ask.", ""]
    arguments = [a for a in command.positionals if a.name != "table"]
    if arguments:
        lines += ["| argument | |", "|---|---|", *(f"| `{a.shown}` | {_cell(_told(a))} |" for a in arguments), ""]
    own = [a for a in _own_options(command)[0] if a.name not in ("dry_run", "yes")]
    return lines + ([*_md_options(own), ""] if own else [])


def _md_options(options: Iterable[Argument]) -> list[str]:
    return ["| option | |", "|---|---|", *(f"| `{_spelled(a)}` | {_cell(_told(a))} |" for a in options)]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _shared() -> tuple[Argument, ...]:
    return (*STORE_OPTIONS, *TABLE_OPTIONS, *OUTPUT_OPTIONS)


def _own_options(command: Command) -> tuple[list[Argument], list[Argument]]:
    shared = set(_shared())
    return [a for a in command.options if a not in shared], [a for a in command.options if a in shared]


def _usage_words(command: Command) -> str:
    words = [command.name]
    for argument in command.positionals:
        word = argument.shown + ("..." if argument.repeated else "")
        words.append(word if argument.required else f"[{word}]")
    words += [f"{a.option} {a.shown}" for a in command.options if a.required]
    return " ".join(words)


def _told(argument: Argument) -> str:
    more = f"; one of {', '.join(argument.choices)}" if argument.choices else ""
    has_default = argument.default not in (None, False)
    return argument.help + more + (f" (default {argument.default})" if has_default else "")


def _spelled(argument: Argument) -> str:
    short = [s for s in argument.spellings if not s.startswith("--")]
    names = ", ".join([*short, argument.option])
    return names if argument.is_flag else f"{names} {argument.shown}"


def _options(options: Iterable[Argument]) -> list[str]:
    return _entries((_spelled(a), _told(a)) for a in options)


def _entries(pairs: Iterable[tuple[str, str]]) -> list[str]:
    lines = []
    for name, text in pairs:
        filled = textwrap.wrap(text, max(_room() - _LEFT - 4, 20)) or [""]
        head = f"  {name}".ljust(_LEFT + 2)
        if len(name) > _LEFT - 2:
            lines.append(head.rstrip())
            head = " " * (_LEFT + 2)
        lines += [(head + filled[0]).rstrip(), *(" " * (_LEFT + 2) + line for line in filled[1:])]
    return lines


def _filled(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, _room(), initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _room() -> int:
    return min(shutil.get_terminal_size((_WIDEST, 24)).columns, _WIDEST)
