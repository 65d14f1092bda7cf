"""ORDER BY with LIMIT, and ROW_NUMBER() with a bound: the first rows of a query, or of each group.

Part of `plans.frontends.sql`. What is ordered or grouped by and not selected becomes a hidden column. QUALIFY, and a
derived table whose ROW_NUMBER() the query around it compares in WHERE, are the same thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from plans.errors import PlanError
from plans.frontends.sql.grouping import Grouping
from plans.frontends.sql.refuse import NO_ORDER
from plans.frontends.sql.scalars.names import Ctes
from plans.frontends.sql.scope import Scope, output_name
from plans.frontends.sql.text.place import spelling
from plans.program import Order
from plans.queries.algebra import Query, Relation, Top, unused

_Output = tuple[str, exp.Expression | None]  # a name, and the expression that it stands for
_CLAUSES = ("order", "limit", "offset", "qualify")
_MOST = 2**31 - 1
_BOUNDED = "write it where it is compared: QUALIFY ROW_NUMBER() OVER (...) <= 3, or WHERE n <= 3 around it"
_RANKS = (exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile)
_FLIPPED = {exp.LTE: exp.GTE, exp.LT: exp.GT, exp.EQ: exp.EQ, exp.GTE: exp.LTE, exp.GT: exp.LT}


@dataclass(frozen=True)
class _Numbered:
    """A condition on the position of a row: `limit` rows behind the first `offset` of `window`."""

    window: exp.Window
    offset: int
    limit: int


def limited(node: Any) -> bool:
    """Returns whether a query picks rows by their order."""
    return any(node.args.get(name) for name in _CLAUSES)


def hoisted(root: exp.Expression) -> exp.Expression:
    """Returns a syntax tree in which parentheses around a query carry no ORDER BY and LIMIT: the query inside of them
    does, unless it has its own."""
    for node in list(root.find_all(exp.Subquery)):
        inner = node.this
        plain = isinstance(inner, exp.Query) and not (limited(inner) or node.alias or node.args.get("joins"))
        if limited(node) and plain:
            for name in _CLAUSES:
                inner.set(name, node.args.get(name))
                node.set(name, None)
    return root


class Ordering(Grouping):
    """Reads queries that pick rows by their order."""

    def top(self, node: exp.Expression, ctes: Ctes, outer: Scope | None) -> Relation:
        """Returns the relation of a query with ORDER BY, LIMIT, OFFSET or QUALIFY."""
        bare = node.copy()
        for name in _CLAUSES:
            bare.set(name, None)
        order: exp.Order | None = node.args.get("order")
        limit, offset, qualify = (node.args.get(name) for name in ("limit", "offset", "qualify"))
        if limit is None and (order is not None or offset is not None):
            words, clause = ("ORDER BY", order) if order is not None else ("OFFSET", offset)
            raise self.error(f"{words} without LIMIT is not supported", node, NO_ORDER, self.phrase(words, clause))
        relation = None if qualify is None else self.qualified(bare, qualify.this, ctes, outer)
        if relation is not None and limit is None:
            return relation
        assert limit is not None, "one of the clauses is there"
        if order is None:
            word = "FETCH" if isinstance(limit, exp.Fetch) else "LIMIT"
            hint, at = "say which rows: ORDER BY ... LIMIT ...", self.phrase(word, limit)
            raise self.error(f"{word} without ORDER BY is not supported", node, hint, at)
        hidden = 0
        if relation is None:
            relation, keys, hidden = self.with_columns(bare, [one.this for one in _items(order)], ctes, outer, True)
        else:
            keys = [self.output(one.this, relation) for one in _items(order)]
        first = 0 if offset is None else self.whole(offset.expression, "OFFSET")
        return Top(relation, (), self.orders(order, keys), self.rows(limit), first, hidden, relation.warnings)

    def output(self, node: exp.Expression, relation: Relation) -> str:
        """Returns the output column that ORDER BY names behind QUALIFY."""
        names = {column.name.lower(): column.name for column in relation.columns}
        found = self.ordinal(node, list(names.values())) or self.named(node, names)
        if found is None:
            raise self.error("behind QUALIFY, ORDER BY takes the names of output columns", node, "select it, too")
        return found

    def rows(self, limit: exp.Expression) -> int:
        """Returns the number of rows that LIMIT or FETCH FIRST names."""
        if not isinstance(limit, exp.Fetch):
            return self.whole(limit.expression, "LIMIT")
        options = limit.args.get("limit_options")
        if options is not None and (options.args.get("with_ties") or options.args.get("percent")):
            raise self.error("FETCH takes a number of rows only", limit, "write LIMIT", self.phrase("FETCH", limit))
        return self.whole(limit.args.get("count"), "FETCH")

    def whole(self, node: Any, clause: str) -> int:
        """Returns the number that LIMIT or OFFSET is given."""
        if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit():
            value = int(node.this)
            if value <= _MOST:
                return value
        raise self.error(f"{clause} takes a whole number up to {_MOST}", node)

    def orders(self, order: exp.Order, keys: list[str]) -> tuple[Order, ...]:
        """Returns the order of columns; the first time that a column stands counts."""
        found: dict[str, Order] = {}
        for one, key in zip(_items(order), keys, strict=True):
            if one.args.get("with_fill"):
                raise self.error("WITH FILL is not supported", one)
            found.setdefault(key, Order(key, bool(one.args.get("desc")), not one.args.get("nulls_first")))
        return tuple(found.values())

    def with_columns(
        self, bare: exp.Expression, wanted: list[exp.Expression], ctes: Ctes, outer: Scope | None, ordinals: bool
    ) -> tuple[Relation, list[str], int]:
        """Returns the relation of a query with columns for expressions: their names, and how many are hidden.

        `ordinals`, as in ORDER BY: a number is a position, and a name means an output column before it means one of the
        tables. Otherwise, as in a window, it means one of the tables first.
        """
        whole = isinstance(bare, exp.SetOperation) or any(item.is_star for item in bare.expressions)
        relation = self.read(bare, ctes, outer) if whole else None
        shown = {} if isinstance(bare, exp.SetOperation) else _shown(bare)
        if relation is not None:
            shown = {column.name.lower(): (column.name, None) for column in relation.columns} | shown
        usable = shown if ordinals else self.unlike(bare, shown, wanted, ctes, outer)
        by_name = {key: name for key, (name, _) in usable.items()}
        made = list(shown.values())  # and the hidden ones, which nothing can name
        names = [name for name, _ in made]
        keys: list[str] = []
        hidden: list[exp.Expression] = []
        for one in wanted:
            key = (self.ordinal(one, names) if ordinals else None) or self.named(one, by_name)
            if key is None:
                one = _resolved(one, usable)
                key = next((name for name, known in made if known is not None and known == one), None)
            if key is None:
                if isinstance(bare, exp.SetOperation):
                    raise self.error("ORDER BY of a set operation takes the names of its columns", one)
                if bare.args.get("distinct"):
                    raise self.error("with DISTINCT, ORDER BY takes what is selected", one, "select it, too")
                if isinstance(one, exp.Literal):
                    raise self.error(f"{one} orders nothing", one, "leave it out")
                key = unused("o", [*(name for name, _ in made), "_weight"])
                made.append((key, one))
                alias = exp.Alias(this=one.copy(), alias=exp.to_identifier(key, quoted=True))
                alias.meta.update(one.meta)
                hidden.append(alias)
            keys.append(key)
        if hidden:
            bare.set("expressions", [*bare.expressions, *hidden])
        if relation is None or hidden:
            relation = self.read(bare, ctes, outer)
        spelled = {column.name.lower(): column.name for column in relation.columns}
        return relation, [spelled[key.lower()] for key in keys], len(hidden)

    def unlike(
        self,
        bare: exp.Expression,
        shown: dict[str, _Output],
        wanted: list[exp.Expression],
        ctes: Ctes,
        outer: Scope | None,
    ) -> dict[str, _Output]:
        """Returns the output columns but those that are called as a column of the tables and are something else."""
        read = {column.name.lower() for one in wanted for column in one.find_all(exp.Column) if not column.table}
        found = dict(shown)
        for key in read & set(shown):
            name, made = shown[key]
            if made is None or (isinstance(made, exp.Column) and made.name.lower() == key):
                continue
            probe = bare.copy()
            column = exp.Column(this=exp.to_identifier(name, quoted=True))
            probe.set("expressions", [exp.Alias(this=column, alias=exp.to_identifier("x"))])
            with suppress(PlanError), self.looking():  # that no table has it
                self.read(probe, ctes, outer)
                del found[key]
        return found

    def ordinal(self, node: exp.Expression, names: list[str]) -> str | None:
        """Returns the output column that a number stands for; None if the expression is no number."""
        if not isinstance(node, exp.Literal) or node.is_string:
            return None
        position = int(node.this) if str(node.this).isdigit() else 0
        if not 1 <= position <= len(names):
            raise self.error(f"ORDER BY {node.this}: there is no such output column", node)
        return names[position - 1]

    def named(self, node: exp.Expression, names: dict[str, str]) -> str | None:
        """Returns the output column that a name means; None if it means none."""
        plain = isinstance(node, exp.Column) and not node.table
        return names.get(node.name.lower()) if plain else None

    # ROW_NUMBER() -----------------------------------------------------------------------------------------------------

    def qualified(self, bare: exp.Expression, condition: exp.Expression, ctes: Ctes, outer: Scope | None) -> Relation:
        """Returns the relation of a SELECT with QUALIFY."""
        assert isinstance(bare, exp.Select)
        windows = {key: made for key, (_, made) in _shown(bare).items() if isinstance(made, exp.Window)}
        found = self.numbered(condition, windows)
        if found is None:
            raise self.error("this QUALIFY is not supported", condition, "write ROW_NUMBER() OVER (...) <= 3")
        for item in bare.expressions:
            if isinstance(item.unalias(), exp.Window):
                raise self.error(
                    "the number itself is not maintained, it would change in many rows at once",
                    item,
                    "leave it out of SELECT",
                )
        distinct = bare.args.get("distinct")
        bare.set("distinct", None)
        window: exp.Window = found.window
        order: exp.Order = window.args["order"]
        by = list(window.args.get("partition_by") or ())
        wanted = [*by, *(one.this for one in _items(order))]
        relation, keys, hidden = self.with_columns(bare, wanted, ctes, outer, False)
        orders = self.orders(order, keys[len(by) :])
        made = Top(
            relation,
            tuple(dict.fromkeys(keys[: len(by)])),
            orders,
            found.limit,
            found.offset,
            hidden,
            relation.warnings,
        )
        return self.over(made, True) if distinct else made

    def over(self, relation: Relation, distinct: bool = False) -> Query:
        """Returns a query for all columns of a relation."""
        source = self.derived(relation, "rows")
        outputs = tuple((column.name, source.qualified(column.name)) for column in relation.columns)
        return Query(self.text, (source,), (), outputs, distinct, warnings=relation.warnings)

    def numbered(self, condition: exp.Expression, windows: Mapping[str, exp.Expression]) -> _Numbered | None:
        """Returns what a condition says of the position of a row; None if it says something else.

        `windows`: the names that stand for windows.
        """
        node: Any = condition.unnest()
        if isinstance(node, exp.Between):
            window = self.window(node.this, windows)
            low, high = self.position(node.args["low"]), self.position(node.args["high"])
            if window is None or low is None or high is None:
                return None
            return _Numbered(window, max(low, 1) - 1, max(0, high - max(low, 1) + 1))
        kind = type(node)
        if kind not in _FLIPPED:
            return None
        left, right = node.this, node.expression
        if isinstance(left.unnest(), exp.Literal):
            left, right, kind = right, left, _FLIPPED[kind]
        window, bound = self.window(left, windows), self.position(right)
        if window is None or bound is None or kind not in (exp.LTE, exp.LT, exp.EQ):
            return None
        if kind is exp.EQ:
            return _Numbered(window, max(bound, 1) - 1, 1 if bound else 0)
        return _Numbered(window, 0, bound if kind is exp.LTE else max(bound - 1, 0))

    def position(self, node: Any) -> int | None:
        """Returns a whole number that is written out; None for everything else."""
        node = node.unnest()
        return self.whole(node, "ROW_NUMBER() <=") if isinstance(node, exp.Literal) else None

    def window(self, node: Any, windows: Mapping[str, exp.Expression]) -> exp.Window | None:
        """Returns the ROW_NUMBER() that an expression is; None if it is no window function."""
        node = node.unnest()
        if isinstance(node, exp.Column):
            node = windows.get(node.name.lower(), node)
        if not isinstance(node, exp.Window):
            return None
        if not isinstance(node.this, (exp.RowNumber, *_RANKS)):
            raise self.error("a window function (OVER) is not supported", node, "compute it where the result is read")
        if not isinstance(node.this, exp.RowNumber):
            word = spelling(self.text, node.this)
            raise self.error(
                f"{word} is not supported", node, "ROW_NUMBER() OVER (... ORDER BY ...) <= k keeps k rows of each group"
            )
        if node.this.this is not None:
            raise self.error("ROW_NUMBER() takes no argument", node)
        if node.args.get("spec") is not None or node.args.get("alias") is not None:
            raise self.error("ROW_NUMBER() takes PARTITION BY and ORDER BY only", node)
        if node.args.get("order") is None:
            raise self.error("ROW_NUMBER() without ORDER BY is not supported", node, "say which rows come first")
        return node

    def subquery(
        self,
        body: exp.Expression,
        alias: str,
        names: tuple[str, ...],
        ctes: Ctes,
        group: int,
        scope: Scope,
        node: exp.Expression,
    ) -> None:
        """Adds a subquery; a bound on its ROW_NUMBER() is taken from WHERE around it."""
        while isinstance(body, (exp.Subquery, exp.Paren)):
            body = body.this
        windows = {} if not isinstance(body, exp.Select) or names else _windows(body)
        if len(windows) != 1 or limited(body):
            super().subquery(body, alias, names, ctes, group, scope, node)
            return
        ((number, window),) = windows.items()
        for condition in self.pending:
            mine = [c for c in condition.find_all(exp.Column) if c.name.lower() == number]
            if any(c.table.lower() not in ("", alias.lower()) for c in mine) or not mine:
                continue
            if self.numbered(condition, {number: window}) is None:
                raise self.error("this condition on ROW_NUMBER() is not supported", condition, "write n <= 3")
            self.pending.remove(condition)
            inner = body.copy()
            kept = [item for item in inner.expressions if not isinstance(item.unalias(), exp.Window)]
            inner.set("expressions", kept)
            bound = exp.Paren(this=condition.copy())
            for column in list(bound.find_all(exp.Column)):
                column.replace(window.copy())
            inner.set("qualify", exp.Qualify(this=bound.this))
            super().subquery(inner, alias, names, ctes, group, scope, node)
            scope.relations[-1].number = number
            return
        if self.window(window, {}) is not None:
            raise self.error("ROW_NUMBER() without a bound is not supported", window, _BOUNDED)


def _items(order: exp.Order) -> list[exp.Ordered]:
    return list(order.expressions)


def _shown(node: exp.Expression) -> dict[str, _Output]:
    """Returns the output columns of a SELECT by their names in lower case: name and expression; those of * are not
    known."""
    found: dict[str, _Output] = {}
    for index, item in enumerate(node.expressions):
        if not item.is_star:
            name = output_name(item, index)
            found.setdefault(name.lower(), (name, item.unalias()))
    return found


def _windows(node: exp.Expression) -> dict[str, exp.Expression]:
    """Returns the window functions that a SELECT has as output columns, by their names in lower case."""
    return {key: made for key, (_, made) in _shown(node).items() if isinstance(made, exp.Window)}


def _resolved(node: exp.Expression, shown: dict[str, _Output]) -> exp.Expression:
    """Returns an expression in which the names of output columns stand for what they are."""
    root = exp.Paren(this=node.copy())
    for column in list(root.find_all(exp.Column)):
        made = shown.get(column.name.lower(), ("", None))[1] if not column.table else None
        if made is not None and made != column:
            column.replace(exp.Paren(this=made.copy()))
    found: exp.Expression = root.this
    return found
