"""Propagates a batch of a cyclic query: passes net changes through bags, and the changes of the bags through the tree.

    RelationChange -> bag -> R-, S-, P-updates -> blocks of the free attributes, as Z-sets

If the relation of a bag is the result (``plans.plan.Plan.listed``), the tree is empty, and the changes of the bag are
those of the result.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np
from typing_extensions import override

from crown.bags.protocol import BagBudgetError
from crown.engine.kernels import layout, update
from crown.engine.progress import BatchProgress
from crown.engine.propagation import NONE_MISSING, Blocks, Propagation, for_kernels
from crown.engine.state import ListedBag, State
from crown.ingest.batch import EVERY, RelationChange
from crown.kernels.memory import arena as A
from crown.store.zset import Zset
from plans.queries.variables import injective


class BagPropagation(Propagation):
    """Applies batches to the bags of a state and to its tree."""

    def __init__(self, state: State, free: int, margin: int = 0, blocks: int = 1) -> None:
        super().__init__(state, free, margin, blocks)
        self._bags = state.bags
        self._listed = state.listed
        self._injective = {injective(output.expr) for output in state.plan.output} >= set(state.plan.free)
        self._part = {node: part for part, node in enumerate(state.bags, state.first + 1)}  # node of a bag -> its part

    @property
    @override
    def plain(self) -> bool:
        return False

    @override
    def blocks(self, changes: Sequence[RelationChange], mode: int, factorized: bool = False) -> Blocks:
        self.repeats = self._listed is None or not self._injective
        return super().blocks(changes, mode, factorized)

    @override
    def _empty(self) -> bool:
        return super()._empty() and (self._listed is None or not len(self._listed.bag))

    @override
    def _all(self) -> Blocks:
        if self._listed is None:
            yield from super()._all()
            return
        for block in self._listed.bag.results():
            yield from self._pass_on(self._listed, block, 1)
        if self._marks[layout.X_FILL]:
            yield from self._handed(1)

    @override
    def _through(self, number: int, change: RelationChange, sign: int, progress: BatchProgress | None = None) -> Blocks:
        if change.relation.aliases[0].node in self._bags:
            return self._through_bag(number, change.tuples(sign), sign)
        return super()._through(number, change, sign, progress)

    def _through_bag(self, number: int, tuples: Zset, sign: int) -> Blocks:
        """Applies changes of a bag's atom to the bag, and the resulting changes of the bag's relation to its node.

        A bag can stop only between two of its rows. If the tree has no room for the tuples of one row, they are still
        applied, and the bag is stopped after them.
        """
        alias = self._changes[number].relation.aliases[0]
        bag, part = self._bags[alias.node], self._part[alias.node]
        missing = np.zeros(len(tuples), np.int64) if sign < 0 else NONE_MISSING
        applied, refused, full = 0, False, False
        quiet = self._listed is not None and self._marks[layout.X_MODE] != layout.MODE_DELTAS
        self._header[A.H_EPOCH] += 1
        self._budget.allow(part)
        while applied < len(tuples) and not full:
            try:
                for block in bag.apply(alias.atom, tuples[applied:], missing[applied:], quiet):
                    if self._listed is not None:
                        yield from self._pass_on(self._listed, block, sign)
                    else:
                        refused |= yield from self._enter(alias.node, block, sign)
                    if refused or self._halted:
                        self._budget.stop(part)
                applied = len(tuples)
            except BagBudgetError as stopped:
                applied += stopped.applied
                full = refused or self._halted or not self._budget.extend(part)
            self.repeats |= bag.repeats
        self._note(number, sign, applied, missing)
        if refused or (full and not self._halted):
            raise self._budget.refusal()

    def _pass_on(self, listed: ListedBag, block: Zset, sign: int) -> Blocks:
        """Adds a bag's rows, which are rows of the result, to the output buffer, and yields it when it is full."""
        marks, taken = self._marks, 0
        if listed.saturated(block):
            self._header[A.H_WRAPPED] = 1
        while taken < len(block) and marks[layout.X_MODE] == layout.MODE_DELTAS:
            n = marks[layout.X_FILL]
            more = listed.copy(block, taken, self.buffers.out[:, n:])
            marks[layout.X_FILL] = n + more
            self._header[A.H_EMITTED] += more
            taken += more
            if n + more == self.buffers.out.shape[1]:
                yield from self._handed(sign)

    def _enter(self, node: int, block: Zset, sign: int) -> Generator[Zset, None, bool]:
        """Yields blocks while a bag's tuples are inserted into its node or deleted. Returns True if that exceeded the
        budget."""
        over = False
        values, copies = for_kernels(block, len(block) if sign < 0 else 0, sign)
        ignored = np.zeros(len(block), np.int64)
        self._marks[layout.X_I] = 0
        self._budget.allow(self._tree)
        while (status := self._step(node, values, copies, EVERY, ignored, sign)) != update.DONE:
            if status == update.FULL:
                yield from self._handed(sign)
            elif not self._budget.extend(self._tree):
                over = True
                self._header[A.H_BUDGET] = self._header[A.H_LIMIT]
        return over
