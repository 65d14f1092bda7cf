"""The changes of a batch of Arrow rows for the baselines: checked, coded and netted by the engine's own code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from bench.cases.streams import Batch
from crown.ingest.batch import JoinInputs, RelationChange
from crown.programs.preparer import BatchPreparer
from crown.store.codec import Intern
from crown.store.zset import Zset
from plans.plan import Plan
from plans.program import program_of
from plans.programs.wiring import Wire, used_columns


@dataclass(frozen=True)
class Changes:
    """The net changes of the stored relations of a plan, and the number of rows of the batch."""

    changes: list[RelationChange]
    rows: int


class PlanChanges:
    """Turns batches into the changes of a plan's stored relations; ``intern`` adds values to a dictionary."""

    def __init__(self, plan: Plan, intern: Intern) -> None:
        program = program_of(plan)
        used = used_columns(program, True)
        wires: dict[str | int, Wire] = {name: Wire(columns) for name, columns in used.items()}
        self._preparer = BatchPreparer(program.tables, wires, intern)
        self._coded = JoinInputs(plan, wires, _no_values)
        self._nothing = {name: Zset.empty(len(columns)) for name, columns in used.items()}

    def prepare(self, batch: Batch) -> Changes:
        """Returns the changes for a batch. O(batch)."""
        prepared = self._preparer.prepare(batch, strict=True)
        nets = {**self._nothing, **prepared.nets}
        return Changes(self._coded.changes([nets[str(name)] for name in self._coded.inputs]), prepared.rows)


def _no_values(codes: np.ndarray, target: pa.DataType) -> pa.Array:
    raise AssertionError("the baselines' predicates are over numbers")
