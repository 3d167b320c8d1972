"""Advice of messages, in the words of each entrance."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import paimon_spark
from paimon_spark import advice
from paimon_spark.advice import ADVICE, ARGUMENTS, Advice, Entrance, reworded


def sources() -> str:
    """The package's code, but for the module itself, as if no text went over several lines."""
    package = Path(paimon_spark.__file__).parent
    text = "".join(p.read_text() for p in sorted(package.rglob("*.py")) if p != Path(advice.__file__))
    return re.sub(r'"\s*\n\s*f?"', "", text)


SOURCES = sources()
NAMES = {id(found): name for name, found in vars(advice).items() if isinstance(found, Advice)}


@pytest.mark.parametrize("name", [NAMES[id(found)] for found in ADVICE])
def test_advice_is_in_a_message(name: str) -> None:
    assert re.search(rf"{{{name}\b", SOURCES) or re.search(rf"\b{name}\.of\(", SOURCES)


@pytest.mark.parametrize("phrase", [found.python for found in ARGUMENTS])
def test_a_phrase_is_one_that_messages_have(phrase: str) -> None:
    assert phrase in SOURCES or (phrase == "if_main_moved='rebase'" and "if_main_moved={REBASE!r}" in SOURCES)


def test_all_advice_is_listed() -> None:
    assert {id(found) for found in ADVICE} == set(NAMES)


def test_a_statement_and_a_call_have_their_own_words() -> None:
    message = "table db.t is there; drop it, or create it with ignore_if_exists=True"
    assert reworded(message, Entrance.STATEMENT) == "table db.t is there; drop it, or use CREATE TABLE IF NOT EXISTS"
    assert reworded("set backup=True", Entrance.CALL) == "set backup => true"
