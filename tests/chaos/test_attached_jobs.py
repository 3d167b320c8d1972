"""A driver is killed while statements run on tables of an attached catalog: each has written all its rows, or none."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from paimon_spark.api.catalog import load_catalog
from paimon_spark.api.table import Table
from paimon_spark.errors import NotFoundError
from paimon_spark.metadata.manifests import CACHE
from tests.chaos.attached_job import KINDS, ROWS
from tests.chaos.test_stream_jobs import session_of
from tests.harness.table_files import files_on_disk, missing_files, reachable_files
from tests.harness.until import until

pytestmark = [pytest.mark.chaos, pytest.mark.spark, pytest.mark.timeout(3600)]

FULL = os.environ.get("PAIMON_SPARK_CHAOS") == "full"
KILLS = 30 if FULL else 2
ROOT = Path(__file__).parents[2]


def killed(home: Path, life: int) -> None:
    """Run the job until statements of each kind have begun, and kill it with its JVM and workers some time later."""
    chance, output, log = random.Random(life), home / f"output-{life}.txt", home / "log"
    known = log.read_text() if log.exists() else ""
    with output.open("wb") as out:
        job = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.attached_job", str(home), str(life)],
            cwd=ROOT,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        until(
            lambda: (
                job.poll() is not None
                or (_logged(log, "begin", len(known)) >= set(KINDS) and _logged(log, "end", len(known)))
            ),
            lambda: output.read_text(errors="replace")[-20_000:],
            seconds=300,
        )
        assert job.poll() is None, output.read_text(errors="replace")[-20_000:]
        time.sleep(chance.uniform(0, 4))
        assert job.poll() is None, output.read_text(errors="replace")[-20_000:]
    finally:
        for process in session_of(job.pid):
            with contextlib.suppress(ProcessLookupError):  # it ended since it was found
                os.kill(process, signal.SIGKILL)
        job.wait()
    assert "internal error" not in output.read_text(errors="replace")


def _logged(log: Path, word: str, since: int) -> set[str]:
    """The kinds of statements that have begun or ended in this life."""
    text = log.read_text()[since:] if log.exists() else ""
    return {line.split()[1] for line in text.splitlines() if line.startswith(f"{word} ")}


def statements(home: Path, kind: str, word: str) -> list[int]:
    """Numbers of the statements of a kind that have begun, or ended."""
    lines = [line.split() for line in (home / "log").read_text().splitlines()]
    return [int(n) for w, k, n in lines if (w, k) == (word, kind)]


def rows_of(table: Table) -> Counter[int]:
    """How many rows there are of each statement. Each row of a statement is there once."""
    found = table.scan().to_arrow().to_pylist()
    assert len({(row["i"], row["n"]) for row in found}) == len(found)
    assert all(row["p"] == row["i"] % 2 for row in found)
    return Counter(row["n"] for row in found)


def check_rows(home: Path, tables: Mapping[str, Table]) -> None:
    """Statements that have ended are there; of the others, all rows or none."""
    begun = {kind: statements(home, kind, "begin") for kind in KINDS}
    ended = {kind: statements(home, kind, "end") for kind in KINDS}
    appended = rows_of(tables["append"])
    assert set(ended["append"]) <= set(appended) <= set(begun["append"])
    assert set(appended.values()) <= {ROWS}
    for kind in ("overwrite", "keys", "replace"):
        name = "replaced" if kind == "replace" else kind
        found = rows_of(tables[name]) if name in tables else Counter()
        assert len(found) <= 1 and set(found.values()) <= {ROWS}
        # The table is replaced before its new rows are there: a kill in between leaves it empty.
        assert found or not ended[kind] or kind == "replace"
        assert all(n in begun[kind] and n >= max(ended[kind], default=0) for n in found)
    for n in begun["create"]:
        if (made := tables.get(f"made_{n}")) is not None:
            # The table exists before its rows do: a kill in between leaves it empty.
            assert rows_of(made) == {n: ROWS} or (n not in ended["create"] and rows_of(made) == {})
        else:
            assert n not in ended["create"]
    for snapshot in tables["replaced"].snapshots() if "replaced" in tables else ():
        assert set(rows_of(tables["replaced"].at(snapshot.id)).values()) <= {ROWS}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
def test_statements_write_all_their_rows_or_none(tmp_path: Path) -> None:
    left = Counter[str]()
    for life in range(1, KILLS + 1):
        killed(tmp_path, life)
        CACHE.clear()
        catalog = load_catalog(str(tmp_path / "wh"))
        tables = {}
        for name in catalog.list_tables("db"):
            with contextlib.suppress(NotFoundError):  # killed before the table had a schema
                tables[name] = catalog.table(f"db.{name}")
        check_rows(tmp_path, tables)
        for name, table in tables.items():
            assert missing_files(table.handle) == [], name
            if life % 2:
                continue  # the next driver finds what this one has left
            before = {f.path for f in files_on_disk(table.handle)}
            needed = reachable_files(table.handle)
            table.remove_orphan_files(older_than=datetime.now(UTC))
            after = {f.path for f in files_on_disk(table.handle)}
            assert after == before & needed, name
            assert missing_files(table.handle) == [], name
            left[name.split("_")[0]] += len(before - after)
        check_rows(tmp_path, tables)
    begun = sum(len(statements(tmp_path, kind, "begin")) for kind in KINDS)
    print({"kills": KILLS, "statements": begun, "orphans removed": dict(left)})
