"""The port by which the JVM of a classic session calls Python.

PySpark starts one without a token (`pyspark.java_gateway.ensure_callback_server_started`), so that any user of the
machine can call the Python objects that the JVM knows. Here it is on the loopback address, answers only who sends a
token that it shares with the JVM alone, and is closed with the application.

py4j loses the token of a client whose port it resets (`PythonClient.copyWith`), so the JVM gets a new client.
"""

from __future__ import annotations

import copy
import secrets
from typing import Any, Final

from py4j.java_gateway import JavaClass, JavaObject, quiet_close, quiet_shutdown
from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started as _ensure_started

_ADDRESS: Final = "127.0.0.1"
_NEVER_CLOSE_S: Final = 30
"""After which py4j closes connections that are not used, where it has no thread for each (its own default)."""


def start_callback_server(context: SparkContext) -> None:
    """Let the JVM call Python until the application ends. A server without a token is replaced by one with a token."""
    application: Any = context
    gateway: Any = application._gateway
    server = gateway.__dict__.get("_callback_server")  # py4j takes other names for those of the JVM
    if gateway.callback_server_parameters.auth_token and not _has_pinned_threads(gateway):
        start: Any = _ensure_started
        start(gateway)  # PySpark's own has a token then
    elif server is None or not server.callback_server_parameters.auth_token:
        _start(gateway, secrets.token_hex(32))
        if server is not None:
            # Calls that are under way keep their connections; the JVM makes no new ones by the old port.
            server.is_shutdown = True
            quiet_shutdown(server.server_socket)
            quiet_close(server.server_socket)
    _close_with(application, gateway)


def _has_pinned_threads(gateway: Any) -> bool:
    """Whether each thread of Python has one of the JVM, unlike with PYSPARK_PIN_THREAD=false."""
    return "python_parameters" in gateway.__dict__


def _start(gateway: Any, token: str) -> None:
    parameters = copy.copy(gateway.callback_server_parameters)
    parameters.address = _ADDRESS
    parameters.port = 0
    parameters.auth_token = token
    parameters.eager_load = parameters.daemonize = parameters.daemonize_connections = True
    gateway.callback_server_parameters = parameters
    if _has_pinned_threads(gateway):
        gateway.python_parameters = parameters
    gateway._callback_server = None
    gateway.start_callback_server(parameters)
    server = gateway._callback_server
    gateway._python_proxy_port = server.port = parameters.port = server.get_listening_port()
    _set_client(gateway, server.port, token)


def _set_client(gateway: Any, port: int, token: str | None) -> None:
    """Give the JVM a client for a port; without a token it sends nothing when Java's proxies are collected."""

    def java_class(name: str) -> Any:
        return JavaClass(name, gateway._gateway_client)

    java_server = JavaObject("GATEWAY_SERVER", gateway._gateway_client)
    java_gateway = java_server.getGateway()
    address = java_class("java.net.InetAddress").getByName(_ADDRESS)
    seconds = java_class("java.util.concurrent.TimeUnit").SECONDS
    sockets = java_class("javax.net.SocketFactory").getDefault()
    tells_of_garbage = token is not None
    if _has_pinned_threads(gateway):
        client = java_class("py4j.PythonClient")(
            java_gateway, None, port, address, _NEVER_CLOSE_S, seconds, sockets, java_server, tells_of_garbage, 0, token
        )
    else:
        client = java_class("py4j.CallbackClient")(
            port, address, token, _NEVER_CLOSE_S, seconds, sockets, tells_of_garbage, 0
        )
    field = java_class("py4j.Gateway")._java_lang_class.getDeclaredField("cbClient")
    field.setAccessible(True)
    field.set(java_gateway, client)


def _close_with(application: Any, gateway: Any) -> None:
    """Close the server when the application is stopped; the next one in this process starts its own."""
    stop = application.stop

    def stop_all() -> None:
        try:
            stop()
        finally:
            application.__dict__.pop("stop", None)
            _close(gateway)

    application.stop = stop_all


def _close(gateway: Any) -> None:
    server = gateway.__dict__.get("_callback_server")
    if server is None:
        return
    try:
        if _has_pinned_threads(gateway):
            _set_client(gateway, server.port, None)
    finally:
        with server.lock:
            for connection in list(server.connections):
                quiet_shutdown(connection.socket)  # else py4j waits for ever to close what another thread reads
        gateway.shutdown_callback_server()
        gateway._callback_server = None
