"""Whether lineage is on: as the rows of the warehouse say, remembered for a minute, off when nobody can tell."""

from __future__ import annotations

import logging

import pytest

from paimon_spark.errors import StorageError
from paimon_spark.lineage.index.tables import (
    CATALOG_OPTIONS,
    OFF,
    LineageSettings,
    enable,
    forget_settings,
    read_settings,
    settings_of,
    write_settings,
)
from tests.harness.lineage_index import MemoryIndex


def switched(**options: str) -> MemoryIndex:
    index = MemoryIndex()
    index.upsert({CATALOG_OPTIONS.name: [(k.replace("_", "-"), v) for k, v in options.items()]})
    return index


class Unreadable(MemoryIndex):
    """Lineage tables in a store that does not answer."""

    broken = True

    def options(self) -> dict[str, str]:
        if self.broken:
            raise StorageError("the store does not answer", path="catalog_options")
        return super().options()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, OFF),
        ({"table_lineage": "true"}, LineageSettings(table=True)),
        ({"table_lineage": "TRUE ", "data_lineage": "false"}, LineageSettings(table=True)),
        ({"data_lineage": "true"}, LineageSettings(table=True, data=True)),
        ({"table_lineage": "false", "data_lineage": "true"}, LineageSettings(table=True, data=True)),
        ({"table_lineage": "false", "data_lineage": "false"}, OFF),
        ({"something_else": "true"}, OFF),
    ],
)
def test_data_lineage_implies_table_lineage(options: dict[str, str], expected: LineageSettings) -> None:
    assert settings_of(switched(**options)) == expected


def test_the_flush_interval_of_the_warehouse_is_a_row() -> None:
    index = switched(table_lineage="true")
    index.upsert({CATALOG_OPTIONS.name: [("lineage.flush-interval", "90 s")]})
    assert settings_of(index).flush_interval_ms == 90_000


def test_without_lineage_tables_it_is_off() -> None:
    assert settings_of(MemoryIndex(is_there=False)) == OFF


def test_a_value_that_is_none_is_warned_about_once_and_is_off(caplog: pytest.LogCaptureFixture) -> None:
    index = switched(table_lineage="yes", data_lineage="")
    index.upsert({CATALOG_OPTIONS.name: [("lineage.flush-interval", "soon")]})
    with caplog.at_level(logging.WARNING):
        assert [read_settings(index) for _ in range(3)] == [OFF] * 3
    assert len(caplog.records) == 3
    said = " ".join(r.getMessage() for r in caplog.records)
    for part in ("table-lineage = 'yes'", "data-lineage = ''", "lineage.flush-interval = 'soon'", index.warehouse.url):
        assert part in said


def test_it_is_remembered_for_a_minute() -> None:
    index, now = switched(table_lineage="true"), [1000.0]

    def asked() -> bool:
        return settings_of(index, lambda: now[0]).table

    assert asked()
    index.upsert({CATALOG_OPTIONS.name: [("table-lineage", "false")]})
    now[0] += 59.9
    assert asked()
    now[0] += 0.2
    assert not asked()


def test_each_warehouse_has_its_own() -> None:
    assert [settings_of(i).table for i in (switched(table_lineage="true"), switched())] == [True, False]


def test_what_this_process_changes_holds_at_once() -> None:
    index = MemoryIndex(is_there=False)
    assert not settings_of(index).table
    enable(index)
    assert settings_of(index) == LineageSettings(table=True, data=True)
    write_settings(index, table=True, data=False)
    assert settings_of(index) == LineageSettings(table=True)
    write_settings(index, table=False, data=False)
    assert settings_of(index) == OFF
    index.upsert({CATALOG_OPTIONS.name: [("table-lineage", "true")]})
    forget_settings(index.warehouse)
    assert settings_of(index).table


def test_what_cannot_be_read_is_off_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    index, now = Unreadable(), [0.0]
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            assert settings_of(index, lambda: now[0]) == OFF
            now[0] += 61
    assert len(caplog.records) == 1
    assert "does not answer" in caplog.text
    assert index.warehouse.url in caplog.text


def test_a_store_that_fails_for_a_while_does_not_switch_lineage_off() -> None:
    index, now = Unreadable(), [0.0]
    index.broken = False
    enable(index)
    assert settings_of(index, lambda: now[0]).data
    index.broken = True
    now[0] += 61
    assert settings_of(index, lambda: now[0]).data
    index.broken = False
    write_settings(index, table=False, data=False)
    now[0] += 61
    assert not settings_of(index, lambda: now[0]).data
