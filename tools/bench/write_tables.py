"""What every worker that changes tables shares: the rows to write, an empty table to write them to, copies of tables.

Runs in the environments of all peers: only the standard library and pyarrow.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from datasets import schema_json


def source(path: str) -> pa.Table:
    """The rows of an Arrow file, in memory."""
    with pa.memory_map(path) as file:
        return pa.ipc.open_file(file).read_all().combine_chunks()


class FreshTable:
    """An empty table in a folder of its own, gone at the end; without `keys` an append table."""

    def __init__(self, beside: str, keys: list[str], options: dict[str, str]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="write-", dir=Path(beside).parent))
        self.path = self.folder / "db.db" / "t"
        (self.path / "schema").mkdir(parents=True)
        self.schema = schema_json(keys, options)
        (self.path / "schema" / "schema-0").write_text(self.schema)

    def __enter__(self) -> FreshTable:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder)


@contextmanager
def copy_of(table: str) -> Iterator[Path]:
    """A copy of a table in a folder beside it, gone at the end; data files, which nobody changes, are links."""
    folder = Path(tempfile.mkdtemp(prefix="copy-", dir=Path(table).parent))
    marks = shutil.ignore_patterns(".done", "history-done")
    try:
        yield Path(shutil.copytree(table, folder / "db.db" / "t", ignore=marks, copy_function=_link_or_copy))
    finally:
        shutil.rmtree(folder)


def _link_or_copy(old: str, new: str) -> None:
    if Path(old).parent.name.startswith("bucket-"):
        os.link(old, new)
    else:
        shutil.copyfile(old, new)


def upkeep(table: str, change: Callable[[str], object]) -> dict[str, Any]:
    """The answer of a worker that changes a copy of a table, whose path `change` gets; rows are files deleted."""
    with copy_of(table) as copy:
        before = _count_files(copy)
        start = time.perf_counter()
        change(str(copy))
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "rows": before - _count_files(copy), "checksum": 0}


def _count_files(folder: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(folder))
