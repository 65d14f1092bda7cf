"""Random aggregates over joins of two to four relations: products, sums, CASE, FILTER, NULLs, self-joins.

Numbers are small, or halves, so that no oracle rounds or overflows.
"""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

TABLES: dict[str, object] = {
    "p": {"a": "int64", "b": "int64", "x": "int64", "y": "float64"},
    "q": {"b": "int64", "c": "int64", "d": "decimal(8,2)", "i": "int32"},
    "e": {"columns": {"c": "int64", "z": "float64", "t": "string", "f": "bool"}, "key": ["c"]},
}
VALUES: dict[str, tuple[Any, ...]] = {
    "a": (1, 2, None),
    "b": (1, 2, 3, None),
    "c": (1, 2, 3),
    "x": (-3, 0, 2, 5, None),
    "y": (-1.5, 0.0, 0.25, 4.0, None),
    "d": (Decimal("-1.25"), Decimal("0.00"), Decimal("3.50"), None),
    "i": (-2, 0, 1, 7, None),
    "z": (0.5, -2.0, 8.0, None),
    "t": ("u", "v", None),
    "f": (True, False, None),
}
JOINS = (
    (("p", "p1"), ("q", "q1"), "p1.b = q1.b"),
    (("p", "p1"), ("p", "p2"), "p1.b = p2.a"),
    (("p", "p1"), ("q", "q1"), ("e", "e1"), "p1.b = q1.b AND q1.c = e1.c"),
    (("p", "p1"), ("q", "q1"), ("q", "q2"), "p1.b = q1.b AND p1.a = q2.c"),
    (("p", "p1"), ("q", "q1"), ("e", "e1"), ("p", "p2"), "p1.b = q1.b AND q1.c = e1.c AND p2.a = p1.a"),
    (("q", "q1"), ("e", "e1"), "q1.c < e1.c"),
    (("q", "q1"), ("q", "q2"), ("p", "p1"), "q1.b = q2.c AND q2.b = p1.a AND p1.b = q1.c"),
)
NUMBERS = {"p": ("x", "y", "a"), "q": ("d", "i", "b"), "e": ("z", "c")}
CONDITIONS = {
    "p": ("{}.x > 0", "{}.y IS NULL", "{}.a = 1"),
    "q": ("{}.i >= 1", "{}.d < 0"),
    "e": ("{}.f", "{}.t = 'u'"),
}
KEYS = {"p": ("a", "b"), "q": ("b", "c"), "e": ("t", "c")}
TWO = ("COVAR_POP", "COVAR_SAMP", "REGR_SXX", "REGR_SXY", "REGR_SYY", "REGR_COUNT", "REGR_AVGX", "REGR_AVGY")


class Writer:
    """Writes one random query."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        *self.sources, self.on = self.rng.choice(JOINS)

    def query(self) -> str:
        keys = [f"{alias}.{self.rng.choice(KEYS[table])}" for table, alias in self.sources if self.rng.random() < 0.4]
        keys = keys[:2]
        calls = [self.call() for _ in range(self.rng.randint(1, 4))]
        if self.rng.random() < 0.2:
            calls.append(self.rng.choice(("MIN({})", "MAX({})", "COUNT(DISTINCT {})")).format(self.number()))
        items = [f"{key} AS k{i}" for i, key in enumerate(keys)] + [f"{call} AS c{i}" for i, call in enumerate(calls)]
        where = f" AND {self.condition()}" if self.rng.random() < 0.3 else ""
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        having = " HAVING COUNT(*) > 1" if self.rng.random() < 0.2 else ""
        tables = ", ".join(f"{table} {alias}" for table, alias in self.sources)
        return f"SELECT {', '.join(items)} FROM {tables} WHERE {self.on}{where}{group}{having}"

    def number(self) -> str:
        table, alias = self.rng.choice(self.sources)
        return f"{alias}.{self.rng.choice(NUMBERS[table])}"

    def condition(self) -> str:
        table, alias = self.rng.choice(self.sources)
        found = self.rng.choice(CONDITIONS[table]).format(alias)
        if self.rng.random() < 0.1:
            found = f"({self.number()} + {self.number()}) IS NULL"
        if self.rng.random() < 0.3:
            found = f"({found} {self.rng.choice(('AND', 'OR'))} {self.condition()})"
        return f"NOT {found}" if self.rng.random() < 0.15 else found

    def value(self, depth: int = 0) -> str:
        dice = self.rng.random()
        if depth > 1 or dice < 0.3:
            return self.number()
        if dice < 0.7:
            return f"({self.value(depth + 1)} {self.rng.choice('*+-*')} {self.value(depth + 1)})"
        if dice < 0.8:
            return f"(2 * {self.value(depth + 1)})"
        if dice < 0.9:
            tail = self.rng.choice((" ELSE 0", "", f" ELSE {self.number()}"))
            return f"CASE WHEN {self.condition()} THEN {self.number()}{tail} END"
        return f"(-{self.number()})"

    def call(self) -> str:
        dice = self.rng.random()
        where = f" FILTER (WHERE {self.condition()})" if self.rng.random() < 0.25 else ""
        if dice < 0.15:
            return f"COUNT(*){where}"
        if dice < 0.3:
            return f"COUNT({self.number()}){where}"
        if dice < 0.65:
            return f"CAST(SUM({self.value()}){where} AS DOUBLE)"
        if dice < 0.8:
            return f"AVG({self.value()}){where}"
        if dice < 0.9:
            return f"{self.rng.choice(('VAR_POP', 'VAR_SAMP'))}({self.number()}){where}"
        return f"{self.rng.choice(TWO)}({self.number()}, {self.number()}){where}"
