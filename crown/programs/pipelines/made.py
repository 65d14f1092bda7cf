"""Which programs have a batch in one native call, and what runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crown.expressions.program import native
from crown.ingest.batch import StoredInput
from crown.programs.kernels import pipeline as kernels
from crown.programs.pipelines.blocks import Block, Blocks, forms_of_types
from crown.programs.pipelines.counts import Counting
from crown.programs.pipelines.feeds import BlockFeed, BlockNet, BlockUnion
from crown.programs.pipelines.groups import Grouping
from crown.programs.pipelines.joins import Joining, Take
from crown.programs.pipelines.pipeline import Operator, Pipeline, Stateful
from crown.programs.pipelines.sources import Source
from crown.programs.preparer import BatchPreparer
from crown.programs.runtime import ProgramRuntime
from crown.results.columns import Fed
from crown.stages.groups.group import Groups
from crown.stages.joins.core import Join
from crown.stages.linear import Linear
from crown.stages.pointwise import Pointwise
from crown.stages.protocol import Part, Stage
from crown.stages.state.memory import OWN_PARTS, parts_of
from crown.store.records import Records
from plans.expressions.expr import Expr
from plans.programs.reads import key_of


class _NotNative(Exception):
    """A batch of the program takes more than one call."""


def pipeline_of(
    running: ProgramRuntime, preparer: BatchPreparer, records: Records
) -> tuple[Pipeline | None, tuple[str, ...]]:
    """Returns what runs the first stages of a program in one call, None if not even one, and what is said of it: how
    each part of the stages runs, and why."""
    try:
        return _Chain(running, preparer).pipeline(records)
    except _NotNative as why:
        return None, (f"steps: {why}",)


class _Chain:
    """The operators of a program, as its stages are added one after the other.

    ``first``: those that read relations alone; ``later``: the others. ``linear``: the blocks of linear stages, and
    their numbers.
    """

    def __init__(self, running: ProgramRuntime, preparer: BatchPreparer) -> None:
        if running.reads_clock:
            raise _NotNative("the query reads the clock")
        self._running, self._blocks = running, Blocks()
        self._sources = _sources(running, preparer, self._blocks)
        self._first, self._later = list[Operator](), list[Operator]()
        self._linear = dict[int, int]()

    def pipeline(self, records: Records) -> tuple[Pipeline, tuple[str, ...]]:
        """Returns what runs the batches, and what is said of it. ``records`` makes the messages of the last stage."""
        stages = self._running.stages
        for number, stage in enumerate(stages):
            before = len(self._first), len(self._later)
            try:
                self._add_stage(stage, number)
            except _NotNative as why:
                del self._first[before[0] :], self._later[before[1] :]
                if not any(isinstance(one, Stateful) for one in self._later):
                    raise _NotNative(f"{why} (stage {number})" if len(stages) > 1 else str(why)) from None
                rest = f"{_numbered(number, len(stages))}: steps: {why}"
                rest += f" (stage {number})" if number < len(stages) - 1 else ""
                return self._made(None, kernels.NOTHING, 0), (f"{_numbered(0, number)}: one native call", rest)
        shown = self._blocks.of.get(len(stages) - 1)
        if shown is not None:
            return self._made(records, shown.number, len(stages[-1].columns)), ("one native call",)
        joining = self._later[-1]
        assert isinstance(joining, Joining), "only a join delivers its rows"
        head = joining.stage.cores[0].head
        if head.records is None or joining.stage.stage.plan.consolidated:
            return self._made(head.records, -1, joining.width), ("one native call",)
        return self._made(records, -1, joining.width), ("one native call",)

    def _made(self, records: Records | None, shown: int, width: int) -> Pipeline:
        base = self._running.memory.part(1)
        return Pipeline(
            self._sources, self._first, self._later, self._linear, self._blocks, base, records, shown, width
        )

    def _add_stage(self, stage: Stage, number: int) -> None:
        if isinstance(stage, Linear):
            self._add_linear(stage, number)
        elif isinstance(stage, Join):
            self._add_join(stage, number, number == len(self._running.stages) - 1)
        elif isinstance(stage, Groups):
            self._add_groups(stage, number)
        elif isinstance(stage, Pointwise):
            self._add_counts(stage, number)
        else:
            raise _NotNative("the stage is neither linear nor a join, groups or set operations")

    def _add(self, operator: Operator) -> None:
        """Adds an operator behind those that it reads."""
        alone = not isinstance(operator, Stateful) and operator.root < len(self._sources)
        (self._first if alone else self._later).append(operator)

    def _read(self, source: str | int) -> Block:
        return self._blocks.of[source]

    def _feed(self, block: Block, fed: Fed, head: bool = False) -> Block:
        """Adds a feed; returns the block that it makes."""
        made = self._blocks.made_of(block, fed)
        self._add(BlockFeed(block, made, fed, head))
        return made

    def _net(self, block: Block, width: int) -> Block:
        """Adds a net; returns the block that it makes."""
        if block.wide:
            raise _NotNative("the rows are netted, and a decimal of more than 18 digits is computed")
        made = self._blocks.made_of(block)
        self._add(BlockNet(block, made, width))
        return made

    def _part(self, number: int) -> Part:
        """Returns the memory of a stage."""
        return self._running.memory.part(OWN_PARTS + sum(map(parts_of, self._running.plan.stages[:number])))

    def _add_linear(self, stage: Linear, number: int) -> None:
        terms = [(events, term.weight) for (_, events), term in zip(self._fed(stage), stage.stage.terms, strict=True)]
        if not terms:
            raise _NotNative("it has no rows")
        made, factor = terms[0]
        shown = stage.netted and number == len(self._running.stages) - 1  # columns that are shown lie together
        if len(terms) > 1 or factor != 1 or shown:
            made = self._united(terms, stage)
        if not stage.netted:
            made = self._net(made, len(stage.columns))
        self._blocks.of[number] = made
        self._linear[made.number] = number

    def _add_counts(self, stage: Pointwise, number: int) -> None:
        leaves = self._fed(stage)
        terms = [(events, leaf.weight) for (_, events), leaf in zip(leaves, stage.stage.leaves, strict=True)]
        events, factor = terms[0]
        if len(terms) > 1 or factor != 1 or events.wide:
            events = self._united(terms, stage)
        changed, forms = self._blocks.root(), forms_of_types([column.type for column in stage.columns])
        counting = Counting(stage, number, leaves, events, changed, forms, self._part(number))
        self._add(counting)
        if not stage.netted:
            counting.made = self._net(changed, len(forms))
        self._blocks.of[number] = counting.made

    def _fed(self, stage: Linear | Pointwise) -> list[tuple[Block, Block]]:
        """Adds the feeds of a stage; returns of each the block that it reads, and the one that it makes."""
        found = stage.fed()
        if isinstance(found, str):
            raise _NotNative(found)
        reads = [self._read(key_of(source)) for source in stage.inputs]
        return [(read, self._feed(read, fed)) for read, fed in zip(reads, found, strict=True)]

    def _united(self, terms: Sequence[tuple[Block, int]], stage: Linear | Pointwise) -> Block:
        """Adds the union of blocks, each with a factor of its weights; returns the block that it makes."""
        if any(block.wide for block, _ in terms):
            raise _NotNative("rows are added, and a decimal of more than 18 digits is computed")
        made = self._blocks.root()
        self._add(BlockUnion(terms, made, forms_of_types([column.type for column in stage.columns])))
        return made

    def _add_join(self, stage: Join, number: int, last: bool) -> None:
        if len(stage.cores) > 1:
            raise _NotNative("threads= cuts the join into several cells")
        if not stage.plain:
            raise _NotNative("the join has a bag, or sums of doubles")
        stored = [self._take(stage, of) for of in range(len(stage.stored))]
        payload = stage.cores[0].state.compiled.payload
        rows = self._blocks.root(1 if payload is None else payload.result.words)
        joining = Joining(stage, number, stored, rows, self._part(number), last)
        self._add(joining)
        if last:
            return
        fed = stage.cores[0].head.fed
        if isinstance(fed, str):
            raise _NotNative(fed)
        made = rows
        if fed is not None:
            made, joining.headed = self._feed(made, fed, head=True), True
        if not stage.adds_up:
            made = self._net(made, len(stage.columns))
        joining.made = self._blocks.of[number] = made

    def _take(self, stage: Join, number: int) -> Take:
        """Returns what a join stores as relation number ``number``."""
        (core,), stored = stage.cores, stage.stored[number]
        compiled, source, aliases = core.state.compiled, stage.inputs[stored.input], stored.stored.aliases
        if stored.mask is not None:
            raise _NotNative("occurrences of a relation in the join read other rows of a stage")
        fed, block = _stored(stored), self._read(source)
        feed = BlockFeed(block, self._blocks.made_of(block, fed), fed)
        if feed.made.wide:
            raise _NotNative(f"the join stores a computed decimal of more than 18 digits of {stored.stored.name}")
        record, counters = compiled.record[aliases[0].node], [core.tallies[alias.node] for alias in aliases]
        take = Take(
            feed,
            record,
            nets=not stored.whole,
            asks=isinstance(source, str) and self._running.base_tables.lookup_record(source) == record,
            joined=sorted({word for alias in aliases for word in alias.not_null}),
            tallies=[word for one in counters for word in (one.updates, one.filtered)],
            summed=aliases[0].node in compiled.summed,
        )
        self._add(feed)
        self._add(take)
        return take

    def _add_groups(self, stage: Groups, number: int) -> None:
        operator = stage.operator()
        if isinstance(operator, str):
            raise _NotNative(operator)
        read = events = self._read(key_of(stage.inputs[0]))
        if operator.fed is not None:
            events = self._feed(read, operator.fed)
        if not events.wide.isdisjoint(operator.keys.tolist()):
            raise _NotNative("a key is computed that has more than 18 digits")
        made = self._blocks.root()
        grouping = Grouping(stage, number, operator, read, events, made, self._part(number))
        if grouping.pauses and (number + 1 < len(self._running.stages) or read.root >= len(self._sources)):
            raise _NotNative("the groups have HAVING or columns without native form, or values in order")
        self._add(grouping)
        self._blocks.of[number] = made


def _numbered(first: int, end: int) -> str:
    """Returns the name of the stages from number ``first`` to before ``end``."""
    return f"stage {first}" if end == first + 1 else f"stages {first} to {end - 1}"


def _sources(running: ProgramRuntime, preparer: BatchPreparer, blocks: Blocks) -> list[Source]:
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
        block = blocks.of[name] = blocks.root()
        chosen = None
        condition = preparer.left_to_test(name)
        if condition is not None:
            places = {column.name.lower(): i for i, column in enumerate(wire.columns)}
            every = tuple(range(len(places)))
            chosen = BlockFeed(block, block, _chosen(condition, places, every, f"rows of {table.name}"))
        sources.append(Source(name, wire.columns, gate, not wire.may_repeat, chosen))
    return sources


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
