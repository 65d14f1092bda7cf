"""The table of bulk loads."""

from __future__ import annotations

from collections.abc import Sequence

from bench.report.style import Cell
from bench.report.tables import Table, outcome, rate, spread
from bench.report.text import quantity, size


def loads(cells: Sequence[Cell]) -> Table:
    """Returns the rows per second of every load, its memory, and the pages that it had to fetch."""
    done = [cell for cell in cells if "faults" in cell]
    return Table(
        (
            "load",
            "rows",
            "rows/s",
            "median",
            "rows per CPU second",
            "state",
            "reserved",
            "peak RSS",
            "faults",
            "outcome",
        ),
        [
            (
                cell["title"],
                f"{cell['of']:,}",
                rate(cell),
                spread(cell),
                quantity(cell["of"] / min(cell["cpu_seconds"])),
                size(cell["state_peak_bytes"]),
                size(cell["stats"]["reserved_bytes"]),
                size(cell["rss_peak"]),
                f"{cell['faults'][0]:,} and {cell['faults'][1]:,} from the disk",
                outcome(cell),
            )
            for cell in done
        ],
        [True] * len(done),
    )
