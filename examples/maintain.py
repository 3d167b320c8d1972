"""Maintain a table: inspect, compact, tag, expire snapshots, and remove files of a crashed write.

Everything happens in a temporary folder, or in the warehouse given:

    python examples/maintain.py /path/to/warehouse
"""

from __future__ import annotations

import argparse
import os
import pathlib
import tempfile
import time

import pyarrow as pa

import paimon_spark
from paimon_spark import Table


def main() -> None:
    """Maintain the table `shop.visits`, without Spark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warehouse", nargs="?", help="folder for the table; default: a temporary one")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        maintain(args.warehouse or home)


def maintain(warehouse: str) -> None:
    """Write, compact, tag, expire, clean."""
    catalog = paimon_spark.load_catalog(warehouse)
    catalog.create_database("shop")
    visits = catalog.create_table("shop.visits", "id INT, page STRING", primary_keys=["id"], options={"bucket": "1"})
    for batch in range(6):
        visits.write(pa.table({"id": pa.array([batch, 100], pa.int32()), "page": [f"page {batch}", "home"]}))
    show(visits, "Six small commits")

    compacted = visits.compact(full=True)
    print(f"Compacted {compacted.files_before} files into {compacted.files_after}")
    show(visits, "Every row once, in one file")

    visits.create_tag("audited", snapshot_id=3, time_retained="365 d")
    saved = visits.create_savepoint()
    print(f"Not affected by expiry: tag 'audited' of snapshot 3 for a year, and savepoint {saved.id}")

    would = visits.expire_snapshots(retain_max=1, retain_min=1, dry_run=True)
    print(f"Would expire: snapshots {', '.join(would.snapshots)}, with {would.data_files} data files")
    visits.expire_snapshots(retain_max=1, retain_min=1)
    print(f"Snapshots: {[s.id for s in visits.snapshots()]}; rows at the tag: {rows(visits.at('audited'))}")

    lost = pathlib.Path(warehouse, "shop.db", "visits", "bucket-0", "data-of-a-crashed-job-0.parquet")
    lost.write_bytes(b"a job died before it committed this")
    os.utime(lost, (time.time() - 2 * 86400,) * 2)
    print(f"Orphans older than a day: {visits.remove_orphan_files().files}")
    print(f"What is wrong with the table: {visits.doctor() or 'nothing'}")


def show(visits: Table, what: str) -> None:
    """Print how many files and rows the head has."""
    files = paimon_spark.load_table(f"{visits.location}$files").scan().to_arrow()
    print(f"{what}: {len(files)} file(s), {rows(visits)} rows")


def rows(visits: Table) -> int:
    """Count the rows."""
    return len(visits.scan(columns=["id"]).to_arrow())


if __name__ == "__main__":
    main()
