"""Start the Spark session of commands without the messages of Spark, and handle Ctrl-C."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import traceback
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Final, NoReturn

from paimon_spark.spark_port import check_installed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCAL_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}
_QUIET_SETTINGS: Final = {
    "spark.ui.showConsoleProgress": "false",  # it would be drawn over what is printed
    "spark.log.level": "FATAL",  # what fails is reported once, by the error of the statement
}
_STDERR: Final = 2
_LAUNCHES: Final = "launch_gateway"
"""The function of PySpark that starts the JVM."""


def spark_session(*, verbose: bool = False) -> SparkSession:
    """The active session, else a new one: with the settings of spark-submit, or a local one.

    A local session prints nothing while it starts, unless that fails, and no log messages later; with `verbose` it
    prints what Spark prints. Raises UnsupportedFeatureError: PySpark is not installed.
    """
    check_installed()
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    from paimon_spark.spark.session import PYTHON_VARIABLES, configure_session

    builder = SparkSession.builder.appName("paimon-spark")
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not is_submitted and not any(key in os.environ for key in PYTHON_VARIABLES):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    is_quiet = not (verbose or is_submitted)
    for key, value in () if is_submitted else (_LOCAL_SETTINGS | (_QUIET_SETTINGS if is_quiet else {})).items():
        builder = builder.config(key, value)
    with _JvmMessages().held() if is_quiet else nullcontext():
        try:
            session = builder.getOrCreate()
        except BaseException as e:
            _end_jvm(e)
            raise
        configure_session(session)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _interrupting(session))
    if not verbose:
        _silence_loggers()
    return session


def _end_jvm(error: BaseException) -> None:
    """End the JVM that PySpark was starting when an error, such as Ctrl-C, broke it off.

    It ends by itself only once it has told Python its port, in a file whose folder PySpark has removed.
    """
    from pyspark import SparkContext

    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__) if frame.f_code.co_name == _LAUNCHES)
    processes = [frame.f_locals.get("proc") for frame in frames]
    processes.append(getattr(SparkContext._gateway, "proc", None))  # noqa: SLF001 - PySpark keeps it private
    for process in processes:
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()


def _interrupting(session: SparkSession) -> Callable[[int, object], NoReturn]:
    """A handler of Ctrl-C: cancel all jobs, and interrupt the statement that they belong to.

    Spark's own handler calls the JVM over the connection that waits for the statement, which fails.
    """

    def cancel() -> None:
        with suppress(Exception):  # of a JVM that is gone
            session.sparkContext.cancelAllJobs()

    def interrupt(signum: int, frame: object) -> NoReturn:
        threading.Thread(target=cancel, name="paimon-cancel", daemon=True).start()
        raise KeyboardInterrupt

    return interrupt


@contextmanager
def interruptible(session: SparkSession) -> Iterator[None]:
    """Run a statement; when Ctrl-C interrupts it, the jobs that it would start afterwards are cancelled, too."""
    context, group = session.sparkContext, f"paimon-spark-{uuid.uuid4()}"
    context.setJobGroup(group, "paimon-spark sql")
    try:
        yield
    except KeyboardInterrupt:
        with suppress(Exception):  # of a JVM that is gone
            context._jsc.sc().cancelJobGroupAndFutureJobs(group)  # noqa: SLF001 - Python has none
        raise


def _silence_loggers() -> None:
    """Silence loggers that print errors, with the traces of the JVM, before they are raised."""
    from pyspark.logger import PySparkLogger

    logging.getLogger().addFilter(_is_no_interrupted_call)
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def _is_no_interrupted_call(record: logging.LogRecord) -> bool:
    """False for the message, with a traceback, by which py4j reports Ctrl-C."""
    return not str(record.msg).startswith("KeyboardInterrupt while sending command")


class _JvmMessages:
    """The stderr of the JVM: held back while the session starts, then passed on."""

    def __init__(self) -> None:
        self._held: bytearray | None = bytearray()
        self._lock = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Start the JVM inside; its messages are dropped, or printed when the start fails."""
        sys.stderr.flush()
        is_shown = sys.stderr.isatty()
        read, write = os.pipe()
        self._stderr = os.dup(_STDERR)
        os.dup2(write, _STDERR)  # the JVM inherits it
        os.close(write)
        threading.Thread(target=self._read, args=(read,), name="paimon-jvm-messages", daemon=True).start()
        if is_shown:
            os.write(self._stderr, b"starting Spark ...")
        try:
            yield
        except BaseException as e:
            self._restore(is_shown)
            self._pass_on(show=isinstance(e, Exception))
            raise
        self._restore(is_shown)
        self._pass_on(show=False)

    def _restore(self, is_shown: bool) -> None:
        os.dup2(self._stderr, _STDERR)
        if is_shown:
            os.write(_STDERR, b"\r\x1b[K")

    def _pass_on(self, *, show: bool) -> None:
        with self._lock:
            held, self._held = self._held or bytearray(), None
        if show:
            os.write(_STDERR, bytes(held))

    def _read(self, pipe: int) -> None:
        while data := os.read(pipe, 1 << 16):
            with self._lock:
                if self._held is not None:
                    self._held += data
                    continue
            with suppress(OSError):
                os.write(self._stderr, data)
