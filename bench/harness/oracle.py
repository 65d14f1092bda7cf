"""The expected results: DuckDB, from scratch, at checkpoints of a short stream over the same data."""

from __future__ import annotations

from typing import Any

from bench.cases import checksum
from bench.cases.workloads import WORKLOADS, load


def checked_options(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of the short stream.

    The window of a graph stream is a third of it, so that rows are inserted, deleted and inserted again.
    """
    workload = WORKLOADS[name]
    short = dict(options) | {"prefix": workload.checked} | dict(workload.check_options)
    short.pop("arrived", None)
    if workload.kind in ("graph", "comb"):
        short["window"] = max(workload.checked // 3, 1)
    if workload.kind == "lambda":
        short |= {"prefix": 0, "steps": 400, "span": 0.0002}
    return short


def expectation(name: str, data: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """Returns the ``check`` of a cell: options of the short stream; (position, rows, checksum) of its checkpoints."""
    import duckdb

    short = checked_options(name, options)
    loaded = load(name, data, short)
    total = len(loaded.stream)
    expected = []
    with duckdb.connect(":memory:") as connection:
        for share in (0.4, 0.7, 0.95):
            position = loaded.first + int((total - loaded.first) * share)
            for table, rows in loaded.stream.alive(position).items():
                connection.register(table, rows)
            ((count, total_checksum),) = connection.execute(checksum.sql(loaded.sql, loaded.outputs)).fetchall()
            expected.append([position, int(count), int(total_checksum)])
    return {"options": short, "expected": expected}
