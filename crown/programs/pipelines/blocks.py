"""The blocks of tuples of a program whose batch is one native call, as they are made one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from crown.expressions.kernels.evaluate import CODES, WORDS
from crown.expressions.program import is_wide
from crown.programs.kernels import pipeline as kernels
from crown.programs.kernels import sources as of
from crown.results.columns import Column, Fed
from crown.store.dictionary import Dictionary
from crown.store.zset import Zset
from plans.schema import Column as Declared


@dataclass(frozen=True)
class Block:
    """Block number ``number``. ``root``: the number of the relation, or of the stage with memory, out of whose rows it
    is made; ``wide``: its columns of two words; ``weighs``: the words that a tuple weighs."""

    number: int
    root: int
    wide: frozenset[int] = frozenset()
    weighs: int = 1

    def net(
        self, columns: Sequence[Declared], memory: np.ndarray, words: Sequence[int], dictionary: Dictionary
    ) -> Zset:
        """Returns its tuples, in codes, after a run."""
        at = kernels.R_SOURCE0 + of.READ * self.number
        n, forms, first = words[at + of.R_EVENTS], words[at + of.R_FORMS], words[at + of.R_WEIGHTS]
        found = np.empty((len(columns), n), np.int64)
        for j, column in enumerate(columns):
            start = int(memory[forms + 2 * j + 1])
            if j in self.wide:
                pairs = memory[start : start + 2 * n].copy()
                found[j] = Column.of_words(column.type, dictionary, pairs).codes
            else:
                found[j] = memory[start : start + n]
        weights = memory[first : first + self.weighs * n].reshape(self.weighs, n).copy()
        return Zset.of_columns(found, weights[0], weights if self.weighs > 1 else None)


@dataclass
class Blocks:
    """All blocks. ``of``: those of relations and stages. ``roots``: how many of them are roots."""

    of: dict[str | int, Block] = field(default_factory=dict)
    count: int = 0
    roots: int = 0

    def root(self, weighs: int = 1) -> Block:
        """Adds a block that is made of no other."""
        self.count, self.roots = self.count + 1, self.roots + 1
        return Block(self.count - 1, self.roots - 1, weighs=weighs)

    def made_of(self, block: Block, fed: Fed | None = None) -> Block:
        """Adds a block that a feed, or a net, makes of another."""
        wide = block.wide
        if fed is not None:
            wide = fed.wide | {i for i, place in enumerate(fed.columns) if place in block.wide}
        self.count += 1
        return Block(self.count - 1, block.root, wide, block.weighs)


def forms_of_types(types: Sequence[str]) -> list[int]:
    """Returns the forms of stored columns of these types (see ``crown.expressions.kernels.evaluate``)."""
    return [CODES if is_wide(type_) else WORDS for type_ in types]
