"""Orphans of a table of two million files, found by executors and in one process; a plan of a million of its files.

    python -m tools.bench.scale FOLDER [FILES]

Prints wall time and peak memory of the driver: of its Python process, and of its JVM, whose heap has 1 GiB. The table
is made in FOLDER, which takes minutes, and used again. The plan is of the first half of the commits.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import paimon_spark
from paimon_spark.storage.local import LocalStore
from tests.harness.commits import KEYED, committer, make_table, message
from tools.bench.history_data import a_data_file

FILES = 2_000_000
BUCKETS = 200
ORPHANS = 10_000
_COMMIT = 100_000


def make_files(root: Path, files: int) -> None:
    """A table of `files` data files in `BUCKETS` buckets, and files beside them that nothing names. Made once."""
    done = root / "files-done"
    if done.exists():
        return
    table = make_table(LocalStore(), str(root), KEYED, bucket=str(BUCKETS))
    for bucket in range(BUCKETS):
        (root / f"bucket-{bucket}").mkdir()
    commits = committer(table)
    for start in range(0, files, _COMMIT):
        new = [a_data_file(i) for i in range(start, min(start + _COMMIT, files))]
        messages = []
        for bucket in range(BUCKETS):
            own = new[bucket::BUCKETS]
            messages.append(message(table, *own, bucket=bucket))
            for file in own:
                (root / f"bucket-{bucket}" / file.file_name).touch()
        commits.commit(messages)
    for n in range(ORPHANS):
        (root / f"bucket-{n % BUCKETS}" / f"data-orphan-{n}.parquet").touch()
    done.write_text("done")


def measure(root: Path, how: str) -> None:
    """Print seconds, MiB of this process, MiB of the JVM, and the answer."""
    jvm = None
    if how == "spark":
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = sys.executable
        builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "1g")
        session = builder.config("spark.ui.enabled", "false").getOrCreate()
        gateway = session.sparkContext._gateway
        assert gateway is not None
        jvm = Path("/proc") / str(gateway.proc.pid)
    table = paimon_spark.load_table(str(root))
    half = table.snapshots()[len(table.snapshots()) // 2 - 1].id
    start = time.perf_counter()
    if how == "plan":
        files = table.scan(version=half).plan().report.files_kept
    else:
        now_ms = time.time_ns() // 1_000_000
        files = table.remove_orphan_files(now_ms, dry_run=True, use_spark=how == "spark").files
    seconds = time.perf_counter() - start
    print(f"{seconds:.1f} {_peak_mib(Path('/proc/self'))} {0 if jvm is None else _peak_mib(jvm)} {files}")


def _peak_mib(process: Path) -> int:
    # Not `ru_maxrss`, which counts what the parent had when it made the process.
    lines = (process / "status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


def main(folder: Path, files: int) -> None:
    root = folder / f"files-{files}"
    make_files(root, files)
    for how, what in (
        ("spark", "orphans by executors"),
        ("here", "orphans in one process"),
        ("plan", "plan of a half"),
    ):
        command = [sys.executable, "-m", "tools.bench.scale", str(folder), str(files), how]
        out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-4:]
        print(f"{files:,} files, {what}: {out[0]} s, driver {out[1]} MiB, JVM {out[2]} MiB, {out[3]} found")


if __name__ == "__main__":
    at, count = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else FILES
    if len(sys.argv) > 3:
        measure(at / f"files-{count}", sys.argv[3])
    else:
        main(at, count)
