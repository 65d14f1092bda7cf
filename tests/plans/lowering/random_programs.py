"""Random SQL over the tables of `program_queries`: joins of all kinds, subqueries, groups, set operations."""

from __future__ import annotations

import random

INTEGERS = {"r": ("a", "b"), "s": ("b",), "t": ("k", "v"), "u": ("a",)}
"""Per table its columns of whole numbers."""

COMPARISONS = ("=", "=", "=", "<", "<>", ">=", "IS NOT DISTINCT FROM")
AGGREGATES = (
    "COUNT(*)",
    "COUNT({})",
    "SUM({})",
    "MIN({})",
    "MAX({})",
    "COUNT(DISTINCT {})",
    "SUM({}) FILTER (WHERE {} > 1)",
    "SUM(0.00) FILTER (WHERE {} > 1)",
    "COUNT({}) FILTER (WHERE CAST(NULL AS BOOLEAN))",
)


class Writer:
    """Writes one random query."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.count = 0

    def query(self) -> str:
        """A SELECT, or a nest of set operations."""
        if self.rng.random() < 0.25:
            operator = self.rng.choice(("UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"))
            return f"{self.select(1)} {operator} {self.select(1)}"
        return self.select(self.rng.choice((1, 1, 2)))

    def select(self, width: int, depth: int = 0) -> str:
        """A SELECT with that many columns c0, c1, ..."""
        source, columns = self.source(depth)
        where = self.where(columns, depth)
        kind = self.rng.choice(("bag", "bag", "distinct", "group", "whole"))
        if kind in ("bag", "distinct"):
            items = ", ".join(f"{self.value(columns, depth)} AS c{i}" for i in range(width))
            return f"SELECT {'DISTINCT ' if kind == 'distinct' else ''}{items} FROM {source}{where}"
        calls = [f"CAST({self.aggregate(columns)} AS BIGINT)" for _ in range(width)]
        if kind == "whole":
            return f"SELECT {', '.join(f'{c} AS c{i}' for i, c in enumerate(calls))} FROM {source}{where}"
        key = self.rng.choice((self.column(columns), f"{self.column(columns)} + 1"))
        items = [key, *calls][:width]
        if self.rng.random() < 0.3:
            items = calls
        having = f" HAVING {self.aggregate(columns)} > {self.rng.randrange(3)}" if self.rng.random() < 0.4 else ""
        named = ", ".join(f"{item} AS c{i}" for i, item in enumerate(items))
        return f"SELECT {named} FROM {source}{where} GROUP BY {key}{having}"

    def alias(self) -> str:
        self.count += 1
        return f"x{self.count}"

    def relation(self, depth: int) -> tuple[str, list[str]]:
        """A table or a subquery, and its columns."""
        alias = self.alias()
        if depth < 2 and self.rng.random() < 0.25:
            return f"({self.select(2, depth + 1)}) {alias}", [f"{alias}.c0", f"{alias}.c1"]
        table = self.rng.choice(tuple(INTEGERS))
        return f"{table} {alias}", [f"{alias}.{name}" for name in INTEGERS[table]]

    def operand(self, depth: int) -> tuple[str, list[str]]:
        """A table, a subquery or a join in parentheses, and its columns."""
        if depth < 2 and self.rng.random() < 0.15:
            text, columns = self.source(2)
            return f"({text})" if " JOIN " in text else text, columns
        return self.relation(depth)

    def source(self, depth: int) -> tuple[str, list[str]]:
        """A FROM clause, and its columns."""
        text, columns = self.operand(depth)
        for _ in range(self.rng.choice((0, 0, 1, 1, 2))):
            other, more = self.operand(depth)
            kind = self.rng.choice(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"))
            on = f"{self.column(columns)} = {self.column(more)}"
            if kind != "FULL JOIN" and self.rng.random() < 0.3:  # DuckDB has no FULL JOIN with inequalities
                on += f" AND {self.column([*columns, *more])} {self.rng.choice(('<', '<>', '='))} {self.column(more)}"
            elif kind != "FULL JOIN" and self.rng.random() < 0.3:
                on += f" AND {self.column(columns)} > {self.rng.randrange(3)}"
            text += f" {kind} {other} ON {on}"
            columns = columns if kind in ("SEMI JOIN", "ANTI JOIN") else [*columns, *more]
        return text, columns

    def column(self, columns: list[str]) -> str:
        return self.rng.choice(columns)

    def value(self, columns: list[str], depth: int) -> str:
        """A whole number."""
        one, two = self.column(columns), self.column(columns)
        plain = [
            one,
            one,
            one,
            f"{one} + {two}",
            f"COALESCE({one}, 7)",
            f"CASE WHEN {one} > {two} THEN {one} ELSE 0 END",
        ]
        if depth == 0:
            table, name = self.inner()
            plain += [
                f"(SELECT COUNT(*) FROM {table} q WHERE q.{name} = {one})",
                f"(SELECT CAST(SUM(q.{name}) AS BIGINT) FROM {table} q)",
                f"(SELECT MAX(q.{name} + {two}) FROM {table} q WHERE q.{name} {self.rng.choice(COMPARISONS)} {one})",
                f"(SELECT q.{name} FROM {table} q WHERE q.{name} <= {one} ORDER BY 1 DESC NULLS LAST LIMIT 1)",
                f"(SELECT COUNT(*) FROM {table} q, s w WHERE q.{name} = {one} AND w.b < {two})",
                f"CASE WHEN EXISTS (SELECT 1 FROM {table} q WHERE q.{name} = {one}) THEN 1 ELSE 0 END",
                f"CASE WHEN {one} IN (SELECT q.{name} FROM {table} q) THEN 1 WHEN {two} > 1 THEN 2 END",
            ]
        return f"CAST({self.rng.choice(plain)} AS BIGINT)"

    def inner(self) -> tuple[str, str]:
        table = self.rng.choice(tuple(INTEGERS))
        return table, self.rng.choice(INTEGERS[table])

    def aggregate(self, columns: list[str]) -> str:
        return self.rng.choice(AGGREGATES).replace("{}", self.column(columns))

    def where(self, columns: list[str], depth: int) -> str:
        """Some conditions, or none."""
        found = [self.condition(columns, depth) for _ in range(self.rng.choice((0, 0, 1, 1, 2)))]
        return f" WHERE {' AND '.join(found)}" if found else ""

    def condition(self, columns: list[str], depth: int) -> str:
        one, two = self.column(columns), self.column(columns)
        table, name = self.inner()
        simple = [
            f"{one} {self.rng.choice(COMPARISONS)} {two}",
            f"{one} > {self.rng.randrange(3)}",
            f"({one} IS NULL OR {two} < 2)",
        ]
        if depth == 2:
            return self.rng.choice(simple)
        sign = self.rng.choice(("", "NOT "))
        tie = f"q.{name} {self.rng.choice(COMPARISONS)} {one}"
        return self.rng.choice(
            [
                *simple,
                f"{sign}EXISTS (SELECT 1 FROM {table} q WHERE {tie})",
                f"{sign}EXISTS (SELECT 1 FROM {table} q, s w WHERE {tie} AND w.b = q.{name} AND w.b <> {two})",
                f"{sign}EXISTS (SELECT 1 FROM {table} q WHERE {tie} GROUP BY q.{name} HAVING COUNT(*) > 1)",
                f"{one} {sign}IN (SELECT q.{name} FROM {table} q)",
                f"{one} {sign}IN ({self.select(1, 2)})",
                f"({one} > 1 OR {sign}EXISTS (SELECT 1 FROM {table} q WHERE {tie}))",
                f"({one} > 1 OR {two} IN (SELECT q.{name} FROM {table} q))",
                f"{one} >= (SELECT MIN(q.{name}) FROM {table} q WHERE q.{name} = {two})",
            ]
        )
