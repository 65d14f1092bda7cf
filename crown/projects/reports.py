"""``Report``: the result of a run of a project."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Report:
    """The result of a run: its version, its seconds, the number of changes of each source and how they were found, and
    the numbers of rows inserted into and deleted from each view.

    ``quarantined``: the number of rows that are in the quarantine of a source now, if there are any.
    """

    version: int = 0
    read: dict[str, tuple[int, str]] = field(default_factory=dict)
    changed: dict[str, tuple[int, int]] = field(default_factory=dict)
    quarantined: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    def lines(self) -> Iterator[str]:
        """Yields lines for people."""
        for name, (rows, how) in self.read.items():
            yield f"source {name}  {rows} changes  {how}"
        for name, rows in self.quarantined.items():
            yield f"source {name}  {rows} {'row is' if rows == 1 else 'rows are'} in the quarantine"
        for name, (inserted, deleted) in self.changed.items():
            yield f"view {name}  +{inserted} -{deleted}{self._note(name)}"
        yield f"version {self.version} in {self.seconds:.1f} s"

    def _note(self, view: str) -> str:
        """Returns further words about a view."""
        return ""
