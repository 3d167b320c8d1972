"""Python objects that implement Java interfaces, and their errors as Java exceptions.

Each subclass names its interfaces as `implements` and has all of their methods, those with a default in Java too: a
proxy receives every call. `tests/spark/test_attach_interfaces.py` compares them with the interfaces.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException

from paimon_spark.errors import (
    PaimonError,
    UnsupportedFeatureError,
)
from paimon_spark.redaction import get_logger
from paimon_spark.spark.session import remember
from paimon_spark.spark_catalog.jvm.classic import classic_pyspark
from paimon_spark.spark_catalog.jvm.gateway import SQL, Gateway
from paimon_spark.spark_catalog.jvm.java_objects import callers_of, java_object, python_object
from paimon_spark.sql.messages import reword

_LOG: Final = get_logger("paimon_spark")
_CONTEXT: Final = "org.apache.spark.QueryContext"
_FAILED_JOB: Final = "org.apache.spark.SparkException"
_ANALYSIS: Final = SQL + "catalyst.analysis."
_MOST_CHARACTERS: Final = 300
"""Of the message of an error that is a bug here."""


class Proxy:
    """Base of the objects that Spark calls. Errors of this package reach Spark as Java exceptions of one line."""

    gateway: Gateway
    Java: type
    _constants: tuple[str, ...] = ()

    def __init_subclass__(cls, *, implements: Sequence[str] = (), constants: Sequence[str] = (), **kwargs: Any) -> None:
        """`constants` are methods without parameters whose first result holds as long as the object."""
        super().__init_subclass__(**kwargs)
        if implements:
            cls.Java = type("Java", (), {"implements": list(implements)})  # where py4j looks
        cls._constants = (*cls._constants, *constants)
        for name, member in list(vars(cls).items()):
            if callable(member) and not name.startswith("_") and not isinstance(member, type):
                setattr(cls, name, _with_java_errors(member))

    def toString(self) -> str:
        """Java's text of the object."""
        return type(self).__name__

    def hashCode(self) -> int:
        """Java's hash of the object."""
        return id(self) & 0x7FFFFFFF

    def equals(self, other: Any) -> bool:
        """Java's comparison of objects."""
        return isinstance(found := python_object(self.gateway, other), Proxy) and found._key() == self._key()

    def _key(self) -> str:
        """Key that equal objects share."""
        return f"{type(self).__name__} {id(self)}"

    def as_java(self) -> Any:
        """The object as Java is to have it."""
        if not self._constants:
            return self
        return java_object(self.gateway, self, self._key(), " ".join(self._constants))


def _with_java_errors(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Proxy, *args: Any) -> Any:
        try:
            callers_of(self.gateway).note()
            with classic_pyspark():
                found = method(self, *args)
                return found.as_java() if isinstance(found, Proxy) else found
        except Py4JJavaError as e:
            raise _unchecked(self.gateway, e) from None
        except Exception as e:  # noqa: BLE001 - only Java exceptions may reach Spark: all else shows a traceback
            raise java_error(self.gateway, _in_sql(self, e)) from None

    return call


def _in_sql(proxy: Proxy, error: Exception) -> Exception:
    """An error of ours in the words of SQL, with the name of the catalog."""
    if isinstance(error, PaimonError):
        session = getattr(proxy, "session", None) or getattr(proxy, "_session", None)
        reword(error, is_call=False, catalog_name=getattr(session, "called", None))
    return error


def _unchecked(gateway: Gateway, error: Py4JJavaError) -> Exception:
    """Exception for a failed or cancelled Spark job, which no method of an interface declares."""
    failed = error.java_exception
    if failed.getClass().getName() != _FAILED_JOB:
        raised: Exception = error
        return raised
    condition = failed.getCondition()
    if condition is None:
        return java_exception(gateway.cls("java.lang.RuntimeException")(failed.getMessage(), failed))
    given = gateway.text_map(failed.getMessageParameters())
    return java_exception(_with_condition(gateway, condition, given, failed))


def java_exception(exception: Any) -> Exception:
    """Exception to raise in a proxy's method so that Spark sees this Java exception."""
    made: Exception = Py4JJavaError("", exception)
    return made


def java_error(gateway: Gateway, error: Exception) -> Exception:
    """Exception to raise in a proxy's method so that Spark sees a Java exception with the message of `error`."""
    if isinstance(error, Py4JJavaError):
        raised: Exception = error
        return raised
    if isinstance(error, CapturedException) and error._origin is not None:
        return java_exception(error._origin)
    if isinstance(error, PaimonError):
        remember(error)
        return java_exception(_of_ours(gateway, error))
    if isinstance(error, PySparkException):
        return java_exception(gateway.cls("java.lang.IllegalArgumentException")(str(error)))
    _LOG.error("internal error in a call of Spark", exc_info=error)
    return java_exception(_internal(gateway, error))


def _of_ours(gateway: Gateway, error: PaimonError) -> Any:
    match error:
        case UnsupportedFeatureError():
            return gateway.cls("java.lang.UnsupportedOperationException")(one_line(error.message))
    return gateway.cls("java.lang.IllegalArgumentException")(one_line(error.message))


def refused_change(gateway: Gateway, error: PaimonError) -> Exception:
    """An error of ALTER TABLE. Spark catches plain `IllegalArgumentException`s and wraps them; not its own subclass."""
    if isinstance(error, UnsupportedFeatureError):
        return java_error(gateway, error)
    given = (one_line(error.message), gateway.none, gateway.none, gateway.scala_map({}), gateway.array(_CONTEXT))
    return java_exception(gateway.new_hidden("org.apache.spark.SparkIllegalArgumentException", given))


def one_line(message: str) -> str:
    """A message in one line."""
    return " ".join(message.splitlines())


def _internal(gateway: Gateway, error: Exception) -> Any:
    """Spark's INTERNAL_ERROR, of a class that a method of any interface may raise."""
    first = (str(error).strip().splitlines() or [""])[0][:_MOST_CHARACTERS]
    text = f"paimon_spark failed: {type(error).__name__}: {first}. The log of 'paimon_spark' has the traceback"
    return _with_condition(gateway, "INTERNAL_ERROR", {"message": text})


def _with_condition(gateway: Gateway, condition: str, parameters: Mapping[str, str], cause: Any = None) -> Any:
    """An unchecked exception with one of Spark's conditions."""
    return gateway.cls("org.apache.spark.SparkRuntimeException")(
        condition, gateway.scala_map(parameters), cause, gateway.array(_CONTEXT), ""
    )


def no_such_table(gateway: Gateway, ident: Any) -> Exception:
    """Spark's TABLE_OR_VIEW_NOT_FOUND."""
    return java_exception(gateway.cls(_ANALYSIS + "NoSuchTableException")(ident))


def no_such_view(gateway: Gateway, ident: Any) -> Exception:
    """Spark's VIEW_NOT_FOUND."""
    return java_exception(gateway.cls(_ANALYSIS + "NoSuchViewException")(ident))


def no_such_function(gateway: Gateway, ident: Any) -> Exception:
    """Spark's UNRESOLVED_ROUTINE."""
    return java_exception(gateway.cls(_ANALYSIS + "NoSuchFunctionException")(ident))


def table_exists(gateway: Gateway, ident: Any) -> Exception:
    """Spark's TABLE_OR_VIEW_ALREADY_EXISTS."""
    return java_exception(gateway.cls(_ANALYSIS + "TableAlreadyExistsException")(ident))


def no_such_namespace(gateway: Gateway, catalog: str, namespace: Sequence[str]) -> Exception:
    """Spark's SCHEMA_NOT_FOUND."""
    return java_exception(gateway.cls(_ANALYSIS + "NoSuchNamespaceException")(gateway.strings((catalog, *namespace))))


def namespace_exists(gateway: Gateway, namespace: Sequence[str]) -> Exception:
    """Spark's SCHEMA_ALREADY_EXISTS."""
    return java_exception(gateway.cls(_ANALYSIS + "NamespaceAlreadyExistsException")(gateway.strings(namespace)))


def namespace_not_empty(gateway: Gateway, namespace: Sequence[str]) -> Exception:
    """Spark's SCHEMA_NOT_EMPTY."""
    return java_exception(gateway.cls(_ANALYSIS + "NonEmptyNamespaceException")(gateway.strings(namespace)))
