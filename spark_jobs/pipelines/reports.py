"""What a pipeline tells: how each view is kept, and what a run did."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
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
    """What a run did: its version, rows by source and by view, and its seconds, in all and by phase.

    ``computed``: the seconds that Spark took for each view that cannot be maintained.
    """

    version: int = 0
    read: dict[str, tuple[int, str]] = field(default_factory=dict)
    changed: dict[str, tuple[int, int]] = field(default_factory=dict)
    seconds: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)
    computed: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Adds the seconds of a ``with`` statement to a phase."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + time.monotonic() - begun
