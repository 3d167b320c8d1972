"""Tags of a branch: files, savepoints, guard tags, and names of automatic tags.

Savepoints are tags named `savepoint-<snapshot id>`. Guard tags are named `branch-guard-<branch>`: every Paimon engine
keeps the files of a tag, but only of tags beside the snapshots that it expires, so the base of a branch is tagged on
main as long as the branch exists. Automatic tags are named after periods of local time, counted from 1970.

Source: Java `utils/TagManager`, `tag/TagPeriodHandler`; PIP-4 for savepoints, kept in the released format as tags.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from paimon_spark.display import ShownAsFacts
from paimon_spark.errors import SavepointNotFoundError, TagNotFoundError
from paimon_spark.format.metadata_files.snapshot import Snapshot, Tag, decode_tag
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import TAG_PREFIX, is_ref_name
from paimon_spark.metadata.small_files import find_decoded, find_many
from paimon_spark.options.descriptor import is_one_edit_away, nearest
from paimon_spark.options.retention import TagOptions, TagPeriod, TagPeriodFormatter
from paimon_spark.text import duration, safe

_SHOWN = 20
"""Names listed in a message."""


@dataclass(frozen=True, slots=True, repr=False)
class TagInfo(ShownAsFacts):
    """A tag as it is listed by `branches.list_tag_infos`.

    Attributes:
        create_time: local wall clock of the creator; None for tags that live for ever.
        time_retained_s: seconds to live from then; None means for ever.
        is_savepoint: it is named as savepoints are.
        guards: the branch whose base it keeps; None for every other tag.
        branches: names of the branches that were created from it.
        branch: the branch that has it, where another one was asked to tag a version of that branch; else None.
    """

    name: str
    snapshot: Snapshot
    create_time: datetime | None = None
    time_retained_s: float | None = None
    is_savepoint: bool = False
    guards: str | None = None
    branches: tuple[str, ...] = ()
    branch: str | None = None

    @property
    def kind(self) -> str:
        """`savepoint`, `guard` or `tag`."""
        return "savepoint" if self.is_savepoint else "guard" if self.guards is not None else "tag"

    def text_lines(self) -> list[str]:
        lives = "" if self.time_retained_s is None else f", lives for {duration(self.time_retained_s)}"
        branches = f", branches {safe(', '.join(self.branches))}" if self.branches else ""
        guards = "" if self.guards is None else f", guards branch {safe(self.guards)}"
        on = "" if self.branch is None else f" on branch {safe(self.branch)}"
        return [f"{self.kind} {safe(self.name)}{on}: {self.snapshot}{lives}{branches}{guards}"]


def tag_names(handle: TableHandle) -> list[str]:
    """Names of the branch's tags, savepoints included, sorted."""
    names = (
        info.name.removeprefix(TAG_PREFIX)
        for info in handle.store.list(handle.layout.tag_dir)
        # `tag-success-file` is a directory that only looks like a tag.
        if info.name.startswith(TAG_PREFIX) and not info.is_directory
    )
    return sorted(n for n in names if n)


def offered_tag_names(handle: TableHandle) -> list[str]:
    """Names of the branch's tags for messages: without those that guard branches."""
    return [n for n in tag_names(handle) if guarded_branch(n) is None]


def find_tag(handle: TableHandle, name: str) -> Tag | None:
    """Tag with exactly this name; None without one. Raises CorruptFileError."""
    if not is_ref_name(name):
        return None
    return find_decoded(handle.store, handle.layout.tag_path(name), decode_tag_file)


def decode_tag_file(data: bytes, path: str) -> Tag:
    """The tag in a file, named by the file. Raises CorruptFileError."""
    return decode_tag(data, path.rpartition("/")[2].removeprefix(TAG_PREFIX), path)


def get_tag(handle: TableHandle, name: str) -> Tag:
    """The tag with exactly this name. Raises TagNotFoundError, which offers the nearest names; CorruptFileError."""
    tag = find_tag(handle, name)
    if tag is None:
        names = offered_tag_names(handle)
        close = near_tags(str(name), names)
        offered = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise TagNotFoundError(
            f"{handle.describe()} has no tag {name!r}{offered}; {listed('tags', names)}",
            **handle.context,
            tag=name,
        )
    return tag


def near_tags(name: str, names: Iterable[str]) -> list[str]:
    """Up to three of `names` that are similar to `name`, those that are one edit away first."""
    known = list(names)
    edited = [n for n in known if is_one_edit_away(name, n, counts_digits=True)]
    return [*edited, *(n for n in nearest(name, known) if n not in edited)][:3]


def list_tags(handle: TableHandle) -> list[Tag]:
    """The branch's tags, savepoints included, by snapshot id and then name. Raises CorruptFileError."""
    found = find_many(handle.store, [handle.layout.tag_path(n) for n in tag_names(handle)], decode_tag_file)
    return sorted((tag for tag in found if tag is not None), key=lambda t: (t.snapshot.id, t.name))


def tag_of_snapshot(handle: TableHandle, snapshot_id: int) -> Tag | None:
    """First tag, by name, of the snapshot with this id; None without one."""
    return next((t for t in list_tags(handle) if t.snapshot.id == snapshot_id), None)


def listed(what: str, names: list[str]) -> str:
    """`its tags are a, b`, for messages."""
    if not names:
        return f"it has no {what}"
    return f"its {what} are " + ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")


GUARD_PREFIX: Final = "branch-guard-"
"""Users give no tag a name that begins so."""
_OF_REBASE: Final = ".rebase"


def guard_name(branch: str) -> str:
    """The name of the tag that guards the base of a branch; the same on main, its parent and the branch itself."""
    return GUARD_PREFIX + branch


def rebase_guard_name(branch: str) -> str:
    """The name of the tags that keep the last rebase of a branch: its commit, and on the branch the snapshot it holds.

    Names of branches have no dots.
    """
    return guard_name(branch) + _OF_REBASE


def guards_rebase(tag_name: str) -> bool:
    """Whether a tag keeps the last rebase of a branch."""
    return tag_name.startswith(GUARD_PREFIX) and tag_name.endswith(_OF_REBASE)


def guarded_branch(tag_name: str) -> str | None:
    """The branch whose base, or last rebase, a tag of this name guards; None for every other tag."""
    if not tag_name.startswith(GUARD_PREFIX):
        return None
    return tag_name.removeprefix(GUARD_PREFIX).removesuffix(_OF_REBASE) or None


def release_tag(release_id: int) -> str:
    """The tag that each table of a release has on main."""
    return f"{_RELEASE_PREFIX}{release_id}"


def is_release_tag(tag_name: str) -> bool:
    """Whether a tag is that of a release."""
    number = tag_name.removeprefix(_RELEASE_PREFIX)
    return number != tag_name and number.isascii() and number.isdigit()


_RELEASE_PREFIX: Final = "release-"
SAVEPOINT_PREFIX: Final = "savepoint-"
_SAVEPOINT_NAME: Final = re.compile(rf"{SAVEPOINT_PREFIX}(\d{{1,19}})", re.ASCII)


@dataclass(frozen=True, slots=True, repr=False)
class Savepoint(ShownAsFacts):
    """A savepoint; its id is that of its snapshot."""

    id: int
    snapshot: Snapshot

    def text_lines(self) -> list[str]:
        return [f"savepoint {self.id}: {self.snapshot}"]


def savepoint_tag(savepoint_id: int) -> str:
    """Name of the tag that is the savepoint."""
    return f"{SAVEPOINT_PREFIX}{savepoint_id:d}"


def savepoint_id_of(tag_name: str) -> int | None:
    """The savepoint that a tag is; None for an ordinary tag."""
    match = _SAVEPOINT_NAME.fullmatch(tag_name)
    return int(match[1]) if match else None


def get_savepoint(handle: TableHandle, savepoint_id: int) -> Savepoint:
    """The savepoint. Raises SavepointNotFoundError listing those there are; CorruptFileError."""
    tag = find_tag(handle, savepoint_tag(savepoint_id))
    if tag is None:
        ids = [str(i) for i in _savepoint_ids(handle)]
        raise SavepointNotFoundError(
            f"{handle.describe()} has no savepoint {savepoint_id}; {listed('savepoints', ids)}",
            **handle.context,
            savepoint_id=savepoint_id,
        )
    return Savepoint(savepoint_id, tag.snapshot)


def list_savepoints(handle: TableHandle) -> list[Savepoint]:
    """The branch's savepoints by id. Raises CorruptFileError."""
    return [Savepoint(i, get_tag(handle, savepoint_tag(i)).snapshot) for i in _savepoint_ids(handle)]


def _savepoint_ids(handle: TableHandle) -> list[int]:
    found = (savepoint_id_of(name) for name in tag_names(handle))
    return sorted(i for i in found if i is not None)


_EPOCH: Final = datetime(1970, 1, 1)
_MILLI: Final = timedelta(milliseconds=1)
_DAY: Final = r"(\d{4})-(\d{2})-(\d{2})"
_DAY_PLAIN: Final = r"(\d{4})(\d{2})(\d{2})"
_DASHES: Final = TagPeriodFormatter.WITH_DASHES
_PLAIN: Final = TagPeriodFormatter.WITHOUT_DASHES
_DENSE: Final = TagPeriodFormatter.WITHOUT_DASHES_AND_SPACES
_FORMS: Final = {
    # what a name looks like, and how it is written
    (TagPeriod.DAILY, _DASHES): (_DAY, "{0:%m-%d}"),
    (TagPeriod.DAILY, _PLAIN): (_DAY_PLAIN, "{0:%m%d}"),
    (TagPeriod.DAILY, _DENSE): (_DAY_PLAIN, "{0:%m%d}"),
    (TagPeriod.HOURLY, _DASHES): (_DAY + r" (\d{2})", "{0:%m-%d %H}"),
    (TagPeriod.HOURLY, _PLAIN): (_DAY_PLAIN + r" (\d{2})", "{0:%m%d %H}"),
    (TagPeriod.HOURLY, _DENSE): (_DAY_PLAIN + r"(\d{2})", "{0:%m%d%H}"),
}
_MINUTES: Final = (_DAY_PLAIN + r"(\d{2})(\d{2})", "{0:%m%d%H%M}")
_LENGTHS: Final = {
    TagPeriod.DAILY: timedelta(days=1),
    TagPeriod.HOURLY: timedelta(hours=1),
    TagPeriod.TWO_HOURS: timedelta(hours=2),
}


@dataclass(frozen=True, slots=True)
class TagPeriods:
    """The periods that automatic tags are created for, and their names.

    Attributes:
        length: of one period.
        pattern: what names look like.
        form: how the part of a name after its year is written.
        daily: names are days, and what follows a blank in them does not count.
    """

    length: timedelta
    pattern: str
    form: str
    daily: bool = False

    def time_of(self, name: str) -> datetime | None:
        """The time in a tag's name; None for a tag that was not created for a period."""
        match = re.fullmatch(self.pattern, name.split(" ")[0] if self.daily else name, re.ASCII)
        try:
            return datetime(*map(int, match.groups())) if match else None  # type: ignore[arg-type]
        except ValueError:
            return None

    def name_of(self, time: datetime) -> str:
        """The name of the tag of the period that begins at `time`."""
        return f"{time.year:04d}{'-' if '-' in self.pattern else ''}{self.form.format(time)}"

    def last_whole(self, time: datetime) -> datetime:
        """When the period began that ended where the one of `time` begins. Raises OverflowError at the first of all."""
        millis, length = (time - _EPOCH) // _MILLI, self.length // _MILLI
        begun = abs(millis) // length * length  # Java's division goes towards zero, before 1970 too
        return _EPOCH + (begun if millis >= 0 else -begun) * _MILLI - self.length


def tag_periods(options: TagOptions) -> TagPeriods:
    """The periods for which a table's options create tags."""
    period = options.period
    if options.period_ms is not None:
        return TagPeriods(options.period_ms * _MILLI, *_MINUTES)
    if period is TagPeriod.TWO_HOURS:  # whatever the formatter says
        return TagPeriods(_LENGTHS[period], *_FORMS[TagPeriod.HOURLY, _DASHES])
    form = _FORMS[period, options.formatter]
    return TagPeriods(_LENGTHS[period], *form, daily=period is TagPeriod.DAILY)


def auto_tag_time(name: str, options: TagOptions) -> datetime | None:
    """The local time in the name of an automatic tag; None for a tag that was not created for a period."""
    return tag_periods(options).time_of(name)
