"""Plans of statements that are run here: Spark executes them as its own commands.

Source: Spark `execution/command/commands.scala`, `catalyst/plans/logical/SqlScriptingLogicalPlans.scala`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the usual name

from paimon_spark.spark_catalog.jvm.gateway import SQL, Gateway
from paimon_spark.spark_catalog.jvm.proxies import Proxy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def command_result(gateway: Gateway, frame: DataFrame) -> Any:
    """The plan of a statement that has run: its rows, which nothing computes again.

    Source: Spark `catalyst/plans/logical/CommandResult.scala`; Spark Connect runs the text of anything else twice.
    """
    execution: Any = frame._jdf.queryExecution()
    plan = execution.executedPlan()
    rows = gateway.static("scala.collection.immutable.ArraySeq", "unsafeWrapArray")(plan.executeCollect())
    return gateway.cls(SQL + "catalyst.plans.logical.CommandResult")(plan.output(), execution.logical(), plan, rows)


def command_plan(gateway: Gateway, text: str, columns: str, run: Callable[[], DataFrame]) -> Any:
    """The plan of a statement that `run` runs when Spark executes the plan.

    Spark executes a command once: when `spark.sql` makes its DataFrame, or a script gets to it.

    Args:
        gateway: to the JVM.
        text: of the statement, in EXPLAIN.
        columns: of its rows, as DDL; empty for none.
        run: returns its rows; Java exceptions that it raises reach the user.
    """
    kind = SQL + "types.StructType"
    schema = gateway.static(kind, "fromDDL")(columns) if columns else gateway.cls(kind)()
    return gateway.java_code("Commands").command(text, schema, RowsProxy(gateway, gateway.names(schema), run))


class RowsProxy(Proxy, implements=("java.util.concurrent.Callable",)):
    """The rows of a statement, which each call runs."""

    def __init__(self, gateway: Gateway, names: Sequence[str], run: Callable[[], DataFrame]) -> None:
        """`names` are the columns that Spark expects."""
        self.gateway = gateway
        self._names = list(names)
        self._run = run

    def call(self) -> Any:
        """Run the statement; its rows as Spark's `Row[]`."""
        frame = self._run()
        if frame.columns != self._names:  # a call may lack a column once its arguments are evaluated
            known = set(frame.columns)
            frame = frame.select(*(F.col(n) if n in known else F.lit(None).alias(n) for n in self._names))
        rows: Any = frame._jdf.collect()
        return rows


def script_plan(gateway: Gateway, script: Any, command: Callable[[str], Any]) -> Any:
    """The plan of a script with commands in place of statements: `command` returns one for a text, or None."""
    return gateway.java_code("Plans").script(script, CommandsProxy(gateway, command))


class CommandsProxy(Proxy, implements=("java.util.function.Function",)):
    """The commands for statements of a script."""

    def __init__(self, gateway: Gateway, command: Callable[[str], Any]) -> None:
        self.gateway = gateway
        self._command = command

    def apply(self, text: str) -> Any:
        """The command for a statement; None to leave it as it is."""
        return self._command(text)

    def compose(self, before: Any) -> Any:
        """Not called."""
        raise NotImplementedError("compose")

    def andThen(self, after: Any) -> Any:
        """Not called."""
        raise NotImplementedError("andThen")
