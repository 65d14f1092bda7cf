"""Cells: the settings of a measurement, with the defaults of its engine and its scale.

quick: seconds, for tests. normal: minutes, everything that matters. full: the long tail (10^7 rows, whole streams).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.subjects.catalogue import ENGINES

Cell = dict[str, Any]
SCALES = ("quick", "normal", "full")
_SMALL = {"vertices": 1_000, "edges": 6_000, "persons": 100, "events": 2_000}
RECOMPUTE: Cell = {"bound_s": 2.0, "repeats": 1, "checked": False}
SHORT: Cell = {"bound_s": 3.0, "repeat_budget_s": 3.0}
COLUMNS: Cell = {"arguments": {"columns": True}}


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
        "repeat_budget_s": {"quick": 3.0, "normal": 4.0, "full": 60.0}[scale],
        "checked": True,
    }
    out |= more
    if scale == "quick":
        out["options"] = _SMALL | out["options"]
        out |= {"batch_rows": min(out["batch_rows"], 2_000), "warm_rows": 2_000}
    if scale == "full" and "prefix" not in out["options"] and workload not in ("star", "3-hop-all"):
        out["options"] = out["options"] | {"prefix": 0}
    return out


def beside(names: Sequence[str], sizes: Sequence[int], scale: str, ours: Cell, theirs: Cell) -> list[Cell]:
    """Returns queries through the public view, beside DuckDB's recompute, in batches of each of these sizes."""
    cells = []
    for rows in sizes:
        at: Cell = {"batch_rows": rows, "law": "batch", "x": rows}
        for name in names:
            cells.append(cell(name, "crown-view", "delta", scale, **at, **ours))
            cells.append(cell(name, "duckdb-recompute", "delta", scale, **at, **theirs))
    return cells
