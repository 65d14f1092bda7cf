"""Pathway: the join as a chain of binary joins over its Python connector, one worker, results into the null sink.

Its queue between connector and engine is limited to one batch: without a limit the process runs out of memory.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from bench.cases.checksum import PRIME, factors
from bench.cases.workloads import Loaded
from bench.subjects.peers import foreign
from bench.subjects.subject import Progress, SkipError
from plans import Plan


def run(spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Measures a cell with Pathway."""

    def job(loaded: Loaded, purpose: str, progress: Progress) -> Any:
        plan = foreign.one_join(loaded)
        python = foreign.interpreter("pathway", "pathway")
        check = purpose == "check"
        with foreign.scratch() as folder:
            files = {}
            for number, (name, table) in enumerate(loaded.stream.tables.items()):
                here = loaded.stream.relation == number
                rows = loaded.stream.row[here]
                columns = [table.column(c).to_numpy()[rows] for c in loaded.schema[name]]
                files[name] = str(Path(folder) / f"{name}.npy")
                np.save(files[name], np.stack([*columns, loaded.stream.weight[here]], axis=1))
            request = {
                "files": files,
                "columns": {name: list(columns) for name, columns in loaded.schema.items()},
                "inputs": _inputs(plan, loaded),
                "outputs": [str(output.expr.value) for output in plan.output],
                "prime": PRIME,
                "factors": factors(len(plan.output)).tolist(),
                "batch_rows": spec["batch_rows"],
                "warm": foreign.warm_rows(len(loaded.stream)),
                "bound_s": foreign.STARTUP_S if check else spec["bound_s"],
                "check": check,
            }
            limit = foreign.STARTUP_S + request["bound_s"]
            result, peak = foreign.converse(foreign.script(python, "pathway_job.py"), request, limit, progress)
        if check:
            return result["row"]
        return foreign.fields(result["warm"], result["done"], len(loaded.stream), result["seconds"], peak)

    return foreign.cell(spec, progress, job)


def _inputs(plan: Plan, loaded: Loaded) -> list[dict[str, Any]]:
    """Returns the join's inputs as data. Raises SkipError for a query that is not supported here."""
    inputs = sorted((node for node in plan.nodes if node.kind == "input"), key=lambda node: node.name)
    attributes = {a for node in inputs for a in node.attributes}
    whole = all(len(node.columns) == len(loaded.schema[node.relation]) for node in inputs)
    if plan.residual or len(inputs) < 2 or not whole or attributes != {str(o.expr.value) for o in plan.output}:
        raise SkipError("written for full joins of integer columns only")
    out = []
    for node in inputs:
        item: dict[str, Any] = {"relation": node.relation, "columns": node.columns, "attributes": node.attributes}
        if node.predicate is not None:
            found = re.fullmatch(r"\(?(\w+) > (\d+)\)?", str(node.predicate))
            if found is None:
                raise SkipError("written for filters of the form column > constant only")
            item["above"] = [found.group(1), int(found.group(2))]
        out.append(item)
    return out
