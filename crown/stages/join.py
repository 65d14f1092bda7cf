"""A join core as a stage of a program: its relations are base tables, or ``#i`` for stage i."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from crown.engine.core import Core
from crown.engine.invariants import tree as invariants
from crown.engine.state.arenas import State
from crown.engine.statistics import statistics
from crown.errors import ChangeError
from crown.ingest.batch import MissingDeletes, RelationChange
from crown.kernels import arena as A
from crown.stages.groups.terms import TOO_LARGE, too_large
from crown.stages.state.memory import ProgramMemory, parts_of
from crown.store.budget import Share
from crown.store.codec import decode
from crown.store.zset import Zset
from plans.payloads.payload import VALUE
from plans.plan import Plan
from plans.program import JoinStage
from plans.reads import Parts
from plans.schema import Column, Table, source_of


class Taken:
    """What a join takes of the nets of its inputs, ``inputs``, and its ``plan`` over that.

    ``sources``: the columns of what it reads, by relation.
    """

    def __init__(self, plan: Plan, sources: Mapping[str | int, Sequence[Column]]) -> None:
        self.plan = _narrowed(plan, sources)
        self._relations = [table.name for table in self.plan.tables]
        self.inputs = tuple(source_of(name.lower()) for name in self._relations)
        self._words: list[list[int] | None] = []
        for table, source in zip(self.plan.tables, self.inputs, strict=True):
            place = {column.name.lower(): i for i, column in enumerate(sources[source])}
            words = [place[column.name.lower()] for column in table.columns]
            self._words.append(None if words == list(range(len(place))) else words)  # None: all, as they come

    def nets(self, nets: Sequence[Zset]) -> dict[str, Zset]:
        """Returns the nets that have rows, with the columns of the plan's tables, by name of the relation."""
        return {
            name: net if words is None else net.project(words)
            for name, words, net in zip(self._relations, self._words, nets, strict=True)
            if len(net)
        }

    def known(self, held: Mapping[str | int, Parts]) -> dict[str, Parts]:
        """Returns the conditions that all rows of a source are known to meet by relation, in lower case."""
        relations = zip(self._relations, self.inputs, strict=True)
        return {name.lower(): held[source] for name, source in relations if source in held}


class Join:
    """Runs a join stage (see ``crown.stages.protocol.Stage``).

    ``sources``: the columns of what it reads, by relation; its parts in ``memory`` begin with number ``first``.
    ``added``: whoever reads its rows adds them up, so they need not be net. ``held``: conditions that all rows of a
    source are known to meet; ``apart``: base relations (in lower case) whose changes are not net.
    """

    def __init__(
        self,
        stage: JoinStage,
        sources: Mapping[str | int, Sequence[Column]],
        memory: ProgramMemory,
        first: int,
        added: bool = False,
        held: Mapping[str | int, Parts] = MappingProxyType({}),
        apart: frozenset[str] = frozenset(),
    ) -> None:
        self._taken = Taken(stage.plan, sources)
        plan, self.inputs = self._taken.plan, self._taken.inputs
        self.stage = stage
        self._added = plan.payload is not None and (added or stage.mode == "payload")
        self.columns = tuple(Column(output.name, output.type) for output in plan.output)
        arena, n = memory.mapping(first, parts_of(stage)), memory.budget.words
        new = arena[A.H_MAGIC] == 0
        self._state = State(plan, arena, memory.file, memory.dictionary, n, Share(memory.budget, first), True)
        if new:
            self._state.format(n)
        self.parts = tuple(self._state.parts)
        self._dictionary = memory.dictionary
        self._core = Core(self._state, self._taken.known(held), apart)
        self._floats = _summed_floats(plan)

    @property
    def state(self) -> State:
        """Returns the state of the tree."""
        return self._state

    def apply(self, nets: Sequence[Zset]) -> Zset:
        """See ``Stage.apply``; in payload mode the rows carry their sums. O(changes * lambda + deltas).

        Raises ChangeError for a double that cannot be summed.
        """
        changes = self._changes(nets)
        for change in changes if self._floats else ():
            self._refuse_too_large(change)
        if self._added:
            return self._gathered(list(self._core.events(changes)))
        return self._gathered([block.copy() for block in self._core.apply(changes)])

    def _gathered(self, blocks: list[Zset]) -> Zset:
        blocks = [block for block in blocks if block.weights.size] or blocks[:1]
        return blocks[0] if len(blocks) == 1 else Zset.gathered(blocks, len(self.columns))

    def _refuse_too_large(self, change: RelationChange) -> None:
        """Raises ChangeError if a value that is a factor of a sum has no fixed point."""
        for relation, column in self._floats:
            if change.relation.name.lower() != relation or column not in change.relation.columns:
                continue
            word = change.relation.columns.index(column)
            for sign in (-1, 1):
                values = np.ascontiguousarray(change.tuples(sign).rows[:, word]).view(np.float64)
                found = too_large(values)
                if found.any():
                    raise ChangeError(f"column {column!r}: {float(values[found.argmax()])!r} {TOO_LARGE}")

    def _changes(self, nets: Sequence[Zset]) -> tuple[RelationChange, ...]:
        return self._core.changes(self._taken.nets(nets))

    def settle(self) -> None:
        """See ``Stage.settle``."""
        self._core.settle()

    def take_back(self, nets: Sequence[Zset]) -> None:
        """See ``Stage.take_back``."""
        self._core.take_back()

    def undo(self, nets: Sequence[Zset]) -> Zset:
        """See ``Stage.undo``."""
        if self._added:
            return self._gathered(self._core.undo_events(self._changes(nets), MissingDeletes()))
        return self._core.undo(self._changes(nets), MissingDeletes())

    def scan(self, sources: Sequence[Iterable[Zset]] = ()) -> Iterator[Zset]:
        """See ``Stage.scan``. O(1) per row."""
        for block in self._core.results.tuples():
            yield block.copy()

    def multiplicity(self, row: np.ndarray, sources: Sequence[Iterable[Zset]] = ()) -> int:
        """See ``Stage.multiplicity``. Expected O(1)."""
        extern = self._dictionary.extern
        arrays = [decode(row[i : i + 1].copy(), column.type, extern) for i, column in enumerate(self.columns)]
        return self._core.results.copies_of(arrays)

    def mark_values(self) -> None:
        """See ``Stage.mark_values``."""
        self._state.mark_values()

    def check_invariants(self) -> None:
        """See ``Stage.check_invariants``."""
        invariants.check(self._core)

    def stats(self) -> dict[str, Any]:
        """See ``Stage.stats``."""
        return statistics(self._state)


def _narrowed(plan: Plan, sources: Mapping[str | int, Sequence[Column]]) -> Plan:
    """Returns the plan over tables that have only the columns that come."""
    come = [{column.name.lower() for column in sources[source_of(table.name.lower())]} for table in plan.tables]
    tables = tuple(
        Table(table.name, tuple(column for column in table.columns if column.name.lower() in names))
        for table, names in zip(plan.tables, come, strict=True)
    )
    return replace(plan, tables=tables)


def _summed_floats(plan: Plan) -> list[tuple[str, str]]:
    """Returns the relations (in lower case) and columns of doubles that are factors of sums."""
    found = set()
    for term in plan.payload.terms if plan.payload is not None else ():
        for i, name, what in term:
            node = plan.nodes[i]
            if what == VALUE and plan.attributes[name].type == "float64":
                found.add((node.relation.lower(), node.columns[node.attributes.index(name)]))
    return sorted(found)
