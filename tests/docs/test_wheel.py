"""The wheel alone, in a fresh virtual environment: what a new user meets first."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from tests.docs.snippets import snippets

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input")


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False, timeout=600,
        env={**_plain(), **environment},
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


def _plain() -> dict[str, str]:
    """The environment without what belongs to this one's Python."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "PYTHON", "VIRTUAL_ENV", "PAIMON_"))}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment with the wheel and what it needs, and nothing else."""
    home = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", home / "venv", cwd=home)
    programs = home / "venv" / "bin"
    run(programs / "python", *PIP, "install", wheel, cwd=home)
    return programs


def test_the_wheel_holds_the_package_and_nothing_of_its_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"paimon_spark", "pyspark_paimon.py", "pyspark_paimon_py.py"}
    assert "paimon_spark/py.typed" in names
    assert not [name for name in names if name.endswith("NOTES.md")]


def test_the_wheel_says_what_it_is_and_needs(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    [name] = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
    said = Parser().parsestr(archive.read(name).decode())
    assert (said["Name"], said["License-Expression"]) == ("paimon-spark", "Apache-2.0")
    assert said["Requires-Python"] == ">=3.11"
    always = {
        n.split(">")[0].split("<")[0].split("[")[0] for n in said.get_all("Requires-Dist", []) if "extra" not in n
    }
    assert always == {"pyspark", "pyarrow", "numpy", "pandas", "fsspec", "fastavro", "zstandard", "sqlglot"}
    assert str(said.get_payload()).startswith("# ")


def test_what_is_installed_fits_together(installed: Path, tmp_path: Path) -> None:
    run(installed / "python", *PIP, "check", cwd=tmp_path)
    assert (installed / "paimon-spark").is_file()


def test_the_quick_start_runs_in_a_fresh_environment(installed: Path, tmp_path: Path) -> None:
    page = snippets("docs/index.md", (ROOT / "docs/index.md").read_text(encoding="utf-8"))
    code = "\n".join(s.text for s in page if s.language == "python").replace("/warehouse", f"{tmp_path}/warehouse")
    (tmp_path / "quick_start.py").write_text(code, encoding="utf-8")
    shell = "\n".join(s.text for s in page if s.language == "sh" and s.not_run is None)
    path = f"{installed}{os.pathsep}{os.environ['PATH']}"  # as an environment that is activated
    shown = run("python", "quick_start.py", cwd=tmp_path, PATH=path)
    for snippet in page:
        if snippet.language == "python" and snippet.prints is not None:
            assert snippet.prints.strip() in shown
    log = run("bash", "-euc", shell.replace("/warehouse", f"{tmp_path}/warehouse"), cwd=tmp_path, PATH=path)
    assert "v1" in log


def test_an_environment_need_not_be_activated_and_is_named_where_another_python_was_chosen(
    installed: Path, tmp_path: Path
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    other = programs / "python3"  # without packages
    other.write_text(f'#!/bin/sh\nexec {Path(sys.executable).resolve()} -S "$@"\n')
    other.chmod(0o755)
    (tmp_path / "job.py").write_text(
        "import paimon_spark\n"
        "import pyarrow as pa\n"
        f"catalog = paimon_spark.load_catalog({str(tmp_path / 'warehouse')!r})\n"
        "catalog.create_database('d', ignore_if_exists=True)\n"
        "catalog.drop_table('d.t', ignore_if_not_exists=True)\n"
        "table = catalog.create_table('d.t', 'id INT')\n"
        "table.write(pa.table({'id': pa.array([7], pa.int32())}))\n"
        "print(catalog.sql('SELECT id FROM d.t').first().id)  # by Spark's own readers\n"
        "for statement in ('INSERT INTO d.t VALUES (1)', 'DELETE FROM d.t WHERE id + 1 = 8'):\n"
        "    try:\n"
        "        catalog.sql(statement).show()\n"
        "    except paimon_spark.PaimonError as e:\n"
        "        print(e)\n"
    )
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    worked = run(installed / "python", "job.py", cwd=tmp_path, PATH=path)
    assert worked.startswith("7\n") and worked.count("num_affected_rows") == 2
    shown = run(installed / "python", "job.py", cwd=tmp_path, PATH=path, PYSPARK_PYTHON="python3").splitlines()
    assert len(shown) == 3, shown
    assert shown[0] == "7"
    for text in shown[1:]:
        assert text.startswith("Spark's Python workers cannot import paimon_spark: they run 'python3'; activate the ")
        assert f"PYSPARK_PYTHON to '{installed / 'python'}' before the session starts" in text


def test_the_command_line_helps_without_spark(installed: Path, tmp_path: Path) -> None:
    for words in (["--help"], ["branch", "create", "--help"], ["--version"]):
        assert "paimon-spark" in run(installed / "paimon-spark", *words, cwd=tmp_path, JAVA_HOME="/nowhere")


@pytest.fixture(scope="module")
def bare(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment with what the package needs, without the package."""
    home = tmp_path_factory.mktemp("bare")
    run(sys.executable, "-m", "venv", "--without-pip", home / "venv", cwd=home)
    [theirs] = (installed.parent / "lib").glob("python*/site-packages")
    [ours] = (home / "venv" / "lib").glob("python*/site-packages")
    for entry in theirs.iterdir():
        if not entry.name.startswith(("paimon_spark", "pyspark_paimon")):
            (ours / entry.name).symlink_to(entry)
    return home / "venv" / "bin"


def test_a_job_brings_the_package_by_py_files(wheel: Path, bare: Path, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(
        "import paimon_spark\n"
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        "paimon_spark.register(spark)\n"
        f"spark.range(5).write.format('paimon').mode('append').save('file:{tmp_path}/t')\n"
        f"print('by path:', spark.read.format('paimon').load('file:{tmp_path}/t').count())\n"
        f"paimon_spark.attach(spark, '{tmp_path}/warehouse')\n"
        "spark.sql('CREATE DATABASE paimon.d')\n"
        "spark.sql('CREATE TABLE paimon.d.t AS SELECT id FROM range(7)')\n"
        "print('by name:', spark.table('paimon.d.t').where('id >= 0').count())\n"
    )
    [spark_submit] = bare.parent.glob("lib/python*/site-packages/pyspark/bin/spark-submit")
    shown = run(
        *(spark_submit, "--master", "local-cluster[1,1,1024]", "--conf", "spark.log.level=ERROR"),
        *("--conf", "spark.ui.enabled=false", "--py-files", wheel, "job.py"),
        cwd=tmp_path,
        PYSPARK_PYTHON=str(bare / "python"),
    )
    assert "by path: 5" in shown
    assert "by name: 7" in shown
