"""Relations over a ring: finite functions from tuples to payloads, with union, join and marginalization.

F-IVM, section 2. A tuple whose payload is zero is not in the relation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from tests.models.rings.algebra.ring import Ring

Row = tuple[Any, ...]
Lifts = Mapping[str, Callable[[Any], Any]]
"""The lifting functions, by variable; a variable without one lifts all its values to `one`."""


class _Index:
    """The tuples of a relation by their values at `places`."""

    def __init__(self, places: tuple[int, ...]) -> None:
        self._places = places
        self.rows: dict[Row, dict[Row, None]] = {}

    def enter(self, row: Row) -> None:
        self.rows.setdefault(tuple(row[i] for i in self._places), {})[row] = None

    def leave(self, row: Row) -> None:
        key = tuple(row[i] for i in self._places)
        rows = self.rows[key]
        del rows[row]
        if not rows:
            del self.rows[key]


class Relation:
    """A relation over `schema` with payloads of `ring`.

    `rows`: tuples with their payloads, as a mapping or as pairs; payloads of equal tuples are added up. An index over
    some of the columns is built when a join first asks for it, O(size), and kept up to date from then on.
    """

    def __init__(self, ring: Ring, schema: Sequence[str], rows: Mapping[Row, Any] | Iterable[tuple[Row, Any]] = ()):
        self.ring = ring
        self.schema = tuple(schema)
        self.payloads: dict[Row, Any] = {}
        self._indexes: dict[tuple[str, ...], _Index] = {}
        for row, payload in rows.items() if isinstance(rows, Mapping) else rows:
            self.add(row, payload)

    def add(self, row: Row, payload: Any) -> None:
        """Adds a payload to that of a tuple. O(1 + indexes)."""
        before = self.payloads.get(row)
        after = payload if before is None else self.ring.add(before, payload)
        if after != self.ring.zero:
            self.payloads[row] = after
            if before is None:
                for index in self._indexes.values():
                    index.enter(row)
        elif before is not None:
            del self.payloads[row]
            for index in self._indexes.values():
                index.leave(row)

    def update(self, other: Relation) -> None:
        """Adds another relation over the same columns, in place: R := R ⊎ other. O(|other|)."""
        places = other.places(self.schema)
        for row, payload in other.payloads.items():
            self.add(tuple(row[i] for i in places), payload)

    def union(self, other: Relation) -> Relation:
        """Returns R ⊎ other."""
        total = Relation(self.ring, self.schema, self.payloads)
        total.update(other)
        return total

    def join(self, other: Relation) -> Relation:
        """Returns R ⊗ other over R's columns and then the new ones of `other`; payloads are multiplied in this order.

        Iterates over the smaller side and looks the partners up in the other: O(smaller + results), once the index of
        the larger side is there.
        """
        common = tuple(name for name in self.schema if name in other.schema)
        new = [i for i, name in enumerate(other.schema) if name not in self.schema]
        out = Relation(self.ring, self.schema + tuple(other.schema[i] for i in new))
        multiply = self.ring.mul
        if len(self) <= len(other):
            pairs = ((row, partner) for row, found in self._partners(other, common) for partner in found)
        else:
            pairs = ((partner, row) for row, found in other._partners(self, common) for partner in found)
        for left, right in pairs:
            row = left + tuple(right[i] for i in new)
            out.add(row, multiply(self.payloads[left], other.payloads[right]))
        return out

    def marginalize(self, variables: Sequence[str], lifts: Lifts) -> Relation:
        """Returns the relation without the variables: payloads, times the lifts of their values, are summed up."""
        kept = [i for i, name in enumerate(self.schema) if name not in variables]
        lifted = [(self.schema.index(name), lifts[name]) for name in variables if name in lifts]
        out = Relation(self.ring, [self.schema[i] for i in kept])
        for row, payload in self.payloads.items():
            for place, lift in lifted:
                payload = self.ring.mul(payload, lift(row[place]))
            out.add(tuple(row[i] for i in kept), payload)
        return out

    def mapped(self, change: Callable[[Any], Any]) -> Relation:
        """Returns the relation with `change` applied to every payload."""
        return Relation(self.ring, self.schema, ((row, change(payload)) for row, payload in self.payloads.items()))

    def places(self, schema: Sequence[str]) -> tuple[int, ...]:
        """Returns where the columns of `schema` stand here; ValueError if the columns are not the same."""
        if sorted(schema) != sorted(self.schema):
            raise ValueError(f"columns {', '.join(self.schema)} are not {', '.join(schema)}")
        return tuple(self.schema.index(name) for name in schema)

    def _partners(self, other: Relation, common: tuple[str, ...]) -> Iterator[tuple[Row, Iterable[Row]]]:
        """Yields every tuple with those of `other` that agree with it in the common columns."""
        if len(common) == len(other.schema):  # the tuple itself is looked up
            places = tuple(self.schema.index(name) for name in other.schema)
            for row in self.payloads:
                key = tuple(row[i] for i in places)
                if key in other.payloads:
                    yield row, (key,)
        else:
            places = tuple(self.schema.index(name) for name in common)
            found = other._index(common).rows
            for row in self.payloads:
                yield row, found.get(tuple(row[i] for i in places), ())

    def _index(self, names: tuple[str, ...]) -> _Index:
        if names not in self._indexes:
            self._indexes[names] = index = _Index(tuple(self.schema.index(name) for name in names))
            for row in self.payloads:
                index.enter(row)
        return self._indexes[names]

    def __getitem__(self, row: Row) -> Any:
        return self.payloads.get(row, self.ring.zero)

    def __contains__(self, row: object) -> bool:
        return row in self.payloads

    def __iter__(self) -> Iterator[Row]:
        return iter(self.payloads)

    def __len__(self) -> int:
        return len(self.payloads)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Relation) and self.schema == other.schema and self.payloads == other.payloads

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"Relation({', '.join(self.schema)}; {self.payloads})"


class Factors:
    """A relation that is kept as the join of `parts`: what a factorizable update and its deltas are (F-IVM, 5).

    The product of relations of n and m tuples is n + m tuples here, not n * m.
    """

    def __init__(self, *parts: Relation) -> None:
        if not parts:
            raise ValueError("a product has at least one factor")
        self.parts = parts

    @property
    def schema(self) -> tuple[str, ...]:
        """Returns the columns of all parts, each once."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.schema))

    def __len__(self) -> int:
        """Returns the number of tuples stored: of all parts together."""
        return sum(map(len, self.parts))

    def expanded(self) -> Relation:
        """Returns the join of the parts, multiplied out; the parts without columns first, as factors of one tuple."""
        return reduce(Relation.join, sorted(self.parts, key=lambda part: len(part.schema)))

    def __repr__(self) -> str:
        return " ⊗ ".join(map(repr, self.parts))
