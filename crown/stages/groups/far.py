"""The far parts of the sums of groups (see ``crown.kernels.numbers.fixed``).

In the state of a group, a term of doubles has a word after its limbs: the handle of its far part in the stage's arena,
or 0. A batch uses dense group numbers, per term, and stores only the far parts that it changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from crown.kernels.memory.arena import H_FAR
from crown.stages.groups.terms import Layout
from crown.stages.kernels.groups import far, sums
from crown.stages.protocol import Part
from plans.payloads.sums import Term


@dataclass(eq=False)
class FarSums:
    """The far parts of one term. That of group ``i`` is row ``of[i]`` of ``numbers``, int64[m, limbs]; -1 for none."""

    of: np.ndarray
    numbers: np.ndarray

    @classmethod
    def none(cls, groups: int, limbs: int) -> FarSums:
        """Returns an object for groups without far parts."""
        return cls(np.full(groups, -1, np.int64), np.empty((0, limbs), np.int64))

    def rows(self, groups: np.ndarray) -> np.ndarray:
        """Returns the rows of ``numbers`` of some groups. A group without a far part gets a zero. O(groups)."""
        new = np.unique(groups[self.of[groups] < 0])
        if len(new):
            self.of[new] = np.arange(len(self.numbers), len(self.numbers) + len(new))
            zeros = np.zeros((len(new), self.numbers.shape[1]), np.int64)
            self.numbers = np.concatenate([self.numbers, zeros])
        return self.of[groups]

    def groups(self) -> np.ndarray:
        """Returns the groups with a far part, ascending."""
        return (self.of >= 0).nonzero()[0]

    def add(self, groups: np.ndarray, weights: np.ndarray, values: np.ndarray) -> None:
        """Adds values (int64[n, any]) times weights to the far parts of groups. O(n)."""
        where, limbs = self.rows(groups), self.numbers.shape[1]
        scratch, values = np.empty(limbs, np.int64), np.ascontiguousarray(values)
        sums.accumulate(where, weights, values, values.shape[1], scratch, self.numbers, limbs, 0, limbs)

    def dense(self, groups: np.ndarray) -> np.ndarray:
        """Returns the far parts of groups, int64[groups, limbs], with zeros for groups without one."""
        of = self.of[groups]
        found = np.zeros((len(groups), self.numbers.shape[1]), np.int64)
        found[of >= 0] = self.numbers[of[of >= 0]]
        return found

    def plus(self, other: FarSums) -> FarSums:
        """Returns the sums of the far parts of the same groups, without zero sums."""
        made = FarSums(self.of.copy(), self.numbers.copy())
        groups = other.groups()
        made.add(groups, np.ones(len(groups), np.int64), other.numbers[other.of[groups]])
        zero = np.empty(len(made.numbers), np.bool_)
        far.zeros(made.numbers, made.numbers.shape[1], zero)
        there = made.groups()
        made.of[there[zero[made.of[there]]]] = -1
        return made

    def followed_by(self, other: FarSums) -> FarSums:
        """Returns the far parts of the groups of both, concatenated."""
        shifted = np.where(other.of >= 0, other.of + len(self.numbers), -1)
        return FarSums(np.concatenate([self.of, shifted]), np.concatenate([self.numbers, other.numbers]))


@dataclass(eq=False)
class Far:
    """The far parts of all terms of a ``layout`` in ``groups`` groups. ``sums`` has only the terms with some far
    part."""

    layout: Layout
    groups: int
    sums: dict[Term, FarSums] = field(default_factory=dict)

    def of(self, term: Term) -> FarSums:
        """Returns the far parts of a term, to add to."""
        if term not in self.sums:
            self.sums[term] = FarSums.none(self.groups, self.layout.far_limbs(term))
        return self.sums[term]

    def plus(self, other: Far) -> Far:
        """Returns the sums of the far parts of the same groups."""
        made = dict(self.sums)
        for term, more in other.sums.items():
            made[term] = self.sums[term].plus(more) if term in self.sums else more
        return Far(self.layout, self.groups, made)

    def followed_by(self, other: Far) -> Far:
        """Returns the far parts of the groups of both, concatenated."""
        made = Far(self.layout, self.groups + other.groups)
        for term in dict.fromkeys([*self.sums, *other.sums]):
            limbs = self.layout.far_limbs(term)
            first = self.sums.get(term) or FarSums.none(self.groups, limbs)
            made.sums[term] = first.followed_by(other.sums.get(term) or FarSums.none(other.groups, limbs))
        return made

    def having(self, terms: Sequence[Term]) -> np.ndarray:
        """Returns the groups with a far part of one of these terms, ascending."""
        some = np.zeros(self.groups, np.bool_)
        for term in terms:
            if term in self.sums:
                some |= self.sums[term].of >= 0
        return some.nonzero()[0]


class FarParts:
    """The far parts that a stage stores in its part. ``words``: for each term that can have a far part, the word with
    its handle."""

    def __init__(self, layout: Layout, part: Part) -> None:
        self._layout = layout
        self._part = part
        self.words = {term: layout.far_word(term) for term in layout.terms if layout.doubles[term]}

    def loaded(self, rows: np.ndarray) -> Far:
        """Returns the far parts of groups with the states ``rows``. O(1) if the stage has none, else O(groups)."""
        found = Far(self._layout, len(rows))
        if self.words and self._part.arena[H_FAR]:
            for term, word in self.words.items():
                groups = rows[:, word].nonzero()[0]
                if len(groups):
                    limbs = self._layout.far_limbs(term)
                    numbers = np.empty((len(groups), limbs), np.int64)
                    far.load(self._part.arena, rows[groups, word], limbs, numbers)
                    of = np.full(len(rows), -1, np.int64)
                    of[groups] = np.arange(len(groups))
                    found.sums[term] = FarSums(of, numbers)
        return found

    def stored(self, rows: np.ndarray, changed: Far, after: Far) -> np.ndarray:
        """Stores the far parts that ``changed`` lists, with their values from ``after``. Writes their handles to
        ``rows``, the groups' states.

        Returns the handles of the previous far parts. Free them when no error can stop the batch any more. If this
        raises MemoryBudgetError, only ``rows`` has changed.
        """
        before: list[np.ndarray] = []
        made: list[np.ndarray] = []
        try:
            for term, sums_ in changed.sums.items():
                groups, word = sums_.groups(), self.words[term]
                before.append(rows[groups, word])
                made.append(np.zeros(len(groups), np.int64))
                self._store(after.sums[term].dense(groups), made[-1])
                rows[groups, word] = made[-1]
        except BaseException:
            self.free(np.concatenate(made))
            raise
        return np.concatenate([np.empty(0, np.int64), *before])

    def _store(self, numbers: np.ndarray, handles: np.ndarray) -> None:
        done = np.zeros(1, np.int64)
        self._part.run_until_done(lambda: bool(far.store(self._part.arena, numbers, numbers.shape[1], handles, done)))

    def free(self, handles: np.ndarray) -> None:
        """Frees far parts."""
        far.free(self._part.arena, handles)
