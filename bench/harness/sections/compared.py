"""Sections of queries, beside other engines and DuckDB's recompute."""

from __future__ import annotations

from bench.cases import job as join_order
from bench.cases.aggregates import AGGREGATES
from bench.cases.motifs import MOTIFS
from bench.cases.nexmark import NEXMARK
from bench.cases.ordered import FINANCE, ORDERED, OVER, QUADRATIC, RANGES
from bench.cases.recursion import RECURSIONS
from bench.cases.tpcds import FEW, TPCDS
from bench.cases.workloads import WORKLOADS
from bench.harness.sections.cells import COLUMNS, RECOMPUTE, SHORT, Cell, beside, cell
from bench.subjects.catalogue import ENGINES
from bench.subjects.peers.native import WRITTEN

_TPCH_FEW = ("agg-tpch-q15", "agg-tpch-q16", "agg-tpch-q22")  # with subqueries that have rows on very small data


def targets(scale: str) -> list[Cell]:
    """Returns the target workloads of this engine, in its modes, beside the plain Python baseline."""
    cells = [cell("3-hop", "crown", mode, scale) for mode in ("none", "delta", "full", "arrow")]
    cells.append(cell("3-hop", "python", "delta", scale))
    if scale == "quick":
        return cells
    cells += [
        cell("4-hop", "crown", "none", scale, options={"prefix": 0}),
        cell("4-hop", "crown", "delta", scale),
        cell("4-hop-jp", "crown", "delta", scale),
        cell("star", "crown", "delta", scale, batch_rows=100),
        cell("2-comb", "crown", "delta", scale),
        cell("3-hop", "crown-spark", "spark", scale),
    ]
    return cells


def engines(scale: str) -> list[Cell]:
    """Returns the same query and stream for every engine."""
    names: tuple[str, ...]
    if scale == "quick":
        names = ("crown", "first-order", "standard", "higher-order", "yannakakis", "duckdb-delta", "duckdb-recompute")
        return [cell("3-hop", name, "delta", scale) for name in names]
    names = tuple(name for name, entry in ENGINES.items() if "delta" in entry.modes)
    cells = [cell("3-hop", name, "delta", scale) for name in names]
    names = ("crown", "first-order", "standard", "higher-order", "yannakakis", "python", "duckdb-recompute")
    for workload in ("4-hop-jp", "2-comb") if scale == "full" else ("4-hop-jp",):
        cells += [cell(workload, name, "delta", scale, bound_s=5.0) for name in names]
    return cells


def workloads(scale: str) -> list[Cell]:
    """Returns this engine on every query, beside DuckDB's recompute."""
    if scale == "quick":
        return [cell(name, "crown", "delta", scale) for name in ("4-hop-jp", "2-comb", "snb-q2")]
    names = (
        "3-hop", "3-hop-jp", "3-hop-all", "4-hop", "4-hop-jp", "2-comb", "star", "triangle", "4-cycle", "dumbbell",
        "dumbbell-jp", "snb-q1", "snb-q2", "snb-q3", "snb-q4", "tpch-q3", "tpch-q5", "tpch-q9", "tpch-q10", "tpch-q18",
    )  # fmt: skip
    cells = []
    for name in names:
        rows = {"batch_rows": 100} if name == "star" else {}
        cells.append(cell(name, "crown", "delta", scale, **rows))
        if scale == "full" or name not in ("star", "dumbbell-jp"):  # one recompute takes most of a minute
            cells.append(cell(name, "duckdb-recompute", "delta", scale, **RECOMPUTE, **rows))
    return cells


def aggregates(scale: str) -> list[Cell]:
    """Returns groups, bags and outer joins through the public view, beside DuckDB's recompute of the same batches.

    There are many cells: a pass of this engine ends after three seconds, and a pass of the recompute is one recompute.
    """
    quick = scale == "quick"
    passes: Cell = {} if scale == "full" else SHORT
    # A view that is stored and reopened holds a whole window: the stream itself ends with an empty one.
    lasting: Cell = {"options": {"prefix": 5_000 if quick else 160_000}}
    few = ("agg-star", "agg-3-hop-by", "agg-group", "agg-inner", "agg-outer", "agg-shop", *_TPCH_FEW)
    names = few if quick else tuple(name for name in AGGREGATES if name != "agg-cofactors")
    cells = []
    for rows in (1_000,) if quick else (10_000, 1_000):
        at: Cell = {"batch_rows": rows, "law": "batch", "x": rows}
        for name in names:
            cells.append(cell(name, "crown-view", "delta", scale, **at, **passes))
            if name != "agg-star":  # the fourth power of a degree in rows: one recompute takes hours
                cells.append(cell(name, "duckdb-recompute", "delta", scale, **RECOMPUTE, **at))
        for engine, mode in () if quick else (("crown-model", "none"), ("duckdb-recompute", "delta")):
            more = passes if engine == "crown-model" else RECOMPUTE
            cells.append(cell("agg-cofactors", engine, mode, scale, **at, **more))
        cells.append(cell("agg-shop", "crown-folder", "delta", scale, **lasting, **at, **passes))
        for name in () if quick else ("agg-star", "agg-3-hop"):
            title = f"{AGGREGATES[name].title}, shuffled"
            more = {"title": title, "options": {"shuffled": True}}
            cells.append(cell(name, "crown-view", "delta", scale, **more, **at, **passes))
            cells.append(cell(name, "crown-view", "none", scale, **at, **passes))
        for name in ("agg-group",) if quick else ("agg-group", "agg-sums", "agg-tpch-q1"):
            cells.append(cell(name, "crown-view", "delta", scale, arguments={"on_missing": "trust"}, **at, **passes))
    if not quick:
        cells.append(cell("agg-shop", "flink-restart", "delta", scale, **lasting, **passes | {"bound_s": 20.0}))
    return cells


def motifs(scale: str) -> list[Cell]:
    """Returns motifs of three to five vertices through the public view, beside DuckDB's recompute."""
    names, sizes = (tuple(MOTIFS), (10_000, 1_000)) if scale != "quick" else (tuple(MOTIFS)[:3], (1_000,))
    return beside(names, sizes, scale, {}, RECOMPUTE)


def ordered(scale: str) -> list[Cell]:
    """Returns rows in order, in one partition that grows, beside DuckDB's recompute of the same batches, and dbsp and
    Flink if they have the operator.
    """
    quick = scale == "quick"
    cells = []
    for live in (2_000,) if quick else (10_000, 100_000, 1_000_000):
        for rows in (1_000,) if quick else (1_000, 10_000)[: 2 if live > 10_000 else 1]:
            options = {"rows": live, "prefix": live + (2 if quick else 9) * rows}
            at: Cell = {"options": options, "preload": live, "batch_rows": rows, "law": "rows", "x": live}
            for name in (*FINANCE[:2], *OVER[2:4]) if quick else ORDERED:
                for mode in ("ranges", "delta") if name in RANGES else ("delta",):
                    cells.append(cell(name, "crown-view", mode, scale, **at))
                if name not in QUADRATIC or live <= 10_000:
                    cells.append(cell(name, "duckdb-recompute", "delta", scale, **RECOMPUTE, **at, **COLUMNS))
                if name in WRITTEN["dbsp"] and not quick:
                    cells.append(cell(name, "dbsp", "delta", scale, **at))
        if live in (10_000, 100_000) and not quick:  # its own batches, and enough of them to read its metrics
            at = {"options": {"rows": live, "prefix": 3 * live}, "preload": live, "law": "rows", "x": live}
            cells += [cell(name, "flink", "delta", scale, bound_s=20.0, **at) for name in OVER]
    return cells


def nexmark(scale: str) -> list[Cell]:
    """Returns the queries of Nexmark through the public view, beside DuckDB's recompute of the same batches."""
    names, sizes = (tuple(NEXMARK), (10_000, 1_000)) if scale != "quick" else (("nexmark-q4", "nexmark-q5"), (1_000,))
    events: Cell = {"options": {"events": {"quick": 4_000, "normal": 500_000}.get(scale, 2_000_000)}}
    return beside(names, sizes, scale, events | SHORT, events | RECOMPUTE | COLUMNS)


def tpcds(scale: str) -> list[Cell]:
    """Returns the queries of TPC-DS through the public view, beside DuckDB's recompute of the same batches."""
    names = FEW if scale == "quick" else tuple(TPCDS)
    return beside(names, (1_000,), scale, SHORT, RECOMPUTE | COLUMNS)


def job(scale: str) -> list[Cell]:
    """Returns the queries of the Join Order Benchmark through the public view, beside DuckDB's recompute."""
    names = join_order.FEW if scale == "quick" else tuple(join_order.JOB)
    rows: Cell = {"options": {"rows": {"quick": 20_000, "normal": join_order.ROWS}.get(scale, 2_000_000)}}
    return beside(names, (1_000,), scale, rows | SHORT, rows | RECOMPUTE | COLUMNS)


def native(scale: str) -> list[Cell]:
    """Returns this engine beside native ones, on one core each, with the order of joins that is best for them."""
    quick = scale == "quick"
    names = [name for name in WRITTEN["dd"] if WORKLOADS[name].kind != "recursion"]  # which have a section of their own
    settings: list[tuple[str, Cell, Cell]] = [(name, {}, {}) for name in (["3-hop"] if quick else names)]
    if not quick:  # keys that are not in the order of the file, and tables that no cache holds
        title = f"{AGGREGATES['agg-star'].title}, shuffled"
        settings.append(("agg-star", {"title": title, "options": {"shuffled": True}}, {}))
        large = {"scale_factor": 1.0, "window": 0.25, "prefix": 6_000_000}
        sums = ("agg-tpch-q3", "agg-tpch-q5", "agg-tpch-q10")
        settings += [(name, {"title": f"{AGGREGATES[name].title}, SF 1", "options": large}, {}) for name in sums]
        network = {"generated": True, "persons": 20_000}  # the data set has updates for some milliseconds only
        title = f"{WORKLOADS['snb-q4'].title}, 20,000 persons"
        settings.append(("snb-q4", {"title": title, "options": network}, {}))
        # The others take integers in any case. Here this engine takes no other values, either.
        integers: Cell = {"options": {"integers": True}}
        settings += [(name, {"title": f"{AGGREGATES[name].title}, over integers"}, integers) for name in sums]
    cells = []
    for rows in (1_000,) if quick else (10_000, 1_000):
        at: Cell = {"batch_rows": rows, "law": "batch", "x": rows, "one_core": True, "counted_as_elsewhere": True}
        for name, common, own in settings:
            kernels = () if name in AGGREGATES else (("crown", "delta"), ("crown", "arrow"))
            ours, theirs = at | common | own, at | common
            cells += [cell(name, engine, mode, scale, **ours) for engine, mode in (*kernels, ("crown-view", "delta"))]
            # The others trust the stream that every delete finds its row.
            cells.append(cell(name, "crown-view", "delta", scale, arguments={"on_missing": "trust"}, **ours))
            peers = [peer for peer, written in WRITTEN.items() if name in written]
            cells += [cell(name, peer, "delta", scale, **theirs) for peer in peers]
    return cells


def recursion(scale: str) -> list[Cell]:
    """Returns recursions through the public view, beside native engines on one core, and DuckDB's recompute.

    A batch of 10,000 updates would change all of the smaller inputs.
    """
    small: Cell = {"nodes": 300, "window": 1_000, "rows": 500}
    ours: tuple[Cell, ...] = ({}, {"arguments": {"on_missing": "trust"}})[: 1 if scale == "quick" else 2]
    cells = []
    for name in RECURSIONS:
        sizes = (10_000, 1_000, 10) if "reach" in name else (1_000, 10)
        for rows in (100,) if scale == "quick" else sizes:
            updates = {10_000: 60_000, 1_000: 10_000, 10: 1_500}.get(rows, 1_000) * (5 if name == "rec-reach" else 1)
            options = (small if scale == "quick" else {}) | {"prefix": updates}
            at: Cell = {"options": options, "batch_rows": rows, "law": "batch", "x": rows, "one_core": True}
            at |= {"counted_as_elsewhere": True, "bound_s": 5.0, "repeat_budget_s": 3.0}
            cells += [cell(name, "crown-view", "delta", scale, **at, **more) for more in ours]
            cells += [cell(name, peer, "delta", scale, **at) for peer in ("dd", "dbsp")]
            cells.append(cell(name, "duckdb-recompute", "delta", scale, **at | RECOMPUTE))
    return cells
