"""Snapshots: one file that holds a plan and the state of its engine.

A file of words (see ``crown.words_file``). Its header has the plan, words per part, and what the owner adds
(``extra``); its parts are those of the state (an engine's own arena, then one per bag; with cells, the shared
dictionary and then each cell's) up to their high-water marks.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from crown import words_file
from crown.cells import Cells
from crown.engine import Engine
from crown.errors import SnapshotError
from crown.kernels import arena as A
from crown.memory import MappedFile, reserve
from crown.state import back, check_header, limits_of, parts_of
from plans.errors import PlanError
from plans.plan import Plan
from plans.shares import Grid

MAGIC = b"crown snapshot 1\n"


def save(engine: Engine | Cells, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> int:
    """Write the state of a clean engine; bytes written. O(state)."""
    engine.compact()
    header = {
        "plan": engine.plan.to_json(),
        "on_missing": engine.on_missing,
        "grid": engine.grid.to_json() if isinstance(engine, Cells) else None,
        "extra": extra or {},
    }
    return words_file.write(path, MAGIC, header, [part[: int(part[A.H_TOP])] for part in engine.parts])


def load(
    path: str | os.PathLike[str],
    *,
    plan: Plan | None = None,
    state_path: str | os.PathLike[str] | None = None,
    memory_budget: int | None = None,
) -> tuple[Engine, dict[str, Any]]:
    """``load_any`` for a snapshot of one engine; SnapshotError for one of several cells."""
    engine, extra = load_any(path, plan=plan, state_path=state_path, memory_budget=memory_budget)
    if isinstance(engine, Cells):
        raise SnapshotError(f"{path} holds a view with {engine.grid.cells} threads; open it with crown.load")
    return engine, extra


def load_any(
    path: str | os.PathLike[str],
    *,
    plan: Plan | None = None,
    state_path: str | os.PathLike[str] | None = None,
    memory_budget: int | None = None,
) -> tuple[Engine | Cells, dict[str, Any]]:
    """The engine of a snapshot (or the cells of one with threads) and the ``extra`` saved with it. O(state).

    ``plan``: refuse a snapshot of any other plan. ``state_path``: keep the state in that file (overwritten) instead of
    anonymous memory. Raises SnapshotError for a foreign, damaged or truncated file.
    """
    where = None if state_path is None else Path(state_path)
    try:
        with Path(path).open("rb") as file:
            header = words_file.read_header(file, path, MAGIC, "crown", {"plan", "on_missing", "grid", "extra"})
            saved = _plan(header, plan, path)
            grid = None if header["grid"] is None else Grid.from_json(header["grid"])
            engines, own = (1, 0) if grid is None else (grid.cells, 1)
            words = [int(w) for w in header["words"]]
            if len(words) != own + engines * parts_of(saved):
                raise SnapshotError(f"{path} is damaged: it has {len(words)} parts")
            budget, limit = limits_of(memory_budget)
            if max(words) > limit:
                raise SnapshotError(
                    f"{path} holds more state ({8 * sum(words)} bytes) than memory_budget allows; raise it"
                )
            file_of = None if where is None else MappedFile.create(where, limit * len(words))
            arena = reserve(limit * len(words)) if file_of is None else file_of.words
            if file_of is not None:
                back(file_of, words)
            parts = [arena[i * limit : i * limit + n] for i, n in enumerate(words)]
            words_file.fill(file, parts, int(header["crc32"]), path)
    except OSError as error:
        raise SnapshotError(f"cannot read the snapshot {path}: {error.strerror}") from error
    arenas = [arena[: own * limit], *np.split(arena[own * limit :], engines)]
    for part in arenas[1:]:
        check_header(part[:limit], saved, Path(path))
    if file_of is not None:
        for i, n in enumerate(words):
            arena[i * limit + A.H_LIMIT] = n
    if grid is None:
        return Engine(saved, arenas[1], file_of, header["on_missing"], words=budget), header["extra"]
    return Cells.over(saved, grid, arenas[0], arenas[1:], header["on_missing"], budget), header["extra"]


def _plan(header: dict[str, Any], wanted: Plan | None, path: str | os.PathLike[str]) -> Plan:
    try:
        saved = Plan.from_json(header["plan"])
    except PlanError as error:
        raise SnapshotError(f"{path} holds a plan that this version cannot read: {error}") from error
    if wanted is not None and wanted.fingerprint != saved.fingerprint:
        raise SnapshotError(
            f"{path} was taken of another query (fingerprint {saved.fingerprint[:16]}, now {wanted.fingerprint[:16]}); "
            "start the changed query from an empty state"
        )
    return saved
