"""Window functions. Part of `plans.frontends.sql`.

The rows that a window function sees are a relation of their own, with a column for all that the function reads. What it
returns is one more column of that, which the SELECT list, QUALIFY and ORDER BY read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from plans.expressions.build import Expr, call, cast, col, mean, of_units, units
from plans.expressions.coercion import common
from plans.frames import NEIGHBOURS, PICKED, RANKS, WindowFunction
from plans.frontends.aggregates import NAMES, result_type
from plans.frontends.frames import below, count_of, default_frame
from plans.frontends.rewrites import double_mean
from plans.frontends.sql.groups.aggregates import WRAPPERS, aggregates, function_of
from plans.frontends.sql.ordering import Columns, Item, orders
from plans.frontends.sql.over.framed import OWN, frame_in, spelled
from plans.frontends.sql.over.partitions import Partitions, of_all
from plans.frontends.sql.scope import Frame, Scope
from plans.frontends.sql.shape import limited
from plans.frontends.sql.text.made import is_known
from plans.frontends.sql.text.place import place_of, spelling
from plans.frontends.sql.values import Meaning, scalar
from plans.program import Order
from plans.queries.algebra import Over, Relation
from plans.types import INTERVALS, decimal_parts


@dataclass(frozen=True)
class Call:
    """A window function over columns of the rows. `length`: it is that of the units of a length of time of this
    type."""

    node: exp.Window
    keys: tuple[str, ...]
    order: tuple[Order, ...]
    function: WindowFunction
    length: str = ""


class Windows:
    """The window functions of a SELECT: `below` are the columns of the rows that they see.

    A value over window functions reads these columns, and those of the functions, as columns whose names begin with @.
    """

    def __init__(
        self,
        below: Columns,
        plain: Callable[[exp.Expression, Meaning], Expr],
        scope: Scope,
        defined: Sequence[exp.Window] = (),
    ) -> None:
        self.below, self.plain, self.scope = below, plain, scope
        self.defined = {one.this.name.lower(): one for one in defined}  # by the WINDOW clause
        self.calls: list[Call] = []
        self.whole: dict[tuple[str, ...], Partitions] = {}  # by what they are partitioned by
        self.outside: set[str] = set()  # columns of the rows that values over window functions read
        self.named: dict[str, Expr] = {}  # what the aliases of the SELECT list stand for
        self.selected: dict[str, Expr] = {}  # the same, of the rows: of what is no window function

    def add(self, item: Item) -> None:
        """Adds a column of the rows that is selected."""
        self.below.items.append(item)
        if item.node.alias:
            self.selected.setdefault(item.node.alias.lower(), item.expr)

    def column(self, name: str) -> Expr:
        """Returns a column of the rows."""
        found = next(item for item in (*self.below.items, *self.below.hidden) if item.name == name)
        return col(f"@{name}", found.expr.type)

    def value(self, node: exp.Expression, meaning: Meaning | None = None) -> Expr:
        """Returns a value over columns of the rows and window functions; names of columns come before aliases."""

        def of(part: exp.Expression) -> Expr | None:
            found = meaning(part) if meaning is not None else None
            if found is not None:
                return found
            if isinstance(part, exp.Window):
                return self.call(part)
            columns = list(part.find_all(exp.Column))
            if isinstance(part, exp.Column) and self._unlike(part) in self.named:
                return self.named[self._unlike(part)]
            outside = any(self._unlike(column) in self.named for column in columns)
            outside = outside or (meaning is not None and any(meaning(column) is not None for column in columns))
            reads = columns or next(aggregates(part), None) is not None
            if not reads or outside or contains_window(part):
                return None
            name = self._read(part)
            self.outside.add(name)
            return self.column(name)

        return scalar(node, self.scope, of)

    def _unlike(self, node: exp.Column) -> str:
        """Returns the name that is no column of the tables, in lower case; nothing if it is one."""
        return "" if node.table or self.scope.lookup(node.name) else node.name.lower()

    def call(self, node: exp.Window) -> Expr:
        """Returns the value of a window function, as a column that is not there yet; AVG of decimals and lengths of
        time is two."""
        partition, order, spec = spelled(node, self.defined, self.scope.text)
        if of_all(order, spec) and function_of(_called(node)) is not None and type(_called(node)) not in OWN:
            keys = tuple(dict.fromkeys(self._read(one) for one in partition))
            found = self.whole.setdefault(keys, Partitions([self.column(key) for key in keys], self.scope))
            name = f"#{len(self.calls)}_{sum(len(one.values) for one in self.whole.values())}"
            return found.aggregate(node, order, name, lambda part: self.column(self._read(part)))
        averaged = self._averaged(node)
        if averaged is not None:
            total, count = (self.call(_instead(node, kind)) for kind in (exp.Sum, exp.Count))
            own = _called(node).args.get("own") and averaged not in INTERVALS
            return double_mean(total, count) if own else mean(averaged, total, count)
        known = next((i for i, one in enumerate(self.calls) if one.node == node), None)
        if known is None:
            known = len(self.calls)
            self.calls.append(self._call(node, f"#{known}"))
        made, length = col(f"@#{known}", self.calls[known].function.type), self.calls[known].length
        return of_units(made, length) if length else made

    def _averaged(self, node: exp.Window) -> str | None:
        """Returns the type of the decimals or lengths of time that a window function is the AVG of; None if it is
        none."""
        inner = _called(node)
        if function_of(inner) != "avg" or isinstance(inner.this, exp.Distinct):
            return None
        type_ = self.column(self._read(next(inner.iter_expressions()))).type
        return type_ if decimal_parts(type_) or type_ in INTERVALS else None

    def _call(self, node: exp.Window, name: str) -> Call:
        text = self.scope.text
        partition, order, spec = spelled(node, self.defined, text)
        keys = tuple(dict.fromkeys(self._read(one) for one in partition))
        by = () if order is None else self._orders(order)
        where, inner = None, node.this
        if isinstance(inner, exp.Filter):
            where, inner = inner.expression.this, inner.this
        ignoring = isinstance(inner, exp.IgnoreNulls)
        if isinstance(inner, (exp.IgnoreNulls, exp.RespectNulls)):
            inner = inner.this
        word = spelling(text.text, inner)
        if ignoring and OWN.get(type(inner)) not in (*PICKED, *NEIGHBOURS):
            raise text.error(
                f"{word} takes no IGNORE NULLS as a window function", node, "LAG, LEAD and values of frames do"
            )
        types = {one.column: self.column(one.column).type for one in by}
        frame = frame_in(spec, by, types, lambda part: scalar(part, self.scope), text)
        own = OWN.get(type(inner))
        if own is None:
            return self._aggregate(node, inner, where, Call(node, keys, by, WindowFunction(name, "", "", frame=frame)))
        if where is not None:
            raise text.error(f"{word} takes no FILTER", node, "only aggregates do")
        if own in ("rank", "dense_rank") and not by:
            raise text.error(f"{word}() without ORDER BY is not supported", node, "say which rows come first")
        made = WindowFunction(name, _TYPES.get(own, ""), own)
        if own in _PLAIN:
            if inner.this is not None or inner.expressions:
                raise text.error(f"{word}() takes no argument", node)
            return Call(node, keys, by, made)
        if own == "ntile":
            if inner.this is None:
                raise text.error("NTILE takes the number of parts", node, "write NTILE(4)")
            return Call(node, keys, by, replace(made, count=self._count(inner.this, "NTILE", 1)))
        argument = self._read(inner.this)
        made = replace(made, arguments=(argument,), type=self.column(argument).type)
        if own in PICKED:
            count = self._count(inner.args["offset"], "NTH_VALUE", 1) if own == "nth_value" else 0
            made = replace(made, frame=frame or default_frame(bool(by)), count=count)
        else:
            made = self._neighbour(inner, made)
        if ignoring:
            made = below(made, self._read(is_known(inner.this)))
        return Call(node, keys, by, made)

    def _orders(self, order: exp.Order) -> tuple[Order, ...]:
        keys = [self._read(one.this) for one in order.expressions]
        return orders(order, keys, self.scope.text, [self.column(key).type for key in keys])

    def _count(self, node: exp.Expression, what: str, least: int) -> int:
        return self.scope.text.guarded(node, lambda: count_of(scalar(node, self.scope), what, least))

    def _neighbour(self, node: exp.Expression, made: WindowFunction) -> WindowFunction:
        """Returns LAG or LEAD; with a count below 0 each is the other."""
        text, offset, default = self.scope.text, node.args.get("offset"), node.args.get("default")
        count = 1 if offset is None else self._count(offset, made.function.upper(), -(2**40))
        if count < 0:
            made = replace(made, function="lead" if made.function == "lag" else "lag")
        made = replace(made, count=abs(count))
        if default is None:
            return made
        expr = self.plain(default, lambda part: None)
        if text.guarded(default, lambda: common(made.type, expr.type)) != made.type:
            message = f"the default of {made.function.upper()} is {expr.type}, and the value {made.type}"
            raise text.error(message, default, "cast one of them")
        cast_ = exp.Cast(this=default.copy(), to=exp.DataType.build("text"))  # a node that no other column has
        return replace(made, default=self.below.add(cast_, cast(expr, made.type)))

    def _aggregate(self, node: exp.Window, inner: exp.Expression, where: exp.Expression | None, made: Call) -> Call:
        text, frame = self.scope.text, made.function.frame or default_frame(bool(made.order))
        function, given = function_of(inner), list(inner.iter_expressions())
        word = spelling(text.text, inner)
        if function is None:
            raise text.error(f"the window function {word} is not supported", node, _HINT)
        if any(isinstance(part, exp.Distinct) for part in given):
            raise text.error(f"{word}(DISTINCT ...) is not supported as a window function", node, _HINT)
        plain = (function in NAMES or function in _TRUTH) and not isinstance(inner, (exp.CountIf, exp.WithinGroup))
        if not plain:
            shown = word if word.isidentifier() else function.upper()
            raise text.error(f"{shown} of this form is not supported as a window function", node, _HINT)
        given = [part for part in given if not isinstance(part, exp.Star)]
        if len(given) > 2 or (len(given) > 1 and function in ("count", "sum", "avg", "min", "max")):
            raise text.error(f"{word} of {len(given)} columns is not supported", node)
        arguments = tuple(self._read(part) for part in given)
        types = [self.column(name).type for name in arguments] or ["int64"]
        if function == "sum" and types[0] in INTERVALS:
            made = replace(made, length=types[0])
            node_of = exp.Anonymous(this="units", expressions=[given[0].copy()])
            arguments = (self.below.add(node_of, units(self._value(given[0]))),)
            types = [self.column(arguments[0]).type]
        if function in _TRUTH:
            if types[0] != "bool":
                raise text.error(f"{word} needs a condition, not {types[0]}", node)
            function = _TRUTH[function]
        type_ = text.guarded(node, partial(result_type, function, types[0]))
        filtered = None if where is None else self._read(where)
        called = WindowFunction(made.function.name, type_, function, arguments, filtered, frame)
        return replace(made, function=called)

    def _read(self, node: exp.Expression) -> str:
        """Returns the column of the rows that has a value."""
        return self.below.add(node, self._value(node))

    def _value(self, node: exp.Expression) -> Expr:
        """Returns a value of the rows; names of columns come before aliases."""

        def meaning(part: exp.Expression) -> Expr | None:
            return self.selected.get(self._unlike(part)) if isinstance(part, exp.Column) else None

        return self.plain(node, meaning)

    def joined(self, rows: Relation, frame: Frame, wish: str) -> dict[Expr, Expr]:
        """Adds the rows to a frame, with the values of the window functions; what columns with @ stand for there."""
        text = self.scope.text
        overs: dict[tuple[tuple[str, ...], tuple[Order, ...]], list[Call]] = {}
        for one in self.calls:
            overs.setdefault((one.keys, one.order), []).append(one)
        base, alone = rows, len(overs) == 1 and not self.whole
        for (keys, order), calls in overs.items():
            hidden = self._hidden() if alone else 0
            place = place_of(text.text, calls[0].node)
            base = Over(base, keys, order, tuple(one.function for one in calls), hidden, place)
        source = frame.derived(base, wish)
        frame.sources.append(source)
        names = {col(f"@{c.name}", c.type): source.qualified(c.name) for c in source.table.columns}
        for keys, partitions in self.whole.items():
            beside = frame.derived(partitions.relation(rows), f"{wish}_groups")
            frame.sources.append(beside)
            frame.conditions += [call("nseq", source.qualified(key), beside.qualified(key)) for key in keys]
            names |= {made: beside.qualified(made.value[1:]) for made in partitions.values}
        return names

    def _hidden(self) -> int:
        """Returns how many of the last columns of the rows only window functions read."""
        read = (item.name in self.outside for item in reversed(self.below.hidden))
        return next((i for i, found in enumerate(read) if found), len(self.below.hidden))


def _called(node: exp.Window) -> exp.Expression:
    """Returns the function of a window function, without FILTER and the like."""
    inner: exp.Expression = node.this
    while isinstance(inner, WRAPPERS):
        inner = inner.this
    return inner


def _instead(node: exp.Window, kind: type[exp.AggFunc]) -> exp.Window:
    """Returns a window function with another aggregate of the same value."""
    made = node.copy()
    inner = _called(made)
    inner.replace(kind(this=next(inner.iter_expressions()).copy()))
    return made


_HINT = "ranks, LAG and LEAD, values of a frame, COUNT, SUM, AVG, MIN, MAX, deviations and regressions are maintained"
_TRUTH = {"bool_and": "min", "bool_or": "max"}
_PLAIN = (*RANKS, "percent_rank", "cume_dist")
_TYPES = {**dict.fromkeys((*RANKS, "ntile"), "int32"), **dict.fromkeys(("percent_rank", "cume_dist"), "float64")}


def contains_window(node: exp.Expression) -> bool:
    """Returns whether an expression has a window function of its own SELECT."""
    todo = [node]
    while todo:
        part = todo.pop()
        if isinstance(part, exp.Window):
            return True
        if not isinstance(part, exp.Query):
            todo += part.iter_expressions()
    return False


def has_windows(node: exp.Select) -> bool:
    """Returns whether a SELECT has window functions of its own."""
    clauses = [node.args.get(name) for name in (("qualify", "order") if limited(node) else ("qualify",))]
    return any(contains_window(part) for part in (*node.expressions, *clauses) if part is not None)
