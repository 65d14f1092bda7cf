"""Random SQL over all that a query may be made of, in DuckDB's dialect, over the tables of `random_rows`.

Every query says all that SQL leaves open, so it has one result: an order by all columns wherever places count, where
NULLs go, which texts come first. What remains open between engines is left out: digits of quotients of decimals, texts
of doubles, which of several equal values is the first.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from tests.plans.lowering.random_rows import COLUMNS

ORDERED = ("int", "int", "int", "str", "dbl", "dec", "day", "ts")
NAMED = {
    "int": "BIGINT", "str": "VARCHAR", "dbl": "DOUBLE", "dec": "DECIMAL(18,2)", "day": "DATE", "ts": "TIMESTAMP",
    "bool": "BOOLEAN",
}  # fmt: skip
VALUES = tuple(NAMED)
LITERALS = {
    "int": ("0", "1", "2", "3", "-1"),
    "str": ("'p'", "'q'", "''", "'z'"),
    "dbl": ("CAST(0.5 AS DOUBLE)", "CAST(1 AS DOUBLE)", "CAST('NaN' AS DOUBLE)"),
    "dec": ("CAST(1.50 AS DECIMAL(18,2))", "CAST(0 AS DECIMAL(18,2))"),
    "day": ("DATE '2024-02-29'", "DATE '2024-01-31'"),
    "ts": ("TIMESTAMP '2024-02-29 00:30:00'", "TIMESTAMP '2024-03-01 00:00:00'"),
    "bool": ("TRUE", "FALSE"),
}
COMPARISONS = ("=", "=", "=", "<", "<=", ">", ">=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
JOINS = ("JOIN", "JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN")
_TABLES = ("r", "r", "s", "t", "u", "e", "n")
_TIES = (("r", "a"), ("r", "b"), ("s", "b"), ("t", "k"), ("t", "v"), ("e", "id"))
SETS = ("UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")


REFUSED = (
    "VALUES without a table never changes, so there is nothing to maintain",
    "cannot be counted",
    "is not a value of type",
)
"""What is refused of them, for a reason that docs/limits.md gives."""


@dataclass(frozen=True)
class Column:
    """What an expression may read: its text and its type."""

    text: str
    type: str


Scope = tuple[Column, ...]


class Writer:
    """Writes one random query over some of the tables.

    Each method returns a text, and where it has columns, their types.
    """

    def __init__(self, seed: int, tables: Collection[str] = COLUMNS) -> None:
        self.rng = random.Random(seed)
        self.tables = tuple(name for name in _TABLES if name in tables)
        self.ties = tuple(one for one in _TIES if one[0] in tables)
        self.count = 0
        self.common: dict[str, list[str]] = {}

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def query(self) -> str:
        """A query, with common table expressions or without."""
        texts = []
        for _ in range(self.rng.choice((0, 0, 0, 1, 2))):
            name = self.alias()
            text, types = self.body(1, None)
            texts.append(f"{name} AS ({text})")
            self.common[name] = types
        text, _ = self.body(0, None)
        return f"WITH {', '.join(texts)} {text}" if texts else text

    def alias(self) -> str:
        self.count += 1
        return f"x{self.count}"

    def body(self, depth: int, types: list[str] | None) -> tuple[str, list[str]]:
        """A SELECT, a set operation, or the first rows of one; its columns are c0, c1, ..."""
        text, types = self.select(types, depth)
        if depth < 2 and self.chance(0.2):
            text = f"{text} {self.rng.choice(SETS)} {self.select(types, depth)[0]}"
            if self.chance(0.2):
                text = f"({text}) {self.rng.choice(SETS)} {self.select(types, depth)[0]}"
        if self.chance(0.12):
            order = ", ".join(self.ordered(f"c{i}") for i in self.rng.sample(range(len(types)), len(types)))
            offset = f" OFFSET {self.rng.randrange(3)}" if self.chance(0.3) else ""
            text = f"SELECT * FROM ({text}) {self.alias()} ORDER BY {order} LIMIT {self.rng.randint(1, 4)}{offset}"
        return text, types

    def ordered(self, text: str) -> str:
        return f"{text} {self.rng.choice(('ASC', 'DESC'))} NULLS {self.rng.choice(('FIRST', 'LAST'))}"

    def select(self, types: list[str] | None, depth: int) -> tuple[str, list[str]]:
        """A SELECT, of these types or of some that its source has."""
        source, scope = self.source(depth)
        types = types or [self.type_of(scope) for _ in range(self.rng.choice((1, 2, 2, 3)))]
        return self.selected(types, source, scope, depth), types

    def type_of(self, scope: Scope) -> str:
        """A type: one of a column, mostly."""
        there = [column.type for column in scope if column.type in VALUES]
        return self.rng.choice(there) if there and self.chance(0.8) else self.rng.choice(VALUES)

    def selected(self, types: list[str], source: str, scope: Scope, depth: int) -> str:
        """A SELECT of these types from a source."""
        where = self.where(scope, depth)
        kind = self.rng.choice(("bag", "bag", "bag", "distinct", "group", "group", "whole", "window", "first"))
        if kind in ("group", "whole"):
            return self.grouped(types, source, scope, where, whole=kind == "whole")
        if kind == "window" or (kind == "first" and depth > 1):
            return self.windowed(types, source, scope, where, depth)
        items = [self.value(type_, scope, depth) for type_ in types]
        if kind == "first":
            keys = self.rng.sample(range(len(items)), self.rng.randint(1, len(items)))
            rest = [i for i in range(len(items)) if i not in keys]
            on, order = (", ".join(items[i] for i in keys), ", ".join(self.ordered(items[i]) for i in [*keys, *rest]))
            named = ", ".join(f"{item} AS c{i}" for i, item in enumerate(items))
            return f"(SELECT DISTINCT ON ({on}) {named} FROM {source}{where} ORDER BY {order})"
        named = ", ".join(f"{item} AS c{i}" for i, item in enumerate(items))
        return f"SELECT {'DISTINCT ' if kind == 'distinct' else ''}{named} FROM {source}{where}"

    def grouped(self, types: list[str], source: str, scope: Scope, where: str, *, whole: bool) -> str:
        """Groups by some of the columns, or one group."""
        items: list[str] = []
        keys: list[str] = []
        for type_ in types:
            if not whole and self.chance(0.5):
                keys.append(self.value(type_, scope, 2))
                items.append(keys[-1])
            else:
                items.append(self.aggregate(type_, scope))
        if not whole and self.chance(0.3):
            keys.append(self.rng.choice(scope).text)
        having = f" HAVING {self.aggregate('int', scope)} > {self.rng.randrange(3)}" if self.chance(0.25) else ""
        by = ""
        if keys:
            plain = all(key.replace(".", "").replace("_", "").isalnum() for key in keys)
            unique = list(dict.fromkeys(keys))
            by = f" GROUP BY {', '.join(unique)}"
            if plain and self.chance(0.3):
                half = unique[: max(1, len(unique) // 2)]
                sets = f"GROUPING SETS (({', '.join(unique)}), ({', '.join(half)}), ())"
                form = self.rng.choice((f"ROLLUP ({', '.join(unique)})", f"CUBE ({', '.join(unique)})", sets))
                by = f" GROUP BY {form}"
                having = " HAVING COUNT(*) > 0"  # Spark has no grand total of no rows
        named = ", ".join(f"{item} AS c{i}" for i, item in enumerate(items))
        return f"SELECT {named} FROM {source}{where}{by}{having}"

    def windowed(self, types: list[str], source: str, scope: Scope, where: str, depth: int) -> str:
        """Window functions among the columns, with QUALIFY or without."""
        items = [self.over(type_, scope) if self.chance(0.6) else self.value(type_, scope, 2) for type_ in types]
        qualify = f" QUALIFY {self.over('int', scope)} <= {self.rng.randint(1, 3)}" if self.chance(0.25) else ""
        named = ", ".join(f"{item} AS c{i}" for i, item in enumerate(items))
        return f"SELECT {named} FROM {source}{where}{qualify}"

    def over(self, type_: str, scope: Scope) -> str:
        """A window function of a type. Where places count, the order is by all columns that have one."""
        comparable = [column for column in scope if column.type in VALUES]
        keys = self.rng.sample(comparable, min(len(comparable), self.rng.choice((0, 1, 1, 2))))
        part = f"PARTITION BY {', '.join(key.text for key in keys)} " if keys else ""
        few = self.rng.sample(comparable, min(len(comparable), 1))
        nested = len(comparable) < len(scope)
        kinds = ["whole", "running", "peers"] if nested else ["whole", "running", "peers", "rows", "near", "place"]
        kind = self.rng.choice(kinds)
        if not comparable or type_ == "bool" or kind == "whole":
            return f"{self.aggregate(type_, scope, over=True)} OVER ({part.strip()})"
        every = ", ".join(self.ordered(column.text) for column in self.rng.sample(comparable, len(comparable)))
        some = ", ".join(self.ordered(column.text) for column in few)
        if kind == "peers" or (kind == "place" and type_ != "int"):
            if type_ == "int":
                return f"{self.rng.choice(('RANK', 'DENSE_RANK'))}() OVER ({part}ORDER BY {some})"
            if type_ == "dbl":
                return f"{self.rng.choice(('PERCENT_RANK', 'CUME_DIST'))}() OVER ({part}ORDER BY {some})"
            kind = "running"
        if kind == "running":
            return f"{self.aggregate(type_, scope, over=True, plain=True)} OVER ({part}ORDER BY {some})"
        if kind == "place":
            return f"{self.rng.choice(('ROW_NUMBER()', 'NTILE(2)'))} OVER ({part}ORDER BY {every})"
        value = self.value(type_, scope, 2)
        if kind == "near":
            call = self.rng.choice(
                (f"LAG({value})", f"LEAD({value}, 2)", f"LAG({value}, 1, {self.rng.choice(LITERALS[type_])})")
            )
            return f"{call} OVER ({part}ORDER BY {every})"
        low = self.rng.choice(("UNBOUNDED PRECEDING", "2 PRECEDING", "1 PRECEDING", "CURRENT ROW"))
        high = self.rng.choice(("CURRENT ROW", "1 FOLLOWING", "UNBOUNDED FOLLOWING"))
        call = self.rng.choice((f"FIRST_VALUE({value})", f"LAST_VALUE({value})", f"NTH_VALUE({value}, 2)", ""))
        call = call or self.aggregate(type_, scope, over=True, plain=True)
        return f"{call} OVER ({part}ORDER BY {every} ROWS BETWEEN {low} AND {high})"

    def relation(self, depth: int) -> tuple[str, Scope]:
        """A table, a common table expression, a subquery, VALUES or a pivot."""
        alias = self.alias()
        if self.common and self.chance(0.3):
            name = self.rng.choice(tuple(self.common))
            return f"{name} {alias}", tuple(Column(f"{alias}.c{i}", t) for i, t in enumerate(self.common[name]))
        if depth < 2 and self.chance(0.25):
            text, types = self.body(depth + 1, None)
            return f"({text}) {alias}", tuple(Column(f"{alias}.c{i}", t) for i, t in enumerate(types))
        if self.chance(0.05):
            return f"(VALUES (1, 'p'), (2, NULL)) {alias}(n, m)", (
                Column(f"{alias}.n", "int"),
                Column(f"{alias}.m", "str"),
            )
        if self.chance(0.05):
            text = self.select(["int", "int", "str"], 2)[0]
            call = self.rng.choice(("SUM(c0)", "MIN(c0)", "MAX(c0)"))  # a COUNT of none is NULL in Spark
            return f"(SELECT * FROM ({text}) PIVOT ({call} FOR c2 IN ('p' AS p, 'q' AS q))) {alias}", tuple(
                Column(f"{alias}.{name}", "int") for name in ("c1", "p", "q")
            )
        if self.chance(0.05):
            text = self.select(["str", "int", "int"], 2)[0]
            return f"(SELECT * FROM ({text}) UNPIVOT (w FOR name IN (c1, c2))) {alias}", (
                Column(f"{alias}.c0", "str"),
                Column(f"{alias}.name", "str"),
                Column(f"{alias}.w", "int"),
            )
        table = self.rng.choice(self.tables)
        return f"{table} {alias}", tuple(Column(f"{alias}.{name}", type_) for name, type_ in COLUMNS[table])

    def source(self, depth: int) -> tuple[str, Scope]:
        """A FROM clause."""
        text, scope = self.relation(depth)
        for _ in range(self.rng.choice((0, 0, 1, 1, 2) if depth < 2 else (0, 0, 1))):
            lists = [column for column in scope if column.type == "list"]
            if lists and self.chance(0.5):
                alias = self.alias()
                text += f" CROSS JOIN UNNEST({lists[0].text}) AS {alias}(o)"
                scope = (*scope, Column(f"{alias}.o", "int"))
                continue
            if depth == 0 and self.chance(0.1):
                made, more = self.lateral(scope)
                text, scope = text + made, (*scope, *more)
                continue
            other, more = self.relation(depth)
            kind = self.rng.choice(JOINS)
            pairs = [(a, b) for a in scope for b in more if a.type == b.type and a.type in VALUES and a.type != "bool"]
            if not pairs:
                if kind in ("JOIN", "LEFT JOIN") and self.chance(0.3):
                    text, scope = f"{text} CROSS JOIN {other}", (*scope, *more)
                continue
            one, two = self.rng.choice(pairs)
            on = f"{one.text} = {two.text}"
            if kind != "FULL JOIN" and self.chance(0.3):  # DuckDB has no FULL JOIN with inequalities
                on += f" AND {self.condition((*scope, *more), 2)}"
            text = f"{text} {kind} {other} ON {on}"
            scope = scope if kind in ("SEMI JOIN", "ANTI JOIN") else (*scope, *more)
        return text, scope

    def lateral(self, scope: Scope) -> tuple[str, Scope]:
        """A subquery in FROM that reads what stands before it."""
        table, name, outer = self.tie(scope)
        alias = self.alias()
        tie = f"q.{name} {self.rng.choice(('=', '=', '<', '<>'))} {outer}"
        call, other = self.rng.choice((("COUNT(*)", "MAX"), ("MIN(q.{})", "SUM")))
        inner = f"SELECT {call.format(name)} AS m, CAST({other}(q.{name}) AS BIGINT) AS o FROM {table} q WHERE {tie}"
        if self.chance(0.5):
            inner = f"SELECT q.{name} AS m, q.{name} + 1 AS o FROM {table} q WHERE {tie}"
            if self.chance(0.4):
                inner += " ORDER BY 1 DESC NULLS LAST LIMIT 2"
        join = self.rng.choice((" CROSS JOIN LATERAL ({}) {}", " LEFT JOIN LATERAL ({}) {} ON TRUE"))
        return join.format(inner, alias), (Column(f"{alias}.m", "int"), Column(f"{alias}.o", "int"))

    def tie(self, scope: Scope) -> tuple[str, str, str]:
        """A table, its column of whole numbers, and such a column of the query around."""
        table, name = self.rng.choice(self.ties)
        outer = [column.text for column in scope if column.type == "int"] or ["1"]
        return table, name, self.rng.choice(outer)

    def where(self, scope: Scope, depth: int) -> str:
        found = [self.condition(scope, depth) for _ in range(self.rng.choice((0, 0, 1, 1, 2)))]
        return f" WHERE {' AND '.join(found)}" if found else ""

    def value(self, type_: str, scope: Scope, depth: int, height: int = 0) -> str:
        """An expression of a type; with ``depth`` below 2 it may hold subqueries."""
        there = [column.text for column in scope if column.type == type_]
        if there and self.chance(0.5 if height == 0 else 0.8):
            return self.rng.choice(there)
        if height > 1:
            return self.rng.choice(LITERALS[type_])

        def part(of: str = type_) -> str:
            return self.value(of, scope, 2, height + 1)

        if type_ == "bool":
            return f"({self.condition(scope, max(depth, 1), height + 1)})"
        if self.chance(0.3):
            condition = self.condition(scope, 2, height + 1)
            return self.rng.choice(
                (
                    f"CASE WHEN {condition} THEN {part()} ELSE {part()} END",
                    f"CASE WHEN {condition} THEN {part()} END",
                    f"COALESCE({part()}, {part()})",
                    f"NULLIF({part()}, {part()})",
                    f"GREATEST({part()}, {part()})",
                )
            )
        return self.rng.choice(self.functions(type_, part, scope, depth))

    def functions(self, type_: str, part: Any, scope: Scope, depth: int) -> list[str]:
        """Some expressions of a type, one per function."""
        if type_ == "int":
            found = [
                f"{part()} + {part()}",
                f"{part()} * {part()}",
                f"{part()} - {part()}",
                f"ABS({part()})",
                f"{part()} % 3",
                f"LENGTH({part('str')})",
                f"YEAR({part('day')})",
                f"EXTRACT(HOUR FROM {part('ts')})",
                f"MONTH({part('ts')})",
                f"CAST({part('bool')} AS BIGINT)",
                f"TRY_CAST({part('str')} AS BIGINT)",
                f"CAST(FLOOR({part('dec')}) AS BIGINT)",
            ]
            found += [f"{column.text}.m" for column in scope if column.type == "box"]
            if depth < 2:
                table, name, outer = self.tie(scope)
                tie = f"q.{name} {self.rng.choice(COMPARISONS)} {outer}"
                found += [
                    f"(SELECT COUNT(*) FROM {table} q WHERE {tie})",
                    f"(SELECT CAST(SUM(q.{name}) AS BIGINT) FROM {table} q)",
                    f"(SELECT MAX(q.{name} + {outer}) FROM {table} q WHERE {tie})",
                    f"(SELECT q.{name} FROM {table} q WHERE {tie} ORDER BY 1 DESC NULLS LAST LIMIT 1)",
                    f"(SELECT q.v FROM t q WHERE q.k = {outer})",
                    f"(SELECT COUNT(*) FROM {table} q, s w WHERE {tie} AND w.b = q.{name})",
                ] * 2
            return [f"CAST({one} AS BIGINT)" for one in found]
        found = {
            "str": [
                f"UPPER({part()})",
                f"{part()} || {part()}",
                f"SUBSTRING({part()}, 1, 1)",
                f"CAST({part('int')} AS VARCHAR)",
                f"CAST({part('day')} AS VARCHAR)",
                f"REPLACE({part()}, 'p', 'zz')",
                f"MD5({part()})",
                f"LPAD({part()}, 3, '*')",
                f"REVERSE({part()})",
                f"TRIM({part()})",
            ],
            "dbl": [
                f"CAST({part('int')} AS DOUBLE)",
                f"CAST({part('dec')} AS DOUBLE)",
                f"{part()} + {part()}",
                f"{part()} * CAST(0.5 AS DOUBLE)",
                f"ABS({part()})",
                f"-({part()})",
            ],
            "dec": [
                f"CAST({part('int')} AS DECIMAL(18,2))",
                f"CAST({part()} + {part()} AS DECIMAL(18,2))",
                f"CAST({part()} * 2 AS DECIMAL(18,2))",
                f"CAST(ROUND({part()}, 1) AS DECIMAL(18,2))",
                f"ABS({part()})",
            ],
            "day": [
                f"CAST({part('ts')} AS DATE)",
                f"CAST(DATE_TRUNC('month', {part()}) AS DATE)",
                f"CAST({part()} + INTERVAL '1' MONTH AS DATE)",
                f"CAST({part()} - INTERVAL '1' DAY AS DATE)",
                f"LAST_DAY({part()})",
            ],
            "ts": [
                f"CAST({part('day')} AS TIMESTAMP)",
                f"{part()} + INTERVAL '90' MINUTE",
                f"CAST(DATE_TRUNC('hour', {part()}) AS TIMESTAMP)",
                f"{part()} - INTERVAL '1' MONTH",
            ],
        }[type_]
        found += [f"{column.text}.s" for column in scope if column.type == "box" and type_ == "str"]
        return found

    def condition(self, scope: Scope, depth: int, height: int = 0) -> str:
        """A truth value; with ``depth`` below 2 it may hold subqueries."""
        types = [column.type for column in scope if column.type in ORDERED]
        type_ = self.rng.choice(types or ORDERED)
        at = height + 1
        one, two = self.value(type_, scope, 2, at), self.value(type_, scope, 2, at)
        simple = [
            f"{one} {self.rng.choice(COMPARISONS)} {two}",
            f"{one} {self.rng.choice(COMPARISONS)} {two}",
            f"{one} IS {self.rng.choice(('', 'NOT '))}NULL",
            f"{one} BETWEEN {self.rng.choice(LITERALS[type_])} AND {two}",
            f"{one} {self.rng.choice(('', 'NOT '))}IN ({', '.join(self.rng.sample(LITERALS[type_], 2))})",
            f"{self.value('str', scope, 2, at)} LIKE {self.rng.choice(('%p%', '_', '1%')).join(chr(39) * 2)}",
            *(f"list_contains({column.text}, 1)" for column in scope if column.type == "list"),
            *(column.text for column in scope if column.type == "bool"),
        ]
        if height == 0 and self.chance(0.25):
            more = self.condition(scope, depth, at)
            return self.rng.choice(
                (f"({self.rng.choice(simple)} OR {more})", f"NOT ({more})", f"({more} AND {self.rng.choice(simple)})")
            )
        if depth > 1 or self.chance(0.5):
            return self.rng.choice(simple)
        table, name, outer = self.tie(scope)
        tie = f"q.{name} {self.rng.choice(COMPARISONS)} {outer}"
        sign = self.rng.choice(("", "NOT "))
        return self.rng.choice(
            (
                f"{sign}EXISTS (SELECT 1 FROM {table} q WHERE {tie})",
                f"{sign}EXISTS (SELECT 1 FROM {table} q JOIN s w ON w.b = q.{name} WHERE {tie} AND w.c <> 'q')",
                f"{sign}EXISTS (SELECT 1 FROM {table} q WHERE {tie} GROUP BY q.{name} HAVING COUNT(*) > 1)",
                f"{outer} {sign}IN (SELECT q.{name} FROM {table} q)",
                f"{outer} {self.rng.choice(COMPARISONS[:8])} {self.rng.choice(('ANY', 'ALL'))} "
                f"(SELECT q.{name} FROM {table} q)",
                f"{one} {sign}IN ({self.select([type_], 2)[0]})",
                f"{outer} >= (SELECT MIN(q.{name}) FROM {table} q WHERE q.{name} = {outer})",
            )
        )

    def aggregate(self, type_: str, scope: Scope, *, over: bool = False, plain: bool = False) -> str:
        """An aggregate of a type. ``over``: in front of OVER; ``plain``: with a part of the partition."""

        def part(of: str) -> str:
            return self.value(of, scope, 2, 1)

        ends = [f"MIN({part(type_)})", f"MAX({part(type_)})"] if type_ != "bool" else []
        found = {
            "int": ["COUNT(*)", f"COUNT({part(self.rng.choice(VALUES))})", f"SUM({part('int')})"],
            "dbl": [
                f"AVG({part('int')})",
                f"SUM({part('dbl')})",
                f"VAR_POP({part('int')})",
                f"STDDEV_SAMP({part('int')})",
            ],
            "dec": [f"SUM({part('dec')})"],
            "bool": [f"BOOL_AND({part('bool')})", f"BOOL_OR({part('bool')})"],
        }.get(type_, [])
        if not plain and not over:
            found += {
                "int": [
                    f"COUNT(DISTINCT {part(self.rng.choice(VALUES))})",
                    f"SUM(DISTINCT {part('int')})",
                    f"BIT_OR({part('int')})",
                ],
                "dbl": [
                    f"MEDIAN({part('int')})",
                    f"QUANTILE_CONT({part('int')}, 0.25)",
                    f"AVG(DISTINCT {part('int')})",
                ],
                "str": self.joined(part("str")),
            }.get(type_, [])
        call = self.rng.choice([*found, *ends])
        if self.chance(0.2) and "FILTER" not in call:
            call += f" FILTER (WHERE {self.condition(scope, 2)})"
        if over:
            return call
        return f"CAST({call} AS {NAMED[type_]})" if type_ in ("int", "dec", "dbl") else call

    def joined(self, part: str) -> list[str]:
        order = self.rng.choice(("ASC", "DESC"))
        return [f"STRING_AGG({part}, ',' ORDER BY {part} {order})", f"STRING_AGG(DISTINCT {part}, '-' ORDER BY {part})"]
