"""What the processes of these tests have in common, and the order of the files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from tests.harness.connect import LIGHT_JVM
from tests.harness.doors import door as door  # the fixture
from tests.harness.doors import run_through_both

if TYPE_CHECKING:
    pass

# Files that take long, the longest first: two processes then share the work evenly to the end (`--dist loadfile` gives
# each the next file, and `--no-loadscope-reorder` keeps this order). The order within a file, and of all others, stays.
LONGEST = [
    "test_stream_write.py",
    "test_stream_read.py",
    "test_examples.py",
    "test_lineage_stream.py",
    "test_sql_rows.py",
    "test_lineage_sources.py",
    "test_write.py",
    "test_connect.py",
    "test_lineage_batch.py",
    "test_row_level.py",
    "test_cluster.py",
    "test_sql_tables.py",
    "test_sql_queries.py",
    "test_golden_tables_spark.py",
    "test_cli.py",
]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {name: at for at, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.name, len(LONGEST)))


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


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of statements through both doors; through plain `spark.sql` with the slow tests, but for a few."""
    is_quick = metafunc.definition.get_closest_marker("both_doors") is not None
    run_through_both(metafunc, plain_marks=() if is_quick else [pytest.mark.slow])
