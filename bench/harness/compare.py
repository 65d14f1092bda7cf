"""Two files of results side by side: each row faster, slower or the same, judged by the spread of its repeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.harness.results import Result, ResultsError

KEY = ("workload", "title", "engine", "mode", "batch_rows", "law", "x", "options", "arguments")


@dataclass(frozen=True)
class Row:
    """One cell in both files: updates per second of every repeat before and after, and the verdict."""

    title: str
    before: Sequence[float]
    after: Sequence[float]
    verdict: str


def compare(before: Result, after: Result) -> tuple[list[Row], int]:
    """Returns the rows that both files of a section have, in the order of the first, and how many only one has.

    Raises ResultsError if the files are of different sections or scales.
    """
    for what in ("section", "scale"):
        if before[what] != after[what]:
            raise ResultsError(
                f"the first file is of the {what} {before[what]}, the second of {after[what]}; "
                f"only results of the same {what} can be compared"
            )
    old = {_key(cell): cell for cell in before["cells"]}
    new = {_key(cell): cell for cell in after["cells"]}
    rows = []
    for key, cell in old.items():
        if key in new:
            was, now = cell.get("updates_per_s_all", []), new[key].get("updates_per_s_all", [])
            rows.append(Row(_title(cell), was, now, verdict(was, now)))
    return rows, len(old.keys() ^ new.keys())


def verdict(before: Sequence[float], after: Sequence[float]) -> str:
    """Returns *faster* if every repeat after was faster than every one before, *slower* if every one was slower,
    *same* if the two ranges meet, *unknown* where one side has fewer than two repeats.
    """
    if len(before) < 2 or len(after) < 2:
        return "unknown"
    if min(after) > max(before):
        return "faster"
    return "slower" if max(after) < min(before) else "same"


def _key(cell: dict[str, Any]) -> str:
    return repr([cell.get(name) for name in KEY])


def _title(cell: dict[str, Any]) -> str:
    at = f", {cell['law']} {cell['x']:g}" if "x" in cell else ""
    return f"{cell['title']}, {cell['engine']}, {cell['mode']}{at}"
