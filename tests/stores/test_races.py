"""Writers race on tables on each kind of server, and are killed at random."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.storage.fsspec_store import make_filesystem
from tests.chaos.workload import Scenario, check, make_table, run
from tests.stores import servers

pytestmark = [pytest.mark.stores, pytest.mark.timeout(1800)]

SIZE: dict[str, Any] = (
    {"processes": 8, "commits": 50, "kills": 40} if os.environ.get("PAIMON_SPARK_CHAOS") == "full" else {"commits": 6}
)
TABLES: dict[str, dict[str, Any]] = {
    "append": {"overwrites": True},
    "keys": {"keys": ("p", "k"), "options": {"bucket": "2"}, "overwrites": True},
}


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


@pytest.mark.parametrize("table", TABLES)
def test_what_was_said_to_be_done_is_there(table: str, warehouse: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    url, options = warehouse
    scenario = Scenario(f"{url}/{uuid.uuid4().hex}", tmp_path, options, commit_s=0.5, **TABLES[table], **SIZE)
    make_table(scenario)
    run(scenario)
    print(url.partition("://")[0], check(scenario))
