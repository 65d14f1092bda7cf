"""A forked process has a copy of what is in memory, and its own threads; what is in a file is its parent's alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
import json, os, sys, crown
for query, options, used in json.loads(sys.argv[1]):
    view = crown.view(query, {"e": {"s": "int64", "d": "int64"}}, **options)
    if used:
        view.apply({"e": [(1, 2), (2, 3)]})
    process = os.fork()
    if process == 0:
        try:
            view.apply({"e": [(3, 4), (4, 5)]})
            print(view.to_table().to_pylist(), flush=True)
        except crown.CrownError as error:
            print(error, flush=True)
        os._exit(0)
    os.waitpid(process, 0)
    view.apply({"e": [(5, 6), (6, 7)]})
    print(view.to_table().to_pylist(), flush=True)
    view.check_invariants()
"""
PATHS = "SELECT DISTINCT x.s, y.d FROM e x, e y WHERE x.d = y.s"
COUNTS = "SELECT x.s, COUNT(*) AS n FROM e x, e y WHERE x.d = y.s GROUP BY x.s"
GROUPS = "SELECT x.d AS s, COUNT(*) AS n FROM e x, e y WHERE x.d = y.d GROUP BY x.d"
COPIES = [(PATHS, {"threads": threads}, used) for threads in (1, 2) for used in (False, True)]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no process can be forked here")


def told(cases: list[tuple[str, dict[str, Any], bool]]) -> list[tuple[str, str]]:
    """What the forked process says of each case, and what its parent does: one process starts for all."""
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, json.dumps(cases)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return [*zip(*[iter(done.stdout.splitlines())] * 2, strict=True)]


def test_a_forked_process_goes_on_with_a_copy() -> None:
    for (_, _, used), (child, parent) in zip(COPIES, told(COPIES), strict=True):
        before = [{"s": 1, "d": 3}] if used else []
        more = [{"s": 2, "d": 4}] if used else []
        assert sorted(map(str, eval(child))) == sorted(map(str, [*before, *more, {"s": 3, "d": 5}]))
        assert sorted(map(str, eval(parent))) == sorted(map(str, [*before, {"s": 5, "d": 7}]))


def test_a_program_in_threads_and_a_state_in_a_file(tmp_path: Path) -> None:
    """The first goes on as well, the second is refused."""
    files = [(query, {"path": str(tmp_path / f"{number}")}, True) for number, query in enumerate((PATHS, COUNTS))]
    (child, parent), *refused = told([(GROUPS, {"threads": 2}, True), *files])
    assert eval(child).count({"s": 4, "n": 1}) == 1
    assert {"s": 4, "n": 1} not in eval(parent)
    for child, parent in refused:
        assert "of which this one is a fork: both would write to it. Use the view there; or save(path)" in child
        assert len(eval(parent)) == 2
