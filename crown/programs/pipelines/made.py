"""Which programs have a batch in one native call, and what runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from crown.expressions.program import native
from crown.ingest.batch import StoredInput
from crown.programs.pipelines.feeds import BlockFeed
from crown.programs.pipelines.groups import Grouping
from crown.programs.pipelines.joins import Joining, Take
from crown.programs.pipelines.pipeline import Pipeline
from crown.programs.pipelines.sources import Source
from crown.programs.preparer import BatchPreparer
from crown.programs.runtime import ProgramRuntime
from crown.stages.feeds import Fed
from crown.stages.groups.group import Groups
from crown.stages.joins.core import Join
from crown.stages.linear import Linear
from crown.stages.protocol import Part
from crown.stages.state.memory import OWN_PARTS, parts_of
from crown.store.records import Records
from plans.expressions.expr import Expr
from plans.programs.reads import key_of


class _NotNative(Exception):
    """A batch of the program takes more than one call."""


@dataclass
class _Blocks:
    """The blocks of tuples of a program, as they are made one after the other.

    ``number``: of the relations and stages that are blocks; ``sources``: the relation out of which each is made, None
    for the rows of a join; ``wide``: its columns of two words.
    """

    number: dict[str | int, int] = field(default_factory=dict)
    sources: list[int | None] = field(default_factory=list)
    wide: list[frozenset[int]] = field(default_factory=list)

    def add(self, key: str | int | None, source: int | None, wide: frozenset[int] = frozenset()) -> int:
        """Adds a block; returns its number."""
        self.sources.append(source)
        self.wide.append(wide)
        if key is not None:
            self.number[key] = len(self.sources) - 1
        return len(self.sources) - 1

    def fed(self, source: str | int, key: int | None, found: Fed) -> BlockFeed:
        """Returns the feed that makes a block of one that is there."""
        block = self.number[source]
        given = self.wide[block]
        wide = found.wide | {i for i, place in enumerate(found.columns) if place in given}
        return BlockFeed(block, self.add(key, self.sources[block], wide), self.sources[block], found)


def pipeline_of(running: ProgramRuntime, preparer: BatchPreparer, records: Records) -> Pipeline | str:
    """Returns what runs the batches of a program in one call, or why they take more."""
    try:
        return _pipeline(running, preparer, records)
    except _NotNative as why:
        return str(why)


def _pipeline(running: ProgramRuntime, preparer: BatchPreparer, records: Records) -> Pipeline:
    if running.reads_clock:
        raise _NotNative("the query reads the clock")
    blocks, memory = _Blocks(), running.memory
    sources = _sources(running, preparer, blocks)
    stages, parts = list(enumerate(running.stages)), list[Part]()
    feeds, linear = list[BlockFeed](), dict[int, int]()
    while stages and isinstance(stage := stages[0][1], Linear):
        number, _ = stages.pop(0)
        feeds.append(_linear(stage, number, blocks))
        linear[feeds[-1].made] = number
    joining = None
    shown: Records | None = records
    if stages and isinstance(stage := stages[0][1], Join):
        number, _ = stages.pop(0)
        joining = _joining(stage, running, blocks, feeds)
        head, bag = stage.cores[0].head, not stage.stage.plan.consolidated
        if stages and (head.reads is None or not stage.adds_up):
            raise _NotNative(f"the rows of stage {number} are netted, or computed, before others read them")
        blocks.add(number, None)
        parts.append(memory.part(OWN_PARTS))
        if not stages and head.records is not None and not bag:
            shown = head.records
        elif not stages and head.records is None:
            shown = None
    grouping = after = None
    if stages and isinstance(stage := stages[0][1], Groups):
        number, _ = stages.pop(0)
        grouping, fed = _grouping(stage, number, blocks)
        if joining is not None and grouping.pauses:
            raise _NotNative("the groups have HAVING or columns without native form, or values in order")
        if joining is None and fed is not None:
            feeds.append(fed)
        elif fed is not None:
            after = fed
        parts.append(memory.part(OWN_PARTS + sum(map(parts_of, running.plan.stages[:number]))))
    if stages:
        behind = "" if not parts else "comes behind groups, or " if grouping is not None else "comes behind a join, or "
        raise _NotNative(f"stage {stages[0][0]} {behind}is neither linear nor a join nor groups")
    if not parts:
        raise _NotNative("there is neither a join nor a group stage")
    return Pipeline(sources, feeds, linear, joining, after, grouping, memory.part(1), parts, shown)


def _sources(running: ProgramRuntime, preparer: BatchPreparer, blocks: _Blocks) -> list[Source]:
    """Returns the relations of a program."""
    sources = list[Source]()
    for table in running.plan.tables:
        name = table.name.lower()
        wire, base = running.wires[name], running.base_tables
        if (why := Source.misfit(wire.columns)) is not None:
            raise _NotNative(f"table {table.name}: {why}")
        if not base.counts_alone(name):
            raise _NotNative(f"table {table.name}: its rows have a key, a window or a retention time that is enforced")
        gate = base.gate(name) if base.lookup_record(name) is None else None
        number = blocks.add(name, len(sources))
        chosen = None
        condition = preparer.left_to_test(name)
        if condition is not None:
            places = {column.name.lower(): i for i, column in enumerate(wire.columns)}
            every = tuple(range(len(places)))
            chosen = BlockFeed(number, number, number, _chosen(condition, places, every, f"rows of {table.name}"))
        sources.append(Source(name, wire.columns, gate, not wire.may_repeat, chosen))
    return sources


def _linear(stage: Linear, number: int, blocks: _Blocks) -> BlockFeed:
    """Returns the feed that a linear stage is."""
    found = stage.fed()
    if isinstance(found, str):
        raise _NotNative(f"stage {number}: {found}")
    return blocks.fed(key_of(stage.inputs[0]), number, found)


def _joining(stage: Join, running: ProgramRuntime, blocks: _Blocks, feeds: list[BlockFeed]) -> Joining:
    """Returns a join whose batch a call takes; ``feeds`` get those that make what it stores."""
    if len(stage.cores) > 1:
        raise _NotNative("threads= cuts the join into several cells")
    if not stage.plain:
        raise _NotNative("the join has a bag, rows that it pads, or sums of doubles")
    return Joining(stage, [_take(stage, number, running, blocks, feeds) for number in range(len(stage.stored))])


def _take(stage: Join, number: int, running: ProgramRuntime, blocks: _Blocks, feeds: list[BlockFeed]) -> Take:
    """Returns what a join stores as relation number ``number``."""
    (core,), stored = stage.cores, stage.stored[number]
    compiled, source, aliases = core.state.compiled, stage.inputs[stored.input], stored.stored.aliases
    if stored.mask is not None:
        raise _NotNative("occurrences of a relation in the join read other rows of a stage")
    feed = blocks.fed(source, None, _stored(stored))
    if blocks.wide[feed.made]:
        raise _NotNative(f"the join stores a computed decimal of more than 18 digits of {stored.stored.name}")
    feeds.append(feed)
    record, counters = compiled.record[aliases[0].node], [core.tallies[alias.node] for alias in aliases]
    return Take(
        feed,
        len(feeds) - 1,
        record,
        nets=not stored.whole,
        asks=isinstance(source, str) and running.base_tables.lookup_record(source) == record,
        joined=sorted({word for alias in aliases for word in alias.not_null}),
        tallies=[word for one in counters for word in (one.updates, one.filtered)],
        summed=aliases[0].node in compiled.summed,
    )


def _stored(stored: StoredInput) -> Fed:
    """Returns how a kernel makes what a join stores of an input."""
    if stored.predicate is None:
        return Fed(tuple(stored.words))
    places = {name.lower(): place for name, (place, _) in stored.tested.items()}
    return _chosen(stored.predicate, places, tuple(stored.words), f"what the join stores of {stored.stored.name}")


def _chosen(condition: Expr, places: Mapping[str, int], columns: tuple[int, ...], what: str) -> Fed:
    """Returns how a kernel makes some columns of the rows for which a condition holds. ``places``: where its columns
    are."""
    program = native((condition,))
    if program is None:
        raise _NotNative(f"{condition}, a condition on {what}, has no native form")
    return Fed(columns, program, tuple(places[name.lower()] for name, _ in program.reads), True)


def _grouping(stage: Groups, number: int, blocks: _Blocks) -> tuple[Grouping, BlockFeed | None]:
    """Returns groups whose batch a call takes, and the feed that makes their events, if all rows are not they."""
    operator = stage.operator()
    if isinstance(operator, str):
        raise _NotNative(f"stage {number}: {operator}")
    source = key_of(stage.inputs[0])
    if source not in blocks.number:
        raise _NotNative(f"stage {number} reads rows that are not made by the call")
    fed = None if operator.fed is None else blocks.fed(source, None, operator.fed)
    read = blocks.number[source]
    return Grouping(stage, operator, read, read if fed is None else fed.made), fed
