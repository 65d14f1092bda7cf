"""Native engines: differential dataflow, with binary joins and with delta queries, in the Rust crate ``bench/peers``,
and dbsp, the engine of Feldera, in ``bench/peers/dbsp``.

``make bench-peers`` builds them where cargo is found. Each workload is written there by hand, in the order of joins
that is best for it, over 32-bit integers. Every delta comes to a callback (differential dataflow) or is read from the
output of a step (dbsp), in one process and one worker.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from bench.cases.streams import Stream
from bench.cases.workloads import Loaded
from bench.subjects.peers import foreign
from bench.subjects.subject import Progress, SkipError

_CRATES = Path(__file__).resolve().parents[2] / "peers"
DIFFERENTIAL = _CRATES / "target" / "release" / "crown-bench-peers"
DBSP = _CRATES / "dbsp" / "target" / "release" / "crown-bench-dbsp"
_JOINS = ("3-hop", "4-hop", "4-hop-jp", "2-comb", "triangle", "4-cycle")
_COUNTS = ("agg-star", "agg-3-hop", "agg-3-hop-by")
WRITTEN = {"dd": _JOINS + _COUNTS, "dd-delta": ("3-hop", "4-hop"), "dbsp": _JOINS + _COUNTS}
"""The workloads that the crates have, by subject."""


def run_dd(spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Measures a cell with differential dataflow's binary joins."""
    return _cell(spec, progress, "dd")


def run_dd_delta(spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Measures a cell with differential dataflow's delta queries, which keep no intermediate results."""
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
            path = Path(folder) / "updates"
            _write(loaded.stream, path)
            found = re.search(r"> (\d+)", loaded.sql)
            request = {
                "engine": engine,
                "workload": loaded.workload.name,
                "path": str(path),
                "batch_rows": spec["batch_rows"],
                "threshold": int(found.group(1)) if found else 0,
                "warm": foreign.warm_rows(loaded),
                "bound_s": spec["bound_s"],
                "check": check,
            }
            limit = foreign.STARTUP_S + spec["bound_s"]
            result, peak = foreign.converse([str(binary)], request, limit, progress)
        if check:
            return [result["count"], result["checksum"]]
        out = foreign.fields(result["warm"], result["emitted"], len(loaded.stream), result["seconds"], peak)
        return out | {"deltas": result["deltas"], "deltas_per_s": result["deltas"] / result["seconds"]}

    return foreign.cell(spec, progress, job)


def _write(stream: Stream, path: Path) -> None:
    """Writes the stream as rows of four 32-bit words: relation, two values and a weight.

    Raises SkipError for values that do not fit.
    """
    words = np.zeros((len(stream), 4), np.int32)
    words[:, 0], words[:, 3] = stream.relation, stream.weight
    for number, table in enumerate(stream.tables.values()):
        here = stream.relation == number
        for place, column in enumerate(table.columns):
            values = column.to_numpy()[stream.row[here]]
            if place > 1 or values.min(initial=0) < 0 or values.max(initial=0) >= 2**31:
                raise SkipError("written for two columns of integers from 0 to 2^31 - 1")
            words[here, 1 + place] = values
    path.write_bytes(words.tobytes())
