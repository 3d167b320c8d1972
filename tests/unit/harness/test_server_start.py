"""Ports of servers that tests start, and what an error shows of a server that does not start."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.server_start import ServerError, first_line, reserved_port, wait_for_answer


@pytest.mark.skipif(sys.platform != "linux", reason="a bound port is kept for one server on Linux only")
def test_a_server_takes_a_reserved_port_and_nobody_else_is_given_it() -> None:
    with reserved_port() as port:
        with socket.create_server(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)):
            pass
        with pytest.raises(OSError, match="in use"), socket.socket() as other:
            other.bind(("127.0.0.1", port))


@pytest.mark.parametrize("wait", [first_line, lambda process, log: wait_for_answer(process, log, lambda: False)])
def test_a_server_that_ends_shows_its_log(wait: object, tmp_path: Path) -> None:
    assert callable(wait)
    log = tmp_path / "log"
    with log.open("w") as stderr:
        script = "import sys; sys.exit('the disk is full')"
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=stderr, text=True)
    with process, pytest.raises(ServerError, match="ended without starting:\nthe disk is full"):
        wait(process, log)
