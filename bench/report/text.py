"""Numbers and cells as text."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

FIRST = (
    "How fast crown keeps a query up to date while its tables change, beside other algorithms and other engines on the "
    "same stream. `crown bench report --markdown docs/benchmarks.md` writes this page from the results of "
    "`crown bench run`."
)
LOSSES = (
    "Every setting in this report in which the median of another engine was above that of this one, whether or not it "
    "does the same work."
)
METHOD = (
    "Fixed seeds; every cell in a process of its own, one at a time; kernels compiled. Every engine is warmed up "
    "alike: a pass over the beginning of the stream with an instance that is thrown away, before those that count. "
    "Flink, Pathway, the native engines and Spark streaming run elsewhere: there the beginning of the run itself is "
    "the warm-up and is not counted; beside native engines the same updates of this one are not counted either. The "
    "time is that inside the call that applies a batch of Arrow rows, from Python to Python; native engines take their "
    "rows from memory. In tables, rates are of the fastest of up to three repeats, with the median beside it. Bars "
    "and the figures at the top are medians. A run that was stopped at its time bound says so at its rate, with the "
    "part of the stream that it had done. Bytes per tuple are the state at its fullest over the input tuples that are "
    "live then: a row of a table counts once, however many aliases of the query read it, for every engine alike. A "
    "graph stream is the edge list in file order through a window of a fifth of it, old edge out before new edge in: "
    "2N updates, each going to every copy in the self-join and counted once."
)
QUICK = (
    "This run shows that everything works, on tiny data, for seconds. Its figures say nothing about speed, and none is "
    "compared with the paper's."
)
HOW = """\
```sh
make bench-peers                                      # once: Flink, Pathway, TPC-DS, JOB; with cargo dataflow and dbsp
make bench DATA=soc-Epinions1.txt.zip                 # everything that matters, about an hour on two cores
crown bench run --resume                              # what a run of the last day that was stopped has not measured
make bench DATA=soc-Epinions1.txt.zip SECTION=targets # this engine alone
make bench-quick                                      # under two minutes, on a small generated graph: a try, no figures
crown bench run --full                                # whole streams, up to 10^7 live rows
crown bench run --section triangle-speed triangle-slopes
crown bench run --workload 4-hop --engine crown duckdb-recompute
crown bench report --markdown docs/benchmarks.md      # out/bench/report.html, and this page
crown bench compare before.json after.json            # faster, slower or the same, row by row
crown bench compare a1.json b1.json a2.json b2.json   # the same of runs by turns: a verdict is what every pair has
```
Without `DATA` (or the variable `CROWN_BENCH_DATA`) a seeded graph of the same size is generated. A folder may also hold
an LDBC SNB data set, unpacked or as `*snb*.tar.gz`. What every field of the JSON means stands in
`bench/harness/results.py`."""


def quantity(value: float | None, digits: int = 3) -> str:
    """Returns a number for people: 1.06 M, 554 K, 12.3; a dash for None."""
    if value is None:
        return "–"
    for unit, size in (("G", 1e9), ("M", 1e6), ("K", 1e3)):
        if abs(value) >= size * 0.9995:
            return f"{_digits(value / size, digits)} {unit}"
    return _digits(value, digits)


def _digits(value: float, digits: int) -> str:
    if value == int(value) and abs(value) < 10**digits:
        return str(int(value))
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e" in text else text


def engine(cell: dict[str, Any]) -> str:
    """Returns a short name of the engine for a table."""
    return str(cell["engine_title"]).replace(" (this project)", "")


def mode(cell: dict[str, Any]) -> str:
    """Returns the mode of a cell, and whether the view trusts the stream that every delete finds its row."""
    trusted = cell.get("arguments", {}).get("on_missing") == "trust"
    return f"{cell['mode']} rows trusted" if trusted else str(cell["mode"])


def size(value: float | None) -> str:
    """Returns bytes for people."""
    if value is None:
        return "–"
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= factor:
            return f"{_digits(value / factor, 3)} {unit}"
    return f"{value:.0f} B"


def span(rates: Sequence[float]) -> str:
    """Returns the median of the repeats and their range: 1.2 M (1.1 M to 1.3 M)."""
    if not rates:
        return "–"
    if len(rates) == 1:
        return f"{quantity(rates[0])} (one run)"
    return f"{quantity(median(rates))} ({quantity(min(rates))} to {quantity(max(rates))})"


def median_rate(cell: dict[str, Any]) -> list[float]:
    """Returns the median rate of a cell, in updates per second; an empty list for a cell without a rate."""
    return [cell["updates_per_s_median"]] if cell.get("updates_per_s") else []


def times(before: Sequence[float], after: Sequence[float]) -> str:
    """Returns the ratio of the medians after and before."""
    return f"x {median(after) / median(before):.2f}" if before and after else "–"


def stopped(cell: dict[str, Any]) -> str:
    """Returns how far a run came that was stopped at its time bound; an empty text for other runs."""
    if cell.get("status") != "timeout" or not cell.get("of"):
        return ""
    return f" (stopped at {100 * cell['updates'] / cell['of']:.0f} %)"


def line_of(cell: dict[str, Any]) -> str:
    """Returns a cell in one line of the terminal."""
    head = f"{cell['title'][:26]:26} {cell['engine_title'][:34]:34} {cell['mode']:6}"
    if "x" in cell:
        head += f" {cell['law']} {quantity(cell['x']):>7}"
    if "import_s" in cell:
        return (
            f"{head} import {1000 * cell['import_s']:.0f} ms, libraries {cell['load_s']:.2f} s, "
            f"first apply {cell['first_apply_s']:.2f} s, "
            f"with nothing compiled {cell['first_apply_cold_s']:.1f} s; "
            f"with a 3-hop {size(cell.get('resident_bytes'))}"
        )
    if "curves" in cell:
        return f"{head} slopes " + ", ".join(f"{name} {abs(c['slope']):.2f}" for name, c in cell["curves"].items())
    if "nights" in cell and cell["status"] == "ok":
        shown = (f"{night['share']:.1%} in {night['run']:.1f} s" for night in cell["nights"])
        return f"{head} {', '.join(shown)}"
    if "updates_per_s" not in cell:
        return f"{head} {cell['status']}: {cell['reason']}"
    text = f"{head} {quantity(cell['updates_per_s']):>7} updates/s"
    if cell.get("deltas_per_s"):
        text += f" {quantity(cell['deltas_per_s']):>7} deltas/s"
    if cell.get("enumerated_per_s"):
        text += f" {quantity(cell['enumerated_per_s']):>7} rows/s enumerated"
    if cell.get("results"):
        text += f" {cell['results']:,} results"
    if cell.get("bytes_per_tuple"):
        text += f" {cell['bytes_per_tuple']:4.0f} B/tuple"
    if cell.get("rss_peak"):
        text += f" {size(cell['rss_peak'])} RSS"
    if cell["status"] != "ok":
        text += f"  {cell['status']}: {cell['reason']}"
    return f"{text}  [{cell['check']['status']}]" if cell.get("check", {}).get("status") != "not asked for" else text
