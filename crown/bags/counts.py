"""The protocol of counts: the number of results of a cyclic part of a query, without the results.

If a query shows nothing of a cyclic part but how often its rows match, a bag would store all results only to count
them. A module that stores only the number registers under the entry-point group ``crown.counts``, with the name of the
method that the planner chooses.

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
    """The shape of a count: a bag without outputs. ``filled[i]`` identifies the contents of atom i.

    The contents are a relation, a predicate, and the column of each attribute. Atoms with equal contents hold the same
    rows.
    """

    filled: tuple[tuple[str, ...], ...] = ()

    @staticmethod
    def of_bag(bag: Bag) -> CountSpec:
        """Makes the specification from the planner's description."""
        filled = tuple(
            (atom.relation.lower(), str(atom.predicate), *(column.lower() for column in atom.columns))
            for atom in bag.atoms
        )
        return CountSpec(tuple(atom.attributes for atom in bag.atoms), (), filled=filled)


class Count(Protocol):
    """A maintained count. All its state is one int64 array; values are int64 codes."""

    spec: CountSpec

    @property
    def total(self) -> int:
        """Returns the number of results. O(1)."""
        ...

    def rows(self, changes: Mapping[int, Zset]) -> np.ndarray:
        """Returns changes of atoms, by atom number, as rows for ``apply``: int64[n, 4], the weight last.

        The columns of a change are the atom's attributes. Atoms that are stored as one have no separate rows.
        """
        ...

    def apply(self, rows: np.ndarray) -> None:
        """Applies rows in which the weights of equal rows are summed. Deleted rows MUST be present.

        Raises ChangeError, with nothing applied, if the number could leave 64 bits. After any other exception the state
        is unusable.
        """
        ...

    def words(self, rows: int) -> int:
        """Returns how many words ``rows`` rows may take."""
        ...

    def values(self, attribute: str) -> np.ndarray:
        """Returns the codes of an attribute in present rows, int64[m], possibly repeated. O(state)."""
        ...

    def check_invariants(self) -> None:
        """Raises AssertionError if the state violates its definition. Slow."""
        ...

    def stats(self) -> dict[str, Any]:
        """Returns sizes and counters. O(1)."""
        ...


def open_count(method: str, spec: CountSpec, arena: np.ndarray) -> Count:
    """Returns a count over ``arena`` (int64): a new one if it is zero, else the one stored in it.

    Raises BagError if no module is installed for the method or it cannot maintain a count of this shape.
    """
    for entry in entry_points(group=GROUP):
        if entry.name == method:
            made: Count = entry.load()(spec, arena)
            return made
    raise BagError(f"no module for {method!r} is installed: install this package again, with all its parts")
