"""Naming rules of tags and branches. Pure.

The rules keep every version text unambiguous: what `metadata.resolve` would read as something else is not allowed as a
name. Names given by other engines are not checked.

Source: PIP-4, PIP-14; Java `utils/BranchManager.validateBranch`, `utils/TagManager`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from paimon_spark.errors import InvalidInputError
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.tags import GUARD_PREFIX
from paimon_spark.metadata.version import branch_version, typed_version

_BRANCH_WORDS: Final = frozenset(("snapshot", "savepoint", "tag-name", "tag-id", "watermark"))
_WATERMARK: Final = "watermark-"
_SAVEPOINT: Final = "savepoint-"
_SUCCESS_DIRECTORY: Final = "success-file"
"""`tag/tag-success-file` is a directory of Paimon's, so no tag has this name."""
MAX_BYTES: Final = 200
"""A name is part of file names, with what stands before and behind it there; file systems allow 255 bytes."""


def check_branch_name(name: str, *, table: str, tag_names: Iterable[str] = ()) -> None:
    """Check that a new branch may have this name. That no branch has it already is for the caller to see.

    `table`: the table in words, `TableHandle.describe()`. `tag_names`: tags of any branch of the table.

    Raises InvalidInputError: the name is refused; says why, and what to do.
    """
    _check_text(name, "branch", table)
    if name == MAIN:
        raise _refused(name, "branch", table, "main is always there; give the branch another name")
    if name.lower() in _BRANCH_WORDS or name.lower().startswith(_WATERMARK):
        raise _refused(name, "branch", table, f"versions are written with the word {name!r}; give it another name")
    if "." in name:
        raise _refused(name, "branch", table, "<branch>.<version> is split at the first dot; leave the dots out")
    if "$" in name:
        raise _refused(
            name, "branch", table, "a path <table>$branch_<name> is split at its dollar signs; leave them out"
        )
    hiding = sorted(tag for tag in tag_names if tag.startswith(name + "."))
    if hiding:
        raise _refused(
            name,
            "branch",
            table,
            f"{hiding[0]!r} is a tag, which would then be version {hiding[0].partition('.')[2]!r} on the branch; "
            "rename it or give the branch another name",
        )


def check_tag_name(name: str, *, table: str, branch_names: Iterable[str] = ()) -> None:
    """Check that a user may give a tag this name. That no tag has it already is for the caller to see.

    `table`: branch and table in words, `TableHandle.describe()`. `branch_names`: the table's branches; `main` need not
    be among them.

    Raises InvalidInputError: the name is refused; says why, and what to do.
    """
    check_tag_text(name, table=table)
    if name.isdecimal():
        raise _refused(name, "tag", table, "a number means a snapshot id; put a letter before it")
    if name.startswith(_SAVEPOINT) and name.removeprefix(_SAVEPOINT).isdecimal():
        raise _refused(name, "tag", table, "savepoints are named so; use create_savepoint")
    if name.startswith(GUARD_PREFIX):
        raise _refused(name, "tag", table, f"tags {GUARD_PREFIX}… guard the bases of branches; give it another name")
    typed = typed_version(name)
    if typed is not None:
        raise _refused(name, "tag", table, f"it is how {typed} is written as a version; give it another name")
    parts = branch_version(name)
    if parts is not None and (parts[0] == MAIN or parts[0] in set(branch_names)):
        raise _refused(
            name,
            "tag",
            table,
            f"it is how a version {parts[1]!r} on branch {parts[0]!r} is written; give it another name",
        )


def check_tag_text(name: str, *, table: str) -> None:
    """Check that a name can be that of a tag's file at all; also for tags that are named by time.

    Raises InvalidInputError: it cannot.
    """
    _check_text(name, "tag", table, numbers=True)
    if name == _SUCCESS_DIRECTORY:
        raise _refused(name, "tag", table, "Paimon keeps a directory of that name among the tags")


def _check_text(name: object, what: str, table: str, *, numbers: bool = False) -> None:
    """What holds for branches and tags alike."""
    if not isinstance(name, str):
        raise _refused(name, what, table, f"a name is text, not {type(name).__name__}")
    if not name.strip():
        raise _refused(name, what, table, "a name is not blank")
    if name != name.strip():
        raise _refused(name, what, table, "a name neither begins nor ends with a blank")
    if any(c in name for c in "/\\"):
        raise _refused(name, what, table, "a name holds no slash, as it is part of a path")
    if not name.isprintable():
        raise _refused(name, what, table, "a name holds printable characters only")
    if len(name.encode()) > MAX_BYTES:
        raise _refused(name[:40] + "…", what, table, f"a name has at most {MAX_BYTES} bytes, as it is part of a path")
    if not numbers and name.isdecimal():
        raise _refused(name, what, table, "a number means a snapshot id; put a letter before it")


def _refused(name: object, what: str, table: str, why: str) -> InvalidInputError:
    return InvalidInputError(f"{name!r} cannot be the name of a {what} of {table}: {why}", name=name, table=table)
