"""Native engines: differential dataflow, with binary joins and with delta queries, in the Rust crate ``bench/peers``,
and dbsp, the engine of Feldera, in ``bench/peers/dbsp``.

``make bench-peers`` builds them if cargo is installed. Each workload is written there by hand, in the order of joins
that is best for it, over integers: texts are passed as numbers, decimals as their digits. Every delta is passed to a
callback (differential dataflow) or read from the output of a step (dbsp), in one process, one worker, on one core.
"""

from __future__ import annotations

import re
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.cases.integers import Codes
from bench.cases.recursion import RECURSIONS
from bench.cases.workloads import Loaded
from bench.subjects.peers import foreign
from bench.subjects.subject import Progress, SkipError

_CRATES = Path(__file__).resolve().parents[2] / "peers"
DIFFERENTIAL = _CRATES / "target" / "release" / "crown-bench-peers"
DBSP = _CRATES / "dbsp" / "target" / "release" / "crown-bench-dbsp"
_JOINS = ("3-hop", "4-hop", "4-hop-jp", "2-comb", "triangle", "4-cycle")
_COUNTS = ("agg-star", "agg-3-hop", "agg-3-hop-by", "agg-triangle")
_TABLES = ("agg-tpch-q3", "agg-tpch-q5", "agg-tpch-q10", "snb-q4")
_ORDERED = ("ord-lag", "ord-running", "ord-top", "ord-asof")
_ALL = _JOINS + _COUNTS + _TABLES
_RECURSIONS = tuple(RECURSIONS)
WRITTEN = {
    "dd": _ALL + _RECURSIONS,
    "dd-delta": ("3-hop", "4-hop", "triangle", "agg-triangle"),
    "dbsp": _ALL + _ORDERED + _RECURSIONS,
}
"""The workloads that the crates implement, by subject."""
_SMALL = 2**31
_CHECKS = 3  # all of ``bench.harness.oracle``, because these processes start quickly


def run_dd(spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Measures a cell with differential dataflow's binary joins."""
    return _cell(spec, progress, "dd")


def run_dd_delta(spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Measures a cell with differential dataflow's delta queries, which store no intermediate results."""
    return _cell(spec, progress, "dd-delta")


def run_dbsp(spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Measures a cell with dbsp's circuits."""
    return _cell(spec, progress, "dbsp")


def _cell(spec: dict[str, Any], progress: Progress, engine: str) -> dict[str, Any]:
    name, binary = ("dbsp", DBSP) if engine == "dbsp" else ("differential dataflow", DIFFERENTIAL)

    def job(loaded: Loaded, purpose: str, progress: Progress) -> Any:
        if loaded.workload.name not in WRITTEN[engine]:
            raise SkipError(f"no dataflow is written for {loaded.workload.title}")
        if not binary.exists():
            raise SkipError(f"{name} is not built (make bench-peers, which needs cargo)")
        check = purpose == "check"
        with foreign.scratch() as folder:
            path = Path(folder) / "stream"
            tables, literals = write(loaded, path)
            found = re.search(r"[<>] (\d+)", loaded.sql)
            first = 0 if check else spec.get("preload", loaded.first)
            request = {
                "engine": engine,
                "workload": loaded.workload.name,
                "path": str(path),
                "tables": tables,
                "literals": literals,
                "threshold": int(found.group(1)) if found else 0,
                "batch_rows": spec["batch_rows"],
                "first": first,
                "warm": foreign.warm_rows(len(loaded.stream), first),
                "bound_s": spec["bound_s"],
                "check": check,
            }
            limit = foreign.STARTUP_S + spec["bound_s"]
            runs: list[dict[str, Any]] = []
            while not runs or (not check and _again(spec, runs, len(loaded.stream))):
                runs.append(foreign.converse([str(binary)], request, limit, progress, one_core=True)[0])
        if check:
            return [runs[0]["count"], runs[0]["checksum"]]
        return _measured(runs, len(loaded.stream), request["warm"])

    return foreign.cell(spec, progress, job, checks=_CHECKS)


def _again(spec: dict[str, Any], runs: list[dict[str, Any]], of: int) -> bool:
    """Returns True if there is another run, by the rule of ``bench.harness.measure`` for this engine."""
    spent = sum(run["seconds"] for run in runs)
    room: bool = spent * (len(runs) + 1) / len(runs) <= spec.get("repeat_budget_s", 30.0)
    complete: bool = runs[-1]["emitted"] == of
    return len(runs) < int(spec.get("repeats", 1)) and room and complete


def _measured(runs: list[dict[str, Any]], of: int, asked: int) -> dict[str, Any]:
    """Returns the fields of a result: those of the fastest run, and the spread over all runs. ``asked``: the number of
    warm-up updates.
    """
    best = min(runs, key=lambda run: run["seconds"])
    peak = max(run["rss_peak"] for run in runs)
    warm = best["warm"] if best["emitted"] >= asked else best["emitted"]
    out = foreign.fields(warm, best["emitted"], of, best["seconds"], peak)
    rates = [(run["emitted"] - run["warm"]) / run["seconds"] for run in runs]
    return out | {
        "repeats": len(runs),
        "seconds": [round(run["seconds"], 4) for run in runs],
        "updates_per_s_median": statistics.median(rates),
        "updates_per_s_all": [round(rate, 1) for rate in rates],
        "deltas": best["deltas"],
        "deltas_per_s": best["deltas"] / best["seconds"],
        "rss_before": runs[0]["rss_before"],
    }


def write(loaded: Loaded, path: Path) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Writes the stream in the format of ``bench/peers/src/stream.rs``: the rows of every table, then the updates.

    Returns the tables (name, columns, number of rows), and the texts and dates that the query names, as values. Raises
    SkipError for integers that do not fit the dataflow's type.
    """
    stream, codes = loaded.stream, Codes()
    narrow = loaded.workload.kind != "snb"
    shapes = []
    with path.open("wb") as file:
        for name, table in stream.tables.items():
            columns = [codes.values(column.combine_chunks()) for column in table.columns]
            for column, values in zip(table.columns, columns, strict=True):
                if narrow and pa.types.is_integer(column.type) and not _fits(values):
                    raise SkipError(f"written for integers from 0 to {_SMALL - 1}; {name} has others")
            file.write(np.column_stack(columns).tobytes())
            shapes.append({"name": name, "columns": table.column_names, "rows": table.num_rows})
        updates = np.empty(len(stream), [("row", "<u4"), ("table", "<u2"), ("weight", "<i2")])
        updates["row"], updates["table"], updates["weight"] = stream.row, stream.relation, stream.weight
        file.write(updates.tobytes())
    return shapes, codes.literals(loaded.sql)


def _fits(values: np.ndarray) -> bool:
    return bool(values.min(initial=0) >= 0 and values.max(initial=0) < _SMALL)
