"""Arguments that several operations share: checks, moves of main, conflicts, and `--size`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.operations.answer import Answer, lines
from paimon_spark.operations.operation import Argument, Request, Style, UsageError, command_flag, repeated

if TYPE_CHECKING:
    from paimon_spark.versioning.checks import CheckResult
    from paimon_spark.versioning.status import RefSize

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
SIZE: Final[Argument] = command_flag("size", "show what deleting each would free")


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


def sizes_of(a: Request, *kinds: str) -> Mapping[tuple[str, str], RefSize]:
    """The sizes of the branches, tags or savepoints of a table by name and branch; none without the flag."""
    if not a["size"]:
        return {}
    return {(size.name, size.branch): size for size in a.table().sizes(kinds)}


def with_sizes(
    a: Request, columns: Sequence[str], rows: Sequence[Sequence[Any]], sizes: Sequence[RefSize | None]
) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    """Columns and rows with the column of sizes, if asked for."""
    if not a["size"]:
        return columns, rows
    texts = ["" if size is None else size.size_text for size in sizes]
    return (*columns, "frees"), [(*row, text) for row, text in zip(rows, texts, strict=True)]
