"""Tables written by Java on demand, with what Java reads from them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.harness.rows import without_kind
from tests.interop.java_paimon import JavaPaimon, JavaPaimonError
from tests.interop.table_script import Read, TableScript


@dataclass(frozen=True, slots=True)
class JavaTable:
    """A table as Java left it."""

    path: str
    versions: dict[str, dict[str, Any]]
    """Label of every head, snapshot and tag, of main and of each branch -> {"rows", "schema"} or {"error"}."""


class JavaTables:
    """Writes each script once, however many tests ask for it."""

    def __init__(self, java: JavaPaimon, root: Path) -> None:
        """Tables go below `root`."""
        self._java, self._root = java, root
        self._written: dict[str, JavaTable | str] = {}

    def get(self, script: TableScript) -> JavaTable:
        """The table of the script; skips the test where the script says that Java may fail, and it does.

        Raises:
            JavaPaimonError: Java could not write it.
        """
        if script.name not in self._written:
            self._written[script.name] = self._write(script)
        written = self._written[script.name]
        if isinstance(written, JavaTable):
            return written
        if script.java_may_fail is not None:
            pytest.skip(f"{script.java_may_fail}: {written}")
        raise JavaPaimonError(f"{script.name}: {written}")

    def read(self, script: TableScript, read: Read) -> dict[str, Any]:
        """What Java reads: {"rows", "schema"} or {"error"}."""
        [reply] = self._java.run([read.call(self.get(script).path)])
        if read.reads_changes and "rows" in reply:
            reply["rows"] = without_kind(reply["rows"])
        return reply

    def _write(self, script: TableScript) -> JavaTable | str:
        path = script.path(self._root)
        calls = script.calls(self._root)
        *replies, versions = self._java.run([*calls, {"op": "versions", "path": path}])
        for call, reply in zip(calls, replies, strict=True):
            if "error" in reply and not call.get("mayFail"):
                return f"{call['op']}: {reply['error']}"
        return str(versions["error"]) if "error" in versions else JavaTable(path, versions["versions"])
