"""The state of one triangle query in an arena, and the plan array that kernels interpret."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from crown.errors import MemoryBudgetError, SnapshotError, UnusableStateError
from crown.kernels.memory.arena import H_BUDGET, H_LIMIT, H_LIVE, H_MAGIC, H_OPEN, H_PLAN0, H_TOP, is_arena
from crown.store.budget import Budget
from crown.store.memory import ADDRESSABLE, reserve
from ivm_triangle.errors import TriangleError
from ivm_triangle.kernels.state import layout as at
from ivm_triangle.kernels.update.maintain import change_program, create
from ivm_triangle.kernels.warm import ensure_triangle_compiled
from ivm_triangle.terms import COUNT, DOMAINS, LIST, PAIRS, ROOT, SET, SUM, TOTAL, WEDGES, Program, Step

KINDS = {
    TOTAL: at.K_TOTAL,
    SUM: at.K_SUM,
    SET: at.K_SET,
    LIST: at.K_LIST,
    ROOT: at.K_ROOT,
    COUNT: at.K_COUNT,
    PAIRS: at.K_PAIRS,
}
DEFAULT_MEMORY = 8 << 30
ROW_WORDS = 64  # of a new tuple with both its ends, about, including table growth


def plan_array(program: Program, eps: tuple[float, float, float]) -> np.ndarray:
    """Returns the program as int64 words; see `kernels.layout`."""
    if len(program.views) > at.MAX_VIEWS:
        raise ValueError(f"a program has at most {at.MAX_VIEWS} views")
    steps = sorted(program.steps, key=lambda step: step.updated % program.copies)
    words = np.full(at.P_STEPS + at.STEP_WORDS * len(steps), -1, dtype=np.int64)
    for column in range(6):
        words[at.P_PARTITIONED + column] = program.partitioned[column]
        words[at.P_BORN + column] = program.partitioned[column] and eps[column // 2] == 0.0
    words[at.P_COPIES] = program.copies
    words[at.P_ADAPTIVE] = program.adaptive
    for k in range(4):
        words[at.P_STARTS + k] = sum(step.updated % program.copies < k for step in steps)
    for i, view in enumerate(program.views):
        row = at.P_VIEWS + at.VIEW_WORDS * i
        words[row + at.KIND] = KINDS[view.kind]
        words[row + at.OF] = view.of
        words[row + at.BUCKET] = view.key.index(view.bucket) if view.bucket else -1
        if view.kind == ROOT:
            words[at.P_VIEWS + at.VIEW_WORDS * view.of + at.ROOT_OF] = i
    for i, step in enumerate(steps):
        row = at.P_STEPS + at.STEP_WORDS * i
        words[row : row + at.LOADS + 1] = (
            step.updated,
            step.mask0,
            step.scan,
            step.mask1,
            step.mask2,
            step.write,
            step.hit,
            step.loads,
        )
        words[row + at.W0 : row + at.W0 + 3] = _roles(program, step, step.write)
        words[row + at.H0 : row + at.H0 + 3] = _roles(program, step, step.hit)
    return words


def _roles(program: Program, step: Step, view: int) -> tuple[int, int, int]:
    """Returns roles (0 x, 1 y, 2 z, -1 none) of the two key variables of a view, and of the third variable, at this
    step."""
    if view < 0:
        return -1, -1, -1
    key = program.views[view].key
    named = key[:2] + "".join(v for v in DOMAINS if v not in key[:2])
    roles = [(DOMAINS.index(v) - step.updated) % 3 for v in named]
    return (roles[0] if key else -1, roles[1] if len(key) > 1 else -1, roles[2])


class State:
    """Arena, its int32 view, the plan array, and the thresholds' exponents.

    `arena`: memory to use instead of `memory` bytes of its own. If it is zero, a new state is made in it. If it begins
    with a state of the same program, that state is used. Raises SnapshotError for any other contents.
    """

    def __init__(
        self,
        program: Program,
        eps: tuple[float, float, float],
        memory: int = DEFAULT_MEMORY,
        arena: np.ndarray | None = None,
    ) -> None:
        ensure_triangle_compiled(program.strategy == WEDGES)
        self.program, self.eps = program, np.array(eps, dtype=np.float64)
        self.plan = plan_array(program, eps)
        if not (arena is None or (isinstance(arena, np.ndarray) and arena.dtype == np.int64 and arena.ndim == 1)):
            raise TriangleError(f"arena= is int64[n], the words of a state, not {type(arena).__name__}")
        self.arena = reserve(min(memory // 8, ADDRESSABLE), "memory") if arena is None else arena
        self.halves = self.arena.view(np.int32)
        self.limit = len(self.arena)
        if self.arena[H_MAGIC] == 0:
            create(self.arena, self.halves, self.eps, self.limit, secrets.randbits(62))
            self.arena[H_PLAN0 : H_PLAN0 + 2] = self._fingerprint()
        else:
            self._check_header()
        self.arena[H_LIMIT] = self.limit
        self.arena[H_BUDGET] = self.limit
        self.budget = Budget([self.arena], self.limit)

    def _fingerprint(self) -> np.ndarray:
        """Returns two words that identify the layout. A program with other views or steps has another fingerprint."""
        digest = np.zeros(2, dtype=np.uint64)
        for i, word in enumerate([at.LAYOUT, *self.plan.tolist(), *self.eps.view(np.int64).tolist()]):
            digest[i % 2] = (int(digest[i % 2]) * 6364136223846793005 + word + 1442695040888963407) % (1 << 64)
        return digest.view(np.int64)

    def run(self, function: Any, *arguments: Any, rows: int = 0) -> Any:
        """Calls a kernel that changes the state, with (arena, int32 view, plan, eps, arguments), for ``rows`` rows.

        Any error or interrupt makes the state unusable. Raises MemoryBudgetError if the arena is exhausted.
        """
        self.check_usable()
        if rows:
            self.budget.allow(0, ROW_WORDS * rows)
        self.arena[H_OPEN] = 1
        try:
            result = function(self.arena, self.halves, self.plan, self.eps, *arguments)
        except MemoryError:
            raise MemoryBudgetError(
                f"the state outgrew {self.limit * 8 >> 20} MiB; give more (`memory` here, `memory_budget` of a view), "
                "or partition the input"
            ) from None
        self.arena[H_OPEN] = 0
        return result

    def read(self, function: Any, *arguments: Any) -> Any:
        """Calls a kernel that only reads the state, with (arena, int32 view, plan, arguments)."""
        self.check_usable()
        return function(self.arena, self.halves, self.plan, *arguments)

    def change_to(self, program: Program) -> None:
        """Replaces the program by another one over the same partition. This is a major rebalancing."""
        words = plan_array(program, tuple(self.eps.tolist()))
        self.run(change_program, words)
        self.program, self.plan = program, words
        self.arena[H_PLAN0 : H_PLAN0 + 2] = self._fingerprint()

    def check_usable(self) -> None:
        """Raises UnusableStateError if a batch was interrupted."""
        if self.arena[H_OPEN]:
            raise UnusableStateError(
                "a batch was interrupted and could not be undone, so this state is not consistent; load the last "
                "snapshot, or start again from the tables"
            )

    def scratch(self) -> np.ndarray:
        """Returns the address space for the hops of one cursor. Untouched pages cost nothing."""
        return reserve(self.limit, "memory")

    @property
    def words(self) -> np.ndarray:
        """Returns the used part of the arena. A copy of it is a snapshot."""
        return self.arena[: int(self.arena[H_TOP])]

    @property
    def live_bytes(self) -> int:
        """Returns the bytes of allocated blocks."""
        return int(self.arena[H_LIVE]) * 8

    def _check_header(self) -> None:
        if not is_arena(self.arena) or not at.CONTROL < self.arena[H_TOP] <= self.limit:
            raise SnapshotError("this is not the complete state of a triangle query")
        if (self.arena[H_PLAN0 : H_PLAN0 + 2] != self._fingerprint()).any():
            raise SnapshotError("the state belongs to a triangle query with other outputs, epsilon or strategy")

    def word(self, position: int) -> int:
        """Returns one word of the control block."""
        return int(self.arena[position])
