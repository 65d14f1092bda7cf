"""Recursive CTEs. Part of `plans.frontends.sql`.

Those that read a table are only marked here; `plans.frontends.sql.relations.fixpoints` translates them.

The others, such as the days of a year, are constant. Their rows are computed when the query is read, and become an
array of constants::

    WITH RECURSIVE d AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM d WHERE n < 3)
    ->  WITH d AS (SELECT * FROM UNNEST(FROM_JSON('[{"c0":1},{"c0":2},{"c0":3}]', 'array<struct<c0:int32>>')) AS d(n))
"""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from sqlglot import exp

from plans.errors import PlanError
from plans.expressions.build import Expr, call, cast, col
from plans.expressions.coercion import common
from plans.expressions.evaluate import Evaluator
from plans.frontends.recursive import components
from plans.frontends.sql.refuse import Text
from plans.frontends.sql.scalars.scalar import scalar
from plans.frontends.sql.scope import value_of
from plans.frontends.sql.shape import unwrapped
from plans.frontends.sql.text.nodes import call as called
from plans.frontends.sql.text.nodes import literal, nodes
from plans.frontends.sql.text.place import extent, placed
from plans.nested import array_of, struct_of
from plans.types import arrow_type

_MOST = 10_000
"""The greatest number of rows. A query of more rows would be slow to read."""
_MOMENTS = {"date", "timestamp_ntz"}
"""Types of which the first rows decide: a day plus an INTERVAL is a day again."""
_UNION = {"this", "expression", "distinct"}
_STEP = {"expressions", "from_", "from", "where", "kind"}


def with_recursions(root: exp.Expression, tables: Container[str], text: Text) -> exp.Expression:
    """Replaces CTEs that read themselves by their rows if they are constant. Marks other CTEs that read themselves or
    each other."""
    for clause in nodes(root, exp.With):
        for cte in clause.expressions:
            if reads_of(cte.this, cte.alias) and (clause.args.get("recursive") or cte.alias not in tables):
                constants = _Recursion.of(cte, text)
                if constants is not None:
                    cte.set("this", placed(constants.rows(), extent(cte)))
        _mark(clause, tables, text)
        clause.set("recursive", None)
    for select in nodes(root, exp.Query):
        if all(option.name.upper() == "MAXRECURSION" for option in select.args.get("options") or ()):
            select.set("options", None)  # SQL Server stops a recursion after so many rounds
    return root


RECURSIVE = "recursive"
"""The mark of the query of a recursive CTE: the names of the CTEs that read each other, and of the plain queries among
them, in lower case."""


def _mark(clause: exp.With, tables: Container[str], text: Text) -> None:
    """Marks recursive CTEs. In WITH RECURSIVE, CTEs are put behind those that they read."""
    named = {cte.alias.lower(): cte for cte in clause.expressions}
    if len(named) < len(clause.expressions):
        twice = next(cte for cte in clause.expressions if named[cte.alias.lower()] is not cte)
        raise text.error(f"two queries in WITH are called {twice.alias}", named[twice.alias.lower()], "rename one")
    free = bool(clause.args.get("recursive"))
    reads: dict[str, list[str]] = {}
    for name, cte in named.items():
        reads[name] = [
            other for other in named if (free or (other == name not in tables)) and reads_of(cte.this, other)
        ]
        later = next((one for one in reads[name] if one not in (*reads, name) and one in tables), None)
        if later is not None:
            what = f"{cte.alias} reads {named[later].alias}, which is a table and a query that follows in WITH"
            raise text.error(what, cte, "give the query another name")
    order: list[str] = []
    for names in components(reads):
        if len(names) == 1 and names[0] not in reads[names[0]]:
            order += names
            continue
        if clause.args.get("search") is not None:
            hint = "leave it out: with UNION, each row is there once, also in a circle"
            raise text.error("SEARCH and CYCLE are not supported", clause.args["search"], hint)
        plain = [name for name in names if _is_plain(named[name], reads[name])]
        inner = components({name: [one for one in reads[name] if one in plain] for name in plain})
        parts = [group[0] for group in inner if len(group) == 1]  # others read each other without a UNION
        unions = [name for name in names if name not in parts]
        for name in unions:
            unwrapped(named[name].this).meta[RECURSIVE] = unions, parts
        order += [*unions, *parts]
    if free:
        clause.set("expressions", [named[name] for name in order])


def _is_plain(cte: exp.CTE, reads: Collection[str]) -> bool:
    """Returns whether a CTE is a SELECT that neither groups nor drops duplicates, and does not read itself."""
    query = unwrapped(cte.this)
    plain = isinstance(query, exp.Select) and not (query.args.get("distinct") or query.args.get("group"))
    return plain and cte.alias.lower() not in reads and not cte.args.get("key_expressions")


def reads_of(node: exp.Expression, name: str) -> list[exp.Table]:
    """Returns the occurrences of a CTE, by its name, in a query."""
    return [table for table in nodes(node, exp.Table) if table.name.lower() == name.lower() and not table.db]


class _Recursion:
    """A recursive CTE: rows of constants, and a SELECT that makes new rows of the rows of the step before."""

    @classmethod
    def of(cls, cte: exp.CTE, text: Text) -> _Recursion | None:
        """Returns the recursion of a CTE, or None if it reads tables."""
        union = unwrapped(cte.this)
        plain = isinstance(union, exp.Union) and {name for name, value in union.args.items() if value} <= _UNION
        plain = plain and not cte.args.get("key_expressions")
        first = cls._constants(union.this) if plain else None
        step = unwrapped(union.expression) if plain else None
        if first is None or not isinstance(step, exp.Select) or not cls._is_step(step, cte):
            return None
        return cls(cte, text, first, step)

    def __init__(self, cte: exp.CTE, text: Text, first: list[list[exp.Expression]], step: exp.Select) -> None:
        self._cte = cte
        self._text = text
        self._distinct = bool(unwrapped(cte.this).args.get("distinct"))
        self._step = step
        names = [item.alias_or_name or f"col{place}" for place, item in enumerate(first[0], 1)]
        self._names = cte.alias_column_names or names
        for row in (*first, step.expressions):
            if len(row) != len(self._names):
                raise text.error(f"this has {len(row)} columns, but {cte.alias} has {len(self._names)}", row[0])
        source = (step.args.get("from_") or step.args["from"]).this
        self._alias = (source.alias or source.name).lower()
        self._first = [[self._value(item, ()) for item in row] for row in first]

    @classmethod
    def _constants(cls, node: exp.Expression) -> list[list[exp.Expression]] | None:
        """Returns the rows of a query without tables, or None for another query."""
        node = unwrapped(node)
        if isinstance(node, exp.Union) and node.args.get("distinct") is False:
            both = cls._constants(node.this), cls._constants(node.expression)
            return None if both[0] is None or both[1] is None else both[0] + both[1]
        if isinstance(node, exp.Values):
            return [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
        if not isinstance(node, exp.Select):
            return None
        clauses = {name for name, value in node.args.items() if value}
        source = node.args.get("from_") or node.args.get("from")
        if source is not None and isinstance(source.this, exp.Values) and len(node.expressions) == 1:
            return cls._constants(source.this) if clauses <= _STEP and node.expressions[0].is_star else None
        return [node.expressions] if clauses <= {"expressions", "kind"} else None

    @staticmethod
    def _is_step(select: exp.Select, cte: exp.CTE) -> bool:
        """Returns whether a SELECT reads only the rows of the step before."""
        clause = select.args.get("from_") or select.args.get("from")
        source = clause.this if clause is not None else None
        if not isinstance(source, exp.Table) or source.name.lower() != cte.alias.lower():
            return False
        known = {name for name, value in select.args.items() if value} <= _STEP and not source.args.get("joins")
        return known and len(nodes(select, exp.Query, exp.Window, exp.AggFunc)) == 1

    def _value(self, item: exp.Expression, types: Sequence[str]) -> Expr:
        def resolve(part: Any) -> Expr | None:
            if not isinstance(part, exp.Column):
                return None
            known = [name.lower() for name in self._names]
            if not types or part.name.lower() not in known or part.table.lower() not in ("", self._alias):
                raise self._text.error(f"unknown column {part.name}", part)
            place = known.index(part.name.lower())
            return col(f"c{place}", types[place])

        return self._text.guarded(item, partial(scalar, value_of(item), resolve, self._text.text))

    def _types(self) -> list[str]:
        """Returns the types of the columns, which are those of the first rows."""
        found = [expr.type for expr in self._first[0]]
        for row in self._first:
            found = [self._common(place, found[place], expr.type) for place, expr in enumerate(row)]
        for place, item in enumerate(self._step.expressions):
            other = self._value(item, found).type
            if not {found[place], other} <= _MOMENTS and self._common(place, found[place], other) != found[place]:
                raise self._mixed(place, found[place], other)
        return found

    def _common(self, place: int, one: str, other: str) -> str:
        both = common(one, other)
        if both is None or both == "null":
            raise self._mixed(place, one, other)
        return both

    def _mixed(self, place: int, one: str, other: str) -> PlanError:
        what = f"column {self._names[place]} has the type {other} here and {one} before"
        return self._text.error(what, self._cte, "cast one of them")

    def rows(self) -> exp.Select:
        """Returns the rows as a query. Raises PlanError if there are too many."""
        types = self._types()
        fields = [f"c{place}" for place in range(len(types))]
        where = self._step.args.get("where")
        kept = Evaluator([self._value(where.this, types)]) if where is not None else None
        items = zip(self._step.expressions, types, strict=True)
        step = Evaluator([cast(self._value(item, types), kind) for item, kind in items])
        now = [
            pa.concat_arrays([cast(row[place], kind).evaluate({}, 1) for row in self._first])
            for place, kind in enumerate(types)
        ]
        found, count, known = [now], len(now[0]), set(_rows(now))
        while len(now[0]):
            if kept is not None:
                (mask,) = kept.evaluate(dict(zip(fields, now, strict=True)), len(now[0]))
                now = [array.filter(mask) for array in now]
            now = step.evaluate(dict(zip(fields, now, strict=True)), len(now[0])) if len(now[0]) else now
            now = _unknown(now, known) if self._distinct else now
            found.append(now)
            count += len(now[0])
            if count > _MOST:
                what = f"{self._cte.alias} has more than {_MOST} rows, or does not end"
                raise self._text.error(what, self._cte, "add a condition that ends it, or put its rows into a table")
        columns = [pa.concat_arrays([part[place] for part in found]) for place in range(len(types))]
        return self._query(pa.StructArray.from_arrays(columns, fields), types)

    def _query(self, rows: pa.StructArray, types: Sequence[str]) -> exp.Select:
        kind = array_of(struct_of([field.name for field in rows.type], types))
        whole = pa.ListArray.from_arrays(pa.array([0, len(rows)], pa.int32()), rows).cast(arrow_type(kind))
        json = call("write_json", col("rows", kind)).evaluate({"rows": whole})[0].as_py()
        names = [exp.to_identifier(name) for name in self._names]
        alias = exp.TableAlias(this=exp.to_identifier(self._cte.alias), columns=names)
        array = exp.Unnest(expressions=[called("FROM_JSON", literal(json), literal(kind))], alias=alias)
        return exp.Select(expressions=[exp.Star()], from_=exp.From(this=array))


def _rows(columns: list[pa.Array]) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def _unknown(columns: list[pa.Array], known: set[tuple[Any, ...]]) -> list[pa.Array]:
    """Returns the different rows that are not known yet, and adds them to the known ones."""
    kept = []
    for place, row in enumerate(_rows(columns)):
        if row not in known:
            known.add(row)
            kept.append(place)
    return [column.take(pa.array(kept, pa.int64())) for column in columns]
