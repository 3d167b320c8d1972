"""The site is built without a warning, and a browser fetches nothing for it from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FETCHED = re.compile(
    r"""<(?:script|img|iframe|link rel="(?:stylesheet|preload)")[^>]* (?:src|href)=["']?(?:https?:)?//"""
)


def test_the_site_is_built_strictly_and_stands_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert {"index.html", "support.html", "changes.html", "limits.html"} <= {page.name for page in pages}
    assert [str(page) for page in pages if FETCHED.search(page.read_text(encoding="utf-8"))] == []
