"""Tables, DataFrames and names that pages use without making them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

import paimon_spark
from paimon_spark import Table
from tests.docs.running import Stage

ORDERS: Final = pa.schema([("id", pa.int32()), ("dt", pa.string()), ("amount", pa.float64())])


def orders(stage: Stage, name: str = "shop.orders", **options: str) -> Table:
    """A table of orders with the primary key id, and no rows."""
    catalog = stage.catalog
    catalog.create_database(name.split(".", maxsplit=1)[0], ignore_if_exists=True)
    return catalog.create_table(name, ORDERS, primary_keys=["id"], options={"bucket": "2", **options})


def add(table: Table, *rows: tuple[int, str, float]) -> None:
    """Write rows of orders, without Spark."""
    table.write(pa.Table.from_pylist([dict(zip(ORDERS.names, row, strict=True)) for row in rows], schema=ORDERS))


def frame(stage: Stage, *rows: tuple[int, str, float]) -> Any:
    """Rows of orders as a Spark DataFrame."""
    return stage.spark.createDataFrame(rows, "id INT, dt STRING, amount DOUBLE")


def _nothing(stage: Stage) -> None:
    """The page makes all that it needs, and attaches the warehouse itself."""
    stage.detach()


def _shop(stage: Stage) -> Table:
    """`shop.orders`: a day with tag v1, a second day, a branch fix from the tag with a row of its own."""
    table = orders(stage)
    add(table, (1, "2024-01-01", 10.0), (2, "2024-01-01", 20.0))
    table.create_tag("v1")
    add(table, (3, "2024-01-02", 30.0))
    table.create_branch("fix", tag="v1")
    add(table.branch("fix"), (3, "2024-01-02", 31.0))
    stage.names.update(catalog=stage.catalog, table=table, df=frame(stage, (4, "2024-01-02", 40.0)))
    return table


def _readme(stage: Stage) -> None:
    """The shop, with the tag before; the page attaches the warehouse itself."""
    _shop(stage).create_tag("before", snapshot_id=1)
    stage.detach()


def _warehouse(stage: Stage) -> None:
    """An empty warehouse."""
    stage.names.update(catalog=stage.catalog)
    stage.catalog.create_database("shop")


def _days(stage: Stage) -> None:
    """`shop.orders` with a partition for each day."""
    catalog = stage.catalog
    catalog.create_database("shop")
    table = catalog.create_table(
        "shop.orders", ORDERS, primary_keys=["id", "dt"], partition_keys=["dt"], options={"bucket": "1"}
    )
    for day in range(1, 5):
        add(table, (day, f"2024-01-0{day}", 10.0 * day))
    stage.names.update(catalog=catalog, table=table)


def _two_days(stage: Stage) -> None:
    """`shop.orders` of two snapshots, and nothing else."""
    table = orders(stage)
    add(table, (1, "2024-01-01", 10.0), (2, "2024-01-01", 20.0))
    add(table, (3, "2024-01-02", 30.0))
    stage.names.update(catalog=stage.catalog, df=frame(stage, (4, "2024-01-02", 40.0)))


def _streams(stage: Stage) -> None:
    """`shop.orders` with the branches fix and copy; `corrected` is a stream of what to write."""
    table = _shop(stage)
    table.create_branch("copy", tag="v1")
    source = orders(stage, "shop.corrected")
    add(source, (2, "2024-01-01", 25.0))
    stage.names["corrected"] = stage.spark.readStream.format("paimon").load(source.location)


def _lineage(stage: Stage) -> None:
    """Tables that the page asks of: orders and its clean copy, made by the page, and t5 and t6 made from orders."""
    table = _shop(stage)
    add(table, (4, "2024-01-03", 40.0))
    catalog = stage.catalog
    catalog.lineage.enable()
    for name in ("shop.t5", "shop.t6"):
        orders(stage, name)
        for _ in range(2):
            rows = catalog.table("shop.orders", **{"lineage.job": name}).scan().to_arrow()
            catalog.table(name, **{"lineage.job": name}).write(rows)
    orders(stage, "shop.report")
    add(catalog.table("shop.report"), (0, "2024-01-01", 0.0))


def _pipeline(stage: Stage) -> None:
    """`shop.orders` → `daily` → `shop.daily` → `report` → `shop.report`, run twice; the second day's order is wrong."""
    catalog = stage.catalog
    table = orders(stage)
    catalog.lineage.enable()
    days = ORDERS.remove(0)
    for name in ("shop.daily", "shop.report"):
        catalog.create_table(name, days)
    for row in ((1, "2024-01-01", 30.0), (2, "2024-01-02", 3000.0)):
        add(table, row)
        for job, source, sink in (("daily", "shop.orders", "shop.daily"), ("report", "shop.daily", "shop.report")):
            rows = catalog.table(source).scan(columns=days.names, **{"lineage.job": job}).to_arrow()
            catalog.table(sink).write(rows, mode="overwrite", **{"lineage.job": job})
    stage.detach()


PREPARED: Final[dict[str, Callable[[Stage], object]]] = {
    "README.md": _readme,
    "docs/index.md": _nothing,
    "docs/lineage.md": _lineage,
    "docs/streaming.md": _streams,
    "docs/tasks/correct.md": _nothing,
    "docs/tasks/maintain.md": _days,
    "docs/tasks/stream.md": _two_days,
    "docs/tasks/lineage.md": _two_days,
    "docs/tasks/pipelines.md": _pipeline,
    "docs/tasks/jobs.md": _two_days,
    "docs/tasks/write.md": _warehouse,
    "docs/version-control.md": _two_days,
}
"""By page; a page that is not here has the shop."""


def prepare(page: str, stage: Stage) -> None:
    """Make what a page takes to be there, in an attached warehouse."""
    stage.attach()
    stage.names.update(spark=stage.spark, paimon_spark=paimon_spark, catalog=stage.catalog)
    PREPARED.get(page, _shop)(stage)
