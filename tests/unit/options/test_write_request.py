"""Options of a query's sink, and those of single writes alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import InvalidInputError, InvalidOptionError
from paimon_spark.options.write_request import (
    BatchWriteOptions,
    LostBatches,
    StreamWriteOptions,
    WriteMode,
    parse_batch_write_options,
    parse_partition,
    parse_stream_write_options,
    refuse_unknown,
    restore_case,
    write_mode,
)

APPEND, OVERWRITE = WriteMode.APPEND, WriteMode.OVERWRITE


def test_nothing_asked_appends_to_main() -> None:
    assert parse_batch_write_options({}, APPEND) == BatchWriteOptions()


def test_options_go_where_they_belong_in_any_case() -> None:
    asked = parse_batch_write_options(
        {
            "PATH": "/t", "Branch": "fix", "WRITE.MERGE-SCHEMA": "true", "primary-key": "a", "fs.key": "k",
            "s3.endpoint": "e", "my-own": "x", "partitionoverwritemode": "Dynamic", "write.clustered": "true",
            "commit.user": "me", "end-input.watermark": "17",
        },
        OVERWRITE,
    )  # fmt: skip
    assert asked == BatchWriteOptions(
        branch="fix",
        dynamic_overwrite=True,
        commit_user="me",
        clustered=True,
        watermark=17,
        table_options={"write.merge-schema": "true", "primary-key": "a"},
        storage_options={"fs.key": "k", "s3.endpoint": "e"},
        unknown_options={"my-own": "x"},
    )


def test_paimons_own_name_of_a_dynamic_overwrite_is_understood() -> None:
    assert parse_batch_write_options({"dynamic-partition-overwrite": "true"}, OVERWRITE).dynamic_overwrite
    assert not parse_batch_write_options({"dynamic-partition-overwrite": "false"}, OVERWRITE).dynamic_overwrite
    assert not parse_batch_write_options({"dynamic-partition-overwrite": "true"}, APPEND).dynamic_overwrite


@pytest.mark.parametrize(
    ("options", "mode", "message"),
    [
        ({"versionAsOf": "v1"}, APPEND, "chooses what is read"),
        ({"where": "a = 1"}, OVERWRITE, "chooses what is read"),
        ({"incremental-between": "1,2"}, APPEND, "chooses what is read"),
        ({"overwrite.partition": "dt=1"}, APPEND, "for mode overwrite"),
        ({"overwrite.partition": "dt=1", "partitionOverwriteMode": "dynamic"}, OVERWRITE, "give one of them"),
        ({"partitionOverwriteMode": "some"}, OVERWRITE, "static, dynamic"),
        ({"branch": "a", "scan.branch": "b"}, APPEND, "two branches"),
        ({"branch": " "}, APPEND, "blank"),
        ({"commit.user": ""}, APPEND, "blank"),
    ],
)
def test_contradictions_are_refused(options: dict[str, str], mode: WriteMode, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        parse_batch_write_options(options, mode)


def test_an_unknown_option_is_refused_where_a_table_exists() -> None:
    with pytest.raises(InvalidOptionError, match=r"'overwrite\.partition'"):
        refuse_unknown(parse_batch_write_options({"overwrite.partitions": "x"}, OVERWRITE), creating=False)
    with pytest.raises(InvalidOptionError, match="unknown write option 'my-own'"):
        refuse_unknown(parse_batch_write_options({"my-own": "x"}, APPEND), creating=False)


@pytest.mark.parametrize("creating", [False, True])
@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("replacewhere", "'replaceWhere', of Iceberg or Delta Lake: it works in df.write.mode('overwrite')"),
        ("overwriteSchema", "elsewhere use ALTER TABLE, or write.merge-schema = true"),
        ("fanout-enabled", "leave it out: rows are distributed by partition and bucket"),
        ("snapshot-property.k", "'snapshot-property.k', of Iceberg or Delta Lake: snapshots take no properties"),
        ("txnAppId", "batch writes have no ids"),
        ("write-format", "use file.format"),
    ],
)
def test_options_of_iceberg_and_delta_lake_are_refused_with_what_to_use(key: str, said: str, creating: bool) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        refuse_unknown(parse_batch_write_options({key: "x"}, APPEND), creating=creating)
    assert said in caught.value.message


def test_a_table_made_keeps_unknown_options_but_not_misspelt_ones() -> None:
    refuse_unknown(parse_batch_write_options({"my-own": "x"}, APPEND), creating=True)
    with pytest.raises(InvalidOptionError, match="'primary-key'"):
        refuse_unknown(parse_batch_write_options({"primry-key": "a"}, APPEND), creating=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dt=2024-01-01", {"dt": "2024-01-01"}),
        ("dt=2024-01-01,hr=5", {"dt": "2024-01-01", "hr": "5"}),
        (" dt = 2024-01-01 , hr = 5 ", {"dt": "2024-01-01", "hr": "5"}),
        ("dt='a,b',hr=\"x='y'\"", {"dt": "a,b", "hr": "x='y'"}),
        ("dt='it''s'", {"dt": "it's"}),
        ("`odd,=name`=1", {"odd,=name": "1"}),
        ("dt=", {"dt": ""}),
        ("dt=a=b", {"dt": "a=b"}),
        ("ts=2024-01-01 10:00:00", {"ts": "2024-01-01 10:00:00"}),
    ],
)
def test_partitions_are_pairs(text: str, expected: dict[str, str]) -> None:
    assert parse_partition(text) == expected


@pytest.mark.parametrize("text", ["", " ", "dt", "=1", "dt=1,", ",dt=1", "dt='a", "dt='a'b", "dt=1,dt=2", "dt=1,,hr=2"])
def test_other_texts_are_no_partition(text: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"overwrite\.partition"):
        parse_partition(text)


_NAMES = st.text(min_size=1, max_size=8).filter(str.strip)


@given(st.dictionaries(_NAMES, st.text(max_size=8), min_size=1, max_size=4))
def test_quoted_pairs_say_anything(pairs: dict[str, str]) -> None:
    def quoted(text: str, mark: str) -> str:
        return mark + text.replace(mark, mark * 2) + mark

    text = ", ".join(f"{quoted(k, '`')} = {quoted(v, chr(39))}" for k, v in pairs.items())
    assert parse_partition(text) == pairs


def test_modes_that_spark_does_not_hand_over_are_explained() -> None:
    assert write_mode("Append") is APPEND
    with pytest.raises(InvalidInputError, match="expected append or overwrite"):
        write_mode("ignore")


def test_columns_in_option_keys_get_their_case_back() -> None:
    columns = {"amount": "Amount", "dt": "dT"}
    options = {
        "fields.amount.aggregate-function": "sum",
        "fields.amount,dt.sequence-group": "x",
        "fields.default-aggregate-function": "last_value",
        "file-index.bloom-filter.amount.fpp": "0.1",
        "bucket-key": "Amount",
    }
    assert list(restore_case(options, columns)) == [
        "fields.Amount.aggregate-function",
        "fields.Amount,dT.sequence-group",
        "fields.default-aggregate-function",
        "file-index.bloom-filter.Amount.fpp",
        "bucket-key",
    ]


def test_nothing_asked_fails_at_a_loss() -> None:
    for complete in (False, True):
        assert parse_stream_write_options({}, complete=complete) == StreamWriteOptions()


def test_options_of_sinks_go_where_they_belong_in_any_case() -> None:
    asked = parse_stream_write_options(
        {
            "path": "/t", "checkpointlocation": "/c", "queryname": "q", "WRITE.STREAM.LOST-BATCHES": "Continue",
            "Branch": "b", "commit.user": "me", "write.clustered": "true", "write.merge-schema": "true",
            "write-only": "true", "write.batch-size": "9", "fs.key": "k", "my-own": "x",
        },
        complete=False,
    )  # fmt: skip
    assert asked == StreamWriteOptions(
        BatchWriteOptions(
            branch="b",
            commit_user="me",
            clustered=True,
            table_options={"write.merge-schema": "true", "write-only": "true", "write.batch-size": "9"},
            storage_options={"fs.key": "k"},
            unknown_options={"my-own": "x"},
        ),
        LostBatches.CONTINUE,
        "q",
        "/c",
    )


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("overwrite.partition", "dt=x"),
        ("partitionOverwriteMode", "dynamic"),
        ("partitionoverwritemode", "static"),
        ("dynamic-partition-overwrite", "true"),
        ("write.row-level", "DELETE"),
        ("write.row-level-base", "3"),
        ("end-input.watermark", "17"),
        ("versionAsOf", "v1"),
        ("write.stream.lost-batches", "ignore"),
        ("write.stream.lost-batch", "continue"),
        ("commit.user", " "),
        ("commit.user", "team/etl"),
    ],
)
def test_what_is_of_single_writes_or_wrong_is_refused_by_name(key: str, value: str, complete: bool) -> None:
    with pytest.raises(InvalidOptionError, match=f"(?i){key}"):
        parse_stream_write_options({key: value}, complete=complete)
