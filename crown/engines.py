"""Which engine maintains what: the one place that knows every kind.

A view asks for an engine here and knows it by its promises only (``crown.maintained``).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from crown.engine import snapshot
from crown.engine.cells import Cells
from crown.engine.engine import Engine
from crown.errors import CrownError, SnapshotError
from crown.maintained import Queryable
from crown.programs import snapshot as programs
from crown.programs.program import ProgramEngine
from crown.stages.cells import cells_of
from plans.program import Program

_IN_MEMORY = "path=... keeps the state of one engine in a file; leave threads at 1, or path out"


def create(program: Program, path: Path | None, threads: int, memory_budget: int | None, on_missing: str) -> Queryable:
    """Makes a new, empty engine: one, in memory or in the file ``path``, or ``threads`` cells in memory.

    A program of one join core has an engine of its own; of another, every join stage is cut into cells.

    ``memory_budget``: bytes. Raises PlanError for a plan that cannot be cut, SnapshotError for a file that cannot be
    made, and CrownError for arguments that do not go together.
    """
    if program.results is not None:
        raise CrownError("a program with several named results is what crown.database maintains, not crown.view")
    plan = program.plan
    if plan is None:
        if threads > 1:
            if max(cells_of(program, threads)) == 1:
                raise CrownError("threads=N cuts joins, and this query has none that can be; leave threads at 1 for it")
            if path is not None:
                raise CrownError(_IN_MEMORY)
        try:
            return ProgramEngine.create(
                program, path, memory_budget=memory_budget, on_missing=on_missing, threads=threads
            )
        except OSError as error:
            raise SnapshotError(f"cannot keep the state in {path}: {error.strerror}") from error
    if threads == 1:
        try:
            return Engine.create(plan, path, memory_budget=memory_budget, on_missing=on_missing)
        except OSError as error:
            raise SnapshotError(f"cannot keep the state in {path}: {error.strerror}") from error
    if path is not None:
        raise CrownError(_IN_MEMORY)
    return Cells.create(plan, threads, memory_budget=memory_budget, on_missing=on_missing)


def load(
    path: str | os.PathLike[str], state_path: Path | None, memory_budget: int | None
) -> tuple[Queryable, dict[str, Any]]:
    """Returns the engine of a snapshot and what was saved with it. See ``crown.engine.snapshot.load_any``."""
    if programs.is_one(path):
        return programs.load(path, state_path, memory_budget)
    return snapshot.load_any(path, state_path=state_path, memory_budget=memory_budget)
