"""Guard tags: ordinary tags that keep the base of a branch from engines that look at tags of main only. Names; pure.

Every Paimon engine keeps the files of a tag, but only of tags beside the snapshots that it expires: nobody but us asks
what branches need. So the base of a branch is tagged on main, and goes with its branch.
"""

from __future__ import annotations

from typing import Final

GUARD_PREFIX: Final = "branch-guard-"
"""Users give no tag a name that begins so."""


def guard_name(branch: str) -> str:
    """The name of the tag that guards the base of a branch; the same on main, its parent and the branch itself."""
    return GUARD_PREFIX + branch


def guarded_branch(tag_name: str) -> str | None:
    """The branch that a tag of this name guards; None for every other tag."""
    return tag_name.removeprefix(GUARD_PREFIX) or None if tag_name.startswith(GUARD_PREFIX) else None
