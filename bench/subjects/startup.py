"""The first impression: how long until ``crown`` is imported, until its libraries are, and until the first ``apply``
has returned.

Each in a fresh interpreter: with the kernels compiled before, and with an empty cache, as in a new environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from bench.subjects.subject import Progress

_SCRIPT = """
import json, time
started = time.perf_counter()
import crown
imported = time.perf_counter()
crown.view
loaded = time.perf_counter()
schema = {"R": {"a": "int64", "b": "int64"}, "S": {"b": "int64", "c": "int64"}}
view = crown.view("Q(a, b, c) :- R(a, b), S(b, c).", schema)
delta = view.apply({"R": [{"a": 1, "b": 2}], "S": [{"b": 2, "c": 3}]})
assert delta.num_rows == 1
print(json.dumps([imported - started, loaded - imported, time.perf_counter() - loaded]))
"""


def run(spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Measures a cell of mode *startup*: ``import_s``; ``load_s`` (``crown.view``, which imports what it needs);
    ``first_apply_s`` (a view and its first batch, kernels cached); ``first_apply_cold_s``.
    """
    warm = min((_once({}) for _ in range(spec["repeats"] + 1)), key=sum)
    progress(1, 2)
    with tempfile.TemporaryDirectory(prefix="crown-bench-") as folder:
        cold = _once({"NUMBA_CACHE_DIR": folder})
    return {
        "status": "ok",
        "check": {"status": "not asked for"},
        "import_s": warm[0],
        "load_s": warm[1],
        "first_apply_s": warm[2],
        "first_apply_cold_s": cold[2],
    }


def _once(environment: dict[str, str]) -> list[float]:
    said = subprocess.run(
        [sys.executable, "-c", _SCRIPT], env=os.environ | environment, check=True, capture_output=True, text=True
    )
    seconds: list[float] = json.loads(said.stdout.splitlines()[-1])
    return seconds
