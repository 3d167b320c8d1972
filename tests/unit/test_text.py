"""Values and tables as text."""

from __future__ import annotations

import unicodedata
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.cli.progress import Log, _Bar
from paimon_spark.display import amount
from paimon_spark.operations.answer import plain
from paimon_spark.progress import Progress
from paimon_spark.text import (
    counted,
    duration,
    grid,
    moment,
    safe,
    shown,
    sql_cell,
    sql_quoted,
    sql_row,
    sql_value,
    width,
)

SQL_VALUES = [
    (None, "NULL"),
    (True, "true"),
    (12, "12"),
    (1.5, "1.5"),
    (float("nan"), "NaN"),
    (float("-inf"), "-Infinity"),
    (Decimal("8004.00"), "8004.00"),
    (Decimal("1E+3"), "1000"),
    (date(2024, 1, 31), "2024-01-31"),
    (time(10, 0), "10:00:00"),
    (datetime(2024, 1, 31, 10), "2024-01-31 10:00:00"),
    (datetime(2024, 1, 31, 10, tzinfo=UTC), "2024-01-31 10:00:00Z"),
    (b"\x00\xff", "X'00FF'"),
    ([1, None], "[1, NULL]"),
    ((1, "a"), "{1, a}"),
    ({"k": Decimal("1.0")}, "{k -> 1.0}"),
    ("New York", "New York"),
    ("", "''"),
    ("null", "'null'"),
    (" a", "' a'"),
    ("a, b=c", "'a, b=c'"),
    ("it's", "'it''s'"),
    ("a\nb", "'a\\nb'"),
]


@pytest.mark.parametrize(("value", "text"), SQL_VALUES)
def test_values_of_rows_are_printed_as_sql_prints_them(value: object, text: str) -> None:
    assert sql_value(value) == text
    assert sql_cell(value) == (safe(value) if isinstance(value, str) else text)


def test_a_row_is_printed_with_its_columns_and_text_alone_is_quoted() -> None:
    assert sql_row({"dt": date(2024, 1, 31), "city": "Bonn", "n": None}) == "dt=2024-01-31, city=Bonn, n=NULL"
    assert (sql_quoted("a"), sql_quoted(Decimal("1.50"))) == ("'a'", "1.50")


@given(st.text())
def test_no_character_of_the_data_acts_on_a_terminal(text: str) -> None:
    assert not {unicodedata.category(c) for c in safe(text)} & {"Cc", "Cs", "Zl", "Zp"}
    assert not set(safe(text)) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")


def test_control_characters_are_shown_as_escapes() -> None:
    assert safe("a\x1b[31mb\nc\td\u202ee") == "a\\x1b[31mb\\nc\\td\\u202ee"


def test_letters_of_all_languages_stay() -> None:
    assert safe("Größe 東京 🙂 [bold]%s{x}") == "Größe 東京 🙂 [bold]%s{x}"


def test_durations_are_in_the_largest_units() -> None:
    shown_by_seconds = {0: "0 s", 59: "59 s", 3600: "1 h", 5430: "1 h 30 min 30 s", 2_592_000: "30 d", 0.5: "0.5 s"}
    assert {seconds: duration(seconds) for seconds in shown_by_seconds} == shown_by_seconds


def test_wide_letters_take_two_columns() -> None:
    assert (width("abc"), width("東京"), width("e\u0301")) == (3, 4, 1)
    assert list(grid(("name", "n"), [("東京", 1), ("abc", 10)], None)) == ["name   n", "東京   1", "abc   10"]


def test_a_table_that_fits_is_not_wrapped() -> None:
    assert list(grid(("a", "b"), [(1, "x")], 80)) == ["a  b", "1  x"]


def test_a_table_that_does_not_fit_is_wrapped_to_the_terminal() -> None:
    lines = list(grid(("id", "text"), [(1, "the quick brown fox jumps over the lazy dog")], 30))
    assert max(map(len, lines)) <= 30
    assert "".join(line[4:] for line in lines[1:]).replace(" ", "") == "thequickbrownfoxjumpsoverthelazydog"


def test_a_table_of_too_many_columns_is_shown_one_value_a_line() -> None:
    heads = [f"c{i}" for i in range(20)]
    lines = list(grid(heads, [list(range(20))] * 2, 60))
    assert lines[:2] == ["c0   0", "c1   1"]
    assert lines.count("") == 1


@given(st.lists(st.text(max_size=40), min_size=1, max_size=6), st.integers(20, 100))
def test_no_line_of_a_table_is_wider_than_the_terminal_where_it_can_be(cells: list[str], room: int) -> None:
    lines = list(grid([f"c{i}" for i in range(len(cells))], [cells], room))
    if sum(min(max(width(safe(c)), 2), 8) for c in cells) + 2 * (len(cells) - 1) <= room:
        assert all(width(line) <= room for line in lines)


def test_values_are_shown_as_people_write_them() -> None:
    assert [shown(v) for v in (None, True, 1.5, b"\x01\xff", ["a", None], {"k": 1}, datetime(2024, 1, 2, 3, 4, 5))] == [
        "-",
        "true",
        "1.5",
        "01ff",
        "a, -",
        "k=1",
        "2024-01-02 03:04:05",
    ]
    assert (amount(0), amount(1023), amount(1024), amount(5 * 1024**3)) == ("0 B", "1023 B", "1.0 KiB", "5.0 GiB")
    assert (counted(1, "file"), counted(2000, "branch")) == ("1 file", "2,000 branches")
    assert (moment(None), moment(0), moment(10**20)) == ("-", "1970-01-01 00:00:00Z", f"{10**20} ms")


def test_json_has_no_values_that_json_lacks() -> None:
    assert plain([float("nan"), float("-inf"), Decimal("1.10"), b"\x00", {1: 2}]) == [
        "NaN",
        "-Infinity",
        "1.10",
        "AA==",
        {"1": 2},
    ]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Stream:
    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass


@pytest.mark.parametrize(("total", "line"), [(4, "copy: 25%, 1 of 4 files\n"), (None, "copy: 1 files\n")])
def test_logs_get_a_plain_line_every_ten_seconds(total: int | None, line: str) -> None:
    clock, stream = Clock(), Stream()
    log = Log(stream, clock)  # type: ignore[arg-type]
    for clock.now in (1.0, 9.9, 10.0, 15.0, 20.5):
        log.show(Progress("copy", 1, total, "files"))
    assert stream.text == line * 2


def test_a_terminal_gets_a_bar_that_goes_away() -> None:
    clock, stream = Clock(), Stream()
    bar = _Bar(stream, clock)  # type: ignore[arg-type]
    bar.show(Progress("copy\x1b", 1, 2, "files"))
    assert stream.text == ""
    clock.now = 1.0
    bar.show(Progress("copy\x1b", 1, 2, "files"))
    assert "copy\\x1b: [############............] 50%, 1 of 2 files" in stream.text
    bar.close()
    assert stream.text.endswith("\r\x1b[K")
