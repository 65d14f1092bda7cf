"""Snapshots of programs: one file that holds a program and the state of all its parts.

A file of words (see ``crown.store.words_file``). Its header has the program, what deletes of absent rows do, and what
the owner adds (``extra``); its parts are those of the memory, up to their high-water marks.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from crown.arguments import path_of
from crown.errors import MemoryBudgetError, SnapshotError
from crown.kernels import arena as A
from crown.stages.memory import ProgramMemory, parts_of_program
from crown.stages.program import ProgramEngine
from crown.store import words_file
from plans.errors import PlanError
from plans.program import Program

KIND = b"crown program"
_FIELDS = {"program", "on_missing", "extra"}


def save(engine: ProgramEngine, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> int:
    """Write the state of an engine between two batches, and ``extra``. Returns the bytes written. O(state).

    Raises SnapshotError if it cannot be written.
    """
    engine.ready()
    header = {"program": engine.plan.to_json(), "on_missing": engine.on_missing, "extra": extra or {}}
    parts = [part[: int(part[A.H_TOP])] for part in engine.memory.parts]
    return words_file.write(path_of(path, "path"), KIND, header, parts)


def load(path: str | os.PathLike[str], memory_budget: int | None = None) -> tuple[ProgramEngine, dict[str, Any]]:
    """Returns the engine that ``save`` wrote and what was saved with it. O(state).

    Raises SnapshotError for a foreign or damaged file, MemoryBudgetError if the state is larger than the budget.
    """
    with words_file.opened(path) as file:
        header = words_file.read_header(file, path, KIND, "crown", _FIELDS)
        program = _program(header["program"], path)
        words = header["words"]
        if header["on_missing"] not in ("ignore", "raise", "trust") or not isinstance(header["extra"], dict):
            raise SnapshotError(f"{path} is damaged: its header is not that of a program")
        if len(words) != parts_of_program(program):
            raise SnapshotError(f"{path} is damaged: it has {len(words)} parts, not those of its program")
        memory = ProgramMemory.create(len(words), memory_budget)
        limit = len(memory.parts[0])
        if max(words) > limit:
            raise MemoryBudgetError(f"the state in {path} is larger than memory_budget={memory_budget} bytes allows")
        words_file.fill(file, [part[:n] for part, n in zip(memory.parts, words, strict=True)], header["crc32"], path)
    for part, n in zip(memory.parts, words, strict=True):
        _check(part, n, path)
        part[A.H_LIMIT] = limit
    return ProgramEngine(program, memory, header["on_missing"]), header["extra"]


def _program(given: Any, path: str | os.PathLike[str]) -> Program:
    try:
        return Program.from_json(given)
    except PlanError as error:
        raise SnapshotError(f"{path} is damaged: its program cannot be read ({error.message})") from error


def _check(part: np.ndarray, words: int, path: str | os.PathLike[str]) -> None:
    """Raise SnapshotError unless a part is the whole of an arena between two batches."""
    if words < A.H_TABLES or part[A.H_MAGIC] != A.MAGIC or part[A.H_FORMAT] != A.FORMAT or part[A.H_TOP] != words:
        raise SnapshotError(f"{path} is damaged: a part of it is not the state of a stage")
    if part[A.H_OPEN]:
        raise SnapshotError(f"{path} is damaged: it was written while a batch was being applied")
