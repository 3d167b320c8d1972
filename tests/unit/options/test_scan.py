"""Options of a batch read are parsed into one request, or refused."""

from __future__ import annotations

import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import InvalidOptionError, UnsupportedFeatureError
from paimon_spark.foreign.options import GUARANTEES, OPTIONS, PROPERTIES
from paimon_spark.options.known import is_table_option
from paimon_spark.options.scan import (
    INCREMENTAL_KEYS,
    VERSION_KEYS,
    Incremental,
    IncrementalMode,
    ScanOptions,
    canonical,
    parse_scan_options,
    split_names,
)


def test_nothing_asked_reads_the_head_of_main() -> None:
    assert parse_scan_options({}) == ScanOptions()


def test_keys_are_known_in_any_case() -> None:
    asked = parse_scan_options({"VERSIONASOF": "v1", "Read.Changelog": "TRUE", "where": "a > 1"})
    assert asked.version == ("versionAsOf", "v1")
    assert asked.row_kind
    assert asked.where == "a > 1"


def test_one_option_spelt_twice_with_two_values_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="versionAsOf is given twice"):
        canonical({"versionAsOf": "1", "versionasof": "2"})


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("brnach", "branch"),
        ("version-as-of", "versionAsOf"),
        ("scan.tagname", "scan.tag-name"),
        ("wher", "where"),
        ("merge-engin", "merge-engine"),
        ("colums", "columns"),
    ],
)
def test_an_unknown_option_offers_the_nearest_name(key: str, nearest: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        parse_scan_options({key: "x"})
    assert f"unknown read option {key!r}" in str(caught.value)
    assert f"{nearest!r}" in str(caught.value)


@pytest.mark.parametrize("first", VERSION_KEYS)
@pytest.mark.parametrize("second", [VERSION_KEYS[3], INCREMENTAL_KEYS[0]])
def test_two_version_options_at_once_are_refused_by_name(first: str, second: str) -> None:
    if first == second:
        return
    with pytest.raises(InvalidOptionError) as caught:
        parse_scan_options({first: "1", second: "1,2"})
    assert first in str(caught.value)
    assert second in str(caught.value)


def test_a_branch_given_twice_differently_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match=r"branch = 'a' and scan\.branch = 'b'"):
        parse_scan_options({"branch": "a", "scan.branch": "b"})
    assert parse_scan_options({"branch": "a", "scan.branch": "a"}).branch == "a"


def test_incremental_options_are_kept_together() -> None:
    asked = parse_scan_options(
        {
            "incremental-between": "1,3",
            "incremental-between-scan-mode": "diff",
            "incremental-between-tag-to-snapshot": "true",
        }
    )
    assert asked.version is None
    assert asked.incremental == Incremental("incremental-between", "1,3", IncrementalMode.DIFF, True)


def test_table_and_storage_options_are_told_apart() -> None:
    asked = parse_scan_options(
        {
            "source.split.target-size": "1 mb",
            "fields.a.aggregate-function": "sum",
            "s3.endpoint": "http://x",
            "fs.key": "k",
            "path": "/t",
            "warehouse": "/w",
        }
    )
    assert asked.table_options == {"source.split.target-size": "1 mb", "fields.a.aggregate-function": "sum"}
    assert asked.storage_options == {"s3.endpoint": "http://x", "fs.key": "k"}


@pytest.mark.parametrize("mode", ["default", "full", "latest", "latest-full", "Latest"])
def test_scan_modes_that_mean_the_head_add_nothing(mode: str) -> None:
    assert parse_scan_options({"scan.mode": mode}) == ScanOptions()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scan.mode": "latest", "scan.tag-name": "t"}, "contradicts option scan.tag-name"),
        ({"scan.mode": "from-snapshot"}, "needs one of scan.snapshot-id"),
        ({"scan.mode": "from-timestamp", "scan.snapshot-id": "1"}, "found scan.snapshot-id"),
        ({"read.batch-size": "0"}, "at least 1"),
        ({"read.changelog": "maybe"}, "expected true or false"),
        ({"scan.snapshot-id": " "}, "blank"),
        ({"scan.creation-time-millis": "yesterday"}, "scan.creation-time-millis"),
        ({"scan.mode": "from-file-creation-time", "scan.creation-time-millis": "1"}, "needs one of scan.file-creation"),
        ({"branch": " "}, "blank"),
        ({"columns": "a,,b"}, "expected column names"),
        ({"incremental-between": "1,2", "incremental-between-scan-mode": "all"}, "expected one of auto"),
    ],
)
def test_wrong_values_say_what_is_wrong(options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        parse_scan_options(options)
    assert words in str(caught.value)


@pytest.mark.parametrize("options", [{"scan.mode": "from-nowhere"}, {"scan.bucket": "1"}])
def test_options_that_would_be_passed_over_with_other_rows_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(UnsupportedFeatureError, match=next(iter(options))):
        parse_scan_options(options)


@pytest.mark.parametrize("key", ["scan.file-creation-time-millis", "scan.creation-time-millis"])
def test_rows_since_a_moment_are_a_version_of_their_own(key: str) -> None:
    asked = parse_scan_options({key: "1700000000000"})
    assert asked.version == (key, "1700000000000")
    assert asked.created_since_ms == 1_700_000_000_000
    assert asked.at(("scan.version", "5")).created_since_ms is None


def test_options_pickle() -> None:
    asked = parse_scan_options({"versionAsOf": "v", "columns": "a,b"})
    assert pickle.loads(pickle.dumps(asked)) == asked


@given(st.lists(st.text(min_size=1).filter(lambda t: t.strip() == t), min_size=1))
def test_quoted_names_come_back_as_they_went(names: list[str]) -> None:
    text = ",".join("`" + n.replace("`", "``") + "`" for n in names)
    assert split_names(text) == tuple(names)


@pytest.mark.parametrize(
    ("text", "names"), [("a,b", ("a", "b")), (" a , `b,c` , d ", ("a", "b,c", "d")), ("`x``y`", ("x`y",))]
)
def test_names_are_split_at_commas_outside_backquotes(text: str, names: tuple[str, ...]) -> None:
    assert split_names(text) == names


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("tag", "unknown read option 'tag', of Iceberg or Delta Lake: use scan.tag-name, or VERSION AS OF in a query"),
        ("startingversion", "unknown read option 'startingVersion', of Iceberg or Delta Lake: use incremental-between"),
        ("readChangeFeed", "or read t$audit_log"),
        ("start-snapshot-id", "use incremental-between = <start>,<end>, versions of which the first is left out"),
        ("snapshot-id", "use scan.snapshot-id, or VERSION AS OF in a query"),
        ("as-of-timestamp", "use scan.timestamp-millis"),
        ("ignoreChanges", "leave it out: a stream reads what commits append"),
        ("replacewhere", "unknown read option 'replaceWhere'"),
    ],
)
def test_options_of_iceberg_and_delta_lake_say_what_to_use(key: str, said: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        parse_scan_options({key: "1"})
    assert said in caught.value.message


def test_what_foreign_options_are_replaced_by_is_an_option_here() -> None:
    of_spark = {"versionAsOf", "timestampAsOf", "partitionOverwriteMode"}
    for text in (*OPTIONS.values(), *PROPERTIES.values()):
        for key in re.findall(r"\buse `([^` ]+)`", text):
            assert is_table_option(key) or key in of_spark, key
    for key in (*OPTIONS, *PROPERTIES, *GUARANTEES):
        assert not is_table_option(key), key
