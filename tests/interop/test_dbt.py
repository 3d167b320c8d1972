"""dbt makes tables of an attached catalog, in the session of its process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from paimon_spark import Table, load_catalog
from tests.harness.connect import LIGHT_JVM
from tests.interop import peers
from tests.interop.dbt_driver import MARK

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.dbt]

EXAMPLE = peers.ROOT / "examples" / "dbt_project"
SHOWN = [
    "|      1|  3|   5.0|\n|      2|  5|   8.0|",
    "|  13.0|mon|\n|  25.0|tue|\n|   8.0|wed|",
    "|  3|tue|   5.0|\n|  4|tue|  20.0|\n|  5|wed|   8.0|",
    "|      2|  3.0|   false|\n|      2|  4.0|    true|",
    "|  2|mon|      2|   3.0|\n|  3|tue|      1|   5.0|\n+",
]
MODELS = {
    "grows.sql": """
        {{ config(
            materialized='incremental', incremental_strategy='merge', unique_key=['id'],
            merge_update_columns=['amount'], incremental_predicates=['DBT_INTERNAL_DEST.id > 1'],
            on_schema_change='append_new_columns', persist_docs={'relation': true, 'columns': true}
        ) }}
        select id, amount * {{ var('factor', 1) }} as amount
        {% if var('has_note', false) %}, 'new' as note {% endif %}
        from {{ ref('of_products') }}
    """,
    "of_products.sql": """
        {{ config(materialized='ephemeral') }}
        select product as id, price as amount from {{ ref('products') }}
    """,
    "Months.sql": """
        {{ config(
            materialized='incremental', incremental_strategy='microbatch', event_time='at', begin='2024-01-01',
            batch_size='month', lookback=0, partition_by=['month']
        ) }}
        select id, at, date_format(at, 'yyyy-MM') as month from shop.events
    """,
    "a_view.sql": "{{ config(materialized='view') }} select 1 as one",
    "docs.yml": """
models:
  - name: grows
    description: It's "what" products cost.
    columns:
      - name: id
        description: It's the \\ id.
        data_tests:
          - accepted_values: {arguments: {values: [1], quote: false}, config: {store_failures: true, severity: warn}}
    """,
}


class Project:
    """A project of dbt, and the session that it runs in."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._folder = folder

    def sql(self, statement: str) -> list[list[Any]]:
        rows: list[list[Any]] = self._ask({"sql": statement})
        return rows

    def dbt(self, *arguments: str) -> dict[str, list[str]]:
        """The status and the message of each node."""
        found = self._ask({"dbt": list(arguments)})
        assert isinstance(found, dict), found
        return found

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        told = []
        for line in self._process.stdout:
            if line.startswith(MARK):
                return json.loads(line.removeprefix(MARK))
            told.append(line)
        raise AssertionError("".join(told)[-6000:])

    def table(self, name: str) -> Table:
        return load_catalog(str(self._folder / "warehouse")).table(name)

    def commits(self, name: str) -> list[str]:
        return [s.commit_kind.value for s in self.table(name).snapshots()]


@contextmanager
def project_with(folder: Path, models: dict[str, str]) -> Iterator[Project]:
    project = folder / "project"
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("__pycache__", "models", "snapshots", "run.py"))
    (project / "models").mkdir()
    for name, text in models.items():
        (project / "models" / name).write_text(text)
    with (folder / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            [str(peers.dbt_python()), "-m", "tests.interop.dbt_driver", str(project), str(folder)],
            cwd=peers.ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    assert process.stdin is not None and process.stdout is not None
    try:
        yield Project(process, folder)
    finally:
        process.stdin.close()  # it ends then
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(60)
        process.stdout.close()


def environment() -> dict[str, str]:
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_", "DBT_"))}
    python = str(peers.dbt_python())
    return {**plain, "PYSPARK_PYTHON": python, "PYTHONPATH": str(peers.ROOT), "JDK_JAVA_OPTIONS": LIGHT_JVM}


def test_the_example_builds_twice_with_new_rows(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(peers.dbt_python()), str(EXAMPLE / "run.py"), str(tmp_path)],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    missing = [text for text in SHOWN if text not in done.stdout]
    assert not missing, f"{missing} not in:\n{done.stdout}"
    assert "Completed successfully" in done.stdout
    catalog = load_catalog(str(tmp_path / "warehouse"))
    for name in catalog.list_tables("shop"):
        assert catalog.table(f"shop.{name}").doctor() == []
    assert {p.name for p in tmp_path.iterdir()} <= {"warehouse", "dbt", "spark-warehouse"}
    assert not (EXAMPLE / "logs").exists() and not (EXAMPLE / "target").exists()


def test_models_change_in_place_and_keep_their_history(tmp_path: Path) -> None:
    with project_with(tmp_path, MODELS) as project:
        project.sql("CREATE DATABASE shop")
        project.sql("CREATE TABLE shop.events AS SELECT 1 AS id, TIMESTAMP '2024-01-05 00:00:00' AS at")
        options = ("--event-time-start", "2024-01-01", "--event-time-end", "2024-03-01")
        first = project.dbt("build", *options)
        status = {name: found[0] for name, found in first.items()}
        view = first.pop("a_view")
        assert view[0] == "error" and "view shop.a_view cannot be stored" in view[1]
        assert all(found[0] in ("success", "pass", "warn") for found in first.values()), first
        assert status["accepted_values_grows_id__False__1"] == "warn"
        assert project.sql("SELECT * FROM shop.grows ORDER BY id") == [[1, 2.5], [2, 3.0]]
        assert project.table("shop.grows").schema.comment == 'It\'s "what" products cost.'
        assert project.table("shop.grows").schema.fields[0].description == "It's the \\ id."
        failures = "shop_dbt_test__audit.`accepted_values_grows_id__False__1`"
        assert project.sql(f"SELECT value_field FROM {failures}") == [[2]]

        # Once more, with other rows and a new column, in several threads.
        project.sql("INSERT INTO shop.events VALUES (2, TIMESTAMP '2024-02-05 00:00:00')")
        changed = ("--vars", "{factor: 10, has_note: true}", "--threads", "3", "--exclude", "a_view")
        again = project.dbt("build", *changed, *options)
        assert all(found[0] in ("success", "pass", "warn") for found in again.values()), again
        # The condition finds no key 1 in the table, so that its row is added.
        assert project.sql("SELECT * FROM shop.grows ORDER BY id, amount") == [
            [1, 2.5, None], [1, 25.0, "new"], [2, 30.0, None],
        ]  # fmt: skip
        assert project.sql("SELECT id, month FROM shop.Months ORDER BY id") == [[1, "2024-01"], [2, "2024-02"]]
        assert project.commits("shop.products") == ["APPEND", "OVERWRITE", "APPEND"], "a seed is filled anew"

        full = project.dbt("run", "--full-refresh", "-s", "grows")
        assert full["grows"][0] == "success"
        assert project.sql("SELECT * FROM shop.grows ORDER BY id") == [[1, 2.5], [2, 3.0]]
        assert project.sql("SELECT * FROM shop.grows VERSION AS OF 1 ORDER BY id") == [[1, 2.5], [2, 3.0]]
        assert project.commits("shop.grows")[0] == "APPEND", "the table is the same one"

        project.dbt("docs", "generate", "--exclude", "a_view")
        nodes = json.loads((tmp_path / "dbt" / "catalog.json").read_text())["nodes"]
        assert list(nodes["model.sales.grows"]["columns"]) == ["id", "amount"]
        assert nodes["model.sales.grows"]["metadata"]["type"] == "table"
        for name in ("grows", "Months", "products"):
            assert project.table(f"shop.{name}").doctor() == []
