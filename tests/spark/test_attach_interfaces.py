"""The Java interfaces that attached catalogs implement in Python: a proxy receives every call."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from paimon_spark import spark_catalog
from paimon_spark.spark_catalog.jvm.proxies import Proxy

_PRIMITIVES = {"boolean": "bool", "int": "int", "long": "int", "void": "None"}


def _proxies(of: type[Proxy] = Proxy) -> Iterator[type[Proxy]]:
    for module in pkgutil.walk_packages(spark_catalog.__path__, spark_catalog.__name__ + "."):
        importlib.import_module(module.name)
    for kind in of.__subclasses__():
        yield kind
        yield from _proxies(kind)


PROXIES = [kind for kind in _proxies() if hasattr(kind, "Java")]


def _methods(spark: SparkSession, kind: type[Proxy]) -> list[Any]:
    """The methods of the interfaces and of those above them, in this release of Spark.

    Those with `$` in their names are Scala's functions of primitive types; Spark calls these functions with objects.
    """
    jvm: Any = spark.sparkContext._jvm
    load = jvm.java.lang.Class.forName
    is_static = jvm.java.lang.reflect.Modifier.isStatic
    found = [m for name in kind.Java.implements for m in load(name).getMethods()]  # type: ignore[attr-defined]
    return [m for m in found if not is_static(m.getModifiers()) and "$" not in m.getName()]


@pytest.mark.quick
def test_every_proxy_is_checked() -> None:
    assert {"CatalogProxy", "TableProxy", "ParserProxy", "BatchProxy", "RelationProxy"} <= {k.__name__ for k in PROXIES}


@pytest.mark.parametrize("kind", PROXIES, ids=lambda kind: str(kind.__name__))
def test_every_method_of_the_interfaces_is_written_in_python(spark: SparkSession, kind: type[Proxy]) -> None:
    methods = _methods(spark, kind)
    assert methods
    wrong = []
    for method in methods:
        ours = getattr(kind, method.getName(), None)
        if ours is None:
            wrong.append(f"missing: {method.toString()}")
            continue
        signature = inspect.signature(ours)
        try:
            signature.bind(None, *[None] * method.getParameterCount())
        except TypeError as e:
            wrong.append(f"{e}: {method.toString()} as {signature}")
        primitive = _PRIMITIVES.get(method.getReturnType().getName())
        if primitive is not None and signature.return_annotation != primitive:
            wrong.append(f"returns {signature.return_annotation}: {method.toString()}")
    assert not wrong, "\n".join(wrong)
