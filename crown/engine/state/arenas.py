"""What an engine keeps: one mapping of memory, divided into its own arena and one per bag.

Everything is in there, the dictionary of strings included, so a state is created, attached to and copied as
plain words.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np

from crown.bags.protocol import BagSpec, open_bag
from crown.engine.compile import compile_plan
from crown.engine.kernels import state, turns
from crown.engine.kernels.warm import ensure_view_compiled
from crown.errors import CrownError, MemoryBudgetError, SnapshotError
from crown.guards.uncopyable import NotCopyable
from crown.kernels import arena as A
from crown.kernels.geometry import (
    dictionary_table,
    groups_table,
    rows_table,
    support_table,
    table_total,
)
from crown.kernels.tables import table_at
from crown.results.support import Support
from crown.store.budget import SLACK, Budget
from crown.store.codec import uses_dictionary
from crown.store.dictionary import Dictionary
from crown.store.memory import ADDRESSABLE, MappedFile, numbers, reserve
from plans.plan import Plan
from plans.program import Maintainable


class State(NotCopyable, instead="save(path) and crown.load(path) make another one"):
    """The state of one plan: arenas, compiled plan, dictionary, bags, header. ``create`` and ``attach`` make one.

    ``arena``: the memory, of which every part is new (zero) or holds a state of the plan; ``file``: what it is mapped
    from, if it is; ``words``: the budget of all parts together, unless a ``budget`` is given, of which
    these parts are some. ``exact``: every delete will find its row (see ``compile_plan``).
    """

    def __init__(
        self,
        plan: Plan,
        arena: np.ndarray,
        file: MappedFile | None,
        dictionary: Dictionary | None = None,
        words: int = ADDRESSABLE,
        budget: Budget | None = None,
        exact: bool = False,
    ) -> None:
        ensure_view_compiled(plan.payload is not None, any(node.padded for node in plan.nodes))
        self.plan = plan
        self.file = file
        self.compiled = compile_plan(plan, exact)
        n = len(plan.nodes)
        bags = [i for i, node in enumerate(plan.nodes) if node.bag is not None]
        # The state of each bag lies in an equal part of the same mapping, with a header of its own.
        self.parts = np.split(arena, 1 + len(bags))
        self.arena = self.parts[0]
        self.header = numbers(self.arena[: A.header_words(table_total(n))])
        self.halves = self.arena.view(np.int32)
        self.plan_array = self.compiled.array
        self.budget = Budget(self.parts, words, file) if budget is None else budget
        self.own_dictionary = dictionary is None
        self.dictionary = (
            Dictionary(self.arena, table_at(dictionary_table(n)), self.budget) if dictionary is None else dictionary
        )
        self.counts = Support(self.arena, table_at(support_table(n)), len(plan.output), self.budget)
        limits = [_reserved(part) for part in self.parts]
        self.bags = {
            i: open_bag(node.bag.method, BagSpec.of(node.bag), part)
            for (i, node), part in zip(((i, plan.nodes[i]) for i in bags), self.parts[1:], strict=True)
            if node.bag is not None
        }
        for part, reserved in zip(self.parts, limits, strict=True):
            part[A.H_LIMIT] = len(part) if file is None else reserved

    @classmethod
    def create(
        cls,
        plan: Plan,
        path: str | os.PathLike[str] | None = None,
        *,
        memory_budget: int | None = None,
        seed: int | None = None,
        dictionary: Dictionary | None = None,
    ) -> Self:
        """Makes a new, empty state in anonymous memory, or in the file ``path`` (overwritten; it may outgrow RAM).

        ``memory_budget``: bytes of state; a batch that would pass it is undone and refused with MemoryBudgetError.
        ``seed``: of the hash tables; random by default, so that no input can be built to collide.
        ``dictionary``: one that several states share; a state has its own by default.
        """
        if keyed := [table for table in plan.tables if table.by_key]:
            said = "upserts" if keyed[0].upserts else "an enforced key"
            raise CrownError(
                f"relation {keyed[0].name!r} is declared with {said}, which crown.view takes, not a plan's engine"
            )
        words, limit = limits_of(memory_budget)
        if words < A.header_words(table_total(len(plan.nodes))) + 1024:
            raise MemoryBudgetError(f"memory_budget={memory_budget} is too small to start with; give at least 64 KiB")
        parts = parts_of(plan)
        file = None if path is None else MappedFile.create(Path(path), limit * parts)
        arena = reserve(limit * parts) if file is None else file.words
        if file is not None:
            back(file, [SLACK] * parts)
        made = cls(plan, arena, file, dictionary, words)
        made.format(words, seed)
        return made

    def format(self, words: int, seed: int | None = None) -> None:
        """Writes an empty state into a new arena. ``words``: its budget; ``seed``: see ``create``."""
        chosen = secrets.randbits(62) if seed is None else seed
        known = int(self.arena[A.H_LIMIT])
        state.create(self.arena, self.halves, self.plan_array, self.compiled.tables, known, words, chosen)
        if any(node.padded for node in self.plan.nodes):
            turns.make_paddings(self.arena, self.halves, self.plan_array)
        self.arena[A.H_PLAN0 : A.H_PLAN1 + 1] = fingerprint_words(self.plan)
        self.arena[A.H_CLEAN] = 1

    @classmethod
    def attach(cls, plan: Plan, path: str | os.PathLike[str]) -> Self:
        """Returns the state that is in the file ``path``.

        O(1). Raises SnapshotError if it is not a state of this plan.
        """
        file = MappedFile.open(Path(path))
        check_header(file.words[: len(file.words) // parts_of(plan)], plan, file.path)
        return cls(plan, file.words, file)

    @property
    def path(self) -> Path | None:
        """Returns the file in which the state is kept, or None."""
        return None if self.file is None else self.file.path

    @property
    def version(self) -> int:
        """Returns the number that the owner gave to the last batch (see ``begin``); -1 before the first."""
        return self.header[A.H_VERSION] - 1

    @property
    def clean(self) -> bool:
        """Returns False while, or after a crash in, the application of a batch."""
        return bool(self.header[A.H_CLEAN]) and not self.lost

    @property
    def lost(self) -> bool:
        """Returns True while a batch is being applied, and for ever after one that could not be taken back."""
        return bool(self.header[A.H_OPEN])

    @property
    def epoch(self) -> int:
        """Returns a number that every change of the state moves on."""
        return self.header[A.H_EPOCH]

    def begin(self) -> None:
        """Marks the state dirty: a batch is being applied."""
        self.header[A.H_CLEAN] = 0

    def commit(self, version: int) -> None:
        """Marks the state clean, with ``version`` (>= 0) the last batch applied."""
        self.header[A.H_VERSION] = version + 1
        self.header[A.H_CLEAN] = 1

    def mark_values(self) -> None:
        """Marks everything in the dictionary that this state refers to. O(state)."""
        dictionary, attributes = self.dictionary, self.plan.attributes
        for i, words in enumerate(self.compiled.words):  # of a relation the first alias has the table, the others none
            for a, word in words.items():
                if uses_dictionary(attributes[a].type):
                    dictionary.mark_column(self.arena, table_at(rows_table(i)), word)
        for i in self.compiled.summed:  # no row is there, but keys are
            for place, a in enumerate(self.plan.nodes[i].key):
                if uses_dictionary(attributes[a].type):
                    table = groups_table(len(self.plan.nodes), self.compiled.index[i])
                    dictionary.mark_column(self.arena, table_at(table), place)
        for bag in self.bags.values():
            for a in bag.spec.attributes:
                if uses_dictionary(attributes[a].type):
                    dictionary.mark_codes(bag.values(a))
        if self.plan.support:
            for j, output in enumerate(self.plan.output):
                if uses_dictionary(output.type):
                    dictionary.mark_column(self.arena, self.counts.table, j)

    def compact(self) -> int:
        """Frees the dictionary entries that nothing refers to. Returns how many. O(state)."""
        self.mark_values()
        return self.dictionary.sweep()


def parts_of(plan: Plan) -> int:
    """Returns into how many equal parts the state of a plan is divided: the engine's own and one per bag."""
    return 1 + sum(node.bag is not None for node in plan.nodes)


def limits_of(memory_budget: int | None) -> tuple[int, int]:
    """Returns the budget in words for ``memory_budget`` bytes, and how long the arena of each part is made.

    An arena is longer than its budget: what a batch needs on its way, and to be taken back, must fit.
    """
    if memory_budget is None:
        return ADDRESSABLE, ADDRESSABLE
    words = memory_budget // 8
    return words, min(ADDRESSABLE, 4 * words + (1 << 20))


def back(file: MappedFile, words: Sequence[int]) -> None:
    """Gives the first ``words`` of each part of a new state file blocks on the disk.

    MemoryBudgetError if it is full.
    """
    length = len(file.words) // len(words)
    file.parts = np.split(file.words, len(words))
    try:
        for i, wanted in enumerate(words):
            file.reserve(i * length, min(wanted, length))
            file.words[i * length + A.H_LIMIT] = min(wanted, length)
    except OSError as error:
        raise MemoryBudgetError(
            f"the disk has no room for the state file {file.path} ({error.strerror}); make room, or keep the state "
            "elsewhere"
        ) from error


def _reserved(part: np.ndarray) -> int:
    """Returns how much of a part in a file has blocks on the disk, by its header; one of before says the whole."""
    limit = int(part[A.H_LIMIT])
    return limit if limit < len(part) else int(part[A.H_TOP])


def fingerprint_words(plan: Maintainable) -> np.ndarray:
    """Returns the first 16 bytes of the plan's fingerprint as two int64 words."""
    return np.frombuffer(bytes.fromhex(plan.fingerprint[:32]), np.int64)


def check_header(arena: np.ndarray, plan: Plan, source: Path) -> None:
    """Raises SnapshotError unless the arena was written by this version for this plan."""
    if len(arena) < A.H_TABLES or not A.is_arena(arena):
        raise SnapshotError(f"{source} is not a state of this version of the engine")
    found = arena[A.H_PLAN0 : A.H_PLAN1 + 1]
    if not (found == fingerprint_words(plan)).all():
        raise SnapshotError(
            f"{source} holds the state of another query (fingerprint {found.tobytes().hex()}, "
            f"this plan's is {plan.fingerprint[:32]}); "
            "use a fresh path for the changed query"
        )
