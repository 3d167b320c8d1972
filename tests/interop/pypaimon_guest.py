"""Run by pypaimon's own interpreter: reads tables of a warehouse, writes the rows it read once more, reads again.

    python -m tests.interop.pypaimon_guest FOLDER NAME… -> {name: {"before": read, "after": read}}

A read is {"rows", "schema"} or {"error"}, as in pypaimon_writer.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.interop.pypaimon_writer import describe, read_arrow


def visit(warehouse: Path, name: str) -> dict[str, Any]:
    """What pypaimon sees of a table before and after it wrote to it."""
    from pypaimon import CatalogFactory

    catalog = CatalogFactory.create({"warehouse": str(warehouse)})
    before = describe(catalog.get_table(f"db.{name}"))
    if "error" in before:
        return {"before": before, "after": before}
    try:
        table = catalog.get_table(f"db.{name}")
        rows = read_arrow(table)
        if rows is None:
            return {"before": before, "after": before}
        builder = table.new_batch_write_builder()
        writer, commit = builder.new_write(), builder.new_commit()
        writer.write_arrow(rows)
        commit.commit(writer.prepare_commit())
        writer.close()
        commit.close()
        after = describe(catalog.get_table(f"db.{name}"))
    except Exception as error:  # noqa: BLE001  # whatever the peer raises is its reply
        after = {"error": f"{type(error).__name__}: {error}"[:500]}
    return {"before": before, "after": after}


if __name__ == "__main__":
    print(json.dumps({name: visit(Path(sys.argv[1]), name) for name in sys.argv[2:]}))
