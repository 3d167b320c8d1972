"""Commands on a warehouse in S3, reached by what options, the environment or the configuration file say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from paimon_spark.cli.main import main
from tests.harness.command_line import Ran, fill_orders
from tests.harness.s3_server import make_bucket, s3_server

pytestmark = [pytest.mark.s3, pytest.mark.slow]
WAREHOUSE = "s3://lake/wh"


class OnS3:
    """Runs commands with the words that tell where the warehouse is and who asks."""

    def __init__(self, told: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        self.told, self.capsys = told, capsys

    def __call__(self, *words: str) -> Ran:
        code = main([*words, *self.told])
        captured = self.capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    def done(self, *words: str) -> Ran:
        ran = self(*words)
        assert (ran.code, complaints(ran)) == (0, [])
        return ran


def complaints(ran: Ran) -> list[str]:
    """Lines on stderr but those that slow work tells of its progress every ten seconds."""
    return [line for line in ran.err.splitlines() if not re.fullmatch(r"[^:]+: ([\d,]+|\d+%, .* of [\d,]+) \w+", line)]


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.fixture
def options(server: dict[str, str]) -> Iterator[dict[str, str]]:
    """How to reach a bucket that holds the warehouse with `db.orders` alone."""
    fs = make_bucket(server, "lake")
    fill_orders(WAREHOUSE, **server)
    yield server
    fs.rm("lake", recursive=True)


def as_options(options: dict[str, str]) -> list[str]:
    return [word for key, value in options.items() for word in ("-o", f"{key}={value}")]


@pytest.fixture
def cli(options: dict[str, str], capsys: pytest.CaptureFixture[str]) -> OnS3:
    return OnS3(["--warehouse", WAREHOUSE, *as_options(options)], capsys)


def test_commands_work_on_a_warehouse_in_s3(cli: OnS3) -> None:
    graph = cli.done("log", "db.orders", "--graph").golden
    assert [part in graph for part in ("[main]", "[fix]", "tag v1", "|/")] == [True] * 4
    assert [r["name"] for r in cli.done("refs", "db.orders", "--json").json] == ["v1", "fix", "v1"]
    differ = cli("diff", "db.orders", "main..fix", "--stat")
    assert (differ.code, complaints(differ)) == (1, [])
    assert differ.out.splitlines()[-2:] == ["dt=2024-01-01  1  +", "dt=2024-01-02  2  --"]

    cli.done("tag", "create", "db.orders", "v2")
    cli.done("branch", "create", "db.orders", "more", "--tag", "v2")
    assert [b["name"] for b in cli.done("branch", "list", "db.orders", "--json").json] == ["fix", "more"]
    cli.done("tag", "delete", "db.orders", "v2", "--yes")
    assert [t["name"] for t in cli.done("tag", "list", "db.orders", "--json").json] == ["v1"]
    assert "fix" in cli.done("branch", "merge", "db.orders", "fix", "--if-main-moved", "replace", "--yes").out
    assert sorted(r["id"] for r in cli.done("show", "db.orders", "--json").json) == [1, 2, 3, 6]

    would = cli.done("snapshot", "expire", "db.orders", "--retain-max", "1", "--retain-min", "1", "--dry-run")
    assert would.out.startswith("would expire")
    assert cli.done("doctor", "db.orders").out == "nothing is wrong with db.orders\n"


@pytest.mark.parametrize("told_by", ["environment", "configuration file"])
def test_who_asks_may_be_said_by_the_environment_or_a_file(
    told_by: str,
    options: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if told_by == "environment":
        monkeypatch.setenv("PAIMON_WAREHOUSE", WAREHOUSE)
        monkeypatch.setenv("AWS_ENDPOINT_URL", options["s3.endpoint"])
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", options["s3.access-key"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", options["s3.secret-key"])
        monkeypatch.setenv("AWS_DEFAULT_REGION", options["s3.region"])
    else:
        file = tmp_path / "config.toml"
        lines = [
            f'warehouse = "{WAREHOUSE}"',
            "[s3]",
            *(f'{k.removeprefix("s3.")} = "{v}"' for k, v in options.items()),
        ]
        file.write_text("\n".join(lines))
        monkeypatch.setenv("PAIMON_CONFIG", str(file))
    cli = OnS3([], capsys)
    assert cli.done("table", "list", "--json").json == ["db.orders"]
    assert cli.done("status", "db.orders").out.splitlines()[1] == f"{WAREHOUSE}/db.db/orders"
    assert cli.done("status", f"{WAREHOUSE}/db.db/orders").out.splitlines()[1] == f"{WAREHOUSE}/db.db/orders"
    cli.done("tag", "create", "db.orders", "v2")


def test_a_prefix_without_objects_is_an_empty_warehouse_and_says_so(
    options: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    url = "s3://lake/typo"
    ran = OnS3(["--warehouse", url, *as_options(options)], capsys)("table", "list")
    assert (ran.code, ran.out) == (0, "no tables\n")
    assert f"warning: warehouse {url} is empty: the store has no object under it" in ran.err


@pytest.mark.parametrize("words", ["table list", "status db.t", "database create db"])
def test_a_bucket_that_does_not_exist_is_an_error(
    options: dict[str, str], capsys: pytest.CaptureFixture[str], words: str
) -> None:
    ran = OnS3(["--warehouse", "s3://no-such-bucket/wh", *as_options(options)], capsys)(*words.split())
    assert (ran.code, ran.out) == (5, "")
    assert "there is no bucket 'no-such-bucket' at http://" in ran.err


def test_without_credentials_the_store_says_what_is_missing(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    ran = OnS3(["--warehouse", WAREHOUSE, "-o", f"s3.endpoint={options['s3.endpoint']}"], capsys)("table", "list")
    assert (ran.code, ran.out) == (5, "")
    assert "give s3.access-key and s3.secret-key" in ran.err
