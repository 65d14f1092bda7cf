"""Enumerates the result of a join core from the tree, as a set or a bag.

If the mapping to the outputs is one-to-one, the enumerated rows are the result. If the mapping can merge rows
(``plan.support``), the result is a bag: an output tuple occurs as often as it has enumerated rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from crown.engine.buffers import Buffers
from crown.engine.delivery import CHANGED
from crown.engine.kernels import layout, publish
from crown.engine.kernels import state as kernels
from crown.engine.kernels.enumeration import enumerate as enumeration
from crown.engine.state import ListedBag, State
from crown.errors import ConcurrentChangeError, CrownError
from crown.kernels.memory import arena as A
from crown.kernels.memory.geometry import group_numbers
from crown.results.factorized import FactorizedHead
from crown.results.head import OutputHead
from crown.results.membership import code_of, free_values, row_of, where
from crown.store.zset import Zset
from plans.queries.variables import injective

_MOST = 4 * 10**18  # the limit of the kernel that counts


def counted(rows: int) -> int:
    """Returns a number of result rows. Raises CrownError for more than 4e18 and for a negative number, which has
    overflowed."""
    if not 0 <= rows <= _MOST:
        raise CrownError("the result has more than 4e18 rows; count() cannot represent that")
    return rows


def enumerated(state: State, buffers: Buffers | None = None, factorized: bool = False) -> Iterator[Zset]:
    """Yields the rows of the free attributes, with their multiplicities, in blocks in a reused buffer.

    ``buffers``: the buffers of the blocks; the reader may keep arrays from them. ``factorized``: writes factorized rows
    to them; a block then has only the right number of tuples. O(1) per row; of a bag that is the whole query, the cost
    of its join from scratch. Raises ConcurrentChangeError if the
    iterator continues after a change of the state.
    """
    if state.listed is not None:
        yield from _listed(state, state.listed, buffers or buffers_of(state))
        return
    if kernels.root_size(state.arena, state.halves) == 0:
        return
    compiled, free = state.compiled, len(state.plan.free)
    scratch = compiled.new_scratch()
    buffers = buffers or buffers_of(state)
    weights = np.ones(buffers.out.shape[1], np.int64)
    epoch = state.epoch
    words = (state.arena, state.halves, state.plan_array, scratch)
    scratch[layout.X_FACTORED] = int(factorized)
    enumeration.full_enum(*words)
    done = False
    while not done:
        demand_unchanged(state, epoch)
        if compiled.ring is None:
            done = enumeration.enumerate_block(*words, buffers.out)
        else:
            done = publish.enumerate_weighed(*words, compiled.ring, buffers.out)
        n = int(scratch[layout.X_FILL])
        if n == 0 and not done:
            buffers.grow()  # it is too small for the next factorized row
            weights = np.ones(buffers.out.shape[1], np.int64)
            continue
        yield compiled.block(buffers.out, n, free, weights)
        if buffers.handed_out:
            buffers.renew()
        scratch[layout.X_FILL] = 0


def _listed(state: State, listed: ListedBag, buffers: Buffers) -> Iterator[Zset]:
    """Yields the rows of a result that its bag lists, as ``enumerated`` does."""
    weights, epoch = np.ones(buffers.out.shape[1], np.int64), state.epoch
    free, n = len(state.plan.free), 0
    for block in listed.bag.results():
        if listed.saturated(block):
            raise CrownError("a row has more copies than 63 bits count: check the weights of the inserts")
        taken = 0
        while taken < len(block):
            more = listed.copy(block, taken, buffers.out[:, n:])
            n, taken = n + more, taken + more
            if n == len(weights):
                yield state.compiled.block(buffers.out, n, free, weights)
                demand_unchanged(state, epoch)
                if buffers.handed_out:
                    buffers.renew()
                n = 0
    if n:
        yield state.compiled.block(buffers.out, n, free, weights)


def demand_unchanged(state: State, epoch: int) -> None:
    """Raises ConcurrentChangeError if the epoch of the state is not ``epoch``, because the state has changed."""
    if state.epoch != epoch:
        raise ConcurrentChangeError(CHANGED)


def factorized_batches(state: State, head: FactorizedHead) -> Iterator[pa.RecordBatch]:
    """Yields the result as factorized rows. O(1) per entry of a list; memory of one block."""
    buffers = Buffers(head.free + head.branches)
    for block in enumerated(state, buffers, factorized=True):
        yield head.batch(buffers.out, len(block))


def buffers_of(state: State) -> Buffers:
    """Returns buffers for the enumeration of a result."""
    return Buffers(state.compiled.columns(len(state.plan.free)))


class Results:
    """A result that consists of the enumerated rows."""

    def __init__(self, state: State, head: OutputHead) -> None:
        self._state = state
        self._head = head

    def tuples(self) -> Iterator[Zset]:
        """Yields the result as output tuples, each with weight 1, in blocks that are valid until the next step."""
        for block in enumerated(self._state):
            yield self._head.codes(block)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the result as record batches. O(1) per row; memory of one block."""
        buffers = buffers_of(self._state)
        for block in enumerated(self._state, buffers):
            columns, weights = self._head.columns(buffers.detach(block))
            if len(weights):
                yield self._head.rows(columns, len(weights))

    def count(self) -> int:
        """Returns the number of result rows. O(state); enumerates rows only for residual predicates."""
        state = self._state
        if state.listed is not None and not state.plan.residual:
            return counted(sum(sum(block.weights.tolist()) for block in state.listed.bag.results()))
        if state.plan.residual:
            return sum(int(self._head.columns(block)[1].sum()) for block in enumerated(state))
        free = np.array([i for i, node in enumerate(state.plan.nodes) if node.free][::-1], np.int64)
        sums = np.zeros(group_numbers(int(state.arena[A.H_TOP])), np.int64)
        words = (state.arena, state.halves, state.plan_array, state.compiled.new_scratch())
        return counted(int(kernels.count_results(*words, state.compiled.ring, sums, free)))

    def contains(self, values: Mapping[str, Any]) -> bool:
        """Returns True iff an output row, given by output names, is in the result."""
        return self.multiplicity(values) > 0

    def multiplicity(self, values: Mapping[str, Any]) -> int:
        """Returns how often an output row, given by output names, is in the result. Raises ChangeError as ``row_of``
        does."""
        return self.copies_of(row_of(self._state.plan.output, values))

    def copies_of(self, arrays: Sequence[pa.Array]) -> int:
        """Returns how often an output row is in the result: at most once without a payload.

        Expected O(1). O(result) if the outputs leave attributes open.
        """
        state, plan = self._state, self._state.plan
        free = free_values(plan, arrays)
        if free is None:
            return 0
        if len(free) < len(plan.free):
            blocks = map(self._head.columns, enumerated(state))
            return sum(int(weights[where(columns, len(weights), arrays)].sum()) for columns, weights in blocks)
        codes = {a: code_of(array, plan.attributes[a].type, state.dictionary.intern) for a, array in free.items()}
        if state.listed is not None:
            return state.listed.multiplicity(codes)
        found: dict[int, int] = {}
        for i, node in enumerate(plan.nodes):
            if node.free:
                words = state.compiled.words[i]
                row = np.array([codes[a] for a in sorted(words, key=words.__getitem__)], np.int64)
                found[i] = int(kernels.row_in_view(state.arena, state.halves, state.plan_array, i, row))
                if not found[i]:
                    return 0
        return (
            1 if state.compiled.payload is None else self._count_of([found[i] for i in state.compiled.payload.weighing])
        )

    def _count_of(self, rows: list[int]) -> int:
        """Returns how often a result occurs, given its rows in the nodes that have payloads."""
        state = self._state
        assert state.compiled.payload is not None
        out = np.zeros(state.compiled.payload.result.words, np.int64)
        words = (state.arena, state.halves, state.plan_array, state.compiled.new_scratch())
        publish.payload_of(*words, np.array(rows, np.int64), out)
        return int(out[0])


class BagResults(Results):
    """A result that consists of the enumerated rows with their multiplicities."""

    def tuples(self) -> Iterator[Zset]:
        """Yields the result as output tuples, with multiplicities.

        Takes O(result) memory if different rows may have the same outputs.
        """
        plan, blocks = self._state.plan, super().tuples()
        if {injective(output.expr) for output in plan.output} >= set(plan.free):
            yield from blocks
        else:
            alone = [Zset(block.rows.copy(), block.weights.copy()) for block in blocks]  # without payload sums
            yield Zset.gathered(alone, self._head.width).net()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the result as record batches, with the column ``_weight``."""
        for block in self.tuples():
            if len(block):
                yield self._head.batch(self._head.decoded(block), block.weights.copy())


def results_of(state: State, head: OutputHead) -> Results:
    """Returns the result object that the plan of a state needs."""
    plan = state.plan
    return (Results if plan.payload is None and not plan.support else BagResults)(state, head)
