"""Builds the plan of a native call: the numbers of its blocks, a head of words, the words that it points to, and the
bytes of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from sys import maxsize
from typing import Protocol

import numpy as np

from crown.expressions.kernels.evaluate import CODES, WORDS
from crown.expressions.literals import is_wide
from crown.programs.delta_options import DeltaOptions
from crown.programs.kernels import pipeline as kernels
from crown.programs.kernels.blocks import (
    ARENA,
    B_FORMS,
    B_TUPLES,
    B_WEIGHTS,
    BLOCK_WORDS,
    READ_COUNT,
    READS_AT,
    STAGE_BLOCK,
    STATE,
)
from crown.results.columns import Column
from crown.store.dictionary import Dictionary
from crown.store.zset import Zset
from plans.expressions.expr import Expr
from plans.schema import Column as Declared


@dataclass(frozen=True)
class Block:
    """Block ``number`` of a native call.

    - ``root``: the number of its *root*: a source, union or operator with state. A block has at most as many tuples as
      its root, so the memory of a batch follows from the numbers of rows of the roots.
    - ``wide``: the columns that take two words per tuple.
    - ``weight_words``: the words of the weight of a tuple.
    """

    number: int
    root: int
    wide: frozenset[int] = frozenset()
    weight_words: int = 1

    def zset(
        self, columns: Sequence[Declared], memory: np.ndarray, state: Sequence[int], dictionary: Dictionary
    ) -> Zset:
        """Returns its tuples, in codes, after a call."""
        block = kernels.R_BLOCKS + BLOCK_WORDS * self.number
        n, forms, first = state[block + B_TUPLES], state[block + B_FORMS], state[block + B_WEIGHTS]
        codes = np.empty((len(columns), n), np.int64)
        for j, column in enumerate(columns):
            start = int(memory[forms + 2 * j + 1])
            if j in self.wide:
                pairs = memory[start : start + 2 * n].copy()
                codes[j] = Column.of_words(column.type, dictionary, pairs).codes
            else:
                codes[j] = memory[start : start + n]
        weights = memory[first : first + self.weight_words * n].reshape(self.weight_words, n).copy()
        return Zset.of_columns(codes, weights[0], weights if self.weight_words > 1 else None)


@dataclass
class Blocks:
    """All blocks of a call. ``by_source``: the blocks of relations (by name) and of stages (by number)."""

    by_source: dict[str | int, Block] = field(default_factory=dict)
    count: int = 0
    root_count: int = 0

    def add_root(self, weight_words: int = 1) -> Block:
        """Adds a block that is a root."""
        self.count, self.root_count = self.count + 1, self.root_count + 1
        return Block(self.count - 1, self.root_count - 1, weight_words=weight_words)

    def add_derived(self, block: Block, wide: frozenset[int] = frozenset()) -> Block:
        """Adds a block that a feed or a net makes from another one. ``wide``: see ``Block``."""
        self.count += 1
        return Block(self.count - 1, block.root, wide, block.weight_words)


def forms_of_types(types: Sequence[str]) -> list[int]:
    """Returns the forms of stored columns of these types (see ``crown.expressions.kernels.evaluate``)."""
    return [CODES if is_wide(type_) else WORDS for type_ in types]


class StatefulOperator:
    """An operator with state that takes batches of any size, and needs no preparation for a batch, unless it overrides
    that. ``state_at``: the first of its words in the state."""

    state_at = 0

    def place(self, state_at: int) -> None:
        """Sets where its words in the state are."""
        self.state_at = state_at

    def max_rows(self, options: DeltaOptions) -> int:
        """Returns how many rows of a batch, at most, the call can apply in the current state of the stage."""
        return maxsize

    def begin(self, state: memoryview) -> bool:
        """Begins a batch. Returns True if it must be prepared again, even with the rows of earlier batches."""
        return False


class PlanPart(Protocol):
    """A part of a program that is described in a plan."""

    def plan_words(self, plan: Plan) -> Sequence[int]:
        """Returns its words in a plan. Adds to the plan what they point to."""


class Plan:
    """A plan while words are added (see ``crown.programs.kernels.pipeline``). ``words``: the words ``P_...``."""

    def __init__(self) -> None:
        self.words = np.zeros(kernels.PLAN_WORDS, np.int64)
        self._pieces = [self.words]
        self._length = len(self.words)
        self._bytes = bytearray()
        self._texts = list[int]()
        self.offsets = dict[PlanPart, int]()  # of the parts that were added
        self.lookups = dict[int, Expr]()  # by text number

    def add(self, words: Sequence[int] | np.ndarray) -> int:
        """Adds words. Returns their offset."""
        offset = self._length
        self._pieces.append(np.array(words, np.int64).reshape(-1))
        self._length += len(self._pieces[-1])
        return offset

    def add_part(self, part: PlanPart) -> int:
        """Adds the words of a part. Returns their offset."""
        offset = self.offsets[part] = self.add(part.plan_words(self))
        return offset

    def add_head(self, words: list[int], state_at: int, arena: int, rows: int, reads: Sequence[int] | None) -> None:
        """Writes the first words of an operator with state (see ``crown.programs.kernels.blocks``). ``reads``: None if
        its stage counts its work itself."""
        words[STATE], words[ARENA], words[STAGE_BLOCK] = state_at, arena, rows
        words[READ_COUNT] = -1
        if reads is not None:
            words[READ_COUNT], words[READS_AT] = len(reads), self.add(reads)

    def add_bytes(self, data: bytes) -> int:
        """Adds bytes to those of texts. Returns the position of the first."""
        offset = len(self._bytes)
        self._bytes += data
        return offset

    def add_texts(self, texts: Sequence[bytes | Expr]) -> int:
        """Adds texts, whose codes each call looks up, and lookups, whose tables each call reads.

        Returns the text number of the first.
        """
        first = self.text_count
        for text in texts:
            if isinstance(text, Expr):
                self.lookups[self.text_count] = text
                self._texts += [0, -1]
            else:
                self._texts += [self.add_bytes(text), len(text)]
        return first

    @property
    def text_count(self) -> int:
        """Returns the number of texts and lookups."""
        return len(self._texts) // 2

    def build(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns all words, int64[n], and the bytes of texts."""
        self.words[kernels.P_TEXT_COUNT] = self.text_count
        self.words[kernels.P_TEXTS_AT] = self.add(self._texts)
        return np.concatenate(self._pieces), np.frombuffer(bytes(self._bytes) or b"\0", np.uint8)
