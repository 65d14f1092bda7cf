"""Propagates a batch: passes net changes through the tree, and undoes them if the batch is stopped.

    RelationChange -> R-, S-, P-updates -> blocks of the free attributes, as Z-sets

A batch can stop between two blocks, and wherever a kernel returns early (over budget, too many copies). The number of
applied tuples is then known exactly, so the applied part is undone by its inverse. Invariant: while ``_settled`` is
true, ``_done`` is the applied part of the batch. Resuming a suspended generator finishes the tuple in which a kernel
stopped, and settles. An exception within a tuple, which only a full arena or a signal handler can cause, leaves
``_settled`` false. The applied part is then unknown, and the state is lost.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from inspect import GEN_SUSPENDED, getgeneratorstate
from itertools import chain

import numpy as np

from crown.engine.buffers import Buffers, with_slices
from crown.engine.kernels import layout, publish, update
from crown.engine.kernels import state as kernels
from crown.engine.kernels.enumeration import enumerate as enumeration
from crown.engine.kernels.enumeration import loans
from crown.engine.kernels.padding import batches as padding_batches
from crown.engine.kernels.payloads import summed_leaves
from crown.engine.load.loader import Loader
from crown.engine.padded import Paddings
from crown.engine.progress import PADDING, BatchProgress
from crown.engine.state import State
from crown.errors import ChangeError, MemoryBudgetError, UnusableStateError
from crown.ingest.batch import EVERY, RelationChange
from crown.kernels.memory import arena as A
from crown.store.memory import numbers
from crown.store.zset import Zset

NONE_MISSING = np.zeros(0, np.int64)
Blocks = Generator[Zset, None, None]


class Propagation:
    """Applies batches to the tree of a state. ``free``: the number of enumerated attributes.
    ``margin``, ``blocks``: see ``Buffers``."""

    def __init__(self, state: State, free: int, margin: int = 0, blocks: int = 1) -> None:
        compiled = state.compiled
        self._arena = state.arena
        self._header = state.header
        self._halves = state.halves
        self._compiled = compiled
        self._budget, self._tree = state.budget, state.first
        self.scratch = compiled.new_scratch()
        self._marks = numbers(self.scratch)
        self._marks[layout.X_LENDS] = 1
        self._loader = Loader(state, self.scratch)
        self._free = free
        self._ring = compiled.ring
        self._flat = self.buffers = Buffers(compiled.columns(free), margin, blocks)
        weights = np.ones(self.buffers.out.shape[1], np.int64)
        self._weights = {1: weights, -1: -weights}  # for the tuples in a block; read-only
        self.paddings = Paddings(compiled)
        self._pads = bool(self.paddings)
        self._changes: Sequence[RelationChange] = ()
        self._undone: Sequence[RelationChange] = ()  # changes of a batch that is undone
        self._done: dict[int, list[int]] = {}  # sign -> tuples applied, per change
        self._running: Blocks | None = None
        self._settled = True
        self._halted = False
        self._progress: BatchProgress | None = None
        self.repeats = True  # False after a batch whose blocks contain each row once
        self.missing: dict[int, np.ndarray] = {}  # number of a change -> copies that its deletes did not find

    @property
    def plain(self) -> bool:
        """Returns True if the tree has only stored relations."""
        return True

    @property
    def loads(self) -> int:
        """Returns the number of insertions from which a batch is loaded in bulk."""
        return self._loader.min_tuples

    def make_ready(self) -> None:
        """Chooses the buffer for a batch that another kernel applies."""
        self.buffers = self._flat
        if self.buffers.handed_out:
            self.buffers.renew()
        if self._header[A.H_LOANS]:  # a batch was stopped
            loans.call(self._arena)
        self.missing = {}

    def resume(self, progress: BatchProgress) -> None:
        """Makes the next batch continue where another kernel stopped."""
        self._progress = progress

    @property
    def resumes(self) -> bool:
        """Returns True if the next batch continues where another kernel stopped."""
        return self._progress is not None

    def blocks(self, changes: Sequence[RelationChange], mode: int, factorized: bool = False) -> Blocks:
        """Applies a batch: deletions of all relations, then insertions of all relations.

        Yields the deleted or inserted rows of the free attributes, with weight -1 or 1, in blocks that are valid until
        the next step. If ``factorized``, a block has one tuple, with its sign, per factorized row in ``buffers.out``;
        its values are meaningless. Raises MemoryBudgetError or ChangeError if the batch cannot continue; call
        ``roll_back`` then.
        """
        progress = self._progress
        self._changes = changes
        self._done = {-1: [0] * len(changes), 1: [0] * len(changes)}
        self.missing = {}
        self._halted = False
        self._settled = True
        if progress is not None:
            self._done, self.missing = progress.applied, progress.missing
            self._settled = progress.stopped_at is None
            self._running = self._run(progress)
            self._progress = None  # last: until then, ``roll_back`` would take the batch for one that has not begun
            return self._running
        self._marks[layout.X_MODE] = mode
        self._marks[layout.X_FACTORED] = int(factorized)
        self.buffers = Buffers(self._free + self._compiled.branches) if factorized else self._flat
        if self.buffers.handed_out:  # handed out by a batch that was stopped
            self.buffers.renew()
        self._marks[layout.X_I] = self._marks[layout.X_FILL] = 0
        if self._header[A.H_LOANS]:  # a batch was stopped
            loans.call(self._arena)
        self._running = self._run()
        return self._running

    def discard_output(self) -> None:
        """Applies the rest of the batch without output."""
        self._marks[layout.X_MODE] = self._quiet_mode()

    def roll_back(self) -> None:
        """Undoes the applied part of the batch that was passed to ``blocks``. O(changes * lambda).

        Raises UnusableStateError if that part is unknown, MemoryBudgetError if there is no memory to undo it.
        """
        progress, self._progress = self._progress, None
        if progress is not None:
            raise UnusableStateError("it is unknown how much of the batch was applied")
        self._halted = True
        self.discard_output()
        if self._running is not None and getgeneratorstate(self._running) == GEN_SUSPENDED:
            for _ in self._running:
                raise AssertionError("a quiet update produced output")
        if not self._settled:
            raise UnusableStateError("it is unknown how much of the batch was applied")
        inverse = []
        for i, change in enumerate(self._changes):
            applied = change.applied(self._done[-1][i], self._done[1][i])
            if i in self.missing:
                applied = applied.without(self.missing[i][: applied.deletes])
            inverse.append(applied.inverse())
        self._undone = self._changes
        with self._budget.lifted():  # the state had room for these changes before
            for _ in self.blocks(inverse, self._quiet_mode()):
                raise AssertionError("a quiet update produced output")
        self.settle()

    def settle(self) -> None:
        """Commits the batch: it will not be undone."""
        self._changes, self._undone, self._running = (), (), None

    def _quiet_mode(self) -> int:
        return layout.MODE_LIVE if self._header[A.H_LIVE_ON] else layout.MODE_VIEWS

    def _run(self, progress: BatchProgress | None = None) -> Blocks:
        marks, filling = self._marks, False
        inserted = None if progress is None else self._take_inserted_rows(progress)
        for sign in (-1, 1):
            if sign > 0 and inserted is not None and not self._halted:
                self.buffers.out[:, : inserted.shape[1]], marks[layout.X_FILL] = inserted, inserted.shape[1]
            if sign > 0 and marks[layout.X_MODE] == layout.MODE_DELTAS and (filling := self._fills()):
                if marks[layout.X_FILL]:
                    yield from self._handed(-1)
                marks[layout.X_MODE], self._header[A.H_LIVE_ON] = layout.MODE_VIEWS, 0
            for number in (0,) if len(self._changes) == 1 else self._update_order(sign):
                change = self._changes[number]
                if self._halted and self._settled:  # else another kernel was left within a tuple, which is finished
                    return
                if self._done[sign][number] < change.count(sign):
                    self._settled = False  # until `_note`
                    stopped = progress is not None and progress.stopped_at == (sign, number)
                    yield from self._through(number, change, sign, progress if stopped else None)
            if self._pads and (progress is None or progress.paddings_pending(sign)):
                yield from self._pad(sign, progress is not None and progress.stopped_at == (sign, PADDING))
            if marks[layout.X_FILL] and self._ring is None:  # the value of a payload has its own sign
                yield from self._handed(sign)
        if self._ring is not None:
            yield from self._publish(progress)
        if filling:
            kernels.rebuild_live(self._arena, self._halves, self._compiled.array, self.scratch)
            marks[layout.X_MODE] = layout.MODE_DELTAS
            yield from self._all()
        if self._ring is not None:
            self._refuse_overflow()

    def _take_inserted_rows(self, progress: BatchProgress) -> np.ndarray | None:
        """Returns the inserted rows of the buffer, int64[columns, rows], if they follow deleted rows, which remain in
        it. Returns None if there are none."""
        n = self._marks[layout.X_FILL]
        deleting = progress.stopped_at is not None and progress.stopped_at[0] < 0
        if self._ring is not None or progress.deleted_rows == n or deleting:
            return None
        self._marks[layout.X_FILL] = progress.deleted_rows
        return self.buffers.out[:, progress.deleted_rows : n].copy()

    def _pad(self, sign: int, unfinished: bool) -> Blocks:
        """Removes paddings from groups (``sign`` -1), or inserts them.

        ``unfinished``: True if a kernel has stopped within a group.
        """
        marks, state = self._marks, (self._arena, self._halves, self._compiled.array, self.scratch)
        paddings = self.paddings
        visits = (
            paddings.visits_before(self._changes) if sign < 0 else paddings.visits_after(self._changes, self._undone)
        )
        if unfinished and marks[layout.X_FILL]:
            yield from self._handed(sign)
        for visit in chain([paddings.unfinished] if unfinished else [], visits):
            if self._halted and self._settled:
                return
            (width, rows), status = visit.words(), update.FULL
            self._settled, marks[layout.X_I] = False, 0
            while status != update.DONE:
                target = (visit.node, visit.lookup, width, rows)
                try:
                    if sign < 0:
                        masks = (visit.masks, visit.bit)
                        status = padding_batches.take_padding(*state, *target, *masks, self._ring, self.buffers.out)
                    else:
                        status = padding_batches.give_padding(*state, *target, self._ring, self.buffers.out)
                except MemoryError as error:
                    raise MemoryBudgetError(f"{error}: the batch was applied in part") from error
                if status == update.FULL:
                    yield from self._handed(sign)
                    if self._halted:  # finish only the group in which the kernel stopped
                        rows = rows[: (marks[layout.X_I] + 1) * width]
            self._settled = True

    def _fills(self) -> bool:
        """Returns True for many insertions into an empty result: its deltas are then the whole new result."""
        if sum([change.net.weights.size - change.deletes for change in self._changes]) < self._loader.min_tuples:
            return False
        return self._empty()

    def _empty(self) -> bool:
        """Returns True if the result is empty."""
        return bool(kernels.root_size(self._arena, self._halves) == 0)

    def _update_order(self, sign: int) -> Sequence[int]:
        nodes = [change.relation.aliases[0].node for change in self._changes]
        return self.turns(nodes, sign, self._marks[layout.X_MODE])

    def turns(self, nodes: Sequence[int], sign: int, mode: int = layout.MODE_DELTAS) -> Sequence[int]:
        """Returns the positions of ``nodes`` in the order in which changes of their relations are applied. Only the
        order of deltas depends on it.

        Payloads are summed: the less there is above a group when it changes, the fewer rows read the change.
        """
        ordered = self._ring is not None or (sign > 0 and mode == layout.MODE_VIEWS)
        return self._loader.deepest_first(nodes)[::sign] if ordered else range(len(nodes))

    def _all(self) -> Blocks:
        """Yields the whole result until the reader stops."""
        marks, state = self._marks, (self._arena, self._halves, self._compiled.array, self.scratch)
        enumeration.full_enum(*state)
        done = False
        while not done and marks[layout.X_MODE] == layout.MODE_DELTAS:
            if self._ring is None:
                done = enumeration.enumerate_block(*state, self.buffers.out)
            else:
                done = publish.enumerate_weighed(*state, self._ring, self.buffers.out)
            if marks[layout.X_FILL] or not done:
                yield from self._handed(1)

    def _publish(self, progress: BatchProgress | None) -> Blocks:
        """Publishes the changes of groups to their parents. It stops only after a finished group.

        ``progress``: where another kernel may have stopped.
        """
        marks, state = self._marks, (self._arena, self._halves, self._compiled.array, self.scratch, self._ring)
        status = update.OVER_BUDGET
        if progress is not None and progress.stopped_at is not None and progress.stopped_at[0] == publish.PUBLISHING:
            status = progress.status
        else:
            marks[layout.X_EDGE] = marks[layout.X_PARENT] = 0
        while status != update.DONE:
            if status == update.FULL:
                yield from self._handed(1)
            if not self._budget.fixed:
                self._budget.allow(self._tree)
            self._settled = False
            try:
                status = publish.publish_batch(*state, self.buffers.out)
            except MemoryError as error:
                raise MemoryBudgetError(f"{error}: the batch was applied in part") from error
            self._settled = status != update.FULL
            if status == update.OVER_BUDGET and not self._budget.extend(self._tree):
                raise self._budget.refusal()
        if marks[layout.X_FILL]:
            yield from self._handed(1)

    def _refuse_overflow(self) -> None:
        """Raises ChangeError if a count in the result has left 63 bits."""
        overflow, self._header[A.H_WRAPPED] = self._header[A.H_WRAPPED], 0
        if overflow and self._marks[layout.X_MODE] == layout.MODE_DELTAS:
            raise ChangeError(
                "a count would leave 63 bits; the batch was undone. Check the weights of its inserts, or count fewer "
                "combinations at once"
            )

    def _handed(self, sign: int) -> Blocks:
        """Yields the filled part of the output buffer. The batch can be stopped while the reader has it.

        An empty buffer is too small for the next factorized row, and grows.
        """
        n = self._marks[layout.X_FILL]
        if n == 0:
            self.buffers.grow()
            return
        weights = self._weights[sign] if self.buffers is self._flat else np.full(n, sign, np.int64)
        block = self._compiled.block(self.buffers.out, n, self._free, weights)
        if self._header[A.H_LOANS]:
            assert self._compiled.payload is not None, "nothing else is lent"
            block = with_slices(block, self._arena, self._compiled.payload.result)
        yield block
        if self.buffers.handed_out:
            self.buffers.renew()
        self._marks[layout.X_FILL] = 0

    def _through(self, number: int, change: RelationChange, sign: int, progress: BatchProgress | None = None) -> Blocks:
        """Applies a change. ``progress``: where another kernel has stopped."""
        marks, alias, masks = self._marks, change.relation.aliases[0], change.masks_of(sign)
        missing = np.zeros(change.deletes, np.int64) if sign < 0 else NONE_MISSING
        values, copies = for_kernels(change.net, change.deletes, sign)
        status = None
        if progress is not None:
            status, missing = progress.status, progress.missing.get(number, missing)
        else:
            marks[layout.X_I] = 0
        if (
            status is None
            and sign > 0
            and marks[layout.X_MODE] == layout.MODE_VIEWS
            and alias.node not in self._compiled.summed
        ):
            marks[layout.X_I] = self._loader.load(alias.node, values, copies, masks, self.buffers.out)
        if not self._budget.fixed:
            self._budget.allow(self._tree)
        while True:
            if status is None:
                status = self._step(alias.node, values, copies, masks, missing, sign)
            if status == update.FULL:
                if progress is None or marks[layout.X_FILL]:  # deletes may have been handed out before
                    yield from self._handed(sign)
                if self._halted:  # finish only the tuple in which the kernel stopped
                    copies = copies[: marks[layout.X_I] + 1]
                    values = values[: len(copies) * change.net.width]
                    masks = masks if masks is EVERY else masks[: len(copies)]
            elif status != update.OVER_BUDGET or not self._budget.extend(self._tree):
                break
            status = None
        self._note(number, sign, len(copies) if status == update.DONE else marks[layout.X_I], missing)
        if status == update.OVER_BUDGET:
            raise self._budget.refusal()
        if status == update.TOO_MANY:
            raise ChangeError(
                f"relation {change.relation.name!r}: a row would get more than {update.MAX_COPIES} "
                "copies, or a key more rows than 63 bits count; the batch was undone. Check the weights of its inserts"
            )

    def _note(self, number: int, sign: int, applied: int, missing: np.ndarray) -> None:
        """Records how many tuples of a change have been applied, and the copies that its deletes did not find."""
        if missing.size and missing.any():
            self.missing[number] = missing
        self._marks[layout.X_I] = 0
        self._done[sign][number] = applied
        self._settled = True

    def _step(
        self, node: int, values: np.ndarray, copies: np.ndarray, masks: np.ndarray, missing: np.ndarray, sign: int
    ) -> int:
        """Calls the kernel of a sign, again if it stopped."""
        state = (self._arena, self._halves, self._compiled.array, self.scratch, self._compiled.record[node])
        try:
            if node in self._compiled.summed:
                return summed_leaves.sum_batch(*state, values, copies, missing, sign, self._ring, self.buffers.out)
            if sign > 0:
                return update.insert_batch(*state, values, copies, masks, self._ring, self.buffers.out)
            return update.delete_batch(*state, values, copies, missing, self._ring, self.buffers.out)
        except MemoryError as error:
            raise MemoryBudgetError(f"{error}: the batch was applied in part") from error


def for_kernels(net: Zset, deletes: int, sign: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the tuples of a sign row by row, and their changed copies (int64[n] > 0). The first ``deletes`` tuples of
    the net are deletes."""
    cut, values = deletes * net.width, net.flat()
    return (values[cut:], net.weights[deletes:]) if sign > 0 else (values[:cut], -net.weights[:deletes])
