"""Profiles, the session of the Spark tests, and nothing else."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from tests.harness.connect import LIGHT_JVM
from tests.harness.search import NIGHTLY, PROFILE, QUICK, QUICK_EXAMPLES, SEARCH_FACTOR

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest_plugins = ["tests.harness.shards"]

# Spark's Python workers run the interpreter that runs the tests, whatever `python3` is on PATH.
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

# Time limits are left to pytest-timeout: on a busy machine a slow example is no failure.
# Every run tries the same examples; `make test` the first few of them. `make test-nightly` searches at random, and
# replays what it found until that is mended.
settings.register_profile(
    "default",
    deadline=None,
    max_examples=30,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(QUICK, parent=settings.get_profile("default"), max_examples=QUICK_EXAMPLES)
settings.register_profile(
    NIGHTLY,
    parent=settings.get_profile("default"),
    derandomize=False,
    database=DirectoryBasedExampleDatabase(".hypothesis/examples"),
    max_examples=60 * SEARCH_FACTOR,
)
settings.load_profile(PROFILE)
if PROFILE != NIGHTLY:
    # Hypothesis mixes in the constants of all modules loaded so far: examples would depend on the tests run before.
    providers._get_local_constants = Constants  # noqa: SLF001 - nothing public turns that off


@pytest.fixture(scope="session")
def classic_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one local session of a test run, as a user of the installed package gets it."""
    from pyspark.sql import SparkSession

    home = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("paimon_spark tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={home} {LIGHT_JVM}")
        .config("spark.local.dir", str(home / "local"))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    try:
        yield session
    finally:
        session.stop()


@pytest.fixture(scope="session")
def spark(classic_session: SparkSession) -> SparkSession:
    """The session of a test."""
    return classic_session
