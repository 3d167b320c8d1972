"""The XML interface of Google Cloud Storage, in front of fake-gcs-server, which writes by the JSON interface alone.

Writes, copies and uploads in parts are put into requests of the JSON interface; everything else is passed on.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

_GENERATION = "x-goog-if-generation-match"
_COPY = "x-goog-copy-source"
_JSON = ("/storage/", "/upload/", "/download/", "/b/")
_PASSED = ("range", "content-type", "content-range", "x-upload-content-type", _GENERATION)
_KEPT = (
    "content-type",
    "location",
    "range",
    "content-range",
    "etag",
    "last-modified",
    "x-goog-generation",
    "x-goog-stored-content-length",
)


@contextmanager
def xml_front(port: int) -> Iterator[str]:
    """A server in front of the one at a port of this machine; gives its address."""
    parts: dict[str, dict[int, bytes]] = {}
    lock = Lock()

    class Front(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body of an answer go out together

        def log_message(self, *_: object) -> None: ...

        def _ask(self, method: str, path: str, body: bytes = b"", headers: Any = None) -> tuple[HTTPResponse, bytes]:
            connection = HTTPConnection("127.0.0.1", port, timeout=120)
            try:
                connection.request(method, path, body, headers or {})
                answer = connection.getresponse()
                return answer, answer.read()
            finally:
                connection.close()

        def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            if "Content-Length" not in {n.replace("_", "-") for n in headers}:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def _pass_on(self) -> None:
            headers = {k: v for k, v in self.headers.items() if k.lower() in _PASSED}
            answer, body = self._ask(self.command, self.path, self._body(), headers)
            kept = {k: v for k, v in answer.getheaders() if k.lower() in _KEPT}
            if self.command == "HEAD" and (length := answer.getheader("Content-Length")):
                kept["Content-Length"] = length
            self._answer(answer.status, body, **kept)

        do_GET = do_HEAD = do_DELETE = do_PATCH = _pass_on  # noqa: N815 - names of the base class

        def _place(self) -> tuple[str, str, dict[str, list[str]]]:
            parts = urlsplit(self.path)
            bucket, _, key = parts.path.lstrip("/").partition("/")
            return bucket, unquote(key), parse_qs(parts.query, keep_blank_values=True)

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def _put(self, bucket: str, key: str, body: bytes) -> None:
            path = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(key, safe='')}"
            if (generation := self.headers.get(_GENERATION)) is not None:
                path += f"&ifGenerationMatch={generation}"
            answer, said = self._ask("POST", path, body, {"Content-Type": "application/octet-stream"})
            if answer.status != 200:
                self._answer(answer.status, said)
                return
            made = json.loads(said)
            self._answer(200, ETag=f'"{made["etag"].strip(chr(34))}"', x_goog_generation=str(made["generation"]))

        def do_PUT(self) -> None:
            if self.path.startswith(_JSON):
                self._pass_on()
                return
            bucket, key, query = self._place()
            body = self._body()
            if "partNumber" in query:
                with lock:
                    parts[query["uploadId"][0]][int(query["partNumber"][0])] = body
                self._answer(200, ETag=f'"{query["partNumber"][0]}"')
            elif source := self.headers.get(_COPY):
                origin, _, name = unquote(source).lstrip("/").partition("/")
                path = f"/storage/v1/b/{origin}/o/{quote(name, safe='')}/rewriteTo/b/{bucket}/o/{quote(key, safe='')}"
                answer, said = self._ask("POST", path, b"{}", {"Content-Type": "application/json"})
                self._answer(answer.status, said)
            else:
                self._put(bucket, key, body)

        def do_POST(self) -> None:
            if self.path.startswith(_JSON):
                self._pass_on()
                return
            bucket, key, query = self._place()
            self._body()
            if "uploads" in query:
                upload = uuid.uuid4().hex
                with lock:
                    parts[upload] = {}
                text = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
                self._answer(200, text.encode(), Content_Type="application/xml")
                return
            with lock:
                found = parts.pop(query["uploadId"][0])
            path = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(key, safe='')}"
            whole = b"".join(found[number] for number in sorted(found))
            answer, said = self._ask("POST", path, whole, {"Content-Type": "application/octet-stream"})
            etag = json.loads(said)["etag"].strip('"') if answer.status == 200 else ""
            text = f"<CompleteMultipartUploadResult><ETag>{etag}</ETag></CompleteMultipartUploadResult>"
            self._answer(answer.status, text.encode(), Content_Type="application/xml")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Front)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60)
