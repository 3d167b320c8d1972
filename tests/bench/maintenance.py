"""Expiry of a thousand snapshots and orphan checks of a hundred thousand files, against decoding the manifests once.

    python -m tests.bench.maintenance FOLDER

The first figures are CPU time in a fresh process with its peak memory; they must stay under three times the decoding,
and under 500 MiB. Then the same is done for real, beside Java Paimon on a copy of the table: wall time of the call, in
processes that are warm, and what was deleted. The tables are made in FOLDER, which takes minutes, and used again.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

import paimon_spark
from paimon_spark.maintenance.orphan_files import remove_orphan_files
from paimon_spark.maintenance.removal import find_removal
from paimon_spark.maintenance.roots import all_roots
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import read_manifest_list, read_manifests
from tests.bench.history_data import make_history
from tests.interop.java_paimon import JavaPaimon

TABLES = {"expire": (10_000, 1_001), "orphans": (100_000, 6)}


def decode(table: TableHandle) -> int:
    snapshots = [root.snapshot for root in all_roots(table)]
    names = [name for s in snapshots for name in (s.base_manifest_list, s.delta_manifest_list)]
    metas = list({m.file_name: m for name in names for m in read_manifest_list(table, name)}.values())
    return sum(len(read_manifests(table, metas[i : i + 50])) for i in range(0, len(metas), 50))


def expire(table: TableHandle) -> int:
    roots = all_roots(table)
    return len(find_removal(table, roots[:-1], roots[-1:]).data)


def orphans(table: TableHandle) -> int:
    return remove_orphan_files(table, time.time_ns() // 1_000_000, dry_run=True).files


def main(folder: Path) -> None:
    for case, (files, snapshots) in TABLES.items():
        make_history(folder / case, files, snapshots)
        figures = {}
        for what in ("decode", case):
            command = [sys.executable, "-m", "tests.bench.maintenance", str(folder), case, what]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            figures[what] = float(out[0])
            print(case, what, f"{float(out[0]):.2f} s CPU, {out[1]} MiB, answer {out[2]}")
        print(case, f"{figures[case] / figures['decode']:.1f} times the decoding")
    beside_java(folder)


def beside_java(folder: Path) -> None:
    """Both delete for real: first everything but one snapshot, then files that nothing names."""
    with JavaPaimon(heap="2g", optimized=True) as java:
        small = _copy(folder / "expire", folder / "warm-up")
        java.call("expireSnapshots", path=str(small), retain=900)
        for case, (_, snapshots) in TABLES.items():
            for who in ("ours", "java"):
                copy = _copy(folder / case, folder / f"{case}-{who}")
                before = _files(copy)
                if case == "orphans":
                    for n in range(10_000):
                        (copy / "bucket-0" / f"data-orphan-{n}.parquet").write_bytes(b"PAR1")
                    before += 10_000
                start = time.perf_counter()
                if who == "ours":
                    _ours(case, str(copy), snapshots)
                elif case == "expire":
                    java.call("expireSnapshots", path=str(copy), retain=1)
                else:
                    java.call("removeOrphans", path=str(copy))
                seconds = time.perf_counter() - start
                print(case, f"{who}: {seconds:.2f} s, {before - _files(copy)} files deleted")
                shutil.rmtree(copy)
        shutil.rmtree(small)


def _ours(case: str, path: str, snapshots: int) -> None:
    table, now = paimon_spark.load_table(path), datetime.now(timezone.utc)
    if case == "expire":
        table.expire_snapshots(retain_max=1, retain_min=1, older_than=now, max_deletes=snapshots)
    else:
        table.remove_orphan_files(older_than=now)


def _copy(old: Path, new: Path) -> Path:
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(old, new)
    (new / "history-done").unlink()
    return new


def _files(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*"))


def measure(folder: Path, case: str, what: str) -> None:
    table = make_history(folder / case, *TABLES[case])
    start = time.process_time()
    answer = {"decode": decode, "expire": expire, "orphans": orphans}[what](table)
    seconds = time.process_time() - start
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, answer)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        measure(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
    else:
        main(Path(sys.argv[1]))
