"""Functions of attached catalogs: `sys.max_pt`, and table functions.

Spark evaluates them while it plans a query, as their arguments are constants.

Source: Spark `connector/catalog/FunctionCatalog.java`, `connector/catalog/functions`;
`catalyst/analysis/FunctionRegistry.scala`, `TableFunctionRegistry`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from paimon_spark.errors import InvalidInputError
from paimon_spark.spark_catalog.jvm.gateway import CATALOG, SQL, Gateway
from paimon_spark.spark_catalog.jvm.proxies import Proxy
from paimon_spark.sql.functions import MAX_PT, TABLE_FUNCTIONS, max_pt, session_of_table, table_function
from paimon_spark.sql.session import Session

if TYPE_CHECKING:
    from paimon_spark.spark_catalog.session.sessions import AttachedSession

_FUNCTIONS: Final = CATALOG + "functions."
_DATA_TYPE: Final = SQL + "types.DataType"


class MaxPtProxy(Proxy, implements=(_FUNCTIONS + "UnboundFunction", _FUNCTIONS + "ScalarFunction")):
    """`sys.max_pt`, unbound and bound."""

    def __init__(self, gateway: Gateway, session: Session) -> None:
        self.gateway = gateway
        self._session = session

    def name(self) -> str:
        """The name in messages and plans."""
        return f"{self._session.catalog_name}.sys.{MAX_PT}"

    def canonicalName(self) -> str:
        """The name by which Spark compares functions."""
        return self.name()

    def description(self) -> str:
        """Text of DESCRIBE FUNCTION."""
        return "The greatest value of the first partition column of a table, among partitions that hold data"

    def bind(self, arguments: Any) -> Any:
        """The function itself. Raises InvalidInputError: it takes the name of a table."""
        kinds = [f.dataType().typeName() for f in arguments.fields()]
        if len(kinds) != 1 or not str(kinds[0]).startswith("string"):
            raise InvalidInputError(f"sys.{MAX_PT} takes the name of a table as one text: sys.{MAX_PT}('db.t')")
        return self

    def inputTypes(self) -> Any:
        """One text."""
        return self.gateway.array(_DATA_TYPE, [self.resultType()])

    def resultType(self) -> Any:
        """Text."""
        return self.gateway.static(_DATA_TYPE, "fromDDL")("STRING")

    def isResultNullable(self) -> bool:
        """No: a table without partitions is an error."""
        return False

    def isDeterministic(self) -> bool:
        """Yes, within a query: so Spark calls it once, while it plans."""
        return True

    def produceResult(self, row: Any) -> Any:
        """The value for the name of a table. Raises as `max_pt`."""
        table = None if row.isNullAt(0) else row.getUTF8String(0).toString()
        if table is None:
            raise InvalidInputError(f"sys.{MAX_PT} takes the name of a table, found NULL")
        return self.gateway.static("org.apache.spark.unsafe.types.UTF8String", "fromString")(
            max_pt(self._session, table)
        )


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
