"""The payload kernels without the engine around them: batches of codes in, events out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crown.engine.compile import compile_plan
from crown.engine.invariants import payload as payload_invariants
from crown.engine.kernels import layout, publish, state, update
from crown.engine.kernels.enumeration import enumerate as enumeration
from crown.engine.kernels.enumeration import loans
from crown.engine.kernels.payloads import summed_leaves
from crown.kernels.memory import arena as A
from crown.kernels.strings import NULL
from plans.plan import Plan
from plans.programs.stored_relations import StoredRelation, stored_relations
from tests.oracles.database import Batch, Database, Row
from tests.oracles.payloads import Valued

RING = 1


def _code(value: object) -> int:
    """The code of a number of one word."""
    if isinstance(value, float):
        return int(np.float64(value).view(np.int64))
    return NULL if value is None else int(value)  # type: ignore[call-overload]


class Driver:
    """Applies batches to a plan with a payload.

    ``rows``: those of the output buffer.
    """

    def __init__(self, plan: Plan, rows: int = 64, words: int = 1 << 18) -> None:
        self.plan = plan
        assert plan.payload is not None
        self.payload = plan.payload
        self.compiled = compile_plan(plan)
        assert self.compiled.payload is not None
        self.layout = self.compiled.payload
        self.arena = np.random.default_rng(1).integers(1, 2**62, words, np.int64)
        self.halves = self.arena.view(np.int32)
        self.array = self.compiled.array
        state.create(self.arena, self.halves, self.array, self.compiled.tables, words, words, 7)
        self.scratch = self._new_scratch()
        self.out = np.empty((self.layout.columns, rows), np.int64)
        self.sources = stored_relations(plan)
        self.empty = int(self.arena[A.H_LIVE])

    def apply(self, batch: Batch, mode: int = layout.MODE_DELTAS) -> Valued:
        """Applies a batch; the net change of every tuple's values."""
        return self.apply_net({name: dict(Database.net(changes)) for name, changes in batch.items()}, mode)

    def apply_net(self, batch: dict[str, dict[Row, int]], mode: int = layout.MODE_DELTAS) -> Valued:
        """``apply`` for one weight per row; a weight of 0 is none."""
        self.scratch[layout.X_MODE] = mode
        found: dict[Row, list[int]] = {}
        for sign in (-1, 1):
            for source in self.sources:
                for block in self._change(source, batch.get(source.name, {}), sign):
                    self._add(found, block)
        status = update.FULL
        while status == update.FULL:
            status = publish.publish_batch(self.arena, self.halves, self.array, self.scratch, RING, self.out)
            self._add(found, self._handed())
        assert status == update.DONE
        return {row: tuple(values) for row, values in found.items() if any(values)}

    def _change(self, source: StoredRelation, rows: dict[Row, int], sign: int) -> Iterator[np.ndarray]:
        table = self.plan.table(source.name)
        names = [column.name for column in table.columns]
        where = [names.index(column) for column in source.columns]
        net: dict[Row, int] = {}
        for row, weight in rows.items():
            values = tuple(_code(row[i]) for i in where)
            net[values] = net.get(values, 0) + weight
        chosen = [(v, abs(w)) for v, w in net.items() if w * sign > 0]
        masks = [
            sum(1 << bit for bit, a in enumerate(source.aliases) if all(v[word] != NULL for word in a.not_null))
            for v, _ in chosen
        ]
        chosen, masks = [c for c, m in zip(chosen, masks, strict=True) if m], [m for m in masks if m]
        values = np.array([v for v, _ in chosen], np.int64).reshape(-1)
        weights = np.array([w for _, w in chosen], np.int64)
        missing = np.zeros(len(weights), np.int64)
        rec = self.compiled.record[source.aliases[0].node]
        given = (self.arena, self.halves, self.array, self.scratch, rec, values, weights)
        while True:
            if source.aliases[0].node in self.compiled.summed:
                status = summed_leaves.sum_batch(*given, missing, sign, RING, self.out)
            elif sign > 0:
                status = update.insert_batch(*given, np.array(masks, np.int64), RING, self.out)
            else:
                status = update.delete_batch(*given, missing, RING, self.out)
            if status == update.DONE:
                return
            assert status == update.FULL
            yield self._handed()

    def _handed(self) -> np.ndarray:
        block = self.out[: self.layout.first_handle, : self.scratch[layout.X_FILL]].copy()
        self.scratch[layout.X_FILL] = 0
        return block

    def _new_scratch(self) -> np.ndarray:
        scratch = layout.new_scratch(len(self.plan.nodes), *self.layout.scratch_words)
        scratch[layout.X_LENDS] = 1
        return scratch

    def _add(self, found: dict[Row, list[int]], block: np.ndarray) -> None:
        for row, values in self._valued(block):
            before = found.setdefault(row, [0] * len(values))
            for j, value in enumerate(values):
                before[j] += value

    def _valued(self, block: np.ndarray) -> Iterator[tuple[Row, tuple[int, ...]]]:
        """Rows of a block: values of the free attributes, and of the terms."""
        free = len(self.plan.free)
        for column in block.T.tolist():
            row = tuple(None if v == NULL else v for v in column[:free])
            numbers = payload_invariants.numbers(column[free:], self.layout.result, self.arena)
            yield row, tuple(numbers[term] for term in self.payload.terms)
        loans.call(self.arena)

    def results(self) -> Valued:
        """Enumerates all results with their values."""
        found: Valued = {}
        if state.root_size(self.arena, self.halves) == 0:
            return found
        scratch = self._new_scratch()
        enumeration.full_enum(self.arena, self.halves, self.array, scratch)
        done = False
        while not done:
            done = publish.enumerate_weighed(self.arena, self.halves, self.array, scratch, RING, self.out)
            for row, values in self._valued(self.out[: self.layout.first_handle, : scratch[layout.X_FILL]]):
                assert row not in found
                found[row] = values
            scratch[layout.X_FILL] = 0
        return found

    def check(self) -> None:
        """All invariants of the payloads."""
        payload_invariants.check(self.arena, self.plan, self.compiled)

    def is_empty(self) -> bool:
        """True iff all words but the header's and the tables' are free again."""
        return int(self.arena[A.H_LIVE]) == self.empty
