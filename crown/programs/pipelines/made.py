"""Which programs have a batch in one native call, and what runs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

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

_READS = "it reads stage"


class _NotNative(Exception):
    """A stage of a program, or every stage, takes steps."""


def pipeline_of(
    running: ProgramRuntime, preparer: BatchPreparer, records: Records | None, results: Iterable[int]
) -> tuple[Pipeline | None, tuple[str, ...]]:
    """Returns the pipeline that runs stages of a program in one call, or None if it would run none. Also returns, for
    each part of the stages, how it runs and why.

    Stages without a native form, and those that read them, are left for steps after the call. ``records`` makes the
    deltas of the last stage. If it is None, the call delivers none, and the rows of ``results`` are read after it.
    """
    try:
        return _Chain(running, preparer, records).pipeline(results)
    except _NotNative as why:
        return None, (f"steps: {why}",)


class _Chain:
    """The operators of a program, as its stages are added one after the other.

    ``first``: those that read relations alone; ``later``: the others. ``left``: by the numbers of the stages that are
    left for steps, why.
    """

    def __init__(self, running: ProgramRuntime, preparer: BatchPreparer, records: Records | None) -> None:
        if running.reads_clock:
            raise _NotNative("the query reads the clock")
        if any(isinstance(stage, Join) and len(stage.cores) > 1 for stage in running.stages):
            raise _NotNative("threads= cuts a join into several cells")
        self._running, self._records, self._blocks = running, records, Blocks()
        self._sources = _sources(running, preparer, self._blocks)
        self._first, self._later = list[Operator](), list[Operator]()
        self._left = dict[int, str]()

    def pipeline(self, results: Iterable[int]) -> tuple[Pipeline, tuple[str, ...]]:
        """Returns the pipeline, and how each part of the stages runs. Rows of ``results`` are read after the call."""
        stages = self._running.stages
        for number, stage in enumerate(stages):
            before = len(self._first), len(self._later)
            try:
                self._add_stage(stage, number)
            except _NotNative as why:
                del self._first[before[0] :], self._later[before[1] :]
                self._left[number] = str(why)
        if self._left and not any(isinstance(one, Stateful) for one in self._later):
            raise _NotNative(self._reasons(list(self._left)))
        self._check_lookups()
        return self._made(results), self._segments()

    def _made(self, results: Iterable[int]) -> Pipeline:
        stages, records, shown, width = self._running.stages, self._records, kernels.NOTHING, 0
        if records is not None and not self._left:
            block = self._blocks.of.get(len(stages) - 1)
            shown, width = -1, len(stages[-1].columns)
            if block is not None:
                shown = block.number
            else:
                joining = self._later[-1]
                assert isinstance(joining, Joining), "only a join delivers its rows"
                head, width = joining.stage.cores[0].head, joining.width
                if head.records is None or joining.stage.stage.plan.consolidated:
                    records = head.records
        columns = [stage.columns for stage in stages]
        read = {source for number in self._left for source in map(key_of, stages[number].inputs)}.union(results)
        return Pipeline(
            self._sources, self._first, self._later, self._blocks, self._running.memory.part(1), records,
            shown, width, frozenset(self._left), columns, read,
        )  # fmt: skip

    def _segments(self) -> tuple[str, ...]:
        """Returns how each part of the stages runs, and why."""
        if not self._left:
            return ("one native call",)
        found = []
        for left, part in groupby(range(len(self._running.stages)), self._left.__contains__):
            numbers = list(part)
            way = f"steps: {self._reasons(numbers)}" if left else "one native call"
            found.append(f"{_numbered(numbers[0], numbers[-1] + 1)}: {way}")
        return tuple(found)

    def _reasons(self, numbers: Sequence[int]) -> str:
        """Returns why stages are left. A stage that reads another one that is left needs no reason of its own."""
        own = [number for number in numbers if not self._left[number].startswith(_READS)] or numbers[:1]
        several = len(self._running.stages) > 1 and (len(numbers) > 1 or not self._later)
        return ", ".join(self._left[number] + (f" (stage {number})" if several else "") for number in own)

    def _check_lookups(self) -> None:
        """Raises _NotNative if deletes of a relation are looked up in a join that is left for steps."""
        asked = {one.source for one in self._first if isinstance(one, Take) and one.asks}
        for source in self._sources:
            if self._running.base_tables.lookup(source.name) is not None and source.name not in asked:
                raise _NotNative(f"deletes of table {source.name} are looked up in a join that takes steps")

    def _add_stage(self, stage: Stage, number: int) -> None:
        for source in map(key_of, stage.inputs):
            if source in self._left:
                raise _NotNative(f"{_READS} {source}")
        last = self._records is not None and number == len(self._running.stages) - 1
        if isinstance(stage, Linear):
            self._add_linear(stage, number, last)
        elif isinstance(stage, Join):
            self._add_join(stage, number, last)
        elif isinstance(stage, Groups):
            self._add_groups(stage, number, last)
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

    def _add_linear(self, stage: Linear, number: int, last: bool) -> None:
        terms = [(events, term.weight) for (_, events), term in zip(self._fed(stage), stage.stage.terms, strict=True)]
        if not terms:
            raise _NotNative("it has no rows")
        made, factor = terms[0]
        shown = stage.netted and last  # columns that are shown lie together
        if len(terms) > 1 or factor != 1 or shown:
            made = self._united(terms, stage)
        if not stage.netted:
            made = self._net(made, len(stage.columns))
        self._blocks.of[number] = made

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
        if last and self._left:
            raise _NotNative("a stage before it takes steps")
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
        lookup = self._running.base_tables.lookup(source) if isinstance(source, str) else None
        asks = lookup is not None and lookup.has(core.state, record)
        joined = {word for alias in aliases for word in alias.not_null}
        take = Take(
            feed,
            source,
            record,
            nets=not stored.whole,
            asks=asks,
            joined=sorted(joined),
            tallies=[word for one in counters for word in (one.updates, one.filtered)],
            summed=aliases[0].node in compiled.summed,
            drops=not asks and all(joined == set(alias.not_null) for alias in aliases),
        )
        self._add(feed)
        self._add(take)
        return take

    def _add_groups(self, stage: Groups, number: int, last: bool) -> None:
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
        if grouping.pauses and (not last or self._left or read.root >= len(self._sources)):
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
        gate = base.gate(name) if base.lookup(name) is None else None
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
