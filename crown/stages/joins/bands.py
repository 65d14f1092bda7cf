"""Joins by a comparison: pairs of a band of one side and a point of the other side that lies in the band.

    net of bands -> the points in them -> net of points -> the bands that contain them, already changed

Each side stores its rows in order (``crown.stages.joins.sides``), and returns the matches of a row of the other side:
rows, or the exact sums over all of them. The value of a pair is the product of the sums of its halves. If one side is
only summed, a change costs O(log n) for any number of matches. If the bounds of a band move, only the points that it
gained or lost are read; if a point of a band with one bound moves, only the bands that it gained or lost. A batch is
undone by applying its negated net.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from crown.errors import ChangeError
from crown.kernels.memory import arena as A
from crown.kernels.memory.tables import table_at
from crown.stages.feeds import readers
from crown.stages.groups.addends import CarriedTerm
from crown.stages.groups.terms import product
from crown.stages.joins.sides import Side
from crown.stages.protocol import Part, Stage
from crown.store.zset import Zset
from plans.programs.stages import BandStage
from plans.schema import Column

_MOST = 2.0**62


class Bands(Stage):
    """Runs a band stage. ``bands`` and ``points``: the columns that its feeds read."""

    def __init__(self, stage: BandStage, bands: Sequence[Column], points: Sequence[Column], part: Part) -> None:
        self.stage = stage
        self.inputs: tuple[str | int, ...] = (stage.bands.source, stage.points.source)
        self.parts: tuple[np.ndarray, ...] = (part.arena,)
        self._part = part
        self._readers = readers((stage.bands, stage.points), (bands, points), part.dictionary)
        band = stage.band
        self.columns = tuple(Column(output.name, output.type) for output in band.outputs)
        part.open(2 * Side.TABLES + 1)
        record, _ = part.record(int(table_at(2 * Side.TABLES)) + A.T_TALLIES, Side.LEVELS)
        self.sides = tuple(
            Side(part, reader.columns, band, number == 0, number * Side.TABLES, record)
            for number, reader in enumerate(self._readers)
        )
        place = [{column.name: i for i, column in enumerate(side.columns)} for side in self.sides]
        names = ((band.low, band.high), (band.point,))
        self._bounds = [[None if n is None else at[n] for n in ends] for ends, at in zip(names, place, strict=True)]
        self._outputs = [
            (number, at[name])
            for name in (o.name for o in band.outputs)
            for number, at in enumerate(place)
            if name in at
        ]
        read = {*(output.name for output in band.outputs), *(name for term in band.terms for name, _ in term)}
        self._identity = [
            sorted({*side.keys, *(at for name, at in places.items() if name in read)})
            for side, places in zip(self.sides, place, strict=True)
        ]

    @property
    def carried(self) -> list[CarriedTerm]:
        """Returns the terms that the rows carry."""
        terms: list[CarriedTerm] = []
        for _ in self.stage.band.terms:
            limbs = sum(side.products.limbs(side.products.product_of_term[len(terms)]) for side in self.sides)
            terms.append(CarriedTerm(terms[-1].at + terms[-1].limbs if terms else 0, limbs))
        return terms

    # -- a batch -------------------------------------------------------------------------------------------------------

    def apply(self, nets: Sequence[Zset]) -> Zset:
        """Applies a batch. O(log n) per change, and O(1) per row that it delivers.

        Raises MemoryBudgetError, and ChangeError for a delete of an absent row, or for too many pairs.
        """
        bands, points = (reader.zset(net).net() for reader, net in zip(self._readers, nets, strict=True))
        found = [self._pairs(0, bands)]
        self.sides[0].change(bands)
        try:
            found.append(self._pairs(1, points))
            self.sides[1].change(points)
        except BaseException:
            with self._part.budget.lifted():
                self.sides[0].change(bands.negated())
            raise
        pairs = Zset.gathered(found, len(self.columns))
        return pairs if pairs.payload is not None or not len(pairs) else pairs.net()

    def _pairs(self, number: int, net: Zset) -> Zset:
        """Returns the pairs of rows of a side with the present rows of the other side."""
        if not len(net):
            return Zset.empty(len(self.columns))
        side, other, columns = self.sides[number], self.sides[1 - number], np.ascontiguousarray(net.columns())
        bounds, weights = [None if at is None else columns[at] for at in self._bounds[number]], net.weights
        if other.lists:
            found, requests, weights = other.listed_matches(
                columns[side.keys], bounds, columns[self._identity[number]], weights
            )
            columns = np.ascontiguousarray(columns[:, requests])
        else:
            found = other.matches(columns[side.keys], bounds)
        own_words = side.products.addends(columns, weights)[found.request]
        if np.any(np.abs(own_words[:, 0].astype(np.float64)) * np.abs(found.words[:, 0].astype(np.float64)) >= _MOST):
            raise ChangeError("a row of a join by a comparison would occur more than 2^62 times")
        halves = (columns[:, found.request], found.columns)
        rows = np.empty((len(self._outputs), len(found.request)), np.int64)
        for i, (source, at) in enumerate(self._outputs):
            rows[i] = halves[0 if source == number else 1][at]
        payload = self._payload((own_words, found.words) if number == 0 else (found.words, own_words))
        return Zset.of_columns(rows, own_words[:, 0] * found.words[:, 0], payload)

    def _payload(self, words: tuple[np.ndarray, np.ndarray]) -> np.ndarray | None:
        """Returns the sums that pairs carry (int64[words, n]), which are products of the sums of their two rows, or
        None without terms."""
        if not self.stage.band.terms:
            return None
        products = []
        for numbers in zip(*(side.products.product_of_term for side in self.sides), strict=True):
            halves = [side.products.number(w, n) for side, w, n in zip(self.sides, words, numbers, strict=True)]
            products.append(product(*halves).T)
        return np.concatenate(products)

    # -- reading -------------------------------------------------------------------------------------------------------

    def scan(self, sources: Sequence[Iterable[Zset]] = ()) -> Iterator[Zset]:
        """Yields the rows. The same row may occur in several blocks."""
        for bands in self.sides[0].scan():
            found = self._pairs(0, bands)
            yield found if found.payload is not None else found.net()

    # -- maintenance ---------------------------------------------------------------------------------------------------

    @override
    def mark_values(self) -> None:
        for side in self.sides:
            side.mark_values()

    @override
    def check_invariants(self) -> None:
        for side in self.sides:
            side.check_invariants()

    def stats(self) -> dict[str, Any]:
        """Returns the number of distinct rows of each side, and the entries and rows that changes have read."""
        bands, points = map(len, self.sides)
        return {"bands": bands, "points": points, "steps": int(self._part.arena[A.H_STEPS])}
