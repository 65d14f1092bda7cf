"""Builds the pipeline of a program: finds the stages that have a native form, and makes operators of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from crown.programs.kernels import pipeline as kernels
from crown.programs.pipelines.feeds import (
    FeedOperator,
    NetOperator,
    NotNative,
    UnionOperator,
    filter_feed,
    known_form,
    stored_feed,
)
from crown.programs.pipelines.groups import GroupsOperator
from crown.programs.pipelines.joins import JoinInputOperator, JoinOperator
from crown.programs.pipelines.overs import OverOperator
from crown.programs.pipelines.pipeline import Operator, Pipeline, Stateful
from crown.programs.pipelines.plan import Block, Blocks, forms_of_types
from crown.programs.pipelines.pointwise import PointwiseOperator
from crown.programs.pipelines.rounds import BeginRounds, CountDerived, EndRound, Judging
from crown.programs.pipelines.sources import Source
from crown.programs.pipelines.tops import TopOperator
from crown.programs.preparer import BatchPreparer
from crown.programs.runtime import ProgramRuntime
from crown.results.columns import NativeFeed
from crown.stages.fixpoint import Fixpoint
from crown.stages.groups.group import Groups
from crown.stages.joins.core import Join
from crown.stages.linear import Linear
from crown.stages.over.stage import Over
from crown.stages.pointwise import Pointwise
from crown.stages.protocol import Part, Stage
from crown.stages.state.memory import OWN_PARTS, parts_of
from crown.stages.top import Top
from crown.store.records import Records
from plans.programs.reads import key_of
from plans.programs.stages import FixpointStage

_READS_EXCLUDED = "it reads stage"  # begins the reason of a stage that reads an excluded one


def build_pipeline(
    runtime: ProgramRuntime, preparer: BatchPreparer, records: Records | None, results: Iterable[int]
) -> tuple[Pipeline | None, tuple[str, ...]]:
    """Builds the pipeline of a program; None if no stage can be part of a native call.

    Stages without a native form, and the stages that read them, take steps after the call. ``records`` makes the deltas
    of the last stage. If it is None, the call has no output, and the rows of ``results`` are read after it. Also
    returns, for each part of the stages, how it runs and why.
    """
    try:
        return _Builder(runtime, preparer, records).pipeline(results)
    except NotNative as why:
        return None, (f"steps: {why}",)


@dataclass
class _Body:
    """The body of a recursion: the blocks of its tables (by name) and of its stages (by number). ``first``: the number
    of the first part of its memory."""

    stage: FixpointStage
    blocks: dict[str | int, Block]
    first: int


class _Builder:
    """Adds the operators of a program, stage by stage.

    ``_before_gate``: the operators that read only relations. ``_after_gate``: the others. ``_excluded``: by stage
    number, why a stage takes steps after the call. ``_body``: that of the recursion to which stages are added.
    """

    def __init__(self, runtime: ProgramRuntime, preparer: BatchPreparer, records: Records | None) -> None:
        if runtime.reads_clock:
            raise NotNative("the query reads the clock")
        if any(isinstance(stage, Join) and len(stage.cores) > 1 for stage in runtime.stages):
            raise NotNative("threads= cuts a join into several cells")
        self._runtime, self._records, self._blocks = runtime, records, Blocks()
        self._sources = _sources(runtime, preparer, self._blocks)
        self._before_gate, self._after_gate = list[Operator](), list[Operator]()
        self._excluded = dict[int, str]()
        self._body: _Body | None = None

    def pipeline(self, results: Iterable[int]) -> tuple[Pipeline, tuple[str, ...]]:
        """Returns the pipeline, and how each part of the stages runs. Rows of ``results`` are read after the call."""
        stages = self._runtime.stages
        for number, stage in enumerate(stages):
            lengths = len(self._before_gate), len(self._after_gate)
            try:
                self._add_stage(stage, number)
            except NotNative as why:
                del self._before_gate[lengths[0] :], self._after_gate[lengths[1] :]
                self._excluded[number] = str(why)
        if self._excluded and not any(isinstance(one, Stateful) for one in self._after_gate):
            raise NotNative(self._reasons(list(self._excluded)))
        self._check_lookups()
        return self._pipeline(results), self._segments()

    def _pipeline(self, results: Iterable[int]) -> Pipeline:
        stages, records, output, width = self._runtime.stages, self._records, kernels.NO_OUTPUT, 0
        if records is not None and not self._excluded:
            block = self._blocks.by_source.get(len(stages) - 1)
            output, width = kernels.JOIN_OUTPUT, len(stages[-1].columns)
            if block is not None:
                output = block.number
            else:
                join = self._after_gate[-1]
                assert isinstance(join, JoinOperator), "only a join delivers its rows"
                head, width = join.stage.cores[0].head, join.width
                if head.records is None or join.stage.stage.plan.consolidated:
                    records = head.records
        columns = [stage.columns for stage in stages]
        read = {source for number in self._excluded for source in map(key_of, stages[number].inputs)}.union(results)
        return Pipeline(
            self._sources, self._before_gate, self._after_gate, self._blocks, self._runtime.memory.part(1), records,
            output, width, frozenset(self._excluded), columns, read,
        )  # fmt: skip

    def _segments(self) -> tuple[str, ...]:
        """Returns how each part of the stages runs, and why."""
        if not self._excluded:
            return ("one native call",)
        segments = []
        for excluded, group in groupby(range(len(self._runtime.stages)), self._excluded.__contains__):
            numbers = list(group)
            method = f"steps: {self._reasons(numbers)}" if excluded else "one native call"
            segments.append(f"{_stage_range(numbers[0], numbers[-1] + 1)}: {method}")
        return tuple(segments)

    def _reasons(self, numbers: Sequence[int]) -> str:
        """Returns why stages are excluded. Leaves out reasons of stages that read other excluded ones."""
        own = [number for number in numbers if not self._excluded[number].startswith(_READS_EXCLUDED)]
        several = len(self._runtime.stages) > 1 and (len(numbers) > 1 or not self._after_gate)
        return ", ".join(
            self._excluded[number] + (f" (stage {number})" if several else "") for number in own or numbers[:1]
        )

    def _check_lookups(self) -> None:
        """Raises NotNative if deletes of a relation are looked up in an excluded join."""
        looked_up = {one.source for one in self._before_gate if isinstance(one, JoinInputOperator) and one.looks_up}
        for source in self._sources:
            if self._runtime.base_tables.lookup(source.name) is not None and source.name not in looked_up:
                raise NotNative(f"deletes of table {source.name} are looked up in a join that takes steps")

    def _add_stage(self, stage: Stage, number: int) -> None:
        for source in map(key_of, stage.inputs):
            if source in self._excluded and self._body is None:
                raise NotNative(f"{_READS_EXCLUDED} {source}")
        last = self._records is not None and number == len(self._runtime.stages) - 1 and self._body is None
        if isinstance(stage, Linear):
            self._add_linear(stage, number, last)
        elif isinstance(stage, Join):
            self._add_join(stage, number, last)
        elif isinstance(stage, Groups) and self._body is None:
            self._add_groups(stage, number, last)
        elif isinstance(stage, Pointwise):
            self._add_pointwise(stage, number)
        elif isinstance(stage, Top) and self._body is None:
            read = self._block_of[key_of(stage.inputs[0])]
            self._block_of[number] = self._add_windows(stage, number, read, self._memory_of(number))
        elif isinstance(stage, Over) and self._body is None:
            self._add_over(stage, number)
        elif isinstance(stage, Fixpoint) and self._body is None:
            self._add_fixpoint(stage, number)
        else:
            raise NotNative(
                "only joins, groups, window functions, set operations, recursions and LIMIT have a native form"
            )

    def _add(self, operator: Operator) -> None:
        """Adds an operator. The operators that it reads must have been added."""
        ungated = not isinstance(operator, Stateful) and operator.root < len(self._sources) and self._body is None
        (self._before_gate if ungated else self._after_gate).append(operator)

    @property
    def _block_of(self) -> dict[str | int, Block]:
        """Returns the blocks of the relations and stages that stages read."""
        return self._blocks.by_source if self._body is None else self._body.blocks

    def _number_of(self, number: int) -> int | None:
        """Returns the number of a stage in the program; None for a stage of a recursion."""
        return number if self._body is None else None

    def _feed(
        self, block: Block, native_feed: NativeFeed, stores_codes: bool, after_join: bool = False
    ) -> FeedOperator:
        """Returns a feed that reads a block. With ``stores_codes``, computed wide decimals of its output become
        codes."""
        wide = _wide_columns(block, native_feed)
        output = self._blocks.add_derived(block, frozenset() if stores_codes else wide)
        return FeedOperator(block, output, native_feed, len(wide) if stores_codes else 0, after_join)

    def _add_feed(
        self, block: Block, native_feed: NativeFeed, stores_codes: bool = False, after_join: bool = False
    ) -> Block:
        """Adds a feed. Returns its output."""
        feed = self._feed(block, native_feed, stores_codes, after_join)
        self._add(feed)
        return feed.output

    def _add_net(self, block: Block, width: int) -> Block:
        """Adds a net. Returns its output."""
        output = self._blocks.add_derived(block)
        self._add(NetOperator(block, output, width))
        return output

    def _part_of(self, number: int) -> int:
        """Returns the number of the part of the memory with the arena of a stage."""
        first, stages = OWN_PARTS, self._runtime.plan.stages
        if self._body is not None:
            first, stages = self._body.first, self._body.stage.stages
        return first + sum(map(parts_of, stages[:number]))

    def _memory_of(self, number: int) -> Part:
        """Returns the part of the memory with the arena of a stage."""
        return self._runtime.memory.part(self._part_of(number))

    def _add_linear(self, stage: Linear, number: int, last: bool) -> None:
        weights = [term.weight for term in stage.stage.terms]
        if not weights:
            raise NotNative("the stage has no rows")
        united = weights != [1] or (stage.netted and last)  # the columns of the output must be adjacent
        feeds = self._add_feeds(stage, stores_codes=united or not stage.netted)
        terms = [(events, weight) for (_, events), weight in zip(feeds, weights, strict=True)]
        block = self._add_union(terms, stage) if united else terms[0][0]
        if not stage.netted:
            block = self._add_net(block, len(stage.columns))
        self._block_of[number] = block

    def _add_pointwise(self, stage: Pointwise, number: int) -> None:
        leaves = self._add_feeds(stage, stores_codes=True)
        terms = [(events, leaf.weight) for (_, events), leaf in zip(leaves, stage.stage.leaves, strict=True)]
        events, factor = terms[0]
        if len(terms) > 1 or factor != 1:
            events = self._add_union(terms, stage)
        changed, forms = self._blocks.add_root(), forms_of_types([column.type for column in stage.columns])
        operator = PointwiseOperator(
            stage, self._number_of(number), leaves, events, changed, forms, self._memory_of(number)
        )
        self._add(operator)
        if not stage.netted:
            operator.output = self._add_net(changed, len(forms))
        self._block_of[number] = operator.output

    def _add_feeds(self, stage: Linear | Pointwise | Fixpoint, stores_codes: bool) -> list[tuple[Block, Block]]:
        """Adds the feeds of a stage. Returns the input and the output of each. ``stores_codes``: see ``_feed``."""
        feeds = known_form(stage.native_feeds())
        reads = [self._block_of[key_of(source)] for source in stage.inputs]
        return [(read, self._add_feed(read, feed, stores_codes)) for read, feed in zip(reads, feeds, strict=True)]

    def _add_union(self, terms: Sequence[tuple[Block, int]], stage: Linear | Pointwise) -> Block:
        """Adds a union of blocks, each with a factor of its weights. Returns its output."""
        output = self._blocks.add_root()
        self._add(UnionOperator(terms, output, forms_of_types([column.type for column in stage.columns])))
        return output

    def _add_join(self, stage: Join, number: int, last: bool) -> None:
        if last and self._excluded:
            raise NotNative("an earlier stage takes steps")
        if not stage.plain:
            raise NotNative("the join has a bag")
        inputs = [self._add_join_input(stage, relation) for relation in range(len(stage.stored))]
        payload = stage.cores[0].state.compiled.payload
        rows = self._blocks.add_root(1 if payload is None else payload.result.words)
        operator = JoinOperator(stage, self._number_of(number), inputs, rows, self._memory_of(number), last)
        self._add(operator)
        if last:
            return
        native_feed, output = known_form(stage.cores[0].head.native_feed), rows
        if native_feed is not None:
            output = self._add_feed(output, native_feed, stores_codes=not stage.adds_up, after_join=True)
            operator.has_feed = True
        if not stage.adds_up:
            output = self._add_net(output, len(stage.columns))
        operator.output = self._block_of[number] = output

    def _add_join_input(self, stage: Join, number: int) -> JoinInputOperator:
        """Adds the delta of stored relation ``number`` of a join."""
        (core,), stored = stage.cores, stage.stored[number]
        compiled, source, aliases = core.state.compiled, stage.inputs[stored.input], stored.stored.aliases
        native_feed, block = stored_feed(stored), self._block_of[source]
        feed = self._feed(block, native_feed, stores_codes=True)
        record, counters = compiled.record[aliases[0].node], [core.tallies[alias.node] for alias in aliases]
        lookup = None
        if isinstance(source, str) and self._body is None:
            lookup = self._runtime.base_tables.lookup(source)
        looks_up = lookup is not None and lookup.has(core.state, record)
        masked, joined = stored.mask is not None, {word for alias in aliases for word in alias.not_null}
        join_input = JoinInputOperator(
            feed,
            source,
            record,
            nets=not stored.whole,
            looks_up=looks_up,
            key_columns=sorted(joined),
            counters=[word for one in counters for word in (one.updates, one.filtered)],
            summed_only=aliases[0].node in compiled.summed,
            drops_nulls=not looks_up and not masked and all(joined == set(alias.not_null) for alias in aliases),
            mask_column=stored.mask,
            occurrences=[alias.occurrence for alias in aliases],
        )
        self._add(feed)
        self._add(join_input)
        return join_input

    def _add_windows(self, stage: Top, number: int | None, read: Block, part: Part) -> Block:
        """Adds a top stage that reads a block. Returns its output."""
        native_feed, forms = known_form(stage.native_feed()), forms_of_types(stage.stored_types)
        net = self._add_net(self._add_feed(read, native_feed, stores_codes=True), len(forms))
        changed = self._blocks.add_root()
        output = self._blocks.add_derived(changed)
        self._add(TopOperator(stage, number, read, net, changed, output, forms, part))
        self._add(NetOperator(changed, output, len(stage.columns)))
        return output

    def _add_over(self, stage: Over, number: int) -> None:
        native_form, read = known_form(stage.native_form()), self._block_of[key_of(stage.inputs[0])]
        net = self._add_net(self._add_feed(read, native_form.feed, stores_codes=True), stage.trees.width)
        changed = self._block_of[number] = self._blocks.add_root()
        forms = forms_of_types([column.type for column in stage.columns])
        self._add(OverOperator(stage, native_form, number, read, net, changed, forms, self._memory_of(number)))

    def _add_fixpoint(self, stage: Fixpoint, number: int) -> None:
        given = [
            self._add_net(events, len(table.columns))
            for (_, events), table in zip(self._add_feeds(stage, stores_codes=True), stage.stage.tables, strict=False)
        ]
        reads = [self._block_of[key_of(source)] for source in stage.inputs]
        part, operators = self._memory_of(number), self._after_gate
        names = [table.name.lower() for table in stage.stage.tables]
        tables = [(block, self._blocks.add_derived(block)) for block in given]
        rows = self._blocks.add_root()
        types = [column.type for column in stage.body[-1].columns]
        begin = BeginRounds(tables, rows, forms_of_types(types))
        self._add(begin)
        first, read = len(operators), rows
        if stage.columns_read is not None:
            projected = self._add_feed(rows, NativeFeed(stage.columns_read), stores_codes=True)
            read = self._add_net(projected, len(stage.columns_read))
        blocks = dict[str | int, Block](zip(names, [*(block for _, block in tables), read], strict=True))
        first_part = self._part_of(number) + 1
        self._body, ends = _Body(stage.stage, blocks, first_part), list[int]()
        try:
            for inner_number, inner in enumerate(stage.body):
                self._add_stage(inner, inner_number)
                ends.append(len(operators) - first)
            net, judging = self._add_judging(stage, begin, part)
        finally:
            self._body = None
        made = [blocks[inner_number] for inner_number in range(len(stage.body))]
        changed = self._blocks.add_root()
        output = self._blocks.add_derived(changed)
        self._add(
            EndRound(stage, number, begin, operators[first:], made, ends, net, judging, reads, changed, output, part)
        )
        self._add(NetOperator(changed, output, len(stage.columns)))
        self._block_of[number] = output

    def _add_judging(self, stage: Fixpoint, begin: BeginRounds, part: Part) -> tuple[Block | None, Judging | None]:
        """Adds the operators that count derivations and, with MIN or MAX, judge which rows are the best. Returns the
        net of the derivations if some operator reads it, and how rows are judged."""
        derived, best = self._block_of[len(stage.body) - 1], stage.best
        plain = stage.stage.distinct and best is None
        net = None if plain else self._add_net(derived, len(stage.columns))
        self._add(CountDerived(begin, derived, part))
        if best is None or net is None:
            return net, None
        candidates = self._blocks.add_derived(net)
        return net, Judging(candidates, self._add_windows(best, None, candidates, self._memory_of(len(stage.body))))

    def _add_groups(self, stage: Groups, number: int, last: bool) -> None:
        native_form = known_form(stage.native_form())
        source, feed = key_of(stage.inputs[0]), native_form.feed
        read = events = self._block_of[source]
        coded = {*native_form.keys.tolist(), *(() if native_form.values is None else native_form.values.columns)}
        if feed is None and isinstance(source, int) and not read.wide.isdisjoint(coded):
            feed = NativeFeed(tuple(range(len(self._runtime.stages[source].columns))))
        if feed is not None:
            events = self._add_feed(read, feed, stores_codes=not _wide_columns(read, feed).isdisjoint(coded))
        rows = self._blocks.add_root()
        operator = GroupsOperator(stage, number, native_form, read, events, rows, self._memory_of(number))
        if operator.pauses and (not last or self._excluded or read.root >= len(self._sources)):
            raise NotNative("the groups have HAVING or columns without native form, or percentiles or texts in order")
        self._add(operator)
        if not stage.shows_keys:
            operator.output = self._add_net(rows, len(stage.columns))
        self._block_of[number] = operator.output


def _wide_columns(block: Block, feed: NativeFeed) -> frozenset[int]:
    """Returns the columns of two words that a feed makes from a block."""
    return feed.wide | {i for i, place in enumerate(feed.columns) if place in block.wide}


def _stage_range(first: int, end: int) -> str:
    """Returns the name of the stages from number ``first`` to before ``end``."""
    return f"stage {first}" if end == first + 1 else f"stages {first} to {end - 1}"


def _sources(runtime: ProgramRuntime, preparer: BatchPreparer, blocks: Blocks) -> list[Source]:
    """Returns the sources of a program, and adds their blocks."""
    sources = list[Source]()
    for table in runtime.plan.tables:
        name = table.name.lower()
        wire, base = runtime.wires[name], runtime.base_tables
        if (why := Source.why_not_scanned(wire.columns)) is not None:
            raise NotNative(f"table {table.name}: {why}")
        if not base.counts_alone(name):
            raise NotNative(f"table {table.name}: it has an enforced key, a window or a retention time")
        gate = base.gate(name) if base.lookup(name) is None else None
        block = blocks.by_source[name] = blocks.add_root()
        feed = None
        condition = preparer.untested_condition(name)
        if condition is not None:
            places = {column.name.lower(): i for i, column in enumerate(wire.columns)}
            every = tuple(range(len(places)))
            feed = FeedOperator(block, block, filter_feed(condition, places, every, f"rows of {table.name}"))
        sources.append(Source(name, wire.columns, gate, not wire.may_repeat, base.counters(name), feed))
    return sources
