"""Reading a snapshot of a program, which ``crown.stages.state.saving`` wrote."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from crown.errors import MemoryBudgetError, SnapshotError
from crown.guards.arguments import path_of, same_file
from crown.kernels import arena as A
from crown.programs.program import ProgramEngine
from crown.programs.running import Running
from crown.programs.several import SeveralResults
from crown.stages.cells import cells_of, cuts_of
from crown.stages.state.memory import ProgramMemory, parts_of_program
from crown.stages.state.saving import KIND
from crown.store import words_file
from plans.errors import PlanError
from plans.program import Program

_Engine = TypeVar("_Engine", bound=Running)
_FIELDS = {"program", "on_missing", "extra"}


def is_one(path: str | os.PathLike[str]) -> bool:
    """Returns True if a file says that it is the snapshot of a program. Raises SnapshotError if it cannot be read."""
    with words_file.opened(path_of(path, "path")) as file:
        return file.readline(len(KIND) + 16).startswith(KIND + b" ")


def load(
    path: str | os.PathLike[str],
    state_path: Path | None = None,
    memory_budget: int | None = None,
    *,
    selecting: bool = True,
) -> tuple[ProgramEngine, dict[str, Any]]:
    """Returns the engine of one result that a snapshot holds and what was saved with it. O(state).

    ``state_path``: keep the state in that file instead of anonymous memory; it is overwritten. ``selecting``: as for
    ``ProgramEngine``.

    Raises SnapshotError for a foreign or damaged file, MemoryBudgetError if the state is larger than the budget.
    """
    return _load(partial(ProgramEngine, selecting=selecting), False, path, state_path, memory_budget)


def load_several(
    path: str | os.PathLike[str], memory_budget: int | None = None
) -> tuple[SeveralResults, dict[str, Any]]:
    """Returns the engine of several named results that a snapshot holds. See ``load``."""
    return _load(SeveralResults, True, path, None, memory_budget)


def _load(
    make: Callable[[Program, ProgramMemory, str, int], _Engine],
    several: bool,
    path: str | os.PathLike[str],
    state_path: Path | None,
    memory_budget: int | None,
) -> tuple[_Engine, dict[str, Any]]:
    """Returns the engine, which ``make`` makes, that a snapshot holds, and what was saved with it. O(state).

    ``several``: it is one of several results.

    Raises SnapshotError for a foreign or damaged file, MemoryBudgetError if the state is larger than the budget.
    """
    path = path_of(path, "path")
    if state_path is not None and same_file(path, state_path):
        raise SnapshotError(f"state_path is the snapshot {path} itself, which it would overwrite; name another file")
    with words_file.opened(path) as file:
        header = words_file.read_header(file, path, KIND, "crown", _FIELDS)
        program = _program(header["program"], path)
        if (program.results is not None) != several:
            holds, reader = ("one view", "load") if program.results is None else ("a database", "load_database")
            raise SnapshotError(f"{path} holds {holds}; crown.{reader}(path) reads it")
        words = header["words"]
        if header["on_missing"] not in ("ignore", "raise", "trust") or not isinstance(header["extra"], dict):
            raise SnapshotError(f"{path} is damaged: its header is not that of a program")
        threads = header.get("threads", 1)  # older files do not say so: they have one
        if not words_file.is_whole(threads) or threads < 1:
            raise SnapshotError(f"{path} is damaged: its header is not that of a program")
        if header.get("cut", []) != cuts_of(program, threads):
            raise SnapshotError(f"{path} has joins that are cut in another way than this release cuts them; start anew")
        if threads > 1 and state_path is not None:
            raise SnapshotError(f"{path} is of a view with {threads} threads, whose state is kept in memory alone")
        if len(words) != parts_of_program(program, cells_of(program, threads)):
            raise SnapshotError(f"{path} is damaged: it has {len(words)} parts, not those of its program")
        memory = ProgramMemory.create(len(words), memory_budget, None, state_path, words)
        if max(words) > len(memory.parts[0]):
            raise MemoryBudgetError(f"the state in {path} is larger than memory_budget={memory_budget} bytes allows")
        words_file.fill(file, [part[:n] for part, n in zip(memory.parts, words, strict=True)], header["crc32"], path)
    for part, n in zip(memory.parts, words, strict=True):
        _check(part, n, path)
    memory.limit(words)
    return make(program, memory, header["on_missing"], threads), header["extra"]


def _program(given: Any, path: str | os.PathLike[str]) -> Program:
    try:
        return Program.from_json(given)
    except PlanError as error:
        raise SnapshotError(f"{path} is damaged: its program cannot be read ({error.message})") from error


def _check(part: np.ndarray, words: int, path: str | os.PathLike[str]) -> None:
    """Raises SnapshotError unless a part is the whole of an arena between two batches."""
    if words < A.H_TABLES or not A.is_arena(part) or part[A.H_TOP] != words:
        raise SnapshotError(f"{path} is damaged: a part of it is not the state of a stage")
    if part[A.H_OPEN]:
        raise SnapshotError(f"{path} is damaged: it was written while a batch was being applied")
