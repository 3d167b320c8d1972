"""Spark jobs of this package: a task of Spark for each item of work."""

from __future__ import annotations

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from paimon_spark.spark.tasks import run_each

pytestmark = [pytest.mark.spark, pytest.mark.newest]


def test_each_item_has_a_task_of_its_own(spark: SparkSession) -> None:
    tasks = list(run_each(lambda _: TaskContext.get().partitionId(), range(7)))
    assert sorted(tasks) == list(range(7))
