"""A server of REST catalogs over a folder, which fails when it is told to: what Java's own server cannot show."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlsplit

from paimon_spark.format.metadata_files.table_schema import decode, encode
from paimon_spark.metadata.definition.create import new_schema
from paimon_spark.metadata.layout import Layout
from paimon_spark.storage.local import LocalStore
from paimon_spark.types import RowType, parse_field

Reply = tuple[int, Mapping[str, Any]]
Fault = Callable[[str, str], "int | str | None"]
"""Of method and path: a status to answer with, `hang up` before or `forget` after doing it; None for none."""


class RestServer:
    """The state of a server.

    Attributes:
        calls: method and path of each call, in order.
        statistics: of the partitions of each commit, in order.
        token: which logs in.
        page: the number of names in a page.
        tokens: data tokens handed out, newest last, each with the milliseconds it lives.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.databases: set[str] = set()
        self.tables: dict[tuple[str, str], str] = {}
        self.views: dict[tuple[str, str], Any] = {}
        self.heads: dict[tuple[str, str, str], str | None] = {}
        self.calls: list[tuple[str, str]] = []
        self.statistics: list[Any] = []
        self.token, self.page, self.fault = "secret", 2, _no_fault
        self.config: dict[str, str] = {"prefix": "a b"}
        self.tokens: list[dict[str, str]] = []
        self.token_life_ms = 3_600_000
        self.url = ""
        self._one_by_one = threading.Lock()

    def options(self, **more: str) -> dict[str, str]:
        """What reaches the server."""
        return {"metastore": "rest", "uri": self.url, "warehouse": "lake", "token": "secret"} | {
            "rest.local-warehouse": str(self.folder),
            **more,
        }

    def answer(self, method: str, path: str, query: Mapping[str, str], body: Any) -> Reply:
        if path == "/v1/config":
            return (200, {"defaults": self.config, "overrides": {}}) if query.get("warehouse") == "lake" else (404, {})
        prefix, parts = path.split("/")[2], [unquote_plus(p) for p in path.split("/")[3:]]
        assert unquote_plus(prefix) == self.config["prefix"]
        with self._one_by_one:
            if parts == ["databases"]:
                return self._listed("databases", self.databases, query) if method == "GET" else self._add(body["name"])
            if parts == ["tables", "rename"]:
                return self._rename(body["source"], body["destination"])
            if parts[1] not in self.databases:
                return 404, {"resourceType": "DATABASE", "message": "no such database"}
            return self._in_database(method, parts[1], parts[2:], query, body)

    def _in_database(self, method: str, database: str, rest: list[str], query: Mapping[str, str], body: Any) -> Reply:
        if not rest:
            if method == "DELETE":
                self.databases.remove(database)
            return 200, {"name": database, "location": f"{self.folder}/{database}.db", "options": {}}
        if rest == ["register"]:
            self.tables[database, body["identifier"]["object"]] = uuid.uuid4().hex
            assert Path(body["path"].removeprefix("file://")).is_dir()
            return 200, {}
        if rest == ["functions"]:
            return self._listed("functions", {"f1", "f2", "f3"}, query)
        if rest[0] == "views":
            return self._in_views(method, database, rest[1:], query, body)
        if len(rest) == 1:
            names = {t for d, t in self.tables if d == database}
            return self._listed("tables", names, query) if method == "GET" else self._create(body)
        table, _, branch = rest[1].partition("$branch_")
        if (database, table) not in self.tables:
            return 404, {"resourceType": "TABLE", "message": "no such table"}
        return self._in_table(method, (database, table, branch or "main"), rest[2:], body)

    def _in_views(self, method: str, database: str, rest: list[str], query: Mapping[str, str], body: Any) -> Reply:
        if not rest and method == "GET":
            return self._listed("views", {v for d, v in self.views if d == database}, query)
        name = database, rest[0] if rest else body["identifier"]["object"]
        if method == "POST":
            is_new = name not in self.views
            self.views.setdefault(name, body["schema"])
            return (200, {}) if is_new else (409, {"resourceType": "VIEW", "message": "there is one"})
        if name not in self.views:
            return 404, {"resourceType": "VIEW", "message": "no such view"}
        return 200, {"name": name[1], "schema": self.views.pop(name) if method == "DELETE" else self.views[name]}

    def _in_table(self, method: str, name: tuple[str, str, str], rest: list[str], body: Any) -> Reply:
        database, table, branch = name
        root = f"{self.folder}/{database}.db/{table}"
        layout = Layout(root).with_branch(branch)
        if rest == ["commit"]:
            assert body["tableId"] == self.tables[database, table]
            if body["baseSnapshotUuid"] != self.heads.get(name):
                return 200, {"success": False}
            snapshot = body["snapshot"]
            self.statistics.append(body["statistics"])
            LocalStore().create_exclusive(layout.snapshot_path(snapshot["id"]), json.dumps(snapshot).encode())
            self.heads[name] = snapshot["uuid"]
            return 200, {"success": True}
        if rest == ["token"]:
            self.tokens.append({"fs.number": str(len(self.tokens))})
            return 200, {"token": self.tokens[-1], "expiresAtMillis": int(time.time() * 1000) + self.token_life_ms}
        if method == "DELETE":
            del self.tables[database, table]
            LocalStore().delete_tree(root)
            return 200, {}
        if method == "GET":
            return 200, {"id": self.tables[database, table], "name": table, "path": root, "isExternal": False}
        return 400, {"message": "no such change", "code": 400}

    def _add(self, database: str) -> Reply:
        is_new = database not in self.databases
        self.databases.add(database)
        return (200, {}) if is_new else (409, {"resourceType": "DATABASE", "message": "exists"})

    def _create(self, body: Any) -> Reply:
        name = body["identifier"]["database"], body["identifier"]["object"]
        if name in self.tables:
            return 409, {"resourceType": "TABLE", "message": "exists"}
        raw = body["schema"]
        fields = RowType(False, tuple(parse_field(f) for f in raw["fields"]))
        schema = new_schema(fields, raw["primaryKeys"], raw["partitionKeys"], raw["options"])
        path = Layout(f"{self.folder}/{name[0]}.db/{name[1]}").schema_path(0)
        LocalStore().create_exclusive(path, encode(schema))
        assert decode(LocalStore().read(path), path) == schema
        self.tables[name] = uuid.uuid4().hex
        return 200, {}

    def _rename(self, old: Any, new: Any) -> Reply:
        target = new["database"], new["object"]
        if target in self.tables:
            return 409, {"resourceType": "TABLE", "message": "exists"}
        self.tables[target] = self.tables.pop((old["database"], old["object"]))
        self.heads[(*target, "main")] = self.heads.pop((old["database"], old["object"], "main"), None)
        (self.folder / f"{old['database']}.db" / old["object"]).rename(self.folder / f"{target[0]}.db" / target[1])
        return 200, {}

    def _listed(self, what: str, names: set[str], query: Mapping[str, str]) -> Reply:
        after = [n for n in sorted(names) if n > query.get("pageToken", "")]
        page = after[: self.page]
        return 200, {what: page, "nextPageToken": page[-1] if len(after) > self.page else None}


def _no_fault(method: str, path: str) -> int | str | None:
    return None


@contextmanager
def rest_server(folder: Path) -> Iterator[RestServer]:
    """A running server."""
    state = RestServer(folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            where = urlsplit(self.path)
            state.calls.append((self.command, unquote_plus(where.path)))
            fault = state.fault(self.command, where.path)
            if fault == "hang up":
                self.close_connection = True
                return
            if isinstance(fault, int):
                self._send(fault, {"message": "out of order", "code": fault})
            elif self.headers.get("Authorization") != f"Bearer {state.token}":
                self._send(401, {"message": "who are you?", "code": 401})
            else:
                query = {k: v[0] for k, v in parse_qs(where.query).items()}
                status, answer = state.answer(self.command, where.path, query, body)
                if fault == "forget":
                    self.close_connection = True
                else:
                    self._send(status, answer)

        do_POST = do_DELETE = do_GET  # noqa: N815 - names of the base class

        def _send(self, status: int, answer: Mapping[str, Any]) -> None:
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: Any) -> None:
            """Nothing: the calls are in `calls`."""

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
