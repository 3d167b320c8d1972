"""Every piece of code in README.md and docs is run, page by page, and prints what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.docs.pages import PREPARED, prepare
from tests.docs.running import Door, Stage, run, statements
from tests.docs.snippets import Snippet, differs, snippets

pytestmark = [pytest.mark.spark, pytest.mark.newest]

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
MOST_NOT_RUN = 16


def code_of(page: str) -> list[Snippet]:
    return snippets(page, (ROOT / page).read_text(encoding="utf-8"))


def runs() -> list[tuple[str, Door]]:
    """The pages, each with what runs its SQL blocks: the one door and the other."""
    languages = {page: {s.language for s in code_of(page) if s.not_run is None} for page in PAGES}
    return [
        (p, door) for p, found in languages.items() if found for door in Door if door is Door.SPARK or "sql" in found
    ]


@pytest.mark.parametrize(("page", "door"), runs(), ids=lambda value: value.value if isinstance(value, Door) else value)
def test_the_code_of_a_page_runs_as_it_stands_there(page: str, door: Door, spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage(spark, tmp_path, door)
    prepare(page, stage)
    try:
        failed = failures(page, stage)
    finally:
        stage.detach()
    assert not failed, "\n\n".join(failed)


def failures(page: str, stage: Stage) -> list[str]:
    """Run a page; what failed."""
    failed = []
    for snippet in code_of(page):
        if snippet.not_run is None:
            try:
                run(snippet, stage)
            except Exception as e:  # noqa: BLE001 - the rest of the page is run, to tell of everything at once
                failed.append(f"{snippet}: {type(e).__name__}: {str(e)[:1500]}")
    for query in stage.spark.streams.active:
        query.stop()
    return failed


def test_few_pieces_of_code_are_not_run_and_each_says_why() -> None:
    not_run = [s for page in PAGES for s in code_of(page) if s.not_run is not None]
    assert len(not_run) <= MOST_NOT_RUN, [f"{s}: {s.not_run}" for s in not_run]
    assert all(s.not_run for s in not_run)


def test_what_is_prepared_is_for_pages_that_are_there() -> None:
    assert set(PREPARED) <= set(PAGES)


def test_a_page_is_read_as_its_code_with_what_it_prints() -> None:
    text = (
        "Prose.\n\n<!-- not run: needs a cluster -->\n```sh\nspark-submit x\n```\n\n"
        "- a list\n\n    ```python\n    if 1:\n        print(2)\n    ```\n\n```text\n2\n```\n\n"
        "```sql\nSELECT 1\n```\n\nProse.\n\n```text\nno output\n```\n"
    )
    assert snippets("p.md", text) == [
        Snippet("p.md", 5, "sh", "spark-submit x\n", "needs a cluster"),
        Snippet("p.md", 11, "python", "if 1:\n    print(2)\n", None, "2\n"),
        Snippet("p.md", 20, "sql", "SELECT 1\n"),
    ]


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\nb\n", "a  \nb\n\n", True),
        ("a … c\n", "a 17 c\n", True),
        ("a … c\n", "a 17 d\n", False),
        ("a\n…\nd\n", "a\nb\nc\nd\n", True),
        ("a\n…\nd\n", "a\nd\n", True),
        ("a\n", "a\nb\n", False),
        ("a.c\n", "abc\n", False),
    ],
)
def test_what_a_page_shows_is_compared_up_to_dots(shown: str, printed: str, same: bool) -> None:
    assert differs(shown, printed) is not same


def test_statements_end_at_semicolons_outside_of_quotes_and_comments() -> None:
    sql = "SELECT ';' -- a;b\n;\n\nSELECT 2; -- the end\n"
    assert list(statements(sql)) == ["SELECT ';' -- a;b", "SELECT 2"]
