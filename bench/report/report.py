"""The report: one HTML page that needs nothing else, and the same tables as markdown. Both only read the JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from bench.harness.machine import line
from bench.report import charts, paper, tables
from bench.report.text import quantity, size

Cell = dict[str, Any]
Sections = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Part:
    """A part of the report: what it says about the results, a chart, a table."""

    section: str
    title: str
    text: str
    chart: Callable[[Sequence[Cell]], str] | None
    table: Callable[[Sequence[Cell]], tables.Table] | None


def _measured(cells: Sequence[Cell], *needs: str) -> list[Cell]:
    return [c for c in cells if c.get("updates_per_s") and all(c.get(n) for n in needs)]


def _race(cells: Sequence[Cell]) -> str:
    out = []
    for workload in dict.fromkeys(c["workload"] for c in cells):
        mine = [c for c in cells if c["workload"] == workload]
        if len(_measured(mine)) > 1:
            out.append(f"<h3>{escape(mine[0]['title'])}</h3>{charts.throughput(mine, f'race-{workload}')}")
    first = [c for c in cells if c["workload"] == cells[0]["workload"] and c.get("series", {}).get("state")]
    first = [c for c in first if c["engine"] != "spark-recompute"]  # its state is what it is handed
    if first:
        out.append(f"<h3>Along the stream, {escape(first[0]['title'])}</h3>{charts.along(first, 'along')}")
    return "".join(out)


PARTS = (
    Part(
        "targets", "This engine, in its modes",
        "<b>none</b> keeps the views and delivers nothing; <b>delta</b> enumerates every delta into a reused buffer; "
        "<b>full</b> keeps the views and enumerates the whole result ten times along the stream; <b>arrow</b> delivers "
        "deltas as Arrow batches, which is what a user of the embedded engine gets; <b>spark</b> is the Structured "
        "Streaming operator with a no-op sink, two cores, without its first micro-batch. Plain Python stands beside it "
        "in the same run. Bytes are per live row and copy of an input, at the fullest.",
        None, tables.measured,
    ),
    Part(
        "engines", "The same query and stream for everyone",
        "Every engine first had to agree with DuckDB, in count and checksum, on a short stream over the same data. "
        "<b>Compiled</b> algorithms use the same hash tables, arena and change preparation as this engine: only the "
        "algorithm differs. The others are products as they come, one core or one worker where they let us. Pale "
        "bars did not finish within the time bound; their rate is that of the part they did, which is the easier one "
        "as the window is still filling. Recompute delivers a count, no deltas.",
        _race, tables.measured,
    ),
    Part(
        "workloads", "Every query",
        "Deltas enumerated. Height is the tree's: up to 2 a sliding window costs O(1) per update, above there is "
        "no such promise. The last columns are DuckDB recomputing the count after every batch, and the paper's own "
        "rate on the same stream (an older machine, on Flink).",
        None, tables.queries,
    ),
    Part(
        "size", "Against the size of the data",
        "A sliding window over a power-law graph, 3-Hop, a tenth kept by the filter. Theory: an update touches O(1) "
        "rows amortized, whatever |D|; time also pays for caches. Deltas come on top (numbers below). "
        "The delay is counted in loop turns between two blocks of results, over the whole run: it must not grow.",
        lambda cells: charts.sizes(cells, "size"), lambda cells: tables.law(cells, "|D|"),
    ),
    Part(
        "lambda", "Against enclosureness",
        "The paper's adversarial stream for 3-Hop: the longer an edge of the middle relation lives, the more often the "
        "outer ones come and go around it. Cost per update may grow by O(λ). Grey: the paper's four graphs.",
        lambda cells: charts.enclosed(cells, "lambda"), lambda cells: tables.law(cells, "λ"),
    ),
    Part(
        "selectivity", "Against the size of the output",
        "Views kept, whole result enumerated ten times, while the filter keeps 0.1 % to all of the edges. Grey: the "
        "paper's curves on the same graph and stream. Left scale: seconds; right scale, dashed: rows enumerated.",
        lambda cells: charts.selectivity(cells, "selectivity"), lambda cells: tables.law(cells, "kept"),
    ),
    Part(
        "batches", "Against the size of a batch",
        "A full window, then batches of 1 to 100,000 updates. Set-at-a-time engines live off large batches; here a "
        "batch of one pays the way from Python into the kernels and back.",
        lambda cells: charts.batches(cells, "batches"), lambda cells: tables.law(cells, "batch"),
    ),
    Part(
        "memory", "Over ten windows",
        "A window that slides ten times over a generated graph, whose edges are drawn alike all the time: freed rows "
        "and groups are used again.",
        lambda cells: charts.windows(_measured(cells)[0], "windows") if _measured(cells) else "",
        lambda cells: tables.law(cells, "windows"),
    ),
    Part(
        "cores", "Against cores",
        "The embedded engine cut into cells for its threads, and the Spark operator, on one, two and four cores of "
        "this machine.",
        lambda cells: charts.cores(cells, "cores") if len(_measured(cells)) > 1 else "",
        lambda cells: tables.law(cells, "cores"),
    ),
    Part(
        "startup", "The first impression",
        "In a fresh interpreter. Importing crown imports next to nothing; the first use imports what it stands on. "
        "Compilation happens once per environment and is then read from a cache.",
        None, tables.started,
    ),
)  # fmt: skip

LOSSES = (
    "Every setting in this report in which another engine did more updates per second than this one, whether or not it "
    "does the same work."
)
METHOD = (
    "Fixed seeds; every cell in a process of its own, one at a time; kernels compiled and warm; the time is that "
    "inside the call that applies a batch of Arrow rows, from Python to Python. Rates are of the fastest of up to "
    "three repeats, the median beside it. A graph stream is the edge list in file order through a window of a fifth "
    "of it, old edge out before new edge in: 2N updates, each going to every copy in the self-join and counted once."
)


_HOW = """\
```sh
make bench-peers                                      # once: Flink and Pathway, each in an environment of its own
make bench DATA=soc-Epinions1.txt.zip                 # everything that matters, some minutes
make bench DATA=soc-Epinions1.txt.zip SECTION=targets # this engine alone
crown bench run --quick                               # seconds, on a small generated graph
crown bench run --full                                # whole streams, up to 10^7 live rows
crown bench run --workload 4-hop --engine crown duckdb-recompute
crown bench report --markdown docs/benchmarks.md      # out/bench/report.html, and this page
```
Without `DATA` (or the variable `CROWN_BENCH_DATA`) a seeded graph of the same size is generated. A folder may also hold
an LDBC SNB data set, unpacked or as `*snb*.tar.gz`. What every field of the JSON means stands in
`bench/harness/results.py`."""


def tiles(sections: Sections) -> list[tuple[str, str]]:
    """The figures that stand at the top: (value, what it is)."""
    cells = sections.get("targets", {}).get("cells", [])

    def pick(engine: str, mode: str, workload: str = "3-hop") -> Cell:
        found = (c for c in cells if (c["engine"], c["mode"], c["workload"]) == (engine, mode, workload))
        return next(found, {})

    delta, none, full = pick("crown", "delta"), pick("crown", "none"), pick("crown", "full")
    python, spark = pick("python", "delta"), pick("crown-spark", "spark")
    out = []
    if delta.get("updates_per_s"):
        out.append((f"{quantity(delta['updates_per_s'])}/s", "updates, 3-Hop, every delta enumerated, one core"))
        out.append((f"{quantity(delta['deltas_per_s'])}/s", "deltas in that run"))
    if none.get("updates_per_s"):
        out.append((f"{quantity(none['updates_per_s'])}/s", "updates, 3-Hop, views only"))
    if full.get("enumerated_per_s"):
        out.append((f"{quantity(full['enumerated_per_s'])}/s", "rows of the full result enumerated"))
    if python.get("updates_per_s") and delta.get("updates_per_s"):
        out.append((f"{delta['updates_per_s'] / python['updates_per_s']:.0f} ×", "first-order IVM in plain Python"))
    if delta.get("bytes_per_row"):
        out.append((f"{delta['bytes_per_row']:.0f} B", "state per live row and copy"))
    if delta.get("rss_peak"):
        grown = delta["rss_peak"] - delta["rss_before"]
        out.append((size(grown), f"resident memory for it, in a process of {size(delta['rss_peak'])}"))
    if spark.get("updates_per_s"):
        out.append((f"{quantity(spark['updates_per_s'])}/s", f"updates on Spark, {spark['cores']} cores, end to end"))
    return out


def _machine(sections: Sections) -> str:
    """The machine in one line, with the loads at the starts of the sections, which may have run at different times."""
    first = next(iter(sections.values()))
    loads = [section["machine"]["load"] or 0 for section in sections.values()]
    scales = ", ".join(dict.fromkeys(section["scale"] for section in sections.values()))
    span = f"{min(loads)}" if min(loads) == max(loads) else f"{min(loads)} to {max(loads)}"
    return f"{line(first['machine'] | {'load': span})}; scale: {scales}"


def html(sections: Sections) -> str:
    """The page. Cost: a few seconds, most of them matplotlib's."""
    shown = [(part, sections[part.section]["cells"]) for part in PARTS if part.section in sections]
    body = [
        "<header><h1>CROWN benchmarks</h1>",
        f"<p class=machine>{escape(_machine(sections))}</p>",
        "<div class=tiles>",
        *(f"<div><b>{escape(value)}</b><span>{escape(what)}</span></div>" for value, what in tiles(sections)),
        "</div><nav>",
        *(f'<a href="#{part.section}">{escape(part.title)}</a>' for part, _ in shown),
        '<a href="#losses">Where others are faster</a></nav></header>',
    ]
    for part, cells in shown:
        body.append(f'<section id="{part.section}"><h2>{escape(part.title)}</h2><p>{part.text}</p>')
        if part.chart is not None and _measured(cells):
            body.append(f"<figure>{part.chart(cells)}</figure>")
        if part.table is not None:
            inner = tables.html(part.table(cells))
            open_ = " open" if part.chart is None else ""
            body.append(f"<details{open_}><summary>numbers</summary>{inner}</details>")
        body.append("</section>")
    lost = tables.losses(sections)
    body.append(f'<section id="losses"><h2>Where others are faster</h2><p>{LOSSES}</p>')
    body.append(tables.html(lost) if lost.rows else "<p>Nowhere in this run.</p>")
    body.append(f"</section><footer><p>{METHOD}</p><p>Paper: {escape(str(paper.__doc__).strip())}</p></footer>")
    return _PAGE.replace("{body}", "\n".join(body))


def markdown(sections: Sections) -> str:
    """The tables, with the machine they were measured on."""
    out = ["# Benchmarks", "", "Generated by `crown bench report --markdown docs/benchmarks.md` from the JSON results."]
    out += ["", *_HOW.splitlines()]
    out += ["", f"Machine: {_machine(sections)}.", "", METHOD, ""]
    out += ["| | |", "|---|---|", *(f"| **{value}** | {what} |" for value, what in tiles(sections)), ""]
    for part in PARTS:
        if part.section in sections and part.table is not None:
            text = part.text.replace("<b>", "*").replace("</b>", "*").replace("Grey: ", "In the HTML report, grey: ")
            out += [f"## {part.title}", "", text, "", tables.markdown(part.table(sections[part.section]["cells"])), ""]
    lost = tables.losses(sections)
    out += ["## Where others are faster", "", LOSSES, ""]
    out += [tables.markdown(lost) if lost.rows else "Nowhere in this run.", ""]
    return "\n".join(out)


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>CROWN benchmarks</title><style>
:root { --ink: #1b1f2a; --soft: #667085; --line: #e6e8ee; --ours: #4f46e5; --wash: #f7f8fb; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--wash); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
header, section, footer { max-width: 1320px; margin: 0 auto; padding: 0 28px; }
header { padding-top: 36px; }
h1 { margin: 0 0 4px; font-size: 30px; letter-spacing: -0.01em; }
h2 { margin: 0 0 6px; font-size: 20px; }
h3 { margin: 18px 0 0; font-size: 14px; color: var(--soft); font-weight: 600; }
p { max-width: 78ch; margin: 6px 0 12px; }
.machine, footer { color: var(--soft); font-size: 13px; }
.machine { max-width: none; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(max(200px, 23%), 1fr)); gap: 12px;
  margin: 20px 0; }
.tiles div { background: #fff; border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px; }
.tiles b { display: block; font-size: 24px; line-height: 1.2; color: var(--ours); font-variant-numeric: tabular-nums; }
.tiles span { color: var(--soft); font-size: 13px; }
nav { display: flex; flex-wrap: wrap; gap: 6px 16px; font-size: 13.5px; margin-bottom: 22px; }
a { color: var(--ours); text-decoration: none; }
a:hover { text-decoration: underline; }
section { background: #fff; border: 1px solid var(--line); border-radius: 12px; padding: 22px 28px; }
section { margin-bottom: 18px; }
figure { margin: 8px 0 4px; }
figure svg { display: block; width: 100%; height: auto; }
summary { cursor: pointer; color: var(--soft); font-size: 13px; margin: 6px 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 12.5px; font-variant-numeric: tabular-nums; min-width: 100%; }
th { text-align: left; color: var(--soft); font-weight: 600; border-bottom: 1px solid #c4c9d4;
  vertical-align: bottom; }
th, td { padding: 5px 10px 5px 0; vertical-align: top; }
td:first-child { white-space: nowrap; }
td:nth-child(2) { min-width: 110px; max-width: 230px; }
td:last-child { min-width: 200px; }
td { border-bottom: 1px solid var(--line); }
.n { text-align: right; }
td.n { white-space: nowrap; }
tr.ours td:first-child, tr.ours td:nth-child(2) { color: var(--ours); font-weight: 600; }
footer { padding-bottom: 40px; }
</style></head><body>
{body}
</body></html>
"""
