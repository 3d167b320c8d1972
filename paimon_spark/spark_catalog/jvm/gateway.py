"""The gateway to the JVM of a classic session.

Only this module, `callback_server.py` and `proxies.py` import py4j, whose objects have no types: `Any` begins and
ends here.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from importlib.resources import files
from typing import Any, Final
from uuid import uuid4

from py4j.java_gateway import JavaClass, JavaMember, JavaObject
from py4j.protocol import STATIC_PREFIX, Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from paimon_spark.spark.schema import spark_schema
from paimon_spark.spark.session import SEPARATOR, entries_of
from paimon_spark.spark_catalog.jvm.callback_server import start_callback_server
from paimon_spark.types import RowType

SQL: Final = "org.apache.spark.sql."
CATALOG: Final = SQL + "connector.catalog."
_SEPARATOR: Final = "\x1f"
_MOST_KEPT: Final = 200


class Gateway:
    """The JVM of a Spark application, as Python calls it. Thread-safe."""

    def __init__(self, context: SparkContext) -> None:
        """Let the JVM call back, and let Java exceptions that Python raises reach it as what they are."""
        self.context: Any = context
        gateway: Any = self.context._gateway
        self._gateway = gateway
        self._client: Any = gateway._gateway_client
        self._classes: dict[str, Any] = {}
        self._statics: dict[tuple[str, str], Any] = {}
        self._kept: dict[tuple[str, str], Any] = {}
        self._lock = threading.RLock()
        for logger in ("py4j.clientserver", "py4j.java_gateway"):
            logging.getLogger(logger).addFilter(_is_unexpected)
        # Before the server gets a copy: the JVM also calls by connections that Python opened.
        for parameters in ("callback_server_parameters", "python_parameters"):
            found = getattr(self._gateway, parameters, None)
            if found is not None:
                found.propagate_java_exceptions = True
        start_callback_server(context)

    def is_of(self, spark: SparkSession) -> bool:
        """Whether a session is one of this application."""
        return spark.sparkContext is self.context

    def cls(self, name: str) -> Any:
        """A class by its full name; call it to make an object."""
        if name not in self._classes:
            self._classes[name] = JavaClass(name, self._client)
        return self._classes[name]

    def static(self, class_name: str, method: str) -> Any:
        """A static method. Unlike an attribute of a class it needs no look-up in the JVM."""
        key = (class_name, method)
        if key not in self._statics:
            self._statics[key] = JavaMember(method, None, STATIC_PREFIX + class_name, self._client)
        return self._statics[key]

    def constant(self, class_name: str, name: str) -> Any:
        """The value of a static field or an enumeration."""
        key = (class_name, name)
        if key not in self._statics:
            self._statics[key] = getattr(self.cls(class_name), name)
        return self._statics[key]

    def once(self, key: str, make: Callable[[], Any]) -> Any:
        """Result of `make`, called once per application by the first thread that asks."""
        with self._lock:
            if (key, "") not in self._statics:
                self._statics[(key, "")] = make()
            return self._statics[(key, "")]

    def array(self, class_name: str, items: Sequence[Any] = ()) -> Any:
        """A Java array."""
        if not items:
            key = (class_name, "[]")
            if key not in self._statics:
                self._statics[key] = self._gateway.new_array(self.cls(class_name), 0)
            return self._statics[key]
        made = self._gateway.new_array(self.cls(class_name), len(items))
        put = self.static("java.lang.reflect.Array", "set")  # py4j's `made[i] = item` takes no Python objects
        for i, item in enumerate(items):
            put(made, i, item.as_java() if hasattr(type(item), "as_java") else item)
        return made

    def strings(self, items: Iterable[str]) -> Any:
        """A `String[]`, made in one call."""
        found = list(items)
        if not found:
            return self.array("java.lang.String")
        split = self.static("org.apache.commons.lang3.StringUtils", "splitByWholeSeparatorPreserveAllTokens")
        return split(_SEPARATOR.join(found), _SEPARATOR)

    def names(self, struct: Any) -> tuple[str, ...]:
        """The names of the columns of a `StructType`, by one call and not one for each."""
        return tuple(column["name"] for column in json.loads(struct.json())["fields"])

    def namespaces(self, items: Sequence[Sequence[str]]) -> Any:
        """A `String[][]`."""
        made = self._gateway.new_array(self.cls("java.lang.String"), len(items), 1)
        for i, item in enumerate(items):
            made[i] = self.strings(item)
        return made

    def java_map(self, items: Mapping[str, str]) -> Any:
        """A `java.util.Map` of text."""
        made = self.cls("java.util.HashMap")()
        for key, value in items.items():
            made.put(key, value)
        return made

    def text_map(self, java_map: Any) -> dict[str, str]:
        """A Java map of text as a dictionary.

        One text takes two calls; to iterate takes two for each entry, and many for the exception at the end.
        """
        text = self.static("scala.jdk.javaapi.CollectionConverters", "asScala")(java_map).mkString(SEPARATOR)
        return entries_of(text)

    def scala_map(self, items: Mapping[str, str]) -> Any:
        """An immutable Scala `Map` of text."""
        to_scala = self.static("scala.jdk.javaapi.CollectionConverters", "asScala")
        return self.static("scala.collection.immutable.Map", "from")(to_scala(self.java_map(items)))

    def java_set(self, items: Iterable[Any]) -> Any:
        """A `java.util.Set`."""
        made = self.cls("java.util.HashSet")()
        for item in items:
            made.add(item)
        return made

    def options(self, items: Mapping[str, str]) -> Any:
        """A `CaseInsensitiveStringMap`."""
        return self.cls(SQL + "util.CaseInsensitiveStringMap")(self.java_map(items))

    def seq(self, items: Iterable[Any]) -> Any:
        """A Scala `Seq`."""
        made = self.cls("java.util.ArrayList")()
        for item in items:
            made.add(item)
        return self.static("scala.jdk.javaapi.CollectionConverters", "asScala")(made).toSeq()

    @property
    def none(self) -> Any:
        """Scala's `None`."""
        return self.static("scala.Option", "empty")()

    def some(self, value: Any) -> Any:
        """A Scala `Some`."""
        return self.cls("scala.Some")(value)

    def scala_object(self, class_name: str) -> Any:
        """A Scala `object`."""
        return self.constant(class_name + "$", "MODULE$")

    def struct(self, text: str) -> Any:
        """A `StructType` of its JSON text."""
        return self.kept("struct", text, lambda: self.static(SQL + "types.DataType", "fromJson")(text))

    def kept(self, kind: str, key: str, make: Callable[[], Any]) -> Any:
        """An immutable object of Java that later calls are likely to need, too; the oldest ones are forgotten."""
        found = self._kept.get((kind, key))
        if found is None:
            found = make()
            with self._lock:
                self._kept[kind, key] = found
                if len(self._kept) > _MOST_KEPT:
                    del self._kept[next(iter(self._kept))]
        return found

    def is_called_from(self, package: str) -> bool:
        """Whether the thread of the JVM that waits for this call runs code of a package.

        No, where PySpark's threads are not those of the JVM (`PYSPARK_PIN_THREAD=false`).
        """
        text = self.static("org.apache.commons.lang3.exception.ExceptionUtils", "getStackTrace")
        return f"at {package}" in text(self.cls("java.lang.Throwable")())

    def columns(self, row_type: RowType) -> Any:
        """Spark's `Column[]`, with comments and default values."""
        json = spark_schema(row_type).json()

        def make() -> Any:
            to_columns = self.static(CATALOG + "CatalogV2Util", "structTypeToV2Columns")
            struct = self.struct(json)
            # Later releases of Spark take whether the columns keep their ids, too.
            return to_columns(struct, False) if self.has_column_ids else to_columns(struct)

        return self.kept("columns", json, make)

    @cached_property
    def has_column_ids(self) -> bool:
        """Whether this release of Spark asks if columns keep their ids (4.2 and later)."""
        methods = self.cls("java.lang.Class").forName(CATALOG + "CatalogV2Util").getMethods()
        found = next(m for m in methods if m.getName() == "structTypeToV2Columns")
        return bool(found.getParameterCount() > 1)

    @cached_property
    def resolves_views(self) -> bool:
        """Whether this release of Spark resolves views of catalogs (4.3 and later)."""
        try:
            self.cls("java.lang.Class").forName(CATALOG + "View")
        except Py4JJavaError:
            return False
        return True

    def new_hidden(self, class_name: str, arguments: Sequence[Any]) -> Any:
        """An object made by the only private constructor of a class; later releases of Spark have more parameters.

        The parameters that `arguments` lacks are Scala's `None`.
        """
        constructor = self.once(class_name, lambda: self._private_constructor(class_name))
        more = constructor.getParameterCount() - len(arguments)
        return constructor.newInstance(self.array("java.lang.Object", [*arguments, *[self.none] * more]))

    def _private_constructor(self, class_name: str) -> Any:
        is_private = self.static("java.lang.reflect.Modifier", "isPrivate")
        all_of = self.static("java.lang.Class", "forName")(class_name).getDeclaredConstructors()
        [found] = [c for c in all_of if is_private(c.getModifiers())]
        found.setAccessible(True)
        return found

    def java_code(self, name: str) -> Any:
        """The object whose methods are those of `java/<name>.java`, compiled once per application.

        Janino compiles them in the driver, as it does the code that Spark generates. Executors see none of it.
        """
        return self.once(f"{name}.java", lambda: self._compiled(name))

    def _compiled(self, name: str) -> Any:
        evaluator = self.cls("org.codehaus.janino.ClassBodyEvaluator")()
        evaluator.setParentClassLoader(self.static("org.apache.spark.util.Utils", "getContextOrSparkClassLoader")())
        # py4j keeps methods by the names of their classes: the next application in this JVM needs another name.
        evaluator.setClassName(f"paimon_spark.{name}{uuid4().hex}")
        evaluator.cook(files(__package__).joinpath("java", f"{name}.java").read_text(encoding="utf-8"))
        constructor = evaluator.getClazz().getDeclaredConstructor(self.array("java.lang.Class"))
        return constructor.newInstance(self.array("java.lang.Object"))

    def of_number(self, number: str | None) -> Any:
        """The Python object that py4j knows by a number; None without one."""
        return None if number is None else self._gateway.gateway_property.pool.dict.get(number)

    def callback_client(self) -> Any:
        """The JVM's client that calls Python."""
        return JavaObject("GATEWAY_SERVER", self._client).getCallbackClient()

    def port_of_caller(self) -> int | None:
        """The port in the JVM of the connection by which its thread calls this one; None if that is not known."""
        get = getattr(self._client, "get_thread_connection", None)  # missing with PYSPARK_PIN_THREAD=false
        connection = None if get is None else get()
        if connection is None or connection.initiated_from_client or connection.socket is None:
            return None
        return int(connection.socket.getpeername()[1])

    def captured(self, function: Any) -> Any:
        """Object that a Scala function literal of a class refers to. Raises AttributeError without one."""
        for field in function.getClass().getDeclaredFields():
            field.setAccessible(True)
            return field.get(function)
        raise AttributeError(f"{function.getClass().getName()} refers to nothing")

    def private_field(self, instance: Any, name: str) -> Any:
        """A private `java.lang.reflect.Field` of an object's class or of one above it, made accessible.

        Raises AttributeError: there is none, as in a release of Spark that this package does not know.
        """
        found = instance.getClass()
        while found is not None:
            for field in found.getDeclaredFields():
                if field.getName() == name or field.getName().endswith(f"$${name}"):
                    field.setAccessible(True)
                    return field
            found = found.getSuperclass()
        raise AttributeError(f"{instance.getClass().getName()} has no field {name!r}")


_LOCK: Final = threading.Lock()
_GATEWAYS: Final[list[Gateway]] = []


def gateway_of(context: SparkContext) -> Gateway:
    """The gateway of an application."""
    with _LOCK:
        for found in _GATEWAYS:
            if found.context is context:
                return found
        _GATEWAYS[:] = [made := Gateway(context)]  # one context lives at a time
        return made


def _is_unexpected(record: logging.LogRecord) -> bool:
    """Whether py4j is to log an error of a call: not a Java exception, which Spark shows to the user."""
    return record.exc_info is None or not isinstance(record.exc_info[1], Py4JJavaError)


def optional(value: Any) -> Any:
    """The value of a `java.util.Optional`, or None."""
    return value.get() if value is not None and value.isPresent() else None
