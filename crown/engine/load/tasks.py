"""Orders the tasks of a bulk load: one per edge and alias of a source.

At the edge above an alias, its rows enter their groups. At an edge below, they are linked to groups as parents. Both
pass through a table in the order of its slots, and tasks with the same look-up share a pass. Linking also counts, so
everything below must be present: a link has a later pass than all tasks of aliases below its edge.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from crown.engine.compile import CompiledPlan
from crown.engine.kernels.groups import node_at
from crown.engine.kernels.layout import N_LOOKUPS, N_PARENT, R_ALIASES, R_NODES


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
    first = int(plan[record + R_NODES])
    nodes: list[int] = plan[first : first + int(plan[record + R_ALIASES])].tolist()
    return nodes


def _tasks(compiled: CompiledPlan, bit: int, node: int) -> list[_Task]:
    at, plan, children = node_at(node), compiled.array, compiled.children[node]
    looks = plan[plan[at + N_LOOKUPS] :][: 1 + len(children)].tolist()
    own_look = -1 if plan[at + N_PARENT] < 0 else looks[0]
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
