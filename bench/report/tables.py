"""The tables of the report: rows of text made from cells, for HTML and markdown alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.harness.sections.catalogue import SECTIONS
from bench.report.sections import paper
from bench.report.text import engine, quantity, size, stopped
from bench.subjects.catalogue import ENGINES, Entry

Cell = dict[str, Any]
Sections = dict[str, dict[str, Any]]
_NUMBER = re.compile(r"<? ?[\d.,]+( ?([KMG]|ms|s|B|[KMG]iB|%))?( \(stopped at \d+ %\))?")
_LAWS = {"lambda": "λ", "size": "|D|"}


@dataclass(frozen=True)
class Table:
    """Headings, rows of text, and a flag for each row of this project."""

    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    ours: list[bool]


def _columns(cells: Sequence[Cell], columns: Sequence[tuple[str, Callable[[Cell], str]]]) -> Table:
    return Table(
        tuple(name for name, _ in columns),
        [tuple(show(cell) for _, show in columns) for cell in cells],
        [cell["engine"].startswith("crown") for cell in cells],
    )


def _ms(cell: Cell, which: str) -> str:
    latency = cell.get("latency_ms")
    if not latency:
        return "–"
    return f"{quantity(latency[which])} ms" if latency[which] < 1000 else f"{quantity(latency[which] / 1000)} s"


def outcome(cell: Cell) -> str:
    """Returns whether the cell was checked, or why it has no result."""
    check = cell.get("check", {})
    if cell["status"] == "ok":
        return {"passed": f"checked, {check.get('rows', 0):,} rows"}.get(
            check.get("status", ""), check.get("status", "")
        )
    text = cell["reason"]
    return f"{text} (checked)" if check.get("status") == "passed" and cell["status"] == "timeout" else text


def rate(cell: Cell) -> str:
    """Returns updates per second of the fastest run; the progress, too, if the run was stopped."""
    return quantity(cell.get("updates_per_s")) + stopped(cell)


def spread(cell: Cell) -> str:
    """Returns the median of the repeats."""
    if not cell.get("updates_per_s"):
        return "–"
    return quantity(cell["updates_per_s_median"]) if cell["repeats"] > 1 else "one run"


def _grown(cell: Cell) -> str:
    if not cell.get("rss_peak"):
        return "–"
    return size(cell["rss_peak"])


def measured(cells: Sequence[Cell]) -> Table:
    """Returns the measurements of the cells, one per row."""
    return _columns(
        cells,
        (
            ("query", lambda c: c["title"]),
            ("engine", engine),
            ("mode", lambda c: c["mode"]),
            ("batch", lambda c: f"{c['batch_rows']:,}" if c["batch_rows"] else "stream"),
            ("updates/s", rate),
            ("median", spread),
            ("deltas/s", lambda c: quantity(c.get("deltas_per_s") or None)),
            ("enumerated/s", lambda c: quantity(c.get("enumerated_per_s"))),
            ("batch p50", lambda c: _ms(c, "p50")),
            ("p99", lambda c: _ms(c, "p99")),
            ("bytes/tuple", lambda c: quantity(c.get("bytes_per_tuple"))),
            ("peak RSS", _grown),
            ("touched/update", lambda c: quantity(c.get("amplification"))),
            ("outcome", outcome),
        ),
    )


def queries(cells: Sequence[Cell]) -> Table:
    """Returns this engine on every query, with DuckDB's recompute and the paper's time in the same row."""
    rows = []
    for cell in (c for c in cells if c["engine"] == "crown"):
        other = next((c for c in cells if c["workload"] == cell["workload"] and c["engine"] != "crown"), {})
        theirs = paper.DELTA_SECONDS.get(cell["workload"])
        whole = theirs is not None and "Epinions" in cell.get("data", "") and cell.get("of") == paper.UPDATES
        whole = whole and cell["scale"] != "quick"
        stats = cell.get("stats", {})
        rows.append(
            (
                cell["title"],
                cell.get("data", "–"),
                f"{cell['of']:,}" if "of" in cell else "–",
                rate(cell),
                spread(cell),
                quantity(cell.get("deltas_per_s") or None),
                quantity(cell.get("amplification")),
                quantity(cell.get("bytes_per_tuple")),
                str(stats.get("height", "–")),
                rate(other),
                quantity(paper.UPDATES / theirs) if whole and theirs else "–",
                outcome(cell),
            )
        )
    headings = (
        "query", "data", "updates", "updates/s", "median", "deltas/s", "touched/update", "bytes/tuple", "height",
        "DuckDB recompute", "paper", "outcome",
    )  # fmt: skip
    return Table(headings, rows, [True] * len(rows))


def law(x: str) -> Callable[[Sequence[Cell]], Table]:
    """Returns a function that makes the table of a scaling section, against ``x``."""
    columns = (
        (x, lambda c: quantity(c["x"])),
        ("query", lambda c: c["title"]),
        ("engine", engine),
        ("mode", lambda c: c["mode"]),
        ("updates/s", rate),
        ("median", spread),
        ("deltas/s", lambda c: quantity(c.get("deltas_per_s") or None)),
        ("enumerated", lambda c: quantity(c.get("enumerated"))),
        ("touched/update", lambda c: quantity(c.get("amplification"))),
        ("longest delay", lambda c: str(c.get("stats", {}).get("max_delay", "–"))),
        ("bytes/tuple", lambda c: quantity(c.get("bytes_per_tuple"))),
        ("outcome", lambda c: "" if c["status"] == "ok" else c["reason"]),
    )
    return lambda cells: _columns(cells, columns)


def states(cells: Sequence[Cell]) -> Table:
    """Returns the size of the state, with the edges and results that it represents."""
    return _columns(
        cells,
        (
            ("loaded", lambda c: f"{100 * c['x']:g} %"),
            ("query", lambda c: c["title"]),
            ("data", lambda c: c.get("data", "–")),
            ("edges", lambda c: f"{c['live_tuples']:,}" if "live_tuples" in c else "–"),
            ("results", lambda c: f"{c['results']:,}" if "results" in c else "–"),
            ("counted in", lambda c: f"{quantity(1000 * c['count_s'])} ms" if "count_s" in c else "–"),
            ("state", lambda c: size(c.get("state_peak_bytes"))),
            ("bytes/tuple", lambda c: quantity(c.get("bytes_per_tuple"))),
            ("outcome", outcome),
        ),
    )


def started(cells: Sequence[Cell]) -> Table:
    """Returns the startup measurements."""
    return _columns(
        [c for c in cells if "load_s" in c],
        (
            ("import crown", lambda c: f"{1000 * c['import_s']:.0f} ms"),
            ("first use: numpy, pyarrow, numba", lambda c: f"{c['load_s']:.2f} s"),
            ("first view and apply, kernels cached", lambda c: f"{c['first_apply_s']:.2f} s"),
            ("the same, nothing compiled yet", lambda c: f"{c['first_apply_cold_s']:.1f} s"),
            ("resident after the first use", lambda c: size(c.get("loaded_bytes"))),
            ("after a 3-hop, 20 batches of 10,000", lambda c: size(c.get("resident_bytes"))),
            ("of it state", lambda c: size(c.get("state_bytes"))),
        ),
    )


def _median(cell: Cell) -> str:
    return quantity(cell["updates_per_s_median"]) + stopped(cell)


def losses(sections: Sections) -> Table:
    """Returns every setting in which the median of another engine is above this engine's. That of one run is its
    rate."""
    rows = []
    for name in SECTIONS:
        cells = [c for c in sections.get(name, {}).get("cells", ()) if c.get("updates_per_s")]
        for ours in (c for c in cells if c["engine"] in ("crown", "crown-view")):
            for other in (c for c in cells if ENGINES[c["engine"]].kind != "ours"):
                own = ENGINES[other["engine"]].batch_rows != Entry.batch_rows  # it has batches of its own
                same = all(other.get(k) == ours.get(k) for k in ("title", "mode", "x", "batch_rows")[: 3 if own else 4])
                if same and other["updates_per_s_median"] > ours["updates_per_s_median"]:
                    times = other["updates_per_s_median"] / ours["updates_per_s_median"]
                    figures = (_median(ours), _median(other), f"{times:.2f}")
                    rows.append((ours["title"], _setting(ours), engine(other), *figures))
    headings = ("query", "setting", "faster engine", "CROWN, median updates/s", "the other, median updates/s", "times")
    return Table(headings, rows, [False] * len(rows))


def _setting(cell: Cell) -> str:
    batch = f"batch {cell['batch_rows']:,}"
    if cell.get("law") == "rows":
        return f"{cell['x']:,} rows, {batch}"
    return f"{_LAWS[cell['law']]} = {quantity(cell['x'])}" if cell.get("law") in _LAWS else batch


def html(table: Table) -> str:
    """Returns the table as HTML."""
    from html import escape

    numeric = [all(_is_number(row[i]) for row in table.rows) for i in range(len(table.headings))]
    texts = [' class="engine"' if h == "engine" else ' class="t"' for h in table.headings]
    kind = [' class="n"' if n else text for n, text in zip(numeric, texts, strict=True)]
    heads = [escape(h).replace("/update", "/<wbr>update") for h in table.headings]
    head = "".join(f"<th{kind[i]}>{h}</th>" for i, h in enumerate(heads))
    body = []
    for row, ours in zip(table.rows, table.ours, strict=True):
        cells = "".join(f"<td{kind[i]}>{escape(value)}</td>" for i, value in enumerate(row))
        body.append(f"<tr{' class=ours' if ours else ''}>{cells}</tr>")
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"


def markdown(table: Table) -> str:
    """Returns the table as markdown."""
    lines = ["| " + " | ".join(map(_cell, table.headings)) + " |", "|" + "---|" * len(table.headings)]
    for row, ours in zip(table.rows, table.ours, strict=True):
        cells = list(map(_cell, row))
        if ours:
            cells[0] = f"**{cells[0]}**"
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def folded(table: Table) -> str:
    """Returns the table as markdown that a reader can unfold."""
    count = "1 row" if len(table.rows) == 1 else f"{len(table.rows)} rows"
    summary = f"<summary>{count}: {', '.join(table.headings[:2])}, …</summary>"
    return f'<details markdown="1">\n{summary}\n\n{markdown(table)}\n\n</details>'


def _cell(text: str) -> str:
    """Returns a text for a cell of a markdown table, in which a bar must be escaped."""
    return text.replace("|", "\\|")


def _is_number(text: str) -> bool:
    return text in ("–", "stream", "one run") or _NUMBER.fullmatch(text) is not None
