"""The fixture that gives the shared session back as it was before a test."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from tests.harness.session_state import SharedSession

pytestmark = [pytest.mark.spark, pytest.mark.newest]


def test_a_session_is_given_back_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("tests.kept", "1")
    spark.conf.set("tests.removed", "1")
    shared = SharedSession(spark)
    before = shared.state()
    assert before.current == ("spark_catalog", "default")

    paimon_spark.attach(spark, str(tmp_path / "w"), name="lake").create_database("db")
    spark.sql("USE lake.db")
    spark.range(1).createTempView("`a.view`")
    spark.conf.set("tests.kept", "2")
    spark.conf.set("tests.new", "1")
    spark.conf.unset("tests.removed")
    changed = shared.state()
    assert changed.current == ("lake", "db")
    assert changed.views - before.views == {"a.view"}
    assert changed.catalogs - before.catalogs == {"lake"}

    shared.restore(before)
    assert shared.state() == before


def test_queries_that_run_are_stopped_and_named(spark: SparkSession) -> None:
    shared = SharedSession(spark)
    assert shared.stop_queries() == []
    rates = spark.newSession().readStream.format("rate").load()
    query = rates.writeStream.format("noop").queryName("of_another_session").start()
    assert shared.stop_queries() == ["of_another_session"]
    assert not query.isActive
