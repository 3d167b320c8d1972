"""Names of tables that begin with the name of a catalog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.api.catalog import Catalog
from paimon_spark.api.table import load
from paimon_spark.errors import InvalidOptionError, LineageError, TableNotFoundError
from tests.harness.real_tables import a_catalog

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})

CALLS: dict[str, Callable[[Catalog], Any]] = {
    "table": lambda c: c.table("other.db.t"),
    "backquoted": lambda c: c.table("`other`.`db`.`t`"),
    "branch": lambda c: c.table("other.db.t$branch_fix"),
    "system table": lambda c: c.table("other.db.t$files"),
    "create_table": lambda c: c.create_table("other.db.new", "id BIGINT"),
    "drop_table": lambda c: c.drop_table("other.db.t"),
    "drop_table that may be missing": lambda c: c.drop_table("other.db.t", ignore_if_not_exists=True),
    "rename_table": lambda c: c.rename_table("other.db.t", "db.u"),
    "rename_table to": lambda c: c.rename_table("db.t", "other.db.u"),
    "rename_table that may be missing": lambda c: c.rename_table("other.db.t", "db.u", ignore_if_not_exists=True),
    "register_table": lambda c: c.register_table("other.db.t"),
    "prepare": lambda c: c.prepare("other.db.t"),
    "pipeline": lambda c: c.pipeline("other.db.t"),
    "view": lambda c: c.view("other.db.v"),
    "create_view": lambda c: c.create_view("other.db.v", "SELECT 1", columns="id INT"),
    "drop_view": lambda c: c.drop_view("other.db.v", ignore_if_not_exists=True),
    "lineage": lambda c: c.lineage.downstream("other.db.t"),
    "declare_source": lambda c: c.lineage.declare_source("other.db.t"),
    "load": lambda c: load("other.db.t", {"warehouse": c.warehouse}),
}


def made(directory: Path) -> Catalog:
    catalog = a_catalog(directory)
    catalog.create_table("db.t", "id BIGINT").write(ROWS)
    catalog.lineage.enable()
    return catalog


def state(directory: Path) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


@pytest.mark.ci
@pytest.mark.parametrize("call", CALLS)
def test_a_name_of_another_catalog_is_refused_and_nothing_changes(tmp_path: Path, call: str) -> None:
    catalog = made(tmp_path)
    before = state(tmp_path)
    with pytest.raises(InvalidOptionError, match=r"names a table of catalog 'other', and this catalog is 'paimon'"):
        CALLS[call](catalog)
    assert state(tmp_path) == before


def test_a_catalog_knows_its_own_name_in_any_case(tmp_path: Path) -> None:
    paimon = made(tmp_path)
    other = replace(paimon, name="other")
    for catalog, name in ((paimon, "Paimon.db.t"), (paimon, "`paimon`.`db`.t$branch_main"), (other, "OTHER.db.t")):
        assert catalog.table(name).scan().to_arrow() == ROWS
    with pytest.raises(InvalidOptionError, match="names a table of catalog 'paimon', and this catalog is 'other'"):
        other.table("paimon.db.t")
    assert other.table("db.t").name == "db.t"
    assert other.create_table("other.db.u", "id BIGINT").name == "db.u"
    other.rename_table("other.db.u", "other.db.w")
    assert other.list_tables("db") == ["t", "w"]
    other.drop_table("other.db.w")
    assert paimon.list_tables("db") == ["t"]


def test_lineage_finds_a_table_in_the_catalog_that_its_name_begins_with(tmp_path: Path) -> None:
    paimon, other = made(tmp_path / "a"), replace(made(tmp_path / "b"), name="other")
    other.create_table("db.only_there", "id BIGINT")
    lineage = paimon.lineage
    for name in ("other.db.only_there", "db.only_there"):
        with pytest.raises(LineageError, match=r"no job reads or writes table 'db.only_there' in the lineage of .*/b$"):
            lineage.downstream(name, others=[other])
    with pytest.raises(TableNotFoundError):
        lineage.downstream("paimon.db.only_there", others=[other])
    with pytest.raises(InvalidOptionError, match="catalog 'third'"):
        lineage.downstream("third.db.t", others=[other])
