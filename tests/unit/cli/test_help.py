"""Help, completion and the reference are whole."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from paimon_spark.cli.commands import commands
from paimon_spark.cli.help import completion
from paimon_spark.cli.main import main
from paimon_spark.cli.request import CommandRequest
from paimon_spark.operations.operation import Effect, Operation
from tools.reference.command_line import command_line_page

ALL = pytest.mark.parametrize("command", commands(), ids=lambda c: c.command)


@ALL
def test_every_command_and_argument_has_help(command: Operation) -> None:
    assert len(command.help) > 10
    assert not command.help.endswith(".")
    for argument in (*command.positionals, *command.options):
        assert argument.help, (command.command, argument.name)
        assert not argument.help.endswith("."), (command.command, argument.name)


@ALL
def test_every_command_prints_its_help(command: Operation, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.command.split(), "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: paimon-spark {command.command}")
    for argument in (*command.positionals, *command.options):
        assert argument.shown in out if argument.positional else argument.flag in out
    assert max(map(len, out.splitlines())) <= 120


@ALL
def test_what_deletes_can_be_tried_without_doing_it(command: Operation) -> None:
    names = {a.name for a in command.options}
    assert ({"dry_run", "yes"} <= names) == (command.effect is Effect.DELETE)
    assert "json" in names


def test_the_whole_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert [c.command for c in commands() if c.command not in out] == []
    assert "exit codes:" in out


def test_a_noun_alone_lists_its_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["branch", "--help"]) == 0
    assert "branch replace-main" in capsys.readouterr().out
    assert main(["branch"]) == 2
    assert "branch replace-main" in capsys.readouterr().err


def test_no_words_at_all_are_wrong_usage_that_is_helped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("usage:")


def test_the_reference_has_every_command_and_alias() -> None:
    page = command_line_page()
    for command in commands():
        assert command.is_action or f"### {command.command}\n" in page
        assert all(f"| `{name}` |" in page for name in command.action_names)
        assert all(f"`{name}`" in page for name in command.synonyms)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_whole_and_a_shell_can_read_it(shell: str) -> None:
    script = completion(shell, commands())
    for command in commands():
        assert all(word in script for word in (*command.command.split(), *command.aliases))
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_bash_completes_verbs_options_and_choices() -> None:
    script = completion("bash", commands())

    def offered(*words: str) -> list[str]:
        line = " ".join(f"'{w}'" for w in words)
        probe = f'{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _paimon_spark; echo "${{COMPREPLY[@]}}"'
        return subprocess.run(["bash", "-c", probe], capture_output=True, text=True, check=True).stdout.split()

    assert offered("paimon-spark", "bran") == ["branch"]
    assert offered("paimon-spark", "branch", "re") == ["rename", "replace-main"]
    assert offered("paimon-spark", "-w", "/wh", "branch", "create", "db.t", "--ta") == ["--tag"]
    assert offered("paimon-spark", "create_branch", "--ta") == ["--tag", "--table"] or "--tag" in offered(
        "paimon-spark", "create-branch", "--ta"
    )
    assert offered("paimon-spark", "completion", "z") == ["zsh"]


def test_a_call_gives_none_for_arguments_that_a_command_lacks() -> None:
    assert CommandRequest({}, "x")["branch"] is None
