"""Values → Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def page(title: str, *parts: str) -> str:
    """A page that says it is made."""
    made = "<!-- Made by tools/docs.py from the code: run `make docs`, do not edit. -->"
    return "\n\n".join([f"# {title}", made, *(part.strip("\n") for part in parts)]) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell(text) for text in line) + " |" for line in lines)


def cell(text: str) -> str:
    """Text that stays in its cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: object) -> str:
    """`text` as code; nothing for an empty one."""
    shown = str(text)
    return f"`{shown}`" if shown else ""


def codes(names: Iterable[object]) -> str:
    """Several names."""
    return ", ".join(code(name) for name in names)


def escaped(text: str) -> str:
    """Text whose angle brackets outside code are no tags."""
    pieces = text.split("`")
    pieces[::2] = [p.replace("<", "&lt;") for p in pieces[::2]]
    return "`".join(pieces)
