"""Starts the JVM and a Spark session with settings for a laptop, and explains why Spark cannot start.

The operator was measured with these settings; none of them is needed for correct results. In a session of your own,
``spark.python.unix.domain.socket.enabled`` alone saves some 40 ms per task.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from crown.errors import CrownError
from crown.guards.arguments import Size, number_of, size_of
from crown.guards.interrupts import Uninterrupted
from spark_jobs.errors import SessionError
from spark_jobs.scratch import scratch_root

_ALWAYS = (
    b"WARNING: Using incubator modules: jdk.incubator.vector",
    b"Setting default log level to ",
    b"To adjust logging level use sc.setLogLevel",
    b"Using Spark's default log4j profile: ",
)
"""Prefixes of the lines that a JVM always prints at its start."""

_LINES, _LAST_WORDS = 200, 5.0
"""The number of lines of a JVM that are kept, and the seconds in which a JVM that has ended must have printed the
last.
"""
_ERROR = re.compile(r"error|exception|could not|cannot|invalid|unrecognized", re.IGNORECASE)


def start(settings: Mapping[str, str]) -> None:
    """Starts the JVM of PySpark with settings of Spark, unless there is one. Its output goes to standard error.

    Raises :class:`SessionError` if it ends before it is ready.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    reading, writing = os.pipe()
    output: deque[bytes] = deque(maxlen=_LINES)
    arguments = (os.fdopen(reading, "rb"), output)
    listener = threading.Thread(target=_passed_on, args=arguments, name="JVM's standard error", daemon=True)
    listener.start()
    try:
        gateway = launch_gateway(conf, {"stderr": writing})
    except PySparkRuntimeError as error:
        os.close(writing)
        listener.join(timeout=_LAST_WORDS)
        raise SessionError(f"the JVM of Spark ended before it was ready: {_reason(output)}") from error
    os.close(writing)
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def hush() -> None:
    """Keeps py4j from logging, with a traceback, errors that it also raises."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(lambda record: f"{os.sep}py4j{os.sep}" not in record.pathname)  # py4j logs there, too


def _reason(output: Iterable[bytes]) -> str:
    """Returns the most likely reason among the last lines of a JVM: the first line that mentions an error."""
    lines = [line.decode(errors="replace").strip() for line in output]
    found = [line for line in lines if _ERROR.search(line) and "WARN" not in line]
    nothing = "its output is above; check its options, JAVA_HOME, and the memory of the machine"
    return [*found, *lines[-1:], nothing][0]


def _passed_on(lines: BinaryIO, output: deque[bytes]) -> None:
    """Copies the JVM's output to standard error, except lines that it always prints, and keeps the last lines."""
    for line in lines:
        output.append(line)
        if not line.lstrip(b" \r").startswith(_ALWAYS):  # it may follow a cleared progress bar
            with suppress(OSError):  # even if standard error is not read, the JVM must be able to write
                os.write(2, line)


if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA = 17
_LEAST_MEMORY = 512 << 20
LAPTOP = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",  # any other limit is checked for every row
    "spark.sql.adaptive.enabled": "false",  # a micro-batch's plan is known; planning it again costs more than it saves
    "spark.sql.streaming.metricsEnabled": "false",
    # By default Spark runs system commands for every file of a checkpoint: 50 ms each, and four files per batch.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
    "FileSystemBasedCheckpointFileManager",
    "spark.python.daemon.module": "spark_jobs.cell.daemon",
}
# On two cores the just-in-time compiler takes half of the processor time of a short job: let it wait longer before it
# compiles a method. Hot loops are still compiled soon enough. Spark reads Arrow vectors row by row, by row number, so
# Arrow's own check of every access never finds a fault.
_JVM = (
    "-XX:+UseParallelGC -XX:CompileThresholdScaling=10 "
    "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
)
_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
logger.tasks.name = org.apache.spark
logger.tasks.level = off
"""


def local_session(
    name: str = "crown", *, cores: int | None = None, memory: Size = "2 GiB", conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Returns the local Spark session, started if there is none yet (5 to 7 s).

    ``cores``: worker threads, all of the machine's by default. ``memory``: of the JVM; engine state lives outside it.
    ``conf`` overrides any setting. Raises :class:`SessionError` if Java is missing or too old, ``CrownError`` for an
    invalid or too small size.
    """
    if not isinstance(name, str) or not name.isprintable():
        raise CrownError(f"name must be a text that can be printed, not {name!r:.100}")
    workers = "*" if cores is None else str(number_of(cores, "cores", 1))
    own = {} if conf is None else conf
    if not isinstance(own, Mapping) or not all(isinstance(part, str) for pair in own.items() for part in pair):
        raise CrownError(f"conf must be a dict of texts, such as {{'spark.ui.enabled': 'false'}}, not {conf!r:.100}")
    memory = java_memory(memory)
    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with quietly():
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.appName(name).master(f"local[{workers}]")
        # Java knows only /tmp; Python uses TMPDIR, or any writable folder where /tmp is not writable.
        places = f"-Dlog4j2.configurationFile={_log_settings()} -Djava.io.tmpdir={tempfile.gettempdir()}"
        options = {"spark.driver.extraJavaOptions": f"{_JVM} {places}"}
        settings = {"spark.driver.memory": memory, **LAPTOP, **options, **own}
        for key, value in settings.items():
            builder = builder.config(key, value)
        start(settings)
        return builder.getOrCreate()


def session_of_command(
    name: str, *, cores: int | None = None, memory: Size = "2 GiB", conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Returns the local session for a command line, which reports errors itself, and which Ctrl-C may end.

    The arguments and errors are those of ``local_session``. Errors that py4j raises are not also logged.
    """
    hush()
    with Uninterrupted():  # a JVM that is interrupted at its start prints many errors
        session = local_session(name, cores=cores, memory=memory, conf=conf)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # PySpark's handler calls Spark first, which may fail
    return session


def java_memory(given: Size, name: str = "memory") -> str:
    """Returns a size in Java's notation. Raises CrownError for an invalid size, and for less than Spark needs to
    start.
    """
    return f"{size_of(given, name, _LEAST_MEMORY) >> 20}m"


def _log_settings() -> Path:
    """Returns a file that configures the JVM to log errors only, except errors that reach Python as exceptions
    anyway.
    """
    file = scratch_root() / "log4j2.properties"
    file.write_text(_LOGGING)
    return file


def require_java() -> int:
    """Returns the major version of the Java that Spark would use. Raises :class:`SessionError` with the package to
    install.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    want = (
        f"install a Java {JAVA} or newer runtime (for example OpenJDK {JAVA}) and put java on the PATH or set JAVA_HOME"
    )
    if java is None or not Path(java).exists():
        raise SessionError(f"Spark needs Java, and there is no {java or 'java on the PATH'}: {want}")
    process = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(\d+)(?:\.(\d+))?', process.stderr + process.stdout)
    if match is None:
        raise SessionError(f"{java} -version does not answer like Java: {want}")
    major = int(match[2]) if match[1] == "1" and match[2] else int(match[1])
    if major < JAVA:
        raise SessionError(f"Spark needs Java {JAVA} or newer, but {java} is Java {major}: {want}")
    return major


@contextmanager
def quietly() -> Iterator[None]:
    """Runs without PySpark's warning about pandas 3, because this package does not use pandas on Spark."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
        yield
