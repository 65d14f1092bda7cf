"""A Pathway pipeline, run by a Python that has ``pathway``, which need not be the one that has this project.

Reads a JSON specification on standard input: ``files`` of updates, the join as a list of ``inputs`` with their
attributes, ``outputs``, ``bound_s``; with ``check`` it returns count and checksum of the final result. Writes JSON
lines like ``bench.harness.cell``. Time counts from the end of the batch with update ``warm``; everything before is
warm-up. One worker, Pathway's default.
"""

from __future__ import annotations

import json
import os
import sys
from time import time as now
from typing import Any


def main() -> int:
    """Runs the pipeline that standard input describes."""
    spec = json.load(sys.stdin)
    out, sys.stdout = sys.stdout, sys.stderr

    def say(**message: Any) -> None:
        print(json.dumps(message), file=out, flush=True)

    import numpy as np
    import pathway as pw

    updates = {name: np.load(path) for name, path in spec["files"].items()}
    total = sum(len(rows) for rows in updates.values())
    started, warm = [now()], [0]

    class Source(pw.io.python.ConnectorSubject):
        def __init__(self, name: str, columns: list[str]) -> None:
            super().__init__()
            self.rows, self.columns = updates[name], columns

        def run(self) -> None:
            for at, row in enumerate(self.rows.tolist()):
                values = dict(zip(self.columns, row, strict=False))
                if row[-1] > 0:
                    self.next(**values)
                else:
                    self.delete(**values)
                if (at + 1) % spec["batch_rows"] == 0:
                    self.commit()

    tables = {}
    for name, columns in spec["columns"].items():
        definitions = {c: pw.column_definition(primary_key=True, dtype=int) for c in columns}
        tables[name] = pw.io.python.read(
            Source(name, columns),
            schema=pw.schema_builder(definitions),
            autocommit_duration_ms=None,
            max_backlog_size=spec["batch_rows"],  # without a limit its queues run out of memory
        )
    joined, bound = None, []
    for item in spec["inputs"]:
        table = tables[item["relation"]]
        if item.get("above"):
            column, constant = item["above"]
            table = table.filter(table[column] > constant)
        table = table.select(**{f"{a}": table[c] for a, c in zip(item["attributes"], item["columns"], strict=True)})
        if joined is None:
            joined, bound = table, list(item["attributes"])
            continue
        shared = [a for a in item["attributes"] if a in bound]
        fresh = [a for a in item["attributes"] if a not in bound]
        conditions = [joined[a] == table[a] for a in shared]
        joined = joined.join(table, *conditions).select(**{a: joined[a] for a in bound}, **{a: table[a] for a in fresh})
        bound += fresh
    assert joined is not None
    state = {"deltas": 0, "count": 0, "sum": 0}
    prime, factors = spec["prime"], spec["factors"]

    def on_change(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        sign = 1 if is_addition else -1
        h = sum((row[a] % prime) * f for a, f in zip(spec["outputs"], factors, strict=True)) % prime
        state["count"] += sign
        state["sum"] += sign * (h * h % prime)

    done = [0]

    def progress(time: int) -> None:
        done[0] = min(done[0] + spec["batch_rows"], total)
        say(progress=[done[0], total])
        if not warm[0] and done[0] >= spec["warm"]:
            started[0], warm[0] = now(), done[0]
        if now() - started[0] > spec["bound_s"]:
            finish(done[0])

    def finish(reached: int) -> None:
        row = [state["count"], state["sum"]]
        say(result={"seconds": now() - started[0], "done": reached, "warm": warm[0], "row": row})
        out.flush()
        os._exit(0)

    if spec["check"]:
        pw.io.subscribe(joined, on_change=on_change)
    else:
        pw.io.null.write(joined)
        largest = max(updates, key=lambda name: len(updates[name]))
        probe = tables[largest].reduce(n=pw.reducers.count())
        pw.io.subscribe(probe, on_change=lambda **_: None, on_time_end=progress)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    finish(total)
    return 0


if __name__ == "__main__":
    sys.exit(main())
