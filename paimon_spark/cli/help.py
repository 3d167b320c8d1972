"""Help of commands and shell completion, made from the declared operations."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from paimon_spark.cli.exit_codes import EXIT_CODES
from paimon_spark.cli.parser import SHARED_OPTIONS
from paimon_spark.operations.operation import Argument, Operation

INTRODUCTION: Final = (
    "paimon-spark shows and changes Apache Paimon tables. A table is named db.t in a warehouse (--warehouse, "
    "PAIMON_WAREHOUSE or the configuration file), or by its path or URL; db.t$branch_fix and --branch fix are a branch."
)
SHELLS: Final = ("bash", "zsh", "fish")
_WIDEST: Final = 100
_LEFT: Final = 32
_Section: TypeAlias = tuple[str, Iterable[tuple[str, str]]]


def overview(commands: Sequence[Operation], noun: str | None = None) -> str:
    """Help of the whole program, or of a noun."""
    words = f"{noun} VERB" if noun else "COMMAND"
    chosen = [c for c in commands if (c.noun == noun if noun else not c.is_action)]
    found: list[_Section] = [("commands", ((usage_of(c), c.help) for c in chosen))]
    text = [f"`paimon-spark {words} --help` shows more."]
    found.append(("options of all commands", _entries(SHARED_OPTIONS)))
    if noun is None:
        actions = sorted(
            {*(a for c in commands for a in c.action_names), *(c.command for c in commands if c.is_action)}
        )
        found.append(("exit codes", ((str(int(code)), meaning) for code, meaning in EXIT_CODES.items())))
        text = [
            INTRODUCTION,
            *text,
            f"Actions of other engines, with their arguments (--database --table, or --path): {', '.join(actions)}.",
        ]
    return _page(f"paimon-spark {words} [arguments] [options]", text, found)


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


def _page(usage: str, paragraphs: Iterable[str], sections: Iterable[_Section]) -> str:
    width = min(shutil.get_terminal_size((_WIDEST, 24)).columns, _WIDEST)

    def formatter(prog: str) -> argparse.HelpFormatter:
        return argparse.RawDescriptionHelpFormatter(prog, max_help_position=_LEFT, width=width)

    text = "\n\n".join(textwrap.fill(p, width - 2, break_on_hyphens=False) for p in paragraphs)
    page = argparse.ArgumentParser(usage=usage, description=text, add_help=False, formatter_class=formatter)
    for title, entries in sections:
        group = page.add_argument_group(title)
        for number, (name, out) in enumerate(entries):
            group.add_argument(f"{title} {number}", metavar=name, help=out.replace("%", "%%"))
    return page.format_help()


def completion(shell: str, commands: Sequence[Operation]) -> str:
    """The script for one of `SHELLS`."""
    if shell == "fish":
        return _fish(commands)
    zsh = "#compdef paimon-spark\nautoload -U +X bashcompinit && bashcompinit\n"
    return (zsh if shell == "zsh" else "") + _bash(commands)


def _first_words(commands: Sequence[Operation]) -> list[str]:
    aliases = [a for c in commands for a in c.aliases]
    return sorted({*(c.noun for c in commands), *aliases})


def _verbs(commands: Sequence[Operation]) -> Mapping[str, list[str]]:
    out: dict[str, list[str]] = {}
    for command in commands:
        if command.verb:
            out.setdefault(command.noun, []).append(command.verb)
    return out


def _spellings(argument: Argument) -> list[str]:
    return [argument.flag, *(s for s in argument.spellings if not s.startswith("--"))]


def _words(command: Operation) -> str:
    choices = [c for a in command.positionals for c in a.choices]
    return " ".join([*choices, *(w for a in command.options for w in _spellings(a))])


def _bash(commands: Sequence[Operation]) -> str:
    lines = [
        "_paimon_spark() {",
        "  local word=${COMP_WORDS[COMP_CWORD]} first='' second='' offered=''",
        "  local i",
        "  for ((i = 1; i < COMP_CWORD; i++)); do",
        "    case ${COMP_WORDS[i]} in",
        "      -w|--warehouse|-b|--branch|-o|--option) ((i++)) ;;",
        "      -*) ;;",
        "      *) if [[ -z $first ]]; then first=${COMP_WORDS[i]//_/-}; else second=${COMP_WORDS[i]}; break; fi ;;",
        "    esac",
        "  done",
        "  case $first in",
        f"    '') offered='{' '.join(_first_words(commands))}' ;;",
    ]
    for noun, found in _verbs(commands).items():
        lines += [f"    {noun})", "      case $second in"]
        lines += [f"        {c.verb}) offered='{_words(c)}' ;;" for c in commands if c.noun == noun and c.verb]
        lines += [f"        *) offered='{' '.join(found)}' ;;", "      esac ;;"]
    for command in commands:
        names = [*([] if command.verb else [command.noun]), *command.aliases]
        if names:
            lines.append(f"    {'|'.join(names)}) offered='{_words(command)}' ;;")
    lines += [
        "  esac",
        '  COMPREPLY=($(compgen -W "$offered" -- "$word"))',
        "}",
        "complete -o default -F _paimon_spark paimon-spark",
    ]
    return "\n".join(lines) + "\n"


def _fish(commands: Sequence[Operation]) -> str:
    start = "complete -c paimon-spark"
    lines = [f"{start} -n '__fish_use_subcommand' -f -a '{' '.join(_first_words(commands))}'"]
    for noun, found in _verbs(commands).items():
        verbs = " ".join(found)
        seen = f"__fish_seen_subcommand_from {noun}; and not __fish_seen_subcommand_from {verbs}"
        lines.append(f"{start} -n '{seen}' -f -a '{verbs}'")
    for command in commands:
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in command.command.split())
        for argument in command.options:
            short = "".join(f" -s {s[1:]}" for s in argument.spellings if len(s) == 2)
            value = "" if argument.is_flag else " -r"
            text = argument.help.replace("'", "\\'")
            lines.append(f"{start} -n '{seen}' -l {argument.flag[2:]}{short}{value} -d '{text}'")
    return "\n".join(lines) + "\n"
