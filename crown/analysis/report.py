"""EXPLAIN ANALYZE: the plan of a running view with its counters, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from crown.analysis.hot import Fan, HotKey, fan, hottest
from crown.analysis.meter import LastBatch
from crown.analysis.parts import StageParts, stages_of
from crown.engine.state import State
from crown.engine.statistics import tallies_of
from crown.kernels.memory import arena as A
from crown.kernels.memory.geometry import groups_table
from crown.kernels.memory.tables import table_at
from crown.programs.cells.engine import Engine
from crown.programs.program import ProgramEngine
from crown.programs.tallies import PASSED, READ
from plans.expressions.sqltext import identifier
from plans.plan import Node, Plan
from plans.program import Program
from plans.programs.stages import JoinStage
from plans.schema import STAGE
from plans.search.counted.classes import FIRST_ORDER, edges, join_class
from plans.show import explain, programs, upkeep


def advice(program: Program, number: int, fans: dict[int, Fan]) -> list[str]:
    """Returns suggested declarations and rewrites for a join stage; ``fans``: of the edges, by child."""
    stage = program.stages[number]
    if not isinstance(stage, JoinStage):
        return []
    plan, found = stage.plan, []
    for i, edge in edges(plan).items():
        seen = fans.get(i)
        if not edge.open or seen is None or not seen.keys:
            continue
        child, parent = plan.nodes[i], plan.nodes[edge.parent]
        arrow = f"the edge {child.name} -> {parent.name}"
        if seen.children == 1 and seen.children_once and (said := _declaration(plan, child, child.key)):
            found.append(f"{said}: so far no value of it occurs twice; {arrow} becomes quiet")
        if seen.parents == 1 and seen.parents_once and (said := _declaration(plan, parent, child.key)):
            found.append(f"{said}: so far no value of it occurs twice; {arrow} gets fan 1")
    last = number == len(program.stages) - 1
    if stage.mode == "bag" and last and join_class(plan).growth >= FIRST_ORDER:
        found.append("add DISTINCT if it does not matter how often a row occurs: rows are not counted then")
    return found


def _declaration(plan: Plan, node: Node, key: tuple[str, ...]) -> str:
    """Returns the declaration of attributes of a node as its table's key; an empty text if the table has a key, or if
    the node reads a stage's output.
    """
    if node.kind != "input" or node.relation.startswith(STAGE) or plan.table(node.relation).key or not key:
        return ""
    column = dict(zip(node.attributes, node.columns, strict=True))
    return f"declare the key ({', '.join(identifier(column[name]) for name in key)}) of {node.relation}"


ROWS, SUMS, LISTED = "rows", "sums", "listed"
"""What a node stores: its rows, for a leaf their sums, or nothing, since its bag lists its rows."""


@dataclass(frozen=True)
class NodeWork:
    """A node: its rows and the groups above it (or their change), the changes that it read, the rows that publications
    on the edge above it touched. ``keeps``: what it stores.
    """

    name: str
    rows: int
    groups: int
    updates: int
    touched: int
    keeps: str = ROWS


@dataclass(frozen=True)
class Work:
    """A stage: the changes that it read, the rows and tree entries that it touched, the rows that it passed on; for a
    join the same by node.
    """

    updates: int
    touched: int
    emitted: int
    nodes: tuple[NodeWork, ...]


def work(state: State, headers: list[np.ndarray], since: list[np.ndarray] | None = None) -> Work:
    """Returns the work in the headers of a join's cells, or its difference from earlier headers. O(nodes).

    ``state``: the state of one cell; all cells have the same plan.
    """
    now = np.sum(headers, axis=0)
    if since is not None:
        now = now - np.sum(since, axis=0)
    plan, compiled = state.plan, state.compiled
    n = len(plan.nodes)
    nodes = []
    for i, node in enumerate(plan.nodes):
        tally = tallies_of(n, i)
        groups = int(now[int(table_at(groups_table(n, compiled.index[i]))) + A.T_COUNT]) if i else 0
        updates = int(now[tally.updates]) if node.kind != "virtual" else 0
        touched = int(now[tally.touched]) if i else 0
        keeps = LISTED if plan.listed else SUMS if i in compiled.summed else ROWS
        nodes.append(NodeWork(node.name, int(now[tally.rows]), groups, updates, touched, keeps))
    published = sum(node.touched for node in nodes)
    flips = int(now[A.H_R_UPDATES] + now[A.H_S_UPDATES] + now[A.H_P_UPDATES] + now[A.H_LIVE_FLIPS])
    return Work(sum(node.updates for node in nodes), flips + published, int(now[A.H_EMITTED]), tuple(nodes))


def work_of(headers: list[np.ndarray], since: list[np.ndarray] | None = None) -> Work:
    """Returns the work in the headers of a stage that is not a join, one per cell, or its difference from earlier
    ones. O(cells)."""
    now, before = np.sum(headers, axis=0), np.sum(since or [np.zeros_like(headers[0])], axis=0)
    read, touched, emitted = (int(now[word] - before[word]) for word in (READ, A.H_STEPS, PASSED))
    return Work(read, touched, emitted, ())


HOTTEST = 3


@dataclass(frozen=True)
class StageReport:
    """A stage: its kind and cost by the plan, its contents, and its work, in total and in the last batch.

    ``bags``: the counters of each bag, from ``Bag.stats``.
    """

    number: int
    kind: str
    name: str
    cost: str
    bytes: int
    holds: dict[str, int]
    so_far: Work | None = None
    last: Work | None = None
    hottest: tuple[HotKey, ...] = ()
    rewrites: tuple[str, ...] = ()
    bags: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """A view: verdict, path of a batch, batches applied, seconds of the last one, bytes in use, and its stages."""

    verdict: str
    path: str
    batches: int
    seconds: float | None
    bytes: int
    dictionary: int
    missing_deletes: int
    stages: tuple[StageReport, ...]

    def to_json(self) -> str:
        """Returns the report as indented JSON; values that JSON lacks are written as text."""
        return json.dumps(asdict(self), indent=2, default=str) + "\n"

    def text(self) -> str:
        """Returns the report for a terminal."""
        took = "" if self.seconds is None else f", the last took {time_text(self.seconds)}"
        lines = explain.field("verdict", self.verdict)
        lines += explain.field("batch", self.path)
        lines += explain.field("batches", f"{self.batches:,}{took}")
        lines += explain.field(
            "memory", f"{size_text(self.bytes)} in use, {self.dictionary:,} values in the dictionary"
        )
        if self.missing_deletes:
            lines += explain.field("missing", f"{self.missing_deletes:,} copies in deletes did not exist")
        for stage in self.stages:
            lines += ["", *_stage(stage)]
        return "\n".join(lines) + "\n"


def report(engine: Engine, last: LastBatch | None) -> Report:
    """Returns the report of an engine; ``last``: its last batch. O(groups), in vectorised steps."""
    stats = engine.stats()
    stages = tuple(_report(engine, part, stats["stages"][part.number], last) for part in stages_of(engine))
    missing = sum(stats["missing_deletes"].values())
    seconds = None if last is None else last.seconds
    verdict, size = upkeep.verdict(engine.plan), stats["live_bytes"]
    return Report(verdict, path_of(engine), engine.batches, seconds, size, stats["dictionary"], missing, stages)


def path_of(engine: Engine) -> str:
    """Returns the way in which an engine applies a batch of a few rows."""
    way = "; ".join(engine.segments)
    if isinstance(engine, ProgramEngine):
        return way
    partitioned = ", ".join(f"{name} by {column}" for name, column in engine.partitioning.items())
    rest = "".join(
        f", all of {table.name}" for table in engine.plan.tables if table.name.lower() not in engine.partitioning
    )
    return f"{engine.threads} cells, {partitioned}{rest}; in each {way}"


def _report(engine: Engine, part: StageParts, stats: dict[str, Any], last: LastBatch | None) -> StageReport:
    cost = upkeep.upkeep(part.stage)
    made = StageReport(part.number, programs.kind(part.stage), cost.name, cost.update, part.bytes, {})
    if not isinstance(part.stage, JoinStage):
        return _counted(made, part, stats, last)
    if not part.states:  # a cycle that is only counted has no tree
        return replace(made, holds=stats)
    inner = range(1, len(part.stage.plan.nodes))
    so_far = work(part.states[0], part.headers)
    latest = None if last is None else _latest(part, last)
    fans = {i: _widest([fan(state, i) for state in part.states]) for i in inner}
    keys = [key for state in part.states for i in inner for key in hottest(state, i, HOTTEST)]
    keys = sorted(keys, key=lambda key: -key.parents)[:HOTTEST]
    holds = {"rows": sum(node.rows for node in so_far.nodes), "groups": sum(node.groups for node in so_far.nodes)}
    holds = {} if part.stage.plan.listed else holds
    rewrites = tuple(advice(engine.plan, part.number, fans))
    made = replace(made, holds=holds, so_far=so_far, last=latest, hottest=tuple(keys), rewrites=rewrites)
    return replace(made, bags=stats["bags"])


def _counted(made: StageReport, part: StageParts, stats: dict[str, Any], last: LastBatch | None) -> StageReport:
    """Returns the report of a stage that is not a join; a stage without memory has no counters."""
    holds = {name: value for name, value in stats.items() if name != "steps"}  # steps are part of its work
    if not part.headers:
        return replace(made, holds=holds)
    latest = None if last is None else work_of(last.after[part.number], last.before[part.number])
    return replace(made, holds=holds, so_far=work_of(part.headers), last=latest)


def _latest(part: StageParts, last: LastBatch) -> Work:
    """Returns the work of the last batch in a join. The changes that it read are tallied when it is committed, after
    the meter has read the counters; only a batch changes these tallies.
    """
    state, before = part.states[0], last.before[part.number]
    done, read = work(state, last.after[part.number], before), work(state, part.headers, before)
    nodes = tuple(replace(node, updates=tally.updates) for node, tally in zip(done.nodes, read.nodes, strict=True))
    return replace(done, updates=read.updates, nodes=nodes)


def _widest(fans: list[Fan]) -> Fan:
    return Fan(
        sum(f.keys for f in fans),
        max(f.parents for f in fans),
        max(f.children for f in fans),
        all(f.parents_once for f in fans),
        all(f.children_once for f in fans),
    )


def _stage(stage: StageReport) -> list[str]:
    nodes = stage.so_far is not None and bool(stage.so_far.nodes)
    named = f", {stage.name}" if nodes else ""
    lines = [f"stage {stage.number}   {stage.kind}{named}"]
    held = ", ".join(f"{value:,} {name}" for name, value in stage.holds.items())
    lines.append(f"  holds     {size_text(stage.bytes)}{f': {held}' if held else ''}")
    lines.append(f"  cost      {stage.cost}")
    for title, done in (("so far", stage.so_far), ("last", stage.last)):
        if done is not None:
            lines.append(
                f"  {title:<9} {done.updates:,} changes read, {done.touched:,} rows touched, {done.emitted:,} emitted"
            )
    for hot in stage.hottest:
        key = ", ".join(f"{name}={value!r}" for name, value in hot.key.items()) or "the only key"
        lines.append(f"  hot key   {key}: {_rows(hot.parents)} of {hot.parent}, {hot.children:,} of {hot.child}")
    for name, bag in stage.bags.items():
        counters = ", ".join(
            f"{what} {value:,}" if isinstance(value, int) else f"{what} {value}" for what, value in bag.items()
        )
        lines.append(f"  bag       {name}: {counters}")
    lines += [f"  rewrite   {line}" for line in stage.rewrites]
    return lines + (_nodes(stage.so_far) if stage.so_far is not None and nodes else [])


def _nodes(done: Work) -> list[str]:
    """Returns the table of a join's nodes."""
    head = ("node", "rows", "keys above", "changes", "touched above")
    rows = [
        (n.name, f"{n.rows:,}" if n.keeps == ROWS else n.keeps, f"{n.groups:,}", f"{n.updates:,}", f"{n.touched:,}")
        for n in done.nodes
    ]
    wide = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return [
        "  " + "  ".join([row[0].ljust(wide[0]), *(cell.rjust(w) for cell, w in zip(row[1:], wide[1:], strict=True))])
        for row in [head, *rows]
    ]


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def size_text(size: int) -> str:
    """Returns a number of bytes for people."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} bytes"


def time_text(seconds: float) -> str:
    """Returns a short time for people."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.2f} ms"


ANALYZED: Mapping[str, Callable[[Report], str]] = {"text": Report.text, "json": Report.to_json}
"""The forms of a report."""
