"""The program itself."""

from __future__ import annotations

import platform
from importlib import metadata
from pathlib import Path

from paimon_spark import __version__
from paimon_spark.cli.answer import Answer, facts, lines, sentence
from paimon_spark.cli.call import Call
from paimon_spark.cli.command import Argument, Command, Scope

_PACKAGES = ("pyspark", "pyarrow", "fsspec", "sqlglot")


def _version(call: Call) -> Answer:
    packages = {name: _version_of(name) for name in _PACKAGES}
    return facts({"paimon-spark": __version__, "python": platform.python_version(), **packages})


def _version_of(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _completion(call: Call) -> Answer:
    from paimon_spark.cli.completion import completion
    from paimon_spark.cli.registry import commands

    script = completion(call["shell"], commands())
    return lines(script.splitlines(), {"shell": call["shell"], "script": script})


def _job_script(call: Call) -> Answer:
    path = str(Path(__file__).resolve().parents[1] / "job.py")
    return sentence(path, {"path": path})


COMMANDS = (
    Command("version", None, "print versions", _version, scope=Scope.NOTHING),
    Command(
        "completion",
        None,
        "print a script that completes commands in a shell",
        _completion,
        (Argument("shell", "shell", positional=True, required=True, choices=("bash", "zsh", "fish")),),
        scope=Scope.NOTHING,
        details='For bash: eval "$(paimon-spark completion bash)". For fish: paimon-spark completion fish | source.',
    ),
    Command(
        "job-script",
        None,
        "print the path of the script that runs any command as a Spark job",
        _job_script,
        scope=Scope.NOTHING,
        details='spark-submit "$(paimon-spark job-script)" compact db.t --warehouse s3://lake/wh',
    ),
)
