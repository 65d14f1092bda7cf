"""Which programs have a batch in one native call, and what runs it."""

from __future__ import annotations

from collections.abc import Sequence

from crown.ingest.given import Test
from crown.ingest.selection import Selection
from crown.programs.pipelines.groups import GroupPipeline
from crown.programs.pipelines.joins import JoinPipeline
from crown.programs.pipelines.pipeline import Pipeline
from crown.programs.pipelines.sources import Source, Take
from crown.programs.preparer import BatchPreparer
from crown.programs.runtime import ProgramRuntime
from crown.stages.groups.group import Groups
from crown.stages.joins.core import Join
from crown.stages.state.memory import OWN_PARTS
from crown.store.records import Records


def pipeline_of(running: ProgramRuntime, preparer: BatchPreparer, records: Records) -> Pipeline | None:
    """Returns what runs the batches of a program in one call; None if they take more."""
    if len(running.stages) > 1 or running.reads_clock:
        return None
    (stage,) = running.stages
    sources = []
    for table in running.plan.tables:
        name = table.name.lower()
        wire, base = running.wires[name], running.base_tables
        if not Source.fits(wire.columns) or not base.counts_alone(name) or not preparer.selects_exactly(name):
            return None
        gate = base.gate(name) if base.asked(name) is None else None
        sources.append(Source(name, wire.columns, gate, not wire.may_repeat))
    memory = running.memory
    if isinstance(stage, Groups) and len(sources) == 1 and stage.operator() is not None:
        return GroupPipeline(stage, sources[0], memory.part(1), memory.part(OWN_PARTS), records)
    if isinstance(stage, Join) and stage.plain:
        takes = _takes(stage, running, [source.name for source in sources])
        if takes is not None:
            return JoinPipeline(stage, sources, takes, memory.part(1), memory.part(OWN_PARTS))
    return None


def _takes(stage: Join, running: ProgramRuntime, names: Sequence[str]) -> list[Take] | None:
    """Returns what a join stores of its relations; None if a call cannot make that."""
    (core,), found = stage.cores, []
    compiled = core.state.compiled
    for stored in stage.stored:
        name, aliases = stage.inputs[stored.input], stored.stored.aliases
        if not isinstance(name, str) or stored.mask is not None:
            return None
        tests = list[Test]()
        columns = {column.name: column.type for column in running.wires[name].columns}
        if stored.predicate is not None:
            selection = Selection([frozenset(stored.predicate.conjuncts())], columns, True)
            if not selection.exact:
                return None
            (tests,) = selection.tests
        record = compiled.record[aliases[0].node]
        joined = sorted({word for alias in aliases for word in alias.not_null})
        counters = [core.tallies[alias.node] for alias in aliases]
        tallies = [word for one in counters for word in (one.updates, one.filtered)]
        asks = running.base_tables.asked(name) == record
        found.append(
            Take(
                names.index(name), stored.words, stored.moves, tests, list(columns), record, not stored.whole, asks,
                joined, tallies,
            )
        )  # fmt: skip
    return found
