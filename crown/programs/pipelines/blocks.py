"""Assigns numbers to the blocks of a native call, and reads their tuples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from crown.expressions.kernels.evaluate import CODES, WORDS
from crown.expressions.literals import is_wide
from crown.programs.kernels import pipeline as kernels
from crown.programs.kernels.blocks import B_FORMS, B_TUPLES, B_WEIGHTS, BLOCK_WORDS
from crown.results.columns import Column
from crown.store.dictionary import Dictionary
from crown.store.zset import Zset
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
