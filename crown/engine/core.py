"""The join core: applies changes in codes to the state of one plan, and returns deltas in codes.

    RelationChange -> Propagation over the arena -> rows of the free attributes -> output tuples -> Results

A batch is a transaction over bags and tree. Whatever stops it (a rejected change, a budget, an error in an output
expression, Ctrl-C), the state is afterwards as before the batch. If the batch cannot be undone, the state is lost:
``H_OPEN`` stays set. State is linear in the data, independent of the size of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

import pyarrow as pa

from crown.engine.cyclic import BagPropagation
from crown.engine.kernels import layout
from crown.engine.kernels import state as kernels
from crown.engine.propagation import Blocks, Propagation
from crown.engine.state import State
from crown.engine.statistics import tallies_of
from crown.ingest.batch import RelationChange
from crown.kernels.memory import arena as A
from crown.results.factorized import FactorizedHead
from crown.results.head import OutputHead
from crown.results.result import enumerated, factorized_batches, results_of
from crown.store.zset import Zset


class Core:
    """Applies batches of changes to a state. Not thread-safe; several cores may share one dictionary.

    A batch that was applied, or undone, is open. ``settle`` commits it; ``roll_back`` undoes it, even if it was applied
    in part. No other method may be called before one of these two. ``blocks``: the size of its output buffers (see
    ``Buffers``).
    """

    def __init__(self, state: State, blocks: int = 1) -> None:
        plan, dictionary = state.plan, state.dictionary
        self.state = state
        self.head = OutputHead(plan, dictionary)
        self.results = results_of(state, self.head)
        propagation = BagPropagation if state.bags else Propagation
        self.propagation = propagation(state, len(plan.free), self.head.margin, blocks)
        self.tallies = [tallies_of(len(plan.nodes), i) for i in range(len(plan.nodes))]

    # -- a batch -------------------------------------------------------------------------------------------------------

    def apply(self, changes: Sequence[RelationChange], check: Callable[[], None] = lambda: None) -> list[Zset]:
        """Applies a batch. Returns the net change of the result as output tuples, each once, in new memory. A weight
        differs from 1 and -1 if several enumerated rows have the same output.

        ``check`` is called between blocks. O(changes * lambda + deltas).
        """
        return self._net_change(self._checked(changes, check))

    def events(self, changes: Sequence[RelationChange], check: Callable[[], None] = lambda: None) -> list[Zset]:
        """Applies a batch of a plan with a payload. Returns the changes of the values of its terms.

        The result has output tuples. The weight is the change of the count, possibly 0. ``payload`` has the words of
        all terms (``CompiledPlan.payload.result`` describes them), or is None if there is only the count. A tuple may
        occur more than once. O(changes * lambda + deltas).
        """
        return list(map(self.head.codes, self._checked(changes, check)))

    def delivered(
        self,
        changes: Sequence[RelationChange],
        check: Callable[[], None],
        *,
        deltas: bool = True,
        consolidate: bool | None = None,
        factorized: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Applies a batch. Yields the deltas as record batches while it is applied, or nothing unless ``deltas``.

        ``consolidate``: omits tuples that the batch both inserts and deletes (default: if the plan needs it), which
        gathers the deltas of the batch in memory. ``factorized``: the deltas are factorized rows. ``check`` is called
        between blocks. After ``discard_output`` the rest is applied without output. O(changes * lambda + deltas).
        """
        head = self.head
        gather = not factorized and (not self.state.plan.consolidated if consolidate is None else consolidate)
        gathered: list[Zset] = []
        for block in self._begin(changes, deltas, factorized):
            if gather:
                gathered.append(head.codes(block))
            elif factorized:
                yield self.factorized.batch(self.propagation.buffers.out, len(block), int(block.weights[0]))
            elif (batch := head.deltas(block, self.propagation.buffers)).num_rows:
                yield batch
            check()
        for block in self._netted(gathered) if gathered else ():
            yield from head.batches(block)

    def discard(self, changes: Sequence[RelationChange]) -> int:
        """Applies a batch, enumerates its deltas into reused buffers and drops them. Returns the number of delta
        rows."""
        return sum(map(len, self._begin(changes, True)))

    @cached_property
    def factorized(self) -> FactorizedHead:
        """Returns the object that makes factorized rows. Raises CrownError for a plan without factorized rows."""
        return FactorizedHead(self.state.plan, self.state.compiled, self.state.dictionary.extern)

    def undo(self, changes: Sequence[RelationChange], events: bool = False) -> list[Zset]:
        """Undoes the last batch, which had these changes, without regard to the budget. O(changes * lambda + deltas).

        Returns the result of ``apply``, or of ``events``, for the inverse batch. Returns nothing if the core maintains
        no live views, since its last batch returned nothing either.
        """
        inverse = [change.inverse() for change in changes]
        with self.state.budget.lifted():
            blocks = self._begin(inverse, bool(self.state.header[A.H_LIVE_ON]))
            return list(map(self.head.codes, blocks)) if events else self._net_change(blocks)

    @property
    def open(self) -> bool:
        """Returns True while a batch is open, and forever after a batch that could not be undone."""
        return bool(self.state.header[A.H_OPEN])

    def settle(self, changes: Sequence[RelationChange], sign: int = 1) -> None:
        """Commits the batch, which had these changes, by clearing one word. Updates the counters of ``statistics``, per
        alias; with ``sign`` -1 for a batch that was undone."""
        header, missing = self.state.header, self.propagation.missing
        header[A.H_OPEN] = 0
        self.propagation.settle()
        for number, change in enumerate(changes):
            absent = missing.get(number) if missing and sign > 0 else None
            for bit, (alias, rejected) in enumerate(zip(change.relation.aliases, change.filtered, strict=True)):
                tallies = self.tallies[alias.node]
                if read := change.readers(bit):
                    header[tallies.updates] += sign * read
                if rejected:
                    header[tallies.filtered] += sign * rejected
                if absent is not None:
                    header[tallies.missing] += int(absent[change.reads(bit)[: change.deletes]].sum())

    def roll_back(self) -> None:
        """Undoes the batch that has begun, even if it was applied in part. O(changes * lambda).

        Raises UnusableStateError or MemoryBudgetError if it cannot be undone. The state is then lost.
        """
        self.propagation.roll_back()
        self.propagation.settle()
        self.state.header[A.H_OPEN] = 0

    # -- the parts of a transaction ------------------------------------------------------------------------------------

    def _begin(self, changes: Sequence[RelationChange], deltas: bool, factorized: bool = False) -> Blocks:
        """Begins a batch. Drawing the blocks applies it. See ``Propagation.blocks``."""
        state, header = self.state, self.state.header
        blocks = self.propagation.blocks(changes, layout.MODE_DELTAS if deltas else layout.MODE_VIEWS, factorized)
        header[A.H_OPEN] = 1
        if not deltas:
            header[A.H_LIVE_ON] = 0
        elif not header[A.H_LIVE_ON]:
            kernels.clear_live(state.arena, state.halves, state.plan_array)
            kernels.rebuild_live(state.arena, state.halves, state.plan_array, self.propagation.scratch)
        return blocks

    def _checked(self, changes: Sequence[RelationChange], check: Callable[[], None]) -> Iterator[Zset]:
        """Begins a batch, as ``_begin`` does. Calls ``check`` after each of its blocks."""
        for block in self._begin(changes, True):
            yield block
            check()

    def _net_change(self, blocks: Iterable[Zset]) -> list[Zset]:
        """Returns the change of the result for the blocks of a batch, as output tuples."""
        outputs = list(map(self.head.codes, blocks))
        return outputs if self.state.plan.consolidated else self._netted(outputs)

    def _netted(self, outputs: list[Zset]) -> list[Zset]:
        """Returns the output tuples of the blocks of a whole batch, each once."""
        return [Zset.gathered(outputs, self.head.width).net()] if self.propagation.repeats else outputs

    # -- inspection ----------------------------------------------------------------------------------------------------

    def products(self) -> Iterator[pa.RecordBatch]:
        """Yields the result as factorized rows. O(1) per entry of a list; memory of one block."""
        return factorized_batches(self.state, self.factorized)

    def rows(self) -> Iterator[Zset]:
        """Yields the rows of the free attributes. See ``enumerated``."""
        return enumerated(self.state)
