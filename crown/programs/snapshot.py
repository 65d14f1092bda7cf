"""Loads a snapshot of a program, which ``crown.stages.state.memory`` has written.

A file is loaded completely or not at all: its checksums, its program, and whether every part belongs to that program
are checked before an engine reads it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from crown.errors import CrownError, FunctionError, MemoryBudgetError, SnapshotError
from crown.guards.arguments import path_of, same_file
from crown.kernels.memory import arena as A
from crown.programs.cells.engine import Engine, ProgramCells
from crown.programs.database_engine import DatabaseEngine
from crown.programs.program import ProgramEngine
from crown.stages.state.memory import (
    KIND,
    ProgramMemory,
    layout_words,
    limits_of,
    parts_of_program,
    parts_with_own_words,
)
from crown.store import words_file
from plans.errors import PlanError
from plans.program import Program
from plans.programs.fixpoints import with_inner
from plans.programs.reads import occurrences
from plans.programs.stages import JoinStage
from plans.programs.stored_relations import stored_relations
from plans.search.cells.shares import grids_of
from plans.search.cells.whole import partitioning_of
from plans.show import explain
from plans.show.programs import lines_of

_FIELDS = {"program", "on_missing", "selecting", "threads", "grids", "partitioning", "extra"}
_DAMAGED = (CrownError, PlanError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors that code may raise if it is given an invalid program."""


def load(
    path: str | os.PathLike[str],
    state_path: Path | None = None,
    memory_budget: int | None = None,
    verify: bool = True,
) -> tuple[Engine, dict[str, Any]]:
    """Returns the engine of one result that a snapshot holds, and the extra data that was saved with it. O(state).

    - ``state_path``: the file that holds the state, instead of anonymous memory. An existing file is replaced after the
      snapshot has been read and checked.
    - ``verify``: False to map the file into memory where the system can, instead of reading it. O(1). Its checksum is
      not checked, and no program may write to it afterwards.

    Raises SnapshotError for a foreign or damaged file, and if ``state_path`` is the snapshot itself; MemoryBudgetError
    if the state is larger than the budget.
    """
    return _load(False, path, state_path, memory_budget, verify)


def load_several(
    path: str | os.PathLike[str], memory_budget: int | None = None, verify: bool = True
) -> tuple[DatabaseEngine, dict[str, Any]]:
    """Returns the engine of several named results that a snapshot holds. See ``load``."""
    return _load(True, path, None, memory_budget, verify)


def saved_with(path: Path) -> dict[str, Any]:
    """Returns the extra data of a snapshot, without reading its state. Raises SnapshotError."""
    with words_file.opened(path) as file:
        extra: dict[str, Any] = words_file.read_header(file, path, KIND, "crown", _FIELDS)["extra"]
    return extra


def demand_whole(path: Path) -> None:
    """Raises SnapshotError unless the checksum of a snapshot is right. O(bytes)."""
    with words_file.opened(path) as file:
        words_file.verify(file, words_file.read_header(file, path, KIND, "crown", _FIELDS)["crc32"], path)


def _load(
    several: bool,
    given: str | os.PathLike[str],
    state_path: Path | None,
    memory_budget: int | None,
    verify: bool,
) -> tuple[Any, dict[str, Any]]:
    """Returns the engine that a snapshot holds, and its extra data. ``several``: it has several named results."""
    path = path_of(given, "path")
    if state_path is not None and same_file(path, state_path):
        raise SnapshotError(f"state_path is the snapshot {path} itself, which it would overwrite; name another file")
    with words_file.opened(path) as file:
        header = words_file.read_header(file, path, KIND, "crown", _FIELDS)
        program = _program(header["program"], path)
        if (program.results is not None) != several:
            holds, reader = ("one view", "load") if program.results is None else ("a database", "load_database")
            raise SnapshotError(f"{path} holds {holds}; crown.{reader}(path) reads it")
        threads, words, partitioning = header["threads"], header["words"], header["partitioning"]
        cells, own_threads = (1, threads) if partitioning is None else (threads, 1)
        _check_options(header, program, path)
        if threads > 1 and state_path is not None:
            raise SnapshotError(
                f"{path} holds a view with {threads} threads, whose state must be in memory; leave state_path out"
            )
        if len(words) != cells * parts_of_program(program, own_threads):
            raise SnapshotError(f"{path} is damaged: the number of its parts is not that of its program")
        if max(words) > limits_of(memory_budget, len(words))[1]:
            raise _too_large(sum(words), path)
        try:
            layout = layout_words(program, header["on_missing"], header["selecting"], several)
        except _DAMAGED as error:
            raise SnapshotError(f"{path} is damaged: its program is invalid") from error
        with _memory(words, memory_budget, state_path) as memory:
            parts = [part[:n] for part, n in zip(memory.parts, words, strict=True)]
            if verify or memory.file is not None or not words_file.can_be_mapped():
                words_file.fill(file, parts, header["crc32"], path)
            else:
                words_file.map_over(file, parts, path)
            others, each = parts_with_own_words(program, own_threads), len(words) // cells
            for number, (part, n) in enumerate(zip(memory.parts, words, strict=True)):
                _check_part(part, n, None if number % each in others else layout, path)
            memory.limit(words)
            if memory.budget.used > memory.budget.words:
                raise _too_large(memory.budget.used, path)
    kept = program, memory, header["on_missing"], threads, header["selecting"]
    try:
        if partitioning is not None:
            return ProgramCells(*kept, partitioning), header["extra"]
        return (DatabaseEngine if several else ProgramEngine)(*kept), header["extra"]
    except _DAMAGED as error:
        raise SnapshotError(f"{path} holds a state that does not fit its program: {error}") from error


def _program(given: Any, path: Path) -> Program:
    try:
        program = Program.from_json(given)
        for plan in [one.plan for s in program.stages for one in with_inner(s) if isinstance(one, JoinStage)]:
            for relation in stored_relations(plan):
                table = plan.table(relation.name)
                if any(table.column(name) is None for name in relation.columns):
                    raise PlanError(f"relation {table.name} lacks a column")
            explain.text(plan)  # no fingerprint covers these fields; a plan that can be shown has the right types
        if not isinstance(program.query, str):
            raise PlanError("its query is no text")
        for stage in program.stages:
            lines_of(stage)
        occurrences(program)
        return program
    except FunctionError:
        raise
    except PlanError as error:
        raise SnapshotError(f"{path} holds a program that this version cannot read: {error.message}") from error
    except _DAMAGED as error:
        raise SnapshotError(f"{path} is damaged: its program is invalid") from error


def _check_options(header: dict[str, Any], program: Program, path: Path) -> None:
    threads = header["threads"]
    sound = header["on_missing"] in ("ignore", "raise", "trust") and isinstance(header["extra"], dict)
    if not sound or not isinstance(header["selecting"], bool) or not words_file.is_whole(threads) or threads < 1:
        raise SnapshotError(f"{path} is damaged: its options are not those of a program")
    try:
        partitioning = None if header["partitioning"] is None else partitioning_of(program, threads)
        grids = [grid.to_json() for grid in grids_of(program, threads if partitioning is None else 1)]
    except _DAMAGED as error:
        raise SnapshotError(f"{path} is damaged: its program is invalid") from error
    if header["grids"] != grids or header["partitioning"] != partitioning:
        raise SnapshotError(
            f"{path} was saved by a release that cuts its program into other cells; create the view again"
        )


@contextmanager
def _memory(words: list[int], memory_budget: int | None, where: Path | None) -> Iterator[ProgramMemory]:
    """Yields memory for parts of which the first ``words`` will be filled.

    It is in the file ``where``, if given. That file is replaced only if the body succeeds.
    """
    if where is None:
        yield ProgramMemory.create(len(words), memory_budget, sizes=words)
        return
    if os.path.isdir(where):
        raise SnapshotError(f"cannot keep the state in {where}: this is a folder; name a file in it")
    if os.path.exists(where) and not os.path.isfile(where):
        raise SnapshotError(f"cannot keep the state in {where}: it exists and is not a file; name another path")
    try:
        with words_file.temporary(where) as partial:
            memory = ProgramMemory.create(len(words), memory_budget, path=partial, sizes=words)
            yield memory
            os.replace(partial, where)
        assert memory.file is not None
        memory.file.path = where
    except OSError as error:
        raise SnapshotError(f"cannot keep the state in {where}: {error.strerror}") from error


def _check_part(part: np.ndarray, words: int, layout: np.ndarray | None, path: Path) -> None:
    """Raises SnapshotError unless a part is a complete arena of the program, saved between two batches."""
    if words < A.H_TABLES or not A.is_arena(part) or part[A.H_TOP] != words:
        raise SnapshotError(f"{path} is damaged: a part of it is not the state of a stage")
    if layout is not None and (part[A.H_PLAN0 : A.H_PLAN1 + 1] != layout).any():
        raise SnapshotError(f"{path} is damaged: a part of it is the state of another query")
    if part[A.H_OPEN]:
        raise SnapshotError(f"{path} is damaged: it was written while a batch was being applied")


def _too_large(words: int, path: Path) -> MemoryBudgetError:
    return MemoryBudgetError(f"{path} holds more state ({8 * words} bytes) than memory_budget allows; raise it")
