"""The readable twin of the kernels: IVM^eps over Python dictionaries, every rule and every bound spelled out.

Source: TODS article, sections 4 to 7, 10 and 12, with the fixes that the tests pin down: flags belong to values, not to
tuples (a new tuple of a heavy value is born heavy), and the partition check looks at degrees in the whole relation.
Slow on purpose; the kernels are compared with it, and it is compared with brute force.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product

from ivm_triangle.contents import Contents, IndexedSet, Node, Triple, part
from ivm_triangle.errors import NegativeMultiplicityError
from ivm_triangle.terms import (
    DOMAINS,
    LIST,
    LOOKUP,
    PAIRS,
    RELATIONS,
    ROOT,
    SET,
    TOTAL,
    UNLESS_HEAVY,
    Program,
    Step,
    View,
    epsilons,
    program,
)

Row = tuple[int, int, int, int]


class Reference(Contents):
    """IVM^eps over the contents of a state: updates, and rebalancing. Costs are counted in `ops`."""

    def __init__(
        self,
        outputs: str = "",
        epsilon: float | dict[str, float] = 0.5,
        partition: str = "single",
        strategy: str = "auto",
        plan: Program | None = None,
        emit: Callable[[Triple, int], None] | None = None,
    ) -> None:
        eps = epsilons(epsilon)
        super().__init__(plan if plan is not None else program(outputs, partition, strategy, min(eps)), eps)
        self.epoch = self.majors = self.minors = self.moved = self.flips = 0
        self.emit = emit

    # -- the rules ---------------------------------------------------------------------------------------------------

    def _apply(self, k: int, bit: int, x: int, y: int, m: int, flip: int, steps: Iterable[Step], real: bool) -> None:
        """Brings the views up to date with (x, y) -> m in the part `bit` of relation k. `flip`: change of presence."""
        for step in steps:
            if step.updated == k and step.mask0 & bit:
                (self._lookup if step.scan == LOOKUP else self._scan)(step, x, y, m, flip, real)

    def _scan(self, step: Step, x: int, y: int, m: int, flip: int, real: bool) -> None:
        k1, k2 = (step.updated + 1) % 3, (step.updated + 2) % 3
        if step.scan == UNLESS_HEAVY and self.heavy(k1, 0, y) and self.heavy(k2, 1, x):
            return
        lists1, lists2 = self.scan(k1, 0, y, step.mask1), self.scan(k2, 1, x, step.mask2)
        length1, length2 = sum(map(len, lists1)), sum(map(len, lists2))
        first = step.scan == 1 or (step.scan in (0, UNLESS_HEAVY) and length1 <= length2)
        self._check_bound(step, k1 if first else k2, length1 if first else length2)
        for z in [z for zs in (lists1 if first else lists2) for z in zs]:
            self.ops += 1
            if step.write >= 0:
                scanned = self.rows[k1][y, z] if first else self.rows[k2][z, x]
                self._add(step.write, (x, y, z), step, m, flip, scanned)
            if step.hit >= 0 and (real or self.plan.views[step.hit].kind != TOTAL):
                m1 = self.rows[k1][y, z] if first else self.probe(k1, y, z, step.mask1)
                m2 = self.probe(k2, z, x, step.mask2) if first else self.rows[k2][z, x]
                if m1 and m2:
                    self._add(step.hit, (x, y, z), step, m, flip, m1 * m2)

    def _lookup(self, step: Step, x: int, y: int, m: int, flip: int, real: bool) -> None:
        """Applies what the pair view of K1 and K2 at (y, x) knows: every z at once."""
        target = self.plan.views[step.hit]
        k1, k2 = (step.updated + 1) % 3, (step.updated + 2) % 3
        self.ops += 1
        entry = self.views[step.write].get((y, x))
        if not entry or (target.kind == TOTAL and not real):
            return
        if target.kind == ROOT:
            if flip:
                self._set_root(step.hit, (y, x), flip > 0)
        elif isinstance(entry, IndexedSet):
            for z in entry:
                self.ops += 1
                self._add(step.hit, (x, y, z), step, m, flip, self.rows[k1][y, z] * self.rows[k2][z, x])
        else:
            self._add_sum(step.hit, self._key(target, step.updated, (x, y, None)), m * entry)

    def _key(self, view: View, k: int, xyz: tuple) -> tuple:
        """Returns values of the view's variables when the updated relation is k: X is domain k, Y the next, Z the
        third."""
        return tuple(xyz[(DOMAINS.index(v) - k) % 3] for v in view.key)

    def _add(self, index: int, xyz: Triple, step: Step, m: int, flip: int, others: int) -> None:
        """Adds one z of a scan: to a sum the product of multiplicities, to a presence view the flip."""
        view = self.plan.views[index]
        key = self._key(view, step.updated, xyz)
        if view.kind == TOTAL and self.emit and flip:
            self.emit(self._abc(step.updated, xyz), flip)
        if view.kind not in (SET, LIST, ROOT, PAIRS):
            self._add_sum(index, key, m * others)
        elif view.kind == PAIRS:
            self._add_sum(index, key, flip)
        elif flip and view.kind == SET:
            self.ops += 1
            if flip > 0:
                self.views[index][key] = 1
            else:
                del self.views[index][key]
        elif flip and view.kind == LIST:
            self.ops += 1
            middle = self._middle(view, step.updated, xyz)
            if flip > 0:
                self.views[index].setdefault(key, IndexedSet()).add(middle)
            else:
                self.views[index][key].remove(middle)
                if not len(self.views[index][key]):
                    del self.views[index][key]
        elif flip:
            self._set_root(index, key, key in self.views[view.of])

    def _middle(self, view: View, k: int, xyz: Triple) -> int:
        """Returns the value of the variable that a pair view leaves out of its key."""
        (missing,) = set(DOMAINS) - set(view.key)
        return xyz[(DOMAINS.index(missing) - k) % 3]

    def _add_sum(self, index: int, key: tuple, value: int) -> None:
        if value:
            self.ops += 1
            total = self.views[index].get(key, 0) + value
            if total:
                self.views[index][key] = total
            else:
                del self.views[index][key]

    def _set_root(self, index: int, key: tuple, present: bool) -> None:
        """Puts the pair `key` into its bucket of a ROOT view, or takes it out."""
        self.ops += 1
        view = self.plan.views[index]
        bucket = key[view.key.index(view.bucket)] if view.bucket else None
        buckets = self.views[index]
        if present and key not in buckets.get(bucket, ()):
            buckets.setdefault(bucket, IndexedSet()).add(key)
        elif not present and key in buckets.get(bucket, ()):
            buckets[bucket].remove(key)
            if not len(buckets[bucket]):
                del buckets[bucket]

    def _check_bound(self, step: Step, k: int, length: int) -> None:
        """Lists are as short as the article proves (one more while tuples are being moved)."""
        light = self.thresholds[k].hi + 1
        many = 2 * self.base / self.thresholds[k].theta + 1
        limit = {"N": self.size + 1, "L": light, "H": many, "M": min(light, many)}[step.bound]
        if self.eps[k] == 0.0:
            limit = self.size + 1
        if length > limit:
            raise AssertionError(f"{step} scanned {length} tuples, bound {limit}")

    # -- updates -----------------------------------------------------------------------------------------------------

    def update(self, k: int, x: int, y: int, m: int) -> bool:
        """Adds `m` to the multiplicity of (x, y) in relation k. Returns False if it would fall below 0."""
        old = self.rows[k].get((x, y), 0)
        if old + m < 0:
            return False
        if m == 0:
            return True
        self.epoch += 1
        flip = (old + m > 0) - (old > 0)
        self._apply(k, self.part(k, x, y), x, y, m, flip, self.plan.steps, True)
        if not flip:
            self.rows[k][x, y] = old + m
            return True
        self.flips += 1
        self._store(k, x, y, m)
        base = after_update(self.base, self.size)
        if base != self.base:
            self.base = base
            self.majors += 1
            self._rebuild(totals=False)
        else:
            self._minor(k, 0, x)
            self._minor(k, 1, y)
        return True

    def apply(self, rows: Iterable[Row]) -> None:
        """Updates in order; raises NegativeMultiplicityError at the first that would go below zero."""
        for k, x, y, m in rows:
            if not self.update(k, x, y, m):
                raise NegativeMultiplicityError(f"{RELATIONS[k]}({x}, {y}) has fewer copies than the {-m} to delete")

    def load(self, rows: Iterable[Row]) -> None:
        """Replaces everything by `rows`: N = 2 |D| + 1, strict partition, all views computed anew. O(N^1.5)."""
        self.rows, self.nodes, self.size = [{}, {}, {}], [({}, {}), ({}, {}), ({}, {})], 0
        for k, x, y, m in rows:
            old = self.rows[k].get((x, y), 0)
            if old:
                self.rows[k][x, y] = old + m
            else:
                self._store(k, x, y, m)
        self.base = 2 * self.size + 1
        self.epoch += 1
        self._rebuild(totals=True)

    def _store(self, k: int, x: int, y: int, m: int) -> None:
        """Lets a tuple appear (m > 0) or go (m < 0): rows, the lists of both ends, |D|."""
        out, into = self.nodes[k]
        for column, value in ((0, x), (1, y)):
            if value not in self.nodes[k][column]:
                self.nodes[k][column][value] = Node(self._born_heavy(k, column))
        self.size += 1 if m > 0 else -1
        if m > 0:
            self.rows[k][x, y] = m
            out[x].by[into[y].heavy].add(y)
            into[y].by[out[x].heavy].add(x)
        else:
            del self.rows[k][x, y]
            out[x].by[into[y].heavy].remove(y)
            into[y].by[out[x].heavy].remove(x)
            for nodes, value in ((out, x), (into, y)):
                if not nodes[value].degree and not nodes[value].heavy:
                    del nodes[value]

    def _flag(self, k: int, column: int, value: int, heavy: bool) -> None:
        node = self.nodes[k][column][value]
        for h in (True, False):
            for opposite in node.by[h]:
                lists = self.nodes[k][1 - column][opposite].by
                lists[node.heavy].remove(value)
                lists[heavy].add(value)
        node.heavy = heavy

    def _minor(self, k: int, column: int, value: int) -> None:
        """Moves the tuples of a value whose degree left the range of its flag (article, Figure 7)."""
        node = self.nodes[k][column].get(value)
        if node is None:
            return
        degree, limits = node.degree, self.thresholds[k]
        wanted = node.heavy
        if self.plan.partitioned[2 * k + column] and self.eps[k] != 0.0:
            wanted = degree >= limits.lo if node.heavy else degree >= limits.hi
        if degree and wanted != node.heavy:
            self.minors += 1
            self.moved += degree
            self._move(k, column, value, wanted)
        if not node.degree:
            del self.nodes[k][column][value]

    def _move(self, k: int, column: int, value: int, heavy: bool) -> None:
        """Inserts each tuple into its new part, then deletes it from the old one; what both feed stays untouched."""
        for x, y in self._tuples(k, column, value):
            old = self.part(k, x, y)
            new = part(heavy, self.heavy(k, 1, y)) if column == 0 else part(self.heavy(k, 0, x), heavy)
            m = self.rows[k][x, y]
            differ = [s for s in self.plan.steps if bool(s.mask0 & old) != bool(s.mask0 & new)]
            self._apply(k, new, x, y, m, 1, differ, False)
            self._apply(k, old, x, y, -m, -1, differ, False)
        self._flag(k, column, value, heavy)

    def _rebuild(self, totals: bool) -> None:
        """Rebalances majorly: a strict partition, every view (the total only on a load) computed from the parts."""
        self._rebase()
        for k, column in product(range(3), range(2)):
            for value in list(self.nodes[k][column]):
                node = self.nodes[k][column][value]
                if not node.degree:
                    del self.nodes[k][column][value]
                    continue
                heavy = self.plan.partitioned[2 * k + column] and node.degree >= self.thresholds[k].st
                if heavy != node.heavy:
                    self._flag(k, column, value, heavy)
        for index, view in enumerate(self.plan.views):
            if view.kind != TOTAL or totals:
                self.views[index] = {}
        loading = [s for s in self.plan.steps if s.loads]
        for steps in ([s for s in loading if s.scan != LOOKUP], [s for s in loading if s.scan == LOOKUP]):
            for k in range(3):
                for (x, y), m in self.rows[k].items():
                    self._apply(k, self.part(k, x, y), x, y, m, 1, steps, totals)


def after_update(base: int, size: int) -> int:
    """Returns the threshold base after one update that left |D| = `size`: doubled, halved or unchanged (article,
    Figure 6).

    The size invariant is floor(N / 4) <= |D| < N. A changed base means: do a major rebalancing. O(1).
    """
    if size == base:
        return 2 * base
    if size < base // 4:
        return base // 2 - 1
    return base
