"""``python -m tests.spark.pipelines.campaign --kills 100``: processes of a pipeline that are killed at any step.

Each process goes on with the warehouse of the one before: it finishes what that had begun, compares all tables, changes
some, and runs a command; each of them gets its turn. A SIGKILL comes at a step that is drawn: before or behind one of
the calls by which files are written, renamed, put on the disk or removed, and tables are merged. The processes have
one JVM in common, which starts once: all that a pipeline keeps is written by Python.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

from tests.spark.pipelines.warehouse import COMMANDS, Warehouse

ROOT = Path(__file__).parents[3]
_FINISH = "finish"
"""A run that finishes what a process before it had begun, with its kill."""
_STATE, _TABLES = "state", "tables"
_STEPS = {_STATE: 30, _TABLES: 150}
"""So many steps a command has, for all that is known before it has come to its end once: of the state, and of the
tables of the views, which are written in other threads and have most of the steps."""


def main() -> int:
    """Kills processes, one after the other; returns 1 at the first that does not go on as it should."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.pipelines.campaign")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin no process after that")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--process", nargs=5, metavar=("FOLDER", "SEED", "COMMAND", "WHERE", "STEP"), help="be one of the processes"
    )
    given = parser.parse_args()
    if given.process is not None:
        folder, seed, command, where, step = given.process
        _process(Path(folder), int(seed), command, where, int(step))
        return 0
    return _campaign(given.kills, given.seconds, given.seed)


def _campaign(kills: int, seconds: float, seed: int) -> int:
    rng, ends = random.Random(seed), time.monotonic() + seconds
    killed, whole = Counter[tuple[str, str]](), Counter[str]()
    commands = [*COMMANDS, _FINISH]
    steps = {(command, where): most for command in commands for where, most in _STEPS.items()}
    with tempfile.TemporaryDirectory() as folder:
        jvm = _jvm()
        for number, command in enumerate(cycle(commands), 1):
            where = rng.choice(list(_STEPS))
            if killed.total() >= kills or time.monotonic() >= ends:
                break
            words = [folder, str(seed * 10_000 + number), command, where, str(rng.randrange(steps[command, where]))]
            done = subprocess.run(
                [sys.executable, "-m", "tests.spark.pipelines.campaign", "--process", *words],
                cwd=ROOT,
                env={**os.environ, **jvm},
                capture_output=True,
                text=True,
                check=False,
            )
            said = done.stdout.splitlines()[-1:]
            print(f"process {number} {command}: {said}", file=sys.stderr, flush=True)
            if done.returncode == -signal.SIGKILL and said:
                killed[command, said[0]] += 1
            elif done.returncode:
                print(f"process {' '.join(words)}: {done.stdout[-2000:]}{done.stderr[-6000:]}", file=sys.stderr)
                shutil.copytree(folder, f"{folder}-kept")
                return 1
            else:  # it has fewer steps
                whole[command] += 1
                steps[command, where] = (steps[command, where] + int(said[0])) // 2 + 1
    for (command, step), count in sorted(killed.items()):
        print(f"{count:4} {command:20} {step}")
    print(
        f"{killed.total()} kills at {len(killed)} steps in {number} processes, {whole.total()} of which came to their "
        "ends; all tables were equal after each"
    )
    return 0


def _jvm() -> Mapping[str, str]:
    """Starts a JVM with a Spark session; returns the variables by which PySpark finds it."""
    from spark_jobs.session import local_session

    gateway: Any = local_session("campaign", memory="1g").sparkContext._gateway
    at = gateway.gateway_parameters
    return {"PYSPARK_GATEWAY_PORT": str(at.port), "PYSPARK_GATEWAY_SECRET": at.auth_token}


def _session() -> Any:
    """Returns the session of the JVM that the variables name."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway: Any = launch_gateway()
    spark = gateway.jvm.org.apache.spark
    java = spark.api.java.JavaSparkContext.fromSparkContext(spark.SparkContext.getOrCreate())
    conf = SparkConf(_jvm=gateway.jvm, _jconf=java.getConf())
    context = SparkContext(gateway=gateway, jsc=java, conf=conf)
    return SparkSession(context, spark.sql.SparkSession.getDefaultSession().get())


def _process(folder: Path, seed: int, command: str, where: str, step: int) -> None:
    """Goes on with a warehouse, and dies at a step of a command. Says how many it has, if it has fewer."""
    warehouse = Warehouse(_session(), folder / "warehouse", seed)
    if command == _FINISH:
        left = _die_at(where, step)
        warehouse.run()
    else:
        warehouse.run()
        warehouse.change()
        left = _die_at(where, step)
        warehouse.command(command)
    print(step - left[0], flush=True)
    os._exit(0)  # the JVM stays


def _die_at(where: str, step: int) -> list[int]:
    """Has this process killed at a step of those that are counted from now on; returns how many are left, in a list.

    Steps of the state are those of the main thread.
    """
    from crown.durable.database import DurableDatabase
    from spark_jobs.tables.results.merge import DeltaResult

    left = [step]
    homes: list[tuple[Any, str]] = [(os, name) for name in ("fsync", "replace", "rename", "unlink", "rmdir", "mkdir")]
    homes += [(DeltaResult, "apply"), (DeltaResult, "_merged"), (DurableDatabase, "apply"), (DurableDatabase, "define")]
    homes += [(DurableDatabase, "adopt")]
    for home, name in homes:
        counted = _counted(left, where, getattr(home, name), f"{home.__name__}.{name}")
        setattr(home, name, staticmethod(counted) if isinstance(vars(home).get(name), staticmethod) else counted)
    return left


def _counted(left: list[int], where: str, function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def count(when: str) -> None:
        if (threading.current_thread() is threading.main_thread()) != (where == _STATE):
            return
        left[0] -= 1
        if left[0] < 0:
            print(f"{when} {name}, {_caller()}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(*args: Any, **kwargs: Any) -> Any:
        count("before")
        result = function(*args, **kwargs)
        count("behind")
        return result

    return counted


def _caller() -> str:
    """Returns which functions of the product have come to the step, the innermost first."""
    found, frame = [], sys._getframe(2)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(("crown.", "spark_jobs.")):
            found.append(frame.f_code.co_name)
        frame = frame.f_back
    return " < ".join(found[:4])


if __name__ == "__main__":
    sys.exit(main())
