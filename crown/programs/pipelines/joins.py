"""A join core in a program whose batch is one native call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crown.engine.kernels import publish
from crown.engine.propagation import Entered
from crown.expressions.kernels.evaluate import CODES, WORDS
from crown.expressions.program import is_wide
from crown.kernels import arena as A
from crown.programs.kernels import pipeline as kernels
from crown.programs.kernels import sources as of
from crown.programs.kernels import tree
from crown.programs.pipelines.feeds import BlockFeed
from crown.programs.pipelines.plan import Plan
from crown.programs.wanted import Wanted
from crown.stages.joins.core import Join

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""The arena of a join core, that as half words, its plan, its scratch, and its buffer."""


class Take:
    """What a join stores of the tuples that a ``feed`` makes, which is number ``number``.

    ``record``: its descriptor; ``nets``: it is netted; ``asks``: it says what deletes find; ``joined``: columns of it
    that must not be NULL; ``tallies``: of each alias what counts the tuples that it reads, and those that the feed
    leaves out; ``summed``: only sums of its rows are kept.
    """

    def __init__(
        self, feed: BlockFeed, number: int, record: int, nets: bool, asks: bool, joined: Sequence[int],
        tallies: Sequence[int], summed: bool,
    ) -> None:  # fmt: skip
        self.feed = feed
        self._number, self._joined, self._tallies = number, joined, tallies
        self._record, self._nets, self._asks, self._summed = record, nets, asks, summed

    @property
    def each(self) -> int:
        """Returns how many words of the memory of a run a tuple takes, besides those of the feed."""
        return int(tree.words_of_rows(len(self.feed.fed.columns)))

    @property
    def fixed(self) -> int:
        """Returns how many more words of the memory of a run are needed."""
        return len(self.feed.fed.columns)

    def words(self, plan: Plan) -> list[int]:
        """Returns its words in a plan, to which it adds what they point to."""
        found = [0] * tree.TAKE
        found[tree.D_FEED] = int(plan.head[kernels.P_FEED0]) + kernels.feeds.FEED * self._number
        found[tree.D_NETS], found[tree.D_RECORD], found[tree.D_ASKS] = self._nets, self._record, self._asks
        found[tree.D_JOINED], found[tree.D_JOINED0] = len(self._joined), plan.add(self._joined)
        found[tree.D_ALIASES], found[tree.D_ALIAS0] = len(self._tallies) // 2, plan.add(self._tallies)
        found[tree.D_SUMMED] = self._summed
        return found


class Joining:
    """What a call needs to know of a join ``stage``, and what it leaves of it; ``stored``: what that stores.

    ``nets``: its rows are netted before they leave.
    """

    def __init__(self, stage: Join, stored: Sequence[Take]) -> None:
        (self._core,) = stage.cores
        self.stored = stored
        self._propagation = self._core.propagation
        self._places, self._reads = self._core.head.places, self._core.head.reads
        self._bag = not stage.stage.plan.consolidated
        self.nets = self._bag and self._places is not None
        self._forms = [CODES if is_wide(column.type) else WORDS for column in stage.columns]
        payload = self._core.state.compiled.payload
        self._words_of_rows = 0 if payload is None else payload.result.words
        nodes = [stored.stored.aliases[0].node for stored in stage.stored]
        self._turns = {sign: list(self._propagation.turns(nodes, sign)) for sign in (-1, 1)}

    def most(self, wanted: Wanted) -> int:
        """Returns how many rows of a batch, at most, the call takes with the core as it is, for what is ``wanted``."""
        live = wanted.deltas and not wanted.factorized and self._core.state.header[A.H_LIVE_ON]
        raw = self._bag and wanted.consolidate is False
        return self._propagation.loads - 1 if live and not raw else 0

    def scratch(self, delivers: bool) -> int:
        """Returns how many words of scratch are needed; ``delivers``: no stage reads the rows."""
        if not delivers:
            return 0
        return self._propagation.buffers.out.shape[1] * (
            1 if self._places is None or not self.nets else 3 + len(self._places)
        )

    @property
    def each(self) -> int:
        """Returns how many words of the memory of a run a row takes that a stage reads."""
        return len(self._forms) + max(self._words_of_rows, 1)

    @property
    def fixed(self) -> int:
        """Returns how many more words of the memory of a run are needed, if a stage reads the rows."""
        return 2 * len(self._forms)

    def begin(self) -> tuple[Arrays, int]:
        """Makes the core ready for a batch, of which nothing of its state changes; returns its arrays, and how many
        rows the buffer takes."""
        state, found = self._core.state, self._propagation
        found.make_ready()
        out = found.buffers.out
        return (state.arena, state.halves, state.plan_array, found.scratch, out.reshape(-1)), out.shape[1]

    def write(self, plan: Plan, delivers: bool) -> None:
        """Writes what it is to a plan."""
        head = plan.head
        head[kernels.P_TREE], head[kernels.P_WORDS] = self._propagation.buffers.out.shape[1], self._words_of_rows
        head[kernels.P_TURNS] = plan.add([*self._turns[-1], *self._turns[1]])
        described = [word for take in self.stored for word in take.words(plan)]
        head[kernels.P_TAKES], head[kernels.P_TAKE0] = len(self.stored), plan.add(described)
        if not delivers:
            assert self._reads is not None, "else no stage reads the rows here"
            reads = [word for read, form in zip(self._reads, self._forms, strict=True) for word in (*read, form)]
            head[kernels.P_READ], head[kernels.P_READS] = len(self._reads), plan.add(reads)
        elif self._places is not None and self.nets:
            head[kernels.P_NETS], head[kernels.P_WIDTH] = 1, len(self._places)
            head[kernels.P_PLACES] = plan.add(self._places)

    def hand_over(self, memory: np.ndarray, words: Sequence[int], taken: int, asked: int) -> None:
        """Has the core go on where the call has stopped; what it takes has its words from number ``taken`` on."""
        at = kernels.R_TREE
        left = (words[at + tree.T_SIGN], words[at + tree.T_TURN]) if asked == kernels.LEFT else None
        number, found = 0, Entered(words[at + tree.T_MINUS])
        if left == (publish.PUBLISHING, 0):
            found.left, found.status = left, words[at + tree.T_STATUS]
        for place, take in enumerate(self.stored):
            if not words[kernels.R_SOURCE0 + of.READ * take.feed.block + of.R_EVENTS]:
                continue  # there is no change of it
            here = taken + tree.TAKEN * place
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
