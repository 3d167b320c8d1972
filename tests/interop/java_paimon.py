"""Client of the Java driver in `java/`: calls go as JSON lines to one JVM, which answers each with a line.

`JavaPaimon().run(calls)` sends a batch. The process is started at the first call and lives until `close()`, so
that one start (about two seconds) serves a whole test session. Rows come in the form of `tests/harness/rows.py`.

The calls, by `op` (every one takes `path`, or `table` as `db.t` and `catalog`, options of a catalog; `branch` and
dynamic `options` where they make sense):
    createTable(fields=[[name, type, comment?, default?]], pk, partition, tableOptions, comment) alter(changes)
    write(rows, overwrite?, identifier?, user?, watermark?, columns?, firstRowId?); compact(full?, buckets?)
    deleteRows(column, values): by deletion vectors, on append tables
    createTag(name, snapshot?, retained?) deleteTag renameTag createBranch(name, tag?) deleteBranch renameBranch
    fastForward(name) mergeBranch(name, to) rollback(snapshot | tag) expireSnapshots(retain)
    expirePartitions -> partitions, as procedures tell them; removeOrphans(olderThan, dryRun?) -> removed, bytes
    truncate compactManifests analyze(records) consumer(name, next) sleep(ms)
    read(columns?, where?, rowTracking?, kinds?, system?) -> rows, schema, schemaId
    read(postponed=True, where?) -> rows, merged with those that wait in the postpone bucket
    versions -> label -> read, of every head, snapshot and tag; changes(from) -> snapshot id -> rows with _KIND
    stream(restore?, schemaId?, plans?, notify?) -> plans of {snapshot, first, watermark, rows with _KIND}, next, ended
    uncommitted(user, identifiers) -> the identifiers that Java's committer of this user would commit anew
    catalog(does=listDatabases | listTables | removeOrphans | createDatabase | createTable | renameTable | dropTable |
        dropDatabase, database?, table?, to?, cascade?, type?): of the warehouse `path`, or `catalog` -> names, removed
    variant(text of JSON) -> value and metadata of the VARIANT, in hex
    bench(does=read | plan | write | compact, threads?, columns?, source?) -> seconds, rows, checksum
    listing -> snapshots, tags, branches, schemaIds, consumers; files(snapshot?) -> files, indexFiles
A call that fails answers {"error": …}; with a `group`, the rest of its group answers {"skipped": …}.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from tests.interop import peers

Call = dict[str, Any]
Reply = dict[str, Any]

_SOURCES = peers.HERE / "java"
_OPENED = ("java.lang", "java.nio", "java.util", "java.net", "sun.nio.ch", "java.util.concurrent")


class JavaPaimonError(RuntimeError):
    """The driver could not be built or started, died, or a call failed that had to succeed."""


class JavaPaimon:
    """Java Paimon in a JVM of its own. Not for use from several threads at once; `close()` ends the JVM."""

    def __init__(
        self, *, timezone: str = "UTC", heap: str = "1g", more_jars: str = "", optimized: bool = False
    ) -> None:
        """Start nothing yet.

        Args:
            timezone: the JVM's.
            heap: its -Xmx.
            more_jars: the end of its class path.
            optimized: run it as servers do, for benchmarks, not so that it starts quickly.
        """
        self._timezone, self._heap, self._more_jars = timezone, heap, more_jars
        self._how = () if optimized else ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        self._process: subprocess.Popen[bytes] | None = None
        self._scratch: Path | None = None
        self._log: IO[bytes] | None = None

    def run(self, calls: Iterable[Call]) -> list[Reply]:
        """Send the calls in order and give back one reply per call, failed ones included.

        Raises:
            JavaPaimonError: the JVM died; the message ends with what it printed.
        """
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        lines = [json.dumps(call).encode() + b"\n" for call in calls]
        # The driver answers while it is still being asked: write from a second thread, or both pipes fill up.
        writer = threading.Thread(target=_write_all, args=(process.stdin, lines), daemon=True)
        writer.start()
        replies = [self._reply(process.stdout.readline()) for _ in lines]
        writer.join()
        return replies

    def call(self, op: str, **arguments: Any) -> Reply:
        """One call that has to succeed.

        Raises:
            JavaPaimonError: it did not; the message names the call and Java's exceptions.
        """
        [reply] = self.run([{"op": op, **arguments}])
        if "error" in reply:
            raise JavaPaimonError(f"{op} {arguments.get('path', '')}: {reply['error']}")
        return reply

    def close(self) -> None:
        """End the JVM. A later call starts another."""
        if self._process is not None:
            assert self._process.stdin is not None and self._process.stdout is not None
            self._process.stdin.close()
            self._process.wait(timeout=120)
            self._process.stdout.close()
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None

    def __enter__(self) -> JavaPaimon:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            classpath = f"{peers.java_paimon_jar()}:{peers.hadoop_jars()}"
            classes = _compiled(classpath)
            self._scratch = Path(tempfile.mkdtemp(prefix="java-paimon-"))
            self._log = (self._scratch / "log").open("wb+")
            command = [
                _tool("java"), f"-Xmx{self._heap}", *self._how, "-Xshare:auto",
                f"-Duser.timezone={self._timezone}", "-Dfile.encoding=UTF-8", "-Dsun.jnu.encoding=UTF-8",
                f"-Djava.io.tmpdir={self._scratch}", "-Dlog4j2.level=ERROR",
                *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
                "-cp", ":".join(filter(None, [str(classes), classpath, self._more_jars])), "PaimonDriver",
            ]  # fmt: skip
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env={**os.environ, "LC_ALL": "C.UTF-8"},
            )
        return self._process

    def _reply(self, line: bytes) -> Reply:
        if not line:
            assert self._process is not None and self._log is not None
            self._process.wait(timeout=120)
            self._log.seek(0)
            said = self._log.read().decode("utf-8", "replace")[-4000:]
            code, self._process = self._process.returncode, None
            raise JavaPaimonError(f"the JVM ended with code {code}:\n{said}")
        reply: Reply = json.loads(line)
        return reply


def _write_all(stream: IO[bytes], lines: list[bytes]) -> None:
    try:
        for line in lines:
            stream.write(line)
        stream.flush()
    except BrokenPipeError:
        pass  # the JVM died: whoever waits for the replies says so


def _tool(name: str) -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / name) if home and (Path(home) / "bin" / name).exists() else name


def _compiled(classpath: str) -> Path:
    """The folder of the driver's classes, compiled once per content of the sources and the class path."""
    sources = sorted(_SOURCES.glob("*.java"))
    digest = hashlib.sha256(classpath.encode())
    for source in sources:
        digest.update(source.read_bytes())
    classes = peers.HOME / "classes" / digest.hexdigest()[:16]
    if not classes.exists():
        classes.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=classes.parent))
        command = [
            _tool("javac"),
            "-proc:none",
            "-nowarn",
            "-cp",
            classpath,
            "-d",
            str(fresh),
            *map(str, sources),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise JavaPaimonError(f"javac failed:\n{done.stderr}")
        try:
            fresh.rename(classes)
        except OSError:  # another process was faster
            shutil.rmtree(fresh, ignore_errors=True)
    return classes
