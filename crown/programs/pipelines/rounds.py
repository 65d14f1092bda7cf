"""Recursions of a native call: the operators at the begin and at the end of their rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from crown.programs.kernels import pipeline
from crown.programs.kernels import rounds as kernels
from crown.programs.pipelines.plan import Block, Plan, StatefulOperator
from crown.stages.fixpoint import Fixpoint, Started
from crown.stages.kernels.recursions import BEST, COUNT, FOUNDED, STAMP
from crown.stages.protocol import Part
from crown.store.dictionary import Dictionary
from crown.store.memory import address_of
from crown.store.zset import Zset

_ROWS, _ROWS_PER_CHANGE = 1 << 9, 2  # rows of a change for which a round has room; Python continues with larger ones
_ROUNDS = 1 << 7  # rounds for which there is room
_MORE_WORDS = 1 << 6  # of the memory for each of these rows, besides those of one round


class _Sized(Protocol):
    root: int

    @property
    def fixed_words(self) -> int: ...
    @property
    def words_per_tuple(self) -> int: ...


class BeginRounds:
    """Begins the rounds of a recursion.

    - ``tables``: per table of the body besides the rows, the block with its changes, and the block that the body reads.
    - ``rows``: the block with the changes of the rows that the body reads.
    - ``forms``: the forms of its columns, the last of which is the stamp.

    ``end``: the operator at the end of a round, which describes the recursion in the plan.
    """

    kind = pipeline.BEGIN_ROUNDS
    register_words = words_per_tuple = fixed_words = 0
    end: EndRound

    def __init__(self, tables: Sequence[tuple[Block, Block]], rows: Block, forms: Sequence[int]) -> None:
        self.tables, self.rows, self.forms, self.root = tables, rows, forms, rows.root
        self.max_changes = self.batch_words = 0  # rows of a change for which a round has room; words of such a batch

    def prepare(self, rows: list[int], state: memoryview) -> int:
        """Prepares batches whose roots have these numbers of ``rows``. Sets the maximum number of rows of its own root.
        Returns how many rows are netted."""
        self.max_changes = max(_ROWS, _ROWS_PER_CHANGE * sum([rows[given.root] for given, _ in self.tables]))
        rows[self.rows.root] = self.max_changes
        words = int(kernels.fixed_words(len(self.forms), _ROUNDS, self.end.room))
        self.batch_words = words + _MORE_WORDS * self.max_changes
        return 0

    def plan_words(self, plan: Plan) -> Sequence[int]:
        """Returns its words in a plan. Adds to the plan what they point to."""
        return self.end.words(plan, -1)


@dataclass(frozen=True)
class Judging:
    """How MIN or MAX of a recursion is judged: the block of the candidates, and that of the rows that have become the
    best, or no longer are."""

    candidates: Block
    judged: Block


class CountDerived(StatefulOperator):
    """Counts the derivations of a round of the recursion whose rounds ``begin`` begins. ``derived``: their block."""

    kind = pipeline.COUNT_DERIVED
    register_words = scratch_words = batch_words = state_words = fixed_words = words_per_tuple = 0
    number = None

    def __init__(self, begin: BeginRounds, derived: Block, part: Part) -> None:
        self._begin, self.root, self.part = begin, derived.root, part

    def prepare(self, rows: list[int], state: memoryview) -> int:
        """Does nothing: the end of a round prepares it. Returns 0."""
        return 0

    def plan_words(self, plan: Plan) -> Sequence[int]:
        """Returns its words in a plan. Adds to the plan what they point to."""
        return self._begin.end.words(plan, -1)


class EndRound(StatefulOperator):
    """Ends a round of recursion ``stage``, which has number ``number``.

    - ``begin``: the operator before the ``body``, the operators of a round before this one.
    - ``made``: per stage of the body, the block of its rows; those of the last one are derivations.
    - ``ends``: per stage of the body, the number of operators up to its last one.
    - ``net``: the block with the net of the derivations; None if no operator reads it.
    - ``judging``: None without MIN or MAX.
    - ``reads``: the blocks that the stage reads.
    - ``changed``: the block with the changes of the rows in all rounds. ``output`` is its net.
    """

    kind = pipeline.END_ROUND
    register_words = scratch_words = 0
    state_words = kernels.ROUNDS_STATE_WORDS

    def __init__(
        self, stage: Fixpoint, number: int, begin: BeginRounds, body: Sequence[_Sized], made: Sequence[Block],
        ends: Sequence[int], net: Block | None, judging: Judging | None, reads: Sequence[Block], changed: Block,
        output: Block, part: Part,
    ) -> None:  # fmt: skip
        self.stage, self.number, self.begin_rounds, self.body = stage, number, begin, body
        self.made, self.ends, self.net, self.judging = made, ends, net, judging
        self.output, self.part, self.root = output, part, made[-1].root
        self._reads, self._changed, self._width = reads, changed, len(stage.columns)
        self.batch_words = 0
        begin.end = self

    @property
    def room(self) -> int:
        """Returns the number of rows for which there is room among the absent ones."""
        return self.begin_rounds.max_changes * (1 if self.judging is None else 4)

    @property
    def fixed_words(self) -> int:
        """Returns how many words of the memory it takes regardless of the number of derivations."""
        return int(kernels.words_per_round(self._width))

    @property
    def words_per_tuple(self) -> int:
        """Returns how many words of the memory it takes for each derivation."""
        return int(kernels.words_per_derivation(self._width, self.stage.counts))

    def prepare(self, rows: list[int], state: memoryview) -> int:
        """Prepares batches whose roots have these numbers of ``rows``, and writes the state.

        Sets the maximum number of rows of its own root. Returns how many rows are netted.
        """
        at = self.state_at
        state[at + kernels.LS_ARENA], state[at + kernels.LS_ARENA_WORDS] = address_of(self.part.arena)
        self.batch_words = int(kernels.words_per_row(self._width)) * self.room
        words = sum(one.fixed_words + one.words_per_tuple * rows[one.root] for one in (*self.body, self))
        words += self.batch_words
        state[at + kernels.LS_ROUND_WORDS] = words
        state[at + kernels.LS_ROUNDS_ROOM] = words + _MORE_WORDS * self.begin_rounds.max_changes
        state[at + kernels.LS_MAX_ROUNDS], state[at + kernels.LS_MAX_ROWS] = _ROUNDS, self.begin_rounds.max_changes
        state[at + kernels.LS_ROOM] = rows[self._changed.root] = self.room
        return self.room

    def plan_words(self, plan: Plan) -> Sequence[int]:
        """Returns its words in a plan. Adds to the plan what they point to."""
        return self.words(plan, self.output.number)

    def words(self, plan: Plan, rows: int) -> Sequence[int]:
        """Returns the words of the recursion in a plan. ``rows``: the number of the block of its rows, or -1."""
        begin, judging, words = self.begin_rounds, self.judging, [0] * kernels.ROUNDS_WORDS
        plan.add_head(words, self.state_at, kernels.LS_ARENA, rows, [block.number for block in self._reads])
        words[kernels.L_WIDTH], words[kernels.L_LEAVES] = self._width, self.stage.counts
        words[kernels.L_TABLE], words[kernels.L_RECORD] = self.stage.table, self.stage.record
        words[kernels.L_TABLE_COUNT] = len(begin.tables)
        words[kernels.L_TABLES_AT] = plan.add([block.number for pair in begin.tables for block in pair])
        words[kernels.L_ROWS], words[kernels.L_FORMS_AT] = begin.rows.number, plan.add(begin.forms)
        words[kernels.L_DERIVED], words[kernels.L_OUTPUT] = self.made[-1].number, self._changed.number
        words[kernels.L_CANDIDATES] = -1
        if self.net is not None:
            words[kernels.L_NET] = self.net.number
        if judging is not None:
            words[kernels.L_CANDIDATES], words[kernels.L_JUDGED] = judging.candidates.number, judging.judged.number
        return words

    def hand_over(self, memory: np.ndarray, state: Sequence[int], done: int, dictionary: Dictionary) -> None:
        """Lets the stage continue where the call has stopped: in a round in which ``done`` operators of the body have
        made their blocks."""
        at, width, stage = self.state_at, self._width, self.stage
        pairs = zip(self.begin_rounds.tables, stage.tables[:-1], strict=True)
        tables = [given.zset(columns, memory, state, dictionary) for (given, _), columns in pairs]
        started = Started()
        change, given = Zset.empty(len(self.begin_rounds.forms)), tables
        for number in range(state[at + kernels.LS_ROUNDS]):
            started.applied.append((*given, stage.read(change)))
            given = [Zset.empty(table.width) for table in tables]
            first = state[at + kernels.LS_LOG] + kernels.LOG_WORDS * number
            entry = memory[first : first + kernels.LOG_WORDS].tolist()
            if self.stage.counts == 1:
                first, n = entry[kernels.E_CHANGE], entry[kernels.E_CHANGES]
                change = _tuples(memory, [first + n * j for j in range(width)], entry[kernels.E_WEIGHTS], n)
                started.log.append((change, COUNT))
                started.changed.append(change)
                continue
            n, weights = entry[kernels.E_DERIVED], entry[kernels.E_WEIGHTS]
            derived = _tuples(memory, memory[entry[kernels.E_COLUMNS] :][:width], weights, n)
            founded = memory[entry[kernels.E_CHOSEN] :][: entry[kernels.E_FOUNDED]]
            started.log.append((derived, COUNT))
            if self.judging is not None:
                count, forms = entry[kernels.E_CANDIDATES], memory[entry[kernels.E_CANDIDATE] :][1 : 2 * width : 2]
                started.judged.append(_tuples(memory, forms, entry[kernels.E_CANDIDATE_WEIGHTS], count))
                count, judged = entry[kernels.E_JUDGED], memory[entry[kernels.E_JUDGED_COLUMNS] :][:width]
                started.log.append((_tuples(memory, judged, entry[kernels.E_JUDGED_WEIGHTS], count), BEST))
            n, stride = entry[kernels.E_CHANGES], entry[kernels.E_STRIDE]
            changes = memory[entry[kernels.E_CHANGE] :][: stride * (width + 2)].reshape(width + 2, stride)[:, :n].copy()
            sign = entry[kernels.E_SIGN]
            change = Zset.of_columns(changes[:-1], np.full(n, sign))
            rows = changes[:width].T
            started.log += [
                (derived[founded], FOUNDED),
                (Zset(rows, sign * changes[width]), STAMP),
                (Zset(rows, sign * changes[width + 1]), FOUNDED),
            ]
            started.changed.append(Zset(rows, change.weights))
        started.pending = (*given, stage.read(change))
        room, count = state[at + kernels.LS_ROOM], state[at + kernels.LS_ABSENT_COUNT]
        absent = memory[state[at + kernels.LS_ABSENT] :][: room * width].reshape(width, room)[:, :count].copy()
        started.absent.append(Zset.of_columns(absent, np.ones(count, np.int64)))
        if not state[at + kernels.LS_PENDING]:
            for number, (block, end) in enumerate(zip(self.made, self.ends, strict=True)):
                if end <= done:
                    columns_of = stage.body[number].columns
                    started.made[number] = block.zset(columns_of, memory, state, dictionary)
            if done > next(i for i, one in enumerate(self.body) if isinstance(one, CountDerived)):
                stage.uncount(started.made[len(stage.body) - 1])
        stage.started = started


def _tuples(memory: np.ndarray, columns: Sequence[int] | np.ndarray, weights: int, n: int) -> Zset:
    """Returns ``n`` tuples of the memory, whose columns and weights begin at these words."""
    rows = np.array([memory[column : column + n] for column in columns], np.int64).reshape(len(columns), n)
    return Zset.of_columns(rows, memory[weights : weights + n].copy())
