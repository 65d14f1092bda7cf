"""The kernels once more, as plain Python and with array bounds checked: what compiled code would hide.

Compiled kernels neither check indices nor raise on overflow. A stray index that happens to hit mapped memory passes
every other test; here it is an IndexError.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FAST = ["test_published_cases.py", "test_traps.py", "test_types_and_nulls.py", "test_normal_plans.py"]
MORE = [*FAST, "test_maintenance.py", "test_long_streams.py", "test_large_deltas.py", "test_counted_cost.py"]


@pytest.mark.slow
@pytest.mark.parametrize(("switch", "files"), [("NUMBA_DISABLE_JIT", FAST), ("NUMBA_BOUNDSCHECK", MORE)])
def test_kernels_stay_inside_their_arrays(switch: str, files: list[str], tmp_path: Path) -> None:
    environment = {**os.environ, switch: "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    paths = [str(Path(__file__).parent / name) for name in files]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *paths]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False
    )
    assert done.returncode == 0, done.stdout[-4_000:]
