"""The relational ring: payloads that are themselves relations, so that a view tree computes the rows of a join.

F-IVM, Definition 6.4 with its footnote: every record carries its own columns, and the product of two records that give
one column different values is nothing. A payload maps records to how often they are derived.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

Record = tuple[tuple[str, object], ...]
"""Pairs (column, value) in the order of the columns' names."""

Rows = Mapping[Record, int]


class Relational:
    """The ring of relations with integer multiplicities: + is union, * is the natural join.

    Cost of a product: |a| * |b|. `lift(X)` moves the values of X from the keys into the payload; a variable that has no
    lift is projected away (each of its values counts).
    """

    commutative = True

    def __init__(self) -> None:
        self.zero: Rows = {}
        self.one: Rows = {(): 1}

    def add(self, a: Rows, b: Rows) -> Rows:
        """Returns the union of a and b: multiplicities add up."""
        total = dict(a)
        for record, count in b.items():
            total[record] = total.get(record, 0) + count
        return {record: count for record, count in total.items() if count}

    def neg(self, a: Rows) -> Rows:
        """Returns a with all multiplicities negated."""
        return {record: -count for record, count in a.items()}

    def mul(self, a: Rows, b: Rows) -> Rows:
        """Returns the natural join of a and b: multiplicities multiply."""
        total: dict[Record, int] = {}
        for left, m in a.items():
            for right, n in b.items():
                joined = _joined(left, right)
                if joined is not None:
                    total[joined] = total.get(joined, 0) + m * n
        return {record: count for record, count in total.items() if count}

    def lift(self, variable: str) -> Callable[[object], Rows]:
        """Returns the lift of a variable of the result: x becomes the relation of the one record (variable: x)."""
        return lambda value: {((variable, value),): 1}

    def __repr__(self) -> str:
        return "relational"


def _joined(left: Record, right: Record) -> Record | None:
    both = dict(left)
    for column, value in right:
        if both.setdefault(column, value) != value:
            return None
    return tuple(sorted(both.items(), key=lambda pair: pair[0]))


def keep_only(variables: Sequence[str], payload: Rows) -> Rows:
    """Returns the payload projected on the variables, with the multiplicities of equal records added up.

    A view tree that keeps only the variable of each view (F-IVM, 6.3) holds the factorized result: its payloads
    together, linked by keys, instead of one listing in the root.
    """
    wanted = set(variables)
    total: dict[Record, int] = {}
    for record, count in payload.items():
        kept = tuple(pair for pair in record if pair[0] in wanted)
        total[kept] = total.get(kept, 0) + count
    return {record: count for record, count in total.items() if count}


def listing(payload: Rows, columns: Sequence[str]) -> dict[tuple[object, ...], int]:
    """Returns the rows of a payload as tuples over `columns`, with their multiplicities."""
    return {tuple(dict(record)[column] for column in columns): count for record, count in payload.items()}
