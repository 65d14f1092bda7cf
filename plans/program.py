"""The program: how a query that is more than one inner join is maintained.

A program is a list of *stages* (`plans.programs.stages`) in topological order; the last one is the result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from plans import serial
from plans.plan import Output, Plan, Result, loaded, rebuilt, table_of
from plans.programs.stages import JoinStage, Stage, identity, once_each, outputs_of
from plans.schema import Table, upserting
from plans.time.windows import Window

VERSION = 1


@dataclass(frozen=True)
class Program:
    """The stages of a query over base `tables`, in topological order; the last one is the result.

    The program of a `Plan` (`program_of`) has the JSON and the fingerprint of the plan. A program with named `results`
    has these results instead; they may be read by stages of others, and there may be no stage at all. A stage that is
    no longer needed is replaced by a linear stage without terms: the others keep their numbers. `whole`: deletes match
    rows by all columns of the tables, including those that no stage reads. `windows`: those of base tables; stages read
    only the rows within them.
    """

    query: str
    tables: tuple[Table, ...]
    stages: tuple[Stage, ...]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    results: tuple[Result, ...] | None = None
    whole: bool = False
    windows: tuple[Window, ...] = ()

    json_may_lack: ClassVar[tuple[str, ...]] = ("results", "whole", "windows")

    _repr_html_: ClassVar[Callable[[Program], str]]  # the drawing for notebooks: plans.show.attached

    @property
    def plan(self) -> Plan | None:
        """Returns the plan whose program this is (see `program_of`), over relations without windows; else None.

        A table with upserts, or an enforced key, needs the rows by key, which a program has before its stages.
        """
        if self.results is not None or self.windows or self.whole or any(table.by_key for table in self.tables):
            return None
        join = self.only_join
        if join is None or join.masks is not None or join.mode != "set":
            return None
        return join.plan if len(self.stages) == 1 + join.plan.support else None

    @property
    def only_join(self) -> JoinStage | None:
        """Returns the join stage if it is the only stage, possibly followed by DISTINCT; else None."""
        first = self.stages[0] if self.stages else None
        if not isinstance(first, JoinStage):
            return None
        return first if self.stages[1:] in ((), (once_each(0, first.plan.output),)) else None

    @property
    def output(self) -> tuple[Output, ...]:
        """Returns the columns of the result: names and types. Their expressions are over the last stage's input."""
        return outputs_of(self.stages[-1])

    def plain(self) -> Program:
        """Returns the program over tables without look-ups by key: the part behind the rows by key."""
        if not any(table.by_key for table in self.tables):
            return self
        stages = tuple(
            replace(stage, plan=replace(stage.plan, tables=tuple(table.plain() for table in stage.plan.tables)))
            if isinstance(stage, JoinStage)
            else stage
            for stage in self.stages
        )
        return replace(self, tables=tuple(table.plain() for table in self.tables), stages=stages)

    def unbounded(self) -> Program:
        """Returns the program over relations without windows: the part behind the windows."""
        return replace(self, windows=())

    def table(self, name: str) -> Table:
        """Returns the base table with that name, ignoring case. Raises PlanError if the program does not use it."""
        return table_of(self.tables, name)

    @cached_property
    def fingerprint(self) -> str:
        """Returns the SHA-256 of the canonical JSON of everything that determines results and state layout: stages,
        windows, upserts, enforced keys, and the columns of a table if all of them are kept."""
        if self.plan is not None:
            return self.plan.fingerprint
        known: dict[str, Any] = {"program": VERSION, "stages": [identity(stage) for stage in self.stages]}
        if self.results is not None:
            known["results"] = [[result.name, result.stage] for result in self.results]
        numbered = {window.relation.lower() for window in self.windows if window.arrival}
        whole = [table for table in self.tables if self.whole or table.name.lower() in numbered]
        if whole:
            known["columns"] = [[t.name.lower(), [[c.name.lower(), c.type] for c in t.columns]] for t in whole]
        upserts = [upserting(table) for table in self.tables if table.upserts]
        if upserts:
            known["upserts"] = sorted(upserts)
        enforced = [[t.name.lower(), [name.lower() for name in t.told_apart_by]] for t in self.tables if t.enforced]
        if enforced:
            known["enforced"] = sorted(enforced)
        if self.windows:
            known["windows"] = [serial.to_json(window) for window in self.windows]
        return hashlib.sha256(serial.canonical(known).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON-able form. `Program.from_json` is its inverse. A program that is a plan has the plan's."""
        if self.plan is not None:
            return self.plan.to_json()
        return {"program": VERSION, **serial.to_json(self)}

    @staticmethod
    def from_json(data: Mapping[str, Any] | str) -> Program:
        """Returns the program of a JSON-able form or JSON text that `to_json` wrote. Raises PlanError for any other
        input."""
        given = loaded(data)
        if isinstance(given, Mapping) and "version" in given and "program" not in given:
            return program_of(Plan.from_json(given))
        return rebuilt(Program, given, "program", "program", VERSION)


def program_of(plan: Plan) -> Program:
    """Returns the program of one plan: its join, followed by DISTINCT if several enumerated rows can give one result
    row."""
    distinct = (once_each(0, plan.output),) if plan.support else ()
    return Program(plan.query, plan.tables, (JoinStage(plan), *distinct), plan.notes)


Maintainable = Plan | Program
"""What the engine can maintain: a single join core, or a program of stages."""
