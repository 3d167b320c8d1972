"""Shell completion scripts, made from the declared operations; completing a line runs nothing of this package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from paimon_spark.operations.operation import Argument, Operation

SHELLS: Final = ("bash", "zsh", "fish")


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
            told = argument.help.replace("'", "\\'")
            lines.append(f"{start} -n '{seen}' -l {argument.flag[2:]}{short}{value} -d '{told}'")
    return "\n".join(lines) + "\n"
