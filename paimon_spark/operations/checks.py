"""Arguments of operations that publish or check: moves of main, conflicts, checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from paimon_spark.operations.answer import Answer, lines
from paimon_spark.operations.operation import Argument, Request, Style, UsageError, repeated

if TYPE_CHECKING:
    from paimon_spark.versioning.checks import CheckResult

CHECK: Final = repeated(
    "check", "SQL that must return no row, with {table} for the rows, as NAME=SQL", "NAME=SQL", style=Style.COMMAND
)
IF_MAIN_MOVED: Final = Argument(
    "if_main_moved",
    "when main has commits, schemas or tags of its own: refuse, replace them by the branch, or rebase: put the "
    "branch's changes on top of them",
    default="refuse",
    is_own=True,
    metavar="refuse|replace|rebase",
)
ON_CONFLICT: Final = Argument(
    "on_conflict",
    "what a rebase does with keys that both changed: fail, keep main's row (ours), take the branch's (theirs), or the "
    "newest",
    default="fail",
    is_own=True,
    metavar="fail|ours|theirs|newest",
)
_EXAMPLE: Final = "NAME=SQL, such as 'no negative ids=SELECT * FROM {table} WHERE id < 0'"


def checks_of(a: Request) -> dict[str, str] | None:
    """The checks that are given, SQL by name, for which Spark is started; None for none. Raises UsageError."""
    given: dict[str, str] = {}
    for text in a["check"] or ():
        name, equals, sql = text.partition("=")
        if not equals or not name.strip() or not sql.strip():
            raise UsageError(f"--check takes {_EXAMPLE}; found {text!r}")
        if name.strip() in given:
            raise UsageError(f"two checks are called {name.strip()!r}; give each a name of its own")
        given[name.strip()] = sql
    if given:
        a.start_spark()
    return given or None


def required_checks(a: Request) -> dict[str, str]:
    """Checks that are given. Raises UsageError without any."""
    given = checks_of(a)
    if given is None:
        raise UsageError(f"{a.caller} needs --check NAME=SQL")
    return given


def show_checks(a: Request, found: list[CheckResult]) -> Answer:
    """How each check ended; exit code 1 when any failed."""
    out = [line for result in found for line in result.text_lines()]
    return lines(out, found, 0 if all(r.passed for r in found) else 1)
