"""A wall clock that tests set, and files that look older than they are."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest


class StandingClock:
    """The wall clock of this process, which stands still until a test lets time pass."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._now_ns = time.time_ns()
        patch.setattr(time, "time_ns", lambda: self._now_ns)
        patch.setattr(time, "time", lambda: self._now_ns / 1e9)

    @property
    def now_ms(self) -> int:
        """Epoch milliseconds."""
        return self._now_ns // 1_000_000

    def advance(self, milliseconds: int) -> None:
        """Let time pass."""
        self._now_ns += milliseconds * 1_000_000


def age_files(folder: Path) -> None:
    """Let all files below a folder have been changed an hour ago: the times of new ones may equal those of a test."""
    for path in folder.rglob("*"):
        if path.is_file():
            then = path.stat().st_mtime - 3600
            os.utime(path, (then, then))
