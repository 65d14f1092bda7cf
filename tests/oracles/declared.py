"""Base tables as declared, within windows or updated by key: what a batch leaves of them, and what it misses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from decimal import Decimal

from plans.plan import Plan
from plans.program import Program, program_of
from plans.programs.wiring import used_columns
from tests.models.window import WindowReference
from tests.oracles.database import Batch, Database, Row

_ANY = {"int32": 0, "int64": 0, "float64": 0.0, "string": ""}


class Declared:
    """The rows that a program sees of its tables: one value where it reads no column, unless it keeps ``whole`` rows.

    ``upserts``: the table t is updated by its key, which is its first column.
    """

    def __init__(self, tables: dict[str, object], program: Plan | Program, *, whole: bool, upserts: bool) -> None:
        self.database = Database(tables)
        self._upserts = upserts
        made = program_of(program) if isinstance(program, Plan) else program
        self._unread = {
            name: {
                i: _ANY.get(c.type, Decimal(0))
                for i, c in enumerate(self.database.schema[name].columns)
                if c not in columns
            }
            for name, columns in used_columns(made, whole).items()
        }
        self._windows = {
            window.relation: WindowReference(window, self.database.schema[window.relation].columns)
            for window in made.windows
        }

    def apply(self, batch: Batch) -> int:
        """Changes the tables; returns how many copies deletes did not find."""
        missing = 0
        for name, changes in batch.items():
            if name not in self._unread:
                continue
            seen = self._seen(name, changes)
            rows = self.database.rows[name]
            if name in self._windows:
                window = self._windows[name]
                before = window.missing
                window.apply(seen)
                self.database.rows[name] = Counter(row for _, row in window.copies)
                missing += window.missing - before
            elif name == "t" and self._upserts:
                for key, (row, weight) in {row[0]: (row, weight) for row, weight in seen}.items():
                    there = [one for one in rows if one[0] == key]
                    missing += weight < 0 and not there
                    for one in there:
                        del rows[one]
                    if weight > 0:
                        rows[row] = 1
            else:
                missing += sum(max(-weight - rows[row], 0) for row, weight in self.database.net(seen).items())
                self.database.apply({name: seen})
        return missing

    def missing(self, batch: Batch) -> int:
        """Returns how many copies deletes of a batch would not find."""
        return deepcopy(self).apply(batch)

    def without_absent_deletes(self, batch: Batch) -> Batch:
        """Returns what the program sees of a batch, with each delete cut down to the copies there are."""
        return self.database.without_absent_deletes({name: self._seen(name, rows) for name, rows in batch.items()})

    def _seen(self, name: str, changes: Iterable[tuple[Row, int]]) -> list[tuple[Row, int]]:
        unread = self._unread[name]
        return [(tuple(unread.get(i, v) for i, v in enumerate(row)), weight) for row, weight in changes]
