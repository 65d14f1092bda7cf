"""EXPLAIN of a program: its stages in order, what each reads, keeps and costs per change; as text, JSON and mermaid."""

from __future__ import annotations

import json
import textwrap

from plans.expressions.sqltext import identifier
from plans.plan import Output
from plans.program import (
    Aggregate,
    Feed,
    Function,
    GroupStage,
    JoinStage,
    LinearStage,
    PointwiseStage,
    Program,
    Stage,
    TopStage,
)
from plans.reads import sources
from plans.show import explain

_SIGNS = {
    "union": "UNION", "union_all": "UNION ALL", "except": "EXCEPT", "except_all": "EXCEPT ALL",
    "intersect": "INTERSECT", "intersect_all": "INTERSECT ALL",
}  # fmt: skip
_ORDERED = ("min", "max")


def text(program: Program) -> str:
    """Returns what is maintained and at what cost, for a terminal; a program that is a plan is shown as that."""
    if program.plan is not None:
        return explain.text(program.plan)
    lines = explain.field("query", " ".join(program.query.split())) if program.results is None else []
    lines += explain.field("tables", ", ".join(table.name for table in program.tables))
    for note in program.notes:
        lines += explain.field("note", note)
    for named in program.results or ():
        lines += explain.field(f"view {named.name}", " ".join(named.query.split()))
        lines += [line for note in named.notes for line in explain.field("note", note)]
    for number, stage in enumerate(program.stages):
        if stage == LinearStage(()):
            continue  # it has been dropped
        lines += ["", f"stage {number}   {_kind(stage)}{_result(program, number)}"]
        for line in (*_lines(stage), f"cost {cost(stage)}"):
            lines += _wrapped(line)
        lines += _tree(stage)
    return "\n".join(lines) + "\n"


def to_json(program: Program) -> str:
    """Returns the program as indented JSON, with its fingerprint; `Program.from_json` reads it."""
    return json.dumps({**program.to_json(), "fingerprint": program.fingerprint}, indent=2) + "\n"


def mermaid(program: Program) -> str:
    """Returns the stages and tables as a mermaid flowchart; of a program that is a plan, the join tree."""
    if program.plan is not None:
        return explain.mermaid(program.plan)
    lines = ["flowchart TD"]
    names = {table.name: f"t{index}" for index, table in enumerate(program.tables)}
    lines += [f'  {short}["{name}"]' for name, short in names.items()]
    for number, stage in enumerate(program.stages):
        if stage == LinearStage(()):
            continue
        lines.append(f'  s{number}(["{number}: {_kind(stage)}"])')
        lines += [f"  {names[s] if isinstance(s, str) else f's{s}'} --> s{number}" for s in sources(stage)]
    return "\n".join(lines) + "\n"


def cost(stage: Stage) -> str:
    """Returns what a change of a stage's input costs, and what the stage keeps."""
    if isinstance(stage, LinearStage):
        return "O(1) per change, no state"
    if isinstance(stage, PointwiseStage):
        return "O(1) per change, keeps the count of each row"
    if isinstance(stage, GroupStage):
        several = any(a.distinct or a.function in _ORDERED for a in stage.aggregates)
        time = "O(log n)" if any(a.function in _ORDERED for a in stage.aggregates) else "O(1)"
        return f"{time} per change, keeps the groups" + (" and their distinct values" if several else "")
    if isinstance(stage, TopStage):
        return "O(log n) per change, keeps all rows in order"
    best = stage.plan.bounds[0] if stage.plan.bounds else None
    bound = f"{best.update} on {explain.stream_name(best.stream)}" if best is not None else "no bound known"
    return bound + (", and the joined rows that change; rows have multiplicities" if stage.mode == "bag" else "")


def _kind(stage: Stage) -> str:
    kind = type(stage).__name__.removesuffix("Stage").lower()
    return f"{kind} ({stage.mode})" if isinstance(stage, JoinStage) else kind


def _result(program: Program, number: int) -> str:
    """Returns what is said of a stage that is a result."""
    if program.results is None:
        return ", the result" if number == len(program.stages) - 1 else ""
    names = [named.name for named in program.results if named.stage == number]
    return f", the view {', '.join(names)}" if names else ""


def _lines(stage: Stage) -> list[str]:
    if isinstance(stage, JoinStage):
        lines = [f"class {explain.class_line(stage.plan)}", f"output {', '.join(explain.output_columns(stage.plan))}"]
        if stage.plan.residual:
            lines.append("filter " + " AND ".join(str(expr) for expr in stage.plan.residual))
        return lines + [f"note {note}" for note in stage.plan.notes]
    if isinstance(stage, GroupStage):
        lines = [f"of {_feed(stage.feed)}", "by " + (", ".join(stage.keys) or "nothing: one row, always")]
        lines += [f"{call.name} = {_call(call)}" for call in stage.aggregates]
        if stage.having is not None:
            lines.append(f"having {stage.having}")
        return [*lines, f"output {_columns(stage.outputs)}"]
    if isinstance(stage, TopStage):
        skipped = f" after {stage.offset}" if stage.offset else ""
        lines = [f"of {_feed(stage.feed)}", f"the first {stage.limit}{skipped} by {_order(stage)}"]
        return lines + ([f"for each {', '.join(stage.keys)}"] if stage.keys else [])
    if isinstance(stage, PointwiseStage):
        lines = [f"rows of {_function(stage.function)}"]
        return lines + [f"{_letter(i)} = {_feed(leaf)}" for i, leaf in enumerate(stage.leaves)]
    return ["sum of " + _feed(stage.terms[0]), *("   plus " + _feed(term) for term in stage.terms[1:])]


def _order(stage: TopStage) -> str:
    """Returns the order of the rows; NULLs are named where they are not where Spark puts them."""
    return ", ".join(
        f"{one.column}{' DESC' if one.falling else ''}"
        + (f" NULLS {'LAST' if one.nulls_last else 'FIRST'}" if one.nulls_last != one.falling else "")
        for one in stage.order
    )


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(
        line,
        explain.WIDTH,
        initial_indent="  ",
        subsequent_indent="      ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _tree(stage: Stage) -> list[str]:
    return explain.tree(stage.plan) if isinstance(stage, JoinStage) else []


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
    distinct = "DISTINCT " if call.distinct else ""
    where = f" FILTER (WHERE {call.where})" if call.where is not None else ""
    return f"{call.function.upper()}({distinct}{', '.join(call.arguments) or '*'}){where}: {call.type}"
