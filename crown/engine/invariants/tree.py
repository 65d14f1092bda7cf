"""Checks all state except payloads: recomputes every view from the rows of R and compares.

Checked: V_s, V_p, V_l and the counters against their definitions; the rows of virtual nodes; group membership,
positions, live prefixes, carried values; reachability in the hash tables; and that the used blocks account for every
allocated word. Not checked: that each string is in the dictionary once, and the counters that only ``stats`` shows. A
summed leaf has no rows, so its V_p is taken from its groups.
"""

from __future__ import annotations

from dataclasses import dataclass

from crown.engine.core import Core
from crown.engine.invariants import payload as payload_invariants
from crown.engine.kernels.groups import node_at
from crown.engine.kernels.layout import (
    I_WORDS,
    N_CARRIED,
    N_EXTRA,
    N_INDEX,
    N_REFERENCES,
    R_NODES,
    R_TABLE,
    R_WIDTH,
    R_WORDS,
)
from crown.engine.state import State
from crown.engine.statistics import tallies_of
from crown.kernels import strings
from crown.kernels.memory import arena as A
from crown.kernels.memory import geometry as at
from crown.kernels.memory.arena import class_words, size_class
from crown.kernels.memory.tables import LOW32, home_of, table_at

_SUM = 0  # placeholder for the rows of a group of a summed leaf


@dataclass
class _Row:
    values: tuple[int, ...]
    key: tuple[int, ...]  # of its node
    place: int
    copies: int
    group: int
    below: list[tuple[tuple[int, ...], int, int]]  # (key, group, position in its parents) per child


class _Reader:
    """Reads records of the arena as Python values: an access to a memoryview takes a third of NumPy's time."""

    def __init__(self, state: State) -> None:
        self.arena = state.arena.data
        self.halves = state.halves.data
        self.plan = state.plan
        self.layout = state.compiled
        self.children = state.compiled.children
        self.plan_array = state.plan_array

    def handles(self, table: int) -> list[int]:
        """Returns all records of a table. Checks that each is reachable from its home slot."""
        slots, capacity = self.arena[table + A.T_SLOTS], self.arena[table + A.T_CAPACITY]
        words = self.arena[slots : slots + capacity].tolist()
        for s, word in enumerate(words):
            home = int(home_of(word >> 32, capacity)) if word else s
            while home != s:
                assert words[home] != 0, f"table {table}: slot {s} is cut off from its home"
                home = (home + 1) % capacity
        found = [word & LOW32 for word in words if word]
        assert len(found) == self.arena[table + A.T_COUNT], f"table {table}: wrong count"
        assert len(found) == len(set(found)), f"table {table}: a record stands twice"
        return found

    def row(self, node: int, handle: int) -> _Row:
        """Returns the row of a node whose block is at ``handle``."""
        width = int(self.plan_array[self.layout.record[node] + R_WIDTH])
        record = handle - self.layout.offset[node]
        words = self.layout.words[node]
        codes = {a: self.arena[record + words[a]] for a in self.plan.nodes[node].attributes}
        below = []
        for j, c in enumerate(self.children[node]):
            link = at.link_of(j)
            g, position = at.linked_group(self.halves, handle, link), at.linked_position(self.halves, handle, link)
            below.append((tuple([codes[a] for a in self.plan.nodes[c].key]), int(g), int(position)))
        return _Row(
            tuple(codes.values()),
            tuple([codes[a] for a in self.plan.nodes[node].key]),
            place=int(at.row_place(self.halves, handle)),
            copies=int(at.copies(self.halves, record, width)),
            group=int(at.row_group(self.halves, handle)) if node else self.arena[A.H_ROOT],
            below=below,
        )

    def rows_of(self, node: int) -> set[int]:
        """Returns the rows of a node that is not virtual: its blocks in records whose tuples it reads."""
        record = self.layout.record[node]
        offset = self.layout.offset[node]
        blocks = [handle + offset for handle in self.handles(int(self.plan_array[record + R_TABLE]))]
        return {block for block in blocks if at.row_place(self.halves, block) != at.UNREAD}

    def children_of(self, node: int, g: int) -> tuple[list[int], list[int] | None]:
        """Returns the handles in the children list of a group above a node, and the values that the list carries.

        Above a bound node the children are only counted: the handles are 0, 1, 2, ...
        """
        carried = self.carried(node)
        field = at.children_field(g, len(self.plan.nodes[node].key))
        if carried == A.COUNTED:
            return list(range(int(at.list_length(self.halves, field)))), None
        handles, many = self._entries(field, int(at.CHILDREN), carried)
        if carried == A.PLAIN or not many:
            return handles, None
        first = int(at.carried_base(self.halves, field, at.CHILDREN, carried))
        words = self.arena if at.carries_words(self.halves, field, at.CHILDREN) else self.halves
        return handles, words[first : first + len(handles)].tolist()

    def parents_of(self, node: int, g: int) -> list[int]:
        """Returns the handles in the parents list of a group above a node."""
        field = at.parents_field(g, len(self.plan.nodes[node].key))
        return self._entries(field, int(at.PARENTS), int(A.PLAIN))[0]

    def unused(self, node: int, g: int) -> bool:
        """Returns True if neither end of the edge above a node has rows with the key of the group. Checks that the
        group is then in its initial state, apart from its live parents, which are undefined while no live views are
        maintained."""
        k = len(self.plan.nodes[node].key)
        used = bool(at.parents_count(self.halves, g, k) or self.references(node, g))
        extra = int(self.plan_array[node_at(node) + N_EXTRA])
        words = int(at.group_words(extra, self.plan_array[node_at(node) + N_REFERENCES]))
        empty = used or not (
            at.children_count(self.halves, g, k)
            or (self.arena[A.H_LIVE_ON] and at.live_parents(self.halves, g, k))
            or any(self.halves[2 * (g + k + 2) + 1 : 2 * (g + k + words)])  # all words after these
        )
        assert empty, f"{self.plan.nodes[node].name}: a group without references is not empty"
        return not used

    def references(self, node: int, g: int) -> int:
        """Returns how many rows of a node reference a group above it as children."""
        k, where = len(self.plan.nodes[node].key), int(self.plan_array[node_at(node) + N_REFERENCES])
        return int(at.references(self.halves, g, k, where))

    def padding_of(self, node: int) -> int:
        """Returns the row of NULLs of a padded node."""
        return self.arena[int(table_at(at.groups_table(len(self.plan.nodes), node))) + at.T_PADDING]

    def carried(self, node: int) -> int:
        """Returns the offset from a row of the node of the word that its children lists carry, or PLAIN."""
        return int(self.plan_array[node_at(node) + N_CARRIED])

    def _entries(self, field: int, side: int, carried: int) -> tuple[list[int], bool]:
        """Returns the handles in a list, and whether the list has a block of its own."""
        n = int(at.list_length(self.halves, field))
        base = int(at.list_base(self.halves, field, side, carried))
        many = bool(at.list_room(self.halves, field, side))
        assert many or n <= 1, "a list of capacity 1 holds more"
        return self.halves[base : base + n].tolist(), many


def check(core: Core) -> None:
    """Raises AssertionError if any invariant of the core's state is broken."""
    state = core.state
    reader = _Reader(state)
    plan, children = state.plan, reader.children
    count = len(plan.nodes)
    rows: list[dict[int, _Row]] = []
    groups: list[dict[tuple[int, ...], int]] = [{(): int(state.arena[A.H_ROOT])}]
    for c in range(1, count):
        k = len(plan.nodes[c].key)
        bundles = reader.handles(table_at(at.groups_table(count, state.compiled.index[c])))
        keyed = {tuple(reader.arena[h : h + k]): h + state.compiled.shift[c] for h in bundles}
        assert len(keyed) == len(bundles), f"{plan.nodes[c].name}: two groups with one key"
        keyed = {key: g for key, g in keyed.items() if not reader.unused(c, g)}
        groups.append(keyed)
    for i, node in enumerate(plan.nodes):
        if node.kind == "virtual":
            c = children[i][0]
            found: set[int] = set()
            for g in groups[c].values():
                found |= set(reader.parents_of(c, g))
        else:
            found = reader.rows_of(i)
        assert len(found) == int(state.arena[tallies_of(count, i).rows]), f"{node.name}: wrong number of rows"
        rows.append({h: reader.row(i, h) for h in found})
        assert len({r.values for r in rows[i].values()}) == len(rows[i]), f"{node.name}: a tuple is stored twice"
        assert all(r.copies > 0 for r in rows[i].values()), f"{node.name}: a stored row has no copies"
    in_view, live = _definitions(reader, rows, groups)
    for i in range(count):
        _check_rows(reader, i, rows, groups, in_view)
        _check_groups(reader, i, rows, groups, in_view, live, bool(state.arena[A.H_LIVE_ON]))
    if state.compiled.payload is not None:
        payload_invariants.check(state.arena, plan, state.compiled)
    _check_words(state, reader, rows, groups)
    for i, bag in state.bags.items():
        bag.check_invariants()
        if plan.listed:
            assert not rows[i], f"{plan.nodes[i].name}: rows are stored that its bag lists"
            continue
        stored = {tuple(int(v) for v in r) for block in bag.results() for r in block.rows}
        assert {r.values for r in rows[i].values()} == stored, f"{plan.nodes[i].name}: not the relation of its bag"


def _definitions(
    reader: _Reader, rows: list[dict[int, _Row]], groups: list[dict[tuple[int, ...], int]]
) -> tuple[list[set[int]], list[set[int]]]:
    """Returns V_s of every node bottom-up and V_l of every free node top-down, by definition, as sets of handles."""
    nodes, children = reader.plan.nodes, reader.children
    in_view: list[set[int]] = [set() for _ in nodes]
    keys: list[set[tuple[int, ...]]] = [set() for _ in nodes]
    for i in reversed(range(len(nodes))):
        for h, row in rows[i].items():
            if all(nodes[c].padded or row.below[j][0] in keys[c] for j, c in enumerate(children[i])):
                in_view[i].add(h)
        keys[i] = {rows[i][h].key for h in in_view[i]}
        if i in reader.layout.summed:
            keys[i] = {key for key, g in groups[i].items() if reader.children_of(i, g)[0]}
            in_view[i] = {_SUM}
        if nodes[i].kind == "virtual":
            union = {_key_values(reader, c, i, k) for c in children[i] for k in keys[c]}
            assert {r.values for r in rows[i].values()} == union, f"{nodes[i].name}: not the union of its children"
    live: list[set[int]] = [set() for _ in nodes]
    for i, node in enumerate(nodes):
        if node.parent < 0:
            live[i] = set(in_view[i])
        elif node.free:
            j = children[node.parent].index(i)
            above = {rows[node.parent][h].below[j][0] for h in live[node.parent]}
            live[i] = {h for h in in_view[i] if rows[i][h].key in above}
    return in_view, live


def _key_values(reader: _Reader, child: int, node: int, key: tuple[int, ...]) -> tuple[int, ...]:
    """Returns a key of ``child`` in the attribute order of its virtual parent."""
    named = dict(zip(reader.plan.nodes[child].key, key, strict=True))
    return tuple(named[a] for a in reader.plan.nodes[node].attributes)


def _check_rows(
    reader: _Reader,
    i: int,
    rows: list[dict[int, _Row]],
    groups: list[dict[tuple[int, ...], int]],
    in_view: list[set[int]],
) -> None:
    node, children = reader.plan.nodes[i], reader.children[i]
    parents = [{g: reader.parents_of(c, g) for g in groups[c].values()} for c in children]
    held = [{g for g in groups[c].values() if reader.children_of(c, g)[0]} for c in children]
    for h, row in rows[i].items():
        assert row.group == groups[i].get(row.key), f"{node.name}: a row names a wrong group"
        assert (row.place >= 0) == (h in in_view[i]), f"{node.name}: row {row.values} in V_s: {row.place >= 0}"
        for j, (key, g, position) in enumerate(row.below):
            assert g == groups[children[j]].get(key), f"{node.name}: a row names a wrong child group"
            assert parents[j][g][position] == h, f"{node.name}: a position in a parents list is wrong"
        full = sum(g in held[j] for j, (_, g, _) in enumerate(row.below))
        counted = row.place >= 0 or row.place == at.place_outside(full)
        assert counted, f"{node.name}: {row.values} has the place {row.place}, but {full} children with its key"


def _check_groups(
    reader: _Reader,
    i: int,
    rows: list[dict[int, _Row]],
    groups: list[dict[tuple[int, ...], int]],
    in_view: list[set[int]],
    live: list[set[int]],
    live_on: bool,
) -> None:
    node = reader.plan.nodes[i]
    k = len(node.key)
    carried = reader.carried(i)
    below: dict[tuple[int, ...], set[int]] = {}
    for h, row in rows[i].items():
        below.setdefault(row.key, set()).add(h)
    if i in reader.layout.summed:
        below = {key: {_SUM} for key, g in groups[i].items() if reader.children_of(i, g)[0]}
    above: dict[tuple[int, ...], set[int]] = {}
    if node.parent >= 0:
        j = reader.children[node.parent].index(i)
        for h, row in rows[node.parent].items():
            above.setdefault(row.below[j][0], set()).add(h)
        assert set(groups[i]) == set(below) | set(above), f"{node.name}: groups without rows, or rows without groups"
    for key, g in groups[i].items():
        live_count = int(at.live_parents(reader.halves, g, k))
        assert reader.references(i, g) == len(below.get(key, ())), f"{node.name}: references of group {key}"
        handles, values = reader.children_of(i, g)
        assert len(handles) == len(set(handles)), f"{node.name}: a row stands twice in V_s"
        expected = below.get(key, set()) & in_view[i]
        if node.padded and not expected and key in above:
            expected = {reader.padding_of(i)}
        assert len(handles) == len(expected), f"{node.name}: number of children of group {key}"
        assert carried == A.COUNTED or set(handles) == expected, f"{node.name}: children of group {key}"
        for position, h in enumerate(handles if carried != A.COUNTED else ()):
            at_home = h not in rows[i] or rows[i][h].place == position  # the padding is in many groups
            assert at_home, f"{node.name}: a position in a children list is wrong"
            assert values is None or values[position] == reader.arena[h + carried], (
                f"{node.name}: a carried value is stale"
            )
        if node.parent < 0:
            assert live_count == 1, "the root's group has exactly one live parent"
            continue
        parents = reader.parents_of(i, g)
        assert len(parents) == len(set(parents)), f"{node.name}: a parent stands twice"
        assert set(parents) == above.get(key, set()), f"{node.name}: parents of group {key}"
        if live_on:
            telling = above.get(key, set()) & live[node.parent] if node.free else set()
            assert set(parents[:live_count]) == telling, f"{node.name}: live parents of group {key}"
            assert live_count == len(telling), f"{node.name}: number of live parents of group {key}"


def _check_words(
    state: State, reader: _Reader, rows: list[dict[int, _Row]], groups: list[dict[tuple[int, ...], int]]
) -> None:
    """Checks that header, slots, rows, groups, lists and dictionary add up to the live words."""

    def block(words: int) -> int:
        return int(class_words(size_class(words)))

    plan = state.plan
    total = A.header_words(state.compiled.tables)
    total += sum(block(int(state.arena[table_at(t) + A.T_CAPACITY])) for t in range(state.compiled.tables))
    for i, node in enumerate(plan.nodes):
        if i == _owner(reader, i):
            records = len(rows[i]) if node.kind == "virtual" else len(reader.handles(table_at(at.rows_table(i))))
            total += records * block(int(reader.plan_array[reader.layout.record[i] + R_WORDS]))
        if node.padded:
            total += block(int(reader.plan_array[reader.layout.record[i] + R_WORDS]))
        k = len(node.key)
        bundles = reader.handles(table_at(at.groups_table(len(plan.nodes), i))) if i else [0]
        root = int(at.group_words(0, at.IN_WORD))
        words = int(reader.plan_array[reader.plan_array[node_at(i) + N_INDEX] + I_WORDS]) if i else root
        total += len(bundles) * block(words)
        for g in groups[i].values():
            children = int(at.list_room(reader.halves, at.children_field(g, k), at.CHILDREN))
            if children:
                total += block(at.list_words(children, reader.carried(i)))
            parents = int(at.list_room(reader.halves, at.parents_field(g, k), at.PARENTS))
            if parents:
                total += block(at.list_words(parents, int(A.PLAIN)))
    for h in reader.handles(table_at(at.dictionary_table(len(plan.nodes)))):
        total += block(int(strings.entry_words(int(state.arena[h]) & strings.LENGTH)))
    far = payload_invariants.far_words(reader.arena, plan, state.compiled)
    assert len(far) == int(state.arena[A.H_FAR]), f"{int(state.arena[A.H_FAR])} far parts, {len(far)} in groups"
    total += sum(map(block, far))
    assert total == int(state.arena[A.H_LIVE]), f"{int(state.arena[A.H_LIVE])} words handed out, {total} accounted for"


def _owner(reader: _Reader, node: int) -> int:
    """Returns the node whose table has a node's records: the first alias of its relation."""
    return int(reader.plan_array[reader.plan_array[reader.layout.record[node] + R_NODES]])
