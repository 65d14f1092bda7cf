"""Counts: how many results a cyclic part of a query has, of which none is kept.

Where a query shows nothing of a cyclic part but how often its rows meet, a bag would keep all of them for the sake of
their number. A module that keeps the number alone offers itself under the entry-point group ``crown.counts``, by the
name of the method that the planner chose.

Law: ``total`` is the sum, over the results of the atoms' present rows, of the products of their multiplicities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from crown.bags.protocol import BagError, BagSpec, entry_points
from crown.store.zset import Zset
from plans.plan import Bag

GROUP = "crown.counts"


@dataclass(frozen=True)
class CountSpec(BagSpec):
    """What a count joins: a bag without outputs; ``filled[i]`` says what atom i is filled with.

    That is the relation, the predicate, and the column of each attribute: atoms that are filled alike hold the same
    rows.
    """

    filled: tuple[tuple[str, ...], ...] = ()

    @staticmethod
    def of_bag(bag: Bag) -> CountSpec:
        """Makes the count of the planner's description."""
        filled = tuple(
            (atom.relation.lower(), str(atom.predicate), *(column.lower() for column in atom.columns))
            for atom in bag.atoms
        )
        return CountSpec(tuple(atom.attributes for atom in bag.atoms), (), filled)


class Count(Protocol):
    """A maintained count. All its state is one int64 array; values are int64 codes."""

    spec: CountSpec

    @property
    def total(self) -> int:
        """Returns the number of results. O(1)."""
        ...

    def rows(self, changes: Mapping[int, Zset]) -> np.ndarray:
        """Returns the changes of atoms, by their number, as rows for ``apply``: int64[n, 4], the weight last.

        Columns of a change are the atom's attributes. Atoms that are kept as one have no rows of their own.
        """
        ...

    def apply(self, rows: np.ndarray) -> None:
        """Applies rows, with the weights of equal ones summed. What goes MUST be there.

        Raises ChangeError, and has applied nothing, if the number could leave 64 bits. Any other exception leaves a
        state that cannot be used.
        """
        ...

    def words(self, rows: int) -> int:
        """Returns how many words so many rows may take."""
        ...

    def values(self, attribute: str) -> np.ndarray:
        """Returns the codes of an attribute that present rows hold, int64[m], maybe with repetitions. O(state)."""
        ...

    def check_invariants(self) -> None:
        """Raises AssertionError if the state is not as its definition says. Slow."""
        ...

    def stats(self) -> dict[str, Any]:
        """Returns sizes and counters. O(1)."""
        ...


def open_count(method: str, spec: CountSpec, arena: np.ndarray) -> Count:
    """Returns a count over ``arena`` (int64): a new one if it is zero, else the one that it begins with.

    Raises BagError if no module is installed for the method or it cannot take this shape.
    """
    for entry in entry_points(group=GROUP):
        if entry.name == method:
            made: Count = entry.load()(spec, arena)
            return made
    raise BagError(f"no module for {method!r} is installed: install this package anew, with all its parts")
