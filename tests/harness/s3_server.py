"""An S3 server of our own on this machine, for tests marked `s3`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any
from unittest.mock import patch
from urllib.request import Request, urlopen

REGION = "eu-central-1"


@contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Paimon options that reach a fresh server. It holds no bucket yet. As in S3, a conditional put is atomic."""
    from moto.s3.responses import S3Response
    from moto.server import ThreadedMotoServer

    put, one_at_a_time = S3Response.put_object, Lock()

    def put_object(self: Any) -> Any:
        with one_at_a_time:
            return put(self)

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    atomic = patch.object(S3Response, "put_object", put_object)
    atomic.start()
    host, port = server.get_host_and_port()
    try:
        yield {
            "s3.endpoint": f"http://{host}:{port}",
            "s3.access-key": "test",
            "s3.secret-key": "test",
            "s3.region": REGION,
            "s3.path.style.access": "true",
        }
    finally:
        atomic.stop()
        # All servers of a process hold the same buckets: the next one shall find none.
        urlopen(Request(f"http://{host}:{port}/moto-api/reset", method="POST"), timeout=60).close()
        server.stop()


@contextmanager
def counted_requests() -> Iterator[list[str]]:
    """The methods of the requests that servers of this process get meanwhile."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication

    call, requests = DomainDispatcherApplication.__call__, list[str]()

    def note(self: Any, environ: Any, start_response: Any) -> Any:
        requests.append(environ["REQUEST_METHOD"])
        return call(self, environ, start_response)

    with patch.object(DomainDispatcherApplication, "__call__", note):
        yield requests


def make_bucket(options: dict[str, str], name: str) -> Any:
    """A client of the server, which has made a bucket; it remembers no listing. `options` are those of `s3_server`."""
    import fsspec

    region = options["s3.region"]
    client = fsspec.filesystem(
        "s3",
        key=options["s3.access-key"],
        secret=options["s3.secret-key"],
        endpoint_url=options["s3.endpoint"],
        client_kwargs={"region_name": region},
        skip_instance_cache=True,
        use_listings_cache=False,
    )
    client.call_s3("create_bucket", Bucket=name, CreateBucketConfiguration={"LocationConstraint": region})
    return client
