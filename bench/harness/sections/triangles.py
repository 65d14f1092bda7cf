"""Sections of the triangle queries: in seconds, and in counted operations."""

from __future__ import annotations

from bench.cases.triangles import UPDATES
from bench.harness.sections.cells import Cell, cell

PARTITIONS = ("single", "double")


def triangle_speed(scale: str) -> list[Cell]:
    """Returns the triangle count in seconds: a graph stream, stored once or three times, and toggles on the hub
    wall.
    """
    cells = []
    for copies, stored in ((1, "one copy"), (3, "three copies")):
        more: Cell = {"options": {"prefix": 0}, "arguments": {"copies": copies}, "title": f"Triangle count, {stored}"}
        for mode in ("single", "batches"):
            cells.append(cell("triangle", "triangle-count", mode, scale, **more))
        cells.append(cell("triangle", "triangle-python", "single", scale, **more | {"repeats": 1}))
    sizes = (96, 192) if scale == "quick" else (408, 816, 1632, 3264)
    for k in sizes:
        strategies: tuple[dict[str, str], ...] = ({},)
        if k == sizes[-1]:
            strategies = (
                {"strategy": "classical"},
                {"strategy": "eps", "partition": "single"},
                {"strategy": "eps", "partition": "double"},
                {},
            )
        for options in strategies:
            label = ", ".join(options.values()) or "default"
            more = {"arguments": {"k": k} | options, "title": f"Hub wall, {label}", "checked": False}
            cells.append(cell("triangle", "triangle-count", "toggle", scale, law="N", x=3 * k * k // 32, **more))
    return cells


def triangle_slopes(scale: str) -> list[Cell]:
    """Returns counted operations, delay and space of triangle maintenance against N. A cell is a figure."""
    quick = {"sizes": 3} if scale == "quick" else {}
    figures = [("updates", name, title) for name, (title, _, _) in UPDATES.items()]
    figures += [("epsilon", partition, f"worst case per eps, {partition} partition") for partition in PARTITIONS]
    figures += [("outputs", name, f"free variables, {UPDATES[name][0]}") for name in ("hub_wall", "light_wall", "cube")]
    figures += [("delay", "", "largest delay"), ("space", "", "state on the space wall")]
    return [
        cell(
            "triangle", "triangle-slopes", mode, scale, title=title, arguments={"instance": name} | quick, checked=False
        )
        for mode, name, title in figures
    ]
