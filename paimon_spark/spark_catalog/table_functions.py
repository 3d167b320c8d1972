"""Table functions of attached catalogs, such as `paimon_incremental_query`.

Source: Spark `catalyst/analysis/FunctionRegistry.scala`, `TableFunctionRegistry`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paimon_spark.errors import InvalidInputError
from paimon_spark.spark_catalog.gateway import Gateway
from paimon_spark.spark_catalog.proxies import Proxy
from paimon_spark.sql.functions import TABLE_FUNCTIONS, session_of_table, table_function

if TYPE_CHECKING:
    from paimon_spark.spark_catalog.sessions import AttachedSession


def table_function_names() -> tuple[str, ...]:
    """Names of the functions."""
    return tuple(sorted(TABLE_FUNCTIONS))


class TableFunctionProxy(Proxy, implements=("scala.Function1",)):
    """Callback for the arguments of a function: `Seq[Expression] => LogicalPlan`."""

    def __init__(self, gateway: Gateway, session: AttachedSession, name: str) -> None:
        self.gateway = gateway
        self._session = session
        self._name = name

    def apply(self, expressions: Any) -> Any:
        """The plan that reads what the arguments name."""
        values = [_value(self._name, expressions.apply(i)) for i in range(expressions.size())]
        session = session_of_table(self._session.sessions(), values)
        found = table_function(session, self._name, values)
        return found.to_spark(self._session.spark)._jdf.queryExecution().analyzed()

    def compose(self, before: Any) -> Any:
        """Spark does not call it."""
        raise NotImplementedError("compose")

    def andThen(self, after: Any) -> Any:
        """Spark does not call it."""
        raise NotImplementedError("andThen")


def _value(function: str, expression: Any) -> Any:
    """The value of a constant argument."""
    if not expression.foldable():
        raise InvalidInputError(f"{function} takes constants, found {expression.sql()}", function=function)
    value = expression.eval(None)
    return value.toString() if hasattr(value, "toString") else value
