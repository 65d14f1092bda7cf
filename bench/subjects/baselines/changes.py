"""A batch of Arrow rows as the baselines take it: checked, coded and netted by the same code as for the engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from bench.cases.streams import Batch
from crown.ingest.batch import RelationChange
from crown.ingest.coded import CodedPreparer
from crown.ingest.masks import EVERY
from crown.programs.preparer import BatchPreparer, used_columns
from crown.store.codec import Intern
from plans.plan import Plan
from plans.program import program_of


@dataclass(frozen=True)
class Changes:
    """The net changes of the stored relations of a plan, and how many rows there were."""

    changes: tuple[RelationChange, ...]
    rows: int


class PlanChanges:
    """Turns batches into the changes of a plan's stored relations; ``intern`` enters values in a dictionary."""

    def __init__(self, plan: Plan, intern: Intern) -> None:
        program = program_of(plan)
        used = used_columns(program, True)
        self._intake = BatchPreparer(program.tables, used, intern)
        self._coded = CodedPreparer(plan, _no_values, {})

    def prepare(self, batch: Batch) -> Changes:
        """Returns the changes for a batch. O(batch)."""
        prepared = self._intake.prepare(batch, strict=True)
        nets = {name: (net, EVERY) for name, net in prepared.nets.items()}
        return Changes(self._coded.changes(nets), prepared.rows)


def _no_values(codes: np.ndarray, target: pa.DataType) -> pa.Array:
    raise AssertionError("the baselines' predicates are over numbers")
