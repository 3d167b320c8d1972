"""Commands for pipeline branches and releases, from the fault to the publication and back."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark import Catalog
from paimon_spark.cli import request
from tests.harness.command_line import CommandLine


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """orders → daily, by job `sum`: right rows, then wrong ones."""
    made = paimon_spark.load_catalog(str(tmp_path / "wh"))
    made.create_database("shop")
    for name in ("orders", "daily"):
        made.create_table(f"shop.{name}", "id BIGINT")
    made.lineage.enable()
    for value in (1, -2):
        made.table("shop.orders").write(pa.table({"id": [value]}))
        rows = made.table("shop.orders").scan(**{"lineage.job": "sum"}).to_arrow()
        made.table("shop.daily").write(rows, mode="overwrite", **{"lineage.job": "sum"})
    return made


@pytest.fixture
def cli(catalog: Catalog, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(Path(catalog.warehouse), capsys)


def test_from_the_fault_to_the_release_and_back(cli: CommandLine, catalog: Catalog) -> None:
    assert cli.done("pipeline", "show", "shop.orders").out.splitlines()[:3] == [
        "2 tables, 1 job", "-  shop.orders", "1  shop.daily  written by sum",
    ]  # fmt: skip
    assert cli.done("pipeline", "show", "shop.orders", "--graph").out.startswith("flowchart LR")
    planned = cli.done("pipeline", "branch", "fix", "shop.orders", "--before", "shop.orders=2", "--dry-run")
    assert "would start from before shop.orders, snapshot 2" in planned.out
    assert cli.done("pipeline", "list").out.strip() == "no pipeline branches"
    made = cli.done("pipeline", "branch", "fix", "shop.orders", "--before", "shop.orders=2", "--json")
    assert made.json["tables"] == {"shop.orders": 1, "shop.daily": 1}
    assert cli.done("pipeline", "list", "--json").json[0]["name"] == "fix"
    (step,) = cli.done("pipeline", "replay", "fix", "--json").json
    assert (step["job"], step["kind"], step["sinks"]) == ("sum", "batch", ["shop.daily$branch_fix"])
    for name in ("orders", "daily"):
        catalog.table(f"shop.{name}").branch("fix").write(pa.table({"id": [2]}))
    differs = cli("pipeline", "diff", "fix")
    assert differs.code == 1
    assert "shop.daily" in differs.out
    assert "changed" in differs.out
    assert "files" in cli("pipeline", "diff", "fix", "--files").out
    refused = cli("pipeline", "publish", "fix", "--yes")
    assert refused.code != 0
    assert "main has commits" in refused.err
    shown = cli.done("pipeline", "publish", "fix", "--if-main-moved", "replace", "--dry-run")
    assert shown.out.splitlines()[2::2] == [
        "    rows: main would lose 1 and gain 1", "    rows: main would lose 2 and gain 2",
    ]  # fmt: skip
    assert shown.out.startswith("a release would be: branch fix") and "main would lose 1 snapshot (2)" in shown.out
    other_head = ("--only-if-main-is", "shop.orders=1")
    moved = cli("pipeline", "publish", "fix", "--if-main-moved", "replace", "--yes", *other_head)
    assert moved.code == 2 and "at snapshot 2, not at 1 as --only-if-main-is demands" in moved.err
    assert cli("pipeline", "publish", "fix", "--yes", "--only-if-main-is", "shop.orders").code == 2
    assert cli.done("release", "list").out.strip() == "no releases"
    done = cli.done("pipeline", "publish", "fix", "--if-main-moved", "replace", "--yes", "--json").json
    assert (done["id"], done["tables"]) == (1, {"shop.orders": 2, "shop.daily": 2})
    assert done["changes"]["shop.orders"]["rows_lost"] == 1
    again = cli.done("pipeline", "publish", "fix", "--yes", "--only-if-main-is", "shop.orders=2").out
    told = "nothing to publish: main of all tables has all changes of branch fix\nno release was made\n"
    assert again.startswith(told)
    assert sorted(catalog.table("shop.daily").scan().to_arrow()["id"].to_pylist()) == [1, 2]
    assert cli.done("release", "list", "--json").json[0]["id"] == 1
    undone = cli.done("release", "undo", "--yes").out
    assert "undo of release 1" in undone and "\nnext: correct the branch and publish it again" in undone
    assert sorted(catalog.table("shop.daily").scan().to_arrow()["id"].to_pylist()) == [-2, 1]
    assert "by 2" in cli.done("release", "list").out
    assert cli("release", "undo", "1", "--yes").code != 0
    assert "deleted pipeline branch fix" in cli.done("pipeline", "delete", "fix", "--yes").out
    assert [b.name for b in catalog.table("shop.daily").branches() if not b.name.startswith("main_backup")] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("pipeline", "branch", "fix", "shop.orders", "--before", "shop.orders"), "TABLE=SNAPSHOT"),
        (("pipeline", "branch", "fix", "shop.orders", "--tag", "a", "--timestamp", "2024-01-01"), "one of"),
        (("pipeline", "publish", "fox", "--yes"), "no pipeline branch 'fox'"),
        (("release", "undo", "--yes"), "no release to undo"),
        (("pipeline", "show", "shop.order"), "did you mean 'orders'"),
    ],
)
def test_wrong_words_are_refused(cli: CommandLine, words: tuple[str, ...], message: str) -> None:
    ran = cli(*words)
    assert ran.code != 0
    assert message in ran.err


@pytest.mark.parametrize("verb", ["check", "publish", "rerun"])
def test_spark_is_started_as_for_sql(cli: CommandLine, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    def started(*, verbose: bool) -> None:
        raise RuntimeError(f"started, verbose={verbose}")

    cli.done("pipeline", "branch", "fix", "shop.orders")
    monkeypatch.setattr(request, "spark_session", started)
    checks = () if verb == "rerun" else ("--check", "none=SELECT * FROM {shop.orders}")
    confirmed = () if verb == "check" else ("--yes",)
    assert "started, verbose=False" in cli("pipeline", verb, "fix", *checks, *confirmed).err
    if verb == "rerun":
        assert "started" not in cli("pipeline", verb, "fix", "--dry-run").err
