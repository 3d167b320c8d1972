"""The stops of a read and of a write through an attached catalog are those of docs/how-it-works.md."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from tests.harness.flows import check_stops

pytestmark = [pytest.mark.spark, pytest.mark.newest]

NAME = "flows"


@pytest.fixture
def attached(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    """A session with a table of an attached catalog."""
    paimon_spark.attach(spark, str(tmp_path / "wh"), name=NAME)
    spark.sql(f"CREATE DATABASE {NAME}.db")
    spark.sql(f"CREATE TABLE {NAME}.db.t (id INT, v STRING)")
    spark.sql(f"INSERT INTO {NAME}.db.t VALUES (1, 'a')")
    yield spark
    paimon_spark.detach(spark, NAME)


def in_new_threads(act: Callable[[], Any]) -> Callable[[], None]:
    """Run in a thread of its own, for whose calls the JVM calls back in a new thread, too: both are observed."""

    def run() -> None:
        thread = threading.Thread(target=act)
        thread.start()
        thread.join()

    return run


def test_a_read_makes_the_stops_of_the_page(attached: SparkSession) -> None:
    query = f"SELECT id FROM {NAME}.db.t WHERE v = 'a'"
    check_stops(
        "The stops of a read through an attached catalog", 10, in_new_threads(lambda: attached.sql(query).collect())
    )


def test_a_write_makes_the_stops_of_the_page(attached: SparkSession) -> None:
    rows = attached.createDataFrame([(2, "b")], "id INT, v STRING")
    check_stops(
        "The stops of a write through an attached catalog",
        8,
        in_new_threads(lambda: rows.writeTo(f"{NAME}.db.t").append()),
    )
    assert attached.table(f"{NAME}.db.t").count() == 2
