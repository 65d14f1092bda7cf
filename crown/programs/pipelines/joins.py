"""A join core in a program whose batch is one native call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from crown.engine.entered import PADDING, Entered
from crown.engine.kernels import publish
from crown.kernels.memory import arena as A
from crown.programs.kernels import pipeline as kernels
from crown.programs.kernels import sources as of
from crown.programs.kernels import tree
from crown.programs.pipelines.blocks import Block, forms_of_types
from crown.programs.pipelines.feeds import BlockFeed
from crown.programs.pipelines.plan import Plan
from crown.programs.wanted import ALL, Wanted
from crown.stages.joins.core import Join
from crown.stages.protocol import Part
from crown.store.memory import address_of

_LEAST_ROWS = 1 << 10  # of a join that a stage reads, for which there is room; for more only if the batch has many


class Take:
    """What a join stores of the tuples that a ``feed`` makes of a ``source``.

    ``record``: its descriptor; ``nets``: it is netted; ``asks``: it says what deletes find; ``joined``: columns of it
    that must not be NULL; ``tallies``: of each alias what counts the tuples that it reads, and those that the feed
    leaves out; ``summed``: only sums of its rows are kept; ``drops``: tuples with a NULL in such a column are left out.
    ``at`` and ``tree``: the first word in the state of it, and of its core.
    """

    kind = kernels.TAKE
    registers = 0

    def __init__(
        self, feed: BlockFeed, source: str | int, record: int, nets: bool, asks: bool, joined: Sequence[int],
        tallies: Sequence[int], summed: bool, drops: bool,
    ) -> None:  # fmt: skip
        self.feed, self.source, self.asks = feed, source, asks
        self.root = feed.root
        self._joined, self._tallies = joined, tallies
        self._record, self._nets, self._summed, self._drops = record, nets, summed, drops
        self.at = self.tree = 0

    @property
    def each(self) -> int:
        """Returns how many words of the memory of a run a tuple takes, besides those of the feed."""
        return int(tree.words_of_rows(len(self.feed.fed.columns)))

    @property
    def fixed(self) -> int:
        """Returns how many more words of the memory of a run are needed."""
        return len(self.feed.fed.columns)

    def words(self, plan: Plan) -> Sequence[int]:
        """Returns its words in a plan, to which it adds what they point to."""
        found = [0] * tree.TAKE
        found[tree.D_FEED], found[tree.D_TAKEN], found[tree.D_TREE] = plan.places[self.feed], self.at, self.tree
        found[tree.D_NETS], found[tree.D_RECORD], found[tree.D_ASKS] = self._nets, self._record, self.asks
        found[tree.D_JOINED], found[tree.D_JOINED0] = len(self._joined), plan.add(self._joined)
        found[tree.D_ALIASES], found[tree.D_ALIAS0] = len(self._tallies) // 2, plan.add(self._tallies)
        found[tree.D_SUMMED], found[tree.D_DROPS] = self._summed, self._drops
        return found


class Joining:
    """What a call needs to know of a join ``stage``, number ``number``, and what it leaves of it; ``stored``: what that
    stores.

    ``rows``: the block of the rows in its buffer, and ``made``: that of the rows of the stage, unless it ``delivers``
    them. ``headed``: the operator behind it makes these. ``nets``: its rows are netted before they are delivered.
    ``at``: its first word in the state.
    """

    kind = kernels.CORE
    registers = 0
    room = 0  # words of the memory that a batch takes, besides those of its blocks

    def __init__(
        self, stage: Join, number: int, stored: Sequence[Take], rows: Block, part: Part, delivers: bool
    ) -> None:
        self.stage = stage
        (self._core,) = stage.cores
        self.stored, self.number, self.part, self.rows, self.made = stored, number, part, rows, rows
        self.root = rows.root
        self.delivers, self.headed = delivers, False
        self._propagation = self._core.propagation
        self._places, self._reads = self._core.head.places, self._core.head.reads
        self._bag = not stage.stage.plan.consolidated
        self.nets = self._bag and self._places is not None
        self._forms = forms_of(stage)
        payload = self._core.state.compiled.payload
        self._words_of_rows = 0 if payload is None else payload.result.words
        nodes = [stored.stored.aliases[0].node for stored in stage.stored]
        self._turns = {sign: list(self._propagation.turns(nodes, sign)) for sign in (-1, 1)}
        self.at = 0
        self._out: np.ndarray | None = None

    @property
    def state_words(self) -> int:
        """Returns how many words of the state it takes."""
        return int(tree.TREE + tree.TAKEN * len(self.stored))

    def place(self, at: int) -> None:
        """Says where in the state its words are."""
        self.at = at
        for number, take in enumerate(self.stored):
            take.at, take.tree = at + tree.TREE + tree.TAKEN * number, at

    def most(self, wanted: Wanted) -> int:
        """Returns how many rows of a batch, at most, the call takes with the core as it is, for what is ``wanted``."""
        wanted = wanted if self.delivers else ALL
        live = wanted.deltas and not wanted.factorized and self._core.state.header[A.H_LIVE_ON]
        raw = self._bag and wanted.consolidate is False and self.delivers
        return self._propagation.loads - 1 if live and not raw else 0

    @property
    def scratch(self) -> int:
        """Returns how many words of scratch are needed."""
        if not self.delivers:
            return 0
        return self._propagation.buffers.out.shape[1] * (
            1 if self._places is None or not self.nets else 3 + len(self._places)
        )

    @property
    def width(self) -> int:
        """Returns how many columns the rows have that are delivered."""
        return 0 if self._places is None else len(self._places)

    @property
    def each(self) -> int:
        """Returns how many words of the memory of a run a row takes that a stage reads."""
        return 0 if self.delivers else len(self._reads) + self.rows.weighs

    @property
    def fixed(self) -> int:
        """Returns how many more words of the memory of a run are needed, if a stage reads the rows."""
        return 0 if self.delivers else 2 * len(self._reads)

    def begin(self, rows: list[int], words: memoryview) -> int:
        """Makes the core ready for a batch, of which nothing of its state changes, and in which roots have so many
        ``rows``; ``words``: the state. Returns how many rows may be netted."""
        at, found = self.at, self._propagation
        found.make_ready()
        out = found.buffers.out
        room = out.shape[1]
        if out is not self._out:  # the words of a run keep them from batch to batch
            words[at + tree.T_ROOM] = room
            for word, array in (*self._arrays.items(), (tree.T_OUT, out)):
                words[at + word], words[at + word + 1] = address_of(array)
            self._out = out  # last: an exception may be raised before any line
        if self.delivers:
            return room if self.nets else 0
        most = sum([rows[root] for root in self._roots])
        rows[self.rows.root] = words[at + tree.T_MOST] = min(room, max(_LEAST_ROWS, 4 * most))
        return 0

    @cached_property
    def _roots(self) -> Sequence[int]:
        return sorted({take.root for take in self.stored})

    @property
    def _arrays(self) -> Mapping[int, np.ndarray]:
        state = self._core.state
        return {tree.T_ARENA: state.arena, tree.T_PLAN: state.plan_array, tree.T_SCRATCH: self._propagation.scratch}

    def words(self, plan: Plan) -> Sequence[int]:
        """Returns its words in a plan, to which it adds what they point to."""
        found = [0] * tree.CORE
        found[tree.J_STATE], found[tree.J_WORDS] = self.at, self._words_of_rows
        found[tree.J_TURNS] = plan.add([*self._turns[-1], *self._turns[1]])
        found[tree.J_TAKES] = len(self.stored)
        found[tree.J_TAKE0] = plan.add([plan.places[take] for take in self.stored])
        visits = list(self._visits(plan))
        found[tree.J_PADS], found[tree.J_PAD0] = len(visits), plan.add([word for visit in visits for word in visit])
        if not self.delivers:
            reads = [word for read, form in zip(self._reads, self._forms, strict=True) for word in (*read, form)]
            found[tree.J_READ], found[tree.J_READS] = len(self._reads), plan.add(reads)
            found[tree.J_MADE], found[tree.J_SHOWN] = self.rows.number, self.made.number
            found[tree.J_HEADED] = self.headed
            return found
        found[tree.J_DELIVERS] = 1
        if self._places is not None and self.nets:
            found[tree.J_NETS], found[tree.J_WIDTH] = 1, len(self._places)
            found[tree.J_PLACES] = plan.add(self._places)
        return found

    def _visits(self, plan: Plan) -> Iterator[tuple[int, ...]]:
        """Yields the words of the visits to groups that may be padded."""
        found = self._propagation.paddings
        for take, stored in zip(self.stored, self.stage.stored, strict=True):
            place, aliases = plan.places[take], stored.stored.aliases
            yield from ((-1, place, 1, node, at) for _, node, at in found.before(aliases))
            yield from ((1, place, sign, node, at) for sign, node, at in found.after(aliases))

    def hand_over(self, memory: np.ndarray, words: Sequence[int], asked: int) -> None:
        """Has the core go on where the call has stopped."""
        at = self.at
        left = (words[at + tree.T_SIGN], words[at + tree.T_TURN]) if asked == kernels.LEFT else None
        number, found = 0, Entered(words[at + tree.T_MINUS])
        if left == (publish.PUBLISHING, 0):
            found.left, found.status = left, words[at + tree.T_STATUS]
        elif left is not None and left[1] == len(self.stored):
            found.left, found.status = (left[0], PADDING), words[at + tree.T_STATUS]
        for place, take in enumerate(self.stored):
            here = take.at
            if not words[kernels.R_SOURCE0 + of.READ * take.feed.block + of.R_EVENTS]:
                continue  # there is no change of it
            n, gone = words[here + tree.K_EVENTS], words[here + tree.K_GONE]
            for sign, count in ((-1, gone), (1, n - gone)):
                turn = sign, self._turns[sign].index(place)
                found.done[sign].append(count if left is None or turn < left else 0)
                if turn == left:
                    found.left, found.status = (sign, number), words[at + tree.T_STATUS]
            absent = memory[words[here + tree.K_ABSENT] :][:gone].copy()
            if absent.any() or found.left == (-1, number):
                found.missing[number] = absent
            number += 1
        self._propagation.enter(found)


def forms_of(stage: Join) -> list[int]:
    """Returns the forms of the columns that a call takes of the buffer of a join."""
    plan, head = stage.cores[0].state.plan, stage.cores[0].head
    types = [column.type for column in stage.columns]
    if head.fed is not None:
        types = [plan.attributes[name].type for name in plan.free]
    return forms_of_types(types)
