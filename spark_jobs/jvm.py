"""Starts the JVM of PySpark without warnings that users cannot act on."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import BinaryIO

from spark_jobs.errors import SessionError

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
    logging.getLogger().addFilter(_not_of_py4j)  # py4j logs there, too


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return f"{os.sep}py4j{os.sep}" not in record.pathname


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
