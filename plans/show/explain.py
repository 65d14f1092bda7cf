"""EXPLAIN: a plan as text, JSON or a mermaid diagram. The picture (HTML with SVG) is in `plans.show.picture`."""

from __future__ import annotations

import json
import textwrap

from plans.expressions.sqltext import identifier
from plans.plan import Node, Plan
from plans.reads import occurrences
from plans.search.shares import solve

WIDTH = 110


def text(plan: Plan, *, cells: int | None = None) -> str:
    """Returns what is maintained and at what cost, for a terminal; with `cells`, how rows are copied to HyperCube
    cells."""
    lines = field("query", " ".join(plan.query.split()))
    lines += field("class", class_line(plan))
    for bound in plan.bounds:
        lines += field("update", f"{bound.update}  on {stream_name(bound.stream)}  [{bound.source}]")
    lines += field("output", ", ".join(output_columns(plan)) or "no column: one row if there is a result")
    if plan.residual:
        lines += field("filter", " AND ".join(f"({e})" if e.op == "or" else str(e) for e in plan.residual))
    lines += field("deltas", deltas_line(plan))
    for note in plan.notes:
        lines += field("note", note)
    if len(set(plan.rates.values())) > 1:
        lines += field("rates", ", ".join(f"{name} {rate:g}" for name, rate in plan.rates.items()))
    lines += field("tree", choice(plan))
    if cells is not None:
        lines += field("cells", _cells(plan, cells))
    lines += ["", *tree(plan)]
    if len(plan.candidates) > 1:
        lines += ["", *_candidates(plan)]
    return "\n".join(lines) + "\n"


def to_json(plan: Plan) -> str:
    """Returns the plan as indented JSON, with its fingerprint; `Plan.from_json` reads it."""
    return json.dumps({**plan.to_json(), "fingerprint": plan.fingerprint}, indent=2) + "\n"


def mermaid(plan: Plan) -> str:
    """Returns the join tree as a mermaid flowchart."""
    lines = ["flowchart TD"]
    for index, node in enumerate(plan.nodes):
        label = f"{node.name}<br/>{_attributes(node)}" if node.kind == "input" else node.name
        if node.predicate is not None:
            label += f"<br/>{node.predicate}"
        label = label.replace('"', "#quot;").replace("<br/>", "\0").replace("<", "#lt;").replace(">", "#gt;")
        label = label.replace("\0", "<br/>")
        shape = {"input": ('["', '"]'), "virtual": ('(["', '"])'), "bag": ('[["', '"]]')}[node.kind]
        lines.append(f"  n{index}{shape[0]}{label}{shape[1]}")
    for index, node in enumerate(plan.nodes):
        if node.parent >= 0:
            lines.append(f'  n{node.parent} ---|"{", ".join(node.key)}"| n{index}')
    lines.append("  classDef free fill:#dbeafe,stroke:#1d4ed8,color:#0f172a")
    lines.append("  classDef bound fill:#f1f5f9,stroke:#94a3b8,color:#334155")
    for free, name in ((True, "free"), (False, "bound")):
        members = ",".join(f"n{i}" for i, node in enumerate(plan.nodes) if node.free is free)
        if members:
            lines.append(f"  class {members} {name}")
    return "\n".join(lines) + "\n"


def views(node: Node) -> list[str]:
    """Returns the views kept at a node: V_s its joinable rows, V_p their projection on the key, V_l those in some
    result."""
    kept = ["V_s"]
    if node.parent >= 0:
        kept.append(f"V_p({', '.join(node.key)})")
    return [*kept, "V_l"] if node.free else kept


def field(name: str, value: str) -> list[str]:
    """Returns a named line of EXPLAIN, wrapped."""
    wrapped = textwrap.wrap(value, WIDTH - 10, break_long_words=False, break_on_hyphens=False) or [""]
    return [f"{name:<9} {wrapped[0]}", *(" " * 10 + line for line in wrapped[1:])]


def class_line(plan: Plan) -> str:
    """Returns the class of the query, with the witness of what it is not."""
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
    """Returns what the deltas of a batch are."""
    if plan.support:
        return "net per batch, by a support count per result row"
    return "net per batch as they come" if plan.consolidated else "exact; net per batch when consolidated"


def choice(plan: Plan) -> str:
    """Returns the tree's measures, and its rank among the candidates."""
    measures = f"height {plan.height}, Σ depth·rate {plan.cost:g}"
    if plan.candidate_count == 1:
        return f"{measures}, the only tree"
    best = plan.candidates[0]
    if (plan.height, plan.cost) == (best.height, best.cost):
        return f"{measures}, best of {plan.candidate_count} trees"
    return f"{measures}, asked for; the best of {plan.candidate_count} trees is {best.tree}"


def _cells(plan: Plan, cells: int) -> str:
    grid = solve(plan, cells)
    copies = ", ".join(f"{atom.name} ×{grid.copies(atom.attributes)}" for atom in occurrences(plan))
    return f"{grid}; copies of a row: {copies}"


def _attributes(node: Node) -> str:
    return f"({', '.join(node.attributes)})"


def tree(plan: Plan) -> list[str]:
    """Returns the lines of the join tree."""
    rows: list[tuple[str, str, str]] = []

    def walk(index: int, lead: str, stem: str) -> None:
        node = plan.nodes[index]
        name = node.name + _attributes(node) if node.kind == "input" else node.name
        rows.append((lead + name, "free" if node.free else "bound", _detail(plan, index)))
        below = plan.children(index)
        if node.bag is not None:
            for atom in node.bag.atoms:
                what = f" where {atom.predicate}" if atom.predicate is not None else ""
                rows.append((f"{stem}  · {atom.name}({', '.join(atom.attributes)})", "", f"{atom.relation}{what}"))
        for child in below:
            last = child == below[-1]
            walk(child, stem + ("└─ " if last else "├─ "), stem + ("   " if last else "│  "))

    walk(0, "", "")
    left = max(len(row[0]) for row in rows)
    return [f"  {name:<{left}}  {kind:<5}  {detail}".rstrip() for name, kind, detail in rows]


def _detail(plan: Plan, index: int) -> str:
    node = plan.nodes[index]
    parts = [" ".join(views(node))]
    if node.kind == "input":
        source = node.relation if node.name.lower() != node.relation.lower() else ""
        where = f"where {node.predicate}" if node.predicate is not None else ""
        origin = " ".join(part for part in (f"of {source}" if source else "", where) if part)
        parts += [origin] if origin else []
    elif node.bag is not None:
        parts.append(f"{node.bag.method} bag, width {node.bag.width:.4g}")
    return "   ".join(parts)


def _candidates(plan: Plan) -> list[str]:
    shown = plan.candidates[:8]
    left = max(len(candidate.tree) for candidate in shown)
    lines = [f"  {c.tree:<{left}}  height {c.height}  cost {c.cost:g}" for c in shown]
    if plan.candidate_count > len(shown):
        lines.append(f"  and {plan.candidate_count - len(shown)} more")
    return ["candidates", *lines]
