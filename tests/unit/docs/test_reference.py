"""docs/reference is what the code says."""

from __future__ import annotations

import pytest

from paimon_spark import errors
from paimon_spark.errors import PaimonError
from paimon_spark.options.data_files import StatsKind, StatsMode, stats_mode
from paimon_spark.options.descriptor import Option, boolean, duration_ms, memory_size
from paimon_spark.options.known import TABLE_OPTIONS
from paimon_spark.options.scan import INCREMENTAL_KEYS, VERSION_KEYS
from paimon_spark.system_tables.registry import NAMES
from tools.docs import PAGES, stale
from tools.reference import options, system_tables
from tools.reference.errors import WHAT_TO_DO, tree
from tools.reference.python_api import signature


def test_the_pages_are_what_the_code_says_now() -> None:
    assert stale() == [], "run `make docs`"


def test_every_option_of_tables_is_spoken_of() -> None:
    page = PAGES["options.md"]()
    assert [name for name in sorted(TABLE_OPTIONS) if f"`{name}`" not in page] == []


def test_every_option_has_a_sentence() -> None:
    assert [o.key for o in options.descriptors().values() if not o.doc.strip().endswith(".")] == []


def test_options_that_name_a_version_are_all_told() -> None:
    told = {*options.VERSIONS, *options.descriptors()}
    assert {*VERSION_KEYS, *INCREMENTAL_KEYS} <= told


def test_options_said_to_do_nothing_are_known_options_that_no_code_has_a_descriptor_for() -> None:
    kept = set(options.kept(options.descriptors()))
    assert kept < TABLE_OPTIONS
    assert not kept & {*options.WITHOUT_DESCRIPTOR, *options.CHECKED}


@pytest.mark.parametrize(
    ("option", "shown", "kind"),
    [
        (Option("a", memory_size, 128 << 20, "A."), "128 mb", "size"),
        (Option("b", duration_ms, 90_000, "B."), "90 s", "duration"),
        (Option("c", boolean, True, "C."), "true", "true or false"),
        (Option("d", stats_mode, StatsMode(StatsKind.VALUES, 16), "D."), "truncate(16)", "text"),
    ],
)
def test_defaults_are_shown_as_one_writes_them(option: Option[object], shown: str, kind: str) -> None:
    assert (options.default(option), options.kind(option)) == (shown, kind)


def test_every_system_table_is_told() -> None:
    assert {*system_tables.ABOUT, *system_tables.VIEWS} == set(NAMES)


def test_every_error_is_in_the_tree_and_advice_is_for_errors_that_are_there() -> None:
    classes = {cls.__name__ for _, cls in tree(PaimonError)}
    stated = {n for n, c in vars(errors).items() if isinstance(c, type) and issubclass(c, PaimonError)}
    assert classes == stated
    assert set(WHAT_TO_DO) <= classes


def test_a_long_signature_has_a_line_for_each_parameter() -> None:
    def verb(self: object, name: str, *, snapshot_id: int | None = None, ignore_if_exists: bool = False) -> list[str]:
        raise NotImplementedError

    assert signature("T.verb", verb) == (
        "T.verb(name: str, *, snapshot_id: int | None = None, ignore_if_exists: bool = False) -> list[str]"
    )
    assert signature("A.very.long.name.of.a.verb", verb).count("\n") == 5
