"""The laws of a stage and of a store, as checks that every implementation is run through.

A stage: the sum of what it passed on is what it has; a batch that is refused leaves it as it was; a batch that is
undone, too, and what that passes on is the inverse; applied again, it does the same.

A store: the sum of what took place is what is there, no row less than once; a change that is refused has changed
nothing; what is rolled back leaves nothing; what is marked outlives a sweep of the dictionary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crown.errors import MemoryBudgetError
from crown.programs.runtime import ProgramRuntime
from crown.stages.protocol import Part, Stage
from crown.store.zset import Zset

Codes = tuple[int, ...]


def counted(nets: Iterable[Zset]) -> Counter[Codes]:
    """The sum of nets, without rows that cancel out."""
    total: Counter[Codes] = Counter()
    for net in nets:
        for row, weight in zip(net.rows.tolist(), net.weights.tolist(), strict=True):
            total[tuple(row)] += weight
    return Counter({row: weight for row, weight in total.items() if weight})


def plus(one: Counter[Codes], other: Counter[Codes], sign: int = 1) -> Counter[Codes]:
    """The sum of two nets."""
    total = Counter(one)
    for row, weight in other.items():
        total[row] += sign * weight
    return Counter({row: weight for row, weight in total.items() if weight})


@dataclass
class Lawful:
    """The stages of a program, each run through the law in every batch. What goes between them is kept."""

    runtime: ProgramRuntime
    rooms: Iterable[int] = (-1, 24, 60, 150)  # words that are left, from batch to batch anew

    def __post_init__(self) -> None:
        self.there: dict[str | int, Zset] = {}
        self.refused: set[type[Stage]] = set()  # kinds of stages that had too little memory for some batch

    def batch(self, changes: dict[str, Any]) -> None:
        """Applies a batch to the base tables and, one after the other, to the stages."""
        runtime = self.runtime
        nets: dict[str | int, Zset] = dict(runtime._empty_base_nets)
        nets |= runtime.base_tables.apply(runtime.prepare(changes))
        for name, net in nets.items():
            self._keep(name, net)
        for number, stage in enumerate(runtime.stages):
            inputs = [nets[source] for source in runtime._sources[number]]
            nets[number] = self._applied(number, stage, inputs)
            self._keep(number, nets[number])

    def _keep(self, source: str | int, net: Zset) -> None:
        before = self.there.get(source, Zset.empty(net.width))
        self.there[source] = Zset.gathered([before, Zset(net.rows, net.weights)], net.width).net()

    def _rows(self, number: int, stage: Stage, sources: Sequence[Iterable[Zset]]) -> Counter[Codes]:
        found = counted(stage.scan(sources))
        assert all(weight > 0 for weight in found.values()), "a row is there less than once"
        for row in list(found)[:3]:
            assert stage.multiplicity(np.array(row, np.int64), sources) == found[row]
        return found

    def _applied(self, number: int, stage: Stage, inputs: list[Zset]) -> Zset:
        now = [[self.there[source]] for source in self.runtime._sources[number]]
        was = [
            [Zset.gathered([self.there[source], Zset(net.rows, -net.weights)], net.width).net()]
            for source, net in zip(self.runtime._sources[number], inputs, strict=True)
        ]
        before = self._rows(number, stage, was)
        self._refused(number, stage, inputs, was, before)
        net = stage.apply(inputs)
        change, columns = counted([net]), len(stage.columns)
        assert net.width == columns
        if not self.runtime.wires[number].may_repeat:
            assert len(change) == len(net), "what is passed on is net"
        after = self._rows(number, stage, now)
        assert after == plus(before, change), "the sum of what was passed on is what is there"
        back = stage.undo(inputs)
        assert counted([back]) == plus(Counter(), change, -1), "what undoing passes on is the inverse"
        stage.check_invariants()
        assert self._rows(number, stage, was) == before, "a batch that is undone leaves nothing"
        again = stage.apply(inputs)
        assert counted([again]) == change, "applied again, a batch does the same"
        stage.check_invariants()
        assert self._rows(number, stage, now) == after
        return again

    def _refused(
        self,
        number: int,
        stage: Stage,
        inputs: list[Zset],
        was: Sequence[Iterable[Zset]],
        before: Counter[Codes],
    ) -> None:
        """Applies a batch with less and less room; where it is refused, the stage is as it was."""
        budget = self.runtime.memory.budget
        for words in self.rooms:
            with budget.limited(budget.used + words):
                try:
                    stage.apply(inputs)
                except MemoryBudgetError:
                    self.refused.add(type(stage))
                    stage.check_invariants()
                    assert self._rows(number, stage, was) == before, "a batch that is refused leaves nothing"
                    continue
            with budget.lifted():
                stage.undo(inputs)
            return


@dataclass
class Store:
    """A store under test: how it changes, what is there, and how its last change is rolled back.

    ``change`` returns what took place; ``back`` is given that.
    """

    part: Part
    change: Callable[[Zset], Zset]
    back: Callable[[Zset], object]
    scan: Callable[[], Iterator[Zset]]
    check: Callable[[], object]
    mark: Callable[[], object]
    texts: Sequence[int] = ()  # the columns that refer to the dictionary
    told: Callable[[], object] = lambda: None  # what else is known, and changes with the rows

    def rows(self) -> Counter[Codes]:
        """What is there."""
        found = counted(self.scan())
        assert all(weight > 0 for weight in found.values()), "a row is there less than once"
        return found

    def values(self) -> Counter[tuple[Any, ...]]:
        """What is there, with the values that codes refer to."""
        codes = self.rows()
        texts = {code for row in codes for i, code in enumerate(row) if i in self.texts}
        known = dict(
            zip(texts, self.part.dictionary.extern(np.array([*texts], np.int64), "string").to_pylist(), strict=True)
        )
        return Counter(
            {tuple(known[c] if i in self.texts else c for i, c in enumerate(row)): n for row, n in codes.items()}
        )

    def batch(self, events: Zset) -> None:
        """Changes the store, and looks at everything that the law says."""
        before, told, budget = self.rows(), self.told(), self.part.budget
        refused = 0
        for words in range(0, 4000, 20):
            try:
                with budget.limited(budget.used + words):
                    took = self.change(events)
                break
            except MemoryBudgetError:
                refused += 1
                self.check()
                assert (self.rows(), self.told()) == (before, told), "a change that is refused has changed nothing"
        else:
            took = self.change(events)
        after = self.rows()
        assert after == plus(before, counted([took])), "the sum of what took place is what is there"
        self.check()
        self.back(took)
        self.check()
        assert (self.rows(), self.told()) == (before, told), "what is rolled back leaves nothing"
        assert counted([self.change(events)]) == counted([took])
        values = self.values()
        self.mark()
        self.part.dictionary.sweep()
        assert self.values() == values, "what is marked outlives a sweep"
        self.check()
        self.refused = refused
