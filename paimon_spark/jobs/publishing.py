"""What tasks have written becomes visible at once, or is removed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from paimon_spark.engine.commit.committer import CommitResult, Committer
from paimon_spark.engine.tasks.commit_message import CommitMessage
from paimon_spark.engine.write.combine import combine
from paimon_spark.errors import CommitOutcomeUnknownError, PaimonError
from paimon_spark.metadata.handle import TableHandle


class Published(NamedTuple):
    """What was committed.

    Attributes:
        messages: what it was made of.
    """

    result: CommitResult
    messages: Sequence[CommitMessage]


def published(
    handle: TableHandle,
    committer: Committer,
    messages: Sequence[CommitMessage],
    make: Callable[[Sequence[CommitMessage]], CommitResult],
) -> Published:
    """Commit what tasks have written, as `make` does. Driver.

    After an error no file of the messages is left, but for CommitOutcomeUnknownError, where the rows may be in.

    Args:
        handle: the branch.
        committer: what `make` commits with; it knows what it made visible before it failed.
        messages: of all tasks.
        make: commits messages that writers of the same bucket have been united in.

    Raises:
        As `make`.
    """
    written = messages
    try:
        written = combine(handle, messages)
        return Published(make(written), written)
    except CommitOutcomeUnknownError:
        raise
    except PaimonError:
        committer.abort(written)
        raise
