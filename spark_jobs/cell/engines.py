"""What runs in the cells of an operator: the engine of a query, or another one that keeps the same promises.

A cell (``spark_jobs.cell.cell``) needs little of its engine: a state in a mapped file with a version and a mark for
"clean", changes that can be taken back, and a snapshot. Whatever offers that is applied exactly once by the cell's
protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from crown.engine import snapshot
from crown.engine.engine import Engine
from crown.ingest.prepare import MissingDeletes, Prepared
from plans.plan import Plan
from spark_jobs.dispatch.envelope import WEIGHT


class Maintained(Protocol):
    """A live engine, as a cell uses it; see ``crown.engine.engine.Engine`` for what each of these does."""

    @property
    def clamps(self) -> MissingDeletes:
        """Returns what the deletes of the last batch did not find; ``undo`` wants it back."""
        ...

    @property
    def plan(self) -> Plan:
        """Returns what it maintains; its fingerprint decides whether a mapping that is still there can be used."""
        ...

    @property
    def version(self) -> int:
        """Returns the number of the last batch applied."""
        ...

    @property
    def clean(self) -> bool:
        """Returns False while, or after a crash in, the application of a batch."""
        ...

    def begin(self) -> None:
        """Marks the state dirty."""
        ...

    def commit(self, version: int) -> None:
        """Marks the state clean, as of that batch."""
        ...

    def prepare(self, changes: Mapping[str, Any]) -> Prepared:
        """Checks a batch. Raises ``ChangeError``; results stay as they are."""
        ...

    def run(
        self, prepared: Prepared, *, deltas: bool = True, consolidate: bool | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Applies a batch and yields what is to be told of it; a generator that applies the rest when it is closed."""
        ...

    def undo(self, changes: Mapping[str, Any], clamps: MissingDeletes | None) -> None:
        """Takes the last batch back."""
        ...

    def stats(self) -> dict[str, Any]:
        """Returns sizes and counters: at least the ``input_rows``, ``live_bytes`` and ``missing_deletes`` of an
        engine."""
        ...


class EngineFactory(Protocol):
    """How engines of one kind are made, found again, and written down. Travels to the workers with the step."""

    def fingerprint(self, plan: Plan) -> str:
        """Names what the state holds: state of another fingerprint is refused."""
        ...

    def columns(self, plan: Plan) -> list[tuple[str, str]]:
        """Names and planner types of the columns of what ``run`` yields."""
        ...

    def create(self, plan: Plan, path: Path | None, on_missing: str) -> Maintained:
        """Returns a new, empty engine, in the file ``path`` (and others beside it) or in memory."""
        ...

    def attach(self, plan: Plan, path: Path, on_missing: str) -> Maintained:
        """Returns the engine in the file ``path``. O(1). Raises ``SnapshotError`` or ``FileNotFoundError`` if it is
        not there.

        MUST NOT find a clean engine in files that ``create`` or ``load`` had not finished.
        """
        ...

    def load(self, source: Path, plan: Plan, path: Path, on_missing: str) -> tuple[Maintained, dict[str, Any]]:
        """Returns the engine of a snapshot, in the file ``path``, and what was saved with it. Raises
        ``SnapshotError``."""
        ...

    def save(self, engine: Any, path: Path, extra: dict[str, Any]) -> None:
        """Writes a snapshot and gives it its name in one step."""
        ...


@dataclass(frozen=True)
class TreeEngines:
    """The engine of the query itself: its rows are the query's deltas."""

    def fingerprint(self, plan: Plan) -> str:
        """Returns the plan's fingerprint."""
        return plan.fingerprint

    def columns(self, plan: Plan) -> list[tuple[str, str]]:
        """Returns the query's output and the weight."""
        return [*((output.name, output.type) for output in plan.output), (WEIGHT, "int64")]

    def create(self, plan: Plan, path: Path | None, on_missing: str) -> Engine:
        """See ``Engine.create``."""
        return Engine.create(plan, path, on_missing=on_missing)

    def attach(self, plan: Plan, path: Path, on_missing: str) -> Engine:
        """See ``Engine.attach``."""
        return Engine.attach(plan, path, on_missing=on_missing)

    def load(self, source: Path, plan: Plan, path: Path, on_missing: str) -> tuple[Engine, dict[str, Any]]:
        """See ``crown.engine.snapshot.load``."""
        engine, extra = snapshot.load(source, plan=plan, state_path=path)
        engine.on_missing = on_missing
        return engine, extra

    def save(self, engine: Engine, path: Path, extra: dict[str, Any]) -> None:
        """See ``crown.engine.snapshot.save``."""
        snapshot.save(engine, path, extra)


QUERY = TreeEngines()
