from __future__ import annotations

import pytest

from paimon_spark.options import table
from paimon_spark.options.descriptor import Option
from paimon_spark.options.known import TABLE_OPTIONS, is_storage_option, is_table_option


def test_every_option_that_tables_are_read_with_is_known() -> None:
    options = [o for o in vars(table).values() if isinstance(o, Option)]
    assert options
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
