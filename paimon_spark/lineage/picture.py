"""Picture: tables and jobs as a graph from left to right, as Mermaid, SVG and HTML.

Names are shown as they are, whatever they hold: everything is escaped, nothing is markup.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from paimon_spark.display import is_hidden
from paimon_spark.errors import InvalidInputError, LineageError

NOTHING: Final = "Nothing is recorded."
_PLAIN: Final = " _./-"
"""What Mermaid shows as it is, besides letters and digits."""
_BLOCK: Final = re.compile(r"^(#?\w*)([.\-])(?= )")


@dataclass(frozen=True, slots=True)
class Node:
    """A box.

    Attributes:
        key: tells it from all others.
        name: what is written in it.
        detail: a second line, smaller.
        group: key of the group it is in; None in a picture without groups.
    """

    key: str
    kind: Literal["table", "job"]
    name: str
    detail: str = ""
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow between two boxes, by their keys.

    Attributes:
        label: beside its head.
    """

    source: str
    target: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """Tables and jobs as a graph. Notebooks show it by itself.

    Attributes:
        nodes: in the order in which they are drawn where nothing else decides.
        edges: as the nodes.
        title: what the picture is of, for those who cannot see it.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = ()
    title: str = "Lineage"

    def to_mermaid(self) -> str:
        """A Mermaid flowchart, as Markdown of GitHub and others shows it in a block ```mermaid.

        Mermaid itself refuses more than 500 arrows, unless its setting `maxEdges` is raised; SVG has no such limit.
        """
        ids = {node.key: f"{node.kind[0]}{i}" for i, node in enumerate(self.nodes)}
        lines = ["flowchart LR"]
        grouped = self.groups
        for number, group in enumerate(grouped):
            within = [n for n in self.nodes if n.group == group]
            boxes = [f"{ids[n.key]}{_mermaid_box(n)}" for n in within]
            if group is None or len(grouped) == 1:
                lines += [f"  {box}" for box in boxes]
            else:
                lines += [f'  subgraph w{number}["{_mermaid(group)}"]', "    direction LR"]
                lines += [*(f"    {box}" for box in boxes), "  end"]
        for edge in self.edges:
            label = f'|"{_mermaid(edge.label)}"|' if edge.label else ""
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

    def to_svg(self) -> str:
        """An SVG picture that needs nothing else. The same graph gives the same text."""
        from paimon_spark.lineage.picture_svg import to_svg

        return to_svg(self)

    def to_html(self) -> str:
        """A page with the picture."""
        from html import escape

        head = f'<head><meta charset="utf-8"><title>{escape(shown(self.title))}</title></head>'
        return f'<!doctype html>\n<html lang="en">\n{head}\n<body>{self._repr_html_()}</body>\n</html>\n'

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture to a local file; its name says as what: .svg, .html, .mmd (Mermaid) or .md (Markdown).

        Raises:
            InvalidInputError: the name says none of these.
            LineageError: the file cannot be written.
        """
        file = Path(path)
        suffix = file.suffix.lower()
        if suffix == ".svg":
            text = self.to_svg()
        elif suffix in (".html", ".htm"):
            text = self.to_html()
        elif suffix in (".mmd", ".mermaid"):
            text = self.to_mermaid()
        elif suffix == ".md":
            text = f"```mermaid\n{self.to_mermaid()}```\n"
        else:
            raise InvalidInputError(
                f"a picture cannot be saved as {file.name!r}; give a name that ends in .svg, .html, .mmd or .md",
                path=str(file),
            )
        try:
            file.write_text(text, encoding="utf-8")
        except OSError as e:
            raise LineageError(f"the picture cannot be saved at {file}: {e}; give another place", path=str(file)) from e
        return file

    @property
    def groups(self) -> list[str | None]:
        """Keys of the groups, in the order of their first boxes."""
        return list(dict.fromkeys(node.group for node in self.nodes))

    def _repr_html_(self) -> str:
        return f'<div style="overflow:auto;max-width:100%">{self.to_svg()}</div>'

    def _repr_svg_(self) -> str:
        return self.to_svg()


def _mermaid_box(node: Node) -> str:
    text = _mermaid(node.name) + (f"<br/>{_mermaid(node.detail)}" if node.detail else "")
    return f'["{text}"]' if node.kind == "table" else f'(["{text}"])'


def _mermaid(text: str) -> str:
    """Text that Mermaid shows as it is: all but letters, digits and some signs as character codes.

    A list or heading of Markdown at the start would be refused, so its sign is a code too.
    """
    plain = "".join(c if c.isalnum() or c in _PLAIN else f"#{ord(c)};" for c in shown(text))
    return _BLOCK.sub(lambda m: f"{m[1]}#{ord(m[2])};", plain)


def shown(text: str) -> str:
    """Text without what cannot be shown, or would change how what follows is: each such character is replaced."""
    return "".join("\N{REPLACEMENT CHARACTER}" if is_hidden(c) else c for c in text)
