"""The triangle queries in the report: curves against N, and the tables of slopes and of speed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import matplotlib as mpl

from bench.report.style import STYLE, Cell, figure_of, plain_log, svg
from bench.report.tables import Table, outcome, rate, spread
from bench.report.text import quantity

_QUANTITY = {"delay": "operations between two results", "space": "bytes of state"}


def curves(cells: Sequence[Cell]) -> str:
    """Returns one chart per figure: the counted quantity against N, with the fitted slopes."""
    return "".join(_curves(cell) for cell in cells if "curves" in cell)


def chart_name(cell: Cell) -> str:
    """Returns the name of a figure's chart."""
    return "-".join(filter(None, ("triangle", cell["mode"], cell["arguments"]["instance"])))


def _curves(cell: Cell) -> str:
    with mpl.rc_context(STYLE):
        figure, (axes,) = figure_of(width=5.2, height=3.4)
        for (label, data), marker in zip(cell["curves"].items(), "os^Dv", strict=False):
            x, y = zip(*data["points"], strict=True)
            style: dict[str, Any] = {"marker": marker, "markersize": 4}
            axes.plot(x, y, label=f"{label} (slope {abs(data['slope']):.2f})", **style)
        axes.set_title(cell["title"])
        axes.set_xlabel("N, tuples in R, S, T")
        axes.set_ylabel(_QUANTITY.get(cell["mode"], "operations per update"))
        for axis, set_scale in ((axes.xaxis, axes.set_xscale), (axes.yaxis, axes.set_yscale)):
            set_scale("log")
            plain_log(axis)
        long = max(len(label) for label in cell["curves"]) > 20
        figure.legend(loc="outside lower center", ncols=1 if long else 2)
        return svg(figure, chart_name(cell))


def _slope(data: dict[str, Any]) -> str:
    return f"{abs(data['slope']):.2f} ({data['points'][-1][1]:.0f})"


def _matrix(mode: str, head: str) -> Callable[[Sequence[Cell]], Table]:
    """Returns a table of slopes with a row per figure and a column per curve."""

    def table(cells: Sequence[Cell]) -> Table:
        found = [c for c in cells if c["mode"] == mode and "curves" in c]
        labels = list(dict.fromkeys(label for c in found for label in c["curves"]))
        rows = [(c["title"], *(_slope(c["curves"][label]) for label in labels)) for c in found]
        return Table((head, *labels), rows, [False] * len(rows))

    return table


def _epsilons(cells: Sequence[Cell]) -> Table:
    found = {c["arguments"]["instance"]: c["curves"] for c in cells if c["mode"] == "epsilon" and "curves" in c}
    rows = []
    for epsilon in next(iter(found.values()), {}):
        bound = max(float(epsilon), 1 - float(epsilon))
        rows.append((epsilon, f"{bound:g}", *(f"{curves[epsilon]['slope']:.2f}" for curves in found.values())))
    return Table(("eps", "max{eps, 1 - eps}", *found), rows, [False] * len(rows))


def _delays(cells: Sequence[Cell]) -> Table:
    found = [item for c in cells if c["mode"] == "delay" for item in c.get("curves", {}).items()]
    rows = [(label, f"{abs(d['slope']):.2f}", f"{d['points'][-1][1]:.0f}") for label, d in found]
    return Table(("enumeration", "slope of the largest delay", "at the largest N"), rows, [False] * len(rows))


def _spaces(cells: Sequence[Cell]) -> Table:
    found = [item for c in cells if c["mode"] == "space" for item in c.get("curves", {}).items()]
    rows = [
        (label, f"{d['slope']:.2f}", f"{d['entries'][-1][1]:.0f}", f"{d['star_entries']:.0f}") for label, d in found
    ]
    headings = ("space wall", "bytes: slope", "view entries at the largest N", "on the star")
    return Table(headings, rows, [False] * len(rows))


SLOPES = (
    _matrix("updates", "instance"),
    _epsilons,
    _matrix("outputs", "free variables"),
    _delays,
    _spaces,
)
"""The tables of the section triangle-slopes."""


def speed(cells: Sequence[Cell]) -> Table:
    """Returns the graph stream, one row per way of applying it, with the ratio to plain Python."""
    found = [c for c in cells if c["mode"] != "toggle"]
    plain = {c["title"]: c.get("updates_per_s_median") for c in found if c["engine"] == "triangle-python"}
    rows = []
    for c in found:
        base, mine = plain.get(c["title"]), c.get("updates_per_s_median")
        times = f"{mine / base:.1f}" if base and mine else "–"
        how = f"batches of {c['batch_rows']:,}" if c["mode"] == "batches" else "one by one"
        used = quantity(c.get("bytes_per_tuple"))
        rows.append((c["title"], c["engine_title"], how, rate(c), spread(c), times, used, outcome(c)))
    headings = ("query", "engine", "applied", "updates/s", "median", "times Python", "bytes/tuple", "outcome")
    return Table(headings, rows, [c["engine"] != "triangle-python" for c in found])


def toggles(cells: Sequence[Cell]) -> Table:
    """Returns the toggles on the hub wall: time per update, and memory."""
    found = [c for c in cells if c["mode"] == "toggle" and c.get("updates_per_s")]
    rows = [
        (
            c["title"],
            f"{c['x']:,}",
            f"{1e6 / c['updates_per_s']:,.3f}",
            f"{1e6 / c['updates_per_s_median']:,.3f}",
            quantity(c.get("bytes_per_tuple")),
        )
        for c in found
    ]
    return Table(("toggle R(0,0)", "N", "µs per update", "median", "bytes/tuple"), rows, [False] * len(rows))
