"""Writing a snapshot of a program: one file that holds the program and the state of all its parts.

A file of words (see ``crown.store.words_file``). Its header has the program, what deletes of absent rows do, with
several threads their number and by what the joins are ``cut`` for them, and what the owner adds (``extra``); its parts
are those of the memory, up to their high-water marks. ``crown.programs.snapshot`` reads it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crown.guards.arguments import path_of
from crown.kernels.arena import H_TOP
from crown.store import words_file
from plans.program import Program

KIND = b"crown program"


def write(
    path: str | os.PathLike[str],
    program: Program,
    on_missing: str,
    cut: Mapping[str, Any],
    extra: dict[str, Any] | None,
    parts: Sequence[np.ndarray],
) -> int:
    """Writes a state between two batches. Returns the bytes written. O(state).

    Raises SnapshotError if it cannot be written.
    """
    header = {"program": program.to_json(), "on_missing": on_missing, **cut, "extra": extra or {}}
    return words_file.write(path_of(path, "path"), KIND, header, [part[: int(part[H_TOP])] for part in parts])
