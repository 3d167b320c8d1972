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
from paimon_spark.catalogs.rest_client import decode_body
from paimon_spark.errors import CatalogError, CorruptFileError, InvalidInputError, PredicateSyntaxError
from paimon_spark.format.json_files import decode_object, encode_value, find_object
from paimon_spark.lineage.recording.checkpoints import decode_ends
from paimon_spark.metadata.branches import decode_fork
from paimon_spark.metadata.journal.change import decode as decode_change
from paimon_spark.metadata.schemas import decode_handover
from paimon_spark.polars import pushed_down
from paimon_spark.redaction import get_logger as logger
from paimon_spark.text import integer_of
from paimon_spark.types import BIGINT, DataField, RowType
from tests.harness.real_tables import a_catalog, a_table

HALF = "x\ud800y"
"""A text with half of a surrogate pair, which has no form in UTF-8."""
DEEP = b'{"version":' + b"[" * 100_000


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return a_catalog(tmp_path / "wh")


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return a_table("id BIGINT, s STRING", rows=[(1, "a")], where=catalog)


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


MANY_DIGITS = "9" * 5000
"""More digits than Python converts to a number."""


@pytest.mark.parametrize("text", ["²", "٣", "--5", "-", "", MANY_DIGITS, str(2**63), "1_0", " 1", "+1"])
def test_texts_that_are_no_numbers_of_64_bits_are_none(text: str) -> None:
    assert integer_of(text) is None


def test_numbers_with_too_many_digits_are_refused(catalog: Catalog, table: Table) -> None:
    for act in (
        lambda: table.scan(where=f"id = '{MANY_DIGITS}'").to_arrow(),
        lambda: table.delete(f"id IN ('-{MANY_DIGITS}', '1')"),
        lambda: table.scan(**{"incremental-between-timestamp": f"1,{MANY_DIGITS}"}).to_arrow(),
        lambda: table.scan(**{"scan.snapshot-id": MANY_DIGITS}).to_arrow(),
        lambda: table.create_tag("a", time_retained=f"{'9' * 400} d"),
        lambda: catalog.create_table("db.a", f"a DECIMAL({MANY_DIGITS}, 2)"),
        lambda: catalog.create_table("db.b", "a INT", options={"target-file-size": f"{'9' * 400} gb"}),
        lambda: paimon_spark.load_catalog("webhdfs://h:²/x").list_databases(),
    ):
        with pytest.raises(PaimonError):
            act()
    for size in ("²", MANY_DIGITS):
        with pytest.raises(PaimonError):
            paimon_spark.load_catalog("memory://none/wh", **{"fs.block_size": size}).list_databases()


@pytest.mark.parametrize("forged", ["²", "--5", MANY_DIGITS, "9" * 30, "\ud800"])
def test_forged_numbers_in_hints_and_properties_change_nothing(table: Table, tmp_path: Path, forged: str) -> None:
    place = tmp_path / "wh/db.db/t/snapshot"
    raw = json.loads((place / "snapshot-1").read_text())
    properties = {"sequence.generation.max-sequence-number": forged.replace("\ud800", "")}
    (place / "snapshot-1").write_text(json.dumps({**raw, "properties": properties}))
    for id_ in (2, 3):
        table.write(pa.table({"id": pa.array([id_], pa.int64()), "s": ["a"]}))
    (place / "LATEST").write_bytes(forged.encode("utf-8", "replace"))
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=2**40 * 2)
    assert table.scan().to_arrow().num_rows == 3


@pytest.mark.parametrize("version", ["v" + MANY_DIGITS, "v²", "v٣", "v", "2"])
def test_forged_logs_of_offsets_are_refused(version: str) -> None:
    with pytest.raises(CorruptFileError, match="not a known offset log"):
        decode_ends(f"{version}\n{{}}\n0".encode(), "offsets/0")


@pytest.mark.parametrize(
    "data", [DEEP, b"[]", b"\xff", b'{"a": NaN}', b'{"a": ' + b"9" * 5000 + b"}", b'{"a": "\\ud800"}']
)
def test_answers_of_servers_that_are_no_objects_are_none(data: bytes) -> None:
    assert decode_body(data) is None
    assert decode_body(b" \n") == {}


@pytest.mark.parametrize("text", [DEEP.decode(), "[]", '{"AccessKeyId": 1}', "{}", '{"Expiration": "x"}', "9" * 5000])
def test_forged_access_keys_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)
    options = {"token.provider": "dlf", "dlf.token-path": str(tmp_path / "key"), "dlf.region": "cn-hangzhou"}
    with pytest.raises(CatalogError, match="no access key of DLF"):
        paimon_spark.load_catalog("wh", metastore="rest", uri="http://127.0.0.1:1", **options).list_databases()


def test_conditions_that_polars_cannot_serialize_are_not_pushed_down() -> None:
    pl = pytest.importorskip("polars")
    columns = RowType(True, (DataField(0, "a", BIGINT),))
    deep = pl.col("a") == 0
    for number in range(5000):
        deep = deep | (pl.col("a") == number)
    unknown = pl.col("a").map_elements(lambda a: hash(str(a)) > 1, return_dtype=pl.Boolean)
    for condition in (deep, unknown):
        assert pushed_down(condition, columns) is None
