"""Indicator projections: which values a relation has, as a relation of payloads `one` (F-IVM, Appendix B)."""

from __future__ import annotations

from collections.abc import Sequence

from tests.models.rings.algebra.ring import Ring
from tests.models.rings.viewtree.relation import Relation, Row


class Indicator:
    """∃_keys R: every tuple over `keys` that some tuple of R with a non-zero payload has, with the payload `one`.

    It counts how many tuples project on each. A change of R changes it only where a count leaves or reaches 0, so its
    change is never larger than R's. `counts` maps tuples over `keys` to their counts.
    """

    def __init__(self, ring: Ring, schema: Sequence[str], keys: Sequence[str]) -> None:
        self._relation = Relation(ring, schema)
        self._keys = tuple(keys)
        self._places = [self._relation.schema.index(name) for name in keys]
        self.counts: dict[Row, int] = {}

    def change(self, delta: Relation) -> Relation:
        """Takes a change of R in, and returns the change of the projection. O(|delta|)."""
        relation, ring = self._relation, self._relation.ring
        out = Relation(ring, self._keys)
        places = delta.places(relation.schema)
        for given, payload in delta.payloads.items():
            row = tuple(given[i] for i in places)
            before = row in relation
            relation.add(row, payload)
            flip = (row in relation) - before
            if not flip:
                continue
            key = tuple(row[i] for i in self._places)
            count = self.counts.get(key, 0) + flip
            if count:
                self.counts[key] = count
            else:
                del self.counts[key]
            if flip > 0 and count == 1:
                out.add(key, ring.one)
            elif not count:
                out.add(key, ring.neg(ring.one))
        return out
