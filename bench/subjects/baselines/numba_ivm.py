"""The compiled baselines as subjects: the change preparation, arena and tables of CROWN's engine, with other
algorithms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.cases.checksum import factors
from bench.cases.streams import Batch
from bench.cases.workloads import Loaded
from bench.subjects.baselines.changes import PlanChanges
from bench.subjects.baselines.join_tree import tree_of
from bench.subjects.baselines.kernels import propagate, sink, store, yannakakis
from bench.subjects.baselines.programs import Programs, UnsupportedError
from bench.subjects.subject import SkipError, Totals
from crown.kernels import strings
from crown.kernels.memory import arena as A
from crown.kernels.memory.tables import table_at
from crown.store.arrow_buffers import Texts
from crown.store.memory import ADDRESSABLE, reserve
from plans import plan as make_plan

BUFFER_CELLS = 1 << 16
SEED = 7
ALGORITHMS = ("first-order", "standard", "higher-order", "yannakakis")


class NumbaIvm:
    """A baseline over the arena. ``algorithm`` is one of ``ALGORITHMS``; ``budget``: the most bytes of state."""

    def __init__(self, loaded: Loaded, mode: str, algorithm: str, budget: int | None = None) -> None:
        if mode not in ("delta", "none"):
            raise SkipError(f"the {algorithm} baseline has no mode {mode}")
        if mode == "none" and algorithm == "first-order":
            raise SkipError("first-order IVM keeps no views: without deltas there is nothing to measure")
        plan = make_plan(loaded.sql, loaded.schema)
        try:
            if algorithm == "yannakakis":
                tree = tree_of(plan)
                program, tables, attributes, self._nodes = tree.program, tree.tables, tree.attributes, tree.nodes
                depth = len(plan.nodes)
            else:
                programs = Programs(plan)
                self._distinct = not programs.full
                compiled = {
                    "first-order": programs.first_order,
                    "standard": programs.standard,
                    "higher-order": programs.higher_order,
                }[algorithm]().compiled()
                program, tables, depth = compiled.program, compiled.tables, compiled.depth
                attributes, self._nodes = compiled.attributes, compiled.atoms
        except UnsupportedError as error:
            raise SkipError(str(error)) from None
        self._algorithm = algorithm
        self._deltas = mode == "delta"
        if mode == "none" and algorithm == "standard":
            raise SkipError("standard change propagation computes its deltas to keep its views: see mode delta")
        self._program = program
        self._dictionary = table_at(tables)
        limit = ADDRESSABLE if budget is None else budget // 8
        self._arena = reserve(limit)
        self._halves = self._arena.view(np.int32)
        A.format_arena(self._arena, tables + 1, limit, SEED)
        store.new_tables(self._arena, tables + 1)
        self._values = np.zeros(max(attributes, 1), np.int64)
        self._frames = np.zeros(propagate.FRAME * (depth + 1), np.int64)
        self._walks = np.zeros(yannakakis.FRAME * (depth + 1), np.int64)
        self._path = np.zeros(depth + 1, np.int64)
        width = len(plan.output)
        self._out = np.empty((width, BUFFER_CELLS // width), np.int64)
        self._sink = np.zeros(sink.SINK, np.int64)
        self._factors = factors(width)
        self._preparer = PlanChanges(plan, self._intern)
        self._updates = 0

    def checking(self) -> None:
        """Sums up the emitted rows."""
        if not self._deltas:
            raise SkipError("nothing to check: this mode delivers no deltas; mode delta of this baseline is checked")
        self._sink[sink.S_CHECK] = 1

    def apply(self, batch: Batch) -> int:
        """Applies deletions of all inputs, then insertions, as CROWN does. Returns the number of deltas."""
        prepared = self._preparer.prepare(batch)
        self._updates += prepared.rows
        before = int(self._sink[sink.S_EMITTED])
        for sign in (-1, 1):
            for change in prepared.changes:
                for alias, rows in change.of_aliases(sign):
                    if len(rows):
                        self._rows(self._nodes[alias.node], rows.flat(), np.abs(rows.weights), sign)
        return int(self._sink[sink.S_EMITTED]) - before

    def _rows(self, at: int, values: np.ndarray, weights: np.ndarray, sign: int) -> None:
        common = (self._out, self._sink, self._factors)
        if self._algorithm == "yannakakis":
            yannakakis.apply_rows(
                self._arena, self._halves, self._program, self._values, self._path, self._walks, self._frames,
                at, values, weights, int(self._deltas), sign, *common,
            )  # fmt: skip
        elif self._algorithm == "higher-order" and not self._deltas:
            raise SkipError("higher-order IVM computes its deltas to keep its views: see mode delta")
        else:
            propagate.apply_rows(
                self._arena, self._halves, self._program, self._values, self._frames, at, values, weights, sign, *common
            )

    def load(self, batch: Batch) -> None:
        """Loads rows: first-order IVM stores only its inputs; the other algorithms must propagate to load."""
        complete = self._program
        if self._algorithm == "first-order" and self._distinct is False:
            self._program = complete.copy()
            for atom in self._nodes.values():
                self._program[atom + propagate.A_PROGRAMS] = 0
        self.apply(batch)
        self._program = complete

    def enumerate(self) -> int:
        """Raises SkipError: no baseline enumerates."""
        raise SkipError("the baselines deliver deltas only")

    def totals(self) -> Totals:
        """Returns the net count and checksum of all deltas so far, which are those of the result."""
        return Totals(int(self._sink[sink.S_COUNT]), int(self._sink[sink.S_SUM]))

    def state_bytes(self) -> int:
        """Returns the bytes of the arena in use."""
        return 8 * int(self._arena[A.H_LIVE])

    def stats(self) -> dict[str, Any]:
        """Returns the rows and groups that were read or written, and the current rows of the inputs."""
        rows = sum(int(self._arena[table_at(i) + A.T_COUNT]) for i in range(len(self._nodes)))
        touched = int(self._sink[sink.S_TOUCHED])
        return {"touched": touched, "input_rows": rows, "reserved_bytes": 8 * int(self._arena[A.H_TOP])}

    def close(self) -> None:
        """Does nothing: the subject holds only memory."""

    def _intern(self, texts: Texts, add: bool) -> np.ndarray:
        codes, rows = np.empty(texts.n, np.int64), np.empty(0, np.int64) if texts.rows is None else texts.rows
        if len(codes):
            data = texts.data.ctypes.data
            strings.encode(self._arena, self._dictionary, data, texts.ends, rows, codes, 0, int(add))
        return codes
