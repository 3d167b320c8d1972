"""Server processes that these tests share, and marks of those which `make test` leaves to CI."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.harness.connect import LIGHT_JVM, ConnectServer, connect_server
from tests.harness.connect_limits import limit_of
from tests.harness.doors import DoorName, run_through_doors
from tests.harness.doors import door as door  # the fixture
from tests.harness.doors import spark as spark  # the fixture
from tests.harness.session_state import ConnectSession, SharedSession

_HERE = Path(__file__).resolve().parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to CI what is neither marked quick nor slow, and skip through Spark Connect what has a reason."""
    for item in items:
        if not item.path.is_relative_to(_HERE):
            continue
        if not any(map(item.get_closest_marker, ("quick", "slow"))):
            item.add_marker(pytest.mark.ci)
        reason = limit_of(item.nodeid) if _is_through_connect(item) else None
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session", autouse=True)
def _light_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Processes of Spark that start faster, those of examples and submitted jobs too.

    Spark's Python workers find PySpark in `SPARK_HOME/python/lib/pyspark.zip` first, and compile what they import from
    there anew in each process. Where that is missing they take it from site-packages, where it is compiled already.
    """
    home = tmp_path_factory.mktemp("spark-home")
    for name in ("bin", "sbin", "jars"):
        (home / name).symlink_to(Path(pyspark.__file__).parent / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_HOME", str(home))
        options = f"{os.environ.get('JDK_JAVA_OPTIONS', '')} {LIGHT_JVM}"
        patch.setenv("JDK_JAVA_OPTIONS", options.strip())
        yield


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """The one Spark Connect server of a process of tests."""
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio")
    with connect_server(tmp_path_factory.mktemp("connect")) as running:
        yield running


@pytest.fixture(scope="session")
def connect_session(classic_session: SparkSession, server: ConnectServer) -> Iterator[SparkSession]:
    """A session of Spark Connect beside the classic one, with the same time zone.

    The JVM of the classic one is forked from this process, which fails once the client of Connect has its threads.
    """
    with server.session() as session:
        session.conf.set("spark.sql.session.timeZone", "UTC")
        yield session


@pytest.fixture(scope="session")
def _shared_session(classic_session: SparkSession) -> SharedSession:
    return SharedSession(classic_session)


@pytest.fixture(scope="session")
def _shared_connect_session(connect_session: SparkSession) -> ConnectSession:
    return ConnectSession(connect_session)


@pytest.fixture(scope="module", autouse=True)
def _session_is_as_before_the_module(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give the shared session back as it was before the fixtures of a module."""
    tests = [t for t in request.session.items if t.getparent(pytest.Module) is request.node]
    if not any("spark" in test.fixturenames for test in tests if isinstance(test, pytest.Function)):
        yield
        return
    shared: SharedSession = request.getfixturevalue("_shared_session")
    before = shared.state()
    yield
    shared.restore(before)


@pytest.fixture(autouse=True)
def _session_is_as_before(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give the shared session back as it was, and fail the test that leaves a streaming query running."""
    if "spark" not in request.fixturenames:
        yield
        return
    name = "_shared_connect_session" if _is_through_connect(request.node) else "_shared_session"
    shared: SharedSession | ConnectSession = request.getfixturevalue(name)
    before = shared.state()
    yield
    left = shared.stop_queries()
    shared.restore(before)
    assert not left, f"the test left streaming queries running: {', '.join(left)}"


def _is_through_connect(test: pytest.Item) -> bool:
    """Whether the statements of a test go through Spark Connect."""
    return isinstance(test, pytest.Function) and _door_of(test) is DoorName.CONNECT


def _door_of(test: pytest.Function) -> DoorName | None:
    found = test.callspec.params.get("door") if hasattr(test, "callspec") else None
    return found if isinstance(found, DoorName) else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of statements through their doors."""
    run_through_doors(metafunc)
