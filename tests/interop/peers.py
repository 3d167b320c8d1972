"""Where the peers of the interoperability tests are: pinned versions, and what `setup.sh` has put into `.interop/`."""

from __future__ import annotations

import os
import shutil
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


def hdfs_jars() -> str:
    """A class path with a whole HDFS of name nodes and data nodes.

    Raises:
        PeerMissingError: `make test-stores` has not run.
    """
    pins = versions()
    names = [f"hadoop-client-{part}-{pins['HADOOP_VERSION']}" for part in ("minicluster", "api", "runtime")]
    names.append(f"jaxb-api-{pins['JAXB_API_VERSION']}")
    ours = [str(_present(HOME / "jars" / f"{name}.jar")) for name in names]
    return os.pathsep.join([*ours, *_jars_of_pyspark("slf4j-api", "jcl-over-slf4j")])


def drivers() -> str:
    """A class path with the JDBC drivers of Java's metastores.

    Raises:
        PeerMissingError: `setup.sh catalogs` has not run.
    """
    pins = versions()
    names = (f"sqlite-jdbc-{pins['SQLITE_JDBC_VERSION']}", f"postgresql-{pins['POSTGRESQL_JDBC_VERSION']}")
    return os.pathsep.join(str(_present(HOME / "jars" / f"{name}.jar")) for name in names)


def rest_jars() -> str:
    """A class path with Java Paimon's own server of a REST catalog.

    Raises:
        PeerMissingError: `setup.sh catalogs` has not run.
    """
    pins = versions()
    names = [
        f"paimon-core-{pins['JAVA_PAIMON_VERSION']}-tests",
        f"mockwebserver-{pins['OKHTTP_VERSION']}",
        f"okhttp-{pins['OKHTTP_VERSION']}",
        f"okio-jvm-{pins['OKIO_VERSION']}",
        f"kotlin-stdlib-{pins['KOTLIN_VERSION']}",
        f"junit-{pins['JUNIT_VERSION']}",
        f"hamcrest-core-{pins['HAMCREST_VERSION']}",
    ]
    ours = [str(_present(HOME / "jars" / f"{name}.jar")) for name in names]
    return os.pathsep.join([str(java_paimon_jar()), *ours, hadoop_jars()])


def postgresql(name: str) -> Path:
    """A program of the newest PostgreSQL server.

    Raises:
        PeerMissingError: there is none.
    """
    found = shutil.which(name)
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda f: int(f.parent.name))
    return _present(Path(found) if found else folders[-1] / name if folders else HOME / "bin" / name)


def program(name: str) -> Path:
    """A server that `setup.sh` has built.

    Raises:
        PeerMissingError: it has not run.
    """
    return _present(HOME / "bin" / name)


def azurite() -> Path:
    """The blob server of Azurite.

    Raises:
        PeerMissingError: `make test-stores` has not run.
    """
    return _present(HOME / "azurite" / "node_modules" / ".bin" / "azurite-blob")


def hadoop_jars() -> str:
    """A class path with the Hadoop client that Java Paimon needs: the one that PySpark brings.

    Raises:
        PeerMissingError: this environment's PySpark has no jars (pyspark-client).
    """
    return os.pathsep.join(
        _jars_of_pyspark(
            "hadoop-client",
            "slf4j-api",
            "log4j",
            "commons-logging",
            "jcl-over-slf4j",
            "commons-compress",
            "lz4-java",
            "snappy-java",
        )
    )


def jars_folder() -> str:
    """A class path with all jars of PySpark, a Hive metastore and its client among them."""
    import pyspark

    return str(Path(pyspark.__file__).parent / "jars" / "*")


def _jars_of_pyspark(*names: str) -> list[str]:
    """The jars whose names begin so. Raises PeerMissingError: there is none."""
    import pyspark

    jars = sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    chosen = [str(jar) for jar in jars if jar.name.startswith(names)]
    if not chosen:
        raise PeerMissingError("PySpark of this environment brings no jars; install pyspark, not pyspark-client")
    return chosen


def _present(path: Path) -> Path:
    if not path.exists():
        raise PeerMissingError(
            f"{path} is missing; run tests/interop/setup.sh connector dbt catalogs hdfs azure s3 gcs "
            "(make test-interop and make test-stores do)"
        )
    return path
