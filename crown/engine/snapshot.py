"""Reading a snapshot, which ``crown.engine.state.saving`` wrote: an engine, or cells, with that state.

A file is opened whole or not at all: its checksums, its plan, and that every part belongs to that plan are checked
before an engine sees any of it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from crown.engine.cells import Cells
from crown.engine.engine import Engine
from crown.engine.state.arenas import State, back, check_header, limits_of, parts_of
from crown.engine.state.saving import KIND
from crown.errors import CrownError, SnapshotError
from crown.guards.arguments import path_of, same_file
from crown.kernels import arena as A
from crown.store import words_file
from crown.store.memory import MappedFile, reserve
from crown.store.relations import stored_relations
from plans.errors import PlanError
from plans.plan import Plan
from plans.search.shares import Grid, hashable
from plans.show.explain import text

_DAMAGED = (CrownError, PlanError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What code raises that is handed a plan, or a part of one, that nobody has made."""


def load(
    path: str | os.PathLike[str],
    *,
    plan: Plan | None = None,
    state_path: str | os.PathLike[str] | None = None,
    memory_budget: int | None = None,
) -> tuple[Engine, dict[str, Any]]:
    """Returns ``load_any`` for a snapshot of one engine; SnapshotError for one of several cells."""
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
    """Returns the engine of a snapshot (or the cells of one with threads) and the ``extra`` saved with it. O(state).

    ``plan``: refuse a snapshot of any other plan. ``state_path``: keep the state in that file instead of anonymous
    memory; a file that is there is replaced once the snapshot has been read and found whole. Raises SnapshotError for a
    foreign, damaged or truncated file, and if ``state_path`` is the snapshot itself.
    """
    source = path_of(path, "path")
    where = None if state_path is None else path_of(state_path, "state_path")
    if where is not None and same_file(source, where):
        raise SnapshotError(f"state_path is the snapshot {source} itself, which it would overwrite; name another file")
    with words_file.opened(source) as file:
        return read(file, source, plan=plan, state_path=where, memory_budget=memory_budget)


def read(
    file: BufferedReader,
    path: Path,
    *,
    plan: Plan | None = None,
    state_path: Path | None = None,
    memory_budget: int | None = None,
) -> tuple[Engine | Cells, dict[str, Any]]:
    """Returns ``load_any`` for an open file; ``path`` is what messages call it."""
    header = words_file.read_header(file, path, KIND, "crown", {"plan", "on_missing", "grid", "extra"})
    saved, grid = _plan(header["plan"], plan, path), None
    if header["grid"] is not None:
        grid = _grid(header["grid"], saved, path)
    if header["on_missing"] not in ("ignore", "raise") or not isinstance(header["extra"], dict):
        raise SnapshotError(f"{path} is damaged: its options are not those of a view")
    engines, own = (1, 0) if grid is None else (grid.cells, 1)
    words: list[int] = header["words"]
    if len(words) != own + engines * parts_of(saved):
        raise SnapshotError(f"{path} is damaged: it has {len(words)} parts")
    budget, limit = limits_of(memory_budget)
    if max(words) > limit:
        raise _too_large(sum(words), path)
    with _memory(limit, words, state_path) as (arena, mapped):
        words_file.fill(file, [arena[i * limit : i * limit + n] for i, n in enumerate(words)], header["crc32"], path)
        _check_parts(np.split(arena, len(words)), words, own, saved, path)
        live = sum(int(arena[i * limit + A.H_LIVE]) for i in range(len(words)))
        if live > budget:
            raise _too_large(live, path)
        for i, n in enumerate(words):
            arena[i * limit + A.H_LIMIT] = limit if mapped is None else n
    arenas = [arena[: own * limit], *np.split(arena[own * limit :], engines)]
    try:
        if grid is None:
            state = State(saved, arenas[1], mapped, words=budget)
            return Engine(state, header["on_missing"]), header["extra"]
        return Cells.over(saved, grid, arenas[0], arenas[1:], header["on_missing"], budget), header["extra"]
    except _DAMAGED as error:
        raise SnapshotError(f"{path} holds a state that does not fit its plan: {error}") from error


def _too_large(words: int, path: Path) -> SnapshotError:
    return SnapshotError(f"{path} holds more state ({8 * words} bytes) than memory_budget allows; raise it")


@contextlib.contextmanager
def _memory(limit: int, words: Sequence[int], where: Path | None) -> Iterator[tuple[np.ndarray, MappedFile | None]]:
    """Yields an array of zeros for parts of ``limit`` words each, of which the first ``words`` will be filled.

    It is in the file ``where``, if one is given, which is replaced only if the body succeeds.
    """
    if where is None:
        yield reserve(limit * len(words)), None
        return
    if os.path.isdir(where):
        raise SnapshotError(f"cannot keep the state in {where}: this is a folder; name a file in it")
    if os.path.exists(where) and not os.path.isfile(where):
        raise SnapshotError(f"cannot keep the state in {where}: this is no file, and would be replaced; name another")
    temporary = where.with_name(f".{where.name}.{os.getpid()}.tmp")
    try:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        mapped = MappedFile.create(temporary, limit * len(words))
        back(mapped, words)
        yield mapped.words, mapped
        os.replace(temporary, where)
        mapped.path = where
    except OSError as error:
        raise SnapshotError(f"cannot keep the state in {where}: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _plan(given: Any, wanted: Plan | None, path: Path) -> Plan:
    try:
        saved = Plan.from_json(given)
        fingerprint = saved.fingerprint
        for relation in stored_relations(saved):
            table = saved.table(relation.name)
            if any(table.column(name) is None for name in relation.columns):
                raise PlanError(f"relation {table.name} lacks a column")
        text(saved)  # what a plan says of itself is in no fingerprint; if it can be shown it has the right types
    except PlanError as error:
        raise SnapshotError(f"{path} holds a plan that this version cannot read: {error.message}") from error
    except _DAMAGED as error:
        raise SnapshotError(f"{path} is damaged: its plan does not make sense") from error
    if wanted is not None and wanted.fingerprint != fingerprint:
        raise SnapshotError(
            f"{path} was taken of another query (fingerprint {fingerprint[:16]}, now {wanted.fingerprint[:16]}); "
            "start the changed query from an empty state"
        )
    return saved


def _grid(given: Any, plan: Plan, path: Path) -> Grid:
    try:
        grid = Grid.from_json(given)
        sound = (
            len(grid.attributes) == len(grid.shares) == len(set(grid.attributes))
            and set(grid.attributes) <= set(hashable(plan))
            and all(words_file.is_whole(share) and share > 0 for share in grid.shares)
        )
    except _DAMAGED:
        sound = False
    if not sound:
        raise SnapshotError(f"{path} is damaged: it does not say how its cells were cut")
    return grid


def _check_parts(parts: Sequence[np.ndarray], words: Sequence[int], own: int, plan: Plan, path: Path) -> None:
    """Checks that every part is a complete arena of this version, and the first one of each engine is of the plan."""
    for number, (part, n) in enumerate(zip(parts, words, strict=True)):
        if n <= A.H_TABLES or not A.is_arena(part) or part[A.H_TOP] != n:
            raise SnapshotError(f"{path} is not the complete state of a view of this version")
        if number >= own and (number - own) % parts_of(plan) == 0:
            check_header(part, plan, path)
