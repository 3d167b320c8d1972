"""REST catalogs: pages, logins, tokens, and servers that fail in the middle. Java's own server is in tests/interop."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.catalogs import rest_client, rest_login
from paimon_spark.catalogs.open import open_catalog
from paimon_spark.catalogs.rest_login import AccessKey, Login, SignedRequest, signed, signed_by_open_api
from paimon_spark.catalogs.rest_store import changes_to_json
from paimon_spark.errors import (
    CatalogError,
    DatabaseAlreadyExistsError,
    DatabaseNotFoundError,
    InvalidOptionError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from paimon_spark.metadata.definition.schema_changes import (
    AddColumn,
    After,
    DropPrimaryKey,
    First,
    Last,
    MoveColumn,
    UpdateType,
)
from paimon_spark.metadata.external_files import allowed_roots
from paimon_spark.options.catalog import parse_catalog_options
from paimon_spark.types import BIGINT, INT
from tests.harness.clock import StandingClock
from tests.harness.real_tables import read
from tests.harness.rest_server import RestServer, rest_server
from tests.harness.views import check_views

DEFAULT = "__DEFAULT_PARTITION__"
ROWS = pa.table({"a": pa.array([1, 2], pa.int32())})


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestServer]:
    monkeypatch.setattr(rest_client, "_BACKOFF_S", 0.01)
    with rest_server(tmp_path) as running:
        yield running


@pytest.fixture
def catalog(server: RestServer) -> Catalog:
    made = paimon_spark.load_catalog(**server.options())
    made.create_database("db")
    return made


class TestNames:
    @pytest.mark.ci
    def test_lists_come_in_pages(self, server: RestServer, catalog: Catalog) -> None:
        for name in ("t1", "t2", "t3", "t4", "t5"):
            catalog.create_table(f"db.{name}", "a INT")
        assert catalog.list_tables("db") == ["t1", "t2", "t3", "t4", "t5"]
        assert catalog.list_databases() == ["db"]
        assert server.calls.count(("GET", "/v1/a b/databases/db/tables")) == 3

    @pytest.mark.ci
    def test_views_and_functions(self, catalog: Catalog) -> None:
        assert catalog.list_functions("db") == ["f1", "f2", "f3"]
        check_views(catalog)

    @pytest.mark.ci
    def test_what_is_there_already(self, catalog: Catalog) -> None:
        catalog.create_table("db.t", "a INT")
        with pytest.raises(DatabaseAlreadyExistsError):
            catalog.create_database("db")
        catalog.create_database("db", ignore_if_exists=True)
        with pytest.raises(TableAlreadyExistsError):
            catalog.create_table("db.t", "a INT")
        catalog.create_table("db.t", "b INT", ignore_if_exists=True)
        catalog.create_table("db.u", "a INT")
        with pytest.raises(TableAlreadyExistsError, match="has such a table"):
            catalog.rename_table("db.t", "db.u")

    @pytest.mark.ci
    def test_what_is_missing(self, catalog: Catalog) -> None:
        with pytest.raises(TableNotFoundError, match="has no table 't'"):
            catalog.table("db.t")
        with pytest.raises(DatabaseNotFoundError):
            catalog.create_table("nowhere.t", "a INT")
        with pytest.raises(DatabaseNotFoundError):
            catalog.list_tables("nowhere")
        with pytest.raises(TableNotFoundError):
            catalog.rename_table("db.t", "db.u")
        with pytest.raises(TableNotFoundError):
            catalog.register_table("db.t")

    def test_a_whole_life(self, server: RestServer, catalog: Catalog, tmp_path: Path) -> None:
        catalog.create_table("db.t", "a INT").write(ROWS)
        catalog.rename_table("db.t", "db.u")
        assert read(catalog.table("db.u"), "a") == [1, 2]
        catalog.table("db.u").write(ROWS)
        assert read(catalog.table("db.u"), "a") == [1, 1, 2, 2]
        catalog.drop_table("db.u")
        assert catalog.list_tables("db") == [] and not (tmp_path / "db.db" / "u").exists()
        catalog.drop_database("db")
        assert server.databases == set()

    def test_files_that_the_server_does_not_know(self, server: RestServer, catalog: Catalog) -> None:
        catalog.create_table("db.t", "a INT").write(ROWS)
        server.tables.clear()
        with pytest.raises(TableNotFoundError, match="list it with catalog"):
            catalog.table("db.t")
        catalog.register_table("db.t")
        assert read(catalog.table("db.t"), "a") == [1, 2]


class TestCommits:
    def test_the_server_is_told_what_changes_in_each_partition(self, server: RestServer, catalog: Catalog) -> None:
        table = catalog.create_table("db.t", "a INT, d DATE, f STRING", partition_keys=["d", "f"])
        day = pa.array([20000, None, 20000], pa.int32()).cast(pa.date32())
        start_ms = int(time.time() * 1000)
        table.write(pa.table({"a": pa.array([1, 2, 3], pa.int32()), "d": day, "f": ["x/y", " ", "x/y"]}))
        made = {tuple(one["spec"].items()): one for one in server.statistics[-1]}
        first = made[("d", "20000"), ("f", "x/y")]
        assert set(made) == {tuple(first["spec"].items()), (("d", DEFAULT), ("f", DEFAULT))}
        assert (first["recordCount"], first["fileCount"], first["totalBuckets"]) == (2, 1, -1)
        assert first["fileSizeInBytes"] > 0
        assert start_ms <= first["lastFileCreationTime"] <= time.time() * 1000
        table.delete("a = 1")
        (changed,) = server.statistics[-1]
        assert (changed["spec"], changed["recordCount"], changed["fileCount"]) == (first["spec"], -1, 0)
        table.delete("a = 3")
        (changed,) = server.statistics[-1]
        assert (changed["spec"], changed["recordCount"], changed["fileCount"]) == (first["spec"], -1, -1)

    def test_tables_without_partitions_have_one(self, server: RestServer, catalog: Catalog) -> None:
        table = catalog.create_table("db.t", "a INT")
        table.write(ROWS)
        assert [(one["spec"], one["recordCount"]) for one in server.statistics[-1]] == [({}, 2)]
        table.write(ROWS)
        assert table.compact_manifest() is not None
        assert server.statistics[-1] == [], "no file came or went"

    def test_writers_at_once(self, server: RestServer, catalog: Catalog) -> None:
        catalog.create_table("db.t", "a INT")

        def write(number: int) -> None:
            table = catalog.table("db.t")
            for i in range(5):
                table.write(pa.table({"a": pa.array([number * 10 + i], pa.int32())}))

        writers = [threading.Thread(target=write, args=(n,)) for n in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert read(catalog.table("db.t"), "a") == sorted(n * 10 + i for n in range(4) for i in range(5))

    @pytest.mark.parametrize("fault", ["forget", "hang up", 500, 503])
    def test_an_answer_that_is_lost(self, server: RestServer, catalog: Catalog, fault: int | str) -> None:
        table = catalog.create_table("db.t", "a INT")
        times = count()

        def once(method: str, path: str) -> int | str | None:
            return fault if path.endswith("/commit") and next(times) == 0 else None

        server.fault = once
        table.write(ROWS)
        assert read(catalog.table("db.t"), "a") == [1, 2]
        assert [s.id for s in catalog.table("db.t").snapshots()] == [1]

    def test_a_server_that_keeps_failing(self, server: RestServer, catalog: Catalog) -> None:
        table = catalog.create_table("db.t", "a INT", options={"commit.max-retries": "2"})
        server.fault = lambda method, path: 500 if path.endswith("/commit") else None
        with pytest.raises(paimon_spark.CommitError, match="snapshot 1"):
            table.write(ROWS)
        server.fault = lambda method, path: None
        table.write(ROWS)
        assert read(catalog.table("db.t"), "a") == [1, 2]

    def test_a_table_made_anew(self, server: RestServer, catalog: Catalog) -> None:
        table = catalog.create_table("db.t", "a INT")
        catalog.drop_table("db.t")
        with pytest.raises(paimon_spark.PaimonError, match="nothing exists there"):
            table.write(ROWS)

    def test_a_snapshot_made_without_the_server(self, server: RestServer, catalog: Catalog, tmp_path: Path) -> None:
        table = catalog.create_table("db.t", "a INT")
        paimon_spark.load_table(str(tmp_path / "db.db" / "t")).write(ROWS)
        with pytest.raises(CatalogError, match="without the server"):
            table.write(ROWS)
        assert read(catalog.table("db.t"), "a") == [1, 2]

    def test_what_only_files_could_do(self, catalog: Catalog) -> None:
        table = catalog.create_table("db.t", "a INT")
        for _ in range(2):
            table.write(ROWS)
        for change in (lambda: table.rename_branch("a", "b"), lambda: table.rollback_to(1)):
            with pytest.raises(UnsupportedFeatureError, match="REST catalog"):
                change()
        table.rollback_to_as_latest(1)
        assert read(catalog.table("db.t"), "a") == [1, 2]


class TestServers:
    @pytest.mark.ci
    def test_no_server(self) -> None:
        with pytest.raises(CatalogError, match=r"http://127\.0\.0\.1:1 cannot be reached.*check the option uri"):
            paimon_spark.load_catalog("lake", metastore="rest", uri="127.0.0.1:1").list_databases()

    def test_no_such_warehouse(self, server: RestServer) -> None:
        with pytest.raises(CatalogError, match="has no REST catalog 'sea'"):
            paimon_spark.load_catalog(**server.options(warehouse="sea")).list_databases()

    def test_a_token_that_has_expired(self, server: RestServer, catalog: Catalog) -> None:
        server.token = "another"
        with pytest.raises(CatalogError, match="refuses the login: the token has expired"):
            catalog.list_databases()

    def test_no_permission(self, server: RestServer, catalog: Catalog) -> None:
        server.fault = lambda method, path: 403
        with pytest.raises(CatalogError, match="status 403: out of order"):
            catalog.list_tables("db")

    @pytest.mark.parametrize("fault", ["hang up", 500, 429])
    def test_a_question_is_asked_again(self, server: RestServer, catalog: Catalog, fault: int | str) -> None:
        times = count()
        server.fault = lambda method, path: fault if next(times) < 2 else None
        assert catalog.list_databases() == ["db"]

    def test_a_change_is_asked_again_only_if_it_was_not_made(self, server: RestServer, catalog: Catalog) -> None:
        times = count()
        server.fault = lambda method, path: 503 if next(times) < 2 else None
        catalog.create_database("other")
        server.fault = lambda method, path: 500
        server.calls.clear()
        with pytest.raises(CatalogError, match=r"answered POST .* with status 500"):
            catalog.create_database("third")
        assert len(server.calls) == 1

    def test_it_says_how_to_reach_the_store(self, server: RestServer) -> None:
        server.config["fs.some"] = "thing"
        catalog = paimon_spark.load_catalog(**server.options())
        catalog.create_database("db")
        catalog.create_table("db.t", "a INT")
        place = open_catalog(catalog.warehouse, catalog.options).place("db", "t")
        assert getattr(place.store, "options", {})["fs.some"] == "thing"

    def test_it_cannot_allow_external_paths(self, server: RestServer) -> None:
        server.config["catalog.allowed-external-paths"] = "/"
        catalog = paimon_spark.load_catalog(**server.options())
        catalog.create_database("db")
        store = catalog.create_table("db.t", "a INT").handle.store
        assert allowed_roots(store) is None
        mine = paimon_spark.load_catalog(**server.options(), **{"catalog.allowed-external-paths": "/ext"})
        assert allowed_roots(mine.table("db.t").handle.store) == ("/ext",)

    @pytest.mark.ci
    def test_handed_to_other_processes(self, catalog: Catalog) -> None:
        catalog.create_table("db.t", "a INT").write(ROWS)
        place = open_catalog(catalog.warehouse, catalog.options).place("db", "t")
        store = pickle.loads(pickle.dumps(place.store))
        assert [i.name for i in store.list(f"{place.root}/schema")] == ["schema-0"]


class TestTokens:
    @pytest.mark.ci
    def test_of_a_table_are_asked_for_again_before_they_end(self, server: RestServer, clock: StandingClock) -> None:
        server.config["data-token.enabled"] = "true"
        server.token_life_ms = 2_000
        catalog = paimon_spark.load_catalog(**server.options())
        catalog.create_database("db")
        table = catalog.create_table("db.t", "a INT")
        table.write(ROWS)
        assert len(server.tokens) == 1
        clock.advance(1_200)
        table.write(ROWS)
        assert len(server.tokens) == 2
        server.token_life_ms = 7_200_000
        clock.advance(1_200)
        assert read(catalog.table("db.t"), "a") == [1, 1, 2, 2]
        store: Any = open_catalog(catalog.warehouse, catalog.options).place("db", "t").store
        assert store._files.options["fs.number"] == str(len(server.tokens) - 1)

    def test_none_where_they_are_not_wanted(self, server: RestServer, catalog: Catalog) -> None:
        catalog.create_table("db.t", "a INT").write(ROWS)
        assert server.tokens == []


NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
KEY = AccessKey("ak", "sk", "sts")
QUERY = {"pageToken": "a b/ü", "maxResults": ""}
PATH = "/v1/p/databases/d/tables/t%24branch_b"
BODY = '{"name":"dé"}'


class TestLogins:
    """Signatures that Java Paimon 2.0 made of the same requests."""

    @pytest.mark.parametrize(
        ("request_", "signature"),
        [
            (SignedRequest("GET", PATH, QUERY), "9047dfcb9e144f41672bcf8165b525ac852174bc9c767bc9dbee46afcf4a7e4c"),
            (
                SignedRequest("POST", PATH, QUERY, BODY),
                "6e797875280404ddb23a1ca60b9d5ce0e7c9ea3ddd304e95d65d61165f3c574f",
            ),
        ],
    )
    def test_dlf(self, request_: SignedRequest, signature: str) -> None:
        headers = signed(request_, KEY, "cn-hangzhou", NOW)
        scope = "20260102/cn-hangzhou/DlfNext/aliyun_v4_request"
        assert headers["Authorization"] == f"DLF4-HMAC-SHA256 Credential=ak/{scope},Signature={signature}"
        assert headers["x-dlf-security-token"] == "sts"

    @pytest.mark.parametrize(
        ("request_", "signature"),
        [
            (SignedRequest("GET", PATH, QUERY), "6LCD+z8Aj6jBS2buWMOt8qmJnPE="),
            (SignedRequest("POST", PATH, QUERY, BODY), "PHVmgos6qa9oXoZgWVysdHbeG6k="),
        ],
    )
    def test_open_api(self, request_: SignedRequest, signature: str) -> None:
        headers = signed_by_open_api(request_, KEY, "h:80", NOW, "n1")
        assert headers["Authorization"] == f"acs ak:{signature}"

    def login(self, **more: str) -> Login:
        options = {"metastore": "rest", "uri": "https://cn-hangzhou-vpc.dlf.example.com", "token.provider": "dlf"}
        return Login(parse_catalog_options({**options, **more}))

    def test_the_endpoint_chooses_the_signature(self) -> None:
        keys = {"dlf.access-key-id": "ak", "dlf.access-key-secret": "sk"}
        ask = SignedRequest("GET", PATH, QUERY)
        assert "/cn-hangzhou/" in self.login(**keys).headers(ask)["Authorization"]
        assert "/eu-west/" in self.login(**keys, **{"dlf.region": "eu-west"}).headers(ask)["Authorization"]
        other = self.login(**keys, uri="https://dlfnext.cn-hangzhou.example.com").headers(ask)
        assert other["Authorization"].startswith("acs ak:")
        with pytest.raises(InvalidOptionError, match="names no region"):
            self.login(**keys, uri="http://1.2.3.4").headers(ask)

    def test_a_file_of_keys_is_read_anew(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "key"
        login = self.login(**{"dlf.token-path": str(path)})
        ask = SignedRequest("GET", PATH, QUERY)
        with pytest.raises(CatalogError, match="no access key of DLF can be read from"):
            login.headers(ask)
        text = '{{"AccessKeyId": "{}", "AccessKeySecret": "s", "Expiration": "2026-01-01T00:00:00Z"}}'
        path.write_text(text.format("one"))
        monkeypatch.setattr(time, "time", lambda: datetime(2025, 12, 31, 12, tzinfo=UTC).timestamp())
        assert "Credential=one/" in login.headers(ask)["Authorization"]
        path.write_text(text.format("two"))
        assert "Credential=one/" in login.headers(ask)["Authorization"]
        monkeypatch.setattr(time, "time", lambda: datetime(2025, 12, 31, 23, 30, tzinfo=UTC).timestamp())
        assert "Credential=two/" in login.headers(ask)["Authorization"]

    def test_the_role_of_a_machine(self, monkeypatch: pytest.MonkeyPatch) -> None:
        answers = {
            "http://here/": "role",
            "http://here/role": '{"AccessKeyId": "a", "AccessKeySecret": "s", "SecurityToken": "t"}',
        }
        monkeypatch.setattr(rest_login, "_fetched", lambda url: answers[url])
        login = self.login(**{"dlf.token-loader": "ecs", "dlf.token-ecs-metadata-url": "http://here/"})
        assert login.headers(SignedRequest("GET", PATH, QUERY))["x-dlf-security-token"] == "t"

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"metastore": "rest"}, "needs the option uri"),
            ({"metastore": "rest", "uri": "u", "token.provider": "dlf"}, "access key"),
        ],
    )
    def test_options_that_are_missing(self, options: dict[str, str], says: str) -> None:
        with pytest.raises(InvalidOptionError, match=says):
            parse_catalog_options(options)


class TestChanges:
    def test_as_the_api_has_them(self) -> None:
        assert changes_to_json(AddColumn(("b",), INT, "c", "1", After("a"))) == [
            {
                "action": "addColumn",
                "fieldNames": ["b"],
                "dataType": "INT",
                "comment": "c",
                "move": {"fieldName": "b", "referenceFieldName": "a", "type": "AFTER"},
            },
            {"action": "updateColumnDefaultValue", "fieldNames": ["b"], "newDefaultValue": "1"},
        ]
        assert changes_to_json(UpdateType(("r", "x"), BIGINT, keep_nullability=True)) == [
            {"action": "updateColumnType", "fieldNames": ["r", "x"], "newDataType": "BIGINT", "keepNullability": True}
        ]
        assert [changes_to_json(MoveColumn(("a",), p))[0]["move"]["type"] for p in (First(), Last())] == [
            "FIRST",
            "LAST",
        ]
        assert changes_to_json(DropPrimaryKey()) == [{"action": "dropPrimaryKey"}]
        with pytest.raises(UnsupportedFeatureError, match=r"position of r\.x"):
            changes_to_json(MoveColumn(("r", "x"), First()))
