"""A forked process has a copy of what is in memory, and its own threads; what is in a file is its parent's alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.marks import slow

SCRIPT = """
import os, sys, crown
query, options, prepared = sys.argv[1], eval(sys.argv[2]), sys.argv[3] == "used"
view = crown.view(query, {"e": {"s": "int64", "d": "int64"}}, **options)
if prepared:
    view.apply({"e": [(1, 2), (2, 3)]})
process = os.fork()
if process == 0:
    try:
        view.apply({"e": [(3, 4), (4, 5)]})
        print("child", view.to_table().to_pylist(), flush=True)
    except crown.CrownError as error:
        print("child", error, flush=True)
    os._exit(0)
os.waitpid(process, 0)
view.apply({"e": [(5, 6), (6, 7)]})
print("parent", view.to_table().to_pylist())
view.check_invariants()
"""
PATHS = "SELECT DISTINCT x.s, y.d FROM e x, e y WHERE x.d = y.s"
COUNTS = "SELECT x.s, COUNT(*) AS n FROM e x, e y WHERE x.d = y.s GROUP BY x.s"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no process can be forked here")


def lines(query: str, options: str, used: str) -> list[str]:
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, query, options, used]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.splitlines()


@pytest.mark.parametrize(("threads", "used"), [(1, "new"), (2, "used"), slow(1, "used"), slow(2, "new")])
def test_a_forked_process_goes_on_with_a_copy(threads: int, used: str) -> None:
    before = [{"s": 1, "d": 3}] if used == "used" else []
    child, parent = lines(PATHS, f"{{'threads': {threads}}}", used)
    more = [{"s": 2, "d": 4}] if used == "used" else []
    assert sorted(map(str, eval(child.removeprefix("child ")))) == sorted(map(str, [*before, *more, {"s": 3, "d": 5}]))
    assert sorted(map(str, eval(parent.removeprefix("parent ")))) == sorted(map(str, [*before, {"s": 5, "d": 7}]))


def test_a_program_in_threads_goes_on_as_well() -> None:
    child, parent = lines(COUNTS, "{'threads': 2}", "used")
    assert eval(child.removeprefix("child ")).count({"s": 3, "n": 1}) == 1
    assert {"s": 3, "n": 1} not in eval(parent.removeprefix("parent "))


@pytest.mark.parametrize("query", [slow(PATHS), COUNTS])
def test_a_state_in_a_file_is_refused_to_a_forked_process(query: str, tmp_path: Path) -> None:
    child, parent = lines(query, f"{{'path': {str(tmp_path / 'state')!r}}}", "used")
    assert "of which this one is a fork: both would write to it. Use the view there; or save(path)" in child
    assert len(eval(parent.removeprefix("parent "))) == 2
