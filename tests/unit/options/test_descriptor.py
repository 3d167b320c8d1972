"""Option descriptors: parsing of texts, and "did you mean"."""

from __future__ import annotations

from paimon_spark.options.descriptor import did_you_mean, nearest


def test_the_name_that_was_refused_is_never_offered() -> None:
    assert nearest("new", ["new", "news", "old"]) == ["news"]
    assert did_you_mean("new", ["new"]) == ""
    assert did_you_mean("new", ["NEW", "new"]) == "; did you mean 'NEW'?"
