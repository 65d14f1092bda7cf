"""The JVM under PySpark, started so that it does not say on every start what nobody can do anything about."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from subprocess import PIPE
from typing import BinaryIO

_ALWAYS = (
    b"WARNING: Using incubator modules: jdk.incubator.vector",
    b"Setting default log level to ",
    b"To adjust logging level use sc.setLogLevel",
    b"Using Spark's default log4j profile: ",
)
"""How the lines begin that a JVM says at its start."""


def start(settings: Mapping[str, str]) -> None:
    """Starts the JVM of PySpark with settings of Spark, unless there is one. What it says goes to standard error."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    gateway = launch_gateway(conf, {"stderr": PIPE})
    threading.Thread(target=_passed_on, args=(gateway.proc.stderr,), name="JVM's standard error", daemon=True).start()
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def hush() -> None:
    """Keeps py4j from logging, with a traceback, what it raises as well."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_not_of_py4j)  # it logs there, too


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return f"{os.sep}py4j{os.sep}" not in record.pathname


def _passed_on(lines: BinaryIO) -> None:
    """Writes to standard error what the JVM does, but for what it always says."""
    for line in lines:
        if not line.lstrip(b" \r").startswith(_ALWAYS):  # a bar that is wiped may stand before it
            with suppress(OSError):  # nobody reads it; the JVM must be able to go on writing
                os.write(2, line)
