"""The JSON files of results, one per section, and what stands in them.

File: ``format`` (1), ``section``, ``machine`` (see ``bench.harness.machine``), ``scale`` (quick, normal, full),
``cells``.

Cell: what was asked for (``workload``, ``engine``, ``mode``, ``batch_rows``, ``options``, ``law`` and ``x`` in the
sections on scaling), and what came out:

- ``status``: ok, skipped (not installed, or not for this query), failed, timeout (stopped at its time bound), wrong
  (did not pass the check; has no time then), with ``reason`` in one line for all but ok;
- ``check``: passed / unchecked / failed against DuckDB, with the positions compared and the rows of the
  largest result;
- ``of`` updates of the stream, ``updates`` done, ``seconds`` of every repeat, ``updates_per_s`` of the fastest and
  ``updates_per_s_median``; ``deltas``, ``deltas_per_s``; ``enumerated_per_s`` in mode full;
- ``latency_ms`` of a batch (p50, p95, p99, max, first), ``series`` along the stream (position, latency_ms, rss, state,
  live rows);
- ``rss_peak`` and ``rss_before`` the run, ``state_peak_bytes``, ``bytes_per_row`` (state per live row and copy of an
  input, at the fullest; per live row of the stream where an engine does not count its inputs), ``amplification`` (rows
  touched per update), ``stats`` and ``work`` (the engine's counters at the end, and their growth over the timed part);
- in the section startup only: ``import_s``, ``load_s``, ``first_apply_s``, ``first_apply_cold_s`` (see
  ``bench.subjects.startup``).

All sizes are bytes, all times seconds unless the name says ms.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from crown.errors import CrownError

FORMAT = 1
Result = dict[str, Any]


class ResultsError(CrownError):
    """The results asked for are not there, or from another version."""


def write(folder: Path, section: str, machine: dict[str, Any], scale: str, cells: list[Result]) -> Path:
    """Write a section's file, replacing an older one in one step."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{section}.json"
    data = {"format": FORMAT, "section": section, "scale": scale, "machine": machine, "cells": cells}
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(data, indent=1))
    os.replace(temporary, path)
    return path


def read(folder: Path) -> dict[str, Result]:
    """Section -> file contents, for all sections in the folder. Raises ResultsError if there are none."""
    out = {}
    for path in sorted(folder.glob("*.json")):
        try:
            data = json.loads(path.read_text())
        except json.JSONDecodeError as error:
            raise ResultsError(f"{path} is not JSON ({error}); delete it and run its section again") from None
        if data.get("format") != FORMAT:
            raise ResultsError(f"{path} has format {data.get('format')}, this version reads {FORMAT}; run it again")
        out[data["section"]] = data
    if not out:
        raise ResultsError(f"no results in {folder}; run `crown bench run` first")
    return out
