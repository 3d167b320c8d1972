"""Settings of the tests that start servers of stores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from paimon_spark.storage.fsspec_store import make_filesystem
from tests.interop import peers
from tests.stores import servers

# Read when gcsfs is imported: the server cannot be asked by gRPC what kind a bucket is.
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests of this folder take longer: the first of a module waits for a server that starts on a busy machine."""
    for item in items:
        if item.path.is_relative_to(peers.ROOT / "tests" / "stores"):
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="module", params=["hdfs", "webhdfs", "s3", "gcs", "azure"])
def warehouse(request: pytest.FixtureRequest) -> Iterator[tuple[str, dict[str, str]]]:
    """URL and options of a place on a server."""
    with ExitStack() as stack:
        if request.param in ("hdfs", "webhdfs"):
            node = stack.enter_context(servers.hdfs()).name_nodes[0]
            # A place that WebHDFS's user may write to.
            yield (
                (f"hdfs://{node.rpc}/wh", {})
                if request.param == "hdfs"
                else (
                    f"webhdfs://{node.web}/wh",
                    {"fs.user": os.environ.get("USER", "root")},
                )
            )
        elif request.param == "azure":
            options = stack.enter_context(servers.azure())
            arguments = {key.removeprefix("fs."): value for key, value in options.items()}
            make_filesystem("abfs", arguments).mkdir("bucket")
            yield "abfs://bucket/wh", options
        else:
            scheme, server = {"s3": ("s3", servers.s3), "gcs": ("gs", servers.gcs)}[request.param]
            yield f"{scheme}://bucket/wh", stack.enter_context(server())
