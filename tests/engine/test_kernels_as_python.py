"""The kernels once more, as plain Python and with array bounds checked: what compiled code would hide.

Compiled kernels neither check indices nor raise on overflow. A stray index that happens to hit mapped memory passes
every other test; here it is an IndexError. A slice of this is part of every run: the ground floor, the engine and the
triangle on small cases as plain Python. The rest compiles everything with checks, which takes minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import campaign
from tests.marks import slow

TESTS = Path(__file__).parents[1]
PYTHON, CHECKED = "NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"
STEPS = "test_batches_are_those_of_an_engine_that_takes_them_step_by_step"
NATIVE = {
    "batches": ("averages", "distinct values", "doubles", "nothing to help with", "values in order", "variance"),
    "joins": (
        "columns of some",
        "conditions over both",
        "duplicates of a sum",
        "duplicates, of some columns",
        "three hops",
    ),
    "recursions": ("closure", "copies", "least values", "rows that are read twice"),
    "joined_groups": ("hops, all of them", "one group", "products"),
    "chains": (
        "a cyclic join, of which a join reads",
        "a share of a sum",
        "arguments that are computed",
        "arguments that are computed of joined rows",
        "computed columns of groups",
        "computed keys",
        "first rows of groups",
        "numbers of two words",
        "one group, which HAVING hides",
    ),
    "windows": (
        "rows on both sides",
        "the last value so far",
        "several kinds",
        "ranks without gaps",
        "sums of decimals",
        "sums of frames",
        "extrema of frames",
        "kinds of numbers",
        "the rest of a partition",
        "ranges of values",
    ),
}
"""By file, kinds of queries whose batches go through every branch of the kernels that those of any kind go through."""
NATIVE_ALWAYS = [f"programs/test_native_{file}.py::{STEPS}[0-{kind}-raise]" for file in NATIVE for kind in NATIVE[file]]
NATIVE_ALL = [f"programs/test_native_{file}.py::{STEPS}" for file in NATIVE]
SMALL = [
    "engine/streams/test_published_cases.py",
    "engine/streams/test_traps.py",
    "ingest/test_types_and_nulls.py",
    "ingest/test_scan.py",
    "expressions/test_native.py::test_constructs_at_the_edges_of_their_types",
]
CHECKED_ALWAYS = [
    "kernels",
    "ingest/test_scan.py",
    "expressions/test_native.py::test_constructs_at_the_edges_of_their_types",
    *NATIVE_ALL,
]
TRIANGLE = "triangle/test_kernels.py::test_moved_values_agree_with_the_twin"
LESS = (
    "(not moved_values or 0.5) and not several_threads and not somebody_chose "
    "and not (step_by_step and (trust or ignore or not [0-))"
)
"""Of the triangle epsilon = 1/2 only. Threads are not compared, as plain Python lets one run at a time; nor is it
measured how good a hash is, which is the same however it is computed."""
ANY_TURN = ("-m", "slow or not slow")
"""Also the policies whose turn it is not (``tests.marks.by_turns``), of the first seed."""
FAST = [*SMALL, "engine/streams/test_normal_plans.py", "engine/payloads/test_payloads.py"]
MORE = [
    *FAST,
    "engine/streams/test_maintenance.py",
    "engine/streams/test_long_streams.py",
    "engine/streams/test_large_deltas.py",
    "engine/test_counted_cost.py",
]


def run_with(switch: str, tests: list[str], *options: str) -> None:
    """Runs tests so; kernels with checks are files of their own beside the others, and are compiled once.

    These are the tests of a usual run: in a campaign, whole files would be slow, and left out.
    """
    environment = {**os.environ, switch: "1", campaign.SEED: ""}
    paths = [str(TESTS / name) for name in tests]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *paths]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=TESTS.parent, check=False)
    assert done.returncode == 0, done.stdout[-4_000:]
    assert " passed" in done.stdout


@pytest.mark.parametrize(
    ("switch", "tests"),
    [
        (PYTHON, ["kernels", *SMALL, *NATIVE_ALWAYS, TRIANGLE]),
        slow(CHECKED, CHECKED_ALWAYS),  # the same tests; compiling everything with checks takes most of a minute
    ],
)
def test_small_cases_stay_inside_their_arrays(switch: str, tests: list[str]) -> None:
    run_with(switch, tests, *ANY_TURN, "-k", LESS)


@pytest.mark.slow
@pytest.mark.parametrize(("switch", "tests"), [(PYTHON, FAST), (CHECKED, MORE)])
def test_kernels_stay_inside_their_arrays(switch: str, tests: list[str]) -> None:
    run_with(switch, tests)
    run_with(switch, NATIVE_ALL, *ANY_TURN, "-k", "[0-")
