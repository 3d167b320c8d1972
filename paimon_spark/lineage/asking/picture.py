"""Draw tables and jobs as a Mermaid flowchart.

Every name is escaped, so that no text in it acts as Mermaid or HTML markup.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final, Literal

from paimon_spark.display import ShownAsText, grid, is_hidden, section, text
from paimon_spark.errors import InvalidInputError, LineageError
from paimon_spark.lineage.asking.graph import NOWHERE, Graph, Node, newest_of
from paimon_spark.lineage.asking.unrecorded_writes import NOTHING, Unrecorded
from paimon_spark.text import safe

_EMPTY: Final = "Nothing is recorded."
_PLAIN: Final = " _./-"
"""Characters besides letters and digits that Mermaid shows as they are."""
_MARKDOWN_BLOCK: Final = re.compile(r"^(#?\w*)([.\-])(?= )")


@dataclass(frozen=True, slots=True)
class Box:
    """A table or a job.

    Attributes:
        key: unique in the picture.
        name: its text.
        detail: a second line.
        group: key of its group; None in a picture without groups.
    """

    key: str
    kind: Literal["table", "job"]
    name: str
    detail: str = ""
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow between two boxes, by their keys."""

    source: str
    target: str
    label: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Picture(ShownAsText):
    """Tables and jobs as a graph. Notebooks show its Mermaid text and its arrows as a table.

    Attributes:
        nodes: tables and jobs, in drawing order.
        edges: from tables to jobs, and from jobs to tables.
        title: of the picture.
    """

    nodes: tuple[Box, ...]
    edges: tuple[Edge, ...] = ()
    title: str = "Lineage"

    def text_lines(self) -> list[str]:
        """The Mermaid flowchart, by line."""
        return [safe(line) for line in self.to_mermaid().splitlines()]

    def to_mermaid(self) -> str:
        """A Mermaid flowchart, as Markdown of GitHub and others shows it in a block ```mermaid.

        Mermaid refuses more than 500 arrows unless its setting `maxEdges` is raised.
        """
        ids = {node.key: f"{node.kind[0]}{i}" for i, node in enumerate(self.nodes)}
        lines = ["flowchart LR"]
        grouped = self.groups
        for number, group in enumerate(grouped):
            boxes = [f"{ids[n.key]}{_mermaid_box(n)}" for n in self.nodes if n.group == group]
            if group is None or len(grouped) == 1:
                lines += [f"  {box}" for box in boxes]
            else:
                lines += [f'  subgraph w{number}["{_mermaid_text(group)}"]', "    direction LR"]
                lines += [*(f"    {box}" for box in boxes), "  end"]
        for edge in self.edges:
            label = f'|"{_mermaid_text(edge.label)}"|' if edge.label else ""
            lines.append(f"  {ids[edge.source]} -->{label} {ids[edge.target]}")
        lines += [
            "  classDef table fill:#eef4fb,stroke:#41719c,color:#16293b",
            "  classDef job fill:#fdf3e0,stroke:#b07d2b,color:#3b2a0c",
        ]
        for kind in ("table", "job"):
            members = [ids[n.key] for n in self.nodes if n.kind == kind]
            if members:
                lines.append(f"  class {','.join(members)} {kind}")
        return "\n".join(lines) + "\n"

    def to_html(self) -> str:
        """A page with the Mermaid text and the table of arrows."""
        head = f'<head><meta charset="utf-8"><title>{text(self.title)}</title></head>'
        return f'<!doctype html>\n<html lang="en">\n{head}\n<body>{self._repr_html_()}</body>\n</html>\n'

    def to_svg(self) -> str:
        """Raises InvalidInputError: pictures are Mermaid text, which any Mermaid renderer turns into SVG."""
        raise InvalidInputError("lineage pictures are not drawn as SVG; use to_mermaid() and a Mermaid renderer")

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture to a local file in the format of its suffix: .mmd (Mermaid), .md (Markdown) or .html.

        Raises:
            InvalidInputError: another suffix.
            LineageError: the file cannot be written.
        """
        file = Path(path)
        suffix = file.suffix.lower()
        if suffix in (".html", ".htm"):
            content = self.to_html()
        elif suffix in (".mmd", ".mermaid"):
            content = self.to_mermaid()
        elif suffix == ".md":
            content = f"```mermaid\n{self.to_mermaid()}```\n"
        else:
            raise InvalidInputError(
                f"cannot save a picture as {file.name!r}; use .mmd (Mermaid), .md (Mermaid in Markdown) or .html",
                path=str(file),
            )
        try:
            file.write_text(content, encoding="utf-8")
        except OSError as e:
            raise LineageError(f"cannot save the picture at {file}: {e}; choose another path", path=str(file)) from e
        return file

    @property
    def groups(self) -> list[str | None]:
        """Keys of the groups, in the order of their first boxes."""
        return list(dict.fromkeys(node.group for node in self.nodes))

    def _repr_html_(self) -> str:
        if not self.nodes:
            return section(self.title, _EMPTY)
        shown = {n.key: f"{n.name} ({n.detail})" if n.detail else n.name for n in self.nodes}
        arrows = [(shown[e.source], shown[e.target], e.label) for e in self.edges]
        joined = {key for e in self.edges for key in (e.source, e.target)}
        alone = [(name, "", "") for key, name in shown.items() if key not in joined]
        mermaid = f'<pre class="mermaid">{escape(self.to_mermaid())}</pre>'
        return section(self.title, "", mermaid, grid(("from", "to", "newest"), [*arrows, *alone]))


def _mermaid_box(node: Box) -> str:
    label = _mermaid_text(node.name) + (f"<br/>{_mermaid_text(node.detail)}" if node.detail else "")
    return f'["{label}"]' if node.kind == "table" else f'(["{label}"])'


def _mermaid_text(label: str) -> str:
    """Escape all but letters, digits and some signs as character codes.

    Mermaid refuses a Markdown list or heading at the start of a label, so that sign is escaped too.
    """
    visible = ("\N{REPLACEMENT CHARACTER}" if is_hidden(c) else c for c in label)
    plain = "".join(c if c.isalnum() or c in _PLAIN else f"#{ord(c)};" for c in visible)
    return _MARKDOWN_BLOCK.sub(lambda m: f"{m[1]}#{ord(m[2])};", plain)


def picture_of(
    graph: Graph, title: str = "Lineage", around: Sequence[Node] = (), unrecorded: Unrecorded = NOTHING
) -> Picture:
    """Draw jobs between tables, each arrow with the newest snapshot; several warehouses are a group each.

    A job is drawn in the warehouse that it writes to, else in the one that it reads from. A job whose runs read and
    wrote different tables has a box for each part that it joins, so that arrows never connect unrelated tables.

    Args:
        graph: loaded with its snapshots.
        title: of the picture.
        around: draw only what is upstream and downstream of these tables; none: everything.
        unrecorded: counted in the boxes of its tables; without `around` its tables are drawn too.
    """
    newest = newest_of(graph)
    warehouses = [part.warehouse for part in graph.parts]
    tables, jobs = _connected(graph, around) if around else (set(graph.tables), set(graph.jobs))
    counts = {table.node: len(table.snapshots) for table in unrecorded}
    shown = [n for n in graph.tables if n in tables] if around else sorted({*tables, *counts})
    boxes = [_table_box(node, warehouses, counts.get(node, 0)) for node in shown]
    edges: list[Edge] = []
    for job in (j for j in graph.jobs if j in jobs):
        for number, (sources, sinks) in enumerate(graph.groups(job)):
            reads, writes = [n for n in sources if n in tables], [n for n in sinks if n in tables]
            if not reads and not writes:
                continue
            key = f"job {job}" + (f" #{number + 1}" if number else "")
            homes = [n.warehouse for n in (*writes, *reads) if n.warehouse in warehouses]
            boxes.append(Box(key, "job", job, _label("batch", newest.barriers.get(job)), next(iter(homes), None)))
            edges += [Edge(_table_key(n), key, _label("snapshot", newest.read.get((job, n)))) for n in reads]
            edges += [Edge(key, _table_key(n), _label("snapshot", newest.made.get((job, n)))) for n in writes]
    return Picture(tuple(boxes), tuple(edges), title)


def _connected(graph: Graph, around: Sequence[Node]) -> tuple[set[Node], set[str]]:
    """The tables and jobs upstream and downstream of some tables, and these tables."""
    tables, jobs = set(around), set[str]()
    for by, beyond in ((graph.written_by, graph.sources_of), (graph.read_by, graph.sinks_of)):
        seen, left = set(around), list(around)
        while left:
            node = left.pop()
            for job in by.get(node, ()):
                jobs.add(job)
                found = [n for n in beyond(job, node) if n not in seen]
                seen.update(found)
                left += found
        tables |= seen
    return tables, jobs


def _table_box(node: Node, warehouses: list[str], unrecorded: int) -> Box:
    group = node.warehouse if node.warehouse in warehouses else None
    if node.ref == NOWHERE:
        return Box(_table_key(node), "table", node.warehouse, "outside any warehouse", group)
    ref = node.ref
    branch = "" if ref.table == ref.bare else f"branch {ref.branch}"
    detail = ", ".join(filter(None, [branch, f"{unrecorded} unrecorded" if unrecorded else ""]))
    return Box(_table_key(node), "table", f"{ref.database}.{ref.bare}", detail, group)


def _table_key(node: Node) -> str:
    return f"table {node.warehouse} {node.ref.name}"


def _label(what: str, number: int | None) -> str:
    return "" if number is None else f"{what} {number}"
