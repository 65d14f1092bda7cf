"""The protocol of bags: cyclic parts of a query, each maintained as one relation by a separate module.

A bag joins its atoms and maintains the set of results, projected on its output attributes. It receives changes of one
atom at a time and returns the exact change of that set. For the tree above, the bag is an input relation. A module
registers under the entry-point group ``crown.bags``, with the name of the method that the planner chooses.

Law: the sum of all blocks ever yielded is the set of results of the atoms' present rows, or, if results have weights,
the bag of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from crown.errors import CrownError
from crown.kernels.memory.arena import T_CAPACITY, T_SLOTS
from crown.kernels.memory.tables import LOW32, table_at
from crown.store.zset import Zset

GROUP = "crown.bags"
BLOCK_ROWS = 8192


class BagError(CrownError):
    """No module is installed for a bag's method, or the module cannot maintain a bag of this shape."""


class BagBudgetError(CrownError):
    """A bag has no memory left for its next row. ``applied`` rows of the call were applied, in full."""

    def __init__(self, applied: int) -> None:
        self.applied = applied
        super().__init__(f"the bag's memory is used up; {applied} rows of the change were applied")


@dataclass(frozen=True)
class BagSpec:
    """The shape of a bag: the attributes of each atom (each once), and its output attributes in order. ``filtered``:
    the numbers of the atoms with a predicate, which have fewer rows. ``weighted``: the weight of a result is the
    product of the copies of its rows, and every attribute is an output; else it is 1."""

    atoms: tuple[tuple[str, ...], ...]
    outputs: tuple[str, ...]
    filtered: frozenset[int] = frozenset()
    weighted: bool = False

    @staticmethod
    def of(bag: Any, weighted: bool = False) -> BagSpec:
        """Makes the specification from the planner's description (`plans.plan.Bag`)."""
        filtered = frozenset(i for i, atom in enumerate(bag.atoms) if atom.predicate is not None)
        return BagSpec(tuple(tuple(atom.attributes) for atom in bag.atoms), tuple(bag.outputs), filtered, weighted)

    @property
    def attributes(self) -> tuple[str, ...]:
        """Returns all attributes, in order of first appearance."""
        return tuple(dict.fromkeys(a for atom in self.atoms for a in atom))


class Bag(Protocol):
    """A maintained bag. All its state is one int64 array, ``words``; values are int64 codes.

    ``repeats``: results have weights, and the last `apply` changed only some copies of a row. A result may then change
    several times in a batch. Otherwise it does so once, with all its copies.
    """

    spec: BagSpec
    repeats: bool

    def apply(self, atom: int, change: Zset, missing: np.ndarray | None = None, quiet: bool = False) -> Iterator[Zset]:
        """Applies a change of one atom, tuple by tuple. Yields the change of the set of results.

        ``quiet``: yields nothing if every attribute is an output. The bag need not search for the results then.

        ``change``: tuples in the atom's attribute order, weighted by the number of changed copies. Unless results
        have weights, only the first copy of a tuple and the last one change the join. A delete removes at most the
        present copies; ``missing[i]`` (int64[n], zeroed) receives how many copies of tuple i were absent. A yielded
        block has the bag's outputs as columns and weights of one sign, +1 or -1 unless results have weights; a weight
        that would leave 63 bits is that of `bounded_product`. A block is valid until the next step. The iterator MUST
        be drained: the state is complete only then. Within a batch, pass all deletions of all atoms before the
        insertions; then, if every attribute is an output, no result has both signs, unless results have weights.

        Raises BagBudgetError before the first insertion that finds more live words than the arena's ``H_BUDGET``
        allows. The weights of ``change`` MUST have one sign for its ``applied`` to be meaningful. After any other
        exception the state is unusable.
        """
        ...

    def __len__(self) -> int:
        """Returns the number of present rows of all atoms, without copies. O(atoms)."""
        ...

    def values(self, attribute: str) -> np.ndarray:
        """Returns the codes of an attribute in present rows, int64[m], possibly repeated. O(state)."""
        ...

    def rows(self, atom: int) -> Zset:
        """Returns the present rows of an atom in its attribute order, each once, weighted by their copies. O(rows)."""
        ...

    def copies(self, atom: int, rows: Zset) -> np.ndarray:
        """Returns how many copies of each row of a Z-set in the atom's attribute order are present: int64[n]. O(n)
        expected."""
        ...

    def results(self) -> Iterator[Zset]:
        """Yields the present results with their weights, in blocks, each row once. A block is valid until the next
        step. An ``apply`` invalidates the iterator."""
        ...

    @property
    def words(self) -> np.ndarray:
        """Returns the used prefix of the arena. A copy of it is a snapshot, see ``open_bag``."""
        ...

    @property
    def bound(self) -> str:
        """Returns the cost of an update, for EXPLAIN."""
        ...

    def check_invariants(self) -> None:
        """Raises AssertionError if the state violates its definition. Slow."""
        ...

    def stats(self) -> dict[str, Any]:
        """Returns sizes and counters."""
        ...


def handles_of_table(arena: np.ndarray, table: int) -> np.ndarray:
    """Returns the handles of all records of hash table number ``table``: int64[records]. O(table)."""
    t = int(table_at(table))
    slots = arena[int(arena[t + T_SLOTS]) :][: int(arena[t + T_CAPACITY])]
    handles: np.ndarray = slots[slots != 0] & LOW32
    return handles


def column_of_table(arena: np.ndarray, table: int, word: int) -> np.ndarray:
    """Returns word ``word`` of every record of hash table number ``table``: int64[records]. O(table)."""
    column: np.ndarray = arena[handles_of_table(arena, table) + word]
    return column


def entry_points(group: str) -> Iterable[Any]:
    """Returns the entry points of a group."""
    from importlib import metadata  # imported here, since few queries have bags

    return metadata.entry_points(group=group)


def installed() -> dict[str, str]:
    """Returns the installed methods and their modules."""
    return {entry.name: entry.value for entry in entry_points(group=GROUP)}


def open_bag(method: str, spec: BagSpec, arena: np.ndarray) -> Bag:
    """Returns a bag over ``arena`` (int64): a new one if it is zero, else the one whose ``words`` are its prefix.

    Raises BagError if no module is installed for the method or it cannot maintain a bag of this shape.
    """
    for entry in entry_points(group=GROUP):
        if entry.name == method:
            return entry.load()(spec, arena)
    raise BagError(
        f"no module for bags of method {method!r} is installed (there are {sorted(installed())}); "
        "install the package that provides it, or plan the query with method 'generic'"
    )
