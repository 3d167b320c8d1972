"""The error tree: its shape, its codes, and that every error crosses process borders."""

from __future__ import annotations

import pickle

import pytest

from paimon_spark import errors


def subclasses(cls: type[errors.PaimonError]) -> list[type[errors.PaimonError]]:
    return [cls, *(s for c in cls.__subclasses__() for s in subclasses(c))]


ALL = subclasses(errors.PaimonError)


@pytest.mark.parametrize("cls", ALL, ids=lambda c: c.__name__)
def test_every_error_pickles_with_its_message_and_context(cls: type[errors.PaimonError]) -> None:
    error = cls("what happened; what to do", path="/t", snapshot_id=3)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is cls
    assert str(copy) == "what happened; what to do"
    assert copy.context == {"path": "/t", "snapshot_id": 3}


def test_codes_are_unique_and_kebab_case() -> None:
    kinds = [c.kind for c in ALL]
    assert len(set(kinds)) == len(kinds)
    assert all(k == k.lower() and " " not in k and "_" not in k for k in kinds)


@pytest.mark.parametrize(
    ("cls", "parent"),
    [
        (errors.SnapshotExpiredError, errors.SnapshotNotFoundError),
        (errors.TagNotFoundError, errors.NotFoundError),
        (errors.InvalidOptionError, ValueError),
        (errors.CorruptFileError, errors.FormatError),
        (errors.UnknownFormatVersionError, errors.FormatError),
        (errors.FileMissingError, FileNotFoundError),
        (errors.FileMissingError, errors.StorageError),
    ],
)
def test_errors_can_be_caught_by_what_to_do_next(cls: type, parent: type) -> None:
    assert issubclass(cls, parent)


def test_a_storage_error_says_whether_trying_again_may_help() -> None:
    assert errors.StorageError("slow down", retryable=True).retryable
    assert not errors.StorageError("forbidden").retryable
