"""Which cells make up each section, at each scale.

quick: seconds, for tests. normal: minutes, everything that matters. full: the long tail (10^7 rows, whole streams).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.cases.aggregates import AGGREGATES
from bench.cases.motifs import MOTIFS
from bench.cases.nexmark import NEXMARK
from bench.cases.ordered import ORDERED, OVER, QUADRATIC, RANGES
from bench.cases.tpcds import FEW, TPCDS
from bench.cases.triangles import UPDATES
from bench.subjects.catalogue import ENGINES
from bench.subjects.peers.native import WRITTEN

Cell = dict[str, Any]
SCALES = ("quick", "normal", "full")
_SMALL = {"vertices": 1_000, "edges": 6_000, "persons": 100, "events": 2_000}
_RECOMPUTE: Cell = {"bound_s": 2.0, "repeats": 1, "checked": False}
_SHORT: Cell = {"bound_s": 3.0, "repeat_budget_s": 3.0}
_COLUMNS: Cell = {"arguments": {"columns": True}}
LAMBDA = {0.05: 1, 0.1: 2, 0.2: 4, 0.5: 10, 1.0: 20}
PARTITIONS = ("single", "double")
_TPCH_FEW = ("agg-tpch-q15", "agg-tpch-q16", "agg-tpch-q22")  # those of subqueries that have rows on very small data
SHARES = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0)


def cell(workload: str, engine: str, mode: str, scale: str, **more: Any) -> Cell:
    """Returns a cell with the defaults of its engine and the scale."""
    out: Cell = {
        "workload": workload,
        "engine": engine,
        "mode": mode,
        "batch_rows": ENGINES[engine].batch_rows,
        "options": {},
        "repeats": 1 if scale == "quick" else 3,
        "bound_s": {"quick": 5.0, "normal": 10.0, "full": 600.0}[scale],
        "repeat_budget_s": {"quick": 3.0, "normal": 8.0, "full": 60.0}[scale],
        "checked": True,
    }
    out |= more
    if scale == "quick":
        out["options"] = _SMALL | out["options"]
        out |= {"batch_rows": min(out["batch_rows"], 2_000), "warm_rows": 2_000}
    if scale == "full" and "prefix" not in out["options"] and workload not in ("star", "3-hop-all"):
        out["options"] = out["options"] | {"prefix": 0}
    return out


def targets(scale: str) -> list[Cell]:
    """Returns what this engine is built for, in its modes, and the plain Python baseline beside it."""
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
    """Returns the same query and stream for everyone."""
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
            cells.append(cell(name, "duckdb-recompute", "delta", scale, **_RECOMPUTE, **rows))
    return cells


def aggregates(scale: str) -> list[Cell]:
    """Returns groups, bags and outer joins through the public view, beside DuckDB's recompute of the same batches.

    There are many: a pass of ours ends after three seconds, one recompute is one pass.
    """
    quick = scale == "quick"
    passes: Cell = {} if scale == "full" else _SHORT
    # What is kept and opened again is a whole window: the stream itself ends with an empty one.
    lasting: Cell = {"options": {"prefix": 5_000 if quick else 160_000}}
    few = ("agg-star", "agg-3-hop-by", "agg-group", "agg-inner", "agg-outer", "agg-shop", *_TPCH_FEW)
    names = few if quick else tuple(name for name in AGGREGATES if name != "agg-cofactors")
    cells = []
    for rows in (1_000,) if quick else (10_000, 1_000):
        at: Cell = {"batch_rows": rows, "law": "batch", "x": rows}
        for name in names:
            cells.append(cell(name, "crown-view", "delta", scale, **at, **passes))
            if name != "agg-star":  # the fourth power of a degree in rows: one recompute takes hours
                cells.append(cell(name, "duckdb-recompute", "delta", scale, **_RECOMPUTE, **at))
        for engine, mode in () if quick else (("crown-model", "none"), ("duckdb-recompute", "delta")):
            more = passes if engine == "crown-model" else _RECOMPUTE
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
    """Returns motifs of three to five vertices as the public view has them, beside DuckDB's recompute."""
    names, sizes = (tuple(MOTIFS), (10_000, 1_000)) if scale != "quick" else (tuple(MOTIFS)[:3], (1_000,))
    return _beside(names, sizes, scale, {}, _RECOMPUTE)


def _beside(names: Sequence[str], sizes: Sequence[int], scale: str, ours: Cell, theirs: Cell) -> list[Cell]:
    """Returns queries through the public view, beside DuckDB's recompute, in batches of each of these sizes."""
    cells = []
    for rows in sizes:
        at: Cell = {"batch_rows": rows, "law": "batch", "x": rows}
        for name in names:
            cells.append(cell(name, "crown-view", "delta", scale, **at, **ours))
            cells.append(cell(name, "duckdb-recompute", "delta", scale, **at, **theirs))
    return cells


def ordered(scale: str) -> list[Cell]:
    """Returns rows in order, in one partition that grows, beside DuckDB's recompute of the same batches."""
    quick = scale == "quick"
    cells = []
    for live in (2_000,) if quick else (10_000, 100_000, 1_000_000):
        for rows in (1_000,) if quick else (1_000, 10_000)[: 2 if live > 10_000 else 1]:
            options = {"rows": live, "prefix": live + (2 if quick else 9) * rows}
            at: Cell = {"options": options, "preload": live, "batch_rows": rows, "law": "rows", "x": live}
            for name in ORDERED:
                for mode in ("ranges", "delta") if name in RANGES else ("delta",):
                    cells.append(cell(name, "crown-view", mode, scale, **at))
                if name not in QUADRATIC or live <= 10_000:
                    cells.append(cell(name, "duckdb-recompute", "delta", scale, **_RECOMPUTE, **at, **_COLUMNS))
        if live in (10_000, 100_000) and not quick:  # its own batches, and enough of them for a look at its metrics
            at = {"options": {"rows": live, "prefix": 3 * live}, "preload": live, "law": "rows", "x": live}
            cells += [cell(name, "flink", "delta", scale, bound_s=20.0, **at) for name in OVER]
    return cells


def nexmark(scale: str) -> list[Cell]:
    """Returns the queries of Nexmark through the public view, beside DuckDB's recompute of the same batches."""
    names, sizes = (tuple(NEXMARK), (10_000, 1_000)) if scale != "quick" else (("nexmark-q4", "nexmark-q5"), (1_000,))
    events: Cell = {"options": {"events": {"quick": 4_000, "normal": 500_000}.get(scale, 2_000_000)}}
    return _beside(names, sizes, scale, events | _SHORT, events | _RECOMPUTE | _COLUMNS)


def tpcds(scale: str) -> list[Cell]:
    """Returns the queries of TPC-DS through the public view, beside DuckDB's recompute of the same batches."""
    names = FEW if scale == "quick" else tuple(TPCDS)
    return _beside(names, (1_000,), scale, _SHORT, _RECOMPUTE | _COLUMNS)


def native(scale: str) -> list[Cell]:
    """Returns this engine beside native ones, on one core each, with the order of joins that is best for them."""
    quick = scale == "quick"
    cells = []
    for rows in (1_000,) if quick else (10_000, 1_000):
        at: Cell = {"batch_rows": rows, "law": "batch", "x": rows, "one_core": True, "counted_as_elsewhere": True}
        for name in ("3-hop",) if quick else WRITTEN["dd"]:
            grouped = name in AGGREGATES
            ours = (("crown-view", "delta"),) if grouped else (("crown", "delta"), ("crown", "arrow"))
            cells += [cell(name, engine, mode, scale, **at) for engine, mode in ours]
            if grouped:  # the others take the stream's word that every delete finds its row
                cells.append(cell(name, "crown-view", "delta", scale, arguments={"on_missing": "trust"}, **at))
            cells += [cell(name, peer, "delta", scale, **at) for peer, written in WRITTEN.items() if name in written]
    return cells


def size(scale: str) -> list[Cell]:
    """Returns cost of an update against |D|, the number of live rows, on a sliding window over a power-law graph."""
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
    7)."""
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
    """Returns running time and output against the share of edges the filter keeps, as in the paper's Figure 12."""
    shares = (0.01, 1.0) if scale == "quick" else SHARES
    cells = []
    for workload in ("3-hop", "4-hop-jp"):
        for share in shares:
            more = {"options": {"keep": share}, "law": "selectivity", "x": share, "checked": False, "repeats": 1}
            cells.append(cell(workload, "crown", "full", scale, **more))
    return cells


def batches(scale: str) -> list[Cell]:
    """Returns throughput against the number of updates per batch: where a peer gains from large batches, and we do
    not."""
    sizes = (10, 1_000) if scale == "quick" else (1, 10, 100, 1_000, 10_000, 100_000)
    cells = []
    for rows in sizes:
        preload = 3_000 if scale == "quick" else 120_000
        measured = min(max(1_000 * rows, 2_000), 400_000)
        for engine in ("crown", "duckdb-delta", "first-order"):
            more = {"options": {"prefix": preload + measured}, "preload": preload, "law": "batch", "x": rows}
            cells.append(
                cell("3-hop", engine, "delta", scale, batch_rows=rows, checked=False, repeats=1, bound_s=5.0, **more)
            )
    return cells


def memory(scale: str) -> list[Cell]:
    """Returns ten windows, one after the other, over a graph whose edges are drawn alike all the time: state must stay
    flat."""
    more: Cell = {"options": {"window": 1 / 11}, "data": "generated", "law": "memory", "x": 10, "checked": False}
    return [cell("3-hop", "crown", "delta", scale, **more)]


def state(scale: str) -> list[Cell]:
    """Returns state and number of results of the unfiltered 3-hop while a graph is loaded and nothing leaves it."""
    more = {"law": "loaded", "batch_rows": 100_000}
    shares = (0.5, 1.0) if scale == "quick" else (0.1, 0.2, 0.5, 1.0)
    return [
        cell("3-hop-all", "crown", "count", scale, options={"arrived": share, "prefix": 0}, x=share, **more)
        for share in shares
    ]


def cores(scale: str) -> list[Cell]:
    """Returns the embedded engine on one, two and four threads, and the Spark path on as many cores."""
    if scale == "quick":
        return [cell("3-hop", "crown", "delta", scale, arguments={"threads": 2}, law="cores", x=2)]
    cells = []
    for n in (1, 2, 4):
        for workload, mode in (("3-hop", "none"), ("3-hop", "delta"), ("4-hop", "delta")):
            more = {"arguments": {"threads": n}, "law": "cores", "x": n}
            more["batch_rows"] = 100_000 if mode == "none" else 10_000
            cells.append(cell(workload, "crown", mode, scale, checked=workload == "3-hop", **more))
        cells.append(cell("3-hop", "crown-spark", "spark", scale, cores=n, law="cores", x=n, checked=False, repeats=1))
    return cells


def sinks(scale: str) -> list[Cell]:
    """Returns the Spark path end to end by what writes the deltas: nothing, Spark, or the cells."""
    if scale == "quick":
        return []
    titles = {
        "noop": "not written",
        "spark-parquet": "Spark writes Parquet",
        "delta": "the cells write a Delta table",
        "parquet": "the cells write Parquet with manifests",
    }
    common: Cell = {"checked": False, "repeats": 1}
    four = {"laps": 4, "prefix": 4_000_000}  # batches of the same size, the first of which is not counted
    three = {"laps": 3, "prefix": 3_000_000}
    cells = []
    for rows in (100_000,) if scale == "normal" else (100_000, 500_000):
        for sink, title in titles.items():
            more: Cell = {"title": f"3-Hop, {title}", "arguments": {"sink": sink}, "options": three, "batch_rows": rows}
            cells.append(cell("3-hop", "crown-spark", "spark", scale, **more, **common))
    title = "3-Hop, large batches, not written"
    large = cell("3-hop", "crown-spark", "spark", scale, title=title, options=four, batch_rows=500_000, **common)
    return [*cells, large]


def operator(scale: str) -> list[Cell]:
    """Returns the Spark operator's micro-batches beside those of a job that does nothing, and cells that are filled
    from tables, or rebuilt."""
    if scale == "quick":
        return []
    cells = []
    # Enough batches for Java to compile what they run, or all that the graph has. Spark keeps the times of a hundred.
    for rows, batches in ((0, 96), (1, 96), (1_000, 96), (10_000, 60), (100_000, 10)):
        each = max(rows, 1)
        more: Cell = {"options": {"prefix": each * batches}, "batch_rows": each, "law": "batch", "x": rows}
        more["arguments"] = {"empty": rows == 0}
        for engine in ("spark-identity", "crown-spark"):
            cells.append(cell("3-hop", engine, "spark", scale, checked=False, repeats=1, **more))
    sizes = (100_000, 1_000_000, 4_000_000) if scale == "normal" else (100_000, 1_000_000, 4_000_000, 20_000_000)
    for mode, shape, title in (
        ("restored", "3-hop", "rebuilt"),
        ("backfill", "two-way", "filled from tables"),
        ("backfill", "3-hop", "filled from tables"),
    ):
        for rows in sizes:
            more = {"arguments": {"shape": shape, "rows": rows}, "title": f"{shape}, {title}", "law": "rows", "x": rows}
            cells.append(cell("3-hop-all", "crown-spark-cells", mode, scale, checked=False, repeats=1, **more))
    return cells


def pipelines(scale: str) -> list[Cell]:
    """Returns a project of thirty views over twelve tables, after nights that change more and more."""
    if scale == "quick":
        return []
    lines = 2_000_000 if scale == "normal" else 10_000_000
    title = f"{lines:,} lines of orders"
    more: Cell = {"title": title, "arguments": {"lines": lines}, "checked": False, "repeats": 1, "bound_s": 3_600.0}
    return [cell("3-hop", "crown-pipelines", "pipelines", scale, **more)]


def loads(scale: str) -> list[Cell]:
    """Returns bulk loads of generated tables, at once, in ten parts and into a mapped file; in full, of 10^8 rows."""
    rows = {"quick": 40_000, "normal": 3_000_000}.get(scale, 10_000_000)
    settings: list[tuple[str, Cell]] = [
        (f"{shape}, {keys} keys", {"shape": shape, "keys": keys, "rows": rows})
        for shape in ("two-way", "3-hop", "star", "3-hop-count")
        for keys in ("uniform", "zipf")
    ]
    three = {"shape": "3-hop", "keys": "uniform", "rows": rows}
    settings += [("3-hop, in ten parts", three | {"parts": 10}), ("3-hop, into a file", three | {"file": True})]
    if scale == "full":
        large = {"shape": "two-way", "keys": "uniform", "rows": 100_000_000, "parts": 10, "file": True}
        settings.append(("two-way, 10^8 rows into a file", large))
    return [
        cell("3-hop-all", "crown-load", "load", scale, title=title, arguments=arguments, checked=False)
        for title, arguments in settings
    ]


def startup(scale: str) -> list[Cell]:
    """Returns the first impression."""
    if scale == "quick":
        return []
    return [cell("3-hop", "crown-startup", "startup", scale, checked=False)]


def triangle_speed(scale: str) -> list[Cell]:
    """Returns the triangle count in seconds: a graph stream, stored once or three times, and toggles on the hub
    wall."""
    cells = []
    for copies, stored in ((1, "one copy"), (3, "three copies")):
        more: Cell = {"options": {"prefix": 0}, "arguments": {"copies": copies}, "title": f"Triangle count, {stored}"}
        for mode in ("single", "batches"):
            cells.append(cell("triangle", "triangle-count", mode, scale, **more))
        cells.append(cell("triangle", "triangle-python", "single", scale, **more | {"repeats": 1}))
    sizes = (96, 192) if scale == "quick" else (408, 816, 1632, 3264)
    for k in sizes:
        strategies: tuple[dict[str, str], ...] = ({},)
        if k == sizes[-1]:
            strategies = (
                {"strategy": "classical"},
                {"strategy": "eps", "partition": "single"},
                {"strategy": "eps", "partition": "double"},
                {},
            )
        for options in strategies:
            label = ", ".join(options.values()) or "default"
            more = {"arguments": {"k": k} | options, "title": f"Hub wall, {label}", "checked": False}
            cells.append(cell("triangle", "triangle-count", "toggle", scale, law="N", x=3 * k * k // 32, **more))
    return cells


def triangle_slopes(scale: str) -> list[Cell]:
    """Returns operations, delay and space of triangle maintenance against N, counted. A cell is a figure."""
    quick = {"sizes": 3} if scale == "quick" else {}
    figures = [("updates", name, title) for name, (title, _, _) in UPDATES.items()]
    figures += [("epsilon", partition, f"worst case per eps, {partition} partition") for partition in PARTITIONS]
    figures += [("outputs", name, f"free variables, {UPDATES[name][0]}") for name in ("hub_wall", "light_wall", "cube")]
    figures += [("delay", "", "largest delay"), ("space", "", "state on the space wall")]
    return [
        cell(
            "triangle", "triangle-slopes", mode, scale, title=title, arguments={"instance": name} | quick, checked=False
        )
        for mode, name, title in figures
    ]


def kernels(scale: str) -> list[Cell]:
    """Returns what spends its time in kernels, to compare two ways of compiling them by turns (CONTRIBUTING.md)."""
    passes: Cell = {"repeats": 1 if scale == "quick" else 5, "checked": False}
    cells = [cell("3-hop", "crown", mode, scale, **passes) for mode in ("none", "delta")]
    cells += [cell(name, "crown-view", "delta", scale, **passes) for name in ("agg-star", "agg-tpch-q3")]
    return [*cells, cell("triangle", "triangle-count", "batches", scale, arguments={"copies": 1}, **passes)]


SECTIONS = {
    "targets": targets,
    "engines": engines,
    "workloads": workloads,
    "aggregates": aggregates,
    "motifs": motifs,
    "ordered": ordered,
    "nexmark": nexmark,
    "tpcds": tpcds,
    "native": native,
    "size": size,
    "lambda": enclosed,
    "selectivity": selectivity,
    "batches": batches,
    "memory": memory,
    "state": state,
    "cores": cores,
    "spark": operator,
    "sinks": sinks,
    "pipelines": pipelines,
    "load": loads,
    "startup": startup,
    "triangle-speed": triangle_speed,
    "triangle-slopes": triangle_slopes,
    "kernels": kernels,
}
