"""Scripts of SQL statements with the rows, or the error, that each is expected to give, as text.

    == name of the script | setting, setting
    CREATE TABLE t (id INT,
      name STRING)
    SELECT * FROM t
    > (1, 'a'), (2, 'b')
    SELECT nothing FROM t
    ! nothing

A line that begins with two spaces continues the statement. After `>` stand the rows of the statement, in any order,
after `!` an expression that the message of its error matches; a statement that fails changes nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


@dataclass
class Step:
    """A statement with what is expected of it."""

    statement: str
    rows: list[Any] | None = None
    error: str | None = None


@dataclass
class Script:
    """Statements that run one after another."""

    name: str
    settings: list[str]
    steps: list[Step] = field(default_factory=list)

    def run(self, spark: SparkSession, warehouse: Path, settings: Mapping[str, Mapping[str, str]]) -> None:
        """Run it in the current database of a session; `settings` are those that scripts name."""
        for name in self.settings:
            for key, value in settings[name].items():
                spark.conf.set(key, value)
        for step in self.steps:
            statement = step.statement.replace("{warehouse}", str(warehouse))
            if step.error is not None:
                before = metadata(warehouse)
                with pytest.raises(PySparkException) as caught:
                    spark.sql(statement).collect()
                assert re.search(step.error, str(caught.value), re.IGNORECASE), str(caught.value)
                assert metadata(warehouse) == before, f"it failed, and changed something: {statement}"
                continue
            found = [plain(tuple(row)) for row in spark.sql(statement).collect()]
            if step.rows is not None:
                assert sorted(found, key=repr) == sorted(step.rows, key=repr), statement


def parsed(text: str, **words: str) -> list[Script]:
    """The scripts of a text; `{word}` in it stands for the text of the word."""
    for word, meaning in words.items():
        text = text.replace(f"{{{word}}}", meaning)
    found: list[Script] = []
    for line in re.sub(r"\n  +", " ", text.strip()).splitlines():
        if not line:
            continue
        kind, _, rest = line.partition(" ")
        if kind == "==":
            name, _, settings = rest.partition(" | ")
            found.append(Script(name, settings.split(", ") if settings else []))
        elif kind == ">":
            found[-1].steps[-1].rows = list(ast.literal_eval(f"[{rest}]"))
        elif kind == "!":
            found[-1].steps[-1].error = rest
        else:
            found[-1].steps.append(Step(line))
    return found


def params(scripts: list[Script]) -> list[Any]:
    """The scripts as parameters of a test."""
    return [pytest.param(script, id=script.name) for script in scripts]


def plain(value: Any) -> Any:
    """The value with rows as tuples."""
    if isinstance(value, tuple):
        return tuple(plain(v) for v in value)
    return [plain(v) for v in value] if isinstance(value, list) else value


def metadata(warehouse: Path) -> list[str]:
    """Snapshots and schemas of all tables."""
    return sorted(str(p) for kind in ("snapshot", "schema") for p in warehouse.rglob(f"{kind}/*-*"))
