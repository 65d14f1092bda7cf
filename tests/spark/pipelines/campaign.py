"""``python -m tests.spark.pipelines.campaign --kills 100``: processes of a pipeline that are killed at any step.

Each process goes on with the warehouse of the one before: it finishes what that had begun, compares all tables, changes
some, and runs a command; each of them gets its turn. A SIGKILL comes at a step that is drawn: before or behind one of
the calls by which files are written, renamed, put on the disk or removed, and tables are merged. All that a pipeline
keeps is written by Python. So the processes have one JVM in common, which starts once, and are forks of one process
that has loaded modules and kernels.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from crown.durable.opening import open_database
from crown.projects.changes import difference
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
    parser.add_argument("--jvm", action="store_true", help="be the process that has the JVM")
    given = parser.parse_args()
    return _serve() if given.jvm else _campaign(given.kills, given.seconds, given.seed)


def _campaign(kills: int, seconds: float, seed: int) -> int:
    rng, ends = random.Random(seed), time.monotonic() + seconds
    killed, whole = Counter[tuple[str, str]](), Counter[str]()
    commands = [*COMMANDS, _FINISH]
    steps = {(command, where): most for command in commands for where, most in _STEPS.items()}
    warm = False
    with tempfile.TemporaryDirectory() as folder, _jvm() as variables:
        os.environ.update(variables)
        for number, command in enumerate(cycle(commands), 1):
            where = rng.choice(list(_STEPS))
            if killed.total() >= kills or time.monotonic() >= ends:
                break
            step = rng.randrange(steps[command, where])
            code, output = _forked(partial(_process, Path(folder), seed * 10_000 + number, command, where, step))
            said = output.splitlines()[-1:]
            print(f"process {number} {command}: {said}", file=sys.stderr, flush=True)
            if code == -signal.SIGKILL and said:
                killed[command, said[0]] += 1
            elif code:
                print(f"process {number} {command} {where} {step}: {output[-8000:]}", file=sys.stderr)
                shutil.copytree(folder, f"{folder}-kept")
                return 1
            else:  # it has fewer steps
                whole[command] += 1
                steps[command, where] = max(int(said[0]), 1)
            if not warm:
                warm = _warm(Path(folder) / "warehouse" / "storage" / "crown" / "state")
    for (command, step), count in sorted(killed.items()):
        print(f"{count:4} {command:20} {step}")
    print(
        f"{killed.total()} kills at {len(killed)} steps in {number} processes, {whole.total()} of which came to their "
        "ends; all tables were equal after each"
    )
    return 0


def _forked(does: Callable[[], None]) -> tuple[int, str]:
    """Runs a function in a fork of this process; returns its exit code, or the signal below 0, and what it said."""
    with tempfile.TemporaryFile("w+") as output:
        sys.stdout.flush()
        child = os.fork()
        if not child:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            try:
                does()
            except BaseException:
                traceback.print_exc()
                sys.stdout.flush()
                os._exit(1)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(0)
        return code, output.read()


def _warm(state: Path) -> bool:
    """Loads the kernels of the views, by a row of each table that comes and goes; returns False if there is no state.

    Packages with threads of their own, which a fork would not have, are left to the processes.
    """
    if not (state / "meta.json").exists():
        return False  # a process was killed before that
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(state, f"{folder}/state")
        with open_database(f"{folder}/state") as database:
            rows = {table.name: database.table(table.name).slice(0, 1) for table in database.tables}
            database.apply(rows)
            database.apply({name: difference(one.slice(0, 0), one) for name, one in rows.items()})
    return True


@contextmanager
def _jvm() -> Iterator[Mapping[str, str]]:
    """Has another process start a JVM with a Spark session; yields the variables by which PySpark finds it."""
    serving = [sys.executable, "-m", "tests.spark.pipelines.campaign", "--jvm"]
    with subprocess.Popen(serving, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())


def _serve() -> int:
    """Starts the JVM, tells its variables, and waits for the end of the input."""
    from spark_jobs.session import local_session

    gateway: Any = local_session("campaign", memory="1g").sparkContext._gateway
    at = gateway.gateway_parameters
    print(json.dumps({"PYSPARK_GATEWAY_PORT": str(at.port), "PYSPARK_GATEWAY_SECRET": at.auth_token}), flush=True)
    sys.stdin.read()
    return 0


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
