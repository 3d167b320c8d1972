"""Words → a command and its arguments."""

from __future__ import annotations

import re
from typing import Any

import pytest

from paimon_spark.cli.commands import commands
from paimon_spark.cli.parser import _INSTEAD, choose, parse
from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.operations.operation import UsageError


def parsed(*words: str) -> tuple[str, dict[str, Any]]:
    chosen = choose(words, commands())
    assert chosen.operation is not None
    return chosen.operation.command, parse(chosen.operation, chosen.rest)


@pytest.mark.parametrize(
    "words",
    [
        "branch create db.t fix --tag v1 -w /wh",
        "-w /wh branch create --tag v1 db.t fix",
        "--warehouse=/wh branch create db.t --tag=v1 fix",
        "create-branch --warehouse /wh db.t fix --tag v1",
        "create_branch --warehouse /wh db.t --branch_name fix --tag_name v1",
        "CREATE-BRANCH -w /wh --table db.t --name fix --tag v1",
    ],
)
def test_a_command_may_be_written_in_several_ways(words: str) -> None:
    name, values = parsed(*words.split())
    assert name == "branch create"
    assert (values["table"], values["branch"], values["tag"], values["warehouse"]) == ("db.t", "fix", "v1", "/wh")


def test_words_after_two_hyphens_are_no_options() -> None:
    _, values = parsed("tag", "create", "db.t", "--", "-odd")
    assert values["tag"] == "-odd"


def test_values_keep_their_underscores() -> None:
    _, values = parsed("create_tag", "--table", "my_db.my_t", "--tag_name=a_b")
    assert (values["table"], values["tag"]) == ("my_db.my_t", "a_b")


def test_flags_may_say_true_or_false_as_other_engines_write_them() -> None:
    _, values = parsed("remove_orphan_files", "--table", "db.t", "--dry_run", "true", "--yes=false")
    assert (values["dry_run"], values["yes"]) == (True, False)


def test_a_flag_does_not_take_the_word_after_it() -> None:
    _, values = parsed("status", "--json", "db.t")
    assert (values["json"], values["table"]) == (True, "db.t")


def test_options_that_are_repeated_are_all_kept() -> None:
    _, values = parsed("show", "db.t", "-o", "fs.key=a=b", "--catalog_conf", "s3.endpoint=http://x")
    assert values["option"] == [("fs.key", "a=b"), ("s3.endpoint", "http://x")]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("brnach list db.t", "did you mean 'branch'"),
        ("branch lst db.t", "did you mean 'list'"),
        ("branch create db.t fix --tga v1", "did you mean '--tag'"),
        ("branch create db.t", "needs NAME"),
        ("branch list", "needs TABLE"),
        ("branch list db.t fix", "'fix' is too much"),
        ("branch create db.t fix --snapshot x", "--snapshot cannot be 'x'"),
        ("branch create db.t fix --tag", "^--tag needs a value"),
        ("log db.t -n", "^--limit needs a value"),
        ("status db.t --json=maybe", "takes no value"),
        ("show db.t -o nonsense", "^--option cannot be 'nonsense': expected KEY=VALUE"),
        ("lineage rebuild --checkpoint j", "^--checkpoint cannot be 'j': expected JOB=URL"),
        ("completion tcsh", "one of bash, zsh, fish"),
        ("table alter db.t --add justaname", "a column and its type"),
    ],
)
def test_what_is_written_wrongly_is_said_with_the_nearest_name(words: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        parsed(*words.split())


def test_an_action_that_is_not_here_says_what_to_do_instead() -> None:
    with pytest.raises(UnsupportedFeatureError, match="MERGE INTO"):
        parsed("merge_into", "--table", "db.t")


def test_every_command_and_alias_means_one_thing() -> None:
    names = [n for c in commands() for n in (c.command, *c.aliases)]
    assert len(names) == len(set(names))


def test_no_two_options_of_a_command_are_spelled_the_same() -> None:
    for command in commands():
        spelled = [s for a in (*command.options, *command.positionals) for s in {a.flag, *a.spellings}]
        twice = {s for s in spelled if spelled.count(s) > 1}
        assert not twice, (command.command, twice)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("history db.t", r"no command 'history'; `paimon-spark log TABLE` lists the commits"),
        ("describe db.t", r"no command 'describe'; `paimon-spark table show TABLE` shows the columns"),
        ("schema db.t", "paimon-spark table show TABLE"),
        ("snapshots db.t", "paimon-spark snapshot list TABLE"),
        ("tags db.t", "paimon-spark refs TABLE"),
        ("tables", "paimon-spark table list"),
    ],
)
def test_what_other_tools_call_a_command_names_ours(words: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        parsed(*words.split())


def test_the_commands_that_are_named_exist() -> None:
    for told in _INSTEAD.values():
        for named in re.findall(r"(?:^|paimon-spark )([a-z ]+?)(?: TABLE| --graph|`)", told):
            assert choose(named.split(), commands()).operation is not None, named
