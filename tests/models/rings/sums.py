"""Where the exact sums of a regression come from: a view tree over cofactor triples. The one adapter between the two.

The sums need three things: the query in atoms (`plans`), rows checked as `crown.view` checks them, and base tables that
say what a delete finds. The tree stores no base rows; the base tables do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from math import prod
from typing import Any

from crown.errors import BadRowError, ChangeError, CrownError, MissingDeleteError
from crown.guards.interrupts import Uninterrupted
from crown.ingest.changes import CheckedBatch, Checker, relations_of
from crown.ml.monomials import monomials
from tests.models.rings.algebra import Cofactor, Product, Triple, Z
from tests.models.rings.join import Join, Leaf, NotFiniteError, read, values
from tests.models.rings.viewtree import Relation, ViewTree, greedy_order, view_tree

Row = tuple[Any, ...]


def maintained_sums(
    query: str, schema: Any, target: str, features: Sequence[str] | None, on_missing: str
) -> tuple[ViewTreeSums, tuple[str, ...], str]:
    """Returns who maintains the sums that a regression needs, its features and its target as the query spells them."""
    if on_missing not in ("ignore", "raise"):
        raise CrownError(f'on_missing must be "ignore" or "raise", not {on_missing!r}')
    join = read(query, schema, target, features)
    names = tuple(feature.name for feature in join.features)
    return ViewTreeSums(join, on_missing), names[:-1], names[-1]


class ViewTreeSums:
    """The sums of all monomials of degree 2 over the rows of a join, as one cofactor triple at the root of a view tree.

    Numbers are Python integers, in multiples of the features' units, and fractions where a unit is too coarse: no
    rounding, no overflow. Memory: the base rows, and the views.
    """

    def __init__(self, join: Join, on_missing: str = "ignore") -> None:
        self._join = join
        self._strict = on_missing == "raise"
        self._missing = 0
        self.monomials = monomials(over=[feature.name for feature in join.features])
        self._place = {feature.name: i for i, feature in enumerate(join.features)}
        ring = self._ring = Product(Z, Cofactor())
        schemas = {leaf.name: leaf.schema for leaf in join.leaves}
        self._order = greedy_order(schemas)
        lifts = {feature.variable: self._lift(i) for i, feature in enumerate(join.features)}
        self._tree = ViewTree(ring, view_tree(self._order, schemas, compose=True), lifts=lifts)
        self._checkers = {table.name.lower(): Checker(table, join.columns(table)) for table in join.tables}
        self._uninterrupted = Uninterrupted()
        self._copies: dict[str, Counter[Row]] = {name: Counter() for name in self._checkers}

    @property
    def rows(self) -> int:
        """Returns the number of rows without NULL in a column of the monomials."""
        return int(self._total()[1].count)

    @property
    def skipped(self) -> int:
        """Returns the number of rows with a NULL in one of the columns."""
        everything, triple = self._total()
        return everything - int(triple.count)

    @property
    def missing(self) -> int:
        """Returns the copies of rows that deletes did not find."""
        return self._missing

    def sum(self, *names: str) -> int | Fraction:
        """Returns the sum of the product of these columns over the rows; KeyError if it is no monomial of degree 2."""
        self.monomials.index(*names)
        triple, places = self._total()[1], [self._place[name] for name in names]
        if not places:
            return int(triple.count)
        total = triple.sums.get(places[0], 0) if len(places) == 1 else triple.product(*places)
        exact = Fraction(total) / prod(self._join.features[i].unit for i in places)
        return exact.numerator if exact.denominator == 1 else exact

    def apply(self, changes: Mapping[str, Any]) -> None:
        """Applies a batch, deletes before inserts; it raises before anything has changed, or not at all."""
        batches = self._checked(changes)
        prepared = {name: self._prepared(name, batch) for name, batch in batches.items()}
        short = {name: self._short(name, net) for name, (net, _) in prepared.items()}
        work = []
        for name, (wanted, leaves) in prepared.items():
            net = {row: found for row, weight in wanted.items() if (found := weight + short[name].get(row, 0))}
            work.append((name, net, [(leaf.name, self._delta(leaf, keys, net)) for leaf, keys in leaves]))
        with self._uninterrupted:
            for name, net, deltas in work:
                self._missing += sum(short[name].values())
                self._enter(name, net)
                for leaf_name, delta in deltas:
                    if len(delta):
                        self._tree.apply(leaf_name, delta)

    def explain(self) -> str:
        """Returns the monomials, the variable order and the view tree, as text."""
        stored = ", ".join(sorted(self._tree.stored))
        return "\n".join(
            [
                f"sums: {len(self.monomials)} monomials of degree 2, exact, as one payload (a cofactor triple)",
                f"as SQL: SELECT {', '.join(self.monomials.sql())}",
                f"variable order: {' '.join(map(str, self._order)) or 'no variables'}",
                f"stored views: {stored}",
                str(self._tree.root),
            ]
        )

    def _delta(self, leaf: Leaf, keys: Mapping[Row, Row | None], net: Mapping[Row, int]) -> Relation:
        """Returns the net changes of a relation as one of its leaves reads them: n copies are n times the payload
        one."""
        delta = Relation(self._ring, leaf.schema)
        for row, weight in net.items():
            key = keys[row]
            if key is not None:
                delta.add(key, (weight, Triple(weight, {}, {})))
        return delta

    def _lift(self, i: int) -> Any:
        ring, unit = Cofactor(), self._join.features[i].unit
        lift = ring.lift(i)
        return lambda value: (1, ring.zero if value is None else lift(_multiple(value, unit)))

    def _total(self) -> tuple[int, Triple]:
        return self._tree.result[()]

    def _checked(self, changes: Mapping[str, Any]) -> dict[str, CheckedBatch]:
        out: dict[str, CheckedBatch] = {}
        for given, data in relations_of(changes).items():
            name = given.lower()
            if name not in self._checkers:
                known = ", ".join(sorted(table.name for table in self._join.tables))
                raise ChangeError(f"relation {given!r} is not part of this query, which reads: {known}")
            if name in out:
                raise ChangeError(f"relation {given!r} occurs twice in one batch; concatenate its changes")
            out[name] = batch = self._checkers[name].check(data)
            if batch.bad:
                row, reason = next(iter(batch.bad.items()))
                raise BadRowError(given, row, reason)
        return out

    def _prepared(
        self, name: str, batch: CheckedBatch
    ) -> tuple[Counter[Row], list[tuple[Leaf, dict[Row, Row | None]]]]:
        """Returns the net changes of a relation's rows, and what each leaf over it makes of each of them."""
        n = len(batch.weights)
        columns = [values(column) for column in batch.columns.values()]
        rows = list(map(_canonical, zip(*columns, strict=True))) if columns else [()] * n
        net: Counter[Row] = Counter()
        for row, weight in zip(rows, batch.weights.tolist(), strict=True):
            net[row] += weight
        leaves = []
        for leaf in self._join.leaves:
            if leaf.relation.lower() == name:
                try:
                    keys = leaf.keys(batch.columns, n)
                except NotFiniteError as error:
                    raise BadRowError(leaf.relation, error.row, error.reason) from None
                leaves.append((leaf, dict(zip(rows, map(_canonical_or_none, keys), strict=True))))
        return net, leaves

    def _short(self, name: str, net: Counter[Row]) -> dict[Row, int]:
        """Returns the copies that the deletes of a relation do not find, by row."""
        there = self._copies[name]
        short = {row: -weight - there[row] for row, weight in net.items() if there[row] + weight < 0}
        if short and self._strict:
            row, copies = next(iter(short.items()))
            raise MissingDeleteError(f"relation {name!r}: a delete of {row!r} finds {copies} copies too few")
        return short

    def _enter(self, name: str, net: Mapping[Row, int]) -> None:
        there = self._copies[name]
        for row, weight in net.items():
            there[row] += weight
            if not there[row]:
                del there[row]


def _multiple(value: int | float | Decimal, unit: int) -> int | Fraction:
    """Returns the value times its unit, exactly: an integer if it is one."""
    above, below = value.as_integer_ratio()
    whole, rest = divmod(above * unit, below)
    return Fraction(above * unit, below) if rest else whole


_NAN = float("nan")


def _canonical(row: Row) -> Row:
    """Returns the row with one NaN in place of all, so that equal rows are equal keys."""
    return tuple(_NAN if value != value else value for value in row)


def _canonical_or_none(row: Row | None) -> Row | None:
    return None if row is None else _canonical(row)
