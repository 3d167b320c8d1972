"""Servers that tests of stores start: HDFS, S3, Google Cloud Storage and Azure. `setup.sh` gets them.

Each function is a context manager that gives what reaches its server. A server ends with it.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen
from xml.sax.saxutils import escape

from tests.harness.server_start import ServerError, first_line, log_end, reserved_port, wait_for_answer
from tests.interop import peers
from tests.stores.gcs_front import xml_front

_JAVA = Path(__file__).resolve().parent / "java"


@dataclass
class NameNode:
    """Where a name node listens: its own protocol, and WebHDFS."""

    rpc: str
    web: str


class Hdfs:
    """A running HDFS: its name nodes, and what can be done to them."""

    def __init__(self, process: subprocess.Popen[str], name_nodes: list[NameNode]) -> None:
        self._process = process
        self.name_nodes = name_nodes

    def do(self, command: str) -> None:
        """`activate <index>`, `standby <index>` or `safemode on|off`."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        assert answer == "done", answer


@contextmanager
def hdfs(name_nodes: int = 1) -> Iterator[Hdfs]:
    """HDFS with one data node, and a pair of name nodes when asked for two: the first is active."""
    with tempfile.TemporaryDirectory(prefix="hdfs-") as folder:
        classes = f"{folder}/classes"
        class_path = os.pathsep.join([classes, peers.hdfs_jars()])
        subprocess.run(["javac", "-cp", class_path, "-d", classes, str(_JAVA / "MiniHdfs.java")], check=True)
        command = ["java", "-Xmx512m", "-cp", class_path, "MiniHdfs", f"{folder}/data", str(name_nodes)]
        with _started(command, Path(folder, "log")) as process:
            words = _ready(process, Path(folder, "log"))
            found = zip(words[1::2], words[2::2], strict=True)
            yield Hdfs(process, [NameNode(f"127.0.0.1:{rpc}", web) for rpc, web in found])


@contextmanager
def s3() -> Iterator[dict[str, str]]:
    """versitygw over a folder, which has the bucket `bucket`; gives the options that reach it."""
    with reserved_port() as port, tempfile.TemporaryDirectory(prefix="s3-") as folder:
        Path(folder, "data", "bucket").mkdir(parents=True)
        command = [str(peers.program("versitygw")), "--port", f"127.0.0.1:{port}", "posix", f"{folder}/data"]
        keys = {"ROOT_ACCESS_KEY": "test", "ROOT_SECRET_KEY": "test-secret"}
        with _server(command, f"http://127.0.0.1:{port}", folder, keys):
            yield {
                "s3.endpoint": f"http://127.0.0.1:{port}",
                "s3.access-key": "test",
                "s3.secret-key": "test-secret",
                "s3.region": "us-east-1",
                "s3.path.style.access": "true",
            }


@contextmanager
def gcs() -> Iterator[dict[str, str]]:
    """fake-gcs-server in memory, which has the bucket `bucket`; gives the options that reach its XML interface."""
    with reserved_port() as port, tempfile.TemporaryDirectory(prefix="gcs-") as folder:
        address = f"http://127.0.0.1:{port}"
        Path(folder, "data", "bucket").mkdir(parents=True)
        options = {"-scheme": "http", "-host": "127.0.0.1", "-port": str(port), "-backend": "memory"}
        options |= {"-public-host": f"127.0.0.1:{port}", "-external-url": address, "-data": f"{folder}/data"}
        command = [str(peers.program("fake-gcs-server")), *(word for pair in options.items() for word in pair)]
        with _server(command, f"{address}/storage/v1/b", folder), xml_front(port) as front:
            yield {"fs.endpoint_url": front, "fs.token": "anon", "fs.project": "test"}


_AZURE_ACCOUNT = "devstoreaccount1"
_AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Published by Microsoft, for emulators alone."""


@contextmanager
def azure() -> Iterator[dict[str, str]]:
    """Azurite, which has no container yet; gives the options that reach it."""
    with reserved_port() as port, tempfile.TemporaryDirectory(prefix="azure-") as folder:
        command = [str(peers.azurite()), "--blobHost", "127.0.0.1", "--blobPort", str(port)]
        command += ["--silent", "--skipApiVersionCheck", "--inMemoryPersistence"]
        address = f"http://127.0.0.1:{port}/{_AZURE_ACCOUNT}"
        with _server(command, address, folder):
            settings = {"DefaultEndpointsProtocol": "http", "AccountName": _AZURE_ACCOUNT, "AccountKey": _AZURE_KEY}
            text = ";".join(f"{name}={value}" for name, value in {**settings, "BlobEndpoint": address}.items())
            yield {"fs.connection_string": text, "fs.account_name": _AZURE_ACCOUNT}


_METASTORE: Final = {
    "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
    "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
    "datanucleus.schema.autoCreateAll": "true",
    "datanucleus.connectionPoolingType": "hikaricp",
    "hive.metastore.schema.verification": "false",
    "hive.async.log.enabled": "false",
}
_LOGGING: Final = "org.apache.logging.log4j.core.selector.ClassLoaderContextSelector"

_HIVE_LOG: Final = """\
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_ERR
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %p %c: %m%n%throwable
rootLogger.level = WARN
rootLogger.appenderRef.out.ref = out
"""


@contextmanager
def hive() -> Iterator[str]:
    """A Hive metastore with its names in memory, of the release that PySpark brings; gives its address."""
    with reserved_port() as port, tempfile.TemporaryDirectory(prefix="hive-") as folder:
        settings = {**_METASTORE, "hive.metastore.warehouse.dir": f"{folder}/warehouse"}
        write_configuration(Path(folder, "hive-site.xml"), settings)
        Path(folder, "hive-log4j2.properties").write_text(_HIVE_LOG)
        command = ["java", "-Xmx512m", f"-Dlog4j2.contextSelector={_LOGGING}", f"-Dderby.system.home={folder}"]
        class_path = os.pathsep.join([folder, peers.jars_folder()])
        subprocess.run(["javac", "-cp", class_path, "-d", folder, str(_JAVA / "Metastore.java")], check=True)
        command += ["-cp", class_path, "Metastore", "-p", str(port)]
        with _started(command, Path(folder, "log")) as process:
            wait_for_answer(process, Path(folder, "log"), lambda: _listens(port))
            yield f"thrift://127.0.0.1:{port}"


@contextmanager
def rest() -> Iterator[dict[str, str]]:
    """Java Paimon's REST catalog over a folder; gives the options that reach it."""
    with tempfile.TemporaryDirectory(prefix="rest-") as folder:
        class_path = os.pathsep.join([folder, peers.rest_jars()])
        subprocess.run(["javac", "-cp", class_path, "-d", folder, str(_JAVA / "RestCatalog.java")], check=True)
        command = ["java", "-Xmx512m", "-cp", class_path, "RestCatalog", f"{folder}/data", "lake", "secret"]
        with _started(command, Path(folder, "log")) as process:
            words = _ready(process, Path(folder, "log"))
            yield {
                "metastore": "rest",
                "uri": words[1],
                "warehouse": "lake",
                "token.provider": "bear",
                "token": "secret",
                "rest.local-warehouse": f"{folder}/data",
            }


def write_configuration(path: Path, settings: Mapping[str, str]) -> None:
    """A configuration file of Hadoop or Hive."""
    properties = (f"<property><name>{k}</name><value>{escape(v)}</value></property>" for k, v in settings.items())
    path.write_text(f"<configuration>{''.join(properties)}</configuration>")


@contextmanager
def postgresql() -> Iterator[str]:
    """PostgreSQL with the user and database `paimon`; gives its JDBC address."""
    # PostgreSQL does not run as root.
    alone = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    with reserved_port() as port, tempfile.TemporaryDirectory(prefix="postgresql-") as folder:
        if alone:
            shutil.chown(folder, "postgres")

        def run(name: str, *arguments: str) -> None:
            done = subprocess.run([*alone, str(peers.postgresql(name)), *arguments], capture_output=True, text=True)
            if done.returncode:
                raise ServerError(f"{name}: {done.stdout}{done.stderr}")

        run("initdb", "-D", f"{folder}/data", "-U", "paimon", "--auth=trust", "--no-sync")
        settings = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        run("pg_ctl", "-D", f"{folder}/data", "-l", f"{folder}/log", "-w", "-o", settings, "start")
        try:
            run("createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "paimon", "paimon")
            yield f"jdbc:postgresql://127.0.0.1:{port}/paimon"
        finally:
            run("pg_ctl", "-D", f"{folder}/data", "-m", "immediate", "stop")


@contextmanager
def _server(
    command: Sequence[str], address: str, folder: str, environment: Mapping[str, str] | None = None
) -> Iterator[None]:
    """A server that answers at a URL, whatever it answers."""
    log = Path(folder, "log")
    with _started(command, log, environment) as process:
        wait_for_answer(process, log, lambda: _answers(address))
        yield


@contextmanager
def _started(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    if shutil.which(command[0]) is None:
        raise peers.PeerMissingError(f"{command[0]} is missing")
    with log.open("w") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if command[0] == "java" else file,
            stderr=file,
            text=True,
            env={**os.environ, **(environment or {})},
        )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _answers(address: str) -> bool:
    try:
        urlopen(address, timeout=5).close()
    except URLError as e:
        return hasattr(e, "code")
    except OSError:
        return False
    return True


def _ready(process: subprocess.Popen[str], log: Path) -> list[str]:
    """The words that a server of ours prints when it is ready. Raises ServerError."""
    words = first_line(process, log).split()
    if words[:1] != ["ready"]:
        raise ServerError(f"{process.args!r} printed {words}:\n{log_end(log)}")
    return words
