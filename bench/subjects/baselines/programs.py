"""The indexes, views and nested loops that an algorithm needs for a query, as data for ``kernels.propagate``.

The three algorithms, for an update ``t`` of atom ``i``:

- *first-order*: join ``t`` with all other atoms, from scratch.
- *standard* (materialized binary joins, as in stream processors): atoms have a fixed order, and every prefix of the
  join is stored; ``t`` is joined with the stored prefix before it, then with one atom after the other, and every step
  is stored.
- *higher-order* (DBToaster's): without the attributes of ``t`` the other atoms form connected components; each
  component is a view, projected and counted, and maintained by the same rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.subjects.baselines.kernels import propagate as K
from bench.subjects.baselines.kernels import store as S
from crown.kernels.memory.tables import table_at
from plans.plan import Plan


class UnsupportedError(Exception):
    """The algorithm does not support this query here; the message contains the reason."""


@dataclass(frozen=True)
class Atom:
    """An input of the query: its node in the plan and its attributes."""

    node: int
    attributes: tuple[str, ...]


@dataclass
class _Relation:
    attributes: tuple[str, ...]
    counted: bool
    indexes: list[tuple[str, ...]] = field(default_factory=list)

    def index(self, key: Sequence[str]) -> int:
        wanted = tuple(a for a in self.attributes if a in set(key))
        if wanted not in self.indexes:
            self.indexes.append(wanted)
        return self.indexes.index(wanted)


@dataclass(frozen=True)
class _Step:
    relation: int
    index: int
    binds: tuple[str, ...]
    store: int = -1


@dataclass(frozen=True)
class _Program:
    steps: tuple[_Step, ...]
    action: int
    relation: int = -1


@dataclass(frozen=True)
class Compiled:
    """The plan array, the number of hash tables, and for every node of the plan its atom's offset (or -1)."""

    program: np.ndarray
    tables: int
    atoms: dict[int, int]
    attributes: int
    depth: int


def atoms_of(plan: Plan) -> list[Atom]:
    """Returns the inputs in a connected order. Raises UnsupportedError for bags and for filters across inputs."""
    if plan.residual:
        raise UnsupportedError("the query compares columns of different inputs by something else than equality")
    if plan.support or any(node.kind == "bag" for node in plan.nodes):
        raise UnsupportedError("the query is cyclic or not free-connex")
    if any(output.expr.op != "col" for output in plan.output):
        raise UnsupportedError("the query computes its output columns")
    if any(output.type not in ("int64", "int32", "date") for output in plan.output):
        raise UnsupportedError("a baseline's checksum is over integer columns only")
    left = [Atom(i, node.attributes) for i, node in enumerate(plan.nodes) if node.kind == "input"]
    left.sort(key=lambda atom: plan.nodes[atom.node].name)
    ordered = [left.pop(0)]
    while left:
        bound = {a for atom in ordered for a in atom.attributes}
        chosen = max(left, key=lambda atom: len(bound & set(atom.attributes)))
        left.remove(chosen)
        ordered.append(chosen)
    return ordered


class Programs:
    """Collects relations and programs of one algorithm for one plan; ``compiled`` lays them out."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.atoms = atoms_of(plan)
        self.attributes = list(dict.fromkeys(a for atom in self.atoms for a in atom.attributes))
        self.out = tuple(output.expr.value for output in plan.output)
        self.relations = [_Relation(atom.attributes, False) for atom in self.atoms]
        self.programs: list[list[_Program]] = [[] for _ in self.atoms]
        self.full = set(self.out) == set(self.attributes)
        self._views: dict[tuple[frozenset[int], frozenset[str]], int] = {}

    def first_order(self) -> Programs:
        """Returns programs of first-order IVM."""
        last = self._result()
        for i, atom in enumerate(self.atoms):
            bound, steps, left = set(atom.attributes), [], [j for j in range(len(self.atoms)) if j != i]
            while left:
                j = max(left, key=lambda j: (len(bound & set(self.atoms[j].attributes)), -abs(j - i)))
                left.remove(j)
                steps.append(self._step(j, bound))
                bound |= set(self.atoms[j].attributes)
            self.programs[i].append(_Program(tuple(steps), *last))
        return self

    def standard(self) -> Programs:
        """Returns programs of standard change propagation over a left-deep tree of binary joins."""
        last = self._result()
        prefix = [0]  # the relation with the join of atoms 0 .. i
        attributes: tuple[str, ...] = self.atoms[0].attributes
        for atom in self.atoms[1:-1]:
            attributes += tuple(a for a in atom.attributes if a not in attributes)
            prefix.append(self._add(attributes, False))
        for i, atom in enumerate(self.atoms):
            bound, steps = set(atom.attributes), []
            if i > 0:
                steps.append(self._step(prefix[i - 1], bound, prefix[i] if i < len(prefix) else -1))
                bound |= set(self.relations[prefix[i - 1]].attributes)
            for j in range(i + 1, len(self.atoms)):
                steps.append(self._step(j, bound, prefix[j] if j < len(prefix) else -1))
                bound |= set(self.atoms[j].attributes)
            self.programs[i].append(_Program(tuple(steps), *last))
        return self

    def higher_order(self) -> Programs:
        """Returns programs of higher-order IVM."""
        last = self._result()
        for i in range(len(self.atoms)):
            self.programs[i].append(
                _Program(self._parts(frozenset(range(len(self.atoms))), i, frozenset(self.out)), *last)
            )
        return self

    def _parts(self, members: frozenset[int], i: int, kept: frozenset[str]) -> tuple[_Step, ...]:
        """Returns steps that join a tuple of atom ``i`` with the views of the connected components of the other
        members.
        """
        bound = set(self.atoms[i].attributes)
        left, parts = set(members) - {i}, []
        while left:
            part = {left.pop()}
            while True:
                inside = {a for j in part for a in self.atoms[j].attributes} - set(self.atoms[i].attributes)
                more = {j for j in left if inside & set(self.atoms[j].attributes)}
                if not more:
                    break
                part |= more
                left -= more
            parts.append(frozenset(part))
        out = []
        for members in sorted(parts, key=sorted):
            attributes = {a for j in members for a in self.atoms[j].attributes}
            view = self._view(members, frozenset(attributes & (kept | set(self.atoms[i].attributes))))
            out.append(self._step(view, bound))
            bound |= set(self.relations[view].attributes)
        return tuple(out)

    def _view(self, members: frozenset[int], kept: frozenset[str]) -> int:
        """Returns the relation of the view of the join of ``members`` on ``kept``, with programs that maintain it."""
        only = next(iter(members))
        if len(members) == 1 and kept == set(self.atoms[only].attributes):
            return only
        known = self._views.get((members, kept))
        if known is not None:
            return known
        ordered = tuple(a for a in self.attributes if a in kept)
        view = self._add(ordered, True)
        self._views[members, kept] = view
        for i in sorted(members):
            self.programs[i].append(_Program(self._parts(members, i, kept), K.ADD, view))
        return view

    def _result(self) -> tuple[int, int]:
        """Returns the action for a joined tuple: emit it; or count it per output tuple and emit tuples that appear or
        vanish.
        """
        if self.full:
            return K.EMIT, -1
        return K.DISTINCT, self._add(self.out, True)

    def _add(self, attributes: tuple[str, ...], counted: bool) -> int:
        self.relations.append(_Relation(attributes, counted))
        return len(self.relations) - 1

    def _step(self, relation: int, bound: set[str], store: int = -1) -> _Step:
        found = self.relations[relation]
        index = found.index([a for a in found.attributes if a in bound])
        return _Step(relation, index, tuple(a for a in found.attributes if a not in bound), store)

    def compiled(self) -> Compiled:
        """Returns everything as one int64 array."""
        number = {a: i for i, a in enumerate(self.attributes)}
        cells: list[int] = [0] * S.P_HEADER

        def place(values: Sequence[int]) -> int:
            cells.extend(values)
            return len(cells) - len(values)

        cells[S.P_ATTRIBUTES] = len(number)
        cells[S.P_IDENTITY] = place(range(max(len(number), 1)))
        cells[S.P_OUT], cells[S.P_OUTS] = place([number[a] for a in self.out]), len(self.out)
        tables = 0
        indexes: list[list[int]] = []
        for relation in self.relations:
            row = []
            for j, key in enumerate(relation.indexes):
                words = [
                    table_at(len(self.relations) + tables), len(key),
                    place([relation.attributes.index(a) for a in key]), place([number[a] for a in key]),
                    len(relation.attributes) + 1 + j,
                ]  # fmt: skip
                row.append(place(words))
                tables += 1
            indexes.append(row)
        relations = []
        for i, relation in enumerate(self.relations):
            attrs, listed = place([number[a] for a in relation.attributes]), place(indexes[i])
            words = [len(relation.attributes), table_at(i), attrs, len(indexes[i]), listed, int(relation.counted)]
            relations.append(place(words))
        atoms = {}
        for i, atom in enumerate(self.atoms):
            programs = []
            for program in self.programs[i]:
                steps: list[int] = []
                for step in program.steps:
                    relation = self.relations[step.relation]
                    pairs = [x for a in step.binds for x in (relation.attributes.index(a), number[a])]
                    payload = len(relation.attributes) if relation.counted else -1
                    store = relations[step.store] if step.store >= 0 else -1
                    steps += [indexes[step.relation][step.index], len(step.binds), place(pairs), store, payload]
                target = relations[program.relation] if program.relation >= 0 else -1
                programs.append(place([len(program.steps), program.action, target, place(steps)]))
            attrs, listed = place([number[a] for a in atom.attributes]), place(programs)
            atoms[atom.node] = place([relations[i], attrs, len(atom.attributes), len(programs), listed])
        depth = max(len(p.steps) for programs in self.programs for p in programs) if self.atoms else 0
        return Compiled(np.array(cells, np.int64), len(self.relations) + tables, atoms, len(number), depth)
