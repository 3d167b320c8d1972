"""`paimon-spark`: run one command, print its answer, and return its exit code."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

from paimon_spark.cli.commands import commands
from paimon_spark.cli.exit_codes import Exit, exit_code, print_error, reported
from paimon_spark.cli.help import help_of, overview
from paimon_spark.cli.parser import choose, parse
from paimon_spark.cli.request import CommandRequest, answer, print_answer

_HELP: Final = ("-h", "--help", "help")


def main(words: Sequence[str] | None = None) -> int:
    """Run the command that the words name; the process's own when None. Returns the exit code."""
    is_process = words is None
    given = list(sys.argv[1:] if words is None else words)
    _escape_unprintable(sys.stdout)
    _escape_unprintable(sys.stderr)
    try:
        code = _run(given)
        sys.stdout.flush()
    except (KeyboardInterrupt, Exception) as e:  # noqa: BLE001 - only a message and an exit code may leave
        if is_process:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C while it ends needs no message
        return _failed(e, given)
    return code


def _run(words: Sequence[str]) -> int:
    if words and words[0] in _HELP[2:]:
        words = [*words[1:], "--help"]
    if "--version" in words[:1]:
        words = ["version"]
    known = commands()
    chosen = choose(words, known)
    if chosen.operation is None:
        asked = any(w in _HELP for w in words)
        print(overview(known, chosen.noun), end="", file=sys.stdout if asked else sys.stderr)
        return Exit.DONE if asked else Exit.USAGE
    values = parse(chosen.operation, chosen.rest)
    if values["help"]:
        print(help_of(chosen.operation), end="")
        return Exit.DONE
    from paimon_spark.cli.progress import reporting

    with reporting(quiet=values["quiet"], as_json=values["json"], verbose=values["verbose"]):
        found = answer(
            chosen.operation,
            CommandRequest(values, chosen.operation.command),
            asks_without_terminal=not chosen.is_action,
        )
    print_answer(found, as_json=values["json"])
    return found.exit_code if found.error is None else exit_code(found.error)


def _failed(error: BaseException, words: Sequence[str]) -> int:
    code = exit_code(reported(error))
    if code == Exit.CLOSED:
        # Python flushes stdout once more at exit, and would print an error.
        if isinstance(sys.stdout, io.TextIOWrapper):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code
    print_error(error, as_json="--json" in words, verbose=any(w in ("--verbose", "-v") for w in words))
    return code


def _escape_unprintable(stream: object) -> None:
    """Let the stream escape characters that a terminal cannot show, instead of raising."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    sys.exit(main())
