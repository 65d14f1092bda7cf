"""Sections around the engine: Spark, pipelines, loads, startup; and kernels alone."""

from __future__ import annotations

from bench.harness.sections.cells import Cell, cell


def sinks(scale: str) -> list[Cell]:
    """Returns the Spark path end to end by the writer of the deltas: none, Spark, or the cells."""
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
    from tables, or rebuilt.
    """
    if scale == "quick":
        return []
    cells = []
    # Enough batches for Java to compile their code, or all that the graph has. Spark keeps the times of a hundred.
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
    """Returns a project of thirty views over twelve tables, after nights with more and more changes."""
    if scale == "quick":
        return []
    lines = 2_000_000 if scale == "normal" else 10_000_000
    title = f"{lines:,} lines of orders"
    more: Cell = {"title": title, "arguments": {"lines": lines}, "checked": False, "repeats": 1, "bound_s": 3_600.0}
    return [cell("3-hop", "crown-pipelines", "pipelines", scale, **more)]


def loads(scale: str) -> list[Cell]:
    """Returns bulk loads of generated tables, at once, in ten parts and into a mapped file; at full scale, of 10^8
    rows.
    """
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
    """Returns the startup of a process."""
    if scale == "quick":
        return []
    return [cell("3-hop", "crown-startup", "startup", scale, checked=False)]


def kernels(scale: str) -> list[Cell]:
    """Returns workloads that spend their time in kernels, to compare two ways of compiling them in alternation
    (CONTRIBUTING.md).
    """
    passes: Cell = {"repeats": 1 if scale == "quick" else 5, "checked": False}
    cells = [cell("3-hop", "crown", mode, scale, **passes) for mode in ("none", "delta")]
    cells += [cell(name, "crown-view", "delta", scale, **passes) for name in ("agg-star", "agg-tpch-q3")]
    return [*cells, cell("triangle", "triangle-count", "batches", scale, arguments={"copies": 1}, **passes)]
