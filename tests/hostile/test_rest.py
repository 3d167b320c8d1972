"""A server of a REST catalog that lies reaches nothing of its client: no login, no files, no memory, no raw errors."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.catalogs import rest_client
from paimon_spark.catalogs.open import open_catalog
from paimon_spark.catalogs.rest import RestCatalog
from paimon_spark.catalogs.rest_login import Login, SignedRequest
from paimon_spark.errors import CatalogError, InvalidOptionError, PaimonError, UnsupportedFeatureError
from paimon_spark.options.catalog import parse_catalog_options
from paimon_spark.storage.urls import open_store
from tests.harness.real_tables import a_catalog

TOKEN = "hush-5f1e"
Reply = tuple[int, Mapping[str, str], bytes]
Answers = Callable[[str, str], "Reply | None"]
"""Of method and path; None: as an honest server."""


class Liar:
    """A server and what it was sent: method, path, headers in lower case, and body."""

    def __init__(self) -> None:
        self.url = ""
        self.calls: list[tuple[str, str, dict[str, str], bytes]] = []
        self.answers: Answers = lambda method, path: None

    def options(self, **more: str) -> dict[str, str]:
        return {
            "metastore": "rest", "uri": self.url, "warehouse": "lake", "token": TOKEN, "header.X-Own": TOKEN, **more,
        }  # fmt: skip

    def catalog(self, **more: str) -> Catalog:
        return paimon_spark.load_catalog(**self.options(**more))

    def opened(self, **more: str) -> RestCatalog:
        found = open_catalog("lake", {k: v for k, v in self.options(**more).items() if k != "warehouse"})
        assert isinstance(found, RestCatalog)
        return found

    def says(self, path: str, body: Any, status: int = 200) -> None:
        """Answer calls whose path ends so."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.answers = lambda method, asked: (status, {}, data) if asked.partition("?")[0].endswith(path) else None


def honest(path: str) -> Reply:
    bodies: dict[str, Any] = {"/v1/config": {}, "/databases": {"databases": ["db"]}}
    body = bodies.get(path.partition("?")[0].replace("/v1/databases", "/databases").removeprefix("/v1/p"), {})
    return 200, {}, json.dumps(body).encode()


@contextmanager
def lying() -> Iterator[Liar]:
    state = Liar()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            headers = {k.lower(): v for k, v in self.headers.items()}
            state.calls.append((self.command, self.path, headers, self.rfile.read(size)))
            status, more, body = state.answers(self.command, self.path) or honest(self.path)
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            if "Transfer-Encoding" not in more:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                if "Transfer-Encoding" in more:
                    while True:  # until the client goes
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(body), body))
                self.wfile.write(body)
            except OSError:
                self.close_connection = True

        do_POST = do_DELETE = do_GET  # noqa: N815 - names of the base class

        def log_message(self, *arguments: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_client, "_BACKOFF_S", 0.001)
    monkeypatch.setattr(rest_client, "_LONGEST_WAIT_S", 0.01)


@pytest.fixture
def server() -> Iterator[Liar]:
    with lying() as running:
        yield running


@pytest.fixture
def other() -> Iterator[Liar]:
    with lying() as running:
        yield running


def digest(folder: Path) -> str:
    found = [(str(p), p.read_bytes() if p.is_file() else b"") for p in sorted(folder.rglob("*"))]
    return hashlib.sha256(repr(found).encode()).hexdigest()


class TestRedirects:
    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_none_to_another_host_is_followed(self, server: Liar, other: Liar, status: int) -> None:
        server.answers = lambda method, path: (status, {"Location": f"{other.url}{path}"}, b"")
        catalog = server.catalog()
        for act in (catalog.list_databases, lambda: catalog.create_database("x"), lambda: catalog.list_tables("db")):
            with pytest.raises(CatalogError, match="which is not followed") as e:
                act()
            assert TOKEN not in str(e.value)
        assert other.calls == []

    @pytest.mark.parametrize("status", [307, 308])
    @pytest.mark.parametrize(
        "place", ["https://127.0.0.1:{port}/v1/databases", "//127.0.0.1:1/v1/databases", "http://[/"]
    )
    def test_nor_to_another_scheme_or_port(self, server: Liar, status: int, place: str) -> None:
        catalog = server.catalog()
        assert catalog.list_databases() == ["db"]
        server.answers = lambda m, p: (status, {"Location": place.format(port=server.url.rpartition(":")[2])}, b"")
        for act in (catalog.list_databases, lambda: catalog.create_database("x")):
            with pytest.raises(CatalogError, match="which is not followed"):
                act()

    def test_the_same_server_may_redirect(self, server: Liar) -> None:
        server.answers = lambda method, path: (
            (307, {"Location": path.replace("/v1/databases", "/v1/p/databases")}, b"") if "/p/" not in path else None
        )
        catalog = server.catalog()
        server.answers, redirecting = lambda m, p: None, server.answers
        catalog.list_databases()
        server.answers = redirecting
        catalog.create_database("x")
        method, path, headers, body = server.calls[-1]
        assert (method, path, headers["authorization"]) == ("POST", "/v1/p/databases", f"Bearer {TOKEN}")
        assert json.loads(body)["name"] == "x" and catalog.list_databases() == ["db"]

    @pytest.mark.parametrize("elsewhere", [False, True])
    def test_bodies_of_redirects_are_not_read(self, server: Liar, elsewhere: bool) -> None:
        place = "https://other/" if elsewhere else "/v1/other"
        server.answers = lambda m, p: (302, {"Location": place, "Transfer-Encoding": "chunked"}, b" " * 65536)
        with pytest.raises(CatalogError, match="redirect"):
            server.catalog().list_databases()

    def test_redirects_end(self, server: Liar) -> None:
        server.answers = lambda method, path: (302, {"Location": path}, b"")
        with pytest.raises(CatalogError, match="redirected more than"):
            server.catalog().list_databases()
        assert len(server.calls) == 6

    def test_what_is_written_is_not_written_elsewhere_on_the_server(self, server: Liar) -> None:
        catalog = server.catalog()
        catalog.list_databases()
        server.answers = lambda method, path: (302, {"Location": "/v1/other"}, b"")
        with pytest.raises(CatalogError, match="which is not followed"):
            catalog.create_database("x")


class TestSizes:
    def test_pages_end(self, server: Liar, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(rest_client, "_MOST_PAGES", 20)
        server.answers = lambda method, path: (
            (200, {}, json.dumps({"databases": ["a"], "nextPageToken": str(len(server.calls))}).encode())
            if "databases" in path
            else None
        )
        with pytest.raises(CatalogError, match="without end: 20 names"):
            server.catalog().list_databases()
        assert len(server.calls) == 21

    def test_the_same_page_again(self, server: Liar) -> None:
        server.says("databases", {"databases": ["a"], "nextPageToken": "a"})
        with pytest.raises(CatalogError, match="the same page is next"):
            server.catalog().list_databases()
        assert len(server.calls) == 3

    @pytest.mark.parametrize("status", [200, 404, 500, 503])
    def test_answers_end(self, server: Liar, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(rest_client, "MOST_BYTES", 1 << 20)
        monkeypatch.setattr(rest_client, "_RETRIES", 1)
        server.answers = lambda method, path: (status, {"Transfer-Encoding": "chunked"}, b" " * 65536)
        with pytest.raises(CatalogError, match="more than 1,048,576 bytes"):
            server.catalog().list_databases()

    def test_a_large_answer_is_not_read_whole(self, server: Liar, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(rest_client, "MOST_BYTES", 1 << 20)
        server.says("databases", {"databases": ["a" * (2 << 20)]})
        with pytest.raises(CatalogError, match="more than"):
            server.catalog().list_databases()

    def test_a_slow_answer_ends(self, server: Liar, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(rest_client, "MOST_SECONDS", -1.0)
        with pytest.raises(CatalogError, match="was not answered in full"):
            server.catalog().list_databases()

    @pytest.mark.parametrize("wait", ["99999999999", "5000", "-1", "9" * 5000, "soon", "Fri, 31 Dec 9999 23:59:59 GMT"])
    def test_the_server_cannot_make_clients_wait(self, server: Liar, wait: str) -> None:
        server.answers = lambda method, path: (503, {"Retry-After": wait}, b"{}")
        with pytest.raises(CatalogError, match="status 503"):
            server.catalog().list_databases()
        assert len(server.calls) == 5


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "victim" / "db.db" / "t"
    made = a_catalog(tmp_path / "victim")
    made.create_table("db.t", "a INT")
    before = digest(tmp_path)
    yield folder
    assert digest(tmp_path) == before


FORMS = ("{}", "file:{}", "file://{}", "FILE://{}", "local://{}", "dir://{}", "./{}", "{}/../t")
ELSEWHERE = (
    "http://h/x/t", "https://h/t", "ftp://h/t", "webhdfs://h/t", "simplecache::file:///t", "s3://b", "s3://b/",
    "memory://", "generic://x/t", "github://o:r@x/t", "data:x", "", " ",
)  # fmt: skip


class TestPlaces:
    @pytest.mark.parametrize(
        "form", ["{}", "file:{}", "file://{}", "FILE://{}", "local://{}", "dir://{}", "./{}", "{}/../t"]
    )
    def test_no_files_of_this_machine(self, server: Liar, victim: Path, form: str) -> None:
        url = form.format(victim)
        server.says("tables/t", {"id": "1", "path": url, "isExternal": False})
        catalog = server.catalog()
        for act in (
            lambda: catalog.table("db.t"),
            lambda: catalog.drop_table("db.t"),
            lambda: catalog.rename_table("db.t", "db.u"),
            lambda: catalog.create_table("db.t", "a INT", ignore_if_exists=True),
            lambda: catalog.register_table("db.t"),
        ):
            with pytest.raises(CatalogError, match=r"says that table db\.t is at"):
                act()
        server.says("databases/db", {"name": "db", "location": url})
        opened = server.opened()
        _, root = opened.check_database("db")  # nothing is looked for there: the server has the names
        assert root.startswith("/rest-catalog/") and str(victim) not in opened.database_url("db")

    @pytest.mark.parametrize("url", ELSEWHERE)
    def test_nor_of_other_protocols_nor_a_whole_store(self, server: Liar, url: str) -> None:
        server.says("tables/t", {"id": "1", "path": url})
        with pytest.raises(PaimonError):
            server.catalog().table("db.t")

    @pytest.mark.parametrize("root", ["warehouse", "rest.local-warehouse"])
    def test_only_below_a_local_warehouse(self, server: Liar, victim: Path, root: str) -> None:
        server.says("tables/t", {"id": "1", "path": f"file:{victim}", "isExternal": True})
        above = victim.parent.parent
        assert server.catalog(**{root: str(above)}).table("db.t").schema.fields[0].name == "a"
        assert server.catalog(**{root: f"file://{above}"}).table("db.t").schema.fields[0].name == "a"
        for wrong in (f"{above}/other", str(victim), f"{above}/db", "/nowhere"):
            with pytest.raises(CatalogError, match=f"only {wrong} is given"):
                server.catalog(**{root: wrong}).table("db.t")
        server.says("tables/t", {"id": "1", "path": f"{above}/db.db/../../victim2", "isExternal": True})
        with pytest.raises(CatalogError, match="a folder of this machine"):
            server.catalog(**{root: str(above)}).table("db.t")

    def test_places_in_stores(self, server: Liar) -> None:
        server.says("tables/t", {"id": "1", "path": "memory://wh/db.db/t", "isExternal": True})
        assert server.opened().place("db", "t").root == "/wh/db.db/t"

    def test_options_that_name_files_of_this_machine(self, server: Liar) -> None:
        served = {"hadoop-conf-dir": "/x", "security.kerberos.login.keytab": "/x", "fs.some": "thing"}
        server.answers = lambda method, path: (
            (200, {}, json.dumps({"overrides": served}).encode())
            if "config" in path
            else (200, {}, json.dumps({"id": "1", "path": "memory://wh/t", "isExternal": True}).encode())
        )
        assert server.opened().place("db", "t").store.options == {"fs.some": "thing"}  # type: ignore[attr-defined]


NESTED = b"[" * 200_000
WRONG = [
    b"no json", b"\xff\xfe", b"[]", b"7", b'"text"', b"null", NESTED, b'{"a":' * 100_000, b"{", b'{"a": 1e999',
    b'{"a": "\\ud800"}',
]  # fmt: skip
TYPES = [None, 7, True, "text", [], {}, [1], {"a": 1}, [["a"]], 10**30, -1, "\ud800"]


class TestBodies:
    @pytest.mark.parametrize("body", WRONG)
    def test_what_is_no_object_of_json(self, server: Liar, body: bytes) -> None:
        server.answers = lambda method, path: (200, {}, body)
        with pytest.raises(CatalogError, match="no object of JSON"):
            server.catalog().list_databases()
        server.answers = lambda method, path: (200, {}, body) if "config" not in path else None
        catalog = server.catalog(token="another")
        calls = (catalog.list_databases, lambda: catalog.create_database("d"), lambda: catalog.table("db.t"))
        for act in calls:
            with pytest.raises(CatalogError, match="no object of JSON"):
                act()

    @pytest.mark.parametrize("body", WRONG)
    @pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 418, 500])
    def test_of_an_error(self, server: Liar, body: bytes, status: int) -> None:
        server.answers = lambda method, path: (status, {}, body) if "config" not in path else None
        with pytest.raises(PaimonError):
            server.catalog().list_tables("db")

    @pytest.mark.parametrize("value", TYPES)
    def test_values_of_other_types(self, server: Liar, value: Any) -> None:
        catalog, opened = server.catalog(), server.opened()
        calls: list[tuple[str, Any, Callable[[], Any]]] = [
            ("databases", {"databases": value}, catalog.list_databases),
            ("databases", {"databases": ["a"], "nextPageToken": value}, catalog.list_databases),
            ("databases/db/tables", {"tables": value}, lambda: catalog.list_tables("db")),
            ("databases/db", {"location": value}, lambda: opened.database_url("db")),
            ("tables/t", {"path": value, "id": "1"}, lambda: catalog.table("db.t")),
            ("tables/t", {"path": "memory://wh/t", "id": value}, lambda: catalog.table("db.t")),
            ("tables/t", {"path": "memory://wh/t", "id": "1", "isExternal": value}, lambda: catalog.table("db.t")),
            ("views/v", {"schema": value}, lambda: catalog.view("db.v")),
            ("views/v", {"schema": {"query": "x", "fields": value}}, lambda: catalog.view("db.v")),
            ("views/v", {"schema": {"query": "x", "fields": [], "dialects": value}}, lambda: catalog.view("db.v")),
            ("functions", {"functions": value}, lambda: catalog.list_functions("db")),
            ("config", {"defaults": value}, lambda: server.catalog(uri=server.url + "/").list_databases()),
            (
                "config",
                {"overrides": {"prefix": value}},
                lambda: server.catalog(uri=server.url + "//").list_databases(),
            ),
        ]
        for path, body, act in calls:
            server.says(path, body)
            with suppress(PaimonError):
                act()

    @pytest.mark.parametrize("value", TYPES)
    def test_of_tokens_and_commits(self, server: Liar, value: Any) -> None:
        server.says("tables/t", {"path": "memory://wh/t", "id": "1", "isExternal": False})
        store: Any = server.opened().place("db", "t").store
        for path, body, act in (
            ("token", {"token": value, "expiresAtMillis": 5}, store.server.find_token),
            ("token", {"token": {}, "expiresAtMillis": value}, store.server.find_token),
            ("commit", {"success": value}, lambda: store.server.commit("main", None, b"{}", [])),
        ):
            server.says(path, body)
            with suppress(PaimonError):
                found = act()
                assert found is False or (value is True and found is True) or isinstance(found, tuple)

    def test_a_commit_whose_answer_cannot_be_read_is_in_doubt(self, server: Liar) -> None:
        server.says("tables/t", {"path": "memory://wh/t", "id": "1", "isExternal": False})
        store: Any = server.opened().place("db", "t").store
        for body in (b"no json", b'{"success": "false"}'):
            server.says("commit", body)
            with pytest.raises(CatalogError) as e:
                store.server.commit("main", None, b"{}", [])
            assert e.value.retryable

    def test_messages_of_the_server_are_shown_safely(self, server: Liar) -> None:
        said = f"token {TOKEN} is wrong\x1b[31m" + "x" * 10_000 + "\nsecond line"
        server.says("databases", {"message": said}, status=403)
        with pytest.raises(CatalogError, match="status 403: token") as e:
            server.catalog().list_databases()
        text = str(e.value)
        assert TOKEN not in text and "\x1b" not in text and "\n" not in text and len(text) < 600


class TestLogins:
    @pytest.mark.parametrize("token", [f"{TOKEN}\n", f"{TOKEN}\r\nX: y", f" {TOKEN}", f"{TOKEN}€", f"{TOKEN}\0"])
    def test_a_token_that_is_no_header_is_not_shown(self, server: Liar, token: str) -> None:
        for options in ({"header.X-Key": token}, {"token": f"{token}\n"}):
            with pytest.raises(InvalidOptionError, match="no header can have") as e:
                server.catalog(**options).list_databases()
            assert TOKEN not in f"{e.value} {e.value.__cause__} {e.value.__context__}"
        assert server.calls == []

    @pytest.mark.parametrize(
        "text", ["[]", "7", "[" * 100_000, '{"AccessKeyId": 1, "AccessKeySecret": "s"}', "{}", "x"]
    )
    def test_files_of_keys_of_another_form(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "key").write_text(text)
        options = {"metastore": "rest", "uri": "h", "token.provider": "dlf", "dlf.token-path": str(tmp_path / "key")}
        with pytest.raises(CatalogError, match="no access key of DLF"):
            Login(parse_catalog_options(options)).headers(SignedRequest("GET", "/", {}))


def test_tables_on_web_servers_are_refused_by_name() -> None:
    for url in ("http://h/wh/db.db/t", "https://h/t"):
        with pytest.raises(UnsupportedFeatureError, match="tables on a web server") as e:
            open_store(url)
        assert e.value.context["feature"] == url.partition("//")[0] + "//"
        with pytest.raises(UnsupportedFeatureError):
            paimon_spark.load_table(url)
