"""Running snippets: a page's code, top to bottom, as one user would in one session, with folders of its own."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import paimon_spark
from paimon_spark.sql.tokens import tokenize
from tests.docs.snippets import Snippet, differs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_spark import Catalog


_CATALOG: Final = "spark.sql.catalog."


class Door(Enum):
    """What runs the SQL blocks of a page."""

    SPARK = "spark.sql"
    CATALOG = "catalog.sql"


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a page is run.

    Attributes:
        home: a folder; what pages call `/warehouse`, `/checkpoints`, `s3://bucket/warehouse` … lies in it.
        door: what runs SQL blocks. Behind `spark.sql`, the warehouse is attached and the current catalog.
        names: what Python code sees; its own names are added as it runs.
        environment: variables that sh code has set.
    """

    spark: SparkSession
    home: Path
    door: Door = Door.SPARK
    names: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def warehouse(self) -> str:
        return str(self.home / "warehouse")

    @property
    def catalog(self) -> Catalog:
        return paimon_spark.load_catalog(self.warehouse)

    def attach(self) -> None:
        """Attach the warehouse, and make it the current catalog."""
        paimon_spark.attach(self.spark, self.warehouse)
        self.spark.sql("USE paimon")

    def detach(self) -> None:
        """Detach the catalogs that the page has left attached."""
        self.spark.sql("USE spark_catalog.default")
        for key, value in self.spark.conf.getAll.items():
            if key.startswith(_CATALOG) and value == "paimon_spark":
                paimon_spark.detach(self.spark, key.removeprefix(_CATALOG))

    def placed(self, text: str) -> str:
        """`text` with the folders of pages where they are."""
        for scheme in ("s3://bucket", "hdfs://cluster"):
            text = text.replace(f"{scheme}/warehouse", "/warehouse")
        for name in ("warehouse", "checkpoints", "audit"):
            text = text.replace(f"/{name}", f"{self.home}/{name}")
        return text

    def shown(self, text: str) -> str:
        """What was printed, with the folders as pages call them."""
        return text.replace(str(self.home), "")


class WrongOutputError(AssertionError):
    """A page shows something else than its code prints."""


def run(snippet: Snippet, stage: Stage) -> None:
    """Run a snippet, and compare what it prints with what its page shows.

    Raises:
        WrongOutputError: the page shows something else.
    """
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), _inside(stage.home):
        {"python": _python, "sql": _sql, "sh": _sh}[snippet.language](snippet, stage)
    output = stage.shown(printed.getvalue())
    if snippet.prints is not None and differs(snippet.prints, output):
        raise WrongOutputError(f"{snippet} shows\n{snippet.prints}\nand prints\n{output}")


def _python(snippet: Snippet, stage: Stage) -> None:
    source = "\n" * (snippet.line - 1) + stage.placed(snippet.text)  # tracebacks name the line of the page
    exec(compile(source, snippet.page, "exec"), stage.names)


def _sql(snippet: Snippet, stage: Stage) -> None:
    catalog = stage.names.get("catalog", stage.catalog)
    for statement in statements(stage.placed(snippet.text)):
        if stage.door is Door.SPARK:
            rows = stage.spark.sql(statement)
        else:
            rows = catalog.sql(statement, session=stage.spark)
        if rows.columns:
            rows.show(truncate=False)


def statements(sql: str) -> Iterator[str]:
    """The statements of a text, which `;` ends."""
    start = 0
    for word in (*tokenize(sql), None):
        if word is None or word.keyword == ";":
            statement = sql[start : len(sql) if word is None else word.start]
            if tokenize(statement):
                yield statement.strip()
            start = len(sql) if word is None else word.end


def _sh(snippet: Snippet, stage: Stage) -> None:
    for line in stage.placed(snippet.text).replace("\\\n", " ").splitlines():
        argv = shlex.split(line, comments=True)
        if argv:
            _command(argv, stage)


def _command(argv: list[str], stage: Stage) -> None:
    match argv:
        case ["export", assignment]:
            name, _, value = assignment.partition("=")
            stage.environment[name] = value
        case ["paimon-spark", *arguments]:
            from paimon_spark.cli.main import main

            with _variables({"PAIMON_WAREHOUSE": stage.warehouse, **stage.environment}):
                code = main(arguments)
            assert code in (0, 1), f"{shlex.join(argv)} ended with {code}"  # 1: something was found
        case _:
            raise AssertionError(f"no test can run {shlex.join(argv)}: say above the block that it is not run, and why")


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def _variables(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
