"""EXPLAIN as an HTML page: the verdict, the flow of the stages, a card for each stage, and a legend.

The page is one file without scripts, fonts or requests. It is light or dark as the reader's system is. Content wider
than the window scrolls separately. A tree initially shows its root in browsers that support `scroll-initial-target`.
"""

from __future__ import annotations

from html import escape

from plans.plan import Plan
from plans.program import Program, program_of
from plans.programs.reads import occurrences_of_plan, sources
from plans.programs.stages import JoinStage, Stage
from plans.programs.wiring import Wires, wiring
from plans.search.cells.shares import hashable, solve
from plans.search.counted.classes import CONSTANT, ENUMERATED, LOGARITHMIC
from plans.show import explain, programs, upkeep
from plans.show.picture import flow, tree
from plans.show.picture.legend import legend
from plans.show.picture.style import page_style
from plans.show.wires import of_stage, of_table

_GRIDS = (2, 4, 8, 16)
_SHOWN = 6
_VIEW = "view "


def html(made: Plan | Program, wires: Wires | None = None, *, page: bool = True) -> str:
    """Returns a self-contained page, or, with `page=False`, the fragment that a notebook shows.

    `wires`: those of the engine that maintains the plan, by default those of an engine without options.
    """
    program = program_of(made) if isinstance(made, Plan) else made
    wires = wires or wiring(program)
    inside = f"{_head(program, wires)}{_body(program, wires)}{legend(program)}"
    body = f"<div class='crown-plan'><style>{page_style()}</style>{inside}</div>"
    if not page:
        return body
    title = escape(" ".join(program.query.split())[:80])
    outer = "body{margin:0;background:#fff}@media (prefers-color-scheme:dark){body{background:#0f172a}}"
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        f"<title>EXPLAIN: {title}</title><style>{outer}</style></head><body>{body}</body></html>\n"
    )


def _head(program: Program, wires: Wires) -> str:
    growth = max(upkeep.upkeep(stage).growth for stage in program.stages)
    meaning, remedy = upkeep.advice(program)
    todo = "".join(f"<p>{_code(text)}</p>" for text in (meaning, remedy) if text)
    verdict_html = f"<div class='verdict {_colour(growth)}'><b>{escape(upkeep.verdict(program))}</b>{todo}</div>"
    facts_html = f"{_queries(program)}{verdict_html}{_facts(_program_facts(program, wires))}"
    return f"<h1>How this query is kept up to date</h1>{facts_html}"


def _code(text: str) -> str:
    """Returns a text in which parts between backticks are code."""
    return "".join(f"<code>{escape(p)}</code>" if i % 2 else escape(p) for i, p in enumerate(text.split("`")))


def _colour(growth: int) -> str:
    return "good" if growth in (CONSTANT, LOGARITHMIC) else "fair" if growth <= ENUMERATED else "poor"


def _facts(facts: list[tuple[str, str]]) -> str:
    rows = "".join(f"<dt>{name}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    return f"<dl>{rows}</dl>" if rows else ""


def _program_facts(program: Program, wires: Wires) -> list[tuple[str, str]]:
    tables = [("table", of_table(table, wires)) for table in program.tables]
    if program.plan is not None:
        return tables
    return [*tables, *((name, value) for name, value in programs.facts(program) if not name.startswith(_VIEW))]


def _queries(program: Program) -> str:
    """Returns the query, or the queries of a database with the names of their views."""
    if program.results is None:
        return f"<pre class='query'>{escape(program.query.strip())}</pre>"
    return "".join(f"<pre class='query'>{escape(f'{one.name}: {one.query.strip()}')}</pre>" for one in program.results)


def _body(program: Program, wires: Wires) -> str:
    if program.plan is not None:
        return f"<section>{_join(program.plan, _plan_facts(program.plan), alone=True)}</section>"
    drawing = flow.svg(program, standalone=False)
    cards = "".join(
        _stage(program, number, wires) for number, stage in enumerate(program.stages) if not programs.dropped(stage)
    )
    return f"<section><h2>Stages</h2><div class='canvas'>{drawing}</div></section>{cards}"


def _stage(program: Program, number: int, wires: Wires) -> str:
    stage = program.stages[number]
    cost = upkeep.upkeep(stage)
    result = programs.result_mark(program, number)
    badge = f"<span class='badge {_colour(cost.growth)}'>{escape(cost.name)}</span>" if _is_join(stage) else ""
    title = f"<h2>stage {number}: {programs.kind(stage)}{escape(result)}{badge}</h2>"
    inputs = ", ".join(_link(source) for source in sources(stage))
    readers = [n for n, other in enumerate(program.stages) if number in sources(other)]
    to = ", ".join([*map(_link, readers), *([escape(result.removeprefix(", "))] if result else [])])
    lines = (*programs.lines_of(stage), *of_stage(number, wires))
    facts = [*map(_split, lines), ("cost", cost.update)]
    facts += [("because", cost.witness)] if cost.witness else []
    facts.append(("memory", cost.memory))
    inside = _join(stage.plan, facts) if isinstance(stage, JoinStage) else _facts(facts)
    frame = " class='result'" if result else ""
    return f"<section{frame} id='stage-{number}'>{title}<div class='reads'>{inputs} → {to}</div>{inside}</section>"


def _is_join(stage: Stage) -> bool:
    return isinstance(stage, JoinStage)


def _link(source: str | int) -> str:
    return escape(source) if isinstance(source, str) else f"<a href='#stage-{source}'>stage {source}</a>"


def _split(line: str) -> tuple[str, str]:
    """Returns the first word of a line, and the rest. Names of aggregates may be too long for the margin."""
    first, _, rest = line.strip().partition(" ")
    return ("value", line) if rest.startswith("= ") and len(first) > 3 else (first, rest)


def _plan_facts(plan: Plan) -> list[tuple[str, str]]:
    cost = upkeep.of_plan(plan)
    facts = [("class", explain.class_line(plan))]
    facts += [("update", f"{b.update} on {explain.stream_name(b.stream)}, {b.source}") for b in plan.bounds]
    facts += [("output", ", ".join(explain.output_columns(plan)) or "one row if there is a result")]
    if plan.residual:
        facts.append(("filter", " AND ".join(map(str, plan.residual))))
    facts += [("deltas", explain.deltas_line(plan)), ("memory", cost.memory)]
    return facts + [("note", note) for note in plan.notes]


def _join(plan: Plan, facts: list[tuple[str, str]], alone: bool = False) -> str:
    drawing = tree.svg(plan, standalone=False)
    tables = f"{_candidates(plan)}{_replication(plan) if alone else ''}"
    below = f"<div class='columns'>{tables}</div>" if tables else ""
    left, width = tree.around_root(plan)
    first = f"<div class='root' style='left:{left:.0f}px;width:{width:.0f}px'></div>"
    return f"{_facts([*facts, ('tree', explain.choice(plan))])}<div class='canvas'>{drawing}{first}</div>{below}"


def _candidates(plan: Plan) -> str:
    if plan.candidate_count <= 1:
        return ""
    shown = list(plan.candidates[:_SHOWN])
    chosen = explain.chosen(plan)
    if chosen not in shown:
        shown.append(chosen)
    rows = "".join(
        f"<tr{' class=chosen' if c == chosen else ''}><td>{'✓ ' if c == chosen else ''}{escape(c.tree)}</td>"
        f"<td>{c.height}</td><td>{c.cost:g}</td></tr>"
        for c in shown
    )
    more = plan.candidate_count - len(shown)
    foot = f"<tr><td colspan='3'>and {more} more</td></tr>" if more > 0 else ""
    head = f"<tr><th>candidate trees (✓ chosen)</th><th>height</th><th>{explain.objective(plan)}</th></tr>"
    return f"<div class='scroll'><table>{head}{rows}{foot}</table></div>"


def _replication(plan: Plan) -> str:
    """Returns a table of the copies of each relation's rows under HyperCube, for a few numbers of cells."""
    if not hashable(plan):
        return ""
    grids = [solve(plan, cells) for cells in _GRIDS]
    head = "".join(f"<th>{grid.cells} cells</th>" for grid in grids)
    shape = "".join(
        "<td>" + "<br>".join(f"{s} of {escape(a)}" for a, s in zip(g.attributes, g.shares, strict=True)) + "</td>"
        for g in grids
    )
    rows = "".join(
        f"<tr><td>{escape(atom.name)}</td>" + "".join(f"<td>×{g.copies(atom.attributes)}</td>" for g in grids) + "</tr>"
        for atom in occurrences_of_plan(plan)
    )
    first = f"<tr><th>copies of a row</th>{head}</tr><tr class='shape'><td>shares</td>{shape}</tr>"
    return f"<div class='scroll'><table>{first}{rows}</table></div>"
