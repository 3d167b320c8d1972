"""Where the peers of the interoperability tests are: pinned versions, and what `setup.sh` has put into `.interop/`."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HOME = ROOT / ".interop"


class PeerMissingError(RuntimeError):
    """A peer is not installed; the message says what to run."""


def versions() -> dict[str, str]:
    """The pins of versions.env."""
    lines = (HERE / "versions.env").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def java_paimon_jar() -> Path:
    """The Java Paimon bundle.

    Raises:
        PeerMissingError: `setup.sh` has not run.
    """
    pins = versions()
    return _present(HOME / "jars" / f"{pins['JAVA_PAIMON_ARTIFACT']}-{pins['JAVA_PAIMON_VERSION']}.jar")


def pypaimon_python() -> Path:
    """The interpreter of the environment that holds pypaimon.

    Raises:
        PeerMissingError: `setup.sh` has not run.
    """
    return _present(HOME / "venv-pypaimon" / "bin" / "python")


def dbt_python() -> Path:
    """The interpreter of the environment that holds dbt, beside PySpark and this package.

    Raises:
        PeerMissingError: `setup.sh dbt` has not run.
    """
    return _present(HOME / "venv-dbt" / "bin" / "python")


def connector() -> tuple[Path, Path]:
    """The interpreter with a PySpark for Java Paimon's Spark connector, and the connector's jar.

    Raises:
        PeerMissingError: `setup.sh connector` has not run.
    """
    pins = versions()
    jar = HOME / "jars" / f"{pins['CONNECTOR_ARTIFACT']}-{pins['CONNECTOR_VERSION']}.jar"
    return _present(HOME / "venv-connector" / "bin" / "python"), _present(jar)


def hadoop_jars() -> str:
    """A class path with the Hadoop client that Java Paimon needs: the one that PySpark brings.

    Raises:
        PeerMissingError: this environment's PySpark has no jars (pyspark-client).
    """
    import pyspark

    jars = sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    wanted = (
        "hadoop-client",
        "slf4j-api",
        "log4j",
        "commons-logging",
        "jcl-over-slf4j",
        "commons-compress",
        "lz4-java",
        "snappy-java",
    )
    chosen = [str(jar) for jar in jars if jar.name.startswith(wanted)]
    if not chosen:
        raise PeerMissingError(
            "PySpark of this environment brings no Hadoop client jars; install pyspark, not pyspark-client"
        )
    return ":".join(chosen)


def _present(path: Path) -> Path:
    if not path.exists():
        raise PeerMissingError(
            f"{path.relative_to(ROOT)} is missing; run tests/interop/setup.sh connector dbt (make test-interop does)"
        )
    return path
