"""``python -m tests.spark.pipelines.campaign --kills 100``: processes of a pipeline that are killed at any step.

Each process goes on with the warehouse of the one before: it finishes what that had begun, compares all tables, and
runs rounds of changes and commands. A SIGKILL comes at a step that is drawn: before or behind one of the calls by
which files are written, renamed, put on the disk or removed, and tables are merged.
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
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
_ROUNDS = 6
"""So many rounds a process does, unless it is killed."""
_STEPS = 600
"""At most so many steps it does before that."""


def main() -> int:
    """Kills processes, one after the other; returns 1 at the first that does not go on as it should."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.pipelines.campaign")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin no process after that")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--process", nargs=3, metavar=("FOLDER", "SEED", "STEP"), help="be one of the processes")
    given = parser.parse_args()
    if given.process is not None:
        folder, seed, step = given.process
        _process(Path(folder), int(seed), int(step))
        return 0
    rng, ends = random.Random(given.seed), time.monotonic() + given.seconds
    killed, rounds, number = Counter[str](), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        while killed.total() < given.kills and time.monotonic() < ends:
            number += 1
            words = [folder, str(given.seed * 10_000 + number), str(rng.randrange(_STEPS))]
            done = subprocess.run(
                [sys.executable, "-m", "tests.spark.pipelines.campaign", "--process", *words],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
            )
            rounds += done.stdout.count("round")
            if done.returncode == -signal.SIGKILL:
                killed[done.stdout.splitlines()[-1]] += 1
            elif done.returncode:
                print(f"process {' '.join(words)}: {done.stdout[-2000:]}{done.stderr[-6000:]}", file=sys.stderr)
                shutil.copytree(folder, f"{folder}-kept")
                return 1
    for step, count in sorted(killed.items()):
        print(f"{count:4} {step}")
    print(f"{killed.total()} kills in {number} processes with {rounds} whole rounds; all tables were equal after each")
    return 0


def _process(folder: Path, seed: int, step: int) -> None:
    """Goes on with a warehouse, and dies at a step."""
    from spark_jobs.session import local_session
    from tests.spark.pipelines.warehouse import Warehouse

    spark = local_session("campaign", memory="1g")
    warehouse = Warehouse(spark, folder / "warehouse", seed)
    _die_at(step)
    warehouse.run()
    print("round run", flush=True)
    for _ in range(_ROUNDS):
        warehouse.change()
        print("round", warehouse.command(), flush=True)


def _die_at(step: int) -> None:
    """Has this process killed at a step of those that are counted from now on."""
    from crown.durable.database import DurableDatabase
    from spark_jobs.tables.merge import DeltaResult

    left = [step]
    homes: list[tuple[Any, str]] = [(os, name) for name in ("fsync", "replace", "rename", "unlink", "rmdir", "mkdir")]
    homes += [(DeltaResult, "apply"), (DeltaResult, "_merged"), (DurableDatabase, "apply"), (DurableDatabase, "define")]
    for home, name in homes:
        counted = _counted(left, getattr(home, name), f"{home.__name__}.{name}")
        setattr(home, name, staticmethod(counted) if isinstance(vars(home).get(name), staticmethod) else counted)


def _counted(left: list[int], function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def count(when: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            print(f"{when} {name}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(*args: Any, **kwargs: Any) -> Any:
        count("before")
        result = function(*args, **kwargs)
        count("behind")
        return result

    return counted


if __name__ == "__main__":
    sys.exit(main())
