"""Scripts run by an environment that is not activated: Spark's Python workers run their Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.command_line import orders
from tests.harness.submitting import run_unactivated

pytestmark = [pytest.mark.spark, pytest.mark.newest]

_BEGIN = """
import sys
from pyspark.sql import SparkSession
import paimon_spark

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
warehouse = sys.argv[1]
"""
_ATTACHED = """
catalog = paimon_spark.attach(spark, warehouse)
spark.sql("INSERT INTO paimon.db.orders VALUES (9, '2024-01-03', 'n')")
print(spark.sql("SELECT count(*) AS n FROM paimon.db.orders$files").first().n)
spark.udf.register("twice", lambda x: 2 * x, "long")
print(sorted(r[0] for r in spark.sql("SELECT twice(id) FROM paimon.db.orders WHERE id > 4").collect()))
print(spark.sparkContext.pythonExec == sys.executable)
"""
_CONFIGURED = """
paimon_spark.configure_session(spark)
path = warehouse + "/db.db/orders"
spark.sql("SELECT 9L AS id, '2024-01-03' AS dt, 'n' AS note").write.format("paimon").mode("append").save(path)
print(spark.read.format("paimon").load(path).count())
"""
_ALONE = """
print(paimon_spark.load_catalog(warehouse).sql("SELECT snapshot_id FROM db.orders$snapshots").count())
"""


@pytest.mark.parametrize(
    ("body", "printed"),
    [
        pytest.param(_ATTACHED, ["4", "[10, 18]", "True"], id="attach", marks=pytest.mark.quick),
        pytest.param(_CONFIGURED, ["6"], id="configure_session"),
        pytest.param(_ALONE, ["3"], id="catalog.sql"),
    ],
)
def test_workers_run_the_python_of_the_script(tmp_path: Path, body: str, printed: list[str]) -> None:
    orders(tmp_path / "wh")
    script = tmp_path / "job.py"
    script.write_text(_BEGIN + body)
    done = run_unactivated(tmp_path, str(script), str(tmp_path / "wh"))
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == printed
    assert "\tat " not in done.stderr


def test_the_command_line_does_so(tmp_path: Path) -> None:
    orders(tmp_path / "wh")
    words = ("-m", "paimon_spark", "sql", "--warehouse", str(tmp_path / "wh"))
    done = run_unactivated(tmp_path, *words, "SELECT count(*) AS n FROM db.orders$snapshots")
    assert (done.returncode, done.stdout.split()) == (0, ["n", "3"]), done.stderr[-3000:]


def test_a_python_that_was_chosen_stays(tmp_path: Path) -> None:
    orders(tmp_path / "wh")
    script = tmp_path / "job.py"
    script.write_text(_BEGIN + _ATTACHED)
    chosen = str(tmp_path / "bin" / "python3")
    done = run_unactivated(tmp_path, str(script), str(tmp_path / "wh"), PYSPARK_PYTHON=chosen)
    assert done.returncode != 0
    assert f"they run {chosen!r}; activate the virtual environment, or set" in done.stderr
