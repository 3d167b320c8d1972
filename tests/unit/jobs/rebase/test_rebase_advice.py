"""The advice in errors of a publication works: for one table, and for several."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark import Catalog, Table
from paimon_spark.advice import Entrance, reworded
from paimon_spark.cli.exit_codes import error_text
from paimon_spark.errors import BranchDivergedError, UnsupportedFeatureError

KEYS: Final[dict[str, Any]] = {"primary_keys": ["k"]}
KINDS: Final[dict[str, dict[str, Any]]] = {
    "deduplicate": {"options": {"bucket": "1"}, **KEYS},
    "ignore-delete": {"options": {"bucket": "1", "ignore-delete": "true"}, **KEYS},
    "sequence": {"options": {"bucket": "1", "sequence.field": "n"}, **KEYS},
    "partial-update": {"options": {"bucket": "1", "merge-engine": "partial-update"}, **KEYS},
    "aggregation": {
        "options": {"bucket": "1", "merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}, **KEYS,
    },
    "append": {},
    "row tracking": {"options": {"row-tracking.enabled": "true"}},
}  # fmt: skip


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = paimon_spark.load_catalog(str(tmp_path / "wh"))
    made.create_database("d")
    made.lineage.enable()
    return made


def put(table: Table, **rows: int) -> None:
    table.write(pa.table({"k": list(rows), "n": pa.array(rows.values(), pa.int64())}))


def change(table: Table, key: str, n: int) -> None:
    if not table.schema.primary_keys:
        table.delete(f"k = '{key}'")
    put(table, **{key: n})


def started(catalog: Catalog, name: str, kind: str) -> Table:
    """A table of four keys."""
    table = catalog.create_table(name, "k STRING, n BIGINT", **KINDS[kind])
    put(table, a=9, b=9, c=9, d=9)
    return table


def part(table: Table) -> None:
    """Main and branch `fix` change one key to different rows, and another one each."""
    fix = table.branch("fix")
    change(table, "a", 12)
    change(table, "b", 13)
    change(fix, "a", 11)
    change(fix, "c", 14)
    change(fix, "c", 8)


def advised(message: str) -> list[dict[str, Any]]:
    """The arguments that a message advises, each with the rebase that it is for."""
    out: list[dict[str, Any]] = []
    for names in re.findall(r"on_conflict=('\w+'(?:, '\w+')*(?:,[^;']*)?(?: or '\w+')?)", message):
        out += [{"on_conflict": name} for name in re.findall(r"'(\w+)'", names) if name in ("ours", "theirs", "newest")]
    out += [{"if_main_moved": way} for way in re.findall(r"if_main_moved='(\w+)'", message)]
    out += [{"replace": [table]} for table in re.findall(r"replace=\['([^']+)'\]", message)]
    return out


def is_given(advice: dict[str, Any], given: dict[str, Any]) -> bool:
    if "replace" in advice:
        return set(advice["replace"]) <= set(given.get("replace", ()))
    return advice.items() <= given.items()


def refusal(publish: Callable[..., object], given: dict[str, Any]) -> str | None:
    """The message of the error; None where it is published."""
    try:
        publish(**given, dry_run=True)
    except (BranchDivergedError, UnsupportedFeatureError) as e:
        return e.message
    return None


def ends(publish: Callable[..., object]) -> dict[str, list[dict[str, Any]]]:
    """Follow each advice, from a plain publication on: the arguments that were refused, and what each refusal advised.

    No refusal advises what was given already, and one of them advises what works.
    """
    refusals: dict[str, list[dict[str, Any]]] = {}
    waiting: list[dict[str, Any]] = [{}]
    works = False
    while waiting:
        given = waiting.pop()
        if str(given) in refusals:
            continue
        message = refusal(publish, given)
        if message is None:
            works = True
            continue
        found = advised(message)
        assert found, message
        again = [a for a in found if is_given(a, given)]
        assert not again, f"{given} is refused and advised: {message}"
        refusals[str(given)] = found
        for a in found:
            more = {"replace": [*given.get("replace", ()), *a["replace"]]} if "replace" in a else a
            waiting.append({**({} if "if_main_moved" in a else given), **more})
    assert works
    return refusals


@pytest.mark.parametrize("kind", KINDS)
def test_each_advice_for_a_table_leads_to_a_publication(catalog: Catalog, kind: str) -> None:
    table = started(catalog, "d.t", kind)
    table.create_branch("fix")
    part(table)
    refusals = ends(lambda **given: table.merge_branch("fix", **given))
    assert {"if_main_moved": "replace"} in refusals["{}"] and {"if_main_moved": "rebase"} in refusals["{}"]


@pytest.mark.parametrize("kind", KINDS)
def test_each_advice_for_a_pipeline_leads_to_a_publication(catalog: Catalog, kind: str) -> None:
    table, other = started(catalog, "d.t", kind), started(catalog, "d.other", "deduplicate")
    made = catalog.pipeline("d.t", "d.other").branch("fix")
    part(table)
    put(other, z=1)
    put(other.branch("fix"), y=1)
    refusals = ends(made.publish)
    every = [advice for found in refusals.values() for advice in found]
    assert {"if_main_moved": "replace"} not in every, "which would replace main of the other table, too"
    assert {"replace": ["d.t"]} in every


def test_a_rebase_onto_another_branch_is_not_told_to_replace_it(catalog: Catalog) -> None:
    table = started(catalog, "d.t", "aggregation")
    table.create_branch("fix")
    table.create_branch("stage")
    change(table.branch("stage"), "a", 12)
    change(table.branch("fix"), "a", 11)
    with pytest.raises(UnsupportedFeatureError, match="make the same change on branch 'stage'") as e:
        table.merge_branch("fix", target="stage", if_main_moved="rebase", on_conflict="theirs")
    assert "replace" not in e.value.message


def test_the_same_advice_in_a_shell_and_in_sql() -> None:
    text = "pass replace=['d.t'], so that main becomes the branch: Table.diff('main', 'fix', rows=True) shows them"
    shell = error_text(BranchDivergedError(text, table="d.t"), as_json=False)
    assert shell == (
        "error: pass --replace d.t, so that main becomes the branch: `paimon-spark diff d.t main fix --rows` shows them"
    )
    assert reworded("Table.diff('main', 'fix', rows=True) shows them", Entrance.CALL) == (
        "SELECT * FROM paimon_table_diff(…, 'main', 'fix') shows them"
    )
    assert reworded("use on_conflict='ours'", Entrance.CALL) == "use on_conflict => 'ours'"
