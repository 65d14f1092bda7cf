"""The memory of a program: parts of equal length, for the dictionary, the base tables, and each stage.

A snapshot of a program is one file with the program and the state of its parts. It is a file of words (see
``crown.store.words_file``). Its header has the program, the option for missing deletes, whether rows that no stage
reads are left out, the number of threads, the grids of the stages (``grids``), the columns by which relations are
partitioned among cells of the whole program (``partitioning``), and the fields of the owner (``extra``). Its parts are
those of the memory, up to their high-water marks. ``crown.programs.snapshot`` reads it.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crown.errors import MemoryBudgetError, SnapshotError
from crown.kernels.memory import arena as A
from crown.kernels.memory.arena import H_TOP
from crown.kernels.memory.tables import new_table, table_at
from crown.stages.protocol import Part
from crown.store import words_file
from crown.store.budget import Budget
from crown.store.dictionary import Dictionary
from crown.store.memory import ADDRESSABLE, SLACK, MappedFile, Space, anonymous, whole_pages
from plans.program import Program
from plans.programs.fixpoints import inner_of, with_inner
from plans.programs.stages import FixpointStage, JoinStage, LinearStage, Stage
from plans.programs.wiring import wiring
from plans.search.cells.shares import grids_of

OWN_PARTS = 2  # the dictionary and the base tables


def parts_of(stage: Stage) -> int:
    """Returns the number of parts of a stage: a join stage has one and one per bag, a count one, a linear stage none,
    a recursion one and those of the stages inside of it."""
    if isinstance(stage, FixpointStage):
        return 1 + sum(map(parts_of, inner_of(stage)))
    if isinstance(stage, JoinStage) and stage.plan.count is not None:
        return 1
    if isinstance(stage, JoinStage):
        return 1 + sum(node.bag is not None for node in stage.plan.nodes)
    return 0 if isinstance(stage, LinearStage) else 1


def parts_of_program(program: Program, threads: int = 1) -> int:
    """Returns the number of parts of a program whose joins are partitioned for ``threads`` threads."""
    grids = grids_of(program, threads)
    return OWN_PARTS + sum(grid.cells * parts_of(stage) for stage, grid in zip(program.stages, grids, strict=True))


def parts_with_own_words(program: Program, threads: int) -> frozenset[int]:
    """Returns the numbers of the parts of bags and counts."""
    found: list[int] = []
    first = OWN_PARTS
    for stage, grid in zip(program.stages, grids_of(program, threads), strict=True):
        for _ in range(grid.cells):
            for inner in with_inner(stage):
                parts = 1 if isinstance(inner, FixpointStage) else parts_of(inner)
                tree = isinstance(inner, JoinStage) and inner.plan.count is None
                found += range(first + tree, first + parts) if isinstance(inner, JoinStage) else ()
                first += parts
    return frozenset(found)


def layout_words(program: Program, on_missing: str, selecting: bool, whole: bool) -> np.ndarray:
    """Returns two int64 words that identify the contents of a state: the program, and the stored columns of its
    relations."""
    wires = wiring(program, on_missing, selecting=selecting, whole=whole)
    base = {name: wire for name, wire in wires.items() if isinstance(name, str)}
    columns = {name: [[c.name.lower(), c.type] for c in wire.columns] for name, wire in base.items()}
    filtered = sorted(name for name, wire in base.items() if wire.conditions)
    contents = [program.fingerprint, columns, filtered, on_missing == "trust"]
    return np.frombuffer(hashlib.sha256(json.dumps(contents).encode()).digest()[:16], np.int64)


class ProgramMemory:
    """Arenas, ``parts``, with one budget of ``words`` and one dictionary, which is in the first arena.

    ``spaces``: per part, the space in which it is reserved as it grows, or None if all of it is reserved from the
    beginning. Parts in a ``file`` share it. Other parts are separate, and each is freed with the last memory that
    contains it. ``first``: the number of the first part in the ``budget``.
    """

    def __init__(
        self,
        parts: Sequence[np.ndarray],
        words: int,
        spaces: Sequence[Space | None],
        budget: Budget | None = None,
        first: int = 0,
    ) -> None:
        self.parts = parts
        self.first = first
        self._spaces = spaces
        self.file = next((space for space in spaces if isinstance(space, MappedFile)), None)
        if self.file is not None:
            self.file.parts = parts
        self.budget = Budget(parts, words, spaces) if budget is None else budget
        self.dictionary = Dictionary(parts[0], int(table_at(0)), self.budget, first)

    @classmethod
    def create(
        cls,
        parts: int,
        memory_budget: int | None = None,
        seed: int | None = None,
        path: Path | None = None,
        sizes: Sequence[int] = (),
        cells: int = 1,
    ) -> ProgramMemory:
        """Makes empty parts in anonymous memory, or in the file ``path`` (overwritten; it may outgrow RAM).

        ``memory_budget``: bytes. ``sizes``: words that will be filled in. ``cells``: there are as many parts for each
        of so many cells (see ``cells``). Raises MemoryBudgetError if the budget is too
        small to start with, the disk full, or the address space too small.
        """
        each, parts = parts, cells * parts
        words, length = limits_of(memory_budget, parts)
        if path is None:
            arenas, spaces = _separate_arenas(parts, length)
            made = cls(arenas, words, spaces)
        else:
            file = MappedFile.create(path, length * parts)
            made = cls(np.split(file.words, parts), words, [file] * parts)
        made.limit(sizes or [0] * parts)
        chosen = secrets.randbits(62) if seed is None else seed
        for first in made.parts[::each]:
            A.format_arena(first, 1, int(first[A.H_LIMIT]), chosen)
            new_table(first, int(table_at(0)))
        return made

    def cells(self, number: int) -> list[ProgramMemory]:
        """Returns the memory of each of some cells, which have the budget in common."""
        each = len(self.parts) // number
        return [
            ProgramMemory(
                self.parts[first : first + each],
                self.budget.words,
                self._spaces[first : first + each],
                self.budget,
                first,
            )
            for first in range(0, len(self.parts), each)
        ]

    @classmethod
    def attach(cls, parts: int, path: Path) -> ProgramMemory:
        """Returns the parts in the file ``path``. O(1). Raises SnapshotError if the file has another form."""
        file = MappedFile.open(path, parts)
        first = file.words[: len(file.words) // parts]
        if len(file.words) % parts or len(first) < A.H_TABLES or not A.is_arena(first):
            raise SnapshotError(f"{path} does not hold the state of a program of this version; name another file")
        return cls(np.split(file.words, parts), limits_of(None, parts)[0], [file] * parts)

    def shared(self, kept: Mapping[int, int], parts: int, memory_budget: int | None) -> ProgramMemory:
        """Returns memory that shares parts with this one, which is not in a file. ``kept``: the numbers of shared parts
        there -> their numbers here. The other parts are empty. O(parts). Raises the errors of ``create``."""
        words, length = limits_of(memory_budget, parts)
        fresh = zip(*_separate_arenas(parts - len(kept), length), strict=True)
        each = [(self.parts[kept[n]], self._spaces[kept[n]]) if n in kept else next(fresh) for n in range(parts)]
        made = ProgramMemory([part for part, _ in each], words, [space for _, space in each])
        for number in set(range(parts)).difference(kept):
            made.budget.back(number, SLACK)
        return made

    def copied(self, memory_budget: int | None) -> ProgramMemory:
        """Returns a copy of all parts, in memory. O(state). Raises the errors of ``create``."""
        sizes = [int(part[A.H_TOP]) for part in self.parts]
        made = ProgramMemory.create(len(sizes), memory_budget, sizes=sizes)
        for source, target, size in zip(self.parts, made.parts, sizes, strict=True):
            target[:size] = source[:size]
        made.limit(sizes)
        return made

    def limit(self, words: Sequence[int]) -> None:
        """Sets the limit of each part: its length in memory, or its reserved words.

        Reserves at least the first ``words`` of each part. Raises MemoryBudgetError if there is no room for them.
        """
        for number, required in enumerate(words):
            self.budget.back(number, max(SLACK, required))

    def stamp(self, program: Program, threads: int, layout: np.ndarray) -> None:
        """Writes the two layout words into every part, except those of bags and counts, which have their own
        identification."""
        own_parts = parts_with_own_words(program, threads)
        for number, part in enumerate(self.parts):
            if number not in own_parts:
                part[A.H_PLAN0 : A.H_PLAN1 + 1] = layout

    def part(self, number: int) -> Part:
        """Returns a part. Number 0 is that of the dictionary."""
        return Part(self.parts[number], self.first + number, self.budget, self.dictionary)


_MINIMUM = 1024  # words of every part, besides its header, that are needed to start with


def limits_of(memory_budget: int | None, parts: int) -> tuple[int, int]:
    """Returns the budget in words for ``memory_budget`` bytes, and the length of the arena of each part.

    An arena is longer than its budget, since the intermediate memory of a batch, and of its undo, must fit. Raises
    MemoryBudgetError for a budget that is too small to start ``parts`` parts.
    """
    if memory_budget is None:
        return ADDRESSABLE, ADDRESSABLE
    words, minimum = memory_budget // 8, parts * (A.header_words(2) + _MINIMUM)
    if words < minimum:
        raise MemoryBudgetError(
            f"memory_budget={memory_budget} is too small for this query to start with; give at least "
            f"{-(-8 * minimum // 1024)} KiB"
        )
    return words, min(ADDRESSABLE, whole_pages(4 * words + (1 << 20)))


def _separate_arenas(parts: int, length: int) -> tuple[list[np.ndarray], list[Space | None]]:
    """Returns ``parts`` arenas of anonymous memory, and the space of each."""
    made = [anonymous(length) for _ in range(parts)]
    return [arena for arena, _ in made], [space for _, space in made]


KIND = b"crown snapshot"


def write(
    path: str | os.PathLike[str],
    program: Program,
    on_missing: str,
    selecting: bool,
    threads: int,
    extra: dict[str, Any] | None,
    parts: Sequence[np.ndarray],
    partitioning: Mapping[str, str] | None = None,
) -> int:
    """Writes a state between two batches. Returns the bytes written. O(state). ``partitioning``: the columns by
    which relations are partitioned among cells of the whole program, one per thread.

    Raises SnapshotError if the file cannot be written.
    """
    grids = [grid.to_json() for grid in grids_of(program, threads if partitioning is None else 1)]
    header = {"program": program.to_json(), "on_missing": on_missing, "selecting": selecting}
    header |= {
        "threads": threads,
        "grids": grids,
        "partitioning": partitioning,
        "extra": extra or {},
    }
    return words_file.write(path, KIND, header, [part[: int(part[H_TOP])] for part in parts])
