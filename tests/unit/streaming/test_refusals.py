"""Tables and options that streams refuse, before the query begins."""

from __future__ import annotations

import pytest

from paimon_spark.errors import InvalidInputError, InvalidOptionError
from paimon_spark.metadata.handle import open_table
from paimon_spark.options.stream_read import parse_rows_options, parse_stream_options
from paimon_spark.streaming.source import check_stream
from tests.harness.tables import MetadataTable, a_schema


def check(given: dict[str, str], keyed: bool = False, branch: str = "main", **stored: str) -> None:
    """Check a stream as `open_stream` opens it; stored options are written with `_` for `-`."""
    options = {k.replace("_", "-"): v for k, v in stored.items()}
    schema = a_schema(options=options, primary_keys=("k",) if keyed else ())
    table = MetadataTable().schema(schema, branch)
    handle = open_table(table.store, table.root, branch, options=parse_rows_options(given).table_options)
    check_stream(handle, parse_stream_options(given, handle.schema.options))


def refused(given: dict[str, str], keyed: bool = False, branch: str = "main", **stored: str) -> str:
    with pytest.raises(InvalidOptionError) as caught:
        check(given, keyed, branch, **stored)
    return caught.value.message


OVERWRITE = {"streaming-read-overwrite": "true"}
APPEND_OVERWRITE = {"streaming-read-append-overwrite": "true"}


def test_overwrites_of_each_kind_of_table_have_an_option_of_their_own() -> None:
    check(OVERWRITE, keyed=True)
    check(OVERWRITE, keyed=True, changelog_producer="input")
    check(APPEND_OVERWRITE)
    text = refused(OVERWRITE, branch="fix")
    assert "streaming-read-overwrite = true of a stream of branch 'fix' of table db.t needs a primary key" in text
    assert "give streaming-read-append-overwrite = true" in text
    assert "give streaming-read-overwrite = true for this table" in refused(APPEND_OVERWRITE, keyed=True)


def test_what_the_table_stores_counts_as_far_as_it_means_anything() -> None:
    assert "needs a primary key" in refused({}, streaming_read_overwrite="true")
    check({}, keyed=True, streaming_read_append_overwrite="true")
    check({"streaming-read-overwrite": "false"}, streaming_read_overwrite="true")


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_overwrites_that_are_in_the_changelog_are_not_read_twice(producer: str) -> None:
    text = refused(OVERWRITE, keyed=True, changelog_producer=producer)
    assert f"does not go with changelog-producer = {producer}" in text
    assert "read twice; leave the option out" in text


@pytest.mark.parametrize("name", ["a/b", "a\\b"])
def test_names_that_no_consumer_can_have_are_refused_at_once(name: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot be the name of a consumer"):
        check({"consumer-id": name})
    check({"consumer-id": "etl job 7"})
