"""What runs in the cells of an operator: the engine of a query, or another one that keeps the same promises.

A cell (``spark_jobs.cell.cell``) applies batches exactly once to whatever is ``crown.maintained.Durable``: a state in a
mapped file with a version and a mark for "clean", changes that can be taken back, and a snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from crown.engine import snapshot
from crown.engine.engine import Engine
from crown.errors import SnapshotError
from crown.maintained import Durable
from crown.programs import snapshot as programs
from crown.programs.program import ProgramEngine
from plans.program import Maintainable, Program
from spark_jobs.dispatch.envelope import WEIGHT


class EngineFactory(Protocol):
    """How engines of one kind are made and found again. Travels to the workers with the step."""

    def fingerprint(self, plan: Maintainable) -> str:
        """Names what the state holds: state of another fingerprint is refused."""
        ...

    def columns(self, plan: Maintainable) -> list[tuple[str, str]]:
        """Names and planner types of the columns of what ``run`` yields."""
        ...

    def create(self, plan: Maintainable, path: Path | None, on_missing: str) -> Durable:
        """Returns a new, empty engine, in the file ``path`` (and others beside it) or in memory."""
        ...

    def attach(self, plan: Maintainable, path: Path, on_missing: str) -> Durable:
        """Returns the engine in the file ``path``. O(1). Raises ``SnapshotError`` or ``FileNotFoundError`` if it is
        not there.

        MUST NOT find a clean engine in files that ``create`` or ``load`` had not finished.
        """
        ...

    def load(self, source: Path, plan: Maintainable, path: Path, on_missing: str) -> tuple[Durable, dict[str, Any]]:
        """Returns the engine of a snapshot, in the file ``path``, and what was saved with it. Raises
        ``SnapshotError``."""
        ...


@dataclass(frozen=True)
class QueryEngines:
    """The engine of the query itself, a join core's or a program's: its rows are the query's deltas.

    Rows that nobody reads are left out before the shuffle. What else comes into a cell is kept: the relations of its
    program may be roles of one base relation, whose rows any of them must be able to tell.
    """

    def fingerprint(self, plan: Maintainable) -> str:
        """Returns the plan's fingerprint."""
        return plan.fingerprint

    def columns(self, plan: Maintainable) -> list[tuple[str, str]]:
        """Returns the query's output and the weight."""
        return [*((output.name, output.type) for output in plan.output), (WEIGHT, "int64")]

    def create(self, plan: Maintainable, path: Path | None, on_missing: str) -> Durable:
        """See ``Engine.create`` and ``ProgramEngine.create``."""
        if isinstance(plan, Program):
            return ProgramEngine.create(plan, path, on_missing=on_missing, selecting=False)
        return Engine.create(plan, path, on_missing=on_missing)

    def attach(self, plan: Maintainable, path: Path, on_missing: str) -> Durable:
        """See ``Engine.attach`` and ``ProgramEngine.attach``."""
        if isinstance(plan, Program):
            return ProgramEngine.attach(plan, path, on_missing=on_missing, selecting=False)
        return Engine.attach(plan, path, on_missing=on_missing)

    def load(self, source: Path, plan: Maintainable, path: Path, on_missing: str) -> tuple[Durable, dict[str, Any]]:
        """See ``crown.engine.snapshot.load`` and ``crown.programs.snapshot.load``."""
        if isinstance(plan, Program):
            return _loaded(source, plan, path, on_missing)
        engine, extra = snapshot.load(source, plan=plan, state_path=path)
        engine.on_missing = on_missing
        return engine, extra


def _loaded(source: Path, program: Program, path: Path, on_missing: str) -> tuple[ProgramEngine, dict[str, Any]]:
    engine, extra = programs.load(source, path, selecting=False)
    if engine.fingerprint != program.fingerprint:
        raise SnapshotError(f"{source} holds the state of another query; use a fresh path for the changed query")
    for kept in engine.plan.tables:
        if [column.name for column in program.table(kept.name).columns] != [column.name for column in kept.columns]:
            order = ", ".join(column.name for column in kept.columns)
            raise SnapshotError(
                f"{source} has the columns of relation {kept.name!r} in the order {order}, by which rows are stored; "
                "declare them in that order (schema=)"
            )
    if engine.on_missing != on_missing:
        raise SnapshotError(
            f'{source} was kept with on_missing="{engine.on_missing}", which decides what is stored; go on with that, '
            "or give the stream another checkpoint"
        )
    return engine, extra


QUERY = QueryEngines()
