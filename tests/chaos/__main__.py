"""``python -m tests.chaos``: the campaign for some time, and what it injected, as a page of docs."""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos import cells, jobs

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"


def main() -> int:
    """Runs the campaign; returns 1 at the first fault that was not survived or refused."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--seconds", type=float, default=120.0, help="for faults of the commit protocol")
    parser.add_argument("--kills", type=int, default=0, help="SIGKILLs of processes of jobs on Spark")
    parser.add_argument("--kill-seconds", type=float, default=math.inf, help="kill no longer than that")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="write the table to docs/faults.md")
    given = parser.parse_args()
    tally, streams, ends = cells.Tally(), 0, time.monotonic() + given.seconds
    while time.monotonic() < ends:
        seed = given.seed + streams
        with tempfile.TemporaryDirectory() as folder:
            try:
                tally.add(cells.Campaign(Path(folder), seed).run())
            except AssertionError as error:
                print(f"seed {seed}: {error}", file=sys.stderr)
                return 1
        streams += 1
    lines = table(tally)
    killed = None
    if given.kills:
        with tempfile.TemporaryDirectory() as folder:
            killed = jobs.campaign(Path(folder), given.kills, given.seed, given.kill_seconds)
        each = ", ".join(f"{n} x {kind}" for kind, n in sorted(killed.items()))
        lines += [
            "",
            f"{sum(killed.values())} processes of a job on Spark were killed ({each}), and the job was started again "
            "until its end. Its output was equal to a recompute.",
        ]
    head = (
        f"{streams} streams of {cells.BATCHES} batches in two cells, every other with its state behind an object store:"
    )
    text = "\n".join([head, "", *lines]) + "\n"
    print(text)
    if given.write:
        page = PAGE.read_text()
        PAGE.write_text(f"{page[: page.index(MARK) + len(MARK)]}\n\n{text}")
    return 0


MARK = "<!-- written by python -m tests.chaos --write -->"


def table(tally: cells.Tally) -> list[str]:
    """Returns the counts as a table in markdown."""
    rows = ["| fault | injected | survived | refused |", "|---|---:|---:|---:|"]
    for kind in cells.FAULTS:
        rows.append(f"| {kind} | {tally.injected[kind]} | {tally.survived[kind]} | {tally.refused[kind]} |")
    total = [sum(each.values()) for each in (tally.injected, tally.survived, tally.refused)]
    return [*rows, f"| **all** | {total[0]} | {total[1]} | {total[2]} |"]


if __name__ == "__main__":
    sys.exit(main())
