"""The rules of triangle maintenance as data: the views, and the effect of an update to a part of a relation.

The rules are invariant under the rotation R -> S -> T -> R. An update (x, y) -> m of relation K0(X, Y) reads the next
two relations K1(Y, Z) and K2(Z, X), and never K0 itself. A *part* of a relation is a pair of letters, heavy or light,
for the first and for the second column; a *mask* is a set of parts.

A `Step` means: if the updated tuple is in `mask0`, scan the z with K1(y, z) in `mask1` (scan 1), or the z with K2(z, x)
in `mask2` (scan 2), or the shorter of these lists (scan 0). For each scanned z, `write` the pair view. For each z that
is also in the other relation, in its mask, `hit` the target view. A `Step` with scan -1 is a lookup: the pair view of
K1 and K2 at (y, x) has all its z at once. Scan 3 is scan 0, unless y is heavy in K1 and x in K2.

Three programs follow the decompositions of the article: HHH and LLL directly, the six mixed combinations by three view
trees (sections 4 to 7). They differ in the free variables, and therefore in what each view stores.

Thresholds of the heavy/light partition: theta = N^eps and the integer bounds that decide every flag.

A value of a partitioned column is *heavy* or *light* by its degree in the whole relation. Between rebalancings the flag
is loose (TODS article, Definition 11): heavy values have degree >= theta / 2, light ones have degree < 3 theta / 2.
After a load or a major rebalancing it is strict: heavy if and only if degree >= theta. Two bounds follow, on which all
costs depend: a light list has fewer than 3 theta / 2 entries, and a column has at most 2 N / theta heavy values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ivm_triangle.errors import TriangleError

R, S, T = 0, 1, 2
RELATIONS = "RST"
"""Relation k joins domain k (A, B, C) with domain k + 1 (mod 3): R(A, B), S(B, C), T(C, A)."""


@dataclass(frozen=True)
class Thresholds:
    """Integer thresholds of one relation at one N, computed once per major rebalancing.

    `lo = ceil(theta / 2)`, `st = ceil(theta)`, `hi = ceil(3 theta / 2)`, so that "degree < theta / 2" is `degree < lo`
    and so on without further rounding. `eps = 0` makes every value heavy and `eps = 1` every value light. Both are
    classical first-order maintenance, and are computed without powers to avoid rounding.
    """

    theta: float
    lo: int
    st: int
    hi: int

    @staticmethod
    def of(size: int, epsilon: float, shift: int = 0) -> Thresholds:
        """Returns the thresholds at base `size` (N >= 1) and `epsilon` in [0, 1], theta times 2^shift. O(1)."""
        if epsilon == 0.0:
            return Thresholds(1.0, 0, 0, 0)
        theta = float(size) if epsilon == 1.0 else size**epsilon
        if abs(theta - round(theta)) < 1e-9 * theta:  # 64 ** (1 / 3) is 3.9999999999999996
            theta = float(round(theta))
        theta *= 2.0**shift
        return Thresholds(theta, math.ceil(theta / 2), math.ceil(theta), math.ceil(1.5 * theta))


def epsilons(epsilon: float | str | dict[str, float]) -> tuple[float, float, float]:
    """Returns one eps per relation, from a number or from `{"R": .., "S": .., "T": ..}`. Raises TriangleError outside
    [0, 1]."""
    given: tuple[Any, ...]
    if isinstance(epsilon, dict):
        if set(epsilon) != set(RELATIONS):
            raise TriangleError(f"epsilon names {sorted(map(str, epsilon))}; give one number for each of R, S and T")
        given = tuple(epsilon[name] for name in RELATIONS)
    else:
        given = (epsilon,) * 3
    if not all(isinstance(value, (int, float, np.number)) and not isinstance(value, bool) for value in given):
        raise TriangleError(f'epsilon is {epsilon!r:.100}; give a number, one for each of R, S and T, or "auto"')
    values = tuple(min(max(value, -1), 2) for value in given)  # a float compares exactly to these
    for value in values:
        if not 0.0 <= value <= 1.0:
            raise TriangleError(f"epsilon is {value}; choose it between 0 and 1 (1/2 is worst-case optimal)")
    return tuple(map(float, values))  # type: ignore[return-value]


HH, HL, LH, LL = 1, 2, 4, 8
H_, L_, ANY_H, ANY_L, ANY = HH | HL, LH | LL, HH | LH, HL | LL, 15
LOOKUP = -1
UNLESS_HEAVY = 3
DOMAINS = "abc"
WEDGES = "wedges"

TOTAL, SUM, SET, LIST, ROOT, COUNT, PAIRS = "total", "sum", "set", "list", "root", "count", "pairs"


@dataclass(frozen=True)
class View:
    """A view: the join of the relations in `masks` (None: not joined), projected on the variables `key`.

    kind TOTAL: one number. SUM: key -> sum of products of multiplicities. SET: presence of triples. LIST: presence of
    triples, grouped by the pair `key`. ROOT: pairs of LIST view `of` that have a partner in the third relation, in
    buckets by variable `bucket` ("" for one bucket). COUNT: key -> number of distinct triples; no step writes it, but
    the stream of triple deltas does. PAIRS: a LIST view without the middles: key -> their number.
    """

    name: str
    kind: str
    key: str
    masks: tuple[int | None, int | None, int | None]
    of: int = -1
    bucket: str = ""


@dataclass(frozen=True)
class Step:
    """One row of the rules; see the module. `bound` is the proven length of the scan: L, H, M (both), 1, or N."""

    updated: int
    mask0: int
    scan: int
    mask1: int = ANY
    mask2: int = ANY
    write: int = -1
    hit: int = -1
    loads: bool = False
    bound: str = "N"


@dataclass(frozen=True)
class Program:
    """The data that maintenance needs: views, steps, partitioned columns."""

    outputs: str
    strategy: str
    partitioned: tuple[bool, ...]  # (relation, column) at 2 * relation + column
    views: tuple[View, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...] = ()  # views whose union is the result
    copies: int = 3  # 1: one relation plays R, S and T and is stored once
    adaptive: bool = False  # thresholds follow the rates of updates; for single partitions on the first columns


class _Builder:
    def __init__(self, outputs: str) -> None:
        self.outputs = outputs
        self.views: list[View] = []
        self.steps: list[Step] = []
        self.results: list[int] = []

    def add(self, view: View) -> int:
        self.views.append(view)
        return len(self.views) - 1

    def target(self, name: str, masks: tuple[int, int, int]) -> int:
        """Returns the view to which a whole combination of parts is written, in the form that the outputs require."""
        if self.outputs == "":
            return 0
        index = self.add(View(name, SET if self.outputs == "abc" else SUM, self.outputs, masks))
        self.results.append(index)
        return index

    def direct(self, name: str, masks: tuple[int, int, int], bounds: str) -> None:
        """Adds a view over all three relations. An update of relation k scans the shorter side, of proven length
        `bounds[k]`."""
        hit = self.target(name, masks)
        for k in range(3):
            m0, m1, m2 = masks[k], masks[(k + 1) % 3], masks[(k + 2) % 3]
            self.steps.append(Step(k, m0, 0, m1, m2, -1, hit, k == 0, bounds[k]))

    def tree(self, name: str, first: int, mask1: int, mask2: int, bounds: str, kind: str, bucket: str = "") -> None:
        """Adds a view tree: pairs of K_first(x, y) in mask1 and the next relation (y, z) in mask2; the root joins the
        third.

        The pair view has key (x, z). `bounds`: the scans of an update to the first and to the second relation. An
        update to the third relation is one lookup.
        """
        second, third = (first + 1) % 3, (first + 2) % 3
        masks: list[int | None] = [None, None, None]
        masks[first], masks[second] = mask1, mask2
        key = DOMAINS[first] + DOMAINS[third]
        pair = self.add(View("V" + name, kind, key, (masks[0], masks[1], masks[2])))
        masks[third] = ANY
        whole = (masks[0] or 0, masks[1] or 0, masks[2] or 0)
        if kind == LIST:
            root = self.add(View("root " + name, ROOT, key, whole, pair, bucket))
            self.results.append(root)
        else:
            root = self.target(name, whole)
        self.steps += [
            Step(first, mask1, 1, mask2, ANY, pair, root, True, bounds[0]),
            Step(second, mask2, 2, ANY, mask1, pair, root, False, bounds[1]),
            Step(third, ANY, LOOKUP, mask1, mask2, pair, root, False, "1"),
        ]

    def program(self, strategy: str, partitioned: str) -> Program:
        return Program(
            self.outputs,
            strategy,
            tuple(c == "x" for c in partitioned),
            tuple(self.views),
            tuple(self.steps),
            tuple(self.results),
        )


def _start(outputs: str) -> _Builder:
    builder = _Builder(outputs)
    if outputs == "":
        builder.add(View("total", TOTAL, "", (ANY, ANY, ANY)))
    return builder


def classical(outputs: str) -> Program:
    """Returns first-order maintenance: no partition, no auxiliary view, a scan of the shorter list per update. O(N) per
    update."""
    builder = _start(outputs)
    builder.direct("Delta", (ANY, ANY, ANY), "NNN")
    return builder.program("classical", "......")


def delta0_single() -> Program:
    """Returns Delta0, all relations partitioned on their first column (article, section 4). Space N^(1 + min{eps, 1 -
    eps})."""
    builder = _start("")
    builder.direct("HHH", (H_, H_, H_), "HHH")
    builder.direct("LLL", (L_, L_, L_), "LLL")
    for first, name in ((R, "HL#"), (S, "#HL"), (T, "L#H")):
        builder.tree(name, first, H_, L_, "LH", SUM)
    return builder.program("eps", "x.x.x.")


def delta0_double() -> Program:
    """Returns Delta0, both columns partitioned (article, Proposition 4). Linear space for eps >= 1/2.

    For an update of K0(x, y), K1 in HL and K2 in LH is one lookup. Each other combination has a short side to scan.
    """
    builder = _start("")
    for k in range(3):
        builder.steps += [
            Step(k, ANY, 0, ANY, ANY_L, -1, 0, k == 0, "L"),
            Step(k, ANY, 0, ANY, HH, -1, 0, k == 0, "H"),
            Step(k, ANY, 0, L_, LH, -1, 0, k == 0, "L"),
            Step(k, ANY, 0, HH, LH, -1, 0, k == 0, "H"),
        ]
    _lookups(builder, HL, LH, "MM", SUM)
    return builder.program("eps", "xxxxxx")


def set_intersection() -> Program:
    """Returns Delta0 by set intersection tables: pair views between values that are heavy on both ends, else the
    shorter list.

    Space N + N^(2 - 2 eps). Update N^max{eps, 1 - eps}. No view is read or written if nothing is heavy.
    """
    builder = _start("")
    builder.steps = [Step(k, ANY, UNLESS_HEAVY, ANY, ANY, -1, 0, k == 0, "L") for k in range(3)]
    _lookups(builder, H_, ANY_H, "HH", SUM)
    return builder.program("sit", "xxxxxx")


def wedges(outputs: str, kind: str = LIST) -> Program:
    """Returns the program of a bag: set intersection tables that store the middles, and a count per key if fewer
    variables than abc are free.

    The stream of triple deltas reads the tables, so there are no lookup steps. Space N^(2 - eps). With `kind` PAIRS the
    tables store the number of middles, and the shorter list is scanned for them: space N + N^(2 - 2 eps), but an update
    between two heavy values with a middle costs their smaller degree.
    """
    builder = _Builder("")
    _lookups(builder, H_, ANY_H, "HH", kind)
    builder.steps = [step for step in builder.steps if step.scan != LOOKUP]
    if outputs != DOMAINS:
        builder.add(View("triples", COUNT, outputs, (ANY, ANY, ANY)))
    return builder.program(WEDGES, "xxxxxx")


def shared(strategy: str) -> Program:
    """Returns Delta0 of a self-join over one stored copy: three times the part of relation R in "sit" or "classical".

    The three pair views coincide. What remains are the steps of V_RS, in each of its roles, and one scan.
    """
    plan = classical("") if strategy == "classical" else set_intersection()
    if strategy == "classical":
        return replace(plan, steps=plan.steps[:1], copies=1)
    pair = next(i for i, view in enumerate(plan.views) if view.kind == SUM)
    steps = [step for step in plan.steps if step.write == pair]
    steps.append(next(step for step in plan.steps if step.write < 0))
    steps.sort(key=lambda step: step.scan != LOOKUP)  # first: a loop changes the view that it looks up
    steps = [replace(step, loads=step.scan != 2) for step in steps]
    return replace(
        plan, views=plan.views[: pair + 1], steps=tuple(steps), partitioned=(True, True) + (False,) * 4, copies=1
    )


def _lookups(builder: _Builder, mask1: int, mask2: int, bounds: str, kind: str) -> None:
    """Adds views V_K0 = K0 in mask1, K1 in mask2, one per rotation. Updates of the relation that a view lacks read
    it."""
    for k in range(3):
        second, third = (k + 1) % 3, (k + 2) % 3
        masks: list[int | None] = [None, None, None]
        masks[k], masks[second] = mask1, mask2
        name = "V_" + RELATIONS[k] + RELATIONS[second]
        pair = builder.add(View(name, kind, DOMAINS[k] + DOMAINS[third], (masks[0], masks[1], masks[2])))
        builder.steps += [
            Step(k, mask1, 1, mask2, ANY, pair, -1, True, bounds[0]),
            Step(second, mask2, 2, ANY, mask1, pair, -1, False, bounds[1]),
            Step(third, ANY, LOOKUP, mask1, mask2, pair, 0, third == R, "1"),
        ]


def delta3() -> Program:
    """Returns Delta3(a, b, c), single partitions (article, section 5), presence only: multiplicities are stored only in
    R, S and T."""
    builder = _start("abc")
    builder.direct("HHH", (H_, H_, H_), "HHH")
    builder.direct("LLL", (L_, L_, L_), "LLL")
    for first, name in ((R, "HL#"), (S, "#HL"), (T, "L#H")):
        builder.tree(name, first, H_, L_, "LH", LIST)
    return builder.program("eps", "x.x.x.")


def delta2() -> Program:
    """Returns Delta2(a, b): R partitioned on A, S on (B, C), T on (C, A) (article, section 7)."""
    builder = _start("ab")
    builder.direct("HHH", (H_, H_, H_), "HHH")
    builder.direct("LLL", (L_, L_, L_), "LLL")
    builder.direct("HLL", (H_, LL, ANY), "LHL")
    builder.direct("LHH", (L_, ANY, HH), "HHL")
    builder.tree("H(LH)#", R, H_, LH, "MH", LIST, "c")
    builder.tree("#HL", S, H_, L_, "LH", SUM)
    builder.tree("L#(HL)", T, HL, L_, "LM", LIST, "c")
    return builder.program("eps", "x.xxxx")


def delta1() -> Program:
    """Returns Delta1(a): R partitioned on (A, B), T on (C, A), S on B (article, section 6)."""
    builder = _start("a")
    builder.direct("HHH", (H_, H_, H_), "HHH")
    builder.direct("LLL", (L_, L_, L_), "LLL")
    builder.direct("QLL", (LL, ANY, H_), "HLL")
    builder.direct("QLH", (LH, ANY, HH), "HHM")
    builder.tree("HL#", R, H_, L_, "LH", SUM)
    builder.tree("#HL", S, H_, L_, "LH", SUM)
    builder.tree("(LH)#(HL)", T, HL, LH, "MM", LIST, "")
    return builder.program("eps", "xxx.xx")


def program(outputs: str, partition: str = "single", strategy: str = "auto", epsilon: float = 0.5) -> Program:
    """Returns the program for the free variables `outputs` ("abc", "ab", "a" or "").

    `strategy` "eps" is IVM^eps as published, "sit" the set intersection tables (count only), "classical" first-order
    maintenance. "auto" is "sit" for the count if its space is no worse (eps >= 1/3), else "eps".
    """
    for what, given in (("outputs", outputs), ("partition", partition), ("strategy", strategy)):
        if not isinstance(given, str):
            raise TriangleError(f"{what} is a text, not {type(given).__name__}")
    if outputs not in ("", "a", "ab", "abc"):
        raise TriangleError(
            f'outputs {outputs!r} is not "abc", "ab", "a" or "" (rename R, S, T to rotate the triangle)'
        )
    if partition not in ("single", "double"):
        raise TriangleError(f'partition {partition!r} is not "single" or "double"')
    if strategy == "auto":
        strategy = "sit" if outputs == "" and epsilon >= 1 / 3 else "eps"
    if strategy == "classical":
        return classical(outputs)
    if strategy == "sit":
        if outputs:
            raise TriangleError('strategy "sit" keeps the count only; use strategy="eps" for free variables')
        return set_intersection()
    if strategy != "eps":
        raise TriangleError(f'strategy {strategy!r} is not one of "auto", "eps", "sit", "classical"')
    if outputs == "":
        return delta0_single() if partition == "single" else delta0_double()
    return {"a": delta1, "ab": delta2, "abc": delta3}[outputs]()


def adaptive(plan: Program) -> Program:
    """Returns the program with thresholds that follow the rates of updates, where an update of K0 scans K1 light, K2
    heavy.

    Set intersection tables and first-order maintenance scan the shorter list for any thresholds, and are returned
    unchanged. Raises TriangleError for programs in which a relation has other scans.
    """
    if plan.strategy != "eps":
        return plan
    if plan.outputs in ("a", "ab") or plan.partitioned != (True, False) * 3:
        raise TriangleError('epsilon="auto" is for outputs "" and "abc" with partition="single"; give a number')
    return replace(plan, adaptive=True)
