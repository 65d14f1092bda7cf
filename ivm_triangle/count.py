"""Counts triangles as a part of a larger query, with set intersection tables in linear space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from crown.bags.counts import CountSpec
from crown.bags.protocol import BagError, column_of_table
from crown.errors import ChangeError
from crown.kernels.memory.arena import H_LIVE
from crown.store.zset import Zset
from ivm_triangle.bag import Shape
from ivm_triangle.errors import TriangleError
from ivm_triangle.kernels.state import layout as at
from ivm_triangle.state import ROW_WORDS
from ivm_triangle.triangle import Triangle

EPSILON = 0.5  # worst-case optimal, and the smallest eps at which the tables are linear


class TriangleCount:
    """The number of triangles, with the products of multiplicities (see `crown.bags.counts.Count`).

    O(√N) amortized per changed tuple; O(N) words. Atoms with equal contents, in the same direction around the triangle,
    are stored once. Source: TODS 2020, Theorem 3, with the tables of `terms.set_intersection`.
    """

    def __init__(self, spec: CountSpec, arena: np.ndarray) -> None:
        self.spec = spec
        shape = Shape(spec)
        if any(len(domain) != 1 for domain in shape.domains):
            raise BagError(f"atoms {[list(atom) for atom in spec.atoms]} share more than one attribute at a corner")
        self._corners = [domain[0] for domain in shape.domains]
        self._words = [[int(half[0]) for half in halves] for halves in shape.positions]
        alike = {
            (filled[:2], *(filled[2 + word] for word in words))
            for filled, words in zip(spec.filled, self._words, strict=True)
        }
        self._copies = 1 if len(alike) == 1 else 3
        edges = "edges" if self._copies == 1 else None
        self._triangle = Triangle(epsilon=EPSILON, strategy="sit", edges=edges, arena=arena)

    @property
    def total(self) -> int:
        """Returns the number of triangles. O(1)."""
        return self._triangle.count()

    def rows(self, changes: Mapping[int, Zset]) -> np.ndarray:
        """Returns changes of atoms as rows (relation, first, second, weight)."""
        parts = [np.empty((0, 4), np.int64)]
        for atom, change in changes.items():
            if atom < self._copies:
                part = np.empty((len(change), 4), np.int64)
                part[:, 0], part[:, 3] = atom, change.weights
                part[:, 1:3] = change.rows[:, self._words[atom]]
                parts.append(part)
        return np.concatenate(parts)

    def apply(self, rows: np.ndarray) -> None:
        """Applies rows. Amortized O(√N) each."""
        try:
            self._triangle.apply_codes(rows)
        except TriangleError as error:
            raise ChangeError(str(error)) from None

    def words(self, rows: int) -> int:
        """Returns how many words ``rows`` rows may take, for two new ends each, including table growth."""
        return ROW_WORDS * rows

    def values(self, attribute: str) -> np.ndarray:
        """Returns the codes of an attribute in the rows of its atoms."""
        domains = range(3) if self._copies == 1 else [self._corners.index(attribute)]
        return np.concatenate([column_of_table(self._triangle._state.words, d, 0) for d in domains])

    def check_invariants(self) -> None:
        """Checks the state against its definition. Slow."""
        self._triangle.check_invariants()

    def stats(self) -> dict[str, Any]:
        """Returns sizes and counters. O(1)."""
        word = self._triangle._state.words
        names = {"N": at.C_BASE, "tuples": at.C_SIZE, "operations": at.C_OPS, "major_rebalancings": at.C_MAJORS}
        return {name: int(word[i]) for name, i in names.items()} | {"live_bytes": 8 * int(word[H_LIVE])}
