"""Reports of a pipeline: how each view is updated, and the result of a run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from typing_extensions import override

from crown.projects.reports import Report as Basic
from plans.search.cells.groups import Groups


@dataclass(frozen=True)
class Step:
    """How a view is updated: ``incremental``, or ``full`` with the reason; and what it reads."""

    name: str
    how: str
    why: str
    reads: tuple[str, ...]


def group_lines(found: Groups) -> Iterator[str]:
    """Yields lines for people: the views that share cells, how their rows are sent there, and how many."""
    for number, group in enumerate(found.groups, 1):
        merged = f"; merged by another operator: {', '.join(group.merged)}" if group.merged else ""
        cells = "one cell" if group.cells == 1 else f"{group.cells} cells"
        yield f"group {number}, {cells}: {', '.join(group.results)}{merged}"
        if group.cells == 1:
            yield "  they cannot be cut so that a cell gets clearly fewer rows than there are"
            continue
        ways = [
            f"{name} by {', '.join(by).replace('*', 'any column')}" if by else f"all of {name} to every cell"
            for name, found in group.ways.items()
            for by in sorted(found, reverse=True)
        ]
        yield f"  {'; '.join(ways)}"
        part = group.rows / group.arriving if group.arriving else 0.0
        yield (
            f"  a cell gets {_count(group.rows)} of {_count(group.arriving)} rows ({part:.0%}) if their values are "
            f"even, all cells {_count(group.sent)}"
        )
    so = "jobs of maintain() on several hosts would have less to do" if found.pays else "one process is as good"
    yield (
        f"a host with a cell of each group gets {_count(found.rows)} rows, the single process of a pipeline "
        f"{_count(found.arriving)}: {so}"
    )


def _count(rows: float) -> str:
    """Returns a number of rows as text. A fraction of a row is not shown as 0."""
    return f"{rows:,.0f}" if rows >= 10 else f"{rows:.2g}"


@dataclass
class Report(Basic):
    """The result of a run, and its seconds by phase.

    ``computed``: the seconds that Spark took for each view that it computes; ``begun``: views that begin with this
    version, so ``changed`` has all of their rows.
    """

    phases: dict[str, float] = field(default_factory=dict)
    computed: dict[str, float] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Adds the seconds of a ``with`` statement to a phase."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + time.monotonic() - begun

    @override
    def _note(self, view: str) -> str:
        seconds = self.computed.get(view)
        return "" if seconds is None else f"  Spark, {seconds:.1f} s"
