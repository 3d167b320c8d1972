"""Words of a command line → a command and the values of its arguments.

Options may stand anywhere, names with `_` are those with `-`, and an argument that has a place may be given by name.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from paimon_spark.cli.command import (
    OUTPUT_OPTIONS,
    STORE_OPTIONS,
    TABLE_OPTIONS,
    Argument,
    Command,
    Scope,
    key_value,
)
from paimon_spark.cli.commands.actions import NOT_HERE
from paimon_spark.cli.failure import UsageError
from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.options.descriptor import did_you_mean

_TRUTH: Final = ("true", "false")
_EVERYWHERE: Final = (*STORE_OPTIONS, *TABLE_OPTIONS, *OUTPUT_OPTIONS)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the first words say.

    Attributes:
        command: None when they name none: help is asked for then.
        noun: that was named without a verb.
        rest: the other words.
    """

    command: Command | None
    noun: str | None
    rest: tuple[str, ...]


def choose(words: Sequence[str], commands: Iterable[Command]) -> Chosen:
    """Find the command among the words; options for all commands may stand before it.

    Raises:
        UsageError: there is no such command; the nearest names are offered.
    """
    known = list(commands)
    names = {name: c for c in known for name in (c.name, *c.aliases)}
    nouns = {c.noun for c in known if c.verb is not None}
    place = _next_word(words, 0)
    if place is None:
        return Chosen(None, None, tuple(words))
    noun = _plain(words[place])
    if noun in names:
        return Chosen(names[noun], None, (*words[:place], *words[place + 1 :]))
    if noun in NOT_HERE:
        raise UnsupportedFeatureError(f"action {noun} is not here: {NOT_HERE[noun]}", feature=noun)
    if noun not in nouns:
        near = did_you_mean(noun, [*nouns, *(n for n in names if " " not in n)])
        raise UsageError(f"there is no command {words[place]!r}{near}; `paimon-spark --help` lists them")
    second = _next_word(words, place + 1)
    if second is None:
        return Chosen(None, noun, tuple(words))
    verb = _plain(words[second])
    found = names.get(f"{noun} {verb}")
    if found is None:
        verbs = [c.verb for c in known if c.noun == noun and c.verb is not None]
        near = did_you_mean(verb, verbs)
        raise UsageError(f"{noun} has no verb {words[second]!r}{near}; its verbs are {', '.join(verbs)}")
    rest = (*words[:place], *words[place + 1 : second], *words[second + 1 :])
    return Chosen(found, None, rest)


def _plain(word: str) -> str:
    return word.lower().replace("_", "-")


def _next_word(words: Sequence[str], start: int) -> int | None:
    """Place of the first word that is neither an option nor the value of one."""
    takes_value = {s for a in _EVERYWHERE if not a.is_flag for s in _spellings(a)}
    place = start
    while place < len(words):
        word = words[place]
        if not word.startswith("-") or word == "-":
            return place
        place += 2 if _hyphened(word) in takes_value else 1
    return None


def read(command: Command, rest: Sequence[str]) -> dict[str, Any]:
    """Values by the arguments' names.

    Raises:
        UsageError: an option is unknown, a value is wrong or missing, or there are too many words.
    """
    positionals, options = command.positionals, command.options
    parser = _Parser(command)
    for argument in (*options, *positionals):
        parser.add(argument)
    front, behind = _split(rest)
    front = _plain_flags([_hyphened(w) for w in front], {s for a in options if a.is_flag for s in _spellings(a)})
    found, words = parser.parse_known_args(front)
    values = vars(found)
    for word in words:
        if word.startswith("-") and len(word) > 1 and not word[1:2].isdigit():
            name = word.partition("=")[0]
            near = did_you_mean(name, [s for a in (*options, *positionals) for s in _spellings(a)])
            raise UsageError(f"{command.name} has no option {name}{near}; see `paimon-spark {command.name} --help`")
    return _placed(command, values, [*words, *behind])


def _placed(command: Command, values: dict[str, Any], words: list[str]) -> dict[str, Any]:
    """Give each word to the positional arguments that are not named yet, in order."""
    named_table = command.scope is Scope.TABLE and any(values.get(n) for n in ("table", "path"))
    waiting = [
        a
        for a in command.positionals
        if values.get(a.name) in (None, []) and not (a.name == "table" and named_table and values.get("path"))
    ]
    if values.get("help"):
        return _with_defaults(command, values)
    for argument in waiting:
        if argument.repeated:
            values[argument.name] = [_parsed(argument, w) for w in words]
            words = []
        elif words:
            values[argument.name] = _parsed(argument, words.pop(0))
    missing = [
        a
        for a in (*command.positionals, *command.options)
        if a.required and values.get(a.name) in (None, []) and not (a.name == "table" and values.get("path"))
    ]
    if missing:
        shown = ", ".join(a.shown if a.positional else a.option for a in missing)
        raise UsageError(f"{command.name} needs {shown}; see `paimon-spark {command.name} --help`")
    if words:
        raise UsageError(
            f"{command.name} takes no more than {_list(command.positionals)}; {words[0]!r} is too much; see "
            f"`paimon-spark {command.name} --help`"
        )
    return _with_defaults(command, values)


def _with_defaults(command: Command, values: dict[str, Any]) -> dict[str, Any]:
    for argument in (*command.positionals, *command.options):
        if values.get(argument.name) is None:
            values[argument.name] = [] if argument.repeated else argument.default
    return values


def _list(arguments: Sequence[Argument]) -> str:
    return " ".join(a.shown for a in arguments) or "options"


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands before and after `--`."""
    if "--" not in words:
        return list(words), []
    place = words.index("--")
    return list(words[:place]), list(words[place + 1 :])


def _plain_flags(words: list[str], flags: Iterable[str]) -> list[str]:
    """`--yes true` and `--yes=true`, as other engines' actions have it, → `--yes`; with false → nothing."""
    known, out, place = set(flags), list[str](), 0
    while place < len(words):
        name, equals, value = words[place].partition("=")
        place += 1
        if name not in known:
            out.append(words[place - 1])
            continue
        if not equals and place < len(words) and words[place].lower() in _TRUTH:
            value, equals = words[place], "="
            place += 1
        if equals and value.lower() not in _TRUTH:
            raise UsageError(f"option {name} takes no value, or true or false; found {value!r}")
        if not equals or value.lower() == "true":
            out.append(name)
    return out


def _hyphened(word: str) -> str:
    """`--tag_name=a_b` → `--tag-name=a_b`; other words as they are."""
    if not word.startswith("--"):
        return word
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value


def _parsed(argument: Argument, text: str) -> Any:
    called = argument.shown if argument.positional else argument.option
    try:
        value = argument.parse(text)
    except ValueError as e:
        why = "expected a whole number" if argument.parse is int else str(e)
        if argument.parse is key_value:
            why = f"expected {argument.shown}"
        raise UsageError(f"{called} cannot be {text!r}: {why}") from e
    if argument.choices and value not in argument.choices:
        raise UsageError(f"{called} cannot be {text!r}; it is one of {', '.join(argument.choices)}")
    return value


def _spellings(argument: Argument) -> tuple[str, ...]:
    return (argument.option, *argument.spellings)


class _Parser(argparse.ArgumentParser):
    """argparse for options alone, whose errors are ours."""

    def __init__(self, command: Command) -> None:
        super().__init__(prog=f"paimon-spark {command.name}", add_help=False, allow_abbrev=False)
        self.command = command

    def add(self, argument: Argument) -> None:
        spellings = [s for s in _spellings(argument) if s not in self._option_string_actions]
        if argument.is_flag:
            self.add_argument(*spellings, dest=argument.name, action="store_true", default=None)
            return
        action = "append" if argument.repeated else "store"
        self.add_argument(*spellings, dest=argument.name, action=action, type=_typed(argument))

    def error(self, message: str) -> NoReturn:
        told = re.sub(r"^argument ([^ /]+)[^ ]*: expected one argument$", r"\1 needs a value", message)
        told = re.sub(r"^argument [^ ]+: ", "", told)
        raise UsageError(f"{told}; see `paimon-spark {self.command.name} --help`")


def _typed(argument: Argument) -> Any:
    def parse(text: str) -> Any:
        try:
            return _parsed(argument, text)
        except UsageError as e:
            raise argparse.ArgumentTypeError(str(e)) from e

    return parse
