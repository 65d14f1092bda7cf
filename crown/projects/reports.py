"""``Report``: what a run of a project did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Report:
    """What a run did: its version, its seconds, the changes of each source with how they were found, and of each view
    how many rows were inserted and deleted."""

    version: int = 0
    read: dict[str, tuple[int, str]] = field(default_factory=dict)
    changed: dict[str, tuple[int, int]] = field(default_factory=dict)
    seconds: float = 0.0

    def lines(self) -> Iterator[str]:
        """Yields lines for people."""
        for name, (rows, how) in self.read.items():
            yield f"source {name}  {rows} changes  {how}"
        for name, (inserted, deleted) in self.changed.items():
            yield f"view {name}  +{inserted} -{deleted}{self._beside(name)}"
        yield f"version {self.version} in {self.seconds:.1f} s"

    def _beside(self, view: str) -> str:
        """Returns what else is to be said of a view."""
        return ""
