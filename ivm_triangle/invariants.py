"""Checks the invariants of a state: the structure of the arena, then its contents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from crown.kernels.memory.arena import H_LIVE, T_CAPACITY, T_COUNT, T_SLOTS, class_words, size_class
from crown.kernels.memory.tables import LOW32, home_of, table_at
from ivm_triangle.contents import Contents, IndexedSet, Node
from ivm_triangle.kernels.state import layout as at
from ivm_triangle.kernels.state.views import listing_at
from ivm_triangle.state import State
from ivm_triangle.terms import COUNT, LIST, PAIRS, ROOT, SET, SUM, TOTAL


class Walk:
    """Reads a state record by record and sums the words of the blocks that it reads."""

    def __init__(self, state: State) -> None:
        self.state, self.arena, self.halves = state, state.arena, state.halves
        self.words = at.CONTROL + _block(at.CONTROL_WORDS)

    def records(self, table: int, words: int) -> Iterator[int]:
        """Yields handles of a table's records. Checks the count, and that each slot is reachable."""
        t = table_at(table)
        slots, capacity = int(self.arena[t + T_SLOTS]), int(self.arena[t + T_CAPACITY])
        self.words += _block(capacity)
        found = 0
        for i in range(capacity):
            slot = int(self.arena[slots + i])
            if slot:
                found += 1
                home = int(home_of(slot >> 32, capacity))
                assert all(self.arena[slots + (home + j) % capacity] for j in range((i - home) % capacity))
                self.words += _block(words)
                yield slot & LOW32
        assert found == self.arena[t + T_COUNT], "a table counts its records"

    def list_at(self, w: int) -> list[int]:
        """Returns the entries of the list at word `w`."""
        address, length, capacity = (int(v) for v in self.halves[2 * w : 2 * w + 3])
        assert length <= capacity
        assert (capacity == 0) == (length == 0), "an empty list has no block"
        self.words += _block(capacity) if capacity else 0
        return [int(v) for v in self.arena[address : address + length]]

    def value(self, vertex: int) -> int:
        """Returns the value of a vertex."""
        return int(self.arena[vertex])

    def pair(self, word: int) -> tuple[int, int]:
        """Returns the two values of a pair of vertices."""
        return self.value(word >> 32), self.value(word & LOW32)


def _block(words: int) -> int:
    return int(class_words(size_class(words)))


def contents(state: State, key_words: tuple[int, ...] = (1, 1, 1)) -> Contents:
    """Returns relations, flags, N and views as dictionaries. Also checks the structure of the arena. O(state).

    `key_words`: words of the composite keys of A, B and C (1: none).
    """
    walk = Walk(state)
    first, second, third = state.eps.tolist()
    copy = Contents(state.program, (first, second, third))
    _read_graph(walk, copy)
    copy.base, copy.size = state.word(at.C_BASE), state.word(at.C_SIZE)
    copy.shifts = state.arena[at.C_SHIFTS : at.C_SHIFTS + 3].tolist()
    copy._rebase()
    if state.program.copies == 1:  # the contents have three relations, here three times the same one
        copy.rows = [copy.rows[0]] * 3
        copy.nodes = [copy.nodes[0]] * 3
        copy.plan = replace(copy.plan, partitioned=copy.plan.partitioned[:2] * 3)
    for k in range(3):
        limits = copy.thresholds[k]
        assert [int(v) for v in state.arena[at.C_LIMITS + 3 * k : at.C_LIMITS + 3 * k + 3]] == [
            limits.lo,
            limits.st,
            limits.hi,
        ]
    for index in range(at.MAX_VIEWS):
        if index < len(state.program.views):
            copy.views[index] = _read_view(walk, index)
        else:
            for table in (6 + 2 * index, 7 + 2 * index):
                assert not list(walk.records(table, 1))
    for d in range(3):
        keys = set(walk.records(at.KEYS + d, key_words[d]))
        assert not keys or keys == {v for k, c in ((d, 0), ((d + 2) % 3, 1)) for v in copy.nodes[k][c]}
    assert walk.words == state.arena[H_LIVE], "every block is reachable, or free"
    assert not state.arena[at.C_MARKS : at.C_MARKS + at.MARK_WORDS].any(), "a scan takes its marks away"
    return copy


def check(state: State) -> None:
    """Raises AssertionError if anything in the state violates its definition. O(N^1.5) and slow."""
    copy = contents(state)
    if state.program.copies == 3:
        copy.check_invariants()
    else:
        copy.check_partition()
        copy.check_views()


def _read_graph(walk: Walk, copy: Contents) -> None:
    arena, halves, copies = walk.arena, walk.halves, walk.state.program.copies
    alive: set[tuple[int, int, int]] = set()
    for k in range(3):
        assert k < copies or not walk.arena[table_at(3 + k) + T_COUNT]
        for e in walk.records(3 + k, at.EDGE_WORDS):
            x, y = int(arena[e]) >> 32, int(arena[e]) & LOW32
            assert arena[e + 1] > 0, "multiplicities are positive"
            copy.rows[k][walk.pair(int(arena[e]))] = int(arena[e + 1])
            alive |= {(k, 0, x), (k, 1, y)}
    for d in range(3):
        for v in walk.records(d, at.VERTEX_WORDS):
            value = walk.value(v)
            for k, column, w in ((d, 0, v + at.V_OUT), ((d + copies - 1) % copies, 1, v + at.V_IN)):
                extra = int(halves[2 * w + 3])
                entries = walk.list_at(w)
                assert ((k, column, v) in alive) == bool(entries)
                if entries:
                    copy.nodes[k][column][value] = Node(extra >= at.HEAVY)
                for i, entry in enumerate(entries):
                    e, other = entry & LOW32, entry >> 32
                    assert arena[e] == ((v << 32) | other if column == 0 else (other << 32) | v), (
                        "a list holds its edges"
                    )
                    assert halves[2 * (e + 2) + column] == i, "an edge knows its places"
                    opposite = other + (at.V_IN if column == 0 else at.V_OUT)
                    assert (int(halves[2 * opposite + 3]) >= at.HEAVY) == (i < (extra & at.COUNT_MASK)), (
                        "heavy ends first"
                    )
    for k in range(3):
        out, into = copy.nodes[k]
        for x, y in copy.rows[k]:
            out[x].by[into[y].heavy].add(y)
            into[y].by[out[x].heavy].add(x)


def _read_view(walk: Walk, index: int) -> dict:
    view, arena = walk.state.program.views[index], walk.arena
    first, second, listing = 6 + 2 * index, 7 + 2 * index, walk.list_at(int(listing_at(index)))
    if view.kind == TOTAL:
        assert not list(walk.records(first, 1))
        assert not list(walk.records(second, 1))
        return {(): walk.state.word(at.C_TOTAL)} if walk.state.word(at.C_TOTAL) else {}
    if view.kind in (SUM, SET, COUNT, PAIRS):
        assert not list(walk.records(second, 1))
        entries: dict = {}
        for r in walk.records(first, at.SUM_WORDS):
            assert listing[int(arena[r + 2])] == r
            key = walk.pair(int(arena[r])) if len(view.key) > 1 else (walk.value(int(arena[r])),) if view.key else ()
            entries[(*key, walk.value(int(arena[r + 1]))) if view.kind == SET else key] = (
                1 if view.kind == SET else int(arena[r + 1])
            )
        assert len(listing) == len(entries)
        return entries
    if view.kind == LIST:
        assert not listing
        known = set(walk.records(second, at.MIDDLE_WORDS))
        lists: dict = {}
        for group in walk.records(first, at.GROUP_WORDS):
            middles = lists[walk.pair(int(arena[group]))] = IndexedSet()
            for i, entry in enumerate(walk.list_at(group + 1)):
                record = entry & LOW32
                known.remove(record)
                assert arena[record] == (group << 32) | (entry >> 32)
                assert arena[record + 1] == i
                middles.add(walk.value(entry >> 32))
        assert not known
        return lists
    assert view.kind == ROOT
    assert not list(walk.records(second, 1))
    buckets: dict = {}
    for bucket in walk.records(first, at.BUCKET_WORDS):
        assert listing[int(arena[bucket + 3])] == bucket
        name = walk.value(int(arena[bucket])) if view.bucket else None
        pairs = buckets[name] = IndexedSet()
        for i, group in enumerate(walk.list_at(bucket + 1)):
            assert arena[group + 3] == i
            pairs.add(walk.pair(int(arena[group])))
    assert len(buckets) == len(listing)
    return buckets
