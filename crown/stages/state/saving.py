"""Writes a snapshot of a program: one file with the program and the state of its parts.

The file is a file of words (see ``crown.store.words_file``). Its header has the program, the option for missing
deletes, whether rows that no stage reads are left out, the number of threads, the grids of the stages (``grids``), how
relations are dealt to cells of the whole program (``dealt``), and the fields of the owner (``extra``). Its parts are
those of the memory, up to their high-water marks. ``crown.programs.snapshot`` reads it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crown.kernels.memory.arena import H_TOP
from crown.store import words_file
from plans.program import Program
from plans.search.cells.shares import grids_of

KIND = b"crown snapshot"


def write(
    path: str | os.PathLike[str],
    program: Program,
    on_missing: str,
    selecting: bool,
    threads: int,
    extra: dict[str, Any] | None,
    parts: Sequence[np.ndarray],
    dealt: Mapping[str, str] | None = None,
) -> int:
    """Writes a state between two batches. Returns the bytes written. O(state). ``dealt``: how relations are dealt to
    cells of the whole program, one per thread.

    Raises SnapshotError if the file cannot be written.
    """
    grids = [grid.to_json() for grid in grids_of(program, threads if dealt is None else 1)]
    header = {"program": program.to_json(), "on_missing": on_missing, "selecting": selecting}
    header |= {
        "threads": threads,
        "grids": grids,
        "dealt": dealt,
        "extra": extra or {},
    }
    return words_file.write(path, KIND, header, [part[: int(part[H_TOP])] for part in parts])
