"""Processes that write and die at any moment, each forked from one that has loaded everything: run as
``python -m tests.durable.writers view|database FOLDER [QUERY]``.

A line on standard input asks for one more. It says which process it is, and every batch that is acknowledged; behind
its death stands a line ``dead``.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import crown
from tests.durable.streams import SCHEMA, tables

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}


def deaths(times: int, *words: str) -> Iterator[tuple[int, int]]:
    """Yields the first and the last batch that each of so many processes has acknowledged before it was killed."""
    source, command = random.Random(4), [sys.executable, "-m", "tests.durable.writers", *words]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=ENVIRONMENT
    ) as forking:
        assert forking.stdin is not None
        assert forking.stdout is not None
        for _ in range(times):
            forking.stdin.write("\n")
            forking.stdin.flush()
            process, first, *told = (int(forking.stdout.readline()) for _ in range(2 + source.randrange(3, 9)))
            time.sleep(source.random() / 50)
            os.kill(process, signal.SIGKILL)
            yield first, max([first, *told, *map(int, iter(forking.stdout.readline, "dead\n"))])


def _view(folder: str, query: str) -> Callable[[], None]:
    crown.view(query, SCHEMA).update(tables(9, 0))  # kernels are loaded before the first fork

    def write() -> None:
        view = crown.open(query, folder, SCHEMA, snapshot_bytes=4000)
        while True:
            view.update(tables(9, view.batches))
            print(view.batches, flush=True)

    return write


def _database(folder: str) -> Callable[[], None]:
    from tests.durable.test_databases import SCHEMA, SHAPES, step

    database = crown.database(SCHEMA)
    for number, query in enumerate(SHAPES):
        database.view(f"v{number}", query)

    def write() -> None:
        db = crown.open_database(folder, SCHEMA, snapshot_bytes=3000)
        while True:
            step(random.Random(db.batches), db, db.batches)
            print(db.batches, flush=True)

    return write


def main() -> None:
    """Forks a process for each line of standard input, one after the other."""
    kind, *given = sys.argv[1:]
    write = {"view": _view, "database": _database}[kind](*given)
    for _ in sys.stdin:
        process = os.fork()
        if process == 0:
            print(os.getpid(), flush=True)
            write()
        os.waitpid(process, 0)
        print("dead", flush=True)


if __name__ == "__main__":
    main()
