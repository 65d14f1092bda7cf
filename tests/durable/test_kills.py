"""kill -9: at every call of the system that makes something durable, and at any moment. Oracle: a recompute."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import crown
from tests.durable.streams import QUERIES, contents, recomputed
from tests.marks import slow

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}


@pytest.mark.parametrize(("query", "how"), [slow("join", "before"), ("groups", "half"), slow("join", "after")])
def test_a_process_may_die_at_any_call_of_the_system(query: str, how: str) -> None:
    command = [sys.executable, "-m", "tests.durable.crashes", query, how, "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, cwd=ROOT, env=ENVIRONMENT)
    assert "processes died, and nothing was lost" in done.stdout, done.stderr[-2000:]
    assert int(done.stdout.split()[0]) > 15


WRITER = """
import sys, crown
from tests.durable.streams import SCHEMA, tables
view = crown.open(sys.argv[2], sys.argv[1], SCHEMA, snapshot_bytes=4000)
while True:
    view.update(tables(9, view.batches))
    print(view.batches, flush=True)
"""


@pytest.mark.filterwarnings("ignore::crown.errors.RecoveryWarning")
@pytest.mark.parametrize(("query", "times"), [slow("join", 3), ("groups", 3), ("call", 3), slow("call", 100)])
def test_a_process_may_die_at_any_moment(query: str, times: int, tmp_path: Path) -> None:
    source, folder, known = random.Random(4), tmp_path / "v", 0
    for _ in range(times):
        command = [sys.executable, "-c", WRITER, str(folder), QUERIES[query]]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=ENVIRONMENT) as process:
            assert process.stdout is not None
            first = int(process.stdout.readline())
            assert first in (known + 1, known + 2)
            told = [int(process.stdout.readline()) for _ in range(source.randrange(3, 9))]
            time.sleep(source.random() / 50)
            process.send_signal(signal.SIGKILL)
            known = max([first, *told, *(int(line) for line in process.stdout if line.endswith("\n"))])
        with crown.open(None, folder) as view:
            assert (view._engine.pipeline is not None) == (query != "groups")  # whose doubles are added up in steps
            assert known <= view.batches <= known + 1
            assert contents(view) == recomputed(QUERIES[query], 9, view.batches)
            view.check_invariants()
            known = view.batches
    assert known > 10
