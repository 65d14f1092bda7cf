"""Window functions. Part of `plans.frontends.sql`.

The input rows of window functions are a relation of their own, with a column for every value that the functions read.
The value of a function is one more column, which the SELECT list, QUALIFY and ORDER BY read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from plans.expressions.build import Expr, call, cast, col
from plans.expressions.coercion import common
from plans.frontends.frames import below, count_of, default_frame
from plans.frontends.sql.groups.aggregates import WRAPPERS, aggregates, function_of
from plans.frontends.sql.ordering import Columns, Item, orders
from plans.frontends.sql.over.framed import OWN, frame_in, spelled
from plans.frontends.sql.over.partitions import ROWS, Framed, Partitions, of_all
from plans.frontends.sql.scope import Frame, Scope
from plans.frontends.sql.shape import limited
from plans.frontends.sql.text.nodes import is_known, nodes
from plans.frontends.sql.text.place import place_of, spelling
from plans.frontends.sql.values import Meaning, scalar
from plans.programs import frames
from plans.programs.frames import NEIGHBOURS, PICKED, RANKS, Order, WindowFunction
from plans.programs.stages import Aggregate
from plans.queries.algebra import Over, Relation, replaced


@dataclass(frozen=True)
class Call:
    """A window function over columns of the rows."""

    node: exp.Window
    keys: tuple[str, ...]
    order: tuple[Order, ...]
    function: WindowFunction


class Windows:
    """The window functions of a SELECT. `below` are the columns of their input rows.

    An expression over window functions reads these columns, and those of the functions, as columns whose names begin
    with @.
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
        self.whole: dict[tuple[str, ...], Partitions] = {}  # by partition keys
        self.framed: dict[tuple[tuple[str, ...], tuple[Order, ...], frames.Frame], Framed] = {}
        self.outside: set[str] = set()  # columns of the rows that values over window functions read
        self.named: dict[str, Expr] = {}  # the expressions of aliases of the SELECT list
        self.selected: dict[str, Expr] = {}  # the same over the rows, without window functions

    def add(self, item: Item) -> None:
        """Adds a selected column of the rows."""
        self.below.items.append(item)
        if item.node.alias:
            self.selected.setdefault(item.node.alias.lower(), item.expr)

    def column(self, name: str) -> Expr:
        """Returns a column of the rows."""
        found = next(item for item in (*self.below.items, *self.below.hidden) if item.name == name)
        return col(f"@{name}", found.expr.type)

    def value(self, node: exp.Expression, meaning: Meaning | None = None) -> Expr:
        """Returns a value over columns of the rows and window functions. Names of columns take precedence over
        aliases."""

        def of(part: exp.Expression) -> Expr | None:
            found = meaning(part) if meaning is not None else None
            if found is not None:
                return found
            if isinstance(part, exp.Window):
                return self.call(part)
            columns = nodes(part, exp.Column)
            if isinstance(part, exp.Column) and self._unlike(part) in self.named:
                return self.named[self._unlike(part)]
            outside = any(self._unlike(column) in self.named for column in columns)
            outside = outside or (meaning is not None and any(meaning(column) is not None for column in columns))
            reads = columns or next(aggregates(part), None) is not None or part.find(exp.Query) is not None
            if not reads or outside or contains_window(part):
                return None
            name = self._read(part)
            self.outside.add(name)
            return self.column(name)

        return scalar(node, self.scope, of)

    def _unlike(self, node: exp.Column) -> str:
        """Returns the name in lower case if it is not a column of the tables, else an empty string."""
        return "" if node.table or self.scope.lookup(node.name) else node.name.lower()

    def call(self, node: exp.Window) -> Expr:
        """Returns the value of a window function, over columns that are added later."""
        text = self.scope.text
        partition, order, spec = spelled(node, self.defined, text)
        keys = tuple(dict.fromkeys(self._read(one) for one in partition))
        inner, own = _called(node), next((name for kind, name in OWN.items() if isinstance(_called(node), kind)), None)
        aggregate = own is None and function_of(inner) is not None
        if aggregate and of_all(order, spec):
            found = self.whole.setdefault(keys, Partitions([self.column(key) for key in keys], self.scope))
            name = f"#{len(self.calls)}_{sum(len(one.values) for one in self.whole.values())}"
            return found.aggregate(node, order, name, self._column_of)
        by = () if order is None else self._orders(order)
        types = {one.column: self.column(one.column).type for one in by}
        frame = frame_in(spec, by, types, lambda part: scalar(part, self.scope), text)
        if aggregate:
            frame = frame or default_frame(bool(by))
            framed = self.framed.setdefault((keys, by, frame), Framed(self.scope))

            def add(one: Aggregate) -> Expr:
                return self._added(Call(node, keys, by, one.over(frame)))

            def computed(name: str, expr: Expr) -> str:
                given = exp.Anonymous(this=name, expressions=[node.copy()])  # a node that no other column has
                return self.below.add(given, replaced(expr, self._columns_of_rows()))

            return framed.aggregate(node, order, self._column_of, add, computed)
        if own is None:
            raise text.error(f"the window function {spelling(text.text, inner)} is not supported", node, _HINT)
        return self._added(self._own(Call(node, keys, by, WindowFunction("", "", own, frame=frame))))

    def _columns_of_rows(self) -> dict[Expr, Expr]:
        """Returns the expressions of the columns of the rows that aggregates over frames read."""
        items = (*self.below.items, *self.below.hidden)
        return {col(f"{ROWS}.{item.name}", item.expr.type): item.expr for item in items}

    def _added(self, made: Call) -> Expr:
        """Returns the column of a window function, which is added if it is missing."""
        what = made.keys, made.order, replace(made.function, name="")
        known = ((one, (one.keys, one.order, replace(one.function, name=""))) for one in self.calls)
        found = next((one for one, its in known if its == what), None)
        if found is None:
            found = replace(made, function=replace(made.function, name=f"#{len(self.calls)}"))
            self.calls.append(found)
        return col(f"@{found.function.name}", found.function.type)

    def _own(self, made: Call) -> Call:
        """Returns the call of a window function that is not an aggregate."""
        text, node, inner, function = self.scope.text, made.node, made.node.this, made.function
        own, frame = function.function, function.frame
        filtered = isinstance(inner, exp.Filter)
        inner = inner.this if filtered else inner
        ignoring = isinstance(inner, exp.IgnoreNulls)
        if isinstance(inner, (exp.IgnoreNulls, exp.RespectNulls)):
            inner = inner.this
        word = spelling(text.text, inner)
        if ignoring and own not in (*PICKED, *NEIGHBOURS):
            raise text.error(
                f"{word} does not take IGNORE NULLS as a window function",
                node,
                "only LAG, LEAD and values of frames take it",
            )
        if filtered:
            raise text.error(f"{word} does not take FILTER", node, "only aggregates take FILTER")
        if own in ("rank", "dense_rank") and not made.order:
            raise text.error(
                f"{word}() without ORDER BY is not supported", node, "add an ORDER BY, which defines the first rows"
            )
        function = replace(function, type=_TYPES.get(own, ""), frame=None)
        if own in _PLAIN:
            if inner.this is not None or inner.expressions:
                raise text.error(f"{word}() does not take an argument", node)
            return replace(made, function=function)
        if own == "ntile":
            if inner.this is None:
                raise text.error("NTILE takes the number of buckets", node, "write NTILE(4)")
            return replace(made, function=replace(function, count=self._count(inner.this, "NTILE", 1)))
        argument = self._read(inner.this)
        function = replace(function, arguments=(argument,), type=self.column(argument).type)
        if own in PICKED:
            count = self._count(inner.args["offset"], "NTH_VALUE", 1) if own == "nth_value" else 0
            function = replace(function, frame=frame or default_frame(bool(made.order)), count=count)
        else:
            function = self._neighbour(inner, function)
        if ignoring:
            function = below(function, self._read(is_known(inner.this)))
        return replace(made, function=function)

    def _orders(self, order: exp.Order) -> tuple[Order, ...]:
        keys = [self._read(one.this) for one in order.expressions]
        return orders(order, keys, self.scope.text, [self.column(key).type for key in keys])

    def _count(self, node: exp.Expression, what: str, least: int) -> int:
        return self.scope.text.guarded(node, lambda: count_of(scalar(node, self.scope), what, least))

    def _neighbour(self, node: exp.Expression, made: WindowFunction) -> WindowFunction:
        """Returns LAG or LEAD. A negative count turns one into the other."""
        text, offset, default = self.scope.text, node.args.get("offset"), node.args.get("default")
        count = 1 if offset is None else self._count(offset, made.function.upper(), -(2**40))
        if count < 0:
            made = replace(made, function="lead" if made.function == "lag" else "lag")
        made = replace(made, count=abs(count))
        if default is None:
            return made
        expr = self.plain(default, lambda part: None)
        if text.guarded(default, lambda: common(made.type, expr.type)) != made.type:
            word = made.function.upper()
            message = f"the default of {word} has the type {expr.type}, and its value has the type {made.type}"
            raise text.error(message, default, "cast one of them")
        cast_ = exp.Cast(this=default.copy(), to=exp.DataType.build("text"))  # a node that no other column has
        return replace(made, default=self.below.add(cast_, cast(expr, made.type)))

    def _read(self, node: exp.Expression) -> str:
        """Returns the name of the column of the rows with a value, which is added if it is missing."""
        return self.below.add(node, self._value(node))

    def _column_of(self, node: exp.Expression) -> Expr:
        """Returns the column of the rows with a value, which is added if it is missing."""
        return self.column(self._read(node))

    def _value(self, node: exp.Expression) -> Expr:
        """Returns a value over the rows. Names of columns take precedence over aliases."""

        def meaning(part: exp.Expression) -> Expr | None:
            return self.selected.get(self._unlike(part)) if isinstance(part, exp.Column) else None

        return self.plain(node, meaning)

    def joined(self, rows: Relation, frame: Frame, preferred: str) -> dict[Expr, Expr]:
        """Adds the rows with the values of the window functions to a frame. Returns the expressions of the columns with
        @."""
        text = self.scope.text
        overs: dict[tuple[tuple[str, ...], tuple[Order, ...]], list[Call]] = {}
        for one in self.calls:
            overs.setdefault((one.keys, one.order), []).append(one)
        base, alone = rows, len(overs) == 1 and not self.whole
        for (keys, order), calls in overs.items():
            hidden = self._hidden() if alone else 0
            place = place_of(text.text, calls[0].node)
            base = Over(base, keys, order, tuple(one.function for one in calls), hidden, place)
        source = frame.derived(base, preferred)
        frame.sources.append(source)
        names = {col(f"@{c.name}", c.type): source.qualified(c.name) for c in source.table.columns}
        for keys, partitions in self.whole.items():
            groups = frame.derived(partitions.relation(rows), f"{preferred}_groups")
            frame.sources.append(groups)
            frame.conditions += [call("nseq", source.qualified(key), groups.qualified(key)) for key in keys]
            names |= {made: groups.qualified(made.value[1:]) for made in partitions.values}
        return names

    def _hidden(self) -> int:
        """Returns the number of last columns of the rows that only window functions read."""
        read = (item.name in self.outside for item in reversed(self.below.hidden))
        return next((i for i, found in enumerate(read) if found), len(self.below.hidden))


def _called(node: exp.Window) -> exp.Expression:
    """Returns the function of a window function, without FILTER and other wrappers."""
    inner: exp.Expression = node.this
    while isinstance(inner, WRAPPERS):
        inner = inner.this
    return inner


_HINT = "ranks, LAG and LEAD, values of a frame and the aggregates of GROUP BY are maintained"
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
