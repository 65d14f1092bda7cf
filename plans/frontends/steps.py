"""Reads the steps of a recursion, in any query language: what a step derives depends on the columns of what it
reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Generic, TypeVar

from plans.errors import PlanError
from plans.frontends.monotone import why_not_monotone
from plans.frontends.recursive import Member, readings, recursion
from plans.queries.algebra import Query, Relation, Source
from plans.schema import Column, Table

Step = TypeVar("Step")
Best = tuple[tuple[int, ...], str]
"""The positions of columns, and `min` or `max`: see `Member.best`."""


class Steps(ABC, Generic[Step]):
    """The relations of a recursion, by name: the first rows and the columns of those that have some, and the steps of
    each, as they are written.

    `best`: the column that has MIN or MAX and those that have MIN_BY or MAX_BY, if there are some, and `min` or `max`.
    """

    PART: ClassVar[str]
    """What the language calls a part of a relation: a branch, or a rule."""

    def __init__(
        self,
        first: Mapping[str, Relation],
        columns: Mapping[str, Sequence[Column]],
        steps: Mapping[str, Sequence[Step]],
        best: Mapping[str, Best],
    ) -> None:
        self.first, self.steps, self.best = first, steps, best
        self.columns = {name: tuple(known) for name, known in columns.items()}
        self.widens = True  # whole numbers

    @abstractmethod
    def spelled(self, name: str) -> str:
        """Returns the name of a relation as the query spells it."""

    @abstractmethod
    def needs(self, step: Step) -> set[str]:
        """Returns the relations of the recursion that a step reads."""

    @abstractmethod
    def shown(self, columns: Mapping[str, Sequence[Column]]) -> dict[str, Table]:
        """Lets steps read relations with these columns. Returns the tables of their rows."""

    @abstractmethod
    def read(self, name: str, step: Step) -> Relation:
        """Returns the relation of a step. Raises PlanError if it has not as many columns as the relation `name`."""

    @abstractmethod
    def error(self, name: str, step: Step | None, what: str, hint: str) -> PlanError:
        """Returns the error about a step, or about a relation."""

    @abstractmethod
    def no_step(self, name: str, step: Step, why: str, hint: str) -> PlanError:
        """Returns the error that a step is more than a join."""

    @abstractmethod
    def check_type(self, name: str, step: Step, place: int, type_: str) -> None:
        """Raises PlanError if values of a column of a step cannot be those of the relation's column."""

    def relations(self) -> dict[str, Relation]:
        """Returns the relations."""
        self._open()
        while True:
            rows = self.shown(self.columns)
            made = {name: [self._step(name, step, rows) for step in steps] for name, steps in self.steps.items()}
            wider = {name: self._wider(name, [step for step, _ in made[name]]) for name in self.steps}
            if wider == self.columns:
                break
            self.columns = wider
        members = {
            name: Member(rows[name], self.first.get(name), made[name], *self.best.get(name, ((), ""))) for name in made
        }
        self._check_best(members)
        return dict(zip(members, recursion(list(members.values())), strict=True))

    def _open(self) -> None:
        """Finds the columns of relations without first rows: those of a step that reads only relations whose columns
        are known."""
        while missing := [name for name in self.steps if name not in self.columns]:
            ready = [(name, one) for name in missing for one in self.steps[name] if not self.needs(one) & set(missing)]
            if not ready:
                *others, last = map(self.spelled, missing)
                which = f"{', '.join(others)} and {last} reads one of them" if others else f"{last} reads {last}"
                hint = "begin with rows that do not"
                raise self.error(missing[0], None, f"every {self.PART} of {which}", hint)
            name, step = ready[0]
            self.shown(self.columns)
            self.columns[name] = self.read(name, step).columns

    def _step(self, name: str, step: Step, rows: Mapping[str, Table]) -> tuple[Query, Sequence[Source]]:
        made = self.read(name, step)
        others = (table for other, table in rows.items() if other != name)
        mine = readings(made, [rows[name], *others], self.spelled(name))
        if isinstance(mine, tuple):
            raise self.no_step(name, step, *mine)
        assert isinstance(made, Query), "it reads rows of the recursion"
        return made, mine

    def _wider(self, name: str, steps: Sequence[Query]) -> tuple[Column, ...]:
        """Returns the columns of a relation, with wider whole numbers if a step has them."""
        columns = list(self.columns[name])
        for written, step in zip(self.steps[name], steps, strict=True):
            for place, (column, found) in enumerate(zip(self.columns[name], step.columns, strict=True)):
                if self.widens and (column.type, found.type) == ("int32", "int64"):
                    columns[place] = replace(column, type=found.type)
                else:
                    self.check_type(name, written, place, found.type)
        return tuple(columns)

    def _check_best(self, members: Mapping[str, Member]) -> None:
        """Raises PlanError if a step may derive a worse row from a better one."""
        best = [
            (name, one.function.upper(), " and ".join(one.columns[place].type for place in one.best))
            for name, one in members.items()
            if one.best
        ]
        for name, function, types in best:
            if (function, types) != best[0][1:]:
                has = [
                    f"{self.spelled(one)} has {what} of {kind}"
                    for one, what, kind in (best[0], (name, function, types))
                ]
                hint = "give them the same function, of values of the same type"
                raise self.error(name, None, f"{' and '.join(has)}, and they read each other", hint)
        for name, member in members.items() if best else ():
            for written, (step, mine) in zip(self.steps[name], member.steps, strict=True):
                why = why_not_monotone(step, mine, member, list(members.values()))
                if why is not None:
                    what = f"{self.spelled(best[0][0])} has {best[0][1]}, and {why[0]}"
                    raise self.error(name, written, what, why[1])
