"""Settings of the tests that start servers of stores."""

from __future__ import annotations

import os

import pytest

from tests.interop import peers

# Read when gcsfs is imported: the server cannot be asked by gRPC what kind a bucket is.
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests of this folder take longer: the first of a module waits for a server that starts on a busy machine."""
    for item in items:
        if item.path.is_relative_to(peers.ROOT / "tests" / "stores"):
            item.add_marker(pytest.mark.timeout(900))
