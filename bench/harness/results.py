"""The JSON files of results, one per section, and their contents.

File: ``format`` (2), ``section``, ``machine`` (see ``bench.harness.machine``), ``scale`` (quick, normal, full),
``cells``.

Cell: the request (``workload``, ``engine``, ``mode``, ``batch_rows``, ``options``, ``law`` and ``x`` in the sections on
scaling), and the result:

- ``status``: ok, skipped (not installed, or not for this query), failed, timeout (stopped at its time bound), wrong
  (did not pass the check; has no time then), with ``reason`` in one line for all but ok;
- ``check``: passed / unchecked / failed against DuckDB, with the positions compared and the rows of the largest result;
- ``warm_up_updates`` applied before, by an engine that is discarded; ``of`` updates that are to be counted, ``updates``
  done;
- ``seconds`` and ``updates_per_s_all`` of every repeat, ``updates_per_s`` of the fastest, ``updates_per_s_median``;
  ``deltas``, ``deltas_per_s``; ``enumerated``, ``enumerated_per_s`` in mode full;
- ``results`` of the query at the end and ``count_s`` to count them, in mode count;
- ``curves`` of the section triangle-slopes: label -> ``points`` (N, value) and their ``slope`` in logarithms;
- ``latency_ms`` of a batch (p50, p95, p99, max, first), ``series`` along the stream (position, latency_ms, rss, state,
  live rows);
- ``rss_peak`` and ``rss_before`` the run, ``state_peak_bytes``, ``live_tuples`` at that moment and ``bytes_per_tuple``,
  their quotient (see ``bench.harness.measure``), ``amplification`` (rows touched per update), ``stats`` and ``work``
  (the engine's counters at the end, and their growth over the timed part);
- ``spent_s``, seconds of the whole cell by kind: ``load`` of the stream and ``expect``, DuckDB's results, once for all
  cells over a stream and told with the first; ``check``; ``warm_up``; ``timed``, the passes with what is not counted in
  ``seconds``: tables that are loaded first, samples, the start of another process; ``process``, everything else;
- in the section spark: ``snapshot_bytes`` of a cell; for a rebuilt cell the number of batches ``replayed``, and
  ``batch_ms`` of a small batch after that;
- in the section pipelines only: ``first`` and ``nights``, seconds by engine (see ``bench.subjects.pipelines``);
- in the section startup only: ``import_s``, ``load_s``, ``first_apply_s``, ``first_apply_cold_s``, ``loaded_bytes``,
  ``resident_bytes``, ``state_bytes`` (see ``bench.subjects.startup``).

All sizes are bytes, all times seconds unless the name says ms.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from crown.errors import CrownError

FORMAT = 2
KEY = ("workload", "title", "engine", "mode", "batch_rows", "law", "x", "options", "arguments")
Result = dict[str, Any]


class ResultsError(CrownError):
    """The requested results do not exist, or are of another version."""


def key(cell: Result) -> str:
    """Returns the key of a cell. Cells of two runs with equal keys measure the same."""
    return repr([cell.get(name) for name in KEY])


def write(folder: Path, section: str, machine: dict[str, Any], scale: str, cells: list[Result]) -> Path:
    """Writes a section's file atomically, replacing an older one."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{section}.json"
    data = {"format": FORMAT, "section": section, "scale": scale, "machine": machine, "cells": cells}
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(data, indent=1) + "\n")
    os.replace(temporary, path)
    return path


def read_file(path: Path) -> Result:
    """Returns the contents of one file. Raises ResultsError if it does not exist, or is not a file of results of this
    version.
    """
    try:
        data: Result = json.loads(path.read_text())
    except OSError:
        raise ResultsError(
            f"{path}: there is no such file; give a file of results that `crown bench run` wrote"
        ) from None
    except json.JSONDecodeError as error:
        raise ResultsError(f"{path} is not JSON ({error}); delete it and run its section again") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        found = data.get("format") if isinstance(data, dict) else None
        raise ResultsError(f"{path} has format {found}, this version reads {FORMAT}; run its section again")
    return data


def read(folder: Path) -> dict[str, Result]:
    """Returns section -> file contents, for all sections in the folder. Raises ResultsError if there are none."""
    out = {}
    for path in sorted(folder.glob("*.json")):
        data = read_file(path)
        out[data["section"]] = data
    if not out:
        raise ResultsError(f"no results in {folder}; run `crown bench run` first")
    return out
