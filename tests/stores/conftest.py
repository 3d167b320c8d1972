"""Settings of the tests that start servers of stores."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

import fsspec
import pytest

from tests.interop import peers
from tests.stores import servers

# Read when gcsfs is imported: the server cannot be asked by gRPC what kind a bucket is.
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests of this folder take longer: the first of a process waits for a server that starts on a busy machine."""
    for item in items:
        if item.path.is_relative_to(peers.ROOT / "tests" / "stores"):
            item.add_marker(pytest.mark.timeout(900))


SERVERS: Final = [
    "hdfs",
    "azure",
    pytest.param("webhdfs", marks=[pytest.mark.slow, pytest.mark.webhdfs]),
    pytest.param("versitygw", marks=[pytest.mark.slow, pytest.mark.versitygw]),
    pytest.param("gcs", marks=[pytest.mark.slow, pytest.mark.gcs]),
]
"""Where stories and races run; those of slow tests run in the shares that runs of CI take in turn."""


@pytest.fixture(scope="session")
def cluster() -> Iterator[servers.Hdfs]:
    """HDFS with one name node."""
    with servers.hdfs() as running:
        yield running


def _running(server: Callable[[], AbstractContextManager[dict[str, str]]]) -> Any:
    """A fixture: the options that reach a server, as long as the tests run."""

    @pytest.fixture(scope="session")
    def options() -> Iterator[dict[str, str]]:
        with server() as found:
            yield found

    return options


s3_options = _running(servers.s3)
gcs_options = _running(servers.gcs)
azure_options = _running(servers.azure)


@pytest.fixture(params=SERVERS)
def warehouse(request: pytest.FixtureRequest) -> tuple[str, dict[str, str]]:
    """URL and options of a new place on a server."""
    name = f"wh-{uuid.uuid4().hex}"
    match request.param:
        case "hdfs":
            return f"hdfs://{request.getfixturevalue('cluster').name_nodes[0].rpc}/{name}", {}
        case "webhdfs":  # a place that WebHDFS's user may write to
            node = request.getfixturevalue("cluster").name_nodes[0]
            return f"webhdfs://{node.web}/{name}", {"fs.user": os.environ.get("USER", "root")}
        case "azure":
            options = request.getfixturevalue("azure_options")
            fsspec.filesystem("abfs", **{k.removeprefix("fs."): v for k, v in options.items()}).mkdir(name)
            return f"abfs://{name}/wh", options
        case "versitygw":
            return f"s3://bucket/{name}", request.getfixturevalue("s3_options")
        case _:
            return f"gs://bucket/{name}", request.getfixturevalue("gcs_options")
