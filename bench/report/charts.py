"""The plots of engines side by side, and along a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np

from bench.report.style import COLOURS, INK, SOFT, STYLE, Cell, figure_of, plain_log, svg, title_of
from bench.report.text import quantity, stopped


def throughput(cells: Sequence[Cell], name: str) -> str:
    """Returns horizontal bars: the median updates/s of every engine on one workload, fastest first. The bar of an
    unfinished run says so.
    """
    with mpl.rc_context(STYLE):
        ran = sorted((c for c in cells if c.get("updates_per_s")), key=_median)
        figure, (axes,) = figure_of(height=0.55 + 0.34 * len(ran))
        best = max(_median(c) for c in ran)
        for i, cell in enumerate(ran):
            value = _median(cell)
            cut = stopped(cell)
            axes.barh(i, value, color=COLOURS[cell["engine"]], height=0.66, alpha=0.45 if cut else 1.0)
            text = quantity(value)
            if cell["engine"] != "crown":
                ours = next((_median(c) for c in ran if c["engine"] == "crown"), None)
                text += f"  ·  {_ratio(value, ours)}" if ours else ""
            text += cut
            axes.annotate(text, (value, i), (6, 0), textcoords="offset points", va="center", color=INK, fontsize=8.8)
        axes.set_yticks(range(len(ran)), [title_of(c["engine"]) for c in ran])
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.set_xscale("log")
        axes.set_xlim(min(_median(c) for c in ran) / 2.5, best * 12)
        axes.grid(axis="y", visible=False)
        axes.spines["left"].set_visible(False)
        plain_log(axes.xaxis)
        axes.set_xlabel("updates per second, median of the runs, more is better (logarithmic)")
        return svg(figure, name)


def _median(cell: Cell) -> float:
    return float(cell["updates_per_s_median"])


def _ratio(value: float, ours: float) -> str:
    if value > ours:
        return f"{value / ours:.2f} × as fast as CROWN"
    factor = ours / value
    return f"CROWN is {factor:.0f} × as fast" if factor >= 10 else f"CROWN is {factor:.1f} × as fast"


def along(cells: Sequence[Cell], name: str) -> str:
    """Returns latency of a batch, and state, along the stream, for the engines that report them."""
    with mpl.rc_context(STYLE):
        figure, (latency, memory) = figure_of(2, 3.4)
        floors = []  # a stream ends with almost no state, which would take up most of the axis
        for cell in cells:
            series = cell.get("series") or {}
            if len(series.get("position", ())) < 3:
                continue
            share = [100 * p / cell["of"] for p in series["position"]]
            style: dict[str, Any] = {"color": COLOURS[cell["engine"]], "label": title_of(cell["engine"])}
            style["zorder"] = 3 if cell["engine"] == "crown" else 2
            latency.plot(share, series["latency_ms"], **style)
            if series.get("state"):
                memory.plot(share, [b / 2**20 for b in series["state"]], **style)
                floors.append(float(np.median(series["state"])) / 2**20 / 20)
        rows = max((cell["batch_rows"] for cell in cells if cell["engine"] == "crown"), default=0)
        latency.set_title(f"Latency of a batch of {rows:,} updates" if rows else "Latency of a batch")
        latency.set_ylabel("milliseconds")
        memory.set_title("State")
        memory.set_ylabel("MiB")
        for axes in (latency, memory):
            axes.set_yscale("log")
            plain_log(axes.yaxis)
            axes.set_xlabel("% of the stream")
            axes.set_xlim(0, 100)
        memory.set_ylim(bottom=min(floors, default=None))
        handles, labels = latency.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
        return svg(figure, name)


def windows(cell: Cell, name: str) -> str:
    """Returns state, resident memory and live rows over ten windows."""
    with mpl.rc_context(STYLE):
        figure, (axes,) = figure_of(height=2.9)
        series = cell["series"]
        share = [100 * p / cell["of"] for p in series["position"]]
        axes.plot(share, [b / 2**20 for b in series["state"]], color=COLOURS["crown"], label="state")
        grown = [max(b - cell["rss_before"], 0) / 2**20 for b in series["rss"]]
        axes.plot(share, grown, color=SOFT, linestyle="--", label="resident memory, above that before the run")
        axes.set_ylabel("MiB")
        axes.set_ylim(bottom=0)
        axes.set_xlim(0, 100)
        axes.set_xlabel("% of the stream")
        axes.legend(loc="lower center", ncols=2)
        return svg(figure, name)
