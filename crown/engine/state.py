"""The state of a join core: an arena for the tree, and one per bag.

All state is plain words, so creating, attaching and copying a state are operations on words.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from crown.bags.protocol import Bag, BagSpec, open_bag
from crown.engine.compile import compile_plan
from crown.engine.kernels import state
from crown.engine.kernels.padding import batches as padding_batches
from crown.engine.kernels.warm import ensure_view_compiled
from crown.guards.uncopyable import NotCopyable
from crown.kernels.memory import arena as A
from crown.kernels.memory.geometry import groups_table, rows_table, table_total
from crown.kernels.memory.tables import table_at
from crown.kernels.numbers.limbs import MOST
from crown.store.budget import Budget
from crown.store.codec import uses_dictionary
from crown.store.dictionary import Dictionary
from crown.store.memory import numbers
from crown.store.zset import Zset
from plans.plan import Plan


class State(NotCopyable, instead="save(path) and crown.load(path) make another one"):
    """The state of one join core: arenas, compiled plan, bags, header.

    ``parts``: the memory, an arena for the core and one per bag. Each is new (zero) or holds a state of the plan.
    ``dictionary`` and ``budget`` are shared with the other stages of a program. ``first``: the number of the first part
    in the budget.
    """

    def __init__(
        self, plan: Plan, parts: Sequence[np.ndarray], dictionary: Dictionary, budget: Budget, first: int
    ) -> None:
        ensure_view_compiled(plan.payload is not None, any(node.padded for node in plan.nodes))
        self.plan = plan
        self.compiled = compile_plan(plan)
        n = len(plan.nodes)
        bags = [i for i, node in enumerate(plan.nodes) if node.bag is not None]
        self.parts = parts
        self.arena = self.parts[0]
        self.header = numbers(self.arena[: A.header_words(table_total(n))])
        self.halves = self.arena.view(np.int32)
        self.plan_array = self.compiled.array
        self.budget = budget
        self.first = first
        self.dictionary = dictionary
        limits = [_reserved(part) for part in self.parts]
        self.bags = {
            i: open_bag(node.bag.method, BagSpec.of(node.bag, plan.listed and plan.payload is not None), part)
            for (i, node), part in zip(((i, plan.nodes[i]) for i in bags), self.parts[1:], strict=True)
            if node.bag is not None
        }
        self.listed = ListedBag.of(plan, self.bags[0]) if plan.listed else None
        for number, (part, reserved) in enumerate(zip(self.parts, limits, strict=True), first):
            part[A.H_LIMIT] = budget.reach(number, reserved)

    def format(self, words: int, seed: int | None = None) -> None:
        """Writes an empty state into a new arena.

        ``words``: its budget. ``seed``: the seed of the hash tables, random by default, so that no input can be
        constructed to collide.
        """
        chosen = secrets.randbits(62) if seed is None else seed
        known = int(self.arena[A.H_LIMIT])
        state.create(self.arena, self.halves, self.plan_array, self.compiled.tables, known, words, chosen)
        if any(node.padded for node in self.plan.nodes):
            padding_batches.make_paddings(self.arena, self.halves, self.plan_array)

    @property
    def epoch(self) -> int:
        """Returns a number that increases with every change of the state."""
        return self.header[A.H_EPOCH]

    def mark_values(self) -> None:
        """Marks every value in the dictionary that this state references. O(state)."""
        dictionary, attributes = self.dictionary, self.plan.attributes
        for i, words in enumerate(self.compiled.words):  # the first alias of a relation has its table
            for a, word in words.items():
                if uses_dictionary(attributes[a].type):
                    dictionary.mark_column(self.arena, table_at(rows_table(i)), word)
        for i in self.compiled.summed:  # it has keys, but no rows
            for place, a in enumerate(self.plan.nodes[i].key):
                if uses_dictionary(attributes[a].type):
                    table = groups_table(len(self.plan.nodes), self.compiled.index[i])
                    dictionary.mark_column(self.arena, table_at(table), place)
        for bag in self.bags.values():
            for a in bag.spec.attributes:
                if uses_dictionary(attributes[a].type):
                    dictionary.mark_codes(bag.values(a))


@dataclass(frozen=True)
class ListedBag:
    """A bag whose relation is the result (see ``plans.plan.Plan.listed``). Column ``order[i]`` of its rows has free
    attribute i. If results have weights, the column of the weights follows in a buffer."""

    bag: Bag
    order: tuple[int, ...]

    @staticmethod
    def of(plan: Plan, bag: Bag) -> ListedBag:
        """Returns the bag of a plan whose result it is."""
        return ListedBag(bag, tuple(bag.spec.outputs.index(name) for name in plan.free))

    def multiplicity(self, row: Mapping[str, int]) -> int:
        """Returns how often a row, given by the codes of its attributes, is in the result. Expected O(atoms)."""
        rows = [np.array([[row[a] for a in atom]], np.int64) for atom in self.bag.spec.atoms]
        once = np.ones(1, np.int64)
        copies = prod(int(self.bag.copies(i, Zset(given, once))[0]) for i, given in enumerate(rows))
        return copies if self.bag.spec.weighted else int(copies > 0)

    def saturated(self, block: Zset) -> bool:
        """Returns True if a row of a block occurs more often than 63 bits count."""
        return self.bag.spec.weighted and bool((np.abs(block.weights) == MOST).any())

    def copy(self, block: Zset, taken: int, out: np.ndarray) -> int:
        """Copies rows of a block of the bag, from number ``taken`` on, into a buffer, int64[columns, capacity]. Returns
        their number: all that have room."""
        n = min(len(block) - taken, out.shape[1])
        for column, at in enumerate(self.order):
            out[column, :n] = block.rows[taken : taken + n, at]
        if self.bag.spec.weighted:
            out[len(self.order), :n] = block.weights[taken : taken + n]
        return n


def _reserved(part: np.ndarray) -> int:
    """Returns the reserved words of a part, as its header says. A header of an older version says the whole length."""
    limit = int(part[A.H_LIMIT])
    return limit if limit < len(part) else int(part[A.H_TOP])
