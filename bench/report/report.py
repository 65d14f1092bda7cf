"""The report: one self-contained HTML page, and the same tables as markdown. Both only read the JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from bench.harness.machine import line
from bench.report import charts, tables
from bench.report.page import PAGE
from bench.report.parts import PARTS, Part
from bench.report.sections import paper
from bench.report.style import Cell
from bench.report.text import FIRST, HOW, LOSSES, METHOD, QUICK, quantity, size, stopped

Sections = dict[str, dict[str, Any]]


def tiles(sections: Sections) -> list[tuple[str, str]]:
    """Returns the figures at the top: (value, description). A rate is a median.

    If several sections measure a figure, it is taken from the one that compares the engines, which the first chart
    draws.
    """

    def pick(engine: str, mode: str, *names: str) -> Cell:
        cells = (cell for name in names for cell in sections.get(name, {}).get("cells", ()))
        return next((c for c in cells if (c["engine"], c["mode"], c["workload"]) == (engine, mode, "3-hop")), {})

    def rate(cell: Cell, what: str) -> tuple[str, str]:
        runs = f"; the median of {cell['repeats']} runs" if cell["repeats"] > 1 else ""
        return f"{quantity(cell['updates_per_s_median'])}/s", what + stopped(cell) + runs

    delta, python = (pick(engine, "delta", "engines", "targets") for engine in ("crown", "python"))
    modes = ("none", "full", "delta")
    none, full, grew = (pick("crown", mode, "targets") for mode in modes)
    spark = pick("crown-spark", "spark", "targets")
    out = []
    if delta.get("updates_per_s"):
        out.append(rate(delta, "updates, 3-Hop, every delta enumerated, one core"))
        out.append(
            (f"{quantity(delta['deltas_per_s'])}/s", f"deltas enumerated, in the fastest of those runs{stopped(delta)}")
        )
    if none.get("updates_per_s"):
        out.append(rate(none, "updates, 3-Hop, views only"))
    if full.get("enumerated_per_s"):
        out.append((f"{quantity(full['enumerated_per_s'])}/s", f"rows of the full result enumerated{stopped(full)}"))
    if python.get("updates_per_s") and delta.get("updates_per_s"):
        times = delta["updates_per_s_median"] / python["updates_per_s_median"]
        out.append((f"{times:.0f} ×", f"as fast as first-order IVM in plain Python{stopped(python)}"))
    if grew.get("bytes_per_tuple"):
        out.append((f"{grew['bytes_per_tuple']:.0f} B", "of state per live edge, which the query reads three times"))
    if grew.get("rss_peak"):
        added = grew["rss_peak"] - grew["rss_before"]
        out.append((size(added), f"of memory added by the run, to a process of {size(grew['rss_peak'])} in all"))
    if spark.get("updates_per_s"):
        out.append(rate(spark, f"updates on Spark, {spark['cores']} cores, end to end"))
    for cell in sections.get("state", {}).get("cells", ())[-1:]:
        if cell.get("results"):
            what = f"results of the unfiltered 3-Hop over {cell['live_tuples']:,} edges"
            out.append((size(cell["state_peak_bytes"]), f"hold the {quantity(cell['results'])} {what}"))
    return out


def _columns(cards: int) -> int:
    """Returns the number of cards per row, chosen so that no card is alone in the last row."""
    return next((n for n in (4, 3, 5) if cards % n != 1), 4)


def is_quick(sections: Sections) -> bool:
    """Returns True if any section is from a quick run."""
    return any(section["scale"] == "quick" for section in sections.values())


def _machine(sections: Sections) -> str:
    """Returns the machine in one line, with the loads and the times at the starts of the sections, which may have run
    at different times.
    """
    machines = [section["machine"] for section in sections.values()]
    scales = ", ".join(dict.fromkeys(section["scale"] for section in sections.values()))
    load = _span([machine["load"] or 0 for machine in machines])
    time = _span([machine["time"] for machine in machines])
    return f"{line(machines[0] | {'load': load, 'time': time})}; scale: {scales}"


def _span(values: Sequence[Any]) -> str:
    """Returns the least and the greatest value, as one if they are equal."""
    return " to ".join(dict.fromkeys((str(min(values)), str(max(values)))))


def _text(part: Part, cells: Sequence[Cell]) -> str:
    """Returns the text of a part; the text on the paper only if its curves are drawn."""
    said = part.text if any(c["scale"] == "quick" for c in cells) or not part.paper else f"{part.text} {part.paper}"
    return said.replace(" , ", ", ").rstrip(".") + "."


def html(sections: Sections) -> str:
    """Returns the page. Cost: a few seconds, mostly in matplotlib."""
    shown = [(part, sections[part.section]["cells"]) for part in PARTS if part.section in sections]
    body = [
        "<header><h1>CROWN benchmarks</h1>",
        f"<p class=quick><b>QUICK</b> {QUICK}</p>" if is_quick(sections) else "",
        f"<p class=machine>{escape(_machine(sections))}</p>",
        f'<div class=tiles style="--columns: {_columns(len(tiles(sections)))}">',
        *(f"<div><b>{escape(value)}</b><span>{escape(what)}</span></div>" for value, what in tiles(sections)),
        "</div><nav>",
        *(f'<a href="#{part.section}">{escape(part.title)}</a>' for part, _ in shown),
        '<a href="#losses">Where others are faster</a></nav></header>',
    ]
    for part, cells in shown:
        body.append(f'<section id="{part.section}"><h2>{escape(part.title)}</h2><p>{_text(part, cells)}</p>')
        drawn = part.chart(cells) if part.chart is not None else ""
        if drawn:
            body.append(f"<figure>{drawn}</figure>")
        inner = "".join(tables.html(table) for table in _tables(part, cells))
        body.append(f"<details{'' if drawn else ' open'}><summary>numbers</summary>{inner}</details></section>")
    lost = tables.losses(sections)
    body.append(f'<section id="losses"><h2>Where others are faster</h2><p>{LOSSES}</p>')
    body.append(tables.html(lost) if lost.rows else "<p>Nowhere in this run.</p>")
    body.append(f"</section><footer><p>{METHOD}</p>")
    if not is_quick(sections):
        body.append(f"<p>Paper: {escape(str(paper.__doc__).strip())}</p>")
    return PAGE.replace("{body}", "\n".join([*body, "</footer>"]))


def front(sections: Sections) -> str:
    """Returns the first chart, as the text of a file; an empty text if its query was not measured."""
    cells = sections.get("engines", {}).get("cells", ())
    mine = [cell for cell in cells if cell["workload"] == "3-hop" and cell.get("updates_per_s")]
    return _file(charts.throughput(mine, "front")) if len(mine) > 1 else ""


def markdown(sections: Sections, chart: str = "") -> str:
    """Returns the page: a chart, the settings in which others are faster, the method, and every table, folded.

    ``chart``: the path of the file of ``front``.
    """
    out = ["# Benchmarks", "", FIRST, ""]
    if is_quick(sections):
        out += [f"# QUICK\n\n**{QUICK}**", ""]
    if chart:
        out += [f"![Updates per second of every engine on the 3-Hop query]({chart})", ""]
    lost = tables.losses(sections)
    out += ["## Where others are faster", "", LOSSES, ""]
    out += [tables.markdown(lost) if lost.rows else "Nowhere in this run.", ""]
    out += ["## In figures", "", "| | |", "|---|---|"]
    out += [*(f"| **{value}** | {what} |" for value, what in tiles(sections)), ""]
    out += ["## How it was measured", "", METHOD, "", f"Machine: {_machine(sections)}.", "", *HOW.splitlines(), ""]
    for part in PARTS:
        if part.section in sections:
            cells = sections[part.section]["cells"]
            text = re.sub("</?b>", "*", re.sub("</?code>", "`", _text(part, cells)))
            out += [f"## {part.title}", "", text.replace("Grey: ", "In the HTML report, grey: "), ""]
            for table in _tables(part, cells):
                out += [tables.folded(table), ""]
    return "\n".join(out)


def _tables(part: Part, cells: Sequence[Cell]) -> list[tables.Table]:
    return [table for table in (make(cells) for make in part.tables) if table.rows]


def _file(chart: str) -> str:
    """Returns a chart as the text of a file, with a white background."""
    return chart.replace("<svg ", '<svg style="background: #fff" ', 1) + "\n"


def save_charts(page: str, folder: Path) -> list[Path]:
    """Writes every chart of the page to a file with the chart's name. Returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for found in re.finditer(r'<svg[^>]*aria-label="([^"]+)".*?</svg>', page, re.DOTALL):
        path = folder / f"{found[1]}.svg"
        path.write_text(_file(found[0]), encoding="utf-8")
        written.append(path)
    return written
