"""The flag `--size` of lists of branches, tags and savepoints, and the column that it adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.operations.operation import Argument, Request, command_flag

if TYPE_CHECKING:
    from paimon_spark.versioning.status import RefSize

SIZE: Final[Argument] = command_flag("size", "show what deleting each would free")


def sizes_of(a: Request, *kinds: str) -> Mapping[tuple[str, str], RefSize]:
    """The sizes of the branches, tags or savepoints of a table by name and branch; none without the flag."""
    if not a["size"]:
        return {}
    return {(size.name, size.branch): size for size in a.table().sizes(kinds)}


def with_sizes(
    a: Request, columns: Sequence[str], rows: Sequence[Sequence[Any]], sizes: Sequence[RefSize | None]
) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    """Columns and rows with the column of sizes, if asked for."""
    if not a["size"]:
        return columns, rows
    texts = ["" if size is None else size.size_text for size in sizes]
    return (*columns, "frees"), [(*row, text) for row, text in zip(rows, texts, strict=True)]
