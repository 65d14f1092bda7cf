"""Sections on the growth of cost: with the data, the batch, the output, time and cores."""

from __future__ import annotations

from bench.harness.sections.cells import Cell, cell

LAMBDA = {0.05: 1, 0.1: 2, 0.2: 4, 0.5: 10, 1.0: 20}
SHARES = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0)


def size(scale: str) -> list[Cell]:
    """Returns the cost of an update against |D|, the number of live rows, on a sliding window over a power-law
    graph.
    """
    sizes = {"quick": (2_000, 8_000), "normal": (10_000, 100_000, 1_000_000)}.get(
        scale, (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
    )
    cells = []
    for live in sizes:
        measured = 4_000 if scale == "quick" else 100_000
        options = {"vertices": live // 6, "edges": live + measured // 2, "window": live, "keep": 0.1}
        for engine, mode in (("crown", "none"), ("crown", "delta"), ("yannakakis", "none"), ("first-order", "delta")):
            if scale == "quick" and engine != "crown":
                continue
            more: Cell = {"options": options | {"prefix": live + measured}, "preload": live, "law": "size", "x": live}
            more |= {"data": "generated", "checked": False, "batch_rows": 1_000}
            cells.append(cell("3-hop", engine, mode, scale, **more))
    return cells


def enclosed(scale: str) -> list[Cell]:
    """Returns running time against λ on the paper's stream, views only, as in the paper's Figure 9 (short version:
    7).
    """
    edges = {"quick": 600, "normal": 20_000}.get(scale, 200_000)
    spans = (0.05, 1.0) if scale == "quick" else tuple(LAMBDA)
    cells = []
    for span in spans:
        options = {"vertices": max(edges // 6, 50), "edges": edges, "span": span, "prefix": 0}
        for engine in ("crown", "yannakakis"):
            more: Cell = {"options": options, "law": "lambda", "x": LAMBDA[span], "data": "generated"}
            more |= {"checked": False, "batch_rows": 1_000}
            cells.append(cell("enclosureness", engine, "none", scale, **more))
    return cells


def selectivity(scale: str) -> list[Cell]:
    """Returns running time and output against the share of edges that the filter keeps, as in the paper's Figure 12."""
    shares = (0.01, 1.0) if scale == "quick" else SHARES
    cells = []
    for workload in ("3-hop", "4-hop-jp"):
        for share in shares:
            more = {"options": {"keep": share}, "law": "selectivity", "x": share, "checked": False, "repeats": 1}
            cells.append(cell(workload, "crown", "full", scale, **more))
    return cells


def batches(scale: str) -> list[Cell]:
    """Returns throughput against the number of updates per batch: some engines gain from large batches, this one does
    not.
    """
    sizes = (10, 1_000) if scale == "quick" else (1, 10, 100, 1_000, 10_000, 100_000)
    bound = 1.0 if scale == "quick" else 5.0
    cells = []
    for rows in sizes:
        preload = 3_000 if scale == "quick" else 120_000
        measured = min(max(1_000 * rows, 2_000), 400_000)
        for engine in ("crown", "duckdb-delta", "first-order"):
            more = {"options": {"prefix": preload + measured}, "preload": preload, "law": "batch", "x": rows}
            cells.append(
                cell("3-hop", engine, "delta", scale, batch_rows=rows, checked=False, repeats=1, bound_s=bound, **more)
            )
    return cells


def memory(scale: str) -> list[Cell]:
    """Returns ten windows in sequence over a graph with a constant distribution of edges: state must stay flat."""
    more: Cell = {"options": {"window": 1 / 11}, "data": "generated", "law": "memory", "x": 10, "checked": False}
    return [cell("3-hop", "crown", "delta", scale, **more)]


def state(scale: str) -> list[Cell]:
    """Returns state and number of results of the unfiltered 3-hop while a graph is loaded and nothing is deleted."""
    more = {"law": "loaded", "batch_rows": 100_000}
    shares = (0.5, 1.0) if scale == "quick" else (0.1, 0.2, 0.5, 1.0)
    return [
        cell("3-hop-all", "crown", "count", scale, options={"arrived": share, "prefix": 0}, x=share, **more)
        for share in shares
    ]


def cores(scale: str) -> list[Cell]:
    """Returns the embedded engine and views of groups on one, two and four threads, and the Spark path on as many
    cores."""
    if scale == "quick":
        return [cell("3-hop", "crown", "delta", scale, arguments={"threads": 2}, law="cores", x=2)]
    cells = []
    for n in (1, 2, 4):
        for workload, mode in (("3-hop", "none"), ("3-hop", "delta"), ("4-hop", "delta")):
            more: Cell = {"arguments": {"threads": n}, "law": "cores", "x": n}
            more["batch_rows"] = 100_000 if mode == "none" else 10_000
            cells.append(cell(workload, "crown", mode, scale, checked=workload == "3-hop", **more))
        for name in ("agg-star", "agg-tpch-q3"):
            more = {"arguments": {"threads": n, "on_missing": "trust"}, "law": "cores", "x": n, "batch_rows": 10_000}
            more["options"] = {"shuffled": name == "agg-star"}
            cells.append(cell(name, "crown-view", "delta", scale, **more))
        cells.append(cell("3-hop", "crown-spark", "spark", scale, cores=n, law="cores", x=n, checked=False, repeats=1))
    return cells
