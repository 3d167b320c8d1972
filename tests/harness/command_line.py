"""The command line run in this process, and a small warehouse for it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark import Table, load_catalog
from paimon_spark.cli.main import main


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err)["error"]

    @property
    def golden(self) -> str:
        """Its output without what differs from run to run."""
        text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", "<time>", self.out)
        return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uuid>", text)


class CommandLine:
    """Runs commands on a warehouse, whose path need not be given."""

    def __init__(self, warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.warehouse, self.capsys = warehouse, capsys

    def __call__(self, *words: str) -> Ran:
        code = main([*words, "--warehouse", str(self.warehouse)])
        captured = self.capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    def done(self, *words: str) -> Ran:
        """Run a command that must succeed."""
        ran = self(*words)
        assert ran.code == 0, ran.err
        return ran


def orders(warehouse: Path) -> Table:
    """`db.orders`: two snapshots, tag v1 on the second, branch fix from it, and one more snapshot on each."""
    return fill_orders(str(warehouse))


def fill_orders(warehouse: str, **options: str) -> Table:
    """As `orders`, in the warehouse of a URL that these options reach."""
    catalog = load_catalog(warehouse, **options)
    catalog.create_database("db")
    table = catalog.create_table("db.orders", "id BIGINT, dt STRING, note STRING", partition_keys=["dt"])
    table.write(rows(1, 2))
    table.write(rows(3))
    table.create_tag("v1")
    table.create_branch("fix", tag="v1")
    table.write(rows(4, 5, dt="2024-01-02"))
    table.branch("fix").write(rows(6))
    return table


def rows(*ids: int, dt: str = "2024-01-01", note: str | None = None) -> pa.Table:
    """Rows of `orders`."""
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "dt": [dt] * len(ids), "note": pa.array([note] * len(ids), pa.string())}
    )
