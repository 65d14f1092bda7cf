"""What an engine keeps: one mapping of memory, divided into its own arena and one per bag.

Everything is in there, the dictionary of strings included, so a state is created, attached to and copied as
plain words.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any, Self

import numpy as np

from crown.bags import BagSpec, open_bag
from crown.codec import uses_dictionary
from crown.compile import compile_plan
from crown.dictionary import Dictionary
from crown.errors import CrownError, MemoryBudgetError, SnapshotError
from crown.kernels import arena as A
from crown.kernels import state
from crown.kernels.tables import table_at
from crown.kernels.warm import ensure_compiled
from crown.memory import ADDRESSABLE, map_file, reserve
from plans.plan import Plan


class State:
    """The state of one plan: arena, compiled plan, dictionary, bags, header. ``create`` and ``attach`` make one."""

    def __init__(
        self, plan: Plan, arena: np.ndarray, path: Path | None, on_missing: str, dictionary: Dictionary | None = None
    ) -> None:
        ensure_compiled()
        if on_missing not in ("ignore", "raise"):
            raise CrownError(f'on_missing must be "ignore" or "raise", not {on_missing!r}')
        self.plan = plan
        self.path = path
        self.on_missing = on_missing
        self._layout = compile_plan(plan, extra_tables=2)
        n = len(plan.nodes)
        self._support = table_at(2 * n + 1)
        bags = [i for i, node in enumerate(plan.nodes) if node.bag is not None]
        # The state of each bag lies in an equal part of the same mapping, with a header of its own.
        self.parts = np.split(arena, 1 + len(bags))
        self.M = self.parts[0]
        self._m32 = self.M.view(np.int32)
        self._P = self._layout.P
        self.dictionary = Dictionary(self.M, table_at(2 * n)) if dictionary is None else dictionary
        self._bags = {
            i: open_bag(node.bag.method, BagSpec.of(node.bag), part)
            for (i, node), part in zip(((i, plan.nodes[i]) for i in bags), self.parts[1:], strict=True)
            if node.bag is not None
        }

    @classmethod
    def create(
        cls,
        plan: Plan,
        path: str | os.PathLike[str] | None = None,
        *,
        memory_budget: int | None = None,
        on_missing: str = "ignore",
        seed: int | None = None,
        dictionary: Dictionary | None = None,
    ) -> Self:
        """A new, empty engine in anonymous memory, or in the file ``path`` (overwritten; it may grow larger than RAM).

        ``memory_budget``: bytes of state; a batch that would pass it is undone and refused with MemoryBudgetError.
        ``seed``: of the hash tables; random by default, so that no input can be built to collide.
        ``dictionary``: one that several engines share; an engine has its own by default.
        """
        budget, limit = ADDRESSABLE, ADDRESSABLE
        if memory_budget is not None:
            budget = memory_budget // 8
            if budget < A.header_words(2 * len(plan.nodes) + 2) + 1024:
                raise MemoryBudgetError(
                    f"memory_budget={memory_budget} is too small to start with; give at least 64 KiB"
                )
            limit = min(ADDRESSABLE, 2 * budget + (1 << 20))
        where = None if path is None else Path(path)
        if where is not None:
            where.unlink(missing_ok=True)
        words = limit * parts_of(plan)
        arena = reserve(words) if where is None else map_file(where, words)
        made = cls(plan, arena, where, on_missing, dictionary)
        chosen = secrets.randbits(62) if seed is None else seed
        state.create(made.M, made._m32, made._P, made._layout.tables, limit, budget, chosen)
        made.M[A.H_PLAN0 : A.H_PLAN1 + 1] = fingerprint_words(plan)
        made.M[A.H_CLEAN] = 1
        return made

    @classmethod
    def attach(cls, plan: Plan, path: str | os.PathLike[str], *, on_missing: str = "ignore") -> Self:
        """The engine whose state is in the file ``path``.

        O(1). Raises SnapshotError if it is not a state of this plan.
        """
        where = Path(path)
        arena = map_file(where, None)
        check_header(arena[: len(arena) // parts_of(plan)], plan, where)
        return cls(plan, arena, where, on_missing)

    @property
    def version(self) -> int:
        """Number that the owner gave to the last batch (see ``begin``); -1 before the first."""
        return int(self.M[A.H_VERSION]) - 1

    @property
    def clean(self) -> bool:
        """False while, or after a crash in, the application of a batch."""
        return bool(self.M[A.H_CLEAN])

    def begin(self) -> None:
        """Mark the state dirty: a batch is being applied."""
        self.M[A.H_CLEAN] = 0

    def commit(self, version: int) -> None:
        """Mark the state clean, with ``version`` (>= 0) the last batch applied."""
        self.M[A.H_VERSION] = version + 1
        self.M[A.H_CLEAN] = 1

    # Changes
    # ------------------------------------------------------------------------------------------------------------

    def mark_values(self) -> None:
        """Mark everything in the dictionary that this state refers to. O(state)."""
        dictionary, attributes = self.dictionary, self.plan.attributes
        for i, words in enumerate(self._layout.words):  # of a source the first alias has the table, the others none
            for a, word in words.items():
                if uses_dictionary(attributes[a].type):
                    dictionary.mark_column(self.M, table_at(i), word)
        for bag in self._bags.values():
            for a in bag.spec.attributes:
                if uses_dictionary(attributes[a].type):
                    dictionary.mark_codes(bag.values(a))
        if self.plan.support:
            for j, output in enumerate(self.plan.output):
                if uses_dictionary(output.type):
                    dictionary.mark_column(self.M, self._support, j)

    def compact(self) -> int:
        """Free dictionary entries that nothing refers to; number freed. O(state).

        Runs by itself when the dictionary has doubled.
        """
        self.mark_values()
        return self.dictionary.sweep()

    def stats(self) -> dict[str, Any]:
        """Sizes and counters.

        Bytes: ``live`` in use, ``reserved`` the high-water mark. Counters are totals since creation.
        """
        M, n = self.M, len(self.plan.nodes)
        rows = {node.name: int(M[table_at(i) + A.T_ROWS]) for i, node in enumerate(self.plan.nodes)}
        inputs = [i for i, node in enumerate(self.plan.nodes) if node.kind != "virtual"]
        name = [node.name for node in self.plan.nodes]
        return {
            "rows": rows,
            "input_rows": sum(rows[name[i]] for i in inputs),
            "groups": {name[i]: int(M[table_at(n + i) + A.T_COUNT]) for i in range(1, n)},
            "dictionary": len(self.dictionary),
            "support": int(M[self._support + A.T_COUNT]),
            "live_bytes": 8 * int(M[A.H_LIVE]),
            "reserved_bytes": 8 * int(M[A.H_TOP]),
            "updates": {name[i]: int(M[table_at(i) + A.T_TALLY2]) for i in inputs},
            "missing_deletes": {name[i]: int(M[table_at(i) + A.T_TALLY]) for i in inputs},
            "filtered": {name[i]: int(M[table_at(n + i) + A.T_TALLY]) for i in inputs},
            "r_updates": int(M[A.H_R]),
            "s_updates": int(M[A.H_S]),
            "p_updates": int(M[A.H_P]),
            "live_flips": int(M[A.H_LFLIP]),
            "steps": int(M[A.H_STEPS]),
            "blocks": int(M[A.H_BLOCKS]),
            "emitted": int(M[A.H_EMITTED]),
            "max_delay": int(M[A.H_GAP]),
            "bags": {name[i]: bag.stats() for i, bag in self._bags.items()},
        }


def parts_of(plan: Plan) -> int:
    """Into how many equal parts the state of a plan is divided: the engine's own and one per bag."""
    return 1 + sum(node.bag is not None for node in plan.nodes)


def fingerprint_words(plan: Plan) -> np.ndarray:
    """The first 16 bytes of the plan's fingerprint as two int64 words."""
    return np.frombuffer(bytes.fromhex(plan.fingerprint[:32]), np.int64)


def check_header(arena: np.ndarray, plan: Plan, source: Path) -> None:
    """Raise SnapshotError unless the arena was written by this version for this plan."""
    if len(arena) < A.H_TABLES or not state.is_ours(arena) or not 0 < arena[A.H_TOP] <= len(arena):
        raise SnapshotError(f"{source} is not a state of this version of the engine")
    found = arena[A.H_PLAN0 : A.H_PLAN1 + 1]
    if not (found == fingerprint_words(plan)).all():
        raise SnapshotError(
            f"{source} holds the state of another query (fingerprint {found.tobytes().hex()}, "
            f"this plan's is {plan.fingerprint[:32]}); "
            "use a fresh path for the changed query"
        )
