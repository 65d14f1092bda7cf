"""The style of the plots, and a figure as SVG text."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from bench.report.text import quantity
from bench.subjects.catalogue import ENGINES

Cell = dict[str, Any]

INK, SOFT, GRID = "#1b1f2a", "#667085", "#e6e8ee"
COLOURS = {
    "crown": "#4f46e5",
    "crown-folder": "#6366f1",
    "crown-load": "#4338ca",
    "crown-model": "#818cf8",
    "crown-pipelines": "#5b54e8",
    "crown-startup": "#a5b4fc",
    "crown-view": "#3730a3",
    "crown-spark": "#7c74f0",
    "crown-spark-cells": "#8f88f5",
    "first-order": "#0d9488",
    "standard": "#c2410c",
    "higher-order": "#be185d",
    "yannakakis": "#65a30d",
    "python": "#64748b",
    "duckdb-delta": "#eab308",
    "duckdb-recompute": "#854d0e",
    "flink": "#dc2626",
    "flink-multi-join": "#f87171",
    "flink-restart": "#b91c1c",
    "dd": "#b45309",
    "dd-delta": "#f59e0b",
    "dbsp": "#a16207",
    "pathway": "#0284c7",
    "spark-identity": "#fb923c",
    "spark-recompute": "#ea580c",
    "graphframes": "#9f1239",
    "triangle-count": "#6d28d9",
    "triangle-python": "#94a3b8",
    "triangle-slopes": "#a78bfa",
}
PAPER = "#98a2b3"
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "crown",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "sans-serif"],
    "font.size": 9.5,
    "axes.edgecolor": "#c4c9d4",
    "axes.labelcolor": SOFT,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "legend.handlelength": 3.2,  # long enough to recognize a dashed line
    "lines.linewidth": 1.8,
}
_QUANTITY = FuncFormatter(lambda value, _: quantity(value))


def figure_of(columns: int = 1, height: float = 3.3, width: float = 9.6) -> tuple[Figure, list[Axes]]:
    """Returns a figure with that many panels side by side, and the panels."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)[0]
    return figure, list(axes)


def svg(figure: Figure, name: str) -> str:
    """Returns the figure as an SVG element; identifiers are made unique per chart, because a page contains many."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r'\b(id="|url\(#|href="#)', rf"\g<1>{name}-", text)
    return re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', rf'\1 role="img" aria-label="{name}"', text, count=1)


def plain_log(axis: Any) -> None:
    """Labels an axis in plain numbers, with 2, 5 and more if the axis spans few decades."""
    low, high = axis.get_data_interval()
    span = high / low if low > 0 else np.inf
    subs = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0) if span < 8 else (1.0, 2.0, 5.0) if span < 100 else (1.0,)
    axis.set_major_locator(LogLocator(10, subs=subs, numticks=12))
    axis.set_major_formatter(_QUANTITY)
    axis.set_minor_formatter(NullFormatter())


def title_of(engine: str) -> str:
    """Returns a short name of the engine for a legend."""
    return ENGINES[engine].title.replace(" (this project)", "")


def dotted(engine: str) -> dict[str, Any]:
    """Returns the line style of an engine, with its name."""
    return {"color": COLOURS[engine], "marker": "o", "markersize": 4, "label": title_of(engine)}


def lines_of(cells: Iterable[Cell]) -> list[tuple[tuple[str, str], list[Cell]]]:
    """Returns measured cells by (engine, mode), each sorted by x."""
    found: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        if cell.get("updates_per_s"):
            found.setdefault((cell["engine"], cell["mode"]), []).append(cell)
    return [(key, sorted(line, key=lambda c: c["x"])) for key, line in found.items()]
