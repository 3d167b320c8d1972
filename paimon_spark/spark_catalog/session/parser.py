"""The SQL parser of a session: Spark's own, but for statements that Spark lacks.

Statements on tables of attached catalogs that Spark cannot parse or plan become commands, which run here when Spark
executes them; those that only read run when they are parsed. In all other text, only what Spark's grammar lacks is
rewritten: `t$branch_b` without quotes, `t#savepoints`, and Flink's hint OPTIONS.

Source: Spark `catalyst/parser/ParserInterface.scala`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame

from paimon_spark.errors import DatabaseNotFoundError, PaimonError, TableNotFoundError
from paimon_spark.spark_catalog.jvm.gateway import SQL, Gateway
from paimon_spark.spark_catalog.jvm.proxies import Proxy
from paimon_spark.spark_catalog.session.commands import command_plan, command_result, script_plan
from paimon_spark.spark_catalog.session.parse_errors import parse_error
from paimon_spark.sql.functions import refuse_columns, refuse_foreign
from paimon_spark.sql.queries.errors import without_log
from paimon_spark.sql.routing import (
    computes_names,
    is_description_of_history,
    is_script,
    may_lack_catalog,
    refuse_in_script,
    refuse_unknown_catalog,
    route,
    routed,
    with_computed_names,
    with_spark_syntax,
)

if TYPE_CHECKING:
    from paimon_spark.spark_catalog.session.sessions import AttachedSession

_PARSER: Final = SQL + "catalyst.parser."
_UNRESOLVED: Final = re.compile(r"'Unresolved\w+ \[([^]\[]+)\]")
"""The name of a table in the text of a plan."""


class ParserProxy(Proxy, implements=(_PARSER + "ParserInterface",)):
    """The parser of one session."""

    def __init__(self, gateway: Gateway, session: AttachedSession, inner: Any) -> None:
        """`inner` is the parser that the session had."""
        self.gateway = gateway
        self.inner = inner
        self._session = session

    def parsePlan(self, sql: str) -> Any:
        """The plan of a statement."""
        if not self._session.has_catalogs():
            return self.inner.parsePlan(sql)
        self._check(sql)
        return self._plan(self._rewritten(sql))

    def parsePlanWithParameters(self, sql: str, context: Any) -> Any:
        """The plan of a statement with parameters."""
        if not self._session.has_catalogs():
            return self.inner.parsePlanWithParameters(sql, context)
        self._check(sql)
        text = with_spark_syntax(sql)
        if computes_names(text):
            text = self._rewritten(self._with_values(text, context))
        return self._plan(text, context)

    def _check(self, sql: str) -> None:
        """Refuse what Spark would refuse late, and not in one line."""
        refuse_in_script(self._session.sessions, sql)
        refuse_columns(sql)
        refuse_foreign(self._session.sessions, sql)

    def _with_values(self, sql: str, context: Any) -> str:
        """A statement with values in place of its parameters; one that Spark cannot parse stays as it is."""
        if context is None:
            return sql
        substitute = self.gateway.static(_PARSER + "ParameterHandler", "substituteParameters")
        try:
            with without_log():
                return str(substitute(sql, context)._1())
        except (Py4JJavaError, CapturedException):
            return sql

    def _rewritten(self, sql: str) -> str:
        if not self._session.has_catalogs():
            return sql
        if computes_names(sql):
            sql = with_computed_names(self._session.sessions()[0], sql)
        return with_spark_syntax(sql)

    def _plan(self, sql: str, context: Any = None) -> Any:
        """The plan of a statement: of its rows, if it is one of ours that is routed or that Spark's parser lacks."""
        if is_script(sql):
            return self._script(sql, context)
        found = self._routed(self._with_values(sql, context)) if routed(sql) else None
        if found is not None:
            return found
        try:
            with without_log():  # an error is logged when the user gets it
                if context is None:
                    plan = self.inner.parsePlan(sql)
                else:
                    plan = self.inner.parsePlanWithParameters(sql, context)
        except (Py4JJavaError, CapturedException) as e:
            found = self._routed(self._with_values(sql, context), is_unknown=True)
            if found is None:
                raise e from None
            return found
        self._check_catalogs(sql, plan)
        return plan

    def _script(self, sql: str, context: Any) -> Any:
        """The plan of a script: its statements that are run here are commands, as they are outside scripts."""
        text = self._with_values(sql, context)
        with without_log():  # an error is logged when the user gets it
            plan = (
                self.inner.parsePlan(text)
                if text != sql or context is None
                else self.inner.parsePlanWithParameters(sql, context)
            )
        self._check_catalogs(text, plan)
        return script_plan(self.gateway, plan, self._of_script)

    def _of_script(self, sql: str) -> Any:
        """The command for a statement of a script; None for one that Spark runs."""
        return self._routed(sql, is_in_script=True) if routed(sql) else None

    def _check_catalogs(self, sql: str, plan: Any) -> None:
        """Refuse a table of a catalog that is not there, of which Spark says that a name has too many parts."""
        first = may_lack_catalog(sql, self._session.names)
        found = [m[1].split(", ") for m in _UNRESOLVED.finditer(plan.toString())] if first else []
        for parts in found:
            if parts[0] in first:
                self._refuse_unknown_catalog(parts)

    def _checked_name(self, sql: str, found: Any, parts: Any) -> Any:
        """Result for the name of a table, after a check that its catalog exists."""
        if self._session.has_catalogs() and may_lack_catalog(sql, self._session.names):
            self._refuse_unknown_catalog([parts.apply(i) for i in range(parts.size())])
        return found

    def _refuse_unknown_catalog(self, parts: Sequence[str]) -> None:
        try:
            refuse_unknown_catalog(self._session.sessions(), parts)
        except TableNotFoundError as e:
            raise parse_error(self.gateway, e) from None

    def _routed(self, sql: str, *, is_unknown: bool = False, is_in_script: bool = False) -> Any:
        """The plan of a statement that is run here, when Spark executes it; None for one that Spark runs."""
        try:
            with without_log():
                found = route(self._session.sessions(), sql, is_unknown=is_unknown, is_in_script=is_in_script)
        except (TableNotFoundError, DatabaseNotFoundError) as e:
            if not is_unknown and self._is_of_spark(sql) and not is_description_of_history(sql):
                return None  # Spark says that there is no such table
            raise parse_error(self.gateway, e) from None
        except (PaimonError, PySparkException) as e:
            raise parse_error(self.gateway, e) from None
        if found is None:
            return None
        if found.columns is None:
            frame = self._run(sql, is_unknown=is_unknown)
            return None if frame is None else command_result(self.gateway, frame)
        rows = partial(self._executed, sql, is_unknown=is_unknown)
        return command_plan(self.gateway, type(found.statement).__name__, found.columns, rows)

    def _executed(self, sql: str, *, is_unknown: bool) -> DataFrame:
        """The rows of a statement that Spark executes."""
        frame = self._run(sql, is_unknown=is_unknown)
        if frame is not None:
            return frame
        jsession = self._session.spark._jsparkSession
        plan = self.inner.parsePlan(sql)
        return DataFrame(self.gateway.static(SQL + "classic.Dataset", "ofRows")(jsession, plan), self._session.spark)

    def _run(self, sql: str, *, is_unknown: bool) -> DataFrame | None:
        """Run a statement here; None for one that Spark runs."""
        try:
            return self._session.run(sql, is_unknown=is_unknown)
        except (TableNotFoundError, DatabaseNotFoundError) as e:
            if not is_unknown and self._is_of_spark(sql) and not is_description_of_history(sql):
                return None  # Spark says that there is no such table
            raise parse_error(self.gateway, e) from None
        except (PaimonError, PySparkException) as e:
            raise parse_error(self.gateway, e) from None

    def _is_of_spark(self, sql: str) -> bool:
        """Whether Spark can parse a statement."""
        try:
            with without_log():
                self.inner.parsePlan(sql)
        except (Py4JJavaError, CapturedException):
            return False
        return True

    def parseQuery(self, sql: str) -> Any:
        """The plan of a query."""
        return self.inner.parseQuery(self._rewritten(sql))

    def parseExpression(self, sql: str) -> Any:
        """An expression."""
        return self.inner.parseExpression(sql)

    def parseTableIdentifier(self, sql: str) -> Any:
        """The name of a table of Spark's own catalog."""
        return self.inner.parseTableIdentifier(self._rewritten(sql))

    def parseFunctionIdentifier(self, sql: str) -> Any:
        """The name of a function."""
        return self.inner.parseFunctionIdentifier(sql)

    def parseMultipartIdentifier(self, sql: str) -> Any:
        """Name of a table, for `spark.table` and similar methods."""
        found = self.inner.parseMultipartIdentifier(self._rewritten(sql))
        return self._checked_name(sql, found, found)

    def parseTemporalTableIdentifier(self, sql: str) -> Any:
        """The name of a table with a version (Spark 4.3)."""
        found = self.inner.parseTemporalTableIdentifier(self._rewritten(sql))
        return self._checked_name(sql, found, found.productElement(0))

    def parseRoutineParam(self, sql: str) -> Any:
        """Parameters of a function."""
        return self.inner.parseRoutineParam(sql)

    def parseTableSchema(self, sql: str) -> Any:
        """Columns."""
        return self.inner.parseTableSchema(sql)

    def parseDataType(self, sql: str) -> Any:
        """A type."""
        return self.inner.parseDataType(sql)

    def splitStatements(self, sql: str) -> Any:
        """The statements of a script (Spark 4.3)."""
        return self.inner.splitStatements(sql)
