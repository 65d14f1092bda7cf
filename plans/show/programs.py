"""EXPLAIN of a program as text and JSON: its stages in order, and their inputs, state and cost per change."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Sequence

from plans.expressions.sqltext import COMPARISONS, identifier
from plans.payloads.payload import VALUE
from plans.plan import Output
from plans.program import Program
from plans.programs.frames import EVERY_ROW, SESSIONS, VALUED, Frame, Order, WindowFunction, kinds
from plans.programs.stages import (
    Aggregate,
    BandStage,
    Feed,
    FixpointStage,
    Function,
    GroupStage,
    JoinStage,
    LinearStage,
    OverStage,
    PairTerm,
    PointwiseStage,
    SingleStage,
    SliceStage,
    Stage,
    TimedStage,
    TopStage,
    outputs_of,
)
from plans.programs.wiring import Wires, wiring
from plans.schema import Table
from plans.serial import kind_name
from plans.show import cells as cut
from plans.show import explain, upkeep
from plans.show.wires import IsNative, by_arrow, lines_by_arrow, of_stage, of_table
from plans.show.wires import to_json as wires_to_json
from plans.time import durations

_SIGNS = {
    "union": "UNION", "union_all": "UNION ALL", "except": "EXCEPT", "except_all": "EXCEPT ALL",
    "intersect": "INTERSECT", "intersect_all": "INTERSECT ALL",
}  # fmt: skip


def text(
    program: Program, wires: Wires | None = None, is_native: IsNative | None = None, segments: Sequence[str] = (), *,
    cells: int | None = None,
) -> str:  # fmt: skip
    """Returns the maintained views and their cost as text for a terminal. A program that is a plan is shown as a plan.

    `wires`: those of the engine that maintains the program, by default those of an engine without options. `is_native`:
    tells what the kernels of the engine evaluate; other expressions are listed. `segments`: how the engine runs each
    part of the stages. With `cells`, shows the program in that many cells; raises PlanError if it cannot be cut into
    them.
    """
    if program.plan is not None:
        return explain.text(program.plan, wires, is_native, segments, cells=cells)
    wires = wires or wiring(program)
    lines = explain.field("query", " ".join(program.query.split())) if program.results is None else []
    lines += explain.field("verdict", upkeep.verdict(program))
    for table in program.tables:
        lines += explain.field("table", of_table(table, wires))
    for name, value in facts(program, cells):
        lines += explain.field(name, value)
    lines += explain.batch_lines(segments)
    for number, stage in enumerate(program.stages):
        if dropped(stage):
            continue
        lines += ["", f"stage {number}   {kind(stage)}{result_mark(program, number)}"]
        for line in (*lines_of(stage), *lines_by_arrow(stage, is_native), *of_stage(number, wires), *_costs(stage)):
            lines += _wrapped(line)
        lines += explain.tree(stage.plan) if isinstance(stage, JoinStage) else []
    return "\n".join(lines) + "\n"


def facts(program: Program, cells: int | None = None) -> list[tuple[str, str]]:
    """Returns the facts about a whole program other than its tables, as pairs of name and line."""
    found = [("upserts", upserts(table)) for table in program.tables if table.upserts]
    found += [("enforced", enforced(table)) for table in program.tables if table.enforced]
    found += [("window", f"{window.relation}: {window}") for window in program.windows]
    found += [("cells", cut.line(program, cells))] if program.results is None else []
    found += [("note", note) for note in program.notes]
    for named in program.results or ():
        found.append((f"view {named.name}", " ".join(named.query.split())))
        found += [("note", note) for note in named.notes]
    return found


_ON_SPARK = "on Spark in a separate operator before the others, cut by the key"


def upserts(table: Table) -> str:
    """Returns how the changes of a table with upserts are applied, and what that costs."""
    by = f"{table.name} by key ({', '.join(table.key)})"
    order = (
        "in the order of the batch" if table.sequence is None else f"by sequence {table.sequence}, older ones dropped"
    )
    kept = "" if table.sequence is None else ", and the sequence of each deleted key"
    kept += "" if table.tombstones is None else f" until it is {table.tombstones} below the greatest sequence"
    cost = f"one look-up per change, memory: the row of each key{kept}"
    return f"{by}, {order}; {cost}; {_ON_SPARK}"


def enforced(table: Table) -> str:
    """Returns what is checked for a table with an enforced declaration, and what that costs."""
    declaration = f"key ({', '.join(table.key)})" if table.key else "no two rows alike"
    cost = "two look-ups per change, memory: a record per key and per row"
    return f"{table.name}: {declaration}; {cost}; {_ON_SPARK}"


def to_json(program: Program) -> str:
    """Returns the program as indented JSON, with its fingerprint and how it is cut. `Program.from_json` reads it."""
    cells = {} if program.plan is not None else {"cells": cut.to_json(program)}
    return json.dumps({**program.to_json(), "fingerprint": program.fingerprint, **cells}, indent=2) + "\n"


def explained(
    program: Program, wires: Wires | None = None, is_native: IsNative | None = None, segments: Sequence[str] = ()
) -> str:
    """Returns `to_json` with an entry `explained`: the verdict, the cost of each stage, the wires, how an engine runs
    each part of the stages, and the expressions of each stage that Arrow evaluates. `Program.from_json` reads it."""
    explained_parts = {**upkeep.to_json(program), "wires": wires_to_json(program, wires or wiring(program))}
    if segments:
        explained_parts["batch"] = list(segments)
    if is_native is not None:
        explained_parts["by_arrow"] = [by_arrow(stage, is_native) for stage in program.stages]
    shown = {**json.loads(to_json(program)), "explained": explained_parts}
    return json.dumps(shown, indent=2) + "\n"


def dropped(stage: Stage) -> bool:
    """Returns True for the placeholder of a stage that no view of a database reads any more."""
    return stage == LinearStage(())


def kind(stage: Stage) -> str:
    """Returns the name of a kind of stage."""
    name = kind_name(type(stage))
    if isinstance(stage, JoinStage):
        return f"{name} ({stage.mode})"
    if isinstance(stage, OverStage):
        return f"{name} ({', '.join(kinds(stage.functions, (one.column for one in stage.order)))})"
    if isinstance(stage, GroupStage) and any(call.share is not None for call in stage.aggregates):
        return f"{name} (percentile)"
    if isinstance(stage, FixpointStage):
        if stage.best:
            return f"recursion ({'max' if stage.best[0].falling else 'min'})"
        return f"recursion ({'union' if stage.distinct else 'union all'})"
    return {"band": "band join", "top": "top-k"}.get(name, name)


def result_mark(program: Program, number: int) -> str:
    """Returns a phrase for a stage that is a result; empty for other stages."""
    if program.results is None:
        return ", the result" if number == len(program.stages) - 1 else ""
    names = [named.name for named in program.results if named.stage == number]
    return f", the view {', '.join(names)}" if names else ""


def lines_of(stage: Stage) -> list[str]:
    """Returns a description of a stage as lines that begin with a keyword."""
    if isinstance(stage, JoinStage):
        lines = [f"class {explain.class_line(stage.plan)}", f"output {', '.join(explain.output_columns(stage.plan))}"]
        if stage.plan.residual:
            lines.append("filter " + " AND ".join(str(expr) for expr in stage.plan.residual))
        return lines + [f"note {note}" for note in stage.plan.notes]
    if isinstance(stage, GroupStage):
        lines = [
            f"of {_feed(stage.feed)}",
            *(f"values of {_feed(feed)}" for feed in stage.values),
            "by " + (", ".join(stage.keys) or "nothing: always one row"),
        ]
        lines += [f"{call.name} = {_call(call)}" for call in stage.aggregates]
        if stage.having is not None:
            lines.append(f"having {stage.having}")
        return [*lines, f"output {_columns(stage.outputs)}"]
    if isinstance(stage, TopStage):
        skipped = f" after {stage.offset}" if stage.offset else ""
        first = f"the first {stage.limit}{skipped}" if stage.limit < EVERY_ROW else f"all{skipped}"
        lines = [f"of {_feed(stage.feed)}", f"{first} by {_order(stage.order)}"]
        return lines + ([f"for each {', '.join(stage.keys)}"] if stage.keys else [])
    if isinstance(stage, OverStage):
        lines = [f"of {_feed(stage.feed)}", f"by {_order(stage.order) or 'all columns'}"]
        lines += [f"for each {', '.join(stage.keys)}"] if stage.keys else ["in one partition, which is in one cell"]
        return lines + [f"{one.name} = {_over(one)}" for one in stage.functions]
    if isinstance(stage, SliceStage):
        one = stage.slice
        upto = "up to the row" if one.inclusive else "of the rows before"
        total = f"{one.summed} {upto}, by {_order(stage.order)}"
        lines = [f"of {_feed(stage.feed)}", f"while {total} {COMPARISONS[one.comparison]} {one.bound}"]
        return lines + ([f"for each {', '.join(stage.keys)}"] if stage.keys else [])
    if isinstance(stage, TimedStage):
        since = [f"{stage.since} <= now"] if stage.since is not None else []
        until = [f"now < {stage.until}"] if stage.until is not None else []
        return [f"of {_feed(stage.feed)}", f"while {' and '.join(since + until)}", f"now of {_feed(stage.clock)}"]
    if isinstance(stage, BandStage):
        band = stage.band
        equal = [f"{one} <=> {other}" for one, other in band.keys]
        met = " AND ".join([*equal, band.within(band.point, band.low or "", band.high or "")])
        lines = [f"bands of {_feed(stage.bands)}", f"points of {_feed(stage.points)}", f"pairs where {met}"]
        lines += [f"sums of {', '.join(filter(None, map(_product, band.terms)))}"] if band.terms else []
        return [*lines, f"output {', '.join(output.name for output in band.outputs) or 'the number of pairs'}"]
    if isinstance(stage, FixpointStage):
        *tables, rows = stage.tables
        lines = [
            f"of {_feed(feed)}" + ("" if feed.source == table.name else f" as {table.name}")
            for feed, table in zip(stage.feeds, tables, strict=True)
        ]
        each = "each row once" if stage.distinct else "as often as derived"
        if stage.best:
            value, *picked = stage.best
            others = [
                column.name for column in outputs_of(stage) if column.name not in [one.column for one in stage.best]
            ]
            best = f"the {'greatest' if value.falling else 'least'} {value.column}"
            best += f" and its {', '.join(one.column for one in picked)}" if picked else ""
            each = f"with {best} for each {', '.join(others)}" if others else f"with {best}"
        lines.append(f"itself as {rows.name}, {each}")
        return lines + [
            f"inside stage {i}, {kind(one)}: {'; '.join(lines_of(one))}" for i, one in enumerate(stage.stages)
        ]
    if isinstance(stage, SingleStage):
        each = f" for each {', '.join(stage.keys)}" if stage.keys else ""
        return [f"of {_feed(stage.feed)}", f"at most one row{each}, or the batch is refused"]
    if isinstance(stage, PointwiseStage):
        lines = [f"rows of {_function(stage.function)}"]
        return lines + [f"{_letter(i)} = {_feed(leaf)}" for i, leaf in enumerate(stage.leaves)]
    if not stage.terms:
        return ["no rows: no view needs this stage any more"]
    return ["sum of " + _feed(stage.terms[0]), *("   plus " + _feed(term) for term in stage.terms[1:])]


def _product(term: PairTerm) -> str:
    """Returns a product of factors as text. A factor other than a value shows the property that it tests."""
    return " × ".join(name if what == VALUE else f"{name} is {what}" for name, what in term)


def _costs(stage: Stage) -> list[str]:
    known = upkeep.upkeep(stage)
    name = f"{known.name}: " if isinstance(stage, JoinStage) else ""
    because = [f"because {known.witness}"] if known.witness else []
    return [f"cost {name}{known.update}", *because, f"memory {known.memory}"]


def _over(one: WindowFunction) -> str:
    """Returns a window function with its frame in the syntax of SQL."""
    count = [str(one.count)] if one.function in _COUNTED or one.count > 1 else []
    count = [durations.shown(one.count)] if one.function in SESSIONS else count
    inner = [*one.arguments, *count, *filter(None, [one.default])]
    where = f" FILTER (WHERE {one.where})" if one.where else ""
    text = f"{one.function.upper()}({', '.join(inner)}){where}"
    if one.frame is None:
        return text
    if one.gathered:
        text = _aggregated(Aggregate.of(one))
    unit = "RANGE" if one.frame.unit in VALUED else one.frame.unit.upper()
    start, end = (_bound(one.frame, side) for side in ("PRECEDING", "FOLLOWING"))
    excluded = {"": "", "row": " EXCLUDE CURRENT ROW"}.get(one.frame.exclude, f" EXCLUDE {one.frame.exclude.upper()}")
    return f"{text} over {unit} BETWEEN {start} AND {end}{excluded}"


_COUNTED = ("ntile", "lag", "lead", "nth_value")


def _bound(frame: Frame, side: str) -> str:
    bound = frame.start if side == "PRECEDING" else frame.end
    if bound is None:
        return f"UNBOUNDED {side}"
    if bound == 0:
        return "CURRENT ROW"
    size = f"INTERVAL '{abs(bound)}' MONTH" if frame.unit == "months" else f"{abs(bound)}"
    return f"{size} {'PRECEDING' if bound < 0 else 'FOLLOWING'}"


def _order(order: Iterable[Order]) -> str:
    """Returns an order of rows as text. The position of NULLs is shown if it differs from Spark's default."""
    return ", ".join(
        f"{one.column}{' DESC' if one.falling else ''}"
        + (f" NULLS {'LAST' if one.nulls_last else 'FIRST'}" if one.nulls_last != one.falling else "")
        for one in order
    )


_SHOWN = 60
_LONG = re.compile(r"'(?:[^']|''){200,}'")
"""Texts of which EXPLAIN shows only the first characters."""


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(
        _LONG.sub(lambda found: f"{found[0][:_SHOWN]}…'", line),
        explain.WIDTH,
        initial_indent="  ",
        subsequent_indent="      ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _letter(index: int) -> str:
    return chr(ord("A") + index) if index < 26 else f"L{index}"


def _function(function: Function) -> str:
    """Returns a function of multiplicities as set operations over letters."""
    if isinstance(function, int):
        return _letter(function)
    parts = [_function(part) for part in function[1:] if not isinstance(part, str)]
    if function[0] == "distinct":
        return f"DISTINCT {parts[0]}"
    parts = [f"({p})" if " " in p and not p.startswith("DISTINCT") else p for p in parts]
    return f" {_SIGNS[str(function[0])]} ".join(parts)


def _feed(feed: Feed) -> str:
    where = f" where {feed.where}" if feed.where is not None else ""
    times = f"{feed.weight} × " if feed.weight != 1 else ""
    source = f"stage {feed.source}" if isinstance(feed.source, int) else feed.source
    return f"{times}{source} ({_columns(feed.columns)}){where}"


def _columns(columns: tuple[Output, ...]) -> str:
    return ", ".join(
        out.name if str(out.expr) == identifier(out.name) else f"{out.expr} AS {identifier(out.name)}"
        for out in columns
    )


def _call(call: Aggregate) -> str:
    return f"{_aggregated(call)}: {call.type}"


def _aggregated(call: Aggregate) -> str:
    distinct = "DISTINCT " if call.distinct else ""
    where = f" FILTER (WHERE {call.where})" if call.where is not None else ""
    more = [repr(part) for part in (call.share, call.separator) if part is not None]
    given = ", ".join([*call.arguments, *more]) or "*"
    order = f" ORDER BY {_order(call.order)}" if call.order else ""
    power = f" ^ {call.power}" if call.power > 1 else ""
    return f"{call.function.upper()}({distinct}{given}{order}){where}{power}"
