"""Procedures of `sys`, for CALL by Spark's own parser and planner.

Source: Spark `connector/catalog/procedures`.
"""

from __future__ import annotations

from typing import Any, Final

from paimon_spark.operations import PROCEDURES
from paimon_spark.operations.operation import Argument, Operation, Type
from paimon_spark.spark_catalog.jvm.gateway import CATALOG, SQL, Gateway
from paimon_spark.spark_catalog.jvm.proxies import Proxy
from paimon_spark.spark_catalog.reads.results import LocalScanProxy
from paimon_spark.sql.procedures import call, find_procedure
from paimon_spark.sql.session import Session

_PARAMETER: Final = CATALOG + "procedures.ProcedureParameter"


def procedure_names() -> list[str]:
    """Names of the procedures that can be called, sorted."""
    return sorted(name for name, forms in PROCEDURES.items() if not forms[0].instead)


_DATA_TYPES: Final = SQL + "types.DataType"


class ProcedureProxy(
    Proxy, implements=(CATALOG + "procedures.UnboundProcedure", CATALOG + "procedures.BoundProcedure")
):
    """A procedure of an attached catalog, unbound and bound: the names of its arguments tell which form is called."""

    def __init__(self, gateway: Gateway, session: Session, namespace: list[str], name: str) -> None:
        self.gateway = gateway
        self._session = session
        self._name = name
        self._form = find_procedure(name if not namespace or namespace == ["sys"] else ".".join((*namespace, name)))[0]

    def name(self) -> str:
        """The name of the procedure."""
        return self._name

    def description(self) -> str:
        """Description of the procedure and its arguments."""
        return f"{self._form.signature(self._name)}: {self._form.help}"

    def bind(self, inputs: Any) -> Any:
        """The procedure itself: all forms take the parameters of the first one."""
        return self

    def isDeterministic(self) -> bool:
        """No: it changes tables."""
        return False

    def parameters(self) -> Any:
        """The parameters, required ones first in Paimon's order."""
        return self.gateway.array(_PARAMETER, [self._parameter(p) for p in _in_spark_order(self._form)])

    def _parameter(self, argument: Argument) -> Any:
        kind = self.gateway.static(_DATA_TYPES, "fromDDL")(argument.type.value)
        builder = self.gateway.static(_PARAMETER, "in")(argument.name, kind).comment(argument.help)
        return (builder if argument.required else builder.defaultValue("NULL")).build()

    def call(self, row: Any) -> Any:
        """Run the procedure with the values of its parameters; an iterator of one scan with its rows."""
        given = {}
        for i, argument in enumerate(_in_spark_order(self._form)):
            if not row.isNullAt(i):
                given[argument.name] = _value(row, i, argument.type)
        returned = call(self._session, self._name, (), given)
        frame: Any = self._session.rows(returned.columns, returned.rows)
        scans = self.gateway.cls("java.util.ArrayList")()
        scans.add(LocalScanProxy.of(self.gateway, frame))
        return scans.iterator()


def _in_spark_order(form: Operation) -> list[Argument]:
    """The parameters; Spark wants those with defaults last."""
    return sorted(form.parameters, key=lambda p: not p.required)


def _value(row: Any, i: int, kind: Type) -> Any:
    match kind:
        case Type.BOOLEAN:
            return row.getBoolean(i)
        case Type.INT:
            return row.getInt(i)
        case Type.BIGINT:
            return row.getLong(i)
        case Type.MAP:
            entries = row.getMap(i)
            keys, values = entries.keyArray(), entries.valueArray()
            return {
                keys.getUTF8String(n).toString(): values.getUTF8String(n).toString()
                for n in range(entries.numElements())
            }
    return row.getUTF8String(i).toString()
