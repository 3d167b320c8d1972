"""What mkdocs calls while it builds the site: SUPPORT.md, CHANGES.md and SECURITY.md become pages of it.

They stay at the top of the repository, where people look for them first; here only their links change.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

_ROOT: Final = Path(__file__).resolve().parents[1]
_PAGES: Final = {"SUPPORT.md": "support.md", "CHANGES.md": "changes.md", "SECURITY.md": "report.md"}
_LINK: Final = re.compile(r"\]\((?:docs/)?([\w./-]+\.md)(#[\w-]+)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside of docs."""
    for source, page in _PAGES.items():
        text = (_ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_LINK.sub(_moved, text)))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Point links of other pages to these pages of the site."""
    for source, page in _PAGES.items():
        markdown = markdown.replace(f"](../{source}", f"]({page}")
    return markdown


def _moved(link: re.Match[str]) -> str:
    return f"]({_PAGES.get(link[1], link[1])}{link[2] or ''})"
