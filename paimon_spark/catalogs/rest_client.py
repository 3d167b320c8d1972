"""RestClient: calls of the API of Paimon's REST catalogs, and their answers by type.

Bodies of answers have a bounded size. What a server answers is not trusted: all that is not of the type that the API
states is a CatalogError.

Source: Java `rest/RESTApi`, `rest/ResourcePaths`, `rest/HttpClient`; `rest-catalog-open-api.yaml` of Paimon.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, quote_plus, urlencode, urljoin, urlsplit

from paimon_spark.catalogs.rest_login import Login, SignedRequest
from paimon_spark.errors import CatalogError, InvalidOptionError
from paimon_spark.format.json_files import find_object
from paimon_spark.options.catalog import CatalogOptions
from paimon_spark.redaction import get_logger
from paimon_spark.storage.urls import split_url
from paimon_spark.text import counted, reason, safe

_LOG = get_logger(__name__)

_TIMEOUT_S: Final = (20, 180)
"""To connect, and to be answered."""
_RETRIES: Final = 4
_BACKOFF_S: Final = 0.25
_LONGEST_WAIT_S: Final = 60.0
"""Between two tries, whatever the server asks for."""
_DIGITS: Final = 6
_MOST_REDIRECTS: Final = 5
_ALL: Final = ("GET", "POST", "DELETE")
_REDIRECTS: Final = {301: ("GET",), 302: ("GET",), 303: ("GET",), 307: _ALL, 308: _ALL}
"""Statuses of redirects, and the methods that are sent again."""
_PORTS: Final = {"http": 80, "https": 443}
_MOST_PAGES: Final = 10_000
_MOST_NAMES: Final = 1_000_000
_SERVED: Final = frozenset(
    (
        "s3", "s3a", "s3n", "oss", "obs", "cos", "cosn", "tos", "gs", "gcs", "abfs", "abfss", "az", "adl", "wasb",
        "wasbs", "hdfs", "viewfs", "memory",
    )
)  # fmt: skip
"""Schemes of locations that a server may name: of stores that other machines reach too."""
_OF_THIS_MACHINE: Final = ("hadoop-conf-dir", "security.kerberos.login.")
_UNFIT_FOR_HEADERS: Final = re.compile(r"[^\t\x20-\x7e\xa0-\xff]|^\s|\s$")
_BUSY: Final = (429, 503)
"""Answers of a server that did not do what it was asked."""
_TRIED_AGAIN: Final[Mapping[str, tuple[int, ...]]] = {
    "GET": (*_BUSY, 500, 502, 504),
    "POST": _BUSY,
    "DELETE": _BUSY,
    "COMMIT": (),
}
"""Statuses after which a call is made again."""
_NO_PARAMETERS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True)
class RestClient:
    """Calls of one catalog of a server. Picklable; each process has connections of its own.

    All calls raise CatalogError: the server cannot be reached, refuses the login, or failed. A call that changes
    nothing is repeated after a failure, one that changes something only if it was not done; a commit is made once.

    Attributes:
        options: of the catalog; `uri` is the server.
        warehouse: the name of the catalog on the server.
    """

    options: CatalogOptions = field(repr=False)
    warehouse: str

    @property
    def address(self) -> str:
        uri = self.options.uri.rstrip("/")
        return uri if uri.startswith(("http://", "https://")) else f"http://{uri}"

    @property
    def config(self) -> Mapping[str, str]:
        """The options that the server gives its clients, over ours. Asked for once in each process."""
        return self._connection.config(self)

    def get(self, *path: str, **parameters: str) -> Response:
        """GET what is at a path, whose parts are names."""
        return self._call("GET", self._path(path), parameters, "")

    def pages(self, name: str, *path: str) -> list[str] | None:
        """Names of a paged list, under `name` in the answer; None where the list does not exist.

        Raises CatalogError: the pages do not end, too.
        """
        found: list[str] = []
        token = ""
        for _ in range(_MOST_PAGES):
            answer = self.get(*path, **({"pageToken": token} if token else {}))
            if answer.is_missing:
                return None
            page = answer.names(name)
            found += page
            before, token = token, answer.find_text("nextPageToken") or ""
            if not page or not token:
                return found
            if token == before or len(found) > _MOST_NAMES:
                break
        raise CatalogError(
            f"the REST catalog {self.address} gives pages of {name} without end: {len(found):,} names so far, and "
            f"{'the same' if token == before else 'another'} page is next"
        )

    def is_allowed_location(self, url: str) -> bool:
        """Whether the server may name a folder: of an object store or HDFS, or below `rest.local-warehouse`."""
        scheme, _, path = split_url(url)
        if scheme == "file":
            return bool(self._local_root) and _is_below(path, self._local_root)
        return scheme in _SERVED and bool(path.strip("/"))

    def checked_location(self, url: str, what: str) -> str:
        """The location of files that the server names, if it may.

        Raises CatalogError: it is on this machine and not below `rest.local-warehouse`, or of no store that other
        machines reach, or a whole store.
        """
        if self.is_allowed_location(url):
            return url
        if split_url(url)[0] == "file":
            local = self._local_root
            allowed = f"only {local} is" if local else "none is"
            raise CatalogError(
                f"the REST catalog {self.address} says that {what} is at {url}, a folder of this machine; a server may "
                f"name those below the option rest.local-warehouse, and {allowed} given"
            )
        raise CatalogError(
            f"the REST catalog {self.address} says that {what} is at {url}; a server may name folders of object stores "
            f"and HDFS only ({', '.join(sorted(_SERVED - {'memory'}))})"
        )

    @property
    def _local_root(self) -> str:
        """The folder of this machine below which the server may name files; empty for none."""
        given = self.options.rest_local_warehouse
        named = given or (self.warehouse if self.warehouse.startswith(("/", "file:")) else "")
        return os.path.abspath(split_url(named)[2]) if named else ""

    def post(self, *path: str, body: Mapping[str, Any]) -> Response:
        """POST JSON to a path."""
        return self._call("POST", self._path(path), _NO_PARAMETERS, json.dumps(body, ensure_ascii=False))

    def commit(self, *path: str, body: Mapping[str, Any]) -> Response:
        """POST JSON to a path, once: after an error, the caller must find out what happened."""
        return self._call("COMMIT", self._path(path), _NO_PARAMETERS, json.dumps(body, ensure_ascii=False))

    def delete(self, *path: str) -> Response:
        """DELETE what is at a path."""
        return self._call("DELETE", self._path(path), _NO_PARAMETERS, "")

    def _path(self, path: tuple[str, ...]) -> str:
        prefix = self.config.get("prefix")
        return "/".join(["/v1", *([quote_plus(prefix)] if prefix else []), *map(quote_plus, path)])

    @property
    def _connection(self) -> _Connection:
        key = os.getpid(), self.warehouse, json.dumps(asdict(self.options), sort_keys=True, default=str)
        found = _CONNECTIONS.get(key)
        if found is None:
            found = _CONNECTIONS[key] = _Connection(self.options)
        return found

    def _call(self, verb: str, path: str, parameters: Mapping[str, str], body: str) -> Response:
        method = "POST" if verb == "COMMIT" else verb
        source = f"{method} {path} of the REST catalog {self.address}"
        for _ in range(_MOST_REDIRECTS + 1):
            with self._tried(verb, SignedRequest(method, path, parameters, body)) as response:
                status, place = response.status_code, response.headers.get("Location")
                _LOG.debug("%s %s: %d", method, path, status)
                if status not in _REDIRECTS or not place:
                    return self._answer(response, source, in_doubt=verb == "COMMIT")
            path, parameters = self._followed(method, path, status, place)
        raise CatalogError(f"{source} was redirected more than {_MOST_REDIRECTS} times; check the option uri")

    def _tried(self, verb: str, request: SignedRequest) -> Any:
        """The response to a request, which is sent again while the server is busy."""
        for number in range(_RETRIES):
            response = self._send(verb, request)
            if response.status_code not in _TRIED_AGAIN[verb]:
                return response
            asked = response.headers.get("Retry-After", "")
            response.close()
            wait_s = int(asked) if asked.isdecimal() and len(asked) < _DIGITS else _BACKOFF_S * 2**number
            time.sleep(min(wait_s, _LONGEST_WAIT_S))
        return self._send(verb, request)

    def _send(self, verb: str, request: SignedRequest) -> Any:
        """The response to a request, whose body is still to be read. No redirect is followed."""
        connection = self._connection
        headers = {**self.options.headers, **connection.login.headers(request)}
        if request.body:
            headers["Content-Type"] = "application/json"
        for name, value in headers.items():
            if _UNFIT_FOR_HEADERS.search(value) or _UNFIT_FOR_HEADERS.search(name):
                raise InvalidOptionError(
                    f"the header {name!r} of requests to {self.address} has a blank around its value, a line "
                    "break or another character that no header can have; check the options token and header.*"
                )
        try:
            return connection.sessions[verb].request(
                request.method,
                self.address + request.path + (f"?{urlencode(request.parameters)}" if request.parameters else ""),
                data=request.body.encode() if request.body else None,
                headers=headers,
                timeout=_TIMEOUT_S,
                allow_redirects=False,
                stream=True,
            )
        except Exception as e:  # of requests and what it stands on
            raise self._unreachable(e) from e

    def _followed(self, method: str, path: str, status: int, place: str) -> tuple[str, Mapping[str, str]]:
        """Path and parameters of a redirect, which must lead to the same server: no other one gets login or body."""
        here = urlsplit(self.address)
        try:
            there = urlsplit(urljoin(f"{self.address}{path}", place))
            is_here = _origin(there) == _origin(here)
        except ValueError:  # it is no URL
            there, is_here = here, False
        below = here.path.rstrip("/")
        if not is_here or method not in _REDIRECTS[status] or not there.path.startswith(f"{below}/"):
            origin = f"{there.scheme}://{there.hostname}" if not is_here and there.hostname else "another place"
            raise CatalogError(
                f"the REST catalog {self.address} redirects {method} {path} to {safe(origin)}, which is not followed, "
                "as it would be sent the login and what is written; if that is right, make it the option uri"
            )
        return there.path.removeprefix(below), dict(parse_qsl(there.query, keep_blank_values=True))

    def _answer(self, response: Any, source: str, *, in_doubt: bool) -> Response:
        status = response.status_code
        try:
            body = decode_body(read_body(response, source, in_doubt=in_doubt))
        except CatalogError:
            raise
        except Exception as e:  # of requests and what it stands on
            raise self._unreachable(e) from e
        if status < 300 or status == 404 or (status == 409 and not source.startswith("GET ")):
            answer = Response(status, body or {}, source, in_doubt)
            if body is None and status < 300:
                raise answer.wrong("with what is no object of JSON")
            return answer
        if status == 401:
            raise CatalogError(
                f"the REST catalog {self.address} refuses the login: the token has expired, or is another's; check the "
                "options token.provider and token"
            )
        said = message_of(body or {})
        call = source.partition(" of the REST catalog ")[0]
        raise CatalogError(
            f"the REST catalog {self.address} answered {call} with status {status}"
            f"{f': {self._without_login(said)}' if said else ''}",
            retryable=status >= 500 and status != 501,
        )

    def _unreachable(self, error: Exception) -> CatalogError:
        said = self._without_login(safe(reason(error)))
        return CatalogError(
            f"the REST catalog {self.address} cannot be reached: {said}; check the option uri", retryable=True
        )

    def _without_login(self, text: str) -> str:
        """A text without what logs in, which a server may repeat in its messages."""
        own = self.options
        for secret in (own.token, own.dlf_access_key_secret, own.dlf_security_token, *own.headers.values()):
            text = text.replace(secret, "*****") if len(secret) > 3 else text
        return text


def served_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options that a server gives to reach a store, without those that name files of this machine."""
    return {key: value for key, value in options.items() if not key.lower().startswith(_OF_THIS_MACHINE)}


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    return url.scheme, url.hostname, url.port or _PORTS.get(url.scheme)


def _is_below(path: str, folder: str) -> bool:
    found = os.path.abspath(path)
    return found != folder and os.path.commonpath((found, folder)) == folder


_CONNECTIONS: Final[dict[tuple[int, str, str], _Connection]] = {}
"""By process, warehouse and options."""


class _Connection:
    """Connections, login and client settings that a process keeps for a server."""

    def __init__(self, options: CatalogOptions) -> None:
        try:
            import requests
            from requests.adapters import HTTPAdapter
            from urllib3.util import Retry
        except ImportError as e:
            raise CatalogError("REST catalogs need the package requests: install paimon-spark[rest]") from e
        self.login = Login(options)
        self._config: Mapping[str, str] | None = None

        def retry(read: int | None, *methods: str) -> Retry:
            # Not by status: urllib3 would read the whole body of an answer before it tries again.
            return Retry(
                _RETRIES,
                connect=_RETRIES,
                read=read,
                status=0,
                other=0,
                backoff_factor=_BACKOFF_S,
                allowed_methods=methods,
                respect_retry_after_header=False,
            )

        retries = {
            "GET": retry(None, "GET"),
            "POST": retry(0, "POST"),
            "DELETE": retry(0, "DELETE"),
            "COMMIT": retry(0, "POST"),
        }

        class WithoutRedirects(requests.Session):
            def get_redirect_target(self, resp: Any) -> None:
                """No target: else the whole body of a redirect would be read, though it is not followed."""

        self.sessions = {verb: WithoutRedirects() for verb in retries}
        for verb, session in self.sessions.items():
            for scheme in ("http://", "https://"):
                session.mount(scheme, HTTPAdapter(max_retries=retries[verb]))

    def config(self, client: RestClient) -> Mapping[str, str]:
        if self._config is None:
            parameters = {"warehouse": client.warehouse} if client.warehouse else {}
            answer = client._call("GET", "/v1/config", parameters, "")  # noqa: SLF001 - one class in two parts
            if answer.status >= 300:
                raise CatalogError(
                    f"{client.address} has no REST catalog {client.warehouse!r}; check the options uri and warehouse"
                )
            self._config = {**answer.options("defaults"), **answer.options("overrides")}
        return self._config


MOST_BYTES: Final = 64 << 20
"""Of the body of an answer."""
MOST_SECONDS: Final = 600.0
"""Until a body has come."""
_CHUNK_BYTES: Final = 64 << 10
_MOST_OF_MESSAGE: Final = 300
_FAR_END: Final = 2**62
"""Numbers are below it, as moments in milliseconds are."""


@dataclass(frozen=True, slots=True)
class Response:
    """Response to a call: success, 404 (not found) or 409 (already exists).

    All methods raise CatalogError: the value is missing, or of another type.

    Attributes:
        status: of HTTP.
        body: an object of JSON; empty for an answer without one.
        source: the server and the call, for messages.
        in_doubt: whether the call may have changed something that must be looked for.
    """

    status: int
    body: Mapping[str, Any]
    source: str = ""
    in_doubt: bool = False

    @property
    def is_missing(self) -> bool:
        return self.status == 404

    @property
    def is_there_already(self) -> bool:
        return self.status == 409

    @property
    def message(self) -> str:
        """The first line of what the server says of a failure; empty when it says nothing."""
        return message_of(self.body)

    def text(self, name: str) -> str:
        """A text that must be there."""
        value = self.find_text(name)
        if not value:
            raise self.wrong(f"without {name}")
        return value

    def find_text(self, name: str) -> str | None:
        value = self.body.get(name)
        if value is not None and not isinstance(value, str):
            raise self._not_a("text", name)
        return value

    def number(self, name: str) -> int:
        """A whole number that must be there."""
        value = self.body.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _FAR_END:
            raise self._not_a("whole number", name)
        return value

    def truth(self, name: str) -> bool:
        """Whether a flag is set; a missing one is not."""
        value = self.body.get(name)
        if value is not None and not isinstance(value, bool):
            raise self._not_a("true or false", name)
        return bool(value)

    def names(self, name: str) -> list[str]:
        """A list of texts; a missing one is empty."""
        found = self.body.get(name) or []
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise self._not_a("list of names", name)
        return found

    def mapping(self, name: str) -> Mapping[str, Any]:
        """An object that must be there."""
        value = self.body.get(name)
        if not isinstance(value, dict):
            raise self._not_a("object", name)
        return value

    def options(self, name: str) -> dict[str, str]:
        """An object of texts; a missing one is empty."""
        found = self.body.get(name) or {}
        if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
            raise self._not_a("object of texts", name)
        return found

    def wrong(self, what: str) -> CatalogError:
        """The error for an answer that is not as the API states."""
        return CatalogError(
            f"{self.source} was answered {what}, which is not as the API of REST catalogs has it; is the option uri "
            "the address of such a server?",
            retryable=self.in_doubt,
        )

    def _not_a(self, kind: str, name: str) -> CatalogError:
        value = self.body.get(name)
        found = "nothing" if value is None else type(value).__name__
        return self.wrong(f"with {found} as {name} instead of {kind}")


def read_body(response: Any, source: str, *, in_doubt: bool = False) -> bytes:
    """The body of a response that is read as it comes.

    Raises CatalogError: it is too long, or takes too long. Errors of the connection are those of `requests`.
    """
    ends, found, size = time.monotonic() + MOST_SECONDS, [], 0
    for chunk in response.iter_content(_CHUNK_BYTES):
        size += len(chunk)
        if size > MOST_BYTES:
            raise CatalogError(
                f"{source} was answered with more than {counted(MOST_BYTES, 'byte')}, which is too much to be an "
                "answer of a REST catalog",
                retryable=in_doubt,
            )
        if time.monotonic() > ends:
            raise CatalogError(f"{source} was not answered in full within {MOST_SECONDS:.0f} s", retryable=True)
        found.append(chunk)
    return b"".join(found)


def decode_body(data: bytes) -> Mapping[str, Any] | None:
    """Decode a body as a JSON object: empty for an empty body, None for any other content."""
    return find_object(data, dict) if data.strip() else {}


def message_of(body: Mapping[str, Any]) -> str:
    """The first line of the message of an error, as text that is safe to show."""
    found = body.get("message")
    line = found.strip().partition("\n")[0] if isinstance(found, str) else ""
    return safe(line[:_MOST_OF_MESSAGE])
