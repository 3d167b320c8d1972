"""Parse a command line: words → an operation and the values of its arguments.

Options may stand anywhere, `_` in names is `-`, and an argument that has a position may be given by name.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from paimon_spark.operations import REFUSED_ACTIONS
from paimon_spark.operations.operation import (
    OUTPUT_OPTIONS,
    STORE_OPTIONS,
    TABLE_OPTIONS,
    Argument,
    Operation,
    Type,
    UsageError,
    key_value,
)
from paimon_spark.operations.refused import refusal
from paimon_spark.options.descriptor import did_you_mean

SHARED_OPTIONS: Final = (*STORE_OPTIONS, *TABLE_OPTIONS, *OUTPUT_OPTIONS)
_INSTEAD: Final = {
    "history": "log TABLE` lists the commits of a branch, `paimon-spark log TABLE --graph` those of all branches",
    "describe": "table show TABLE` shows the columns, keys and options of a table",
    "desc": "table show TABLE` shows the columns, keys and options of a table",
    "schema": "table show TABLE` shows the columns, keys and options of a table",
    "snapshots": "snapshot list TABLE` lists the snapshots of a branch",
    "tags": "tag list TABLE` lists the tags of a branch, `paimon-spark refs TABLE` those of all branches",
    "branches": "branch list TABLE` lists the branches of a table",
    "tables": "table list` lists the tables of a warehouse",
    "databases": "database list` lists the databases of a warehouse",
}
"""What people type who know other tools, and the rest of a sentence that names our command."""
_BOOLEANS: Final = ("true", "false")


@dataclass(frozen=True, slots=True)
class _ChosenCommand:
    """The command that the first words name; without one, help is printed, of the noun if there is one.

    Attributes:
        rest: the other words.
        is_action: whether it was called by the name of an action or procedure, as jobs of other engines call it.
    """

    operation: Operation | None
    noun: str | None
    rest: tuple[str, ...]
    is_action: bool = False


def choose(words: Sequence[str], commands: Iterable[Operation]) -> _ChosenCommand:
    """Find the command among the words; options for all commands may stand before it.

    Raises:
        UsageError: there is no such command; the nearest names are offered.
        UnsupportedFeatureError: it is an action of other engines that cannot be done here.
    """
    known = list(commands)
    names = {c.command: c for c in known} | {alias: c.for_paimon() for c in known for alias in c.aliases}
    nouns = {c.noun for c in known if c.verb}
    place = _next_word(words, 0)
    if place is None:
        return _ChosenCommand(None, None, tuple(words))
    noun = _normalized(words[place])
    if noun in names:
        found = names[noun]
        is_action = found.is_action or noun in found.action_names
        return _ChosenCommand(found, None, (*words[:place], *words[place + 1 :]), is_action)
    if noun in REFUSED_ACTIONS:
        raise refusal(f"action {noun}", REFUSED_ACTIONS[noun])
    if noun not in nouns:
        if noun in _INSTEAD:
            raise UsageError(f"there is no command {words[place]!r}; `paimon-spark {_INSTEAD[noun]}")
        near = did_you_mean(noun, [*nouns, *(n for n in names if " " not in n)])
        raise UsageError(f"there is no command {words[place]!r}{near}; `paimon-spark --help` lists them")
    second = _next_word(words, place + 1)
    if second is None:
        return _ChosenCommand(None, noun, tuple(words))
    verb = _normalized(words[second])
    command = names.get(f"{noun} {verb}")
    if command is None:
        verbs = [c.verb for c in known if c.noun == noun and c.verb]
        near = did_you_mean(verb, verbs)
        raise UsageError(f"{noun} has no verb {words[second]!r}{near}; its verbs are {', '.join(verbs)}")
    return _ChosenCommand(command, None, (*words[:place], *words[place + 1 : second], *words[second + 1 :]))


def _normalized(word: str) -> str:
    return word.lower().replace("_", "-")


def _next_word(words: Sequence[str], start: int) -> int | None:
    """Index of the first word that is neither an option nor the value of one."""
    takes_value = {s for a in SHARED_OPTIONS if not a.is_flag for s in _spellings(a)}
    place = start
    while place < len(words):
        if not words[place].startswith("-") or words[place] == "-":
            return place
        place += 2 if _hyphened(words[place]) in takes_value else 1
    return None


def parse(command: Operation, words: Sequence[str]) -> dict[str, Any]:
    """Parse the words after the command: values by the names of the arguments.

    Raises UsageError: an option is unknown, a value is wrong or missing, or there are too many words.
    """
    parser = _Parser(command)
    end = words.index("--") if "--" in words else len(words)
    found, rest = parser.parse_known_args(parser.without_values_of_flags([_hyphened(w) for w in words[:end]]))
    for word in rest:
        if word.startswith("-") and len(word) > 1 and not word[1:2].isdigit():
            name = word.partition("=")[0]
            raise parser.wrong(f"has no option {name}{did_you_mean(name, parser.spellings)}")
    given = {name: value for name, value in vars(found).items() if value is not None}
    if given.get("help"):
        return {**command.defaults, "help": True}
    parser.place(given, [*rest, *words[end + 1 :]])
    every = {a.name: a for a in (*command.positionals, *command.options)}
    return {**command.defaults, **{name: _converted(every[name], value) for name, value in given.items()}}


class _Parser(argparse.ArgumentParser):
    """Options by argparse, with errors of ours; words without a name are placed afterwards."""

    def __init__(self, command: Operation) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self.command = command
        self.spellings: list[str] = []
        self.flags: set[str] = set()
        for argument in (*command.options, *command.positionals):
            spellings = [s for s in _spellings(argument) if s not in self.spellings]
            self.spellings += spellings
            if argument.is_flag:
                self.flags.update(spellings)
                self.add_argument(*spellings, dest=argument.name, action="store_true", default=None)
            else:
                action = "append" if argument.repeated else "store"
                self.add_argument(*spellings, dest=argument.name, action=action)

    def without_values_of_flags(self, words: Sequence[str]) -> list[str]:
        """`--yes true` and `--yes=true`, as other engines' actions have it, → `--yes`; with false → nothing."""
        out, left = list[str](), list(words)
        while left:
            word = left.pop(0)
            name, equals, value = word.partition("=")
            if name not in self.flags:
                out.append(word)
                continue
            if not equals:
                value = left.pop(0) if left and left[0].lower() in _BOOLEANS else "true"
            if value.lower() not in _BOOLEANS:
                raise UsageError(f"option {name} takes no value, or true or false; found {value!r}")
            out += [name] if value.lower() == "true" else []
        return out

    def place(self, given: dict[str, Any], words: list[str]) -> None:
        """Assign each word to the positional arguments that are not named yet, in order, and check what is required."""

        def is_missing(argument: Argument) -> bool:
            return argument.name not in given and not (argument.name == "table" and "path" in given)

        for argument in filter(is_missing, self.command.positionals):
            if words:
                given[argument.name] = words if argument.repeated else words[0]
                words = [] if argument.repeated else words[1:]
        missing = [a for a in (*self.command.positionals, *self.command.options) if a.required and is_missing(a)]
        if missing:
            raise self.wrong(f"needs {', '.join(a.shown if a.positional else a.flag for a in missing)}")
        if words:
            most = " ".join(a.shown for a in self.command.positionals) or "options"
            raise self.wrong(f"takes no more than {most}; {words[0]!r} is too much")

    def wrong(self, what: str) -> UsageError:
        """The error for this command."""
        return UsageError(f"{self.command.command} {what}; see `paimon-spark {self.command.command} --help`")

    def error(self, message: str) -> NoReturn:
        text = re.sub(r"^argument ([^ /]+)[^ ]*: expected one argument$", r"\1 needs a value", message)
        raise UsageError(f"{text}; see `paimon-spark {self.command.command} --help`")


def _hyphened(word: str) -> str:
    """`--tag_name=a_b` → `--tag-name=a_b`; other words as they are."""
    if not word.startswith("--"):
        return word
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value


def _spellings(argument: Argument) -> tuple[str, ...]:
    return (argument.flag, *argument.spellings)


def _converted(argument: Argument, given: Any) -> Any:
    """The value of an argument from its text, or of a repeated one from its texts. Raises UsageError."""
    if isinstance(given, list):
        return [_converted(argument, text) for text in given]
    if isinstance(given, bool):
        return given
    is_number = argument.parse is None and argument.type in (Type.INT, Type.BIGINT)
    parse = int if is_number else argument.parse or str
    called = argument.shown if argument.positional else argument.flag
    try:
        value = parse(given)
    except ValueError as e:
        why = "expected a whole number" if is_number else str(e)
        if parse is key_value:
            why = f"expected {argument.shown}"
        raise UsageError(f"{called} cannot be {given!r}: {why}") from e
    if argument.choices and value not in argument.choices:
        raise UsageError(f"{called} cannot be {given!r}; it is one of {', '.join(argument.choices)}")
    return value
