"""Finds the line of the user's code to which a warning belongs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_HERE = Path(__file__).parent
_OURS = tuple(str(_HERE.with_name(name)) + os.sep for name in ("plans", "crown", "ivm_triangle", "spark_jobs", "bench"))


def levels_to_caller() -> int:
    """Returns the `stacklevel` with which a warning of the calling function points at the user's line: the first line
    that is in none of these packages."""
    frame, levels = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame, levels = frame.f_back, levels + 1
    return levels
