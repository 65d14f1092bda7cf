"""The process in which one cell is measured: ``python -m bench.harness.cell`` with the cell's JSON on standard input.

Writes JSON lines: ``{"progress": [done, of]}`` now and then, ``{"result": {...}}`` at the end. A separate process gives
every cell its own peak memory and lets the parent stop a cell that does not return.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import nullcontext
from typing import Any, TextIO

from bench.harness.machine import one_core
from bench.harness.measure import bytes_per_tuple, measure
from bench.subjects.catalogue import ENGINES


class _Progress:
    """Writes at most five progress lines a second."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last = 0.0

    def __call__(self, done: int, of: int) -> None:
        now = time.monotonic()
        if now - self._last > 0.2:
            self._last = now
            print(json.dumps({"progress": [done, of]}), file=self._stream, flush=True)


def run(spec: dict[str, Any], stream: TextIO) -> dict[str, Any]:
    """Measures the cell; writes progress to ``stream``. With ``one_core`` in the cell, stays on one core."""
    entry = ENGINES[spec["engine"]]
    progress = _Progress(stream)
    if entry.job:
        result: dict[str, Any] = entry.load()(spec, progress)
    else:
        with one_core() if spec.get("one_core") else nullcontext():
            result = measure(
                spec, lambda loaded: entry.subject(loaded, spec["mode"], **spec.get("arguments", {})), progress
            )
    return result | {"bytes_per_tuple": bytes_per_tuple(result)}


def main() -> int:
    """Reads the cell, measures it, and writes the result."""
    spec = json.load(sys.stdin)
    results = sys.stdout
    sys.stdout = sys.stderr  # output of an engine is not a result
    result = run(spec, results)
    print(json.dumps({"result": result}), file=results, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
