"""RestClient: calls of the API of Paimon's REST catalogs.

Source: Java `rest/RESTApi`, `rest/ResourcePaths`, `rest/HttpClient`; `rest-catalog-open-api.yaml` of Paimon.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from paimon_spark.catalogs.rest_login import Login, Request
from paimon_spark.errors import CatalogError
from paimon_spark.format.json_files import find_object
from paimon_spark.options.catalog import CatalogOptions
from paimon_spark.text import logger, reason

_LOG = logger(__name__)
_TIMEOUT_S: Final = (20, 180)
"""To connect, and to be answered."""
_RETRIES: Final = 4
_BACKOFF_S: Final = 0.25
_BUSY: Final = (429, 503)
"""Answers of a server that did not do what it was asked."""
_NO_PARAMETERS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a call: its status is of success, 404 (there is no such thing) or 409 (there is one already)."""

    status: int
    body: Mapping[str, Any]

    @property
    def is_missing(self) -> bool:
        return self.status == 404

    @property
    def is_there_already(self) -> bool:
        return self.status == 409


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

    def get(self, *path: str, **parameters: str) -> Answer:
        """GET what is at a path, whose parts are names."""
        return self._call("GET", self._path(path), parameters, "")

    def pages(self, name: str, *path: str) -> list[Any] | None:
        """All of a list that comes in pages; `name` is what the answer calls it. None where the path is of nothing."""
        found: list[Any] = []
        token = ""
        while True:
            answer = self.get(*path, **({"pageToken": token} if token else {}))
            if answer.is_missing:
                return None
            page = answer.body.get(name) or []
            found += page
            token = answer.body.get("nextPageToken") or ""
            if not page or not token:
                return found

    def post(self, *path: str, body: Mapping[str, Any]) -> Answer:
        """POST JSON to a path."""
        return self._call("POST", self._path(path), _NO_PARAMETERS, json.dumps(body, ensure_ascii=False))

    def commit(self, *path: str, body: Mapping[str, Any]) -> Answer:
        """POST JSON to a path, once: after an error, whoever asks must find out what happened."""
        return self._call("COMMIT", self._path(path), _NO_PARAMETERS, json.dumps(body, ensure_ascii=False))

    def delete(self, *path: str) -> Answer:
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

    def _call(self, verb: str, path: str, parameters: Mapping[str, str], body: str) -> Answer:
        connection = self._connection
        method = "POST" if verb == "COMMIT" else verb
        headers = {**self.options.headers, **connection.login.headers(Request(method, path, parameters, body))}
        if body:
            headers["Content-Type"] = "application/json"
        try:
            response = connection.sessions[verb].request(
                method,
                self.address + path + (f"?{urlencode(parameters)}" if parameters else ""),
                data=body.encode() if body else None,
                headers=headers,
                timeout=_TIMEOUT_S,
            )
        except Exception as e:  # of requests and what it stands on
            raise CatalogError(
                f"the REST catalog {self.address} cannot be reached: {reason(e)}; check the option uri", retryable=True
            ) from e
        _LOG.debug("%s %s: %d", method, path, response.status_code)
        return self._answer(response, f"{method} {path}")

    def _answer(self, response: Any, call: str) -> Answer:
        status = response.status_code
        body = find_object(response.text, lambda found: found) or {}
        if status < 300 or status in (404, 409):
            return Answer(status, body)
        if status == 401:
            raise CatalogError(
                f"the REST catalog {self.address} refuses the login: the token has expired, or is another's; check the "
                "options token.provider and token"
            )
        said = str(body.get("message") or "").strip().partition("\n")[0]
        raise CatalogError(
            f"the REST catalog {self.address} answered {call} with status {status}{f': {said}' if said else ''}",
            retryable=status >= 500 and status != 501,
        )


_CONNECTIONS: Final[dict[tuple[int, str, str], _Connection]] = {}
"""By process, warehouse and options."""


class _Connection:
    """What a process keeps of a server: connections, the login, and what the server says of its clients."""

    def __init__(self, options: CatalogOptions) -> None:
        try:
            import requests
            from requests.adapters import HTTPAdapter
            from urllib3.util import Retry
        except ImportError as e:
            raise CatalogError("REST catalogs need the package requests: install paimon-spark[rest]") from e
        self.login = Login(options)
        self._config: Mapping[str, str] | None = None

        def retry(read: int | None, answers: Sequence[int], *methods: str) -> Retry:
            return Retry(
                _RETRIES,
                connect=_RETRIES,
                read=read,
                other=0,
                backoff_factor=_BACKOFF_S,
                status_forcelist=answers,
                allowed_methods=methods,
                raise_on_status=False,
            )

        retries = {
            "GET": retry(None, (*_BUSY, 500, 502, 504), "GET"),
            "POST": retry(0, _BUSY, "POST"),
            "DELETE": retry(0, _BUSY, "DELETE"),
            "COMMIT": retry(0, (), "POST"),
        }
        self.sessions = {verb: requests.Session() for verb in retries}
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
            self._config = {**(answer.body.get("defaults") or {}), **(answer.body.get("overrides") or {})}
        return self._config
