"""Compares files of results: each row is faster, slower or the same, judged by the spread of its repeats.

The speed of a machine varies during the day. To exclude these variations, two versions run in alternation, in rounds:
before, after, before, after. A row has a verdict if every round has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.harness.results import Result, ResultsError, key


@dataclass(frozen=True)
class Row:
    """One cell on both sides: updates per second of every repeat before and after, over all rounds, and the verdict."""

    title: str
    before: Sequence[float]
    after: Sequence[float]
    verdict: str


Round = tuple[Sequence[float], Sequence[float]]
"""The updates per second of the repeats of a cell, before and after."""


def compare(rounds: Sequence[tuple[Result, Result]]) -> tuple[list[Row], int]:
    """Returns the rows that all files of a section have, in the order of the first, and the number of the others.

    ``rounds``: the files before and after, of each round. Raises ResultsError if the files are of different sections or
    scales.
    """
    files = [file for one in rounds for file in one]
    for what in ("section", "scale"):
        for file in files:
            if file[what] != files[0][what]:
                raise ResultsError(
                    f"the first file is of the {what} {files[0][what]}, another of {file[what]}; "
                    f"only results of the same {what} can be compared"
                )
    found = [({key(c): c for c in old["cells"]}, {key(c): c for c in new["cells"]}) for old, new in rounds]
    everywhere = set.intersection(*(set(cells) for one in found for cells in one))
    rows = []
    for row, cell in found[0][0].items():
        if row in everywhere:
            rates = [(_rates(old[row]), _rates(new[row])) for old, new in found]
            before, after = ([rate for one in rates for rate in one[side]] for side in (0, 1))
            rows.append(Row(_title(cell), before, after, agreed(rates)))
    return rows, len(set.union(*(set(cells) for one in found for cells in one)) - everywhere)


def agreed(rounds: Sequence[Round]) -> str:
    """Returns the verdict that every round has, *same* if they differ. Rounds of single repeats are judged together."""
    if any(len(rates) < 2 for one in rounds for rates in one):
        return verdict(*([rate for one in rounds for rate in one[side]] for side in (0, 1)))
    found = {verdict(before, after) for before, after in rounds}
    return found.pop() if len(found) == 1 else "same"


def verdict(before: Sequence[float], after: Sequence[float]) -> str:
    """Returns *faster* if every repeat after was faster than every one before, *slower* if every one was slower, *same*
    if the two ranges overlap, *unknown* if one side has fewer than two repeats.
    """
    if len(before) < 2 or len(after) < 2:
        return "unknown"
    if min(after) > max(before):
        return "faster"
    return "slower" if max(after) < min(before) else "same"


def _rates(cell: dict[str, Any]) -> Sequence[float]:
    rates: Sequence[float] = cell.get("updates_per_s_all", [])
    return rates


def _title(cell: dict[str, Any]) -> str:
    at = f", {cell['law']} {cell['x']:g}" if "x" in cell else ""
    return f"{cell['title']}, {cell['engine']}, {cell['mode']}{at}"
