"""The plots of the growth of cost: with the data, enclosureness, the output, the batch, the cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl

from bench.report.sections import paper
from bench.report.style import COLOURS, PAPER, STYLE, Cell, dotted, figure_of, lines_of, plain_log, svg, title_of


def _quick(cells: Sequence[Cell]) -> bool:
    return any(cell["scale"] == "quick" for cell in cells)


def _of_paper(cells: Sequence[Cell], curves: dict[str, Any]) -> dict[str, Any]:
    """Returns the paper's curves; none for a quick run."""
    return {} if _quick(cells) else curves


def sizes(cells: Sequence[Cell], name: str) -> str:
    """Returns time and rows touched per update, and the delay of enumeration, against |D|."""
    with mpl.rc_context(STYLE):
        figure, (time, work, delay) = figure_of(3, 3.5)
        for (engine, mode), line in lines_of(cells):
            label = f"{title_of(engine)}, {mode}"
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
            plain_log(axes.xaxis)
            axes.set_xlabel("live rows |D|")
        for axes in (time, work):
            axes.set_yscale("log")
            plain_log(axes.yaxis)
        handles, labels = time.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
        return svg(figure, name)


def enclosed(cells: Sequence[Cell], name: str) -> str:
    """Returns running time relative to λ = 1: this engine's, and the paper's four graphs."""
    with mpl.rc_context(STYLE):
        figure, (relative, work) = figure_of(2, 3.4)
        for graph, seconds in _of_paper(cells, paper.SECONDS_BY_LAMBDA).items():
            label = paper.TITLE if graph == "Epinions" else None
            relative.plot(paper.LAMBDA, [s / seconds[0] for s in seconds], color=PAPER, linewidth=1.1, label=label)
        for (engine, _), line in lines_of(cells):
            x = [c["x"] for c in line]
            style = dotted(engine)
            base = line[0]["updates_per_s"]
            relative.plot(x, [base / c["updates_per_s"] for c in line], **style)
            work.plot(x, [c["amplification"] for c in line], **style)
        relative.set_title("Time per update, relative to λ = 1")
        work.set_title("Rows touched per update")
        for axes in (relative, work):
            axes.set_xlabel("λ (the paper's axis)")
            axes.set_xticks(paper.LAMBDA)
            axes.set_ylim(0, 1.08 * axes.get_ylim()[1])
        handles, labels = relative.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
        return svg(figure, name)


def selectivity(cells: Sequence[Cell], name: str) -> str:
    """Returns time of updates and full enumerations, and rows enumerated, against the share of edges kept."""
    with mpl.rc_context(STYLE):
        workloads = list(dict.fromkeys(c["workload"] for c in cells))
        figure, panels = figure_of(len(workloads), 3.5)
        for axes, workload in zip(panels, workloads, strict=True):
            line = [c for c in cells if c["workload"] == workload and c.get("enumerated") is not None]
            x = [100 * c["x"] for c in line]
            for who, seconds in _of_paper(cells, paper.SECONDS_BY_SHARE).get(workload, {}).items():
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
            plain_log(output.yaxis)
            axes.set_title(line[0]["title"] if line else workload)
            axes.set_xscale("log")
            axes.set_yscale("log")
            plain_log(axes.xaxis)
            plain_log(axes.yaxis)
            axes.set_xlabel("% of the edges that the filter keeps")
            axes.set_ylabel("seconds for the stream")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
        return svg(figure, name)


def batches(cells: Sequence[Cell], name: str) -> str:
    """Plots updates per second against rows per batch."""
    with mpl.rc_context(STYLE):
        figure, (axes,) = figure_of(height=3.2)
        for (engine, _), line in lines_of(cells):
            x = [c["x"] for c in line]
            style = dotted(engine)
            axes.plot(x, [c["updates_per_s"] for c in line], **style)
        axes.set_xscale("log")
        axes.set_yscale("log")
        plain_log(axes.xaxis)
        plain_log(axes.yaxis)
        axes.set_xlabel("updates per batch")
        axes.set_ylabel("updates per second")
        axes.legend(loc="lower right")
        return svg(figure, name)


def cores(cells: Sequence[Cell], name: str) -> str:
    """Plots updates per second against threads or cores, and the speed-up beside the paper's."""
    with mpl.rc_context(STYLE):
        figure, (rate, speed) = figure_of(2, 3.6)
        found: dict[tuple[str, str, str], list[Cell]] = {}
        for cell in cells:
            if cell.get("updates_per_s"):
                found.setdefault((cell["engine"], cell["title"], cell["mode"]), []).append(cell)
        dashes = {"none": "--", "delta": "-", "spark": ":"}
        for (engine, title, mode), line in found.items():
            x = [c["x"] for c in line]
            marker = {"4-Hop": "s", "TPC-H Q3": "^"}.get(title, "o")
            style: dict[str, Any] = {"color": COLOURS[engine], "marker": marker, "markersize": 4}
            style |= {"linestyle": dashes[mode], "label": f"{title_of(engine)}, {title}, {mode}"}
            rate.plot(x, [c["updates_per_s"] for c in line], **style)
            base = line[0]["updates_per_s"] / line[0]["x"]
            speed.plot(x, [c["updates_per_s"] / base for c in line], **style)
        ticks = sorted({c["x"] for c in cells})
        shown = [] if _quick(cells) else [i for i, n in enumerate(paper.CORES) if n <= ticks[-1]]
        theirs = [paper.SECONDS_BY_CORES[0] / paper.SECONDS_BY_CORES[i] for i in shown]
        if theirs:
            speed.plot([paper.CORES[i] for i in shown], theirs, color=PAPER, label=f"{paper.TITLE}, 4-Hop")
        speed.plot([1, ticks[-1]], [1, ticks[-1]], color="#c4c9d4", linestyle=":", linewidth=1, label="linear")
        rate.set_title("Updates per second")
        speed.set_title("Speed-up")
        rate.set_yscale("log")
        plain_log(rate.yaxis)
        speed.set_ylim(bottom=0)
        for axes in (rate, speed):
            axes.set_xlabel("threads or cores")
            axes.set_xticks(ticks)
        handles, labels = speed.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
        return svg(figure, name)
