"""SQL statements typed on a terminal, one after the other."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from paimon_spark.cli.exit_codes import print_error

PROMPT: Final = "sql> "
_CONTINUED: Final = "...> "
_ENDS: Final = ("exit", "quit")
_HISTORY_LINES: Final = 1000


def run_statements(run: Callable[[str], None], *, as_json: bool = False, verbose: bool = False) -> None:
    """Read statements, which end with `;`, until `exit` or the end of the input, and run each.

    An error is printed, and the next statement is read. Ctrl-C drops what was typed, or interrupts the statement that
    runs, with its jobs.
    """
    from paimon_spark.sql.tokens import split_statements

    history = _History()
    text = ""
    while True:
        try:
            line = _read(_CONTINUED if text else PROMPT)
        except KeyboardInterrupt:
            print(file=sys.stderr)
            text = ""
            continue
        if line is None or (not text and line.strip().rstrip(";").strip().lower() in _ENDS):
            break
        text += line + "\n"
        if not _is_complete(text):
            continue
        try:
            for statement in split_statements(text):
                run(statement)
                sys.stdout.flush()
        except (KeyboardInterrupt, Exception) as e:  # noqa: BLE001 - the next statement is read in any case
            print_error(e, as_json=as_json, verbose=verbose)
        text = ""
    history.save()


def _read(prompt: str) -> str | None:
    """The next line without its end; None at the end of the input."""
    if sys.stdout.isatty():
        try:
            return input(prompt)
        except EOFError:
            print()
            return None
    print(prompt, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    return line.removesuffix("\n") if line else None


def _is_complete(text: str) -> bool:
    """Whether the text ends with the `;` of its last statement, or has none."""
    from paimon_spark.errors import SqlSyntaxError
    from paimon_spark.sql.tokens import split_statements, tokenize

    try:
        split_statements(text)  # raises inside quotes, comments and blocks
        tokens = tokenize(text)
    except SqlSyntaxError:
        return False
    return not tokens or tokens[-1].keyword == ";"


class _History:
    """The lines typed before, which the arrow keys bring back, where Python has `readline`."""

    def __init__(self) -> None:
        home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
        self._path = Path(home) / "paimon-spark" / "sql_history"
        try:
            import readline
        except ImportError:  # Windows
            self._readline = None
            return
        self._readline = readline
        readline.set_history_length(_HISTORY_LINES)
        with suppress(OSError):
            readline.read_history_file(self._path)

    def save(self) -> None:
        """Write the lines to the file. One that cannot be written is left out."""
        if self._readline is None:
            return
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._readline.write_history_file(self._path)
