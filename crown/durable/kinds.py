"""The two kinds of durable folders: a folder of one view, and a folder of a database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from typing_extensions import override

from crown.durable.identity import Identity
from crown.durable.recovery import EXACT, Kind
from crown.errors import SnapshotError
from crown.programs import snapshot
from crown.programs.cells.engine import Engine, engine_of
from crown.programs.database_engine import DatabaseEngine
from crown.programs.delta_options import ALL_DELTAS, NO_DELTAS
from plans.program import Program

PROGRAM = "program"
"""The header field with the new program of a database, in a batch before which a view was registered or dropped."""


@dataclass(frozen=True)
class ViewKind(Kind[Engine]):
    """The engine of one view."""

    identity: Identity
    folder: Path
    budget: int | None
    verify: bool = True

    @override
    def create(self) -> Engine:
        program = self.identity.stored_program(self.folder)
        return engine_of(
            program,
            threads=self.identity.threads,
            memory_budget=self.budget,
            on_missing=self.identity.on_missing,
        )

    @override
    def load(self, path: Path) -> tuple[Engine, dict[str, Any]]:
        engine, extra = snapshot.load(path, None, self.budget, self.verify)
        if engine.fingerprint != self.identity.fingerprint:
            raise SnapshotError(f"{path} is of another query")
        return engine, extra

    @override
    def replay(self, engine: Engine, batch: int, header: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> Engine:
        engine.update(tables)
        engine.batches = batch
        return engine

    @override
    def adds_up(self, engine: Engine, batch: int, header: Mapping[str, Any]) -> bool:
        return EXACT in header and _is_a_sum(engine.plan)


@dataclass(frozen=True)
class DatabaseKind(Kind[DatabaseEngine]):
    """The engine of a database: views are registered and dropped between batches.

    ``after``: ``deltas`` collects the changes of tables and the deltas of views in batches after this one, by the
    number of the batch.
    """

    identity: Identity
    folder: Path
    budget: int | None
    verify: bool = True
    after: int | None = None
    deltas: dict[int, dict[str, pa.Table]] = field(default_factory=dict)

    @override
    def create(self) -> DatabaseEngine:
        program = self.identity.stored_program(self.folder)
        return DatabaseEngine.create(program, self.budget, self.identity.on_missing)

    @override
    def load(self, path: Path) -> tuple[DatabaseEngine, dict[str, Any]]:
        engine, extra = snapshot.load_several(path, self.budget, self.verify)
        engine.batches = int(extra.get("batches", 0))
        return engine, extra

    @override
    def replay(
        self, engine: DatabaseEngine, batch: int, header: Mapping[str, Any], tables: Mapping[str, pa.Table]
    ) -> DatabaseEngine:
        if PROGRAM in header:
            engine = engine.changed(Program.from_json(header[PROGRAM]), self.budget)
        wanted = self.after is not None and batch > self.after
        found = engine.run(engine.prepare_for_apply(tables, True, ALL_DELTAS if wanted else NO_DELTAS), deltas=wanted)
        if wanted:
            self.deltas[batch] = {**tables, **found}
        engine.batches = batch
        return engine

    @override
    def adds_up(self, engine: DatabaseEngine, batch: int, header: Mapping[str, Any]) -> bool:
        wanted = self.after is not None and batch > self.after
        return EXACT in header and PROGRAM not in header and not wanted and _is_a_sum(engine.plan)


def _is_a_sum(program: Program) -> bool:
    """Returns True if the state of a program is a function of the sum of its batches: it has no window and no table by
    key, where a row replaces an earlier one.
    """
    return not program.windows and not any(table.by_key for table in program.tables)
