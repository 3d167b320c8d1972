"""Java Paimon 2.0 in a warm JVM as a worker; same protocol as worker_pypaimon.

Reads count rows and look at no value, which is the least that a Java program does with them. Writes are given rows in
Paimon's own binary form.
"""

from __future__ import annotations

import atexit
from typing import Any

import worker_pypaimon
from worker_pypaimon import main
from write_tables import FreshTable, copy_of, upkeep

from tests.interop.java_paimon import JavaPaimon

JAVA = JavaPaimon(heap="6g", optimized=True)


UPKEEP = {"expire": ("expireSnapshots", {"retain": 1}), "orphans": ("removeOrphans", {})}
"""Commands of the JVM that expire all snapshots but one, and remove orphan files; with their arguments."""


def handle(request: dict[str, Any]) -> dict[str, Any]:
    if request["op"] in UPKEEP:
        command, arguments = UPKEEP[request["op"]]
        answer: dict[str, Any] = upkeep(request["path"], lambda copy: JAVA.call(command, path=copy, **arguments))
        return answer
    op, given = request.pop("op"), {key: value for key, value in request.items() if key not in ("keys", "options")}
    if op in ("write", "commits"):
        source = f"{request['path']}/table"
        options = {"write-only": "true", **request["options"]}
        with FreshTable(request["path"], request.get("keys", []), options) as fresh:
            return JAVA.call("bench", does=op, **{**given, "path": str(fresh.path), "source": source})
    if op == "compact":
        with copy_of(request["path"]) as copy:
            return JAVA.call(
                "bench", does="compact", **{**given, "path": str(copy), "options": {"write-only": "false"}}
            )
    return JAVA.call("bench", does=op, **given, options=request.get("options", {}))


if __name__ == "__main__":
    atexit.register(JAVA.close)
    worker_pypaimon.handle = handle
    main()
