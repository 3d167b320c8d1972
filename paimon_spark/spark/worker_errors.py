"""Errors in Spark's Python workers, shown as one line instead of a traceback.

Spark asks a data source for everything in processes of its own, and shows what they raise as text: the traceback first,
and the message last. A worker leaves the traceback out when its environment says so, which Spark sets for
`spark.sql.execution.pyspark.udf.hideTraceback.enabled`. That setting is for all errors of a session; here it is set in
the one worker that is about to end with an error of this package. Other errors keep their traceback.

Source: PySpark 4.1.4 and 4.3.0, `handle_worker_exception` in `pyspark/util.py`.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final, TypeVar

from paimon_spark.errors import PaimonError
from paimon_spark.text import logger

C = TypeVar("C")
F = TypeVar("F", bound=Callable[..., Any])

_LOG: Final = logger(__name__)
_HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"
_CALLED_BY_SPARK: Final = frozenset(
    (
        "schema", "reader", "writer", "streamReader", "streamWriter", "partitions", "read", "write", "commit", "abort",
        "initialOffset", "latestOffset", "reportLatestOffset", "getDefaultReadLimit", "prepareForTriggerAvailableNow",
        "stop", "analyze", "eval",
    )
)  # fmt: skip


def errors_in_one_line(cls: type[C]) -> type[C]:
    """Decorate a class whose methods Spark's workers call, so that Spark shows errors of this package as one line."""
    for name, value in list(vars(cls).items()):
        if name not in _CALLED_BY_SPARK:
            continue
        if isinstance(value, staticmethod):
            setattr(cls, name, staticmethod(_in_one_line(value.__func__)))
        else:
            setattr(cls, name, _in_one_line(value))
    return cls


def _in_one_line(method: F) -> F:
    if inspect.isgeneratorfunction(method):

        @wraps(method)
        def each(*args: Any, **kwargs: Any) -> Iterator[Any]:
            with _without_traceback():
                yield from method(*args, **kwargs)

        return each  # type: ignore[return-value] # the same signature

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        with _without_traceback():
            return method(*args, **kwargs)

    return call  # type: ignore[return-value] # the same signature


@contextmanager
def _without_traceback() -> Iterator[None]:
    try:
        yield
    except PaimonError as error:
        if is_worker():
            _LOG.debug("error that Spark shows without its traceback", exc_info=error)
            os.environ[_HIDE_TRACEBACK] = "1"
        raise


def is_worker() -> bool:
    """Whether this process is a Python worker of Spark, forked by its daemon or started alone."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")
