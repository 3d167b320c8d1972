"""Help of the command line and of each command, made from the declared operations."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from paimon_spark.cli.failure import EXIT_CODES
from paimon_spark.cli.words import SHARED_OPTIONS
from paimon_spark.operations.operation import Argument, Operation

INTRODUCTION: Final = (
    "paimon-spark shows and changes Apache Paimon tables. A table is named db.t in a warehouse (--warehouse, "
    "PAIMON_WAREHOUSE or the configuration file), or by its path or URL; db.t$branch_fix and --branch fix are a branch."
)
_WIDEST: Final = 100
_LEFT: Final = 32
_Section: TypeAlias = tuple[str, Iterable[tuple[str, str]]]


def overview(commands: Sequence[Operation], noun: str | None = None) -> str:
    """Help of the whole program, or of a noun."""
    words = f"{noun} VERB" if noun else "COMMAND"
    chosen = [c for c in commands if (c.noun == noun if noun else not c.is_action)]
    found: list[_Section] = [("commands", ((usage_of(c), c.help) for c in chosen))]
    if noun is None:
        actions = sorted({name for c in commands for name in c.aliases} | {c.command for c in commands if c.is_action})
        found.append(
            (
                "actions of other engines, with their arguments (--database --table, or --path)",
                ((name, "") for name in actions),
            )
        )
    found.append(("options of all commands", _entries(SHARED_OPTIONS)))
    if noun is None:
        found.append(("exit codes", ((str(int(code)), text) for code, text in EXIT_CODES.items())))
    usage = f"paimon-spark {words} [arguments] [options]"
    return _page(usage, [] if noun else [INTRODUCTION], found, f"`paimon-spark {words} --help` shows more.")


def help_of(command: Operation) -> str:
    """Help of one command."""
    also = f"Also: {', '.join(command.aliases)}." if command.aliases else ""
    found: list[_Section] = [
        ("arguments", ((a.shown, a.description) for a in command.positionals)),
        ("options", _entries(command.own_options)),
        ("options of all commands", _entries(command.shared_options)),
    ]
    text = [part for part in (command.sentence, command.details, also) if part]
    return _page(f"paimon-spark {usage_of(command)} [options]", text, found)


def usage_of(command: Operation) -> str:
    """The command with its positional arguments and required options."""
    words = [command.command]
    for argument in command.positionals:
        word = argument.shown + ("..." if argument.repeated else "")
        words.append(word if argument.required else f"[{word}]")
    return " ".join([*words, *(f"{a.flag} {a.shown}" for a in command.options if a.required)])


def spelled(argument: Argument) -> str:
    """An option as help shows it: `-b, --branch BRANCH`."""
    short = [s for s in argument.spellings if not s.startswith("--")]
    names = ", ".join([*short, argument.flag])
    return names if argument.is_flag else f"{names} {argument.shown}"


def _entries(options: Iterable[Argument]) -> Iterator[tuple[str, str]]:
    return ((spelled(a), a.description) for a in options)


def _page(usage: str, paragraphs: Iterable[str], sections: Iterable[_Section], last: str = "") -> str:
    width = min(shutil.get_terminal_size((_WIDEST, 24)).columns, _WIDEST)

    def formatter(prog: str) -> argparse.HelpFormatter:
        return argparse.RawDescriptionHelpFormatter(prog, max_help_position=_LEFT, width=width)

    text = "\n\n".join(textwrap.fill(p, width - 2, break_on_hyphens=False) for p in paragraphs)
    page = argparse.ArgumentParser(
        usage=usage, description=text, epilog=last, add_help=False, formatter_class=formatter
    )
    for title, entries in sections:
        group = page.add_argument_group(title)
        for number, (name, told) in enumerate(entries):
            group.add_argument(f"{title} {number}", metavar=name, help=told.replace("%", "%%"))
    return page.format_help()
