"""Secrets are hidden wherever options, locations and messages are shown, and one function decides."""

from __future__ import annotations

import logging
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from paimon_spark import load_catalog
from paimon_spark.api.table import Table
from paimon_spark.catalogs.hive import HiveRegistry
from paimon_spark.catalogs.jdbc import JdbcRegistry
from paimon_spark.catalogs.rest import RestCatalog, RestRegistry
from paimon_spark.catalogs.rest_client import RestClient
from paimon_spark.catalogs.rest_login import AccessKey
from paimon_spark.errors import InvalidInputError, InvalidOptionError, PaimonError
from paimon_spark.lineage.index.provenance import STATEMENT, StatementRecord, decode_statement, encode_statement
from paimon_spark.options.catalog import CatalogOptions, is_catalog_option, parse_catalog_options
from paimon_spark.options.descriptor import Option, boolean, options_of, spelt
from paimon_spark.options.known import STORAGE_PREFIXES, TABLE_OPTIONS
from paimon_spark.options.lineage import STATEMENT_VALUES
from paimon_spark.options.location import TableName
from paimon_spark.options.scan import ScanOptions
from paimon_spark.redaction import (
    HARMLESS,
    HIDDEN,
    get_logger,
    is_secret,
    shown_option,
    shown_options,
    spark_pattern,
    without_passwords,
)
from paimon_spark.sql.commands.show import table_properties
from paimon_spark.sql.execute import check_again
from paimon_spark.sql.lineage_job import has_secret, with_lineage_job
from paimon_spark.sql.session import Session
from paimon_spark.storage.urls import open_store

SECRET = "hush-5f1e"
SECRETS = (
    "fs.account_key", "fs.connection_string", "fs.connectionString", "fs.conn-str", "fs.client_kwargs",
    "fs.client_kwargs.aws_secret", "fs.config_kwargs", "api_key", "fs.apikey", "private_key", "fs.pkey",
    "fs.passphrase", "fs.auth", "fs.headers", "fs.authorization", "header.X-Any", "header.bucket-key", "Header.a",
    "fs.token", "fs.password", "fs.PASSWD", "fs.pwd", "fs.pass", "fs.sas_token", "fs.credential", "fs.cookie",
    "fs.signature", "token", "jdbc.password", "jdbc.sslpassword", "dlf.access-key-id", "dlf.access-key-secret",
    "dlf.security-token", "hadoop.fs.s3a.session.token", "hadoop.sasl.jaas.config", "my.secret", "s3.secret-key",
    "table-default.my.token", "parquet.encryption.key", "FS.KEY",
)  # fmt: skip
SHOWN = (
    *HARMLESS, "table-default.bucket-key", "sequence.field", "bucket", "fields.token.aggregate-function",
    "file-index.bloom-filter.columns", "s3.endpoint", "fs.region", "jdbc.user", "metastore", "uri", "warehouse",
    "fs.author", "owner", "commit.user-prefix", "compaction.min.file-num", "passes", "csv.include-header",
)  # fmt: skip


@pytest.mark.parametrize("key", SECRETS)
def test_whatever_is_named_as_a_secret_is_hidden(key: str) -> None:
    assert is_secret(key)
    assert shown_options({key: SECRET, "bucket": "2"}) == {key: HIDDEN, "bucket": "2"}


@pytest.mark.parametrize("key", SHOWN)
def test_known_options_without_secrets_are_shown(key: str) -> None:
    assert not is_secret(key) and shown_option(key, "7") == "7"


def test_the_harmless_options_are_known_ones() -> None:
    catalogs = {o.key for o in options_of(CatalogOptions).values()}
    kept_apart = {"orc.dictionary.key.threshold", "security.kerberos.login.keytab"}
    assert set(HARMLESS) - kept_apart <= TABLE_OPTIONS | catalogs
    assert "security.kerberos.login." in STORAGE_PREFIXES
    # All options of tables are shown, but where a partition is reported to.
    assert {k for k in TABLE_OPTIONS if is_secret(k)} == {"partition.mark-done-action.http.url"}
    assert {k for k in catalogs if is_secret(k)} == {
        "token", "dlf.access-key-id", "dlf.access-key-secret", "dlf.security-token", "dlf.token-ecs-metadata-url",
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        f"jdbc:postgresql://me:{SECRET}@host:5432/db",
        f"jdbc:postgresql://host/db?user=me&password={SECRET}&ssl=true",
        f"jdbc:sqlserver://host;user=me;password={SECRET};encrypt=true",
        f"jdbc:mysql://(host=h,user=me,password={SECRET})/db",
        f"jdbc:oracle:thin:scott/{SECRET}@//host:1521/x",
        f"https://me:{SECRET}@host:8080/v1/config?warehouse=lake",
        f"https://host/v1?token={SECRET}",
        f"https://host/v1?a=b&access_token={SECRET}#end",
        f"thrift://me:{SECRET}@host:9083,thrift://me:{SECRET}@other:9083",
        f"webhdfs://me:{SECRET}@host:9870/wh",
        f"webhdfs://host:9870/wh?delegation={SECRET}x".replace("delegation", "delegation_token"),
        f"http://:{SECRET}@host/x",
        f"s3://key:{SECRET}@bucket/x",
        f"s3://key:a/{SECRET}@bucket/x",
        f"s3://key:p@{SECRET}@bucket/x",
        f"s3://key:p'{SECRET}@bucket/x",
        f"https://b.s3.amazonaws.com/k?X-Amz-Credential={SECRET}&X-Amz-Signature={SECRET}&X-Amz-Security-Token={SECRET}",
        f"https://a.blob.core.windows.net/c?sv=1&sig={SECRET}",
    ],
)
def test_passwords_in_urls_are_hidden_in_errors_logs_and_options(text: str, caplog: pytest.LogCaptureFixture) -> None:
    error = PaimonError(f"cannot open '{text}'; try again", path=text)
    copy = pickle.loads(pickle.dumps(error))
    for shown in (without_passwords(text), str(error), repr(error), str(copy), str(copy.context), str(error.context)):
        assert SECRET not in shown
    assert SECRET not in shown_option("uri", text) and SECRET not in shown_option("path", text)
    logger = get_logger("paimon_spark.tests.secrets")
    with caplog.at_level(logging.DEBUG, logger.name):
        logger.warning("failed at %s", text)
        logger.info(text.replace("%", "%%"))
        try:
            raise OSError(text)
        except OSError:
            logger.exception("failed")
    assert len(caplog.records) == 3 and SECRET not in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/db.db/t/snapshot/snapshot-5",
        "hdfs://nn:8020/warehouse/a@b.db/t",
        "memory://wh/db.db/t",
        "https://host:8080/v1/config?warehouse=lake&pageToken=",
        "no row of 'a@b' has key=5; use primary-key = 'id' (key=5)".replace("(key=5)", "(5)"),
        "option where = 'token = 5': unknown column",
        "{'a': 's3://h:80', 'b': 'x@y'}",
        "/wh/db.db/t/token=5/key=a@b/bucket-0",
        "jdbc:sqlite:/tmp/a@b.db",
    ],
)
def test_texts_without_passwords_stay(text: str) -> None:
    assert without_passwords(text) == text


def test_a_uri_without_scheme_hides_its_password() -> None:
    assert shown_option("uri", f"me:{SECRET}@host:80") == "me:*****@host:80"


def test_json_with_a_secret_is_hidden() -> None:
    assert shown_option("fs.settings", f'{{"password": "{SECRET}"}}') == HIDDEN
    assert shown_option("fs.settings", '{"a": 1}') == '{"a": 1}'


def test_errors_on_options_hide_secrets() -> None:
    with pytest.raises(InvalidOptionError) as wrong:
        Option("my.secret", boolean, None, "").get({"my.secret": SECRET})
    with pytest.raises(InvalidOptionError) as twice:
        spelt({"my.SECRET": SECRET, "my.secret": "other"}, {"my.secret": "my.secret"})
    for error in (wrong.value, twice.value):
        assert SECRET not in f"{error} {error.context}"


def test_a_location_with_a_password_is_refused_without_showing_it() -> None:
    for url in (f"webhdfs://me:{SECRET}@host/wh", f"sftp://me:{SECRET}@host/wh", f"s3://me:{SECRET}@bucket/wh"):
        with pytest.raises(InvalidInputError, match="has a password") as e:
            open_store(url)
        assert SECRET not in str(e.value)
        assert SECRET not in repr(load_catalog(url)) and SECRET not in load_catalog(url)._repr_html_()


def shown_by(value: Any) -> str:
    return f"{value!r} {value!s} {value}"


def test_nothing_of_a_catalog_shows_its_secrets() -> None:
    raw = {
        "metastore": "rest", "uri": f"https://me:{SECRET}@host", "token": SECRET, "header.x": SECRET,
        "dlf.access-key-secret": SECRET, "dlf.access-key-id": SECRET, "jdbc.password": SECRET, "fs.account_key": SECRET,
    }  # fmt: skip
    options = parse_catalog_options(raw)
    client = RestClient(options, "lake")
    catalog = RestCatalog("lake", raw, registry=RestRegistry(client))
    values = (options, client, catalog, JdbcRegistry(options), HiveRegistry(options), AccessKey("a", SECRET, SECRET))
    assert [v for v in values if SECRET in shown_by(v)] == []
    assert all(is_catalog_option(k) or k.startswith(STORAGE_PREFIXES) for k in raw)


def a_table(folder: Path) -> Table:
    catalog = load_catalog(str(folder), **{"s3.secret-key": SECRET, "fs.account_key": SECRET, "fs.auth": SECRET})
    catalog.create_database("db")
    stored = {"bucket-key": "a", "bucket": "1", "my.api_key": SECRET, "my.uri": f"http://u:{SECRET}@h"}
    return catalog.create_table("db.t", "a INT", options=stored)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_nothing_of_a_table_shows_its_secrets(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = a_table(tmp_path)
    handle = table.handle
    scan = ScanOptions(table_options={"my.token": SECRET})
    parts = (table, table.scan(), handle, handle.schema, handle.options, handle.store, scan)
    assert [v for v in parts if SECRET in shown_by(v)] == []
    assert SECRET not in table._repr_html_() and SECRET not in caplog.text
    shown = table_properties(table)
    assert SECRET not in str(shown) and shown["bucket-key"] == "a" and shown["my.api_key"] == HIDDEN
    for name in ("options", "schemas"):
        rows = str(load_catalog(str(tmp_path)).table(f"db.t${name}").scan().to_arrow().to_pylist())
        assert SECRET not in rows and HIDDEN in rows and "bucket-key" in rows
    assert pickle.loads(pickle.dumps(handle)).schema.options["my.api_key"] == SECRET


def test_set_hides_the_settings_of_catalogs() -> None:
    pattern = re.compile(spark_pattern())
    for key in SECRETS:
        assert pattern.search(f"spark.sql.catalog.lake.{key}"), key
        assert pattern.search(f"spark.paimon.{key}"), key
    for key in SHOWN:
        if not key.startswith(("fields.", "file-index.")):
            assert not pattern.search(f"spark.sql.catalog.lake.{key}"), key
    assert not pattern.search("primary-key") and not pattern.search("spark.hadoop.some.key") and pattern.search("URL")


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        (f"INSERT INTO t WITH ('s3.secret-key' = '{SECRET}') SELECT 1", True),
        (f"INSERT INTO t SELECT * FROM u WITH ('token' = '{SECRET}')", True),
        (f"INSERT INTO t SELECT '{SECRET}' FROM u OPTIONS (fs.account_key '{SECRET}')", True),
        (f"INSERT INTO t VALUES ('http://me:{SECRET}@host')", True),
        ("INSERT INTO t SELECT * FROM u WHERE token = 'a' AND u.key = 'b'", False),
        ("INSERT INTO t WITH ('bucket-key' = 'a') SELECT 1", False),
    ],
)
def test_statements_with_secrets_are_not_recorded(sql: str, found: bool) -> None:
    assert has_secret(sql) is found


def test_a_statement_without_its_values_says_so() -> None:
    statement = StatementRecord("DELETE FROM t WHERE a = :a", "paimon", "db", lacks_values=True)
    encoded = encode_statement(statement)
    assert encoded is not None and decode_statement({STATEMENT: encoded}) == statement
    kept = encode_statement(StatementRecord("DELETE FROM t", "paimon", "db"))
    assert kept is not None and "values" not in kept and not STATEMENT_VALUES.get({STATEMENT_VALUES.key: "false"})


class NoSpark:
    """A Spark session without temporary views."""


@pytest.mark.parametrize("by", ["session", "catalog", "statement"])
def test_values_of_parameters_are_left_out_of_what_snapshots_keep(tmp_path: Path, by: str) -> None:
    catalog = load_catalog(str(tmp_path), **{"table-lineage": "true"})
    catalog.create_database("db")
    catalog.create_table("db.t", "a STRING")
    key = STATEMENT_VALUES.key
    given = {key: "false"}
    conf = {f"spark.paimon.{key}": "false"} if by == "session" else {}
    if by == "catalog":
        catalog = load_catalog(str(tmp_path), **given)
    sql, bound = "INSERT INTO db.t VALUES (:secret)", f"INSERT INTO db.t VALUES ('{SECRET}')"
    name = TableName("db", "t")
    plain: Any = Session(load_catalog(str(tmp_path)), NoSpark(), {"secret": SECRET}, {})  # type: ignore[arg-type]
    own: Any = Session(catalog, NoSpark(), {"secret": SECRET}, conf)  # type: ignore[arg-type]
    assert SECRET not in repr(plain)

    def kept(session: Any, text: str, options: dict[str, str] | None = None) -> StatementRecord | None:
        found = with_lineage_job(session, name, sql, options=options, bound=text)
        return decode_statement({STATEMENT: found.catalog.options["lineage.statement"]})

    before = kept(plain, bound)
    assert before is not None and before.sql == bound and not before.lacks_values
    options = given if by == "statement" else None
    after = kept(own, bound, options)
    assert after is not None and after.sql == sql and after.lacks_values and SECRET not in repr(after)
    without = kept(own, sql, options)
    assert without is not None and without.sql == sql and not without.lacks_values
    with pytest.raises(InvalidInputError, match=r"recorded with lineage\.statement-values = false"):
        check_again(catalog, [(after, "db.t")])
