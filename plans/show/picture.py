"""The plan as a picture: SVG of the join tree, and a self-contained HTML page around it.

`svg` draws the tree: relations as cards, virtual nodes as pills, bags as cards with their atoms; blue is free (part
of the output), grey is bound; each edge carries its join key. `html` adds class, bounds, candidates and replication.
No script, no font, no request to anywhere.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from plans.expressions.expr import Expr
from plans.plan import Plan
from plans.reads import occurrences
from plans.search.shares import hashable, solve
from plans.show.explain import choice, class_line, deltas_line, output_columns, stream_name, views

_CHAR = 7.25  # width of a character of 12px monospace text
_LINE = 17
_PAD = 12
_GAP_X = 26
_GAP_Y = 64
_WRAP = 34  # characters of a line in a card
_GRIDS = (2, 4, 8, 16)


@dataclass
class _Card:
    """A node on the canvas: its lines of text as (css class, text), size, and place of its top middle."""

    index: int
    lines: list[tuple[str, str]]
    width: float
    height: float
    children: list[_Card]
    x: float = 0.0
    y: float = 0.0


def svg(plan: Plan, *, standalone: bool = True) -> str:
    """Returns the join tree as an SVG element; `standalone` with its own style, as a file needs it. Cost O(nodes)."""
    root = _card(plan, 0)
    levels: list[float] = []
    _measure(root, 0, levels)
    tops = [sum(levels[:i]) + i * _GAP_Y for i in range(len(levels))]
    _place(root, 0, 0.0, tops)
    cards = list(_walk(root))
    shift = 4 - min(card.x - card.width / 2 for card in cards)
    for card in cards:
        card.x += shift
    width = max(card.x + card.width / 2 for card in cards) + 4
    height = max(card.y + card.height for card in cards) + 6
    parts = [
        f'<svg class="tree" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label="join tree">'
    ]
    if standalone:
        parts.append(f"<style>{_SVG_STYLE}</style>")
    for card in cards:
        parts += [_edge(plan, card, child) for child in card.children]
    parts += [_drawing(plan, card) for card in cards]
    return "".join([*parts, "</svg>"])


def html(plan: Plan, *, page: bool = True) -> str:
    """Returns a self-contained page; with `page=False` the fragment that a notebook shows."""
    drawing = svg(plan, standalone=False)
    body = f'<div class="crown-plan"><style>{_STYLE}</style>{_header(plan)}<div class="canvas">{drawing}</div>'
    body += f"{_legend(plan)}<div class='columns'>{_candidates(plan)}{_replication(plan)}</div></div>"
    if not page:
        return body
    title = escape(" ".join(plan.query.split())[:80])
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Plan: '
        f"{title}</title><style>body{{margin:0;background:#fff}}</style></head><body>{body}</body></html>\n"
    )


# Layout -------------------------------------------------------------------------------------------------------------


def _card(plan: Plan, index: int) -> _Card:
    node = plan.nodes[index]
    lines = _named("name", node.name, node.attributes if node.kind == "input" else ())
    if node.kind == "input" and node.relation.lower() != node.name.lower():
        lines.append(("of", f"of {node.relation}"))
    if node.bag is not None:
        lines.append(("of", f"{node.bag.method} bag, width {node.bag.width:.4g}"))
        for atom in node.bag.atoms:
            lines += _named("atom", atom.name, atom.attributes)
            lines += _where(atom.predicate)
    lines += _where(node.predicate)
    lines.append(("views", " · ".join(views(node))))
    if node.name in plan.rates and len(set(plan.rates.values())) > 1:
        lines.append(("of", f"rate {plan.rates[node.name]:g}"))
    width = max(len(text) * _CHAR * (1.08 if kind in ("name", "names") else 0.92) for kind, text in lines)
    width = max(width + 2 * _PAD + 4, 84)
    height = len(lines) * _LINE + 2 * _PAD - 6
    return _Card(index, lines, width, height, [_card(plan, child) for child in plan.children(index)])


def _named(kind: str, name: str, attributes: tuple[str, ...]) -> list[tuple[str, str]]:
    """Returns `name(a, b)` on one line, or, where that is long, the attributes on lines of their own."""
    if not attributes or (kind == "atom" and name.endswith("]")):
        return [(kind, name)]
    whole = f"{name}({', '.join(attributes)})"
    if len(whole) <= _WRAP:
        return [(kind, whole)]
    return [(kind, name), *(("atoms" if kind == "atom" else "names", line) for line in _rows(attributes))]


def _rows(attributes: tuple[str, ...]) -> list[str]:
    return textwrap.wrap(", ".join(attributes), _WRAP, break_long_words=False)


def _where(predicate: Expr | None) -> list[tuple[str, str]]:
    if predicate is None:
        return []
    parts = [f"{'where' if n == 0 else 'and'} {part}" for n, part in enumerate(predicate.conjuncts())]
    return [("where", line) for part in parts for line in textwrap.wrap(part, 44, break_long_words=False)]


def _walk(card: _Card) -> Iterator[_Card]:
    yield card
    for child in card.children:
        yield from _walk(child)


def _measure(card: _Card, level: int, levels: list[float]) -> None:
    if level == len(levels):
        levels.append(0.0)
    levels[level] = max(levels[level], card.height)
    for child in card.children:
        _measure(child, level + 1, levels)


def _place(card: _Card, level: int, left: float, tops: list[float]) -> float:
    """Lays out the subtree from x = `left`; returns its right edge. A parent stands over the middle of its children."""
    card.y = tops[level]
    at = left
    for child in card.children:
        at = _place(child, level + 1, at, tops) + _GAP_X
    inner = at - _GAP_X if card.children else left
    if inner - left < card.width:
        extra = (card.width - (inner - left)) / 2
        for child in card.children:
            for below in _walk(child):
                below.x += extra
        inner = left + card.width
    if card.children:
        card.x = (card.children[0].x + card.children[-1].x) / 2
        card.x = min(max(card.x, left + card.width / 2), inner - card.width / 2)
    else:
        card.x = left + card.width / 2
    return inner


# Drawing ------------------------------------------------------------------------------------------------------------


def _drawing(plan: Plan, card: _Card) -> str:
    node = plan.nodes[card.index]
    state = "free" if node.free else "bound"
    radius = card.height / 2 if node.kind == "virtual" else 9
    left = card.x - card.width / 2
    parts = [
        f'<g class="node {node.kind} {state}"><rect x="{left:.1f}" y="{card.y + 2:.1f}" width="{card.width:.1f}" '
        f'height="{card.height:.1f}" rx="{radius:.1f}"/>'
    ]
    baseline = card.y + _PAD + 11
    for kind, text in card.lines:
        parts.append(f'<text class="{kind}" x="{card.x:.1f}" y="{baseline:.1f}">{_marked(kind, text, plan)}</text>')
        baseline += _LINE
    return "".join([*parts, "</g>"])


def _marked(kind: str, text: str, plan: Plan) -> str:
    """Returns the text of a line; output attributes stand out."""
    if kind == "views":
        return escape(text).replace("V_s", _sub("s")).replace("V_p", _sub("p")).replace("V_l", _sub("l"))
    if kind in ("names", "atoms"):
        return _attributes(text, plan)
    if kind not in ("name", "atom") or text[-1] not in ")]":
        return escape(text)
    opening, closing = ("(", ")") if text[-1] == ")" else ("[", "]")
    head, _, inside = text[:-1].rpartition(opening)
    return f"{escape(head)}{opening}{_attributes(inside, plan)}{closing}"


def _attributes(text: str, plan: Plan) -> str:
    shown = {out.expr.value for out in plan.output if out.expr.op == "col"}
    parts = text.split(",")
    return ",".join(f'<tspan class="out">{escape(p)}</tspan>' if p.strip() in shown else escape(p) for p in parts)


def _sub(letter: str) -> str:
    return f'V<tspan class="sub" dy="3">{letter}</tspan><tspan dy="-3">&#8203;</tspan>'


def _edge(plan: Plan, card: _Card, child: _Card) -> str:
    key = plan.nodes[child.index].key
    x1, y1, x2, y2 = card.x, card.y + card.height + 2, child.x, child.y + 2
    middle = (y1 + y2) / 2
    label = ", ".join(key) if key else "×"
    width = len(label) * _CHAR * 0.92 + 14
    state = "free" if plan.nodes[child.index].free else "bound"
    lx, ly = (x1 + x2) / 2, middle
    return (
        f'<path class="edge {state}" d="M{x1:.1f},{y1:.1f} C{x1:.1f},{middle:.1f} {x2:.1f},{middle:.1f} '
        f'{x2:.1f},{y2:.1f}"/><rect class="key" x="{lx - width / 2:.1f}" y="{ly - 10:.1f}" width="{width:.1f}" '
        f'height="20" rx="10"/><text class="keytext" x="{lx:.1f}" y="{ly + 4:.1f}">{escape(label)}</text>'
    )


# The page around it -------------------------------------------------------------------------------------------------


def _header(plan: Plan) -> str:
    facts = [("class", class_line(plan))]
    facts += [("update", f"{b.update} on {stream_name(b.stream)}, {b.source}") for b in plan.bounds]
    facts += [("output", ", ".join(output_columns(plan)) or "one row if there is a result")]
    if plan.residual:
        facts.append(("filter", " AND ".join(map(str, plan.residual))))
    facts += [("deltas", deltas_line(plan)), ("tree", choice(plan))]
    facts += [("note", note) for note in plan.notes]
    rows = "".join(f"<dt>{name}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    return f"<pre class='query'>{escape(plan.query.strip())}</pre><dl>{rows}</dl>"


def _legend(plan: Plan) -> str:
    items = [("free", "free: in the output"), ("bound", "bound: a filter")]
    shown = {("free" if node.free else "bound") for node in plan.nodes}
    keys = "".join(f"<span><i class='{name}'></i>{text}</span>" for name, text in items if name in shown)
    if any(node.kind == "virtual" for node in plan.nodes):
        keys += "<span><i class='free pill'></i>virtual node</span>"
    views_text = "V<sub>s</sub> joinable rows · V<sub>p</sub> their keys · V<sub>l</sub> rows of some result"
    return f"<div class='legend'>{keys}<span>{views_text}</span></div>"


def _candidates(plan: Plan) -> str:
    if plan.candidate_count <= 1:
        return ""
    rows = "".join(
        f"<tr><td>{escape(c.tree)}</td><td>{c.height}</td><td>{c.cost:g}</td></tr>" for c in plan.candidates[:6]
    )
    more = plan.candidate_count - min(6, len(plan.candidates))
    foot = f"<tr><td colspan='3'>and {more} more</td></tr>" if more > 0 else ""
    return f"<table><tr><th>candidate trees</th><th>height</th><th>Σ depth·rate</th></tr>{rows}{foot}</table>"


def _replication(plan: Plan) -> str:
    """Copies of each relation's rows under HyperCube, for a few numbers of cells."""
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
        for atom in occurrences(plan)
    )
    first = f"<tr><th>copies of a row</th>{head}</tr><tr class='shape'><td>shares</td>{shape}</tr>"
    return f"<table>{first}{rows}</table>"


_MONO = 'ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace'
_SANS = 'system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif'
_RULES = {
    "": f"font:14px/1.5 {_SANS};color:#0f172a;padding:24px 28px;max-width:1180px;background:#fff",
    ".query": f"font:13px/1.5 {_MONO};background:#f8fafc;color:#0f172a;margin:0 0 14px;padding:10px 14px;"
    "border:1px solid #e2e8f0;border-radius:8px;white-space:pre-wrap",
    "dl": "display:grid;grid-template-columns:70px 1fr;gap:2px 12px;margin:0 0 18px",
    "dt": "color:#64748b",
    "dd": "margin:0",
    ".canvas": "overflow-x:auto;padding:6px 0 4px;text-align:center",
    "svg.tree": "max-width:100%;height:auto",
    "svg text": f"font:12px {_MONO};text-anchor:middle;fill:#334155",
    "svg .name": "font-size:13px;font-weight:600;fill:#0f172a",
    "svg .of": "font-size:11px",
    "svg .names": "font-size:12px;font-weight:600;fill:#0f172a",
    "svg .atom": "font-size:11px",
    "svg .atoms": "font-size:11px",
    "svg .where": "font-size:11px;fill:#9a3412",
    "svg .views": "font-size:11px;fill:#64748b",
    "svg .sub": "font-size:8.5px",
    "svg .out": "fill:#1d4ed8",
    "svg .node rect": "stroke-width:1.5",
    "svg .free rect": "fill:#eff6ff;stroke:#2563eb",
    "svg .bound rect": "fill:#f8fafc;stroke:#94a3b8",
    "svg .virtual rect": "stroke-dasharray:5 3",
    "svg .bag rect": "stroke-width:3",
    "svg .edge": "fill:none;stroke:#94a3b8;stroke-width:1.6",
    "svg .edge.free": "stroke:#2563eb",
    "svg .key": "fill:#fff;stroke:#cbd5e1",
    "svg .keytext": "font-size:11px;fill:#0f172a",
    ".legend": "display:flex;flex-wrap:wrap;gap:6px 22px;justify-content:center;color:#64748b;font-size:12px;"
    "margin:8px 0 20px",
    ".legend i": "display:inline-block;width:16px;height:10px;border-radius:3px;border:1.5px solid;margin-right:6px",
    ".legend i.free": "background:#eff6ff;border-color:#2563eb",
    ".legend i.bound": "background:#f8fafc;border-color:#94a3b8",
    ".legend i.pill": "border-style:dashed;border-radius:6px",
    ".columns": "display:flex;flex-wrap:wrap;gap:28px;align-items:flex-start",
    "table": "border-collapse:collapse;font-size:12.5px;color:#334155;background:#fff",
    "th": "text-align:left;font-weight:600;color:#64748b;border-bottom:1px solid #e2e8f0;padding:4px 14px 4px 0",
    "td": "text-align:left;padding:3px 14px 3px 0;border-bottom:1px solid #f1f5f9;vertical-align:top;background:#fff;"
    f"font-family:{_MONO}",
    ".shape td": "color:#64748b",
}
_STYLE = "".join(f".crown-plan {selector}{{{rule}}}".replace(" {", "{", 1) for selector, rule in _RULES.items())
_SVG_STYLE = "".join(
    f".tree{selector[3:]}{{{rule}}}" for selector, rule in _RULES.items() if selector.startswith("svg ")
)
