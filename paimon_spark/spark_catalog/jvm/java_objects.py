"""Python's objects as Spark holds them: with their constants and comparisons in the JVM.

A call from the JVM takes about 0.3 ms, Spark asks for the name of a table dozens of times in a query, and it compares
plans a lot. Each thread of the JVM that calls also gets a connection and a thread in Python: so those that only ask for
what is known had better not call. py4j keeps the connections of threads that have ended, so they are closed here.
"""

from __future__ import annotations

import threading
from typing import Any, Final

from paimon_spark.spark_catalog.jvm.gateway import Gateway

_FEW: Final = 16
"""Threads of the JVM, of which none needs to be looked at."""


def java_object(gateway: Gateway, python: Any, key: str, constants: str) -> Any:
    """The Java object for a Python object that implements interfaces of Java.

    Args:
        gateway: to the JVM.
        python: the object.
        key: what equal objects have in common.
        constants: names of methods without parameters whose first result holds, separated by blanks.
    """
    return gateway.java_code("PythonObjects").object(python, key, constants)


def python_object(gateway: Gateway, java: Any) -> Any:
    """The Python object for which a Java object stands; None if it stands for none."""
    return gateway.of_number(gateway.java_code("PythonObjects").number(java))


class Callers:
    """The threads of the JVM that have called, each of which has a connection and a thread in Python. Thread-safe."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._here = threading.local()
        self._lock = threading.Lock()
        self._known: dict[int, Any] = {}  # threads by the ports of their connections, which may be used again
        self._enough = _FEW

    def note(self) -> None:
        """Note the thread that calls; where many have called, close the connections of those that have ended."""
        if getattr(self._here, "is_known", False):
            return
        self._here.is_known = True
        port = self._gateway.port_of_caller()
        if port is None:
            return
        thread = self._gateway.static("java.lang.Thread", "currentThread")()
        with self._lock:
            self._known[port] = thread
            if len(self._known) < self._enough:
                return
            known, self._known = self._known, {}
            self._enough = 2 * len(known)  # no other thread looks meanwhile
        ended = {port for port, thread in known.items() if not thread.isAlive()}
        if ended:
            self._gateway.java_code("PythonObjects").close(self._gateway.callback_client(), " ".join(map(str, ended)))
        with self._lock:
            self._known = {**{port: thread for port, thread in known.items() if port not in ended}, **self._known}
            self._enough = max(_FEW, 2 * len(self._known))


def callers_of(gateway: Gateway) -> Callers:
    """The threads of the JVM that have called."""
    found: Callers = gateway.once("callers", lambda: Callers(gateway))
    return found
