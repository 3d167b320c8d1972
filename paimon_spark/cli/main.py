"""`paimon-spark`: run one command, print its answer, and say by the exit code how it went."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import traceback
from collections.abc import Sequence
from typing import Final

from paimon_spark.cli.answer import Answer
from paimon_spark.cli.call import Call
from paimon_spark.cli.command import Command
from paimon_spark.cli.failure import Exit, exit_code, told, told_by_spark
from paimon_spark.cli.manual import help_of, overview
from paimon_spark.cli.registry import commands
from paimon_spark.cli.words import choose, read

_HELP: Final = ("-h", "--help", "help")


def main(words: Sequence[str] | None = None) -> int:
    """Run the command that the words name; the process's own when None. Returns the exit code."""
    given = list(sys.argv[1:] if words is None else words)
    _tolerant(sys.stdout)
    _tolerant(sys.stderr)
    try:
        code = _run(given)
        sys.stdout.flush()
    except (KeyboardInterrupt, Exception) as e:  # noqa: BLE001 - nothing but a message and a code may leave
        return _failed(e, given)
    return code


def _run(words: Sequence[str]) -> int:
    if words and words[0] in _HELP[2:]:
        words = [*words[1:], "--help"]
    if "--version" in words[:1]:
        words = ["version"]
    known = commands()
    chosen = choose(words, known)
    if chosen.command is None:
        asked = any(w in _HELP for w in words)
        print(overview(known, chosen.noun), end="", file=sys.stdout if asked else sys.stderr)
        return Exit.DONE if asked else Exit.USAGE
    values = read(chosen.command, chosen.rest)
    if values["help"]:
        print(help_of(chosen.command), end="")
        return Exit.DONE
    return _answered(chosen.command, Call(values, chosen.command.name))


def _answered(command: Command, call: Call) -> int:
    from paimon_spark.cli.reporting import reporting

    with reporting(quiet=call["quiet"], as_json=call["json"], verbose=call["verbose"]):
        answer = command.run(call)
    _print(answer, as_json=call["json"])
    return answer.exit_code


def _print(answer: Answer, *, as_json: bool) -> None:
    if as_json:
        encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower()
        print(json.dumps(answer.data, indent=2, ensure_ascii=not encoding.startswith("utf")))
        return
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in answer.text(room):
        print(line)


def _failed(error: BaseException, words: Sequence[str]) -> int:
    shown = told_by_spark(error)
    code = exit_code(shown)
    if code == Exit.CLOSED:
        # Python flushes stdout once more as it ends, and would complain.
        if isinstance(sys.stdout, io.TextIOWrapper):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code
    if any(w in ("--verbose", "-v") for w in words):
        traceback.print_exception(error, file=sys.stderr)
    print(told(shown, as_json="--json" in words), file=sys.stderr)
    return code


def _tolerant(stream: object) -> None:
    """Characters that a terminal cannot show are escaped, and are no errors."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    sys.exit(main())
