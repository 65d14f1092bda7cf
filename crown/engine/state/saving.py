"""Writing a snapshot: one file that holds a plan and the state of its engine.

A file of words (see ``crown.store.words_file``). Its header has the plan, words per part, and what the owner adds
(``extra``); its parts are those of the state (an engine's own arena, then one per bag; with cells, the shared
dictionary and then each cell's) up to their high-water marks. ``crown.engine.snapshot`` reads it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from crown.guards.arguments import path_of
from crown.kernels.arena import H_TOP
from crown.store import words_file
from plans.plan import Plan
from plans.search.shares import Grid

KIND = b"crown snapshot"


def write(
    path: str | os.PathLike[str],
    plan: Plan,
    on_missing: str,
    grid: Grid | None,
    extra: dict[str, Any] | None,
    parts: Sequence[np.ndarray],
) -> int:
    """Writes a state between two batches; ``grid`` says how it is cut into cells, if it is.

    Returns the bytes written. O(state). Raises SnapshotError if it cannot be written.
    """
    header = {
        "plan": plan.to_json(),
        "on_missing": on_missing,
        "grid": None if grid is None else grid.to_json(),
        "extra": extra or {},
    }
    return words_file.write(path_of(path, "path"), KIND, header, [part[: int(part[H_TOP])] for part in parts])
