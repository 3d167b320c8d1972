"""Names, values, patterns, options and URLs of users that made libraries raise: they make errors of ours."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark import Catalog, PaimonError, Table
from paimon_spark.errors import CorruptFileError, InvalidInputError, PredicateSyntaxError
from paimon_spark.format.json_files import decode_object, encode_value, find_object
from paimon_spark.metadata.branches import decode_fork
from paimon_spark.metadata.journal.change import decode as decode_change
from paimon_spark.metadata.schemas import decode_handover
from paimon_spark.redaction import get_logger as logger

HALF = "x\ud800y"
"""A text with half of a surrogate pair, which has no form in UTF-8."""
DEEP = b'{"version":' + b"[" * 100_000


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = paimon_spark.load_catalog(str(tmp_path / "wh"))
    made.create_database("db")
    return made


@pytest.fixture
def table(catalog: Catalog) -> Table:
    made = catalog.create_table("db.t", "id BIGINT, s STRING")
    made.write(pa.table({"id": pa.array([1], pa.int64()), "s": ["a"]}))
    return made


@pytest.mark.parametrize(
    "data",
    [DEEP, b"", b"[]", b"null", b"\xff", b'{"a": 1e999, "b": NaN}', b'{"a": ' + b"9" * 5000 + b"}",
     b'{"a": 9223372036854775808}', b'{"a": "\\ud800"}', b'{"a": "\xed\xa0\x80"}', b'{"a":' * 260 + b"1" + b"}" * 260],
)  # fmt: skip
def test_what_is_no_json_of_ours_is_one_error(data: bytes) -> None:
    with pytest.raises(CorruptFileError):
        decode_object(data, lambda raw: raw, CorruptFileError)
    assert find_object(data, lambda raw: raw) is None


@pytest.mark.parametrize("error", [KeyError("a"), IndexError(), OverflowError(), AttributeError(), ZeroDivisionError()])
def test_what_wrong_values_raise_is_one_error(error: Exception) -> None:
    def build(_raw: dict[str, object]) -> None:
        raise error

    with pytest.raises(CorruptFileError) as found:
        decode_object(b"{}", build, CorruptFileError)
    assert found.value.__cause__ is error


@pytest.mark.parametrize("decode", [decode_fork, decode_handover, decode_change])
@pytest.mark.parametrize(
    "data", [DEEP, b"[]", b'{"version": 1e999}', b'{"branch": 1, "schemas": [1e999], "version": 1}']
)
def test_files_of_branches_and_journals_raise_no_other_error(
    decode: Callable[[bytes, str], object], data: bytes
) -> None:
    with pytest.raises(CorruptFileError):
        decode(data, "file")


def test_text_without_a_form_in_utf8_is_refused(catalog: Catalog, table: Table) -> None:
    for act in (
        lambda: catalog.create_database(HALF),
        lambda: catalog.create_table(f"db.{HALF}", "id INT"),
        lambda: catalog.create_table("db.a", "id INT", options={"k": HALF}),
        lambda: catalog.create_table("db.b", "id INT", options={HALF: "1"}),
        lambda: catalog.create_table("db.c", "id INT", comment=HALF),
        lambda: table.alter(set_options={"k": HALF}),
        lambda: table.create_tag(HALF),
        lambda: table.create_branch(HALF),
        lambda: table.branch(HALF).scan().to_arrow(),
        lambda: table.scan(columns=[HALF]).to_arrow(),
        lambda: table.scan(where=f"s LIKE '{HALF}%'").to_arrow(),
        lambda: table.delete(f"s = '{HALF}'"),
    ):
        with pytest.raises(PaimonError):
            act()
    with pytest.raises(InvalidInputError, match="half of a surrogate pair"):
        encode_value({"k": HALF})


@pytest.mark.parametrize("pattern", ["a{2,1}", "(a{999}){999}", "((a{900}){900}){900}", "a{1000000}", "(" * 3000])
def test_patterns_that_cannot_be_compiled_are_refused(table: Table, pattern: str) -> None:
    with pytest.raises(PredicateSyntaxError):
        table.scan(where=f"s RLIKE '{pattern}'").to_arrow()


@pytest.mark.parametrize("level", ["999", "-999999"])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_levels_of_zstd_out_of_range_are_the_nearest_ones_as_in_java(
    catalog: Catalog, level: str, file_format: str
) -> None:
    options = {"file.compression.zstd-level": level, "file.format": file_format}
    made = catalog.create_table("db.z", "id BIGINT", options=options)
    made.write(pa.table({"id": pa.array([1], pa.int64())}))
    assert made.scan().to_arrow().num_rows == 1


@pytest.mark.parametrize("url", ["generic://a/b", "generic://"])
def test_urls_of_no_store_are_refused(url: str) -> None:
    with pytest.raises(InvalidInputError, match="is no location"):
        paimon_spark.load_catalog(url).list_databases()


FORGED = "x\x1b[2J\r\nERROR all is lost\u202e\ud800"


def test_messages_show_text_of_others_escaped_in_one_line() -> None:
    error = PaimonError(f"no table {FORGED}", table=FORGED)
    assert str(error) == r"no table x\x1b[2J\r\nERROR all is lost\u202e\ud800"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert error.context["table"] == FORGED


def test_log_records_show_text_of_others_escaped_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    log = logger("paimon_spark.of_this_test")
    assert logger("paimon_spark.of_this_test").filters == log.filters[:1]
    log.warning("cannot read %s: %d %s", FORGED, 7, ValueError(FORGED))
    try:
        raise ValueError(FORGED)
    except ValueError:
        log.exception("failed")
    shown = logging.Formatter().format(caplog.records[1])
    for text in (caplog.records[0].getMessage(), shown):
        assert "\x1b" not in text
        assert r"x\x1b[2J" in text
    assert "\n" not in caplog.records[0].getMessage()


def test_forged_names_of_columns_do_not_reach_messages_raw(table: Table, tmp_path: Path) -> None:
    path = tmp_path / "wh/db.db/t/schema/schema-0"
    raw = json.loads(path.read_text())
    path.write_text(json.dumps({**raw, "partitionKeys": [FORGED.replace("\ud800", "")]}))
    with pytest.raises(CorruptFileError) as found:
        table.scan().to_arrow()
    assert "\x1b" not in str(found.value)
    assert "\n" not in str(found.value)
