"""EXPLAIN of one join as text, and its parts, which the other forms also use."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from plans.expressions.expr import Expr
from plans.expressions.sqltext import identifier
from plans.plan import Bag, BagAtom, Candidate, Node, Plan
from plans.program import program_of
from plans.programs.reads import occurrences
from plans.programs.wiring import Wires, wiring
from plans.search.bounds import rows_by_keys
from plans.search.cells.count import portion
from plans.search.cells.shares import solve
from plans.search.counted.classes import Edge, edges
from plans.show import upkeep
from plans.show.wires import IsNative, by_arrow, of_table

WIDTH = 110


def text(
    plan: Plan, wires: Wires | None = None, is_native: IsNative | None = None, segments: Sequence[str] = (), *,
    cells: int | None = None,
) -> str:  # fmt: skip
    """Returns the maintained views and their cost as text for a terminal. With `cells`, shows how rows are copied to
    HyperCube cells.

    `wires`: those of the engine that maintains the plan, by default those of an engine without options. `is_native`:
    tells what the kernels of the engine evaluate; other expressions are listed. `segments`: how the engine runs each
    part of the stages.
    """
    program = program_of(plan)
    wires = wires or wiring(program)
    lines = field("query", " ".join(plan.query.split()))
    lines += field("verdict", upkeep.verdict(program))
    for table in program.tables:
        lines += field("table", of_table(table, wires))
    lines += field("class", class_line(plan))
    for bound in plan.bounds:
        lines += field("update", f"{bound.update}  on {stream_name(bound.stream)}  [{bound.source}]")
    lines += field("output", ", ".join(output_columns(plan)) or "no column: one row if there is a result")
    if plan.residual:
        lines += field("filter", " AND ".join(f"({e})" if e.op == "or" else str(e) for e in plan.residual))
    found = [] if is_native is None else by_arrow(program.stages[0], is_native)
    lines += field("in Arrow", ", ".join(found)) if found else []
    lines += batch_lines(segments)
    lines += field("deltas", deltas_line(plan))
    for note in plan.notes:
        lines += field("note", note)
    if len(set(plan.rates.values())) > 1:
        lines += field("rates", ", ".join(f"{name} {rate:g}" for name, rate in plan.rates.items()))
    lines += field("memory", upkeep.of_plan(plan).memory)
    lines += field("tree", choice(plan))
    if cells is not None:
        lines += field("cells", _cells(plan, cells))
    lines += ["", *tree(plan)]
    if len(plan.candidates) > 1:
        lines += ["", *_candidates(plan)]
    return "\n".join(lines) + "\n"


def bag_line(plan: Plan, bag: Bag) -> str:
    """Returns the method and width of a bag, and the bound on its rows by declared keys, if there is one."""
    if plan.count is not None:
        return f"{bag.method}, width {bag.width:.4g}"
    rows = rows_by_keys(bag, plan.tables)
    return f"{bag.method} bag, width {bag.width:.4g}" + (f", {rows} rows by keys" if rows else "")


def views(plan: Plan, node: Node) -> list[str]:
    """Returns the views of a node: V_s its joinable rows, V_p their projection on the key, V_l those in some result;
    and whether a row of NULLs replaces missing rows."""
    if plan.count is not None:
        return []
    if plan.listed:
        return ["not stored"]
    kept = ["V_s"]
    if node.parent >= 0:
        kept.append(f"V_p({', '.join(node.key)})")
    return [*kept, *(["V_l"] if node.free else []), *(["or NULLs"] if node.padded else [])]


def field(name: str, value: str) -> list[str]:
    """Returns a named line of EXPLAIN, wrapped."""
    wrapped = textwrap.wrap(value, WIDTH - 10, break_long_words=False, break_on_hyphens=False) or [""]
    return [f"{name:<9} {wrapped[0]}", *(" " * 10 + line for line in wrapped[1:])]


def batch_lines(segments: Sequence[str]) -> list[str]:
    """Returns a named line for each part of the stages, which says how an engine runs it."""
    return [line for segment in segments for line in field("batch", segment)]


def class_line(plan: Plan) -> str:
    """Returns the class of the query, with the witnesses against stronger classes."""
    facts = plan.query_class
    parts = [str(facts.get("name", ""))]
    if facts.get("cycle"):
        parts.append(f"cycle: {facts['cycle']}")
    elif facts.get("free_path"):
        parts.append(f"path between outputs: {facts['free_path']}")
    elif facts.get("pair"):
        parts.append(f"not hierarchical: {facts['pair']}")
    elif facts.get("q_pair"):
        parts.append(f"hierarchical, not q-hierarchical: {facts['q_pair']}")
    if plan.width > 1:
        parts.append(f"width {plan.width:.4g}")
    return "; ".join(parts)


def stream_name(kind: str) -> str:
    """Returns a kind of stream in words."""
    return "any stream" if kind == "any" else f"{kind} streams"


def output_columns(plan: Plan) -> list[str]:
    """Returns the columns of the result."""
    return [
        out.name if str(out.expr) == identifier(out.name) else f"{out.expr} AS {identifier(out.name)}"
        for out in plan.output
    ]


def deltas_line(plan: Plan) -> str:
    """Returns a phrase that describes the deltas of a batch."""
    if plan.support:
        return "net per batch, by a support count per result row"
    return "net per batch" if plan.consolidated else "exact; net per batch when consolidated"


def objective(plan: Plan) -> str:
    """Returns the name of the measure that the search minimizes besides the height."""
    return "Σ depth·rate" if plan.payload is None else "Σ touches"


def choice(plan: Plan) -> str:
    """Returns the tree's measures, and its rank among the candidates."""
    measures = f"height {plan.height}, {objective(plan)} {plan.cost:g}"
    if plan.candidate_count == 1:
        return f"{measures}, the only tree"
    best = plan.candidates[0]
    if (plan.height, plan.cost) == (best.height, best.cost):
        return f"{measures}, best of {plan.candidate_count} trees"
    return f"{measures}, as requested; the best of {plan.candidate_count} trees is {best.tree}"


def chosen(plan: Plan) -> Candidate:
    """Returns the candidate with the plan's tree."""
    line = tree_line(plan)
    return next((c for c in plan.candidates if c.tree == line), plan.candidates[0])


def tree_line(plan: Plan) -> str:
    """Returns the plan's tree in one line, in the notation of candidates."""

    def written(index: int) -> str:
        node, below = plan.nodes[index], ", ".join(written(child) for child in plan.children(index))
        name = node.name.rstrip("'") if node.kind == "virtual" else node.name
        return f"{name}({below})" if below else name

    return written(0)


def _cells(plan: Plan, cells: int) -> str:
    grid = solve(plan, cells)
    copies = ", ".join(f"{atom.name} ×{grid.copies(atom.attributes)}" for atom in occurrences(plan))
    return f"{grid}; copies of a row: {copies}; a cell gets {portion(program_of(plan), cells):.0%} of the rows"


def _attributes(node: Node) -> str:
    return f"({', '.join(node.attributes)})"


def tree(plan: Plan) -> list[str]:
    """Returns the lines of the join tree."""
    rows: list[tuple[str, str, str]] = []
    known = edges(plan)

    def walk(index: int, lead: str, stem: str) -> None:
        node = plan.nodes[index]
        name = node.name + _attributes(node) if node.kind == "input" else node.name
        rows.append((lead + name, "free" if node.free else "bound", _detail(plan, index, known)))
        below = plan.children(index)
        if node.bag is not None:
            for atom in node.bag.atoms:
                taken = rows_taken(atom)
                what = f" where {taken}" if taken is not None else ""
                rows.append(
                    (
                        f"{stem}  · {atom.name}({', '.join(atom.attributes)})",
                        "",
                        f"{atom.relation}{_keys(plan, atom)}{what}",
                    )
                )
        for child in below:
            last = child == below[-1]
            walk(child, stem + ("└─ " if last else "├─ "), stem + ("   " if last else "│  "))

    walk(0, "", "")
    left = max(len(row[0]) for row in rows)
    return [f"  {name:<{left}}  {kind:<5}  {detail}".rstrip() for name, kind, detail in rows]


def _detail(plan: Plan, index: int, known: Mapping[int, Edge]) -> str:
    node = plan.nodes[index]
    kept = views(plan, node)
    parts = [" ".join(kept)] if kept else []
    if index in known:
        parts.append(f"payload {upkeep.payload_words(plan, index)}, {edge_mark(known[index])}")
    if node.kind == "input":
        source = node.relation if node.name.lower() != node.relation.lower() else ""
        taken = rows_taken(node)
        where = f"where {taken}" if taken is not None else ""
        key = _keys(plan, node).strip()
        origin = " ".join(part for part in (f"of {source}" if source else "", key, where) if part)
        parts += [origin] if origin else []
    elif node.bag is not None:
        parts.append(bag_line(plan, node.bag))
    return "   ".join(parts)


def rows_taken(atom: Node | BagAtom) -> Expr | None:
    """Returns the predicate on the rows that an atom reads, over the names that it shows; None for all rows.

    A column that the atom does not show has its name in the relation, prefixed by the relation if that name is another
    column here.
    """
    if atom.predicate is None:
        return None
    shown = dict(zip(atom.columns, atom.attributes, strict=True))

    def named(node: Expr, operands: list[Any]) -> Expr:
        if node.op != "col":
            return replace(node, args=tuple(operands))
        hidden = f"{atom.relation}.{node.value}" if node.value in atom.attributes else node.value
        return replace(node, value=shown.get(node.value, hidden))

    made: Expr = atom.predicate.fold(named)
    return made


def edge_mark(edge: Edge) -> str:
    """Returns the mark of an edge with a payload: quiet, fan 1, fan ?, or emits if the parent is free, because its
    results change anyway."""
    if edge.quiet:
        return "quiet"
    return "fan 1" if edge.fan_one else "fan ?" if edge.open else "emits"


def key_columns(plan: Plan, atom: Node | BagAtom) -> tuple[str, ...]:
    """Returns the attributes of an atom that belong to its table's declared key."""
    declared = {column.lower() for column in plan.table(atom.relation).key}
    return tuple(a for a, c in zip(atom.attributes, atom.columns, strict=True) if c.lower() in declared)


def _keys(plan: Plan, atom: Node | BagAtom) -> str:
    table = plan.table(atom.relation)
    return f" key ({', '.join(table.key)})" if table.key else " distinct" if table.distinct else ""


def _candidates(plan: Plan) -> list[str]:
    shown = plan.candidates[:8]
    left = max(len(candidate.tree) for candidate in shown)
    what = "cost" if plan.payload is None else "touches"
    lines = [f"  {c.tree:<{left}}  height {c.height}  {what} {c.cost:g}" for c in shown]
    if plan.candidate_count > len(shown):
        lines.append(f"  and {plan.candidate_count - len(shown)} more")
    return ["candidates", *lines]
