"""Where the time of a cell goes: seconds by kind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

_seconds: dict[str, float] = {}
_inner: list[float] = []


@contextmanager
def spent(kind: str) -> Iterator[None]:
    """Adds the seconds of a block or a function to ``kind``, without those of blocks inside it."""
    started = time.monotonic()
    _inner.append(0.0)
    try:
        yield
    finally:
        whole = time.monotonic() - started
        _seconds[kind] = _seconds.get(kind, 0.0) + whole - _inner.pop()
        if _inner:
            _inner[-1] += whole


def taken() -> dict[str, float]:
    """Returns the seconds by kind since the last call."""
    out = {kind: round(seconds, 3) for kind, seconds in _seconds.items()}
    _seconds.clear()
    return out
