"""The plots of the report, as SVG text."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from bench.report import paper
from bench.report.text import quantity
from bench.subjects.catalogue import ENGINES

Cell = dict[str, Any]

INK, SOFT, GRID = "#1b1f2a", "#667085", "#e6e8ee"
COLOURS = {
    "crown": "#4f46e5",
    "crown-spark": "#7c74f0",
    "first-order": "#0d9488",
    "standard": "#c2410c",
    "higher-order": "#be185d",
    "yannakakis": "#65a30d",
    "python": "#64748b",
    "duckdb-delta": "#eab308",
    "duckdb-recompute": "#854d0e",
    "flink": "#dc2626",
    "flink-multi-join": "#f87171",
    "pathway": "#0284c7",
    "spark-recompute": "#ea580c",
    "graphframes": "#9f1239",
}
PAPER = "#98a2b3"
STYLE: Any = {
    "svg.fonttype": "none",
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
    "legend.handlelength": 3.2,  # long enough to tell a dashed line
    "lines.linewidth": 1.8,
}
_QUANTITY = FuncFormatter(lambda value, _: quantity(value))


def _figure(columns: int = 1, height: float = 3.3, width: float = 9.6) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)[0]
    return figure, list(axes)


def _svg(figure: Figure, name: str) -> str:
    """The figure as an SVG element; identifiers are made unique per chart, because a page holds many."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r'\b(id="|url\(#|href="#)', rf"\g<1>{name}-", text)
    return re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', rf'\1 role="img" aria-label="{name}"', text, count=1)


def _plain_log(axis: Any) -> None:
    """Labels in plain numbers; 2, 5 and more where few decades would leave the axis bare."""
    low, high = axis.get_data_interval()
    span = high / low if low > 0 else np.inf
    subs = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0) if span < 8 else (1.0, 2.0, 5.0) if span < 100 else (1.0,)
    axis.set_major_locator(LogLocator(10, subs=subs, numticks=12))
    axis.set_major_formatter(_QUANTITY)
    axis.set_minor_formatter(NullFormatter())


def _title(engine: str) -> str:
    return ENGINES[engine].title.replace(" (this project)", "")


def throughput(cells: Sequence[Cell], name: str) -> str:
    """Horizontal bars: updates/s of every engine on one workload, fastest first; who did not finish says so."""
    with mpl.rc_context(STYLE):
        ran = sorted((c for c in cells if c.get("updates_per_s")), key=lambda c: c["updates_per_s"])
        figure, (axes,) = _figure(height=0.55 + 0.34 * len(ran))
        best = max(c["updates_per_s"] for c in ran)
        for i, cell in enumerate(ran):
            value = cell["updates_per_s"]
            stopped = cell["status"] != "ok"
            axes.barh(i, value, color=COLOURS[cell["engine"]], height=0.66, alpha=0.45 if stopped else 1.0)
            text = quantity(value)
            if cell["engine"] != "crown":
                ours = next((c["updates_per_s"] for c in ran if c["engine"] == "crown"), None)
                text += f"  ·  {_ratio(value, ours)}" if ours else ""
            if stopped:
                text += f"  ·  stopped at {100 * cell['updates'] / max(cell.get('of', 1), 1):.0f} %"
            axes.annotate(text, (value, i), (6, 0), textcoords="offset points", va="center", color=INK, fontsize=8.8)
        axes.set_yticks(range(len(ran)), [_title(c["engine"]) for c in ran])
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.set_xscale("log")
        axes.set_xlim(min(c["updates_per_s"] for c in ran) / 2.5, best * 12)
        axes.grid(axis="y", visible=False)
        axes.spines["left"].set_visible(False)
        _plain_log(axes.xaxis)
        axes.set_xlabel("updates per second, more is better (logarithmic)")
        return _svg(figure, name)


def _ratio(value: float, ours: float) -> str:
    if value > ours:
        return f"{value / ours:.2f} × as fast as CROWN"
    factor = ours / value
    return f"CROWN is {factor:.0f} × as fast" if factor >= 10 else f"CROWN is {factor:.1f} × as fast"


def along(cells: Sequence[Cell], name: str) -> str:
    """Latency of a batch, and state, along the stream, for the engines that know them."""
    with mpl.rc_context(STYLE):
        figure, (latency, memory) = _figure(2, 3.4)
        floors = []  # a stream ends with next to nothing, which would take up most of the axis
        for cell in cells:
            series = cell.get("series") or {}
            if len(series.get("position", ())) < 3:
                continue
            share = [100 * p / cell["of"] for p in series["position"]]
            style: dict[str, Any] = {"color": COLOURS[cell["engine"]], "label": _title(cell["engine"])}
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
            _plain_log(axes.yaxis)
            axes.set_xlabel("% of the stream")
            axes.set_xlim(0, 100)
        memory.set_ylim(bottom=min(floors, default=None))
        handles, labels = latency.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
        return _svg(figure, name)


def windows(cell: Cell, name: str) -> str:
    """State, resident memory and live rows over ten windows."""
    with mpl.rc_context(STYLE):
        figure, (axes,) = _figure(height=2.9)
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
        return _svg(figure, name)


def sizes(cells: Sequence[Cell], name: str) -> str:
    """Time and rows touched per update, and the delay of enumeration, against |D|."""
    with mpl.rc_context(STYLE):
        figure, (time, work, delay) = _figure(3, 3.5)
        for (engine, mode), line in _lines(cells):
            label = f"{_title(engine)}, {mode}"
            style: dict[str, Any] = {"color": COLOURS[engine], "marker": "o", "markersize": 4, "label": label}
            style |= {"linestyle": "-" if mode == "delta" else "--"}
            x = [c["x"] for c in line]
            time.plot(x, [1e6 / c["updates_per_s"] for c in line], **style)
            work.plot(x, [c["amplification"] or 1 for c in line], **style)
            if engine == "crown" and mode == "delta":
                delay.plot(x, [c["stats"]["max_delay"] for c in line], **style)
                delay.set_ylim(0, 1 + max(6, *(c["stats"]["max_delay"] for c in line)))
        time.set_title("Microseconds per update")
        work.set_title("Rows touched per update")
        delay.set_title("Longest delay, in steps")
        for axes in (time, work, delay):
            axes.set_xscale("log")
            _plain_log(axes.xaxis)
            axes.set_xlabel("live rows |D|")
        for axes in (time, work):
            axes.set_yscale("log")
            _plain_log(axes.yaxis)
        handles, labels = time.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
        return _svg(figure, name)


def enclosed(cells: Sequence[Cell], name: str) -> str:
    """Running time relative to λ = 1: ours, and the paper's four graphs."""
    with mpl.rc_context(STYLE):
        figure, (relative, work) = _figure(2, 3.4)
        for graph, seconds in paper.SECONDS_BY_LAMBDA.items():
            label = paper.TITLE if graph == "Epinions" else None
            relative.plot(paper.LAMBDA, [s / seconds[0] for s in seconds], color=PAPER, linewidth=1.1, label=label)
        for (engine, _), line in _lines(cells):
            x = [c["x"] for c in line]
            style: dict[str, Any] = {"color": COLOURS[engine], "marker": "o", "markersize": 4, "label": _title(engine)}
            base = line[0]["updates_per_s"]
            relative.plot(x, [base / c["updates_per_s"] for c in line], **style)
            work.plot(x, [c["amplification"] for c in line], **style)
        relative.set_title("Time per update, relative to λ = 1")
        work.set_title("Rows touched per update")
        for axes in (relative, work):
            axes.set_xlabel("λ (the paper's axis)")
            axes.set_xticks(paper.LAMBDA)
            axes.set_ylim(bottom=0)
        handles, labels = relative.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
        return _svg(figure, name)


def selectivity(cells: Sequence[Cell], name: str) -> str:
    """Time of updates and full enumerations, and rows enumerated, against the share of edges kept."""
    with mpl.rc_context(STYLE):
        workloads = list(dict.fromkeys(c["workload"] for c in cells))
        figure, panels = _figure(len(workloads), 3.5)
        for axes, workload in zip(panels, workloads, strict=True):
            line = [c for c in cells if c["workload"] == workload and c.get("enumerated") is not None]
            x = [100 * c["x"] for c in line]
            for who, seconds in paper.SECONDS_BY_SHARE.get(workload, {}).items():
                label = paper.TITLE if who == "CROWN" else f"{who} in the paper"
                dash = "-" if who == "CROWN" else ":"
                shares = [100 * s for s in paper.SHARES]
                axes.plot(shares, seconds, color=PAPER, linewidth=1.1, linestyle=dash, label=label)
            style: dict[str, Any] = {"color": COLOURS["crown"], "marker": "o", "markersize": 4}
            axes.plot(x, [c["seconds"][0] + c["enumeration_s"] for c in line], label="CROWN here", **style)
            output = axes.twinx()
            output.plot(x, [max(c["enumerated"], 1) for c in line], color="#0d9488", linewidth=1.1, linestyle="--")
            output.set_yscale("log")
            output.set_ylabel("rows enumerated (dashed)", color="#0d9488")
            output.grid(visible=False)
            _plain_log(output.yaxis)
            axes.set_title(line[0]["title"] if line else workload)
            axes.set_xscale("log")
            axes.set_yscale("log")
            _plain_log(axes.xaxis)
            _plain_log(axes.yaxis)
            axes.set_xlabel("% of the edges that the filter keeps")
            axes.set_ylabel("seconds for the stream")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
        return _svg(figure, name)


def batches(cells: Sequence[Cell], name: str) -> str:
    """Updates per second against rows per batch."""
    with mpl.rc_context(STYLE):
        figure, (axes,) = _figure(height=3.2)
        for (engine, _), line in _lines(cells):
            x = [c["x"] for c in line]
            style: dict[str, Any] = {"color": COLOURS[engine], "marker": "o", "markersize": 4, "label": _title(engine)}
            axes.plot(x, [c["updates_per_s"] for c in line], **style)
        axes.set_xscale("log")
        axes.set_yscale("log")
        _plain_log(axes.xaxis)
        _plain_log(axes.yaxis)
        axes.set_xlabel("updates per batch")
        axes.set_ylabel("updates per second")
        axes.legend(loc="lower right")
        return _svg(figure, name)


def cores(cells: Sequence[Cell], name: str) -> str:
    """Updates per second against threads or cores, and the speed-up beside the paper's."""
    with mpl.rc_context(STYLE):
        figure, (rate, speed) = _figure(2, 3.6)
        found: dict[tuple[str, str, str], list[Cell]] = {}
        for cell in cells:
            if cell.get("updates_per_s"):
                found.setdefault((cell["engine"], cell["title"], cell["mode"]), []).append(cell)
        dashes = {"none": "--", "delta": "-", "spark": ":"}
        for (engine, title, mode), line in found.items():
            x = [c["x"] for c in line]
            marker = "s" if title == "4-Hop" else "o"
            style: dict[str, Any] = {"color": COLOURS[engine], "marker": marker, "markersize": 4}
            style |= {"linestyle": dashes[mode], "label": f"{_title(engine)}, {title}, {mode}"}
            rate.plot(x, [c["updates_per_s"] for c in line], **style)
            base = line[0]["updates_per_s"] / line[0]["x"]
            speed.plot(x, [c["updates_per_s"] / base for c in line], **style)
        ticks = sorted({c["x"] for c in cells})
        shown = [i for i, n in enumerate(paper.CORES) if n <= ticks[-1]]
        theirs = [paper.SECONDS_BY_CORES[0] / paper.SECONDS_BY_CORES[i] for i in shown]
        speed.plot([paper.CORES[i] for i in shown], theirs, color=PAPER, label=f"{paper.TITLE}, 4-Hop")
        speed.plot([1, ticks[-1]], [1, ticks[-1]], color="#c4c9d4", linestyle=":", linewidth=1, label="linear")
        rate.set_title("Updates per second")
        speed.set_title("Speed-up")
        rate.set_yscale("log")
        _plain_log(rate.yaxis)
        speed.set_ylim(bottom=0)
        for axes in (rate, speed):
            axes.set_xlabel("threads or cores")
            axes.set_xticks(ticks)
        handles, labels = speed.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
        return _svg(figure, name)


def _lines(cells: Iterable[Cell]) -> list[tuple[tuple[str, str], list[Cell]]]:
    """Measured cells by (engine, mode), each sorted by x."""
    found: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        if cell.get("updates_per_s"):
            found.setdefault((cell["engine"], cell["mode"]), []).append(cell)
    return [(key, sorted(line, key=lambda c: c["x"])) for key, line in found.items()]
