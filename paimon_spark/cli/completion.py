"""Completion for shells, made of the commands as they are declared; nothing is run while a line is completed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from paimon_spark.cli.command import Argument, Command
from paimon_spark.cli.failure import UsageError

SHELLS: Final = ("bash", "zsh", "fish")


def completion(shell: str, commands: Sequence[Command]) -> str:
    """A script for the shell. Raises UsageError: not one that is known."""
    if shell == "bash":
        return _bash(commands)
    if shell == "zsh":
        return "#compdef paimon-spark\nautoload -U +X bashcompinit && bashcompinit\n" + _bash(commands)
    if shell == "fish":
        return _fish(commands)
    raise UsageError(f"there is no completion for {shell!r}; there is for {', '.join(SHELLS)}")


def _firsts(commands: Sequence[Command]) -> list[str]:
    aliases = [a for c in commands for a in c.aliases]
    return sorted({*(c.noun for c in commands), *aliases})


def _verbs(commands: Sequence[Command]) -> Mapping[str, list[str]]:
    out: dict[str, list[str]] = {}
    for command in commands:
        if command.verb is not None:
            out.setdefault(command.noun, []).append(command.verb)
    return out


def _offered(argument: Argument) -> list[str]:
    return [argument.option, *(s for s in argument.spellings if not s.startswith("--"))]


def _words(command: Command) -> str:
    choices = [c for a in command.positionals for c in a.choices]
    return " ".join([*choices, *(w for a in command.options for w in _offered(a))])


def _bash(commands: Sequence[Command]) -> str:
    verbs = _verbs(commands)
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
        f"    '') offered='{' '.join(_firsts(commands))}' ;;",
    ]
    for noun, found in verbs.items():
        lines += [f"    {noun})", "      case $second in"]
        lines += [f"        {c.verb}) offered='{_words(c)}' ;;" for c in commands if c.noun == noun and c.verb]
        lines += [f"        *) offered='{' '.join(found)}' ;;", "      esac ;;"]
    for command in commands:
        names = [*([command.noun] if command.verb is None else []), *command.aliases]
        if names:
            lines.append(f"    {'|'.join(names)}) offered='{_words(command)}' ;;")
    lines += [
        "  esac",
        '  COMPREPLY=($(compgen -W "$offered" -- "$word"))',
        "}",
        "complete -o default -F _paimon_spark paimon-spark",
    ]
    return "\n".join(lines) + "\n"


def _fish(commands: Sequence[Command]) -> str:
    start = "complete -c paimon-spark"
    firsts = " ".join(_firsts(commands))
    lines = [f"{start} -n '__fish_use_subcommand' -f -a '{firsts}'"]
    for noun, found in _verbs(commands).items():
        seen = f"__fish_seen_subcommand_from {noun}"
        lines.append(
            f"{start} -n '{seen}; and not __fish_seen_subcommand_from {' '.join(found)}' -f -a '{' '.join(found)}'"
        )
    for command in commands:
        seen = f"__fish_seen_subcommand_from {command.noun}"
        if command.verb is not None:
            seen += f"; and __fish_seen_subcommand_from {command.verb}"
        for argument in command.options:
            short = "".join(f" -s {s[1:]}" for s in argument.spellings if len(s) == 2)
            value = "" if argument.is_flag else " -r"
            told = argument.help.replace("'", "\\'")
            lines.append(f"{start} -n '{seen}' -l {argument.option[2:]}{short}{value} -d '{told}'")
    return "\n".join(lines) + "\n"
