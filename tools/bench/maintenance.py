"""Expiry of a thousand snapshots and orphan checks of a hundred thousand files, against decoding the manifests once.

    python -m tools.bench.maintenance FOLDER

Figures are CPU time in a fresh process with its peak memory; they must stay under three times the decoding, and under
500 MiB. Nothing is deleted; `make bench` measures that. The tables are made in FOLDER, which takes minutes, and used
again.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

from paimon_spark.maintenance.orphan_files import remove_orphan_files
from paimon_spark.maintenance.removal import find_removal
from paimon_spark.maintenance.roots import all_roots
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import read_manifest_list, read_manifests
from tools.bench.history_data import make_history

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
            command = [sys.executable, "-m", "tools.bench.maintenance", str(folder), case, what]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            figures[what] = float(out[0])
            print(case, what, f"{float(out[0]):.2f} s CPU, {out[1]} MiB, answer {out[2]}")
        print(case, f"{figures[case] / figures['decode']:.1f} times the decoding")


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
