"""Runs of words: as long as they are said to be, and not a word longer."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.wrappers import copy_run, fill_run

BEFORE, AFTER = 5, 9  # words around a run, which nobody writes to


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
@pytest.mark.parametrize("n", [*range(35), 64, 65, 1000])
def test_a_run_is_copied_or_filled_and_nothing_beside_it(n: int, dtype: type) -> None:
    random = np.random.default_rng(n)
    source = random.integers(-(2**31), 2**31, 3 + n).astype(dtype)  # it ends where the run does
    out = random.integers(-(2**62), 2**62, BEFORE + n + AFTER)
    expected = out.copy()
    expected[BEFORE : BEFORE + n] = source[3:]
    copy_run(out, BEFORE, source, 3, n)
    assert out.tolist() == expected.tolist()
    expected[BEFORE : BEFORE + n] = -(2**63)
    fill_run(out, BEFORE, n, -(2**63))
    assert out.tolist() == expected.tolist()
