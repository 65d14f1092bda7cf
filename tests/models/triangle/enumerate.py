"""Enumeration of the triangle queries with the article's delays: union and hop iterators, with two corrections.

`union` reports the union of a constant number of iterators without repetition (article, Figure 4). A hop union does the
same for many buckets: a tuple reported from one bucket is *excluded* from the others that contain it, by entries that
let their iterators hop over maximal excluded ranges (Figure 5).

Two fixes of Figure 5. The bucket that is being iterated is never itself excluded from the bucket list: otherwise the
hop entry behind the pointer goes stale and the iterator stops early. And a bucket is tested for emptiness only when
the exclusion really took place: otherwise it would be excluded twice.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Protocol

from ivm_triangle.contents import IndexedSet
from ivm_triangle.errors import StaleCursorError
from ivm_triangle.terms import H_, L_, ROOT
from tests.models.triangle.triangle import Reference

END = None
Element = Hashable | None


class Listing(Protocol):
    """What can be iterated: a first element, successors, membership."""

    def __contains__(self, x: object) -> bool: ...

    def after(self, x: Any) -> Any:
        """Returns the successor of `x`; the first element for None; None at the end."""
        ...


class Scan:
    """Iterator over a listing; stays at the end once there."""

    def __init__(self, listing: Listing) -> None:
        self.listing, self.current, self.done = listing, None, False

    def __contains__(self, x: object) -> bool:
        return x in self.listing

    def next(self) -> Element:
        """Returns the next element or END."""
        if not self.done:
            self.current = self.listing.after(self.current)
            self.done = self.current is END
        return self.current


class Hop:
    """Iterator that hops over excluded elements. Excluded ranges are kept maximal: two hops are never adjacent."""

    def __init__(self, listing: Listing) -> None:
        self.listing = listing
        self.current: Element = None
        self.done = False
        self.skip_to: dict = {}
        self.skipped_from: dict = {}

    def _hop(self, x: Element) -> Element:
        return self.skip_to.get(x, x)

    def next(self) -> Element:
        """Returns the next element that is not excluded, or END."""
        if not self.done:
            self.current = self._hop(self.listing.after(self.current))
            self.done = self.current is END
        return self.current

    def empty(self) -> bool:
        """Returns True if every element is excluded."""
        return self._hop(self.listing.after(None)) is END

    def exclude(self, x: Element) -> bool:
        """Leaves out `x` from now on. Returns False if the listing does not have it. At most once per element."""
        if x not in self.listing:
            return False
        to = self._hop(self.listing.after(x))
        start = self.skipped_from.get(x, x)
        self.skip_to[start] = to
        self.skipped_from[to] = start
        return True


class HopUnion:
    """Union of the buckets `bucket(i)` over `ids`; `candidates(t)` are the buckets that may contain `t`."""

    def __init__(self, ids: Listing, bucket: Callable[[Any], Listing], candidates: Callable[[Any], list]) -> None:
        self.order, self.bucket, self.candidates = Hop(ids), bucket, candidates
        self.hops: dict = {}
        self.at: Element = self.order.next()

    def _open(self, i: Element) -> Hop:
        if i not in self.hops:
            self.hops[i] = Hop(self.bucket(i))
        return self.hops[i]

    def __contains__(self, x: object) -> bool:
        return bool(self.candidates(x))

    def next(self) -> Element:
        """Returns the next element of the union or END. O(number of candidates)."""
        if self.at is END:
            return END
        t = self._open(self.at).next()
        if t is END:
            self.at = self.order.next()
            if self.at is END:
                return END
            t = self._open(self.at).next()
        for i in self.candidates(t):
            if i != self.at and self._open(i).exclude(t) and self._open(i).empty():
                self.order.exclude(i)
        return t


def union(iterators: list) -> Iterator:
    """Returns the elements of all iterators, each once. Delay: a constant number of `next` and membership tests per
    element."""
    while True:
        t = iterators[0].next()
        for iterator in iterators[1:]:
            if t is END or t in iterator:
                t = iterator.next()
        if t is END:
            return
        yield t


class _Keys:
    """A dictionary as a listing; the order is fixed when iteration starts."""

    def __init__(self, entries: dict) -> None:
        self.entries = entries
        self.keys = IndexedSet()
        for key in entries:
            self.keys.add(key)

    def __contains__(self, x: object) -> bool:
        return x in self.entries

    def after(self, x: Any) -> Any:
        return self.keys.after(x)


class _Bucket:
    """(a, b) for the pairs of one bucket of a root view, each with its list of middle values."""

    def __init__(self, state: Reference, root: int, bucket: object, ab: Callable, pair_of: Callable) -> None:
        self.pairs: IndexedSet = state.views[root][bucket]
        self.lists: dict = state.views[state.plan.views[root].of]
        self.ab, self.pair_of, self.state = ab, pair_of, state

    def __contains__(self, t: object) -> bool:
        self.state.ops += 1
        pair, middle = self.pair_of(t)
        return pair in self.pairs and middle in self.lists[pair]

    def after(self, t: Any) -> Any:
        self.state.ops += 1
        pair, middle = self.pair_of(t) if t is not None else (None, None)
        following = self.lists[pair].after(middle) if pair is not None else None
        if following is None:
            pair = self.pairs.after(pair)
            if pair is None:
                return None
            following = self.lists[pair].after(None)
        return self.ab(pair, following)


def _checked(state: Reference, rows: Iterator) -> Iterator:
    epoch = state.epoch
    for row in rows:
        yield row
        if state.epoch != epoch:
            raise StaleCursorError("the triangle changed while its results were read; enumerate again after the update")


def enumerate_results(state: Reference) -> Iterator[tuple[tuple, int]]:
    """Returns (tuple, multiplicity) of every result, each once; StaleCursorError if an update comes in between."""
    outputs = state.plan.outputs
    if outputs == "":
        total = state.views[0].get((), 0)
        return iter([((), total)] if total else [])
    return _checked(state, {"abc": _delta3, "ab": _delta2, "a": _delta1}[outputs](state))


def _sums(state: Reference) -> list[int]:
    return [i for i in state.plan.results if state.plan.views[i].kind != ROOT]


def _delta3(state: Reference) -> Iterator[tuple[tuple, int]]:
    """Yields disjoint views: one after the other. Constant delay."""
    r, s, t = state.rows

    def weighed(a: int, b: int, c: int) -> tuple[tuple, int]:
        state.ops += 3
        return (a, b, c), r[a, b] * s[b, c] * t[c, a]

    for index in state.plan.results:
        view = state.plan.views[index]
        if view.kind != ROOT:
            for key in state.views[index]:
                state.ops += 1
                yield weighed(*key)
            continue
        pairs = state.views[view.of]
        (missing,) = set("abc") - set(view.key)
        for keys in state.views[index].values():
            for key in keys:
                for middle in pairs[key]:
                    state.ops += 1
                    named = {**dict(zip(view.key, key, strict=True)), missing: middle}
                    yield weighed(named["a"], named["b"], named["c"])


def _delta2(state: Reference) -> Iterator[tuple[tuple, int]]:
    """Yields materialized views and two hop unions over C. Delay N^min{eps, 1 - eps}."""
    r, s, t = state.rows
    names = {view.name: i for i, view in enumerate(state.plan.views)}
    tree1, tree3 = names.get("root H(LH)#"), names.get("root L#(HL)")

    def c1(ab: tuple[int, int]) -> list[int]:
        """Returns C-values of tree 1 that contain (a, b): c in S^LH(b, .) with V1(a, c) present."""
        a, b = ab
        if tree1 is None or not state.probe(0, a, b, H_):
            return []
        found = [c for cs in state.scan(1, 0, b, 4) for c in cs]
        state.ops += len(found)
        return [c for c in found if (a, c) in state.views[tree1].get(c, ())]

    def c3(ab: tuple[int, int]) -> list[int]:
        """Returns C-values of tree 3 that contain (a, b): c in T^HL(., a) with V3(b, c) present."""
        a, b = ab
        if tree3 is None or not state.probe(0, a, b, L_):
            return []
        found = [c for cs in state.scan(2, 1, a, 2) for c in cs]
        state.ops += len(found)
        return [c for c in found if (c, b) in state.views[tree3].get(c, ())]

    iterators: list = [Scan(_Keys(state.views[i])) for i in _sums(state)]
    if tree1 is not None and tree3 is not None:
        one, three = tree1, tree3
        iterators += [
            HopUnion(
                _Keys(state.views[one]),
                lambda c: _Bucket(state, one, c, lambda ac, b: (ac[0], b), lambda ab: ((ab[0], c), ab[1])),
                c1,
            ),
            HopUnion(
                _Keys(state.views[three]),
                lambda c: _Bucket(state, three, c, lambda cb, a: (a, cb[1]), lambda ab: ((c, ab[1]), ab[0])),
                c3,
            ),
        ]
    for a, b in union(iterators):
        weight = sum(state.views[i].get((a, b), 0) for i in _sums(state))
        weight += sum(r[a, b] * s[b, c] * t[c, a] for c in c1((a, b)))
        weight += sum(r[a, b] * s[b, c] * t[c, a] for c in c3((a, b)))
        state.ops += len(state.plan.results)
        yield (a, b), weight


def _delta1(state: Reference) -> Iterator[tuple[tuple, int]]:
    """Yields materialized views and one hop union over pairs (c, b). Delay N^(2 min{eps, 1 - eps})."""
    r, s, t = state.rows
    trees = [i for i in state.plan.results if state.plan.views[i].kind == ROOT]
    pairs: IndexedSet = state.views[trees[0]].get(None, IndexedSet()) if trees else IndexedSet()
    lists = state.views[state.plan.views[trees[0]].of] if trees else {}

    def candidates(a: tuple[int]) -> list[tuple[int, int]]:
        """Returns (c, b) in V3 with b in R^LH(a, .) and c in T^HL(., a)."""
        bs = [b for each in state.scan(0, 0, a[0], 4) for b in each]
        cs = [c for each in state.scan(2, 1, a[0], 2) for c in each]
        state.ops += 1 + len(bs) * len(cs)
        return [(c, b) for c in cs for b in bs if (c, b) in pairs]

    class Members:
        """The A-values of one pair."""

        def __init__(self, pair: tuple[int, int]) -> None:
            self.members: IndexedSet = lists[pair]

        def __contains__(self, a: Any) -> bool:
            state.ops += 1
            return a[0] in self.members

        def after(self, a: Any) -> Any:
            state.ops += 1
            following = self.members.after(None if a is None else a[0])
            return None if following is None else (following,)

    iterators: list = [Scan(_Keys(state.views[i])) for i in _sums(state)]
    if trees:
        iterators.append(HopUnion(pairs, Members, candidates))
    for (a,) in union(iterators):
        weight = sum(state.views[i].get((a,), 0) for i in _sums(state))
        weight += sum(r[a, b] * s[b, c] * t[c, a] for c, b in candidates((a,)))
        state.ops += len(state.plan.results)
        yield (a,), weight
