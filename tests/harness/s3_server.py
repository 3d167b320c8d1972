"""An S3 server of our own on this machine, for tests marked `s3`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

REGION = "eu-central-1"


@contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Paimon options that reach a fresh server. It holds no bucket yet."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield {
            "s3.endpoint": f"http://{host}:{port}",
            "s3.access-key": "test",
            "s3.secret-key": "test",
            "s3.region": REGION,
            "s3.path.style.access": "true",
        }
    finally:
        server.stop()
