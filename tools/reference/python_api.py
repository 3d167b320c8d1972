"""Signatures and docstrings of the public names → docs/reference/python-api.md."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

import paimon_spark
from paimon_spark.polars import scan_paimon
from tools.reference.text import code, escaped, page, table

_SECTION: Final = re.compile(r"^(Args|Returns|Raises|Yields|Attributes|Source): *(.*)$")
_TITLES: Final = {"Args": "Arguments", "Yields": "Gives", "Returns": "Returns", "Raises": "Raises"}
_ITEM: Final = re.compile(r"^(?P<name>[\w, ]+(?: to [\w]+)?): (?P<text>.*)$", re.DOTALL)
_MODULE: Final = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_])")
_FIRST: Final = (
    "attach",
    "detach",
    "load_catalog",
    "load_table",
    "configure_session",
    "register",
    "Catalog",
    "Table",
    "Scan",
    "Lineage",
)
_LONGEST: Final = 100
_STARS: Final[Mapping[Any, str]] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def python_api_page() -> str:
    """The page."""
    names = [name for name in paimon_spark.__all__ if not name.startswith("__") and not _is_error(name)]
    ordered = [*_FIRST, *(name for name in names if name not in _FIRST)]
    public = (_public(name, getattr(paimon_spark, name)) for name in ordered)
    return page("Python API", _INTRODUCTION, *public, _public("polars.scan_paimon", scan_paimon))


def _is_error(name: str) -> bool:
    value = getattr(paimon_spark, name)
    return inspect.isclass(value) and issubclass(value, paimon_spark.PaimonError)


_INTRODUCTION: Final = """
What `import paimon_spark` gives. Everything is typed; tables, catalogs and results are frozen values that pickle.
Every class of errors is there too, as `paimon_spark.InvalidOptionError`: see [Errors](errors.md). What needs another
library has a module of its own: `from paimon_spark.polars import scan_paimon`.
"""


def _public(name: str, value: Any) -> str:
    if not inspect.isclass(value):
        return _callable("##", name, name, value)
    parts = [f"## {name}", *_documented(inspect.getdoc(value) or "")]
    if dataclasses.is_dataclass(value):
        parts += _fields(value)
    members = [(n, m) for n, m in _members(value) if not n.startswith("_")]
    properties = [(n, m) for n, m in members if isinstance(m, (property, cached_property))]
    if properties:
        parts.append(table(("attribute", ""), ((code(n), _first(inspect.getdoc(m) or "")) for n, m in properties)))
    parts += [_callable("###", f"{name}.{n}", n, m) for n, m in members if inspect.isfunction(m)]
    return "\n\n".join(parts)


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Members as they stand in the files, of the class first and then of what it inherits from this package."""
    seen: set[str] = set()
    for base in cls.__mro__:
        if base.__module__.startswith("paimon_spark") and not issubclass(base, BaseException):
            for name, value in vars(base).items():
                plain = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
                if name not in seen and name != "text_lines":  # str() gives them
                    seen.add(name)
                    yield name, plain


def _fields(cls: Any) -> list[str]:
    """The names and types of a frozen value, where its docstring does not say more."""
    told = re.findall(r"^    (\w+): ", inspect.cleandoc(cls.__doc__ or ""), re.MULTILINE)
    rows = [
        (code(f.name), code(_type(str(f.type))))
        for f in dataclasses.fields(cls)
        if not f.name.startswith("_") and f.name not in told
    ]
    return [table(("field", "type"), rows)] if rows else []


def _callable(mark: str, title: str, name: str, function: Any) -> str:
    parts = [f"{mark} {title}", f"```text\n{signature(name, function)}\n```"]
    return "\n\n".join([*parts, *_documented(inspect.getdoc(function) or "")])


def signature(name: str, function: Any) -> str:
    """How it is called, with types in short; on several lines where it is long."""
    stated = inspect.signature(function)
    shown = [p for n, p in stated.parameters.items() if n != "self"]
    texts = list(_parameters(shown))
    back = stated.return_annotation
    end = "" if back is inspect.Signature.empty else f" -> {_type(str(back))}"
    line = f"{name}({', '.join(texts)}){end}"
    if len(line) <= _LONGEST:
        return line
    return f"{name}(\n" + "".join(f"    {text},\n" for text in texts) + f"){end}"


def _parameters(parameters: list[inspect.Parameter]) -> Iterator[str]:
    starred = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
    for p in parameters:
        if p.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        text = _STARS.get(p.kind, "") + p.name
        if p.annotation is not inspect.Parameter.empty:
            text += f": {_type(str(p.annotation))}"
        if p.default is not inspect.Parameter.empty:
            text += f" = {p.default!r}"
        yield text


def _type(text: str) -> str:
    return _MODULE.sub("", text.strip("'\""))


def _first(doc: str) -> str:
    return " ".join(doc.split("\n\n")[0].split())


def _documented(doc: str) -> list[str]:
    """A Google docstring as Markdown: prose as it is, sections as lists. `Source:` is for who reads the code."""
    parts: list[str] = []
    title, lines = "", list[str]()

    def close() -> None:
        text = "\n".join(lines).strip("\n")
        if title == "" and text:
            parts.append(_prose(text))
        elif title not in ("", "Source") and text:
            parts.append(_section(title, text))

    for line in doc.splitlines():
        found = _SECTION.match(line)
        if found is not None:
            close()
            title, lines = found[1], [f"    {found[2]}"] if found[2] else []
        elif title and line and not line.startswith(" "):
            close()
            title, lines = "", [line]
        else:
            lines.append(line)
    close()
    return parts


def _prose(text: str) -> str:
    """Paragraphs; what is indented is code."""
    out = []
    for part in text.split("\n\n"):
        indented = all(line.startswith("    ") for line in part.splitlines())
        out.append(f"```text\n{inspect.cleandoc(part)}\n```" if indented else escaped(part))
    return "\n\n".join(out)


def _section(title: str, text: str) -> str:
    items = [item.strip() for item in re.split(r"\n(?=    \S)", "\n" + text) if item.strip()]
    lines = []
    for item in items:
        found = _ITEM.match(item)
        flat = " ".join(item.split()) if found is None else " ".join(found["text"].split())
        lines.append(f"- {escaped(flat)}" if found is None else f"- `{found['name']}`: {escaped(flat)}")
    head = f"**{_TITLES[title]}**\n\n" if title in _TITLES else ""
    return head + "\n".join(lines)
