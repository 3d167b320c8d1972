"""`prepare`: tables keep their history until a fault is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark import Catalog
from paimon_spark.errors import InvalidInputError, TableNotFoundError
from tests.harness.command_line import CommandLine


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """orders → daily, by job `sum`; other has nothing to do with them."""
    made = paimon_spark.load_catalog(str(tmp_path / "wh"))
    made.create_database("shop")
    for name in ("orders", "daily", "other"):
        made.create_table(f"shop.{name}", "id BIGINT")
        made.table(f"shop.{name}").write(pa.table({"id": [1]}))
    return made


@pytest.fixture
def cli(catalog: Catalog, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(Path(catalog.warehouse), capsys)


def connect(catalog: Catalog) -> None:
    catalog.lineage.enable()
    job: dict[str, Any] = {"lineage.job": "sum"}
    catalog.table("shop.daily").write(catalog.table("shop.orders").scan(**job).to_arrow(), **job)


def options_of(catalog: Catalog, name: str) -> dict[str, str]:
    return dict(catalog.table(name).handle.schema.options)


def test_prepare_sets_what_each_table_of_the_pipeline_lacks(catalog: Catalog) -> None:
    connect(catalog)
    catalog.table("shop.daily").alter(set_options={"snapshot.time-retained": "30 d", "snapshot.num-retained.max": 20})
    planned = catalog.prepare("shop.orders", dry_run=True)
    assert options_of(catalog, "shop.orders") == {}
    done = catalog.prepare("shop.orders")
    assert [t.table for t in done.tables] == ["shop.orders", "shop.daily"]
    assert str(done) == str(planned)
    assert done.settings() == [
        ("shop.orders", "snapshot.time-retained", "7 d"),
        ("shop.daily", "snapshot.num-retained.max", None),
    ]
    assert options_of(catalog, "shop.orders") == {"snapshot.time-retained": "7 d"}
    assert options_of(catalog, "shop.daily") == {"snapshot.time-retained": "30 d"}
    assert options_of(catalog, "shop.other") == {}
    assert catalog.prepare("shop.orders").settings() == []


def test_tags_and_savepoints_where_there_are_none(catalog: Catalog) -> None:
    catalog.table("shop.daily").alter(set_options={"tag.automatic-creation": "watermark"})
    done = catalog.prepare("shop.orders", "shop.daily", keep=None, tags="hourly", savepoint_days=2)
    assert done.enables_lineage
    assert catalog.lineage.is_enabled
    tags = {
        "tag.automatic-creation": "process-time",
        "tag.creation-period": "hourly",
        "tag.num-retained-max": "720",
    }
    assert options_of(catalog, "shop.orders") == tags | {"savepoint.create-interval": "2 d"}
    assert options_of(catalog, "shop.daily") == {
        "tag.automatic-creation": "watermark",
        "savepoint.create-interval": "2 d",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"keep": "3x"}, r"keep='3x': expected a duration"),
        ({"keep": "1 h"}, r"keep='1 h': .*give a day or more"),
        ({"keep": None}, r"give keep, tags or savepoint_days"),
        ({"tags": "dayly"}, r"tags='dayly': expected .*did you mean 'daily'"),
        ({"savepoint_days": 0}, r"savepoint_days=0: expected a number of days"),
    ],
)
def test_wrong_arguments_change_nothing(catalog: Catalog, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        catalog.prepare("shop.orders", **arguments)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="no table is given to prepare"):
        catalog.prepare()
    with pytest.raises(TableNotFoundError):
        catalog.prepare("shop.orders", "shop.nope")
    assert options_of(catalog, "shop.orders") == {}
    assert not catalog.lineage.is_enabled


def test_lineage_and_status_warn_of_tables_that_keep_too_little(catalog: Catalog) -> None:
    assert catalog.table("shop.orders").status().warnings == ()  # without lineage nothing is expected of it
    enabled = catalog.lineage.enable()
    assert enabled.warning is not None
    assert "3 tables keep snapshots for less than a week" in str(enabled)
    (warning,) = catalog.table("shop.orders").status().warnings
    assert warning.startswith("snapshots are kept for 1 h, no automatic tags: too little")
    assert warning.endswith("run `paimon-spark prepare shop.orders`")
    catalog.prepare("shop.orders", "shop.daily")
    catalog.prepare("shop.other", keep=None, savepoint_days=1)
    assert catalog.lineage.enable().warning is None
    assert catalog.table("shop.orders").status().warnings == ()
    assert catalog.table("paimon.sink_job_lineage").status().warnings == ()


def test_the_command_shows_what_it_would_set_and_asks(cli: CommandLine, catalog: Catalog) -> None:
    shown = cli.done("prepare", "shop.orders", "--dry-run").out
    assert shown.splitlines() == [
        "lineage: is switched on",
        "shop.orders: snapshots are kept for 1 h, no automatic tags",
        "  snapshot.time-retained = 7 d",
    ]
    assert cli("prepare", "shop.orders").code != 0  # no terminal to confirm on
    assert options_of(catalog, "shop.orders") == {}
    made = cli.done("prepare", "shop.orders", "--tags", "daily", "--yes", "--json").json
    assert made["tables"][0]["set_options"]["tag.creation-period"] == "daily"
    assert "nothing to set" in cli.done("prepare", "shop.orders").out
    assert "warning: 2 tables keep" in cli.done("lineage", "enable").out
