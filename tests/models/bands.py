"""Joins by a comparison by definition: every pair of rows is tested."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from operator import ge, gt, le, lt
from typing import Any

from plans.programs.stages import Band, BandStage
from tests.models.view import normalise

Row = tuple[Any, ...]


def pairs(stage: BandStage, bands: Counter[Row], points: Counter[Row]) -> Iterator[tuple[Mapping[str, Any], int]]:
    """Yields the joined pairs of rows of both feeds, by column, with their multiplicities."""
    names = [[column.name for column in feed.columns] for feed in (stage.bands, stage.points)]
    for (left, m), (right, n) in product(bands.items(), points.items()):
        row = dict(zip((*names[0], *names[1]), (*left, *right), strict=True))
        if meets(stage.band, row):
            yield row, m * n


def meets(band: Band, row: Mapping[str, Any]) -> bool:
    """Returns whether a pair of rows has equal keys, and the point of one row is in the band of the other."""
    if any((normalise(row[one]),) != (normalise(row[other]),) for one, other in band.keys):
        return False
    low, high = (None if name is None else row[name] for name in (band.low, band.high))  # None: open
    above = low is None or holds(gt if band.outside[0] else ge, row[band.point], low)
    return above and (high is None or holds(lt if band.outside[1] else le, row[band.point], high))


def holds(operator: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    """Compares two values of one type; NaN is the greatest, and equal to itself."""
    return operator(_ranked(left), _ranked(right))


def _ranked(value: Any) -> tuple[bool, Any]:
    nan = value != value
    return (nan, 0 if nan else value.encode() if isinstance(value, str) else value)


def band(stage: BandStage, bands: Counter[Row], points: Counter[Row]) -> Counter[Row]:
    """Returns the rows of a band stage without sums."""
    found: Counter[Row] = Counter()
    for row, copies in pairs(stage, bands, points):
        found[tuple(row[output.name] for output in stage.band.outputs)] += copies
    return found
