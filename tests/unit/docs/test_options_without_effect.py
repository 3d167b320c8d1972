"""Every option of Paimon that does nothing here is listed with the reason."""

from __future__ import annotations

import pytest

from tools.reference.options import descriptors, kept
from tools.reference.options_without_effect import REASONS, by_reason


def test_every_option_that_does_nothing_has_a_reason_and_every_reason_an_option() -> None:
    keys = kept(descriptors())
    found = by_reason(keys)
    assert sorted(key for group in found.values() for key in group) == keys
    assert list(found) == list(REASONS)


def test_a_new_option_needs_a_reason() -> None:
    with pytest.raises(KeyError, match="describe it, refuse it or add a reason"):
        by_reason(["some-new.option"])


@pytest.mark.parametrize("key", ["manifest.format", "upsert-key", "scan.bucket", "log.scan.timestamp-millis"])
def test_options_that_change_what_is_read_or_written_are_not_among_them(key: str) -> None:
    assert key not in kept(descriptors())
