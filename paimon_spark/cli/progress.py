"""Print progress and warnings on stderr: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from paimon_spark import progress
from paimon_spark.progress import Progress
from paimon_spark.text import safe

_AFTER_S: Final = 0.5
"""Work that is done sooner shows no bar."""
_LINE_EVERY_S: Final = 10.0
_BAR: Final = 24


@contextmanager
def reporting(*, quiet: bool, as_json: bool, verbose: bool) -> Iterator[None]:
    """Print progress and warnings of the work inside."""
    with _warnings(quiet=quiet, verbose=verbose), showing_progress(quiet=quiet, as_json=as_json):
        yield


@contextmanager
def showing_progress(*, quiet: bool, as_json: bool) -> Iterator[None]:
    """Print progress of the work inside, in place of the progress that is printed outside."""
    if quiet or as_json:
        yield
        return
    shower = _Bar(sys.stderr) if sys.stderr.isatty() else Log(sys.stderr)
    try:
        with progress.reporting(shower.show):
            yield
    finally:
        shower.close()


class _Bar:
    """One line of a terminal that is overwritten."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream, self.clock = stream, clock
        self.began = clock()
        self.is_shown = False

    def show(self, now: Progress) -> None:
        """Draw the bar."""
        if self.clock() - self.began < _AFTER_S:
            return
        room = max(shutil.get_terminal_size().columns - 1, 20)
        self.stream.write("\r\x1b[K" + _line(now, bar=True)[:room])
        self.stream.flush()
        self.is_shown = True

    def close(self) -> None:
        """Erase the bar."""
        if self.is_shown:
            self.stream.write("\r\x1b[K")
            self.stream.flush()


class Log:
    """A plain line every ten seconds."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream, self.clock = stream, clock
        self.printed = clock()

    def show(self, now: Progress) -> None:
        """Print a line when the last one is old enough."""
        if self.clock() - self.printed >= _LINE_EVERY_S:
            self.printed = self.clock()
            print(_line(now, bar=False), file=self.stream, flush=True)

    def close(self) -> None:
        """Do nothing: lines stay."""


def _line(now: Progress, *, bar: bool) -> str:
    what, unit = safe(now.what), safe(now.unit)
    if not now.total:
        return f"{what}: {now.done:,} {unit}"
    share = min(max(now.done / now.total, 0.0), 1.0)
    drawn = f"[{('#' * round(share * _BAR)).ljust(_BAR, '.')}] " if bar else ""
    return f"{what}: {drawn}{share:.0%}, {now.done:,} of {now.total:,} {unit}"


@contextmanager
def _warnings(*, quiet: bool, verbose: bool) -> Iterator[None]:
    """Warnings of Python and of the library's log as plain lines, or none."""
    logger = logging.getLogger("paimon_spark")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Plain())
    level, propagated = logger.level, logger.propagate
    logger.setLevel(logging.ERROR if quiet else logging.DEBUG if verbose else logging.WARNING)
    logger.addHandler(handler)
    logger.propagate = False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if quiet else "default")
            warnings.showwarning = _show  # what the standard library documents for this
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagated


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {safe(record.getMessage())}"


def _show(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if not issubclass(category, DeprecationWarning | ResourceWarning | PendingDeprecationWarning):
        print(f"warning: {safe(str(message))}", file=file or sys.stderr)
