"""A table described as the calls that write it, so that one JVM start can write many tables.

    script = TableScript("pk_simple", "what is special", [["k", "INT NOT NULL"], ["v", "STRING"]], pk=["k"])
    script.write([[1, "a"]]).tag("t").write([[1, "b"]])

`script.calls(root)` are the calls for the Java driver; `script.reads` are reads to compare beside every version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Type = str | dict[str, Any]
Row = list[Any] | dict[str, Any]


def array(element: Type) -> Type:
    return {"type": "ARRAY", "element": element}


def map_of(key: Type, value: Type) -> Type:
    return {"type": "MAP", "key": key, "value": value}


def multiset(element: Type) -> Type:
    return {"type": "MULTISET", "element": element}


def row(*fields: tuple[str, Type]) -> Type:
    return {"type": "ROW", "fields": [{"id": i, "name": n, "type": t} for i, (n, t) in enumerate(fields)]}


def delete(*values: Any) -> Row:
    return {"$k": "-D", "v": list(values)}


def update_before(*values: Any) -> Row:
    return {"$k": "-U", "v": list(values)}


def update_after(*values: Any) -> Row:
    return {"$k": "+U", "v": list(values)}


@dataclass(frozen=True, slots=True)
class Read:
    """One more read of a table: `java` are arguments of the driver's read call, the rest is for our side.

    `options` go to both. `sql` is the WHERE text that equals the driver's `where`.
    """

    label: str
    options: dict[str, str] = field(default_factory=dict)
    columns: list[str] | None = None
    sql: str | None = None
    branch: str | None = None
    java: dict[str, Any] = field(default_factory=dict)

    @property
    def reads_changes(self) -> bool:
        """Whether Java gives changes, of which a batch reader shows the rows that came (+I, +U)."""
        return any(key.startswith("incremental-between") for key in self.options)

    def call(self, path: str) -> dict[str, Any]:
        """The call for the driver."""
        call: dict[str, Any] = {"op": "read", "path": path, "options": self.options, **self.java}
        if self.reads_changes:
            call["kinds"] = True
        if self.columns is not None:
            call["columns"] = self.columns
        if self.branch is not None:
            call["branch"] = self.branch
        return call


class TableScript:
    """The life of one table. Methods append a step and give the script back."""

    def __init__(
        self,
        name: str,
        about: str,
        fields: Sequence[Any],
        *,
        pk: Sequence[str] = (),
        partition: Sequence[str] = (),
        options: dict[str, str] | None = None,
        comment: str | None = None,
        may_refuse: str | None = None,
        java_may_fail: str | None = None,
        unordered: Sequence[str] = (),
    ) -> None:
        """`may_refuse`: a word that our UnsupportedFeatureError has to contain, if we refuse to read this table.

        `java_may_fail`: why Java may be unable to write it; the test is then skipped with that reason.
        `unordered`: array columns whose element order means nothing.
        """
        self.name, self.about = name, about
        self.may_refuse, self.java_may_fail = may_refuse, java_may_fail
        self.unordered = tuple(unordered)
        self.reads: list[Read] = []
        self._steps: list[dict[str, Any]] = []
        self.step(
            "createTable",
            fields=[list(f) for f in fields],
            pk=list(pk),
            partition=list(partition),
            tableOptions=options or {},
            comment=comment,
        )

    def step(self, op: str, **arguments: Any) -> TableScript:
        self._steps.append({"op": op, **arguments})
        return self

    def write(self, rows: Sequence[Row], **arguments: Any) -> TableScript:
        """Write and, where the writer does so by itself, compact."""
        return self.step("write", rows=list(rows), **arguments)

    def pile(self, rows: Sequence[Row], **arguments: Any) -> TableScript:
        """Write without compaction, so that files pile up on level 0."""
        options = {"write-only": "true", **arguments.pop("options", {})}
        return self.step("write", rows=list(rows), options=options, **arguments)

    def overwrite(self, partition: dict[str, str], rows: Sequence[Row], **arguments: Any) -> TableScript:
        return self.step("write", rows=list(rows), overwrite=partition, **arguments)

    def compact(self, **arguments: Any) -> TableScript:
        return self.step("compact", **arguments)

    def delete_rows(self, column: str, *values: Any) -> TableScript:
        return self.step("deleteRows", column=column, values=list(values))

    def tag(self, name: str, **arguments: Any) -> TableScript:
        return self.step("createTag", name=name, **arguments)

    def branch(self, name: str, tag: str | None = None) -> TableScript:
        return self.step("createBranch", name=name, tag=tag)

    def alter(self, *changes: dict[str, Any], **arguments: Any) -> TableScript:
        return self.step("alter", changes=list(changes), **arguments)

    def read(self, label: str, options: dict[str, str] | None = None, **arguments: Any) -> TableScript:
        """Compare one more read, with dynamic options."""
        self.reads.append(Read(label, options or {}, **arguments))
        return self

    def where(self, sql: str, predicate: list[Any], columns: list[str] | None = None) -> TableScript:
        """Compare a filtered read: `sql` for us, `predicate` (["=", column, value], ["and", …]) for Java."""
        self.reads.append(Read(f"where {sql}", columns=columns, sql=sql, java={"where": predicate}))
        return self

    def path(self, root: Path) -> str:
        return str(root / self.name)

    def calls(self, root: Path) -> list[dict[str, Any]]:
        """The calls that write the table below `root`; one failure skips the rest."""
        return [{**step, "path": self.path(root), "group": self.name} for step in self._steps]

    def __repr__(self) -> str:
        return self.name
