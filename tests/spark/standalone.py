"""A standalone master and its workers on loopback, processes of their own, from PySpark's own jars."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
START_S = 90.0


@contextmanager
def standalone(folder: Path, workers: int) -> Iterator[str]:
    """Starts a master and workers of one core each, and stops them; yields the master's address."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        log = _start(started, folder, "master", [_MASTER, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"])
        address = _told(log, started[0], r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            words = [_WORKER, "--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            words += ["--work-dir", str(folder / f"work{number}"), address]
            log = _start(started, folder, f"worker{number}", words)
            _told(log, started[-1], "Successfully registered with (master)")
        yield address
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)  # the executors are the workers' children
            process.wait()


def _start(started: list[subprocess.Popen[bytes]], folder: Path, name: str, words: list[str]) -> Path:
    home, log = Path(pyspark.__file__).parent, folder / f"{name}.log"
    settings = folder / "log4j2.properties"
    settings.write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.stderr.ref = stderr\nappender.stderr.type = Console\n"
        "appender.stderr.name = stderr\nappender.stderr.target = SYSTEM_ERR\n"
        "appender.stderr.layout.type = PatternLayout\nappender.stderr.layout.pattern = %m%n\n"
    )
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"-XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile={settings}",
    }
    with open(log, "w") as said:
        started.append(
            subprocess.Popen(
                [str(home / "bin" / "spark-class"), *words],
                stdout=said,
                stderr=said,
                env=environment,
                start_new_session=True,
            )
        )
    return log


def _told(log: Path, process: subprocess.Popen[bytes], pattern: str) -> str:
    """Returns what a process says of itself in its log, once it does."""
    deadline = time.monotonic() + START_S
    while True:
        found = re.search(pattern, log.read_text())
        if found is not None:
            return found[1]
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{log.stem} did not start: {log.read_text()[-2000:]}")
        time.sleep(0.1)
