"""Draws a join tree as SVG: relations as cards, virtual nodes as pills, bags as cards with their atoms.

Blue is free (part of the output), gray is bound. Each edge shows its join key. In plans whose rows are counted, an edge
with a payload is dotted if it is quiet, and thick if a change on it may touch any number of rows. Columns of a declared
key are underlined. The legend of the page explains every mark (`plans.show.picture.legend`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from plans.plan import BagAtom, Node, Plan
from plans.search.counted.classes import Edge, edges
from plans.show import upkeep
from plans.show.explain import bag_line, edge_mark, key_columns, rows_taken, views
from plans.show.picture.style import svg_style

_CHAR = 7.25  # width of a character of 12px monospace text
_LINE = 17
_PAD = 12
_GAP_X = 26
_GAP_Y = 64
_WRAP = 34  # characters of a line in a card
_SIGHT = 360.0  # around the root: a page narrower than the drawing shows this part first


class _Text(NamedTuple):
    """A line of a card: its class in the style sheet, the text, and the attributes in it that belong to a declared
    key."""

    kind: str
    text: str
    keys: tuple[str, ...] = ()


@dataclass
class _Card:
    """A node on the canvas: its lines of text, its size, and the position of its top center."""

    index: int
    lines: list[_Text]
    width: float
    height: float
    children: list[_Card]
    x: float = 0.0
    y: float = 0.0


def svg(plan: Plan, *, standalone: bool = True) -> str:
    """Returns the join tree as an SVG element. `standalone`: includes its own style, as a file needs. Cost O(nodes)."""
    known = edges(plan)
    cards = _laid_out(plan, known)
    width = max(card.x + card.width / 2 for card in cards) + 4
    height = max(card.y + card.height for card in cards) + 6
    parts = [
        f'<svg class="crown tree" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label="join tree">'
    ]
    if standalone:
        parts.append(f"<style>{svg_style()}</style>")
    for card in cards:
        parts += [_edge(plan, card, child, known.get(child.index)) for child in card.children]
    parts += [_drawing(plan, card) for card in cards]
    return "".join([*parts, "</svg>"])


def around_root(plan: Plan) -> tuple[float, float]:
    """Returns the left edge and the width of the part of the drawing that a narrow page shows first."""
    cards = _laid_out(plan, edges(plan))
    left, right = max(0.0, cards[0].x - _SIGHT / 2), max(card.x + card.width / 2 for card in cards)
    return left, min(_SIGHT, right - left)


# Layout -------------------------------------------------------------------------------------------------------------


def _laid_out(plan: Plan, known: Mapping[int, Edge]) -> list[_Card]:
    """Returns the cards with their positions, the root first."""
    root = _card(plan, 0, known)
    levels: list[float] = []
    _measure(root, 0, levels)
    tops = [sum(levels[:i]) + i * _GAP_Y for i in range(len(levels))]
    _place(root, 0, 0.0, tops)
    cards = list(_walk(root))
    shift = 4 - min(card.x - card.width / 2 for card in cards)
    for card in cards:
        card.x += shift
    return cards


def _card(plan: Plan, index: int, known: Mapping[int, Edge]) -> _Card:
    node = plan.nodes[index]
    inputs = node.kind == "input"
    lines = _named("name", node.name, node.attributes if inputs else (), key_columns(plan, node) if inputs else ())
    if node.kind == "input" and node.relation.lower() != node.name.lower():
        lines.append(_Text("of", f"of {node.relation}"))
    if node.bag is not None:
        lines.append(_Text("of", bag_line(plan, node.bag)))
        for atom in node.bag.atoms:
            lines += _named("atom", atom.name, atom.attributes, key_columns(plan, atom))
            lines += _where(atom)
    lines += _where(node)
    words = upkeep.payload_words(plan, index)
    lines.append(_Text("views", " · ".join([*views(plan, node), *([f"payload {words}"] if words else [])])))
    if node.name in plan.rates and len(set(plan.rates.values())) > 1:
        lines.append(_Text("of", f"rate {plan.rates[node.name]:g}"))
    width = max(len(text) * _CHAR * (1.08 if kind in ("name", "names") else 0.92) for kind, text, _ in lines)
    above = _pill(_label(node.key, known.get(index))) if index else 0.0
    width = max(width + 2 * _PAD + 4, 84, 1.28 * above - 20)
    height = len(lines) * _LINE + 2 * _PAD - 6
    children = sorted((_card(plan, child, known) for child in plan.children(index)), key=_span)
    return _Card(index, lines, width, height, children)


def _span(card: _Card) -> float:
    """Returns the width of a subtree. The widest subtree is on the right, so that roots are visible in a narrow
    window."""
    below = sum(map(_span, card.children)) + _GAP_X * (len(card.children) - 1)
    return max(card.width, below)


def _named(kind: str, name: str, attributes: tuple[str, ...], keys: tuple[str, ...]) -> list[_Text]:
    """Returns `name(a, b)` on one line, or, if it is long, the attributes on lines of their own."""
    if not attributes or (kind == "atom" and name.endswith("]")):
        return [_Text(kind, name, keys)]
    whole = f"{name}({', '.join(attributes)})"
    if len(whole) <= _WRAP:
        return [_Text(kind, whole, keys)]
    below = "atoms" if kind == "atom" else "names"
    return [_Text(kind, name), *(_Text(below, line, keys) for line in _rows(attributes))]


def _rows(attributes: tuple[str, ...]) -> list[str]:
    return textwrap.wrap(", ".join(attributes), _WRAP, break_long_words=False)


def _where(atom: Node | BagAtom) -> list[_Text]:
    taken = rows_taken(atom)
    if taken is None:
        return []
    parts = [f"{'where' if n == 0 else 'and'} {part}" for n, part in enumerate(taken.conjuncts())]
    return [_Text("where", line) for part in parts for line in textwrap.wrap(part, 44, break_long_words=False)]


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
    """Places the subtree from x = `left`, and returns its right edge. A parent is centered above its children."""
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
    for line in card.lines:
        parts.append(f'<text class="{line.kind}" x="{card.x:.1f}" y="{baseline:.1f}">{_marked(line, plan)}</text>')
        baseline += _LINE
    return "".join([*parts, "</g>"])


def _marked(line: _Text, plan: Plan) -> str:
    """Returns the text of a line, in which output attributes are highlighted and those of a declared key underlined."""
    kind, text, keys = line
    if kind == "views":
        return escape(text).replace("V_s", _sub("s")).replace("V_p", _sub("p")).replace("V_l", _sub("l"))
    if kind in ("names", "atoms"):
        return _attributes(text, plan, keys)
    if kind not in ("name", "atom") or text[-1] not in ")]":
        return escape(text)
    opening, closing = ("(", ")") if text[-1] == ")" else ("[", "]")
    head, _, inside = text[:-1].rpartition(opening)
    return f"{escape(head)}{opening}{_attributes(inside, plan, keys)}{closing}"


def _attributes(text: str, plan: Plan, keys: Collection[str]) -> str:
    shown = {out.expr.value for out in plan.output if out.expr.op == "col"}

    def written(part: str) -> str:
        name = part.strip()
        marks = " ".join(mark for mark, names in (("out", shown), ("declared", keys)) if name in names)
        space = part[: len(part) - len(part.lstrip())]
        return f'{space}<tspan class="{marks}">{escape(name)}</tspan>' if marks else escape(part)

    return ",".join(written(part) for part in text.split(","))


def _sub(letter: str) -> str:
    return f'V<tspan class="sub" dy="3">{letter}</tspan><tspan dy="-3">&#8203;</tspan>'


def _label(key: tuple[str, ...], known: Edge | None) -> str:
    """Returns the label of an edge: its key, and its fan if that matters."""
    mark = "" if known is None else edge_mark(known)
    return (", ".join(key) if key else "×") + (f" · {mark}" if mark.startswith("fan") else "")


def _pill(label: str) -> float:
    return len(label) * _CHAR * 0.92 + 14


def _edge(plan: Plan, card: _Card, child: _Card, known: Edge | None) -> str:
    key = plan.nodes[child.index].key
    x1, y1, x2, y2 = card.x, card.y + card.height + 2, child.x, child.y + 2
    middle = (y1 + y2) / 2
    label, mark = _label(key, known), "" if known is None else edge_mark(known)
    width = _pill(label)
    state = "free" if plan.nodes[child.index].free else "bound"
    state += " open" if mark == "fan ?" else f" {mark}" if mark == "quiet" else ""
    lx, ly = x1 + 0.784 * (x2 - x1), 0.027 * y1 + 0.63 * middle + 0.343 * y2  # at 0.7 of the curve
    pill = "key open" if mark == "fan ?" else "key"
    return (
        f'<path class="edge {state}" d="M{x1:.1f},{y1:.1f} C{x1:.1f},{middle:.1f} {x2:.1f},{middle:.1f} '
        f'{x2:.1f},{y2:.1f}"/><rect class="{pill}" x="{lx - width / 2:.1f}" y="{ly - 10:.1f}" width="{width:.1f}" '
        f'height="20" rx="10"/><text class="keytext" x="{lx:.1f}" y="{ly + 4:.1f}">{escape(label)}</text>'
    )
