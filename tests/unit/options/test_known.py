"""Names and types of table options, and values that are hidden."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.api.catalog import load_catalog
from paimon_spark.errors import InvalidOptionError
from paimon_spark.options import core
from paimon_spark.options.data_files import per_level
from paimon_spark.options.descriptor import Option, options_of, string
from paimon_spark.options.known import _PARSERS, TABLE_OPTIONS, check_values, is_storage_option, is_table_option
from paimon_spark.options.table import TableOptions, parse_table_options
from paimon_spark.redaction import HIDDEN, is_secret, shown_changes, shown_options
from tests.harness.real_tables import a_catalog


def test_every_option_that_tables_are_read_with_is_known() -> None:
    options = [o for o in vars(core).values() if isinstance(o, Option)]
    options += options_of(TableOptions).values()
    assert len(options) > 20
    assert [o.key for o in options if o.key not in TABLE_OPTIONS] == []


@pytest.mark.parametrize(
    "key", ["merge-engine", "fields.A.b.aggregate-function", "file-index.bloom-filter.columns", "parquet.block.size"]
)
def test_table_options_are_known_by_name_and_by_group(key: str) -> None:
    assert is_table_option(key)
    assert is_table_option(key.upper())
    assert not is_storage_option(key)


@pytest.mark.parametrize("key", ["fs.key", "S3.endpoint", "s3a.path.style.access"])
def test_storage_options_are_known_by_their_prefix(key: str) -> None:
    assert is_storage_option(key)
    assert not is_table_option(key)


@pytest.mark.parametrize("key", sorted(_PARSERS))
def test_every_typed_option_is_one_of_paimon(key: str) -> None:
    assert is_table_option(key)


@pytest.mark.parametrize("key", sorted(_PARSERS))
def test_every_typed_option_refuses_text_that_is_no_value(key: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"option {key} = 'no such value'"):
        check_values({key: "no such value"})


def test_values_of_every_kind_are_accepted() -> None:
    check_values(
        {
            "bucket": "-1",
            "dynamic-bucket.target-row-num": "9000000000",
            "lookup.hash-load-factor": "0.75",
            "snapshot.time-retained": "1 h",
            "target-file-size": "128 MB",
            "deletion-vectors.enabled": "TRUE",
            "merge-engine": "PARTIAL_UPDATE",
            "tag.period-formatter": "without_dashes",
            "metadata.stats-mode": "truncate(32)",
            "metadata.stats-mode.per.level": "0:none,5:full",
            "file.format.per.level": "0:avro, 5:orc",
            "some.tool": "anything",
        }
    )


def test_numbers_end_where_java_s_do() -> None:
    with pytest.raises(InvalidOptionError, match="up to 2147483647"):
        check_values({"bucket": "2147483648"})


def test_levels_have_a_value_each() -> None:
    assert per_level(string)(" 0:avro ,5: parquet,") == {0: "avro", 5: "parquet"}
    for text in ("avro", "0:", "x:avro"):
        with pytest.raises(ValueError, match="expected <level>:<value>"):
            per_level(string)(text)


def test_values_that_pass_are_those_that_the_tables_options_parse() -> None:
    text = {"merge-engine": "First_Row", "bucket": " 3 ", "source.split.target-size": "1gb", "ignore-delete": "False"}
    check_values(text)
    parse_table_options(text)


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
    catalog = a_catalog(tmp_path)
    table = catalog.create_table("db.t", "a INT")
    table.write(pa.table({"a": pa.array([1], pa.int32())}))
    table.create_tag("v1")
    table.alter(set_options={"my.password": "hush"})
    found = catalog.table("db.t").diff("v1", "main")
    assert found.options == {"my.password": (None, "hush")}
    assert found.to_dict()["options"] == {"my.password": [None, HIDDEN]}
    assert "hush" not in found._repr_html_()
