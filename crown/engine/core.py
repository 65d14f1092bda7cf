"""The join core: one plan, one state; changes in codes, deltas in codes, a batch as a transaction.

    RelationChange -> Propagation over the arena -> rows of the free attributes -> output tuples -> Results

A batch is a transaction over bags and tree. Whatever stops it (a refusal, a budget, an error while
outputs are evaluated, Ctrl-C), the state is afterwards as before the batch. If it cannot be taken back, the state is
lost: ``H_OPEN`` stays set. State is linear in the data, whatever the size of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

import pyarrow as pa

from crown.engine.kernels import layout
from crown.engine.kernels import state as kernels
from crown.engine.propagation import Blocks, Propagation
from crown.engine.state import State
from crown.engine.statistics import tallies_of
from crown.ingest.batch import RelationChange
from crown.kernels import arena as A
from crown.results.factorized import FactorizedHead
from crown.results.head import OutputHead
from crown.results.result import enumerated, factorized_batches, results_of
from crown.store.zset import Zset


class Core:
    """Applies batches of changes to a state. Not thread-safe; several cores may share one dictionary.

    A batch that was applied, or undone, is open: ``settle`` lets it stand, ``take_back`` takes it back, in full or in
    part, and nothing else may be asked of the core before that.
    """

    def __init__(self, state: State) -> None:
        plan, dictionary = state.plan, state.dictionary
        self.state = state
        self.head = OutputHead(plan, dictionary)
        self.results = results_of(state, self.head)
        self.propagation = Propagation(state, len(plan.free), self.head.margin)
        self.tallies = [tallies_of(len(plan.nodes), i) for i in range(len(plan.nodes))]

    # A batch
    # ------------------------------------------------------------------------------------------------------------

    def apply(self, changes: Sequence[RelationChange], check: Callable[[], None] = lambda: None) -> list[Zset]:
        """Applies a batch; returns the net change of the result as output tuples, each once, in memory of their own:
        with other weights than 1 where several enumerated rows are one output.

        ``check`` is called between blocks. O(changes * lambda + deltas).
        """
        return self._found(self._checked(changes, check))

    def events(self, changes: Sequence[RelationChange], check: Callable[[], None] = lambda: None) -> list[Zset]:
        """Applies a batch of a plan with a payload; returns what is added to the values of its terms.

        Output tuples: the weight is what is added to the count, perhaps 0; ``payload`` are the words of all terms
        (``CompiledPlan.payload.result`` says which are whose), None if there is the count alone. A tuple may come more
        than once. O(changes * lambda + deltas).
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
        """Applies a batch; yields the deltas as record batches while it is applied, nothing unless ``deltas``.

        ``consolidate``: leave out what the batch both adds and removes (default: where the plan needs it); this gathers
        the deltas of the batch in memory. ``factorized``: the deltas are factorized rows. ``check`` is called between
        blocks. ``discard_output`` has the rest applied without output. O(changes * lambda + deltas).
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
        if gathered:
            yield from head.batches(Zset.gathered(gathered, head.width).net())

    def discard(self, changes: Sequence[RelationChange]) -> int:
        """Applies a batch, enumerates its deltas into reused buffers and drops them. Returns how many there were."""
        return sum(map(len, self._begin(changes, True)))

    def discard_output(self) -> None:
        """Has the rest of the batch applied without output."""
        self.propagation.discard_output()

    @cached_property
    def factorized(self) -> FactorizedHead:
        """Returns what makes factorized rows. CrownError for a plan that has none."""
        return FactorizedHead(self.state.plan, self.state.compiled, self.state.dictionary.extern)

    def undo(self, changes: Sequence[RelationChange], events: bool = False) -> list[Zset]:
        """Undoes the last batch, which had these changes. No budget stands in its way. O(changes * lambda + deltas).

        Returns what ``apply``, or ``events``, would return of the inverse batch; nothing of a core that keeps no live
        views, whose last batch returned nothing either.
        """
        inverse = [change.inverse() for change in changes]
        with self.state.budget.lifted():
            blocks = self._begin(inverse, bool(self.state.header[A.H_LIVE_ON]))
            return list(map(self.head.codes, blocks)) if events else self._found(blocks)

    @property
    def open(self) -> bool:
        """Returns True while a batch is open, and for ever after one that could not be taken back."""
        return bool(self.state.header[A.H_OPEN])

    def settle(self, changes: Sequence[RelationChange], sign: int = 1) -> None:
        """Lets the batch, which had these changes, stand, from the one word on that says so. Counts what ``statistics``
        tells of it, per alias; ``sign`` -1: it was undone."""
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
                    header[tallies.missing] += int(absent[change.reads(bit)[: change.gone]].sum())

    def take_back(self) -> None:
        """Takes back the batch that has begun, in full or in part. O(changes * lambda).

        Raises UnusableStateError or MemoryBudgetError if that cannot be done: the state is lost.
        """
        self.propagation.take_back()
        self.propagation.settle()
        self.state.header[A.H_OPEN] = 0

    # The parts of a transaction
    # ------------------------------------------------------------------------------------------------------------

    def _begin(self, changes: Sequence[RelationChange], deltas: bool, factorized: bool = False) -> Blocks:
        """Begins a batch; the blocks apply it while they are drawn. See ``Propagation.blocks``."""
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
        """Begins a batch, as ``_begin``; ``check`` is called behind each of its blocks."""
        for block in self._begin(changes, True):
            yield block
            check()

    def _found(self, blocks: Iterable[Zset]) -> list[Zset]:
        """Returns the change of the result for the blocks of a batch, as output tuples."""
        found = list(map(self.head.codes, blocks))
        return found if self.state.plan.consolidated else [Zset.gathered(found, self.head.width).net()]

    # Looking inside
    # ------------------------------------------------------------------------------------------------------------

    def products(self) -> Iterator[pa.RecordBatch]:
        """Yields the result as factorized rows. O(1) per entry of a list; memory of one block."""
        return factorized_batches(self.state, self.factorized)

    def rows(self) -> Iterator[Zset]:
        """Yields the rows of the free attributes. See ``enumerated``."""
        return enumerated(self.state)
