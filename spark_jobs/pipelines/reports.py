"""What a pipeline tells: how each view is kept, and what a run did."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Step:
    """How a view is kept: ``incremental``, or ``full`` with the reason; and what it reads."""

    name: str
    how: str
    why: str
    reads: tuple[str, ...]


@dataclass
class Report:
    """What a run did: its version, and rows by source and by view."""

    version: int
    read: dict[str, tuple[int, str]] = field(default_factory=dict)
    changed: dict[str, tuple[int, int]] = field(default_factory=dict)
    seconds: float = 0.0
