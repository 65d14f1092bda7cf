"""The join core: one plan, one state; changes in codes, deltas in codes, a batch as a transaction.

    RelationChange -> Propagation over the arena -> rows of the free attributes -> output tuples -> Results

A batch is a transaction over bags, tree and support counts. Whatever stops it (a refusal, a budget, an error while
outputs are evaluated, Ctrl-C), the state is afterwards as before the batch. If it cannot be taken back, the state is
lost: ``H_OPEN`` stays set, and everything is refused. State is linear in the data, whatever the size of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import cached_property

import pyarrow as pa

from crown.engine.delivery import LOST, Guard
from crown.engine.kernels import layout
from crown.engine.kernels import state as kernels
from crown.engine.propagation import Blocks, Propagation
from crown.engine.state import State
from crown.engine.statistics import tallies_of
from crown.errors import MemoryBudgetError, UnusableStateError
from crown.ingest.batch import MissingDeletes, RelationChange
from crown.kernels import arena as A
from crown.results.factorized import FactorizedHead
from crown.results.head import OutputHead
from crown.results.result import enumerated, factorized_batches, results_of
from crown.store.zset import Zset


class Core:
    """Applies batches of changes to a state. Not thread-safe; several cores may share one dictionary.

    ``missing``: what the deletes of the last batch did not find.
    """

    def __init__(self, state: State) -> None:
        plan, dictionary = state.plan, state.dictionary
        self.state = state
        self.guard = Guard(state)
        self.head = OutputHead(plan, dictionary)
        self.results = results_of(state, self.head, self.guard)
        self.propagation = Propagation(state, len(plan.free), self.head.margin)
        self.missing = MissingDeletes()
        self._tallies = [tallies_of(len(plan.nodes), i) for i in range(len(plan.nodes))]
        self._changes: Sequence[RelationChange] = ()  # of the batch that has begun

    @property
    def gathers(self) -> bool:
        """Returns True if the deltas of a batch are exact only when all of them have been netted."""
        return self.results.counted or not self.state.plan.consolidated

    # A batch in codes
    # ------------------------------------------------------------------------------------------------------------

    def apply(self, changes: Sequence[RelationChange]) -> Iterator[Zset]:
        """Applies a batch; yields the net change of the result as output tuples, in blocks.

        Each tuple comes once. A block is valid until the next step. When the iterator is exhausted the batch is
        applied, but open: ``settle`` makes it stand, ``take_back`` takes it back, and nothing else may be asked of the
        core before that. If the iterator raises or is closed early, the batch has been taken back. O(changes * lambda +
        deltas).
        """
        self.guard.ready()
        batch = self._applied(changes)
        self.guard.watch(batch)
        return batch

    def events(self, changes: Sequence[RelationChange]) -> Iterator[Zset]:
        """Applies a batch as ``apply`` does, of a plan with a payload; yields what is added to the values of its terms.

        Output tuples: the weight is what is added to the count, perhaps 0; ``payload`` are the words of all terms
        (``CompiledPlan.payload.result`` says which are whose), None if there is the count alone. A tuple may come more
        than once.
        """
        self.guard.ready()
        batch = self._told(changes)
        self.guard.watch(batch)
        return batch

    def _told(self, changes: Sequence[RelationChange]) -> Generator[Zset, None, None]:
        try:
            for block in self.begin(changes, True):
                yield self.head.codes(block)
        except BaseException as error:
            self.roll_back(error)
            raise

    def _applied(self, changes: Sequence[RelationChange]) -> Generator[Zset, None, None]:
        try:
            rows = self.begin(changes, True)
            tuples = [self.results.changed(self.net(rows))] if self.gathers else map(self.head.codes, rows)
            for block in tuples:
                if len(block):
                    yield block
        except BaseException as error:
            self.roll_back(error)
            raise

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
        blocks. ``discard_output`` has the rest applied without output. The batch stays open: call ``settle`` or
        ``take_back``, also after this has raised. O(changes * lambda + deltas).
        """
        self.guard.ready()
        head, counted = self.head, self.results.counted
        gather = not factorized and (self.gathers if counted or consolidate is None else consolidate)
        gathered: list[Zset] = []
        for block in self.begin(changes, deltas or counted, factorized):
            if gather:
                gathered.append(head.codes(block))
            elif factorized:
                yield self.factorized.batch(self.propagation.buffers.out, len(block), int(block.weights[0]))
            elif (batch := head.deltas(block, self.propagation.buffers)).num_rows:
                yield batch
            check()
        if gather:
            net = self.results.changed(Zset.gathered(gathered, head.width).net())
            if deltas:
                yield from head.batches(net)

    def discard_output(self) -> None:
        """Has the rest of the batch applied without output, unless the result is counted: it needs all of them."""
        if not self.results.counted:
            self.propagation.discard_output()

    @cached_property
    def factorized(self) -> FactorizedHead:
        """Returns what makes factorized rows. CrownError for a plan that has none."""
        return FactorizedHead(self.state.plan, self.state.compiled, self.state.dictionary.extern)

    @property
    def open(self) -> bool:
        """Returns True while a batch has begun that neither stands nor was taken back."""
        return bool(self.state.header[A.H_OPEN])

    def settle(self) -> None:
        """Lets the batch stand, from the one word on that says so."""
        self.missing = self.propagation.missing
        self.state.header[A.H_OPEN] = 0
        self._forget()
        self._tally(self._changes, self.missing, 1)
        self._changes = ()

    def take_back(self) -> None:
        """Takes back the batch that has begun, in full or in part. O(changes * lambda).

        Raises UnusableStateError or MemoryBudgetError if that cannot be done: the state is lost.
        """
        self.results.take_back()
        self.propagation.take_back()
        self._forget()
        self._changes = ()
        self.state.header[A.H_OPEN] = 0

    def undo(self, changes: Sequence[RelationChange], missing: MissingDeletes, wanted: bool = True) -> Zset:
        """Takes back the last batch that stands, given what was applied and what its deletes did not find.

        Returns the net change of the result as output tuples, if ``wanted``. No budget stands in its way. O(changes *
        lambda + deltas).
        """
        with self.state.budget.lifted():
            net = Zset.empty(self.head.width)
            if wanted or self.results.counted:
                net = self.results.changed(self.net(self.begin(_inverse(changes, missing), True)))
            else:
                self.state.header[A.H_OPEN] = 1
                self.propagation.apply_quietly(_inverse(changes, missing))
            self._undone(changes, missing)
        return net

    def undo_events(self, changes: Sequence[RelationChange], missing: MissingDeletes) -> list[Zset]:
        """Takes back the last batch as ``undo`` does, of a plan with a payload; returns what ``events`` yields, as
        output tuples."""
        with self.state.budget.lifted():
            blocks = [self.head.codes(block) for block in self.begin(_inverse(changes, missing), True)]
            self._undone(changes, missing)
        return blocks

    def _undone(self, changes: Sequence[RelationChange], missing: MissingDeletes) -> None:
        self._forget()
        self._tally(changes, missing, -1)
        self._changes = ()
        self.state.header[A.H_OPEN] = 0

    # The parts of a transaction
    # ------------------------------------------------------------------------------------------------------------

    def begin(self, changes: Sequence[RelationChange], deltas: bool, factorized: bool = False) -> Blocks:
        """Begins a batch; the blocks apply it while they are drawn. See ``Propagation.blocks``."""
        self._changes = changes
        blocks = self.propagation.blocks(changes, layout.MODE_DELTAS if deltas else layout.MODE_VIEWS, factorized)
        state = self.state
        state.header[A.H_OPEN] = 1
        if not deltas:
            state.header[A.H_LIVE_ON] = 0
        elif not state.header[A.H_LIVE_ON]:
            kernels.clear_live(state.arena, state.halves, state.plan_array)
            kernels.rebuild_live(state.arena, state.halves, state.plan_array, self.propagation.scratch)
        return blocks

    def net(self, blocks: Iterable[Zset]) -> Zset:
        """Returns the net of the output tuples of all ``blocks``."""
        return Zset.gathered([self.head.codes(block) for block in blocks], self.head.width).net()

    def roll_back(self, error: BaseException) -> None:
        """Takes back what was applied of the batch that ``error`` stopped.

        UnusableStateError if that cannot be done.
        """
        state = self.state
        if not state.header[A.H_OPEN]:
            return  # it has not begun, or it stands
        try:
            self.take_back()
        except (UnusableStateError, MemoryBudgetError) as why:
            if isinstance(error, Exception):
                raise UnusableStateError(f"{error} ({why}). {LOST}") from error
            return  # Python is told to stop; what comes after is refused

    def _forget(self) -> None:
        self.results.settle()
        self.propagation.settle()

    def _tally(self, changes: Sequence[RelationChange], missing: MissingDeletes, sign: int) -> None:
        """Counts what ``statistics`` tells of the changes, per alias; ``sign`` -1 to take that back."""
        header, some = self.state.header, bool(missing)
        for number, change in enumerate(changes):
            absent = missing.missing(number, change.gone) if some else None
            for bit, (alias, rejected) in enumerate(zip(change.relation.aliases, change.filtered, strict=True)):
                tallies = self._tallies[alias.node]
                if read := change.readers(bit):
                    header[tallies.updates] += sign * read
                if rejected:
                    header[tallies.filtered] += sign * rejected
                if absent is not None:
                    header[tallies.missing] += sign * int(absent[change.reads(bit)[: change.gone]].sum())

    # Looking inside
    # ------------------------------------------------------------------------------------------------------------

    def products(self) -> Iterator[pa.RecordBatch]:
        """Yields the result as factorized rows. O(1) per entry of a list; memory of one block."""
        return factorized_batches(self.state, self.guard, self.factorized)

    def rows(self) -> Iterator[Zset]:
        """Yields the rows of the free attributes. See ``enumerated``."""
        return enumerated(self.state, self.guard)


def _inverse(changes: Sequence[RelationChange], missing: MissingDeletes) -> list[RelationChange]:
    """Returns the changes that take back what took place of others."""
    return [missing.effective(i, change).inverse() for i, change in enumerate(changes)]
