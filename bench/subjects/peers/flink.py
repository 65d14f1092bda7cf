"""Flink SQL (``apache-flink``): one job over a changelog file, parallelism 1, results into the blackhole sink.

Each relation is one file source with deletes; Flink reads it once for all aliases. Heap state, no checkpoints. Full
joins are written without DISTINCT, which they do not need; a projection keeps it.
"""

from __future__ import annotations

from typing import Any

from bench.cases.checksum import PRIME, factors
from bench.cases.workloads import Loaded
from bench.subjects.peers import foreign
from bench.subjects.subject import Progress, SkipError

MULTI_JOIN = {"table.optimizer.multi-join.enabled": "true"}
QUICK_METRICS = {"metrics.fetcher.update-interval": "500 ms"}
MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "50000",
}


def run(spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Measures a cell with Flink's binary joins."""
    return _cell(spec, progress, {})


def run_multi_join(spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Measures a cell with Flink's multi-way join operator, which stores inputs only."""
    return _cell(spec, progress, MULTI_JOIN)


def run_restart(spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Measures a cell with checkpoints: the size of the last one, and the time until a job that starts from it runs."""
    with foreign.scratch() as folder:
        return _cell(spec, progress, checkpoints(folder), restart=True)


def checkpoints(folder: str) -> dict[str, str]:
    """Returns the settings that store checkpoints of a job in a folder."""
    return {
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": f"file://{folder}",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }


def _plain(loaded: Loaded) -> str:
    """Returns the query without a DISTINCT that it does not need."""
    plan = loaded.program.plan
    full = plan is not None and all(
        set(node.attributes) <= {o.name for o in plan.output} and len(node.columns) == len(loaded.schema[node.relation])
        for node in plan.nodes
        if node.kind == "input"
    )
    return loaded.sql.replace("SELECT DISTINCT", "SELECT") if full else loaded.sql


def _cell(spec: dict[str, Any], progress: Progress, settings: dict[str, str], restart: bool = False) -> dict[str, Any]:
    def job(loaded: Loaded, purpose: str, progress: Progress) -> Any:
        if not restart and loaded.workload.kind != "ordered":
            foreign.one_join(loaded)
        python = foreign.interpreter("pyflink", "flink")
        outputs = loaded.outputs
        if any(output.type not in ("int32", "int64") for output in outputs):
            raise SkipError("its checksum is written for integer outputs only")
        sql, check = _plain(loaded), purpose == "check"
        if check:
            prime = f"CAST({PRIME} AS BIGINT)"
            terms = [
                f"MOD(COALESCE({o.name}, CAST(0 AS BIGINT)), {prime}) * CAST({f} AS BIGINT)"
                for o, f in zip(outputs, factors(len(outputs)).tolist(), strict=True)
            ]
            h = f"MOD({' + '.join(terms)}, {prime})"
            sql = f"SELECT COUNT(*), SUM(MOD(h * h, {prime})) FROM (SELECT {h} AS h FROM ({sql}) AS q) AS r"
        with foreign.scratch() as folder:
            tables = foreign.changelog(loaded.stream, folder)
            request = {
                "tables": {name: table | {"columns": loaded.schema[name]} for name, table in tables.items()},
                "sql": sql,
                "settings": settings | QUICK_METRICS | (MINI_BATCH if check else {}),
                "aggregate": check,
                "restart": restart,
                "bound_s": spec["bound_s"],
                "updates": len(loaded.stream),
                "warm": foreign.warm_rows(len(loaded.stream), spec.get("preload", 0)),
            }
            starts = 1 + (check or restart)
            limit = starts * foreign.STARTUP_S + (0 if check else spec["bound_s"])
            result, peak = foreign.converse(foreign.script(python, "flink_job.py"), request, limit, progress)
        if check:
            return result["row"]
        if result["state"] not in ("FINISHED", "RUNNING"):
            raise foreign.ForeignError(f"the job ended in state {result['state']}")
        out = foreign.fields(result["warm"], result["emitted"], len(loaded.stream), result["seconds"], peak)
        if restart:
            kept = {name: result[name] for name in ("checkpoint_bytes", "restart_s") if name in result}
            out |= {"state_peak_bytes": result.get("state_bytes"), "stats": kept}
        return out

    return foreign.cell(spec, progress, job)
