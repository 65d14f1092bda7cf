"""Startup: the time until ``crown`` is imported, until its libraries are, and until the first ``apply`` has returned;
and the memory of a process that does nothing else.

Each is measured in a fresh interpreter: with compiled kernels, and with an empty cache, as in a new environment.
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


_RESIDENT = """
import json
import crown
from bench.subjects.resident import peak_rss, rss
crown.view
import numpy as np
import pyarrow as pa
from crown.ingest.tables.given import integers
loaded = rss()
sql = "SELECT DISTINCT x.a, x.b, y.b AS c, z.b AS d FROM g x, g y, g z WHERE x.b = y.a AND y.b = z.a AND z.b > 50000"
view = crown.view(sql, {"g": {"a": "int64", "b": "int64"}})
rng = np.random.default_rng(7)
for _ in range(20):
    columns = [integers(rng.integers(0, 75_000, 10_000), pa.int64()) for _ in "ab"]
    view.apply({"g": pa.Table.from_arrays(columns, names=["a", "b"])})
print(json.dumps([loaded, peak_rss(), view.stats()["live_bytes"]]))
"""


def run(spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Measures a cell of mode *startup*: ``import_s``; ``load_s`` (``crown.view``, which imports its dependencies);
    ``first_apply_s`` (a view and its first batch, kernels cached); ``first_apply_cold_s``.

    Bytes of memory: ``loaded_bytes`` after these imports; ``resident_bytes``, the peak until a 3-hop has had 20 batches
    of 10,000 random edges; ``state_bytes``, its state then.
    """
    warm = min((_once(_SCRIPT, {}) for _ in range(spec["repeats"] + 1)), key=sum)
    loaded, resident, state = _once(_RESIDENT, {})
    progress(1, 2)
    with tempfile.TemporaryDirectory(prefix="crown-bench-") as folder:
        cold = _once(_SCRIPT, {"CROWN_CACHE_DIR": folder})
    return {
        "status": "ok",
        "check": {"status": "not asked for"},
        "import_s": warm[0],
        "load_s": warm[1],
        "first_apply_s": warm[2],
        "first_apply_cold_s": cold[2],
        "loaded_bytes": loaded,
        "resident_bytes": resident,
        "state_bytes": state,
    }


def _once(script: str, environment: dict[str, str]) -> list[float]:
    said = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | environment, check=True, capture_output=True, text=True
    )
    seconds: list[float] = json.loads(said.stdout.splitlines()[-1])
    return seconds
