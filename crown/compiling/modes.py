"""The mode in which kernels run in this process, decided once by environment variables.

``NUMBA_DISABLE_JIT``: as plain Python. ``NUMBA_BOUNDSCHECK``: compiled by Numba, with checked indices. ``CROWN_JIT``:
compiled by Numba. Otherwise from the library of the package, or compiled by Numba if there is none for these sources
and this processor.
"""

from __future__ import annotations

import os


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "").strip() not in {"", "0"}


PLAIN = _is_set("NUMBA_DISABLE_JIT")
CHECKED = not PLAIN and _is_set("NUMBA_BOUNDSCHECK")
COMPILING = CHECKED or _is_set("CROWN_JIT")
"""Numba compiles, even if there is a library."""
