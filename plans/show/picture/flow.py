"""Draws the stages of a program as SVG: tables on top, every stage below its inputs, an arrow per input.

Layers are assigned by longest path. An arrow that crosses layers bends around their cards. The order within a layer
follows the barycenter of the inputs (Sugiyama, Tagawa, Toda, IEEE Trans. SMC 1981).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from plans.program import Program
from plans.programs.reads import sources
from plans.programs.stages import JoinStage
from plans.show import programs, upkeep
from plans.show.picture.style import svg_style

_CHAR = 7.25
_LINE = 17
_GAP_X = 24
_GAP_Y = 46
_SWEEPS = 4


@dataclass
class _Box:
    """A card, or, without lines, a point where an arrow crosses a layer. `reads`: the boxes directly above it."""

    lines: list[str]
    kind: str = ""
    link: str = ""
    layer: int = 0
    reads: list[_Box] = field(default_factory=list)
    x: float = 0.0

    @property
    def width(self) -> float:
        """Returns the width of the card."""
        return max((len(line) * _CHAR for line in self.lines), default=-8.0) + 28 if self.lines else 8.0

    @property
    def height(self) -> float:
        """Returns the height of the card."""
        return len(self.lines) * _LINE + 16.0


def svg(program: Program, *, standalone: bool = True) -> str:
    """Returns the flow of a program as an SVG element. `standalone`: includes its own style. O(stages)."""
    boxes, arrows = _boxes(program)
    layers: list[list[_Box]] = [[] for _ in range(max(box.layer for box in boxes) + 1)]
    for box in boxes:
        layers[box.layer].append(box)
    paths = [_path(layers, source, target) for source, target in arrows]
    _order(layers)
    width = _place(layers)
    heights = [max((box.height for box in layer if box.lines), default=0.0) for layer in layers]
    tops = [4 + sum(heights[:i]) + i * _GAP_Y for i in range(len(layers))]
    height = tops[-1] + heights[-1] + 6
    parts = [
        f'<svg class="crown flow" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label="stages in the order of the data">'
    ]
    if standalone:
        parts.append(f"<style>{svg_style()}</style>")
    parts += [_arrow(path, tops, heights) for path in paths]
    parts += [_card(box, tops[box.layer], standalone) for box in boxes]
    return "".join([*parts, "</svg>"])


def _boxes(program: Program) -> tuple[list[_Box], list[tuple[_Box, _Box]]]:
    """Returns the cards of tables and stages, and the pairs of an input and its reader."""
    known: dict[str | int, _Box] = {table.name: _Box([table.name], "table") for table in program.tables}
    arrows = []
    for number, stage in enumerate(program.stages):
        if programs.dropped(stage):
            continue
        cost = upkeep.upkeep(stage)
        lines = [f"{number}: {programs.kind(stage)}"]
        lines += [cost.name] if isinstance(stage, JoinStage) else []
        lines += [upkeep.in_short(cost)]
        box = _Box(lines, "stage result" if programs.result_mark(program, number) else "stage", f"stage-{number}")
        for source in sources(stage):
            arrows.append((known[source], box))
            box.layer = max(box.layer, known[source].layer + 1)
        known[number] = box
    return list(known.values()), arrows


def _path(layers: list[list[_Box]], source: _Box, target: _Box) -> list[_Box]:
    """Returns the boxes on the way from source to target, one per layer. The boxes between the two are new."""
    path = [source]
    for layer in range(source.layer + 1, target.layer):
        between = _Box([], layer=layer, reads=[path[-1]])
        layers[layer].append(between)
        path.append(between)
    target.reads.append(path[-1])
    return [*path, target]


def _order(layers: list[list[_Box]]) -> None:
    """Sorts each layer by the barycenter of its inputs and its readers, in a few sweeps."""
    below: dict[int, list[_Box]] = {}
    for layer in layers:
        for box in layer:
            for read in box.reads:
                below.setdefault(id(read), []).append(box)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for above, layer in pairwise(layers if down else layers[::-1]):
            place = {id(box): i for i, box in enumerate(above)}
            middle = {}
            for i, box in enumerate(layer):
                near = [place[id(n)] for n in (box.reads if down else below.get(id(box), [])) if id(n) in place]
                middle[id(box)] = sum(near) / len(near) if near else float(i)
            layer.sort(key=lambda box: middle[id(box)])


def _place(layers: list[list[_Box]]) -> float:
    """Places the boxes of each layer side by side, with layers centered. Returns the total width."""
    widths = [sum(box.width for box in layer) + _GAP_X * (len(layer) - 1) for layer in layers]
    most = max(widths) + 8
    for layer, width in zip(layers, widths, strict=True):
        at = (most - width) / 2
        for box in layer:
            box.x = at + box.width / 2
            at += box.width + _GAP_X
    return most


def _arrow(path: list[_Box], tops: list[float], heights: list[float]) -> str:
    """Returns an arrow through the boxes. It leaves a card at its bottom and enters one at its top."""
    first, last = path[0], path[-1]
    x, y = first.x, tops[first.layer] + first.height
    made = f"M{x:.1f},{y:.1f}"
    for box in path[1:]:
        top = tops[box.layer] - (7 if box is last else 0)
        middle = (y + top) / 2
        made += f" C{x:.1f},{middle:.1f} {box.x:.1f},{middle:.1f} {box.x:.1f},{top:.1f}"
        x, y = box.x, top
        if box is not last:
            y = top + heights[box.layer]
            made += f" L{x:.1f},{y:.1f}"
    head = f"{last.x - 4:.1f},{y:.1f} {last.x + 4:.1f},{y:.1f} {last.x:.1f},{y + 7:.1f}"
    return f'<path class="arrow" d="{made}"/><polygon class="head" points="{head}"/>'


def _card(box: _Box, top: float, standalone: bool) -> str:
    parts = [
        f'<g class="{box.kind}"><rect x="{box.x - box.width / 2:.1f}" y="{top:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="{9 if box.link else 3}"/>'
    ]
    baseline = top + 20
    for i, line in enumerate(box.lines):
        kind = "name" if i == 0 else "views" if i == len(box.lines) - 1 else "of"
        parts.append(f'<text class="{kind}" x="{box.x:.1f}" y="{baseline:.1f}">{escape(line)}</text>')
        baseline += _LINE
    drawn = "".join([*parts, "</g>"])
    return drawn if standalone or not box.link else f'<a href="#{box.link}">{drawn}</a>'
