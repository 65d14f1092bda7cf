"""Recursions of a native call: the operators at the begin and at the end of their rounds."""

from __future__ import annotations

from collections.abc import Sequence
from sys import maxsize
from typing import Protocol

import numpy as np

from crown.programs.delta_options import DeltaOptions
from crown.programs.kernels import pipeline
from crown.programs.kernels import rounds as kernels
from crown.programs.pipelines.plan import Block, Plan
from crown.stages.fixpoint import Fixpoint, Started
from crown.stages.kernels.recursions import COUNT, FOUNDED, STAMP
from crown.stages.protocol import Part
from crown.store.dictionary import Dictionary
from crown.store.memory import address_of
from crown.store.zset import Zset

_ROWS = 1 << 10  # rows of a change for which a round has room; Python continues with larger ones
_ROUNDS = 1 << 7  # rounds for which there is room
_MORE_WORDS = 1 << 15  # of the memory, besides those of a round with as many rows as there is room for


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

    ``end`` is the operator at the end of a round, which the words of the plan describe, too.
    """

    kind = pipeline.BEGIN_ROUNDS
    register_words = words_per_tuple = 0
    end: EndRound

    def __init__(self, tables: Sequence[tuple[Block, Block]], rows: Block, forms: Sequence[int]) -> None:
        self.tables, self.rows, self.forms, self.root = tables, rows, forms, rows.root

    @property
    def fixed_words(self) -> int:
        """Returns how many words of the memory it takes regardless of the number of tuples."""
        return int(kernels.fixed_words(len(self.forms) - 1, _ROUNDS, _ROWS)) + _MORE_WORDS

    batch_words = 0

    def prepare(self, rows: list[int], state: memoryview) -> int:
        """Prepares batches whose roots have these numbers of ``rows``. Sets the maximum number of rows of its own root.
        Returns how many rows are netted."""
        rows[self.rows.root] = _ROWS
        return 0

    def plan_words(self, plan: Plan) -> Sequence[int]:
        """Returns its words in a plan. Adds to the plan what they point to."""
        return self.end.plan_words(plan)


class EndRound:
    """Ends a round of recursion ``stage``, which has number ``number``.

    - ``begin``: the operator before the ``body``, the operators of a round.
    - ``made``: per stage of the body, the block of its rows; those of the last one are derivations.
    - ``ends``: per stage of the body, the number of operators up to its last one.
    - ``reads``: the blocks that the stage reads.
    - ``changed``: the block with the changes of the rows in all rounds. ``output`` is its net.
    """

    kind = pipeline.END_ROUND
    register_words = scratch_words = batch_words = 0
    state_words = kernels.ROUNDS_STATE_WORDS

    def __init__(
        self, stage: Fixpoint, number: int, begin: BeginRounds, body: Sequence[_Sized], made: Sequence[Block],
        ends: Sequence[int], reads: Sequence[Block], changed: Block, output: Block, part: Part,
    ) -> None:  # fmt: skip
        self.stage, self.number, self.begin_rounds, self.body = stage, number, begin, body
        self.made, self.ends = made, ends
        self.output, self.part, self.root = output, part, made[-1].root
        self._reads, self._changed, self._width = reads, changed, len(begin.forms) - 1
        self.state_at = 0
        begin.end = self

    @property
    def fixed_words(self) -> int:
        """Returns how many words of the memory it takes regardless of the number of derivations."""
        return int(kernels.words_per_round(self._width)) + (2 * self._width + 3) * _ROWS

    @property
    def words_per_tuple(self) -> int:
        """Returns how many words of the memory it takes for each derivation."""
        return int(kernels.words_per_derivation(self._width))

    def place(self, state_at: int) -> None:
        """Sets where its words in the state are."""
        self.state_at = state_at

    def max_rows(self, options: DeltaOptions) -> int:
        """Returns how many rows of a batch, at most, the call can apply."""
        return maxsize

    def begin(self, state: memoryview) -> bool:
        """Begins a batch. Returns False: it needs no preparation."""
        return False

    def prepare(self, rows: list[int], state: memoryview) -> int:
        """Prepares batches whose roots have these numbers of ``rows``, and writes the state.

        Sets the maximum number of rows of its own root. Returns how many rows are netted.
        """
        at = self.state_at
        state[at + kernels.LS_ARENA], state[at + kernels.LS_ARENA_WORDS] = address_of(self.part.arena)
        words = sum(one.fixed_words + one.words_per_tuple * rows[one.root] for one in (*self.body, self))
        state[at + kernels.LS_ROUND_WORDS], state[at + kernels.LS_ROUNDS_ROOM] = words, words + _MORE_WORDS
        state[at + kernels.LS_MAX_ROUNDS] = _ROUNDS
        state[at + kernels.LS_ROOM] = state[at + kernels.LS_MAX_ROWS] = rows[self._changed.root] = _ROWS
        return _ROWS

    def plan_words(self, plan: Plan) -> Sequence[int]:
        """Returns its words in a plan. Adds to the plan what they point to."""
        begin, words = self.begin_rounds, [0] * kernels.ROUNDS_WORDS
        reads = [block.number for block in self._reads]
        plan.add_head(words, self.state_at, kernels.LS_ARENA, self.output.number, reads)
        words[kernels.L_WIDTH] = self._width
        words[kernels.L_TABLE], words[kernels.L_RECORD] = self.stage.table, self.stage.record
        words[kernels.L_TABLE_COUNT] = len(begin.tables)
        words[kernels.L_TABLES_AT] = plan.add([block.number for pair in begin.tables for block in pair])
        words[kernels.L_ROWS], words[kernels.L_FORMS_AT] = begin.rows.number, plan.add(begin.forms)
        words[kernels.L_DERIVED], words[kernels.L_OUTPUT] = self.made[-1].number, self._changed.number
        return words

    def hand_over(self, memory: np.ndarray, state: Sequence[int], done: int, dictionary: Dictionary) -> None:
        """Lets the stage continue where the call has stopped: in a round in which ``done`` operators of the body have
        made their blocks."""
        at, width, stage = self.state_at, self._width, self.stage
        tables = [inner.zset(columns, memory, state, dictionary) for inner, columns in zip(
            [given for given, _ in self.begin_rounds.tables], stage.tables, strict=False)]  # fmt: skip
        started = Started()
        change, given = Zset.empty(width + 1), tables
        for number in range(state[at + kernels.LS_ROUNDS]):
            started.applied.append((*given, change))
            given = [Zset.empty(table.width) for table in tables]
            first = state[at + kernels.LS_LOG] + kernels.LOG_WORDS * number
            entry = memory[first : first + kernels.LOG_WORDS].tolist()
            n, weights = entry[kernels.E_DERIVED], entry[kernels.E_WEIGHTS]
            columns = memory[entry[kernels.E_COLUMNS] :][:width]
            derived = Zset.of_columns(
                np.array([memory[column : column + n] for column in columns]).reshape(width, n),
                memory[weights : weights + n].copy(),
            )
            founded = memory[entry[kernels.E_CHOSEN] :][: entry[kernels.E_FOUNDED]]
            n, stride = entry[kernels.E_CHANGES], entry[kernels.E_STRIDE]
            changes = memory[entry[kernels.E_CHANGE] :][: stride * (width + 2)].reshape(width + 2, stride)[:, :n].copy()
            sign = entry[kernels.E_SIGN]
            change = Zset.of_columns(changes[:-1], np.full(n, sign))
            rows = changes[:width].T
            started.log += [
                (derived, COUNT),
                (derived[founded], FOUNDED),
                (Zset(rows, sign * changes[width]), STAMP),
                (Zset(rows, sign * changes[width + 1]), FOUNDED),
            ]
            started.changed.append(Zset(rows, change.weights))
        started.pending = (*given, change)
        room, count = state[at + kernels.LS_ROOM], state[at + kernels.LS_ABSENT_COUNT]
        absent = memory[state[at + kernels.LS_ABSENT] :][: room * width].reshape(width, room)[:, :count].copy()
        started.absent.append(Zset.of_columns(absent, np.ones(count, np.int64)))
        if not state[at + kernels.LS_PENDING]:
            for number, (block, end) in enumerate(zip(self.made, self.ends, strict=True)):
                if end <= done:
                    columns_of = stage.body[number].columns
                    started.made[number] = block.zset(columns_of, memory, state, dictionary)
        stage.started = started
