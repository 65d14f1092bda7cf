"""Which programs have a batch in one native call, and what runs it."""

from __future__ import annotations

from collections.abc import Sequence

from crown.ingest.given import Test
from crown.ingest.selection import Selection
from crown.programs.pipelines.groups import GroupPipeline
from crown.programs.pipelines.joined_groups import JoinedGroupsPipeline
from crown.programs.pipelines.joins import JoinPipeline
from crown.programs.pipelines.pipeline import Pipeline
from crown.programs.pipelines.sources import Source, Take
from crown.programs.preparer import BatchPreparer
from crown.programs.runtime import ProgramRuntime
from crown.stages.groups.group import Groups
from crown.stages.joins.core import Join
from crown.stages.kernels.groups import batch as group_batch
from crown.stages.state.memory import OWN_PARTS, parts_of
from crown.store.records import Records


def pipeline_of(running: ProgramRuntime, preparer: BatchPreparer, records: Records) -> Pipeline | str:
    """Returns what runs the batches of a program in one call, or why they take more."""
    if running.reads_clock:
        return "the query reads the clock"
    stage, *others = running.stages
    above = others[0] if len(others) == 1 and isinstance(others[0], Groups) else None
    if len(others) > (above is not None) or (above is not None and not isinstance(stage, Join)):
        return f"there are {len(running.stages)} stages"
    sources = []
    for table in running.plan.tables:
        name = table.name.lower()
        wire, base = running.wires[name], running.base_tables
        if (why := Source.misfit(wire.columns)) is not None:
            return f"table {table.name}: {why}"
        if not base.counts_alone(name):
            return f"table {table.name}: its rows have a key, a window or a retention time that is enforced"
        if not preparer.selects_exactly(name):
            return f"table {table.name}: a condition on its rows has no native form"
        gate = base.gate(name) if base.asked(name) is None else None
        sources.append(Source(name, wire.columns, gate, not wire.may_repeat))
    memory = running.memory
    if isinstance(stage, Groups):
        if len(sources) > 1 or stage.operator() is None:
            return "not all rows of one table enter the groups as they are"
        return GroupPipeline(stage, sources[0], memory.part(1), memory.part(OWN_PARTS), records)
    if not isinstance(stage, Join):
        return "the stage is neither a join nor groups"
    if len(stage.cores) > 1:
        return "threads= cuts the join into several cells"
    if not stage.plain:
        return "the join has a bag, rows that it pads, or sums of doubles"
    takes = _takes(stage, running, [source.name for source in sources])
    if isinstance(takes, str):
        return takes
    first, head = memory.part(1), stage.cores[0].head
    if above is None:
        shown = head.records if head.records is None or stage.stage.plan.consolidated else records
        return JoinPipeline(stage, sources, takes, first, [memory.part(OWN_PARTS)], shown)
    operator, reads = above.operator(), head.reads
    if above.inputs != (0,) or operator is None or reads is None or not stage.adds_up:
        return "not all rows of the join enter the groups as they are"
    if operator.plan[group_batch.P_PAUSES]:
        return "the groups have HAVING, computed columns, or values in order"
    parts = [memory.part(number) for number in (OWN_PARTS, OWN_PARTS + parts_of(stage.stage))]
    return JoinedGroupsPipeline(stage, above, reads, sources, takes, first, parts, records)


def _takes(stage: Join, running: ProgramRuntime, names: Sequence[str]) -> list[Take] | str:
    """Returns what a join stores of its relations, or why a call cannot make that."""
    (core,), found = stage.cores, []
    compiled = core.state.compiled
    for stored in stage.stored:
        name, aliases = stage.inputs[stored.input], stored.stored.aliases
        if not isinstance(name, str) or stored.mask is not None:
            return "the join reads rows of another stage"
        tests = list[Test]()
        columns = {column.name: column.type for column in running.wires[name].columns}
        if stored.predicate is not None:
            selection = Selection([frozenset(stored.predicate.conjuncts())], columns, True)
            if not selection.exact:
                return f"the join reads rows of {stored.stored.name} under a condition that has no native form"
            (tests,) = selection.tests
        record = compiled.record[aliases[0].node]
        joined = sorted({word for alias in aliases for word in alias.not_null})
        counters = [core.tallies[alias.node] for alias in aliases]
        tallies = [word for one in counters for word in (one.updates, one.filtered)]
        asks = running.base_tables.asked(name) == record
        found.append(
            Take(
                names.index(name), stored.words, stored.moves, tests, list(columns), record, not stored.whole, asks,
                joined, tallies, aliases[0].node in compiled.summed,
            )
        )  # fmt: skip
    return found
