"""Loads large batches of inserts in bulk, as far as memory allows, and the rest tuple by tuple.

tuples of a source -> tables sized for their new keys -> chunks, each inserted as a whole

A bulk load has a task per edge and alias of a source. At the edge above an alias, its rows enter their groups. At an
edge below, they are linked to groups as parents. Both pass through a table in the order of its slots, and tasks with
the same look-up share a pass. Linking also counts, so everything below must be present: a link has a later pass than
all tasks of aliases below its edge.

A bulk load cannot stop half-way, so its memory is bounded, and reserved before the load. The bound uses counts only:
the maximum of new records, groups and list entries, each in its own block, and every list moved to a larger block as
often as possible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from crown.engine.compile import CompiledPlan
from crown.engine.kernels import layout
from crown.engine.kernels.groups import lookup_at, node_at
from crown.engine.kernels.update import DONE
from crown.engine.load.kernels import bulk, distinct
from crown.engine.load.kernels.warm import ensure_load_compiled
from crown.engine.state import State
from crown.ingest.batch import EVERY
from crown.kernels.memory import arena as A
from crown.kernels.memory.arena import COUNTED, LINE, PLAIN, T_CAPACITY, T_COUNT, class_words, size_class
from crown.kernels.memory.geometry import T_ROWS
from crown.kernels.memory.tables import is_full
from crown.kernels.numbers.fixed import FLOAT_TOP


def words_for(arena: np.ndarray, compiled: CompiledPlan, record: int, n: int, total: int, far: bool = False) -> int:
    """Returns an upper bound of the words that inserting ``n`` tuples into the source with descriptor ``record`` takes.

    ``total``: tuples for which its tables are sized. ``far``: sums may have far parts. O(nodes).
    """
    plan = compiled.array
    nodes = range(int(plan[layout.P_COUNT]))
    first = int(plan[record + layout.R_NODES])
    aliases = {int(plan[q]) for q in range(first, first + int(plan[record + layout.R_ALIASES]))}
    rows = {i: int(arena[plan[node_at(i) + layout.N_ROWS] + T_ROWS]) for i in nodes}
    new_rows = dict.fromkeys(nodes, 0)
    touched = dict.fromkeys(nodes, False)
    keys: dict[int, int] = {}
    sized: dict[int, int] = {}
    _look_up(plan, record, n, keys)
    _look_up(plan, record, total, sized)
    words = LINE + n * _block(int(plan[record + layout.R_WORDS]))
    words += _slots(arena, int(plan[record + layout.R_TABLE]), total)
    for i in reversed(nodes):  # children first
        d = node_at(i)
        below = plan[plan[d + layout.N_CHILD] : plan[d + layout.N_CHILD] + plan[d + layout.N_CHILDREN]].tolist()
        touched[i] = i in aliases or any(touched[c] for c in below)
        if i in aliases:
            new_rows[i] = n
        elif touched[i] and plan[d + layout.N_VIRTUAL] == 1:
            new_rows[i] = max(sum(rows[c] + new_rows[c] for c in below) - rows[i], 0)
            words += new_rows[i] * _block(int(plan[plan[d + layout.N_RECORD] + layout.R_WORDS]))
            _look_up(plan, int(plan[d + layout.N_RECORD]), new_rows[i], keys)
    for index, number in keys.items():
        words += number * _block(int(plan[index + layout.I_WORDS]))
        words += _slots(arena, int(plan[index + layout.I_TABLE]), max(number, sized.get(index, 0)))
    for i in nodes:
        d, after = node_at(i), rows[i] + new_rows[i]
        carried = plan[d + layout.N_CARRIED]
        if touched[i] and carried != COUNTED:  # a block has less than twice the words used, after doubling
            words += (2 if carried == PLAIN else 7) * after  # at most, including the change to wide entries
        parent = int(plan[d + layout.N_PARENT])
        if parent < 0:
            continue
        if new_rows[parent]:
            words += 2 * (rows[parent] + new_rows[parent])
        # An entry has a word less than a group's part.
        if touched[i] and plan[d + layout.N_PAYLOAD] and not plan[d + layout.N_FREE]:
            index = int(plan[d + layout.N_INDEX])
            groups = int(arena[plan[index + layout.I_TABLE] + T_COUNT]) + keys.get(index, 0)
            words += groups * _block(int(plan[d + layout.N_EXTRA]))
            if far and compiled.payload is not None:  # one for a group, one for its entry
                parts = compiled.payload.parts[i]
                limbs = [parts.far_limbs(term) for term in parts.terms if parts.doubles[term]]
                words += 2 * groups * sum(_block(1 + m) for m in limbs)
    return words


def _look_up(plan: np.ndarray, record: int, n: int, keys: dict[int, int]) -> None:
    """Adds to ``keys``, per index, the bundles that ``n`` records of that descriptor can need."""
    for q in range(int(plan[record + layout.R_LOOKUPS])):
        index = int(plan[lookup_at(plan, record, q) + layout.LOOKUP_INDEX])
        keys[index] = keys.get(index, 0) + n


def _block(words: int) -> int:
    """Returns the words of the block that ``alloc`` returns for ``words`` words."""
    return int(class_words(size_class(words)))


def _slots(arena: np.ndarray, table: int, more: int) -> int:
    """Returns the words of the new slots of a table with ``more`` more records, including intermediate sizes."""
    capacity = present = int(arena[table + T_CAPACITY])
    while is_full(int(arena[table + T_COUNT]) + more, capacity):
        capacity *= 2
    return 2 * capacity if capacity > present else 0


class _Task(NamedTuple):
    look: int  # number of the look-up, -1 at the root
    alias: int  # bit of the alias
    child: int  # number of the child whose groups are linked; -1: the alias enters


def tasks_of(compiled: CompiledPlan, node: int) -> np.ndarray:
    """Returns the tasks of the source of ``node``, int64: look-up, bit of the alias, child, pass; see ``edges.TASK``.

    The last word is the look-up that most passes use, or -1. O(aliases^3).
    """
    nodes = aliases_of(compiled, node)
    below = [_below(compiled, alias) for alias in nodes]
    waiting = [task for bit, alias in enumerate(nodes) for task in _tasks(compiled, bit, alias)]
    words: list[int] = []
    looks: list[int] = []  # one per pass
    while waiting:
        before = {task: [other for other in waiting if _before(nodes, below, other, task)] for task in waiting}
        ready = [task for task in waiting if not before[task]]
        counts = Counter(task.look for task in ready)
        look = max(counts, key=lambda look: (look >= 0, counts[look]))
        together = [task for task in ready if task.look == look]
        # A row that has been linked in this pass can enter in the same pass.
        together += [t for t in waiting if t.look == look and t.child < 0 and before[t] and {*before[t]} <= {*together}]
        words += [word for task in together for word in (*task, len(looks))]
        looks.append(look)
        waiting = [task for task in waiting if task not in together]
    return np.array([*words, max(looks, key=lambda look: (look >= 0, looks.count(look)))], np.int64)


def aliases_of(compiled: CompiledPlan, node: int) -> list[int]:
    """Returns the nodes of the aliases of the source of ``node``, in the order of their mask bits."""
    plan, record = compiled.array, compiled.record[node]
    first = int(plan[record + layout.R_NODES])
    nodes: list[int] = plan[first : first + int(plan[record + layout.R_ALIASES])].tolist()
    return nodes


def _tasks(compiled: CompiledPlan, bit: int, node: int) -> list[_Task]:
    at, plan, children = node_at(node), compiled.array, compiled.children[node]
    looks = plan[plan[at + layout.N_LOOKUPS] :][: 1 + len(children)].tolist()
    own_look = -1 if plan[at + layout.N_PARENT] < 0 else looks[0]
    return [_Task(own_look, bit, -1), *(_Task(looks[1 + j], bit, j) for j in range(len(children)))]


def _below(compiled: CompiledPlan, node: int) -> list[set[int]]:
    """Returns, per child of a node, the nodes of the child's subtree."""
    found = []
    for child in compiled.children[node]:
        subtree = [child]
        for i in subtree:
            subtree.extend(compiled.children[i])
        found.append(set(subtree))
    return found


def _before(nodes: list[int], below: list[list[set[int]]], first: _Task, then: _Task) -> bool:
    """Returns True if a task must precede another: links before entering, everything below before a link."""
    if then.child < 0:
        return first.alias == then.alias and first.child >= 0
    return nodes[first.alias] in below[then.alias][then.child]


MASKED = 32  # aliases of a source: the mask bits that a load carries with a record


class Loader:
    """Inserts large batches into the arena of a compiled plan. ``scratch``: the scratch array of the kernels.

    ``min_tuples``: fewer tuples are inserted one by one. ``chunk_tuples``: the maximum of a chunk. Each tuple of a
    chunk takes 16 bytes in addition to the state while it is inserted.
    """

    min_tuples = 1 << 14
    chunk_tuples = 1 << 23

    def __init__(self, state: State, scratch: np.ndarray) -> None:
        self._arena = state.arena
        self._compiled = state.compiled
        self._budget, self._part = state.budget, state.first
        self._state = (state.arena, state.halves, state.plan_array, scratch)
        self._depths: dict[int, int] = {}  # node -> depth of the deepest alias of its source

    def load(self, node: int, values: np.ndarray, copies: np.ndarray, masks: np.ndarray, out: np.ndarray) -> int:
        """Inserts tuples into the source of ``node``, as ``update.insert_batch`` does without deltas and live views.

        Returns the number of inserted tuples, which are the first ones. The others, perhaps all, must be inserted one
        by one: they are few, there may be too little memory for them, or one might get too many copies. O(n +
        P-updates).
        """
        n, record = len(copies), self._compiled.record[node]
        if n < self.min_tuples:
            return 0
        far = self._far(node, values)
        if (step := self._fitting(record, n, n, far)) < self.min_tuples:
            return 0
        if masks is not EVERY and len(aliases_of(self._compiled, node)) > MASKED:
            return 0
        ensure_load_compiled(self._compiled.ring is not None)
        sample = np.empty(distinct.WORDS, np.int64)
        new = int(bulk.reserve_tables(*self._state, record, values, n, sample))
        step = max(min(step, 2 * new), self.min_tuples)  # present tuples also get records, which are freed
        starts, fresh, entries = np.empty(bulk.WORK, np.int64), np.empty(step, np.int64), np.empty(step, np.int64)
        tasks, total, done = tasks_of(self._compiled, node), int(copies.sum()), 0
        while (m := self._fitting(record, min(n - done, step), 0, far)) >= min(n - done, self.min_tuples) > 0:
            batch = (values, copies, masks, self._compiled.ring, done, m, total, tasks)
            if bulk.load_batch(*self._state, record, *batch, starts, fresh, entries, out) != DONE:
                break
            done += m
        return done

    def deepest_first(self, nodes: Sequence[int]) -> list[int]:
        """Returns the positions of ``nodes`` in the order in which loading their sources takes the least work."""
        for node in nodes:
            if node not in self._depths:
                self._depths[node] = max(map(self._depth, aliases_of(self._compiled, node)))
        return sorted(range(len(nodes)), key=lambda i: -self._depths[nodes[i]])

    def _fitting(self, record: int, n: int, total: int, far: bool) -> int:
        """Returns how many tuples, at most ``n``, can be inserted at once. Tables are sized for ``total``. ``far``:
        sums may have far parts."""
        n, load = min(n, self.chunk_tuples), (self._arena, self._compiled, record)
        while n >= self.min_tuples and not self._budget.provide(self._part, words_for(*load, n, total, far)):
            n //= 2
        return n

    def _far(self, node: int, values: np.ndarray) -> bool:
        """Returns True if inserting tuples, given row by row, into the source of ``node`` may give sums far parts."""
        payload = self._compiled.payload
        if payload is None or not any(parts.far for parts in payload.parts):
            return False
        if self._arena[A.H_FAR]:
            return True
        width = int(self._compiled.array[self._compiled.record[node] + layout.R_WIDTH])
        words = {self._compiled.words[i][name] for i in aliases_of(self._compiled, node) for name in payload.doubles(i)}
        return not all(_near(values[word::width].view(np.float64)).all() for word in words)

    def _depth(self, node: int) -> int:
        depth = -1
        while node >= 0:
            node, depth = int(self._compiled.array[node_at(node) + layout.N_PARENT]), depth + 1
        return depth


def _near(values: np.ndarray) -> np.ndarray:
    """Returns True for doubles without a far part: zero, sizes from 2^-60 to below 2^80, infinities and NaN."""
    sizes = np.abs(values)
    return (sizes == 0) | ((sizes >= 2.0**-60) & (sizes < 2.0**FLOAT_TOP)) | ~np.isfinite(values)
