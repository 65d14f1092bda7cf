"""Damage of the files of a checkpoint: torn, cut, flipped, lost, mixed up, set back."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

Damage = Callable[[random.Random, Path], str | None]


def state_files(state: Path) -> list[Path]:
    """Returns the files on which a restore depends."""
    return sorted(p for p in state.rglob("*") if p.suffix in (".delta", ".snapshot") or p.name == "meta.json")


def _one(rng: random.Random, state: Path) -> Path | None:
    found = state_files(state)
    return rng.choice(found) if found else None


def flipped_bit(rng: random.Random, state: Path) -> str | None:
    """One bit of one file."""

    def flipped(data: bytearray) -> None:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)

    return _rewritten(rng, state, flipped)


def torn(rng: random.Random, state: Path) -> str | None:
    """The end of one file is gone."""

    def cut(data: bytearray) -> None:
        del data[rng.randrange(len(data)) :]

    return _rewritten(rng, state, cut)


def zeroed(rng: random.Random, state: Path) -> str | None:
    """A block of one file is zeros, as after a crash of the machine."""

    def blanked(data: bytearray) -> None:
        at = rng.randrange(len(data))
        size = min(512, len(data) - at)
        data[at : at + size] = bytes(size)

    return _rewritten(rng, state, blanked)


def _rewritten(rng: random.Random, state: Path, change: Callable[[bytearray], None]) -> str | None:
    """Returns the file whose bytes it changed, None if there is nothing to change."""
    path = _one(rng, state)
    if path is None or not path.stat().st_size:
        return None
    before = path.read_bytes()
    after = bytearray(before)
    change(after)
    if after == before:
        return None
    path.write_bytes(after)
    return path.name


def lost(rng: random.Random, state: Path) -> str | None:
    """One file is gone."""
    path = _one(rng, state)
    if path is None:
        return None
    path.unlink()
    return path.name


def of_another_cell(rng: random.Random, state: Path) -> str | None:
    """One file is its sibling's."""
    pairs = [(p, state / str(1 - int(p.parent.name)) / p.name) for p in state_files(state) if p.name != "meta.json"]
    pairs = [(p, q) for p, q in pairs if q.exists() and p.read_bytes() != q.read_bytes()]
    if not pairs:
        return None
    path, other = rng.choice(pairs)
    shutil.copy(other, path)
    return path.name


def of_another_batch(rng: random.Random, state: Path) -> str | None:
    """One delta is that of another batch."""
    found = [p for p in state_files(state) if p.suffix == ".delta"]
    pairs = [(p, q) for p in found for q in found if p.parent == q.parent and p != q]
    if not pairs:
        return None
    path, other = rng.choice(pairs)
    shutil.copy(other, path)
    return path.name


def newest_of_all_lost(rng: random.Random, state: Path) -> str | None:
    """The newest delta of every cell is gone: nothing in the state says that there was one."""
    found = [max((p for p in cell.glob("*.delta")), key=lambda p: int(p.stem), default=None) for cell in _cells(state)]
    if not found or any(path is None for path in found):
        return None
    for path in found:
        assert path is not None
        path.unlink()
    return "newest deltas"


def everything_lost(rng: random.Random, state: Path) -> str | None:
    """The whole state is gone, Spark's checkpoint is not."""
    if not state_files(state):
        return None
    shutil.rmtree(state)
    return "the state"


def _cells(state: Path) -> list[Path]:
    return [p for p in state.iterdir() if p.is_dir()] if state.is_dir() else []


DAMAGES: dict[str, Damage] = {
    "bit flipped": flipped_bit,
    "file torn": torn,
    "block zeroed": zeroed,
    "file lost": lost,
    "file of another cell": of_another_cell,
    "file of another batch": of_another_batch,
    "newest deltas lost": newest_of_all_lost,
    "state lost": everything_lost,
}
