"""Answers of a REST catalog: bodies of bounded size, and their values by type.

Source: `rest-catalog-open-api.yaml` of Paimon. What a server answers is not trusted: all that is not of the type that
the API states is a CatalogError.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from paimon_spark.errors import CatalogError
from paimon_spark.format.json_files import find_object
from paimon_spark.text import counted, safe

MOST_BYTES: Final = 64 << 20
"""Of the body of an answer."""
MOST_SECONDS: Final = 600.0
"""Until a body has come."""
_CHUNK_BYTES: Final = 64 << 10
_MOST_OF_MESSAGE: Final = 300
_FAR_END: Final = 2**62
"""Numbers are below it, as moments in milliseconds are."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to a call: success, 404 (not found) or 409 (already exists).

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
