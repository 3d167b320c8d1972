"""Messages in SQL's words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import paimon_spark
from paimon_spark.sql import messages


def sources() -> str:
    """The package's code, but for the module itself, as if no text went over several lines."""
    package = Path(paimon_spark.__file__).parent
    text = "".join(p.read_text() for p in sorted(package.rglob("*.py")) if p != Path(messages.__file__))
    return re.sub(r'"\s*\n\s*f?"', "", text)


SOURCES = sources()


@pytest.mark.parametrize("phrase", sorted({python for python, _ in (*messages._CALL, *messages._STATEMENT)}))
def test_a_phrase_is_one_that_messages_have(phrase: str) -> None:
    assert phrase in SOURCES


def test_a_statement_and_a_call_have_their_own_words() -> None:
    message = "table db.t is there; drop it, or create it with ignore_if_exists=True"
    assert messages.in_sql(message, is_call=False) == "table db.t is there; drop it, or use CREATE TABLE IF NOT EXISTS"
    assert messages.in_sql("set backup=True", is_call=True) == "set backup => true"
