"""Naming rules of tags and branches. Pure.

The rules keep every version text unambiguous: what `metadata.resolve` would read as something else is not allowed as a
name. Names given by other engines are not checked.

Source: PIP-4, PIP-14; Java `utils/BranchManager.validateBranch`, `utils/TagManager`.

Tests: tests/unit/versioning/test_names.py.
"""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import Final

from paimon_spark.errors import InvalidInputError
from paimon_spark.metadata.branches import NEW_BACKUP, REBASE_PREFIX
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.tags import GUARD_PREFIX, SAVEPOINT_PREFIX
from paimon_spark.metadata.version import branch_version, typed_version

_BRANCH_WORDS: Final = frozenset(("snapshot", "savepoint", "tag-name", "tag-id", "watermark"))
_WATERMARK: Final = "watermark-"
_NUMBER: Final = "a number means a snapshot id; put a letter before it"
_SUCCESS_DIRECTORY: Final = "success-file"
"""`tag/tag-success-file` is a directory of Paimon's, so no tag has this name."""
_REBASE_NAME: Final = re.compile(REBASE_PREFIX + r"\d{8}T\d{6}-[0-9a-f]{8}")
MAX_BYTES: Final = 200
"""A name is part of file names, with a prefix and suffix; file systems allow 255 bytes."""


def check_branch_name(name: str, *, table: str, tag_names: Iterable[str] = ()) -> None:
    """Check that a new branch may have this name; the caller checks that no branch has it already.

    `table`: the table in words, `TableHandle.describe()`. `tag_names`: tags of any branch of the table.

    Raises InvalidInputError: the name is refused; says why, and what to do.
    """
    _check(name, "branch", table, _text_fault(name) or _branch_fault(name, tag_names))


def _branch_fault(name: str, tag_names: Iterable[str]) -> str | None:
    if name == MAIN:
        return "main is always there; give the branch another name"
    if name.lower() in _BRANCH_WORDS or name.lower().startswith(_WATERMARK):
        return f"versions are written with the word {name!r}; give it another name"
    if "." in name:
        return "<branch>.<version> is split at the first dot; leave the dots out"
    if "$" in name:
        return "a path <table>$branch_<name> is split at its dollar signs; leave them out"
    hiding = min((tag for tag in tag_names if tag.startswith(name + ".")), default=None)
    if hiding is None:
        return None
    version = hiding.partition(".")[2]
    return (
        f"{hiding!r} is a tag, which would then be version {version!r} on the branch; rename it or give the branch "
        "another name"
    )


def check_tag_name(name: str, *, table: str, branch_names: Collection[str] = ()) -> None:
    """Check that a user may give a tag this name; the caller checks that no tag has it already.

    `table`: branch and table in words, `TableHandle.describe()`. `branch_names`: the table's branches, with or without
    `main`.

    Raises InvalidInputError: the name is refused; says why, and what to do.
    """
    check_tag_text(name, table=table)
    _check(name, "tag", table, _tag_fault(name, branch_names))


def _tag_fault(name: str, branch_names: Collection[str]) -> str | None:
    if name.isdecimal():
        return _NUMBER
    if looks_like_savepoint(name):
        return "savepoints have such names; use create_savepoint"
    if name.startswith(GUARD_PREFIX):
        return f"tags {GUARD_PREFIX}… guard the bases of branches; give it another name"
    typed = typed_version(name)
    if typed is not None:
        return f"it is how {typed} is written as a version; give it another name"
    parts = branch_version(name)
    if parts is not None and (parts[0] == MAIN or parts[0] in branch_names):
        return f"it is how a version {parts[1]!r} on branch {parts[0]!r} is written; give it another name"
    return None


def looks_like_savepoint(name: str) -> bool:
    """Whether a tag of this name looks like a savepoint, of whatever snapshot."""
    return name.startswith(SAVEPOINT_PREFIX) and name.removeprefix(SAVEPOINT_PREFIX).isdecimal()


def check_tag_text(name: str, *, table: str) -> None:
    """Check that a tag's file may have this name; also for tags that are named by time. Raises InvalidInputError."""
    fault = _text_fault(name, numbers=True)
    if name == _SUCCESS_DIRECTORY:
        fault = "Paimon keeps a directory of that name among the tags"
    _check(name, "tag", table, fault)


def _text_fault(name: object, *, numbers: bool = False) -> str | None:
    """Fault in a name of a branch or tag; `numbers` are allowed for tags named by time."""
    if not isinstance(name, str):
        return f"a name is text, not {type(name).__name__}"
    if not name.strip():
        return "a name is not blank"
    if name != name.strip():
        return "a name neither begins nor ends with a blank"
    if any(c in name for c in "/\\"):
        return "a name holds no slash, as it is part of a path"
    if not name.isprintable():
        return "a name holds printable characters only"
    if len(name.encode()) > MAX_BYTES:
        return f"a name has at most {MAX_BYTES} bytes, as it is part of a path"
    return _NUMBER if name.isdecimal() and not numbers else None


def _check(name: object, what: str, table: str, fault: str | None) -> None:
    if fault is not None:
        shown = f"{name[:40]}…" if isinstance(name, str) and len(name.encode(errors="replace")) > MAX_BYTES else name
        raise InvalidInputError(
            f"{shown!r} cannot be the name of a {what} of {table}: {fault}", name=shown, table=table
        )


def backup_name(taken: Collection[str], now_ms: int) -> str:
    """A free name for a branch that keeps what main loses now; `taken` are the names of all branches."""
    name = f"{NEW_BACKUP}{_time(now_ms)}"
    names = (f"{name}_{n}" if n > 1 else name for n in itertools.count(1))
    return next(n for n in names if n not in taken)


def rebase_name(now_ms: int) -> str:
    """A name for the branch on which a rebase is made now; unique."""
    return f"{REBASE_PREFIX}{_time(now_ms)}-{uuid.uuid4().hex[:8]}"


def is_rebase_name(name: str) -> bool:
    """Whether it is the name of a branch on which a rebase is or was made."""
    return _REBASE_NAME.fullmatch(name) is not None


def _time(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y%m%dT%H%M%S}"
