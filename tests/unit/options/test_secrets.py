from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.api.catalog import load_catalog
from paimon_spark.options.secrets import HIDDEN, is_secret, shown_changes, shown_options


@pytest.mark.parametrize(
    "key",
    [
        "s3.secret-key",
        "fs.oss.accessKeyId",
        "s3.access-key",
        "fs.azure.account.key.lake.dfs.core.windows.net",
        "fs.azure.sas.container.lake",
        "jdbc.password",
        "TOKEN",
        "partition.mark-done-action.http.url",
    ],
)
def test_what_opens_a_store_is_not_shown(key: str) -> None:
    assert is_secret(key)
    assert shown_options({key: "hush", "bucket": "2"}) == {key: HIDDEN, "bucket": "2"}
    assert shown_changes({key: (None, "hush")}) == {key: (None, HIDDEN)}


@pytest.mark.parametrize("key", ["bucket-key", "primary-key", "sequence.field", "s3.endpoint", "passes"])
def test_other_options_are_shown(key: str) -> None:
    assert not is_secret(key)


def test_neither_a_catalog_nor_a_table_nor_a_read_shows_how_the_store_is_reached(tmp_path: Path) -> None:
    catalog = load_catalog(str(tmp_path), **{"s3.secret-key": "hush"})
    catalog.create_database("db")
    table = catalog.create_table("db.t", "a INT")
    for shown in (catalog, table, table.scan()):
        assert "hush" not in repr(shown)


def test_a_difference_of_two_versions_shows_no_secrets(tmp_path: Path) -> None:
    catalog = load_catalog(str(tmp_path))
    catalog.create_database("db")
    table = catalog.create_table("db.t", "a INT")
    table.write(pa.table({"a": pa.array([1], pa.int32())}))
    table.create_tag("v1")
    table.alter(set_options={"my.password": "hush"})
    found = catalog.table("db.t").diff("v1", "main")
    assert found.options == {"my.password": (None, "hush")}
    assert found.to_dict()["options"] == {"my.password": [None, HIDDEN]}
    assert "hush" not in found._repr_html_()
