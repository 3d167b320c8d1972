"""Names of jobs and queries as parts of paths: any text becomes one file name that every store takes.

Source: own.
"""

from __future__ import annotations

import hashlib
from typing import Final
from urllib.parse import quote

_LONGEST: Final = 120
"""Bytes of a quoted name that stand for themselves; file systems allow 255, and more is put behind and before it."""
_DIGEST: Final = 32


def quoted(name: str) -> str:
    """A file name for any text, the same for the same text. Letters, digits, `-` and `_` stay as they are.

    Other characters are quoted as in URLs, dots too, so that no name is hidden, or the directory above. Long names are
    cut, and end in a digest of the whole. What a file is about stands in it: names are not read back.
    """
    text = quote(name, safe="", errors="surrogatepass").replace(".", "%2E").replace("~", "%7E")
    if text and len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST - _DIGEST - 1]}~{digest(name, _DIGEST)}"


def digest(text: str, length: int) -> str:
    """Hexadecimal digits that tell a text from others."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]
