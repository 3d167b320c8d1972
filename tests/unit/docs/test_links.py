"""Links between the pages of the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted(str(p.relative_to(ROOT)) for p in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s#]*)(#[^)\s]+)?\)")


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_headings_of_the_repository(page: str) -> None:
    here = ROOT / page
    for target, anchor in _LINK.findall(here.read_text(encoding="utf-8")):
        file = (here.parent / target).resolve() if target else here
        assert file.exists(), f"{page}: {target}"
        if anchor and file.suffix == ".md":
            assert anchor[1:] in _anchors(file), f"{page}: {target}{anchor}"
