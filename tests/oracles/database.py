"""The base tables, as multisets of whole rows: what every oracle recomputes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import pyarrow as pa

from plans.schema import Schema
from plans.types import arrow_type
from tests.models import normalise

Row = tuple[object, ...]
Batch = Mapping[str, Iterable[tuple[Row, int]]]
_PLAIN = frozenset((int, str, bool, type(None)))  # values that are themselves, and most there are


def canonical(rows: Iterable[Row]) -> list[Row]:
    """The rows with one NaN and one zero, so that Python compares them as SQL identifies them."""
    return [tuple([value if value.__class__ in _PLAIN else normalise(value) for value in row]) for row in rows]


class Database:
    """Multisets of rows per relation. ``tables`` is anything that ``plans.schema.Schema.of`` takes."""

    def __init__(self, tables: Mapping[str, object]) -> None:
        self.schema = Schema.of(tables)
        self.rows: dict[str, Counter[Row]] = {name: Counter() for name in self.schema}

    def columns(self, relation: str) -> list[str]:
        """The column names of a relation."""
        return [column.name for column in self.schema[relation].columns]

    def apply(self, batch: Batch) -> None:
        """Sum the weights per row, add them, and clamp at zero."""
        for relation, changes in batch.items():
            rows = self.rows[relation]
            for row, weight in self.net(changes).items():
                rows[row] = max(rows[row] + weight, 0)
            self.rows[relation] = +rows

    @staticmethod
    def net(changes: Iterable[tuple[Row, int]]) -> Counter[Row]:
        """The summed weight of each row."""
        net: Counter[Row] = Counter()
        for row, weight in changes:
            net[canonical([row])[0]] += weight
        return net

    def without_absent_deletes(self, batch: Batch) -> dict[str, list[tuple[Row, int]]]:
        """The same batch, consolidated, with each deletion cut down to the copies there are."""
        cut = {}
        for relation, changes in batch.items():
            net = self.net(changes)
            cut[relation] = [(row, max(weight, -self.rows[relation][row])) for row, weight in net.items()]
        return cut

    def everything(self, sign: int = 1) -> dict[str, list[tuple[Row, int]]]:
        """A batch of all rows, each with its multiplicity times ``sign``."""
        return {name: [(row, sign * copies) for row, copies in rows.items()] for name, rows in self.rows.items()}

    def arrow(self, relation: str) -> pa.Table:
        """The rows, each as often as it is there."""
        rows = list(self.rows[relation].elements())
        return to_arrow(self.schema, relation, [(row, 1) for row in rows]).drop_columns("_weight")


def to_arrow(schema: Schema, relation: str, changes: Iterable[tuple[Row, int]]) -> pa.Table:
    """A change table: the columns of the relation and ``_weight``."""
    changes = list(changes)
    columns = {
        column.name: pa.array([row[i] for row, _ in changes], arrow_type(column.type))
        for i, column in enumerate(schema[relation].columns)
    }
    return pa.table({**columns, "_weight": pa.array([weight for _, weight in changes], pa.int64())})


def to_dicts(schema: Schema, relation: str, changes: Iterable[tuple[Row, int]]) -> list[dict[str, object]]:
    """A change list of plain dictionaries, ``_weight`` among the keys."""
    names = [column.name for column in schema[relation].columns]
    return [{**dict(zip(names, row, strict=True)), "_weight": weight} for row, weight in changes]
