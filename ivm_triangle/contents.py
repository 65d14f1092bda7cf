"""The contents of a state as dictionaries (relations, heavy and light parts, views), and their invariants.

Flags belong to values, not to tuples: a new tuple of a heavy value is heavy from the start. Source: TODS article,
sections 4 and 10. Every view is computed from the parts by its definition, and compared. Deliberately slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ivm_triangle.terms import COUNT, DOMAINS, LIST, PAIRS, SET, SUM, TOTAL, Program, Thresholds, View

Triple = tuple[int, int, int]


class IndexedSet:
    """A set with O(1) add, remove, membership test, and successor of a given element."""

    def __init__(self) -> None:
        self.items: list = []
        self.at: dict = {}

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator:
        return iter(self.items)

    def __contains__(self, x: object) -> bool:
        return x in self.at

    def add(self, x: object) -> None:
        """Appends `x`, which MUST be absent."""
        self.at[x] = len(self.items)
        self.items.append(x)

    def remove(self, x: object) -> None:
        """Removes `x`, which MUST be present. The last element takes its place."""
        i = self.at.pop(x)
        last = self.items.pop()
        if last != x:
            self.items[i] = last
            self.at[last] = i

    def after(self, x: object | None) -> object | None:
        """Returns the successor of `x` (the first element for None), or None at the end."""
        i = 0 if x is None else self.at[x] + 1
        return self.items[i] if i < len(self.items) else None


class Node:
    """A value in one column of one relation: its flag, and its tuples grouped by the flag of their other end."""

    def __init__(self, heavy: bool) -> None:
        self.heavy = heavy
        self.by = {True: IndexedSet(), False: IndexedSet()}

    @property
    def degree(self) -> int:
        """Returns the number of tuples of the whole relation with the value."""
        return len(self.by[True]) + len(self.by[False])


def part(first_heavy: bool, second_heavy: bool) -> int:
    """Returns the bit of the part with these letters: HH 1, HL 2, LH 4, LL 8."""
    return 1 << (2 * (not first_heavy) + (not second_heavy))


class Contents:
    """R, S, T with multiplicities, the flag of every value in every column, and the views of a program. `ops` counts
    probes."""

    def __init__(self, plan: Program, eps: tuple[float, float, float]) -> None:
        self.plan, self.eps = plan, eps
        self.rows: list[dict[tuple[int, int], int]] = [{}, {}, {}]
        self.nodes: list[tuple[dict[int, Node], dict[int, Node]]] = [({}, {}), ({}, {}), ({}, {})]
        self.views: list[dict] = [{} for _ in plan.views]
        self.base, self.size = 1, 0
        self.shifts = [0, 0, 0]
        self.ops = 0
        self._rebase()

    def _limits(self) -> list[Thresholds]:
        return [Thresholds.of(self.base, eps, shift) for eps, shift in zip(self.eps, self.shifts, strict=True)]

    def _rebase(self) -> None:
        self.thresholds = self._limits()

    def heavy(self, k: int, column: int, value: int) -> bool:
        """Returns the flag of a value. Values without rows are light, except at eps = 0, where all are heavy."""
        node = self.nodes[k][column].get(value)
        return node.heavy if node else self._born_heavy(k, column)

    def _born_heavy(self, k: int, column: int) -> bool:
        return self.plan.partitioned[2 * k + column] and self.eps[k] == 0.0

    def part(self, k: int, x: int, y: int) -> int:
        """Returns the part of the tuple (x, y) of relation k, which depends only on the flags of its values."""
        return part(self.heavy(k, 0, x), self.heavy(k, 1, y))

    def scan(self, k: int, column: int, value: int, mask: int) -> list[IndexedSet]:
        """Returns the lists of sigma_{column = value} of the parts in `mask`, as sets of opposite values."""
        node = self.nodes[k][column].get(value)
        if node is None:
            return []
        letters = [(h, part(node.heavy, h) if column == 0 else part(h, node.heavy)) for h in (True, False)]
        return [node.by[h] for h, bit in letters if mask & bit and len(node.by[h])]

    def probe(self, k: int, x: int, y: int, mask: int) -> int:
        """Returns the multiplicity of (x, y) in the parts `mask` of relation k; 0 if it is absent."""
        self.ops += 1
        m = self.rows[k].get((x, y), 0)
        return m if m and mask & self.part(k, x, y) else 0

    def _tuples(self, k: int, column: int, value: int) -> list[tuple[int, int]]:
        node = self.nodes[k][column][value]
        return [(value, o) if column == 0 else (o, value) for h in (True, False) for o in node.by[h]]

    def check_partition(self) -> None:
        """Checks the size invariant, and that the partition is loose with respect to N. Raises AssertionError."""
        assert self.base // 4 <= self.size < self.base, "size invariant"
        assert self.thresholds == self._limits(), "thresholds follow N"
        for k, column in product(range(3), range(2)):
            values = {xy[column] for xy in self.rows[k]}
            assert values == set(self.nodes[k][column]), "a value has a node if and only if it has tuples"
            limits = self.thresholds[k]
            for value, node in self.nodes[k][column].items():
                tuples = set(self._tuples(k, column, value))
                assert tuples == {xy for xy in self.rows[k] if xy[column] == value}, "parts partition the relation"
                for h in (True, False):
                    assert all(self.heavy(k, 1 - column, o) == h for o in node.by[h]), "lists follow the flags"
                if not self.plan.partitioned[2 * k + column]:
                    assert not node.heavy
                elif self.eps[k] == 0.0:
                    assert node.heavy
                else:
                    assert node.degree >= limits.lo if node.heavy else node.degree < limits.hi, "loose partition"
            heavy = sum(node.heavy for node in self.nodes[k][column].values())
            assert self.eps[k] == 0.0 or heavy <= 2 * self.base / limits.theta, "few heavy values"

    @staticmethod
    def _abc(k: int, xyz: Triple) -> Triple:
        return (xyz[-k % 3], xyz[(1 - k) % 3], xyz[(2 - k) % 3])

    def define(self, view: View) -> dict:
        """Returns the view, computed from the parts by its definition."""
        entries: dict = {}
        for abc, weight in self._join(view.masks):
            named = dict(zip(DOMAINS, abc, strict=True))
            key = tuple(named[v] for v in view.key)
            if view.kind in (TOTAL, SUM):
                entries[key] = entries.get(key, 0) + weight
            elif view.kind == SET:
                entries[key] = 1
            elif view.kind in (COUNT, PAIRS):
                entries[key] = entries.get(key, 0) + 1
            elif view.kind == LIST:
                (missing,) = set(DOMAINS) - set(view.key)
                entries.setdefault(key, set()).add(named[missing])
            else:
                entries.setdefault(named[view.bucket] if view.bucket else None, set()).add(key)
        return entries

    def _join(self, masks: tuple[int | None, ...]) -> Iterator[tuple[tuple, int]]:
        k0 = next(k for k in range(3) if masks[k] is not None and masks[(k + 1) % 3] is not None)
        k1, k2 = (k0 + 1) % 3, (k0 + 2) % 3
        for (x, y), m0 in self.rows[k0].items():
            if not (masks[k0] or 0) & self.part(k0, x, y):
                continue
            for z in [z for zs in self.scan(k1, 0, y, masks[k1] or 0) for z in zs]:
                m2 = 1
                if masks[k2] is not None:
                    m2 = self.rows[k2].get((z, x), 0)
                    if not m2 or not (masks[k2] or 0) & self.part(k2, z, x):
                        continue
                yield self._abc(k0, (x, y, z)), m0 * self.rows[k1][y, z] * m2

    def check_invariants(self) -> None:
        """Checks size, partition, flags, and that every view equals its definition. Raises AssertionError. O(N^1.5) and
        more."""
        assert self.size == sum(map(len, self.rows))
        self.check_partition()
        self.check_views()

    def check_views(self) -> None:
        """Checks that every view equals its definition. Raises AssertionError."""
        for view, entries in zip(self.plan.views, self.views, strict=True):
            have = {key: set(e) if isinstance(e, IndexedSet) else e for key, e in entries.items()}
            want = self.define(view)
            assert have == want, f"{view.name}: {have} is not {want}"
