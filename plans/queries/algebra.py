"""The query algebra: front-ends return its expressions, and `plans.lowering` lowers them to a program of stages.

An expression of the algebra is a *relation*: a bag of rows with named, typed columns. There are nine forms:

- `Query`, the join core: relations in FROM (inner, left outer or anti joined, or only tested for existence),
  conditions, outputs, DISTINCT. Selection, projection and duplicate removal are queries over one relation.
- `Group`: GROUP BY with aggregates and HAVING over one relation.
- `SetOperation`: UNION, EXCEPT and INTERSECT, with or without ALL, nested.
- `Top`: the first rows of one relation, or of each of its groups, in an order.
- `Over`: the rows of one relation with window functions.
- `Sliced`: the rows of one relation for which a running sum is on one side of a bound.
- `Timed`: the rows of one relation whose period contains the current time.
- `Unnest`: the rows of one relation, once for each element of an array.
- `Fixpoint`: the rows of a recursion.

Inside a `Query` columns are *qualified*: the column `dst` of the source `g1` is a `col` expression named `g1.dst`.
Outside, the columns of a relation are its output names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from plans.errors import PlanError, Position
from plans.expressions.build import Expr, col
from plans.nested import element_of
from plans.programs.frames import Order, Slice, WindowFunction
from plans.programs.stages import Aggregate, Function
from plans.schema import WEIGHT, Column, Table
from plans.stack import with_room

FOUND = "found"
"""The column that a source joined as a mark adds."""


@dataclass(frozen=True)
class Source:
    """One occurrence of a relation in FROM.

    `table` is a base table, or describes the columns of the derived relation `input`. `group` connects the sources of a
    subquery whose multiplicity does not affect the result: 0 for the outermost query, whose rows are counted; any other
    number for an existential group (IN, EXISTS, a DISTINCT subquery).

    `join` is how the source is joined with the sources before it: `inner`, with the conditions of the query; `left`,
    which pads rows without a partner with NULLs; `single`, which does the same and rejects a batch that gives a row a
    second partner; `anti`, which keeps only rows without a partner; `mark`, which adds the column `found` (does the row
    have a partner?). These four join by their own conditions, `on`. `padded` is the form to which lowering reduces
    `left` if possible: conditions of the query equate (`<=>`) its key with columns of one other source, only the output
    reads it, the output does not read its key, and `on` are the conditions over its own columns.
    """

    alias: str
    table: Table
    group: int = 0
    input: Relation | None = None
    join: str = "inner"
    on: tuple[Expr, ...] = ()

    def qualified(self, column: str) -> Expr:
        """Returns the column as an expression over qualified names."""
        found = self.table.column(column)
        assert found is not None
        return col(f"{self.alias}.{found.name}", found.type)


@dataclass(frozen=True)
class Query:
    """The join core: `SELECT [DISTINCT] outputs FROM sources WHERE conditions`, with qualified columns.

    `keys` lists the existential groups that are DISTINCT subqueries, with the expressions of their select list: values
    for these determine the one row that the group contributes. `names` are pairs (qualified column, name of its
    variable), for languages that name variables. `warnings` are for the user: the query is read literally, but may be
    meant differently.
    """

    text: str
    sources: tuple[Source, ...]
    conditions: tuple[Expr, ...]
    outputs: tuple[tuple[str, Expr], ...]
    distinct: bool
    keys: tuple[tuple[int, tuple[Expr, ...]], ...] = ()
    notes: tuple[str, ...] = ()
    names: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, _ in self.outputs:
            check_output_name(name)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Returns the columns of the result."""
        return tuple(Column(name, expr.type) for name, expr in self.outputs)

    def source(self, alias: str) -> Source:
        """Returns the source with this alias."""
        return next(source for source in self.sources if source.alias == alias)


class _Derived:
    """A relation over other relations, whose text it has."""

    @property
    def text(self) -> str:
        """Returns the text of the whole query."""
        whole: Any = self
        return next(part.text for part in walk(whole) if isinstance(part, Query))


@dataclass(frozen=True)
class Group(_Derived):
    """`SELECT outputs FROM input GROUP BY keys HAVING having`.

    `keys` and the arguments of the aggregates are names of columns of `input`; `outputs` and `having` are expressions
    over the names of keys and aggregates. `whole`: there is no GROUP BY, and always one row.
    """

    input: Relation
    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    outputs: tuple[tuple[str, Expr], ...]
    having: Expr | None = None
    whole: bool = False
    warnings: tuple[str, ...] = field(default=(), compare=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Returns the columns of the result."""
        return tuple(Column(name, expr.type) for name, expr in self.outputs)


@dataclass(frozen=True)
class SetOperation(_Derived):
    """A nest of UNION, EXCEPT and INTERSECT [ALL] over `inputs`, whose columns have the same types.

    `function` is the nest as a function of the multiplicities of the inputs.
    """

    inputs: tuple[Relation, ...]
    function: Function
    warnings: tuple[str, ...] = field(default=(), compare=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Returns the columns of the result, with the names of the first input."""
        first = next(part for part in walk(self) if not isinstance(part, SetOperation))
        return first.columns


class _OverOne(_Derived):
    """A relation over a single other relation, `input`, whose last `hidden` columns it does not have."""

    input: Relation
    hidden: int = 0

    @property
    def shown(self) -> tuple[Column, ...]:
        """Returns the columns of the input that the result has."""
        return self.input.columns[: len(self.input.columns) - self.hidden]

    @property
    def columns(self) -> tuple[Column, ...]:
        """Returns the columns of the result."""
        return self.shown


@dataclass(frozen=True)
class Top(_OverOne):
    """`SELECT * FROM input ORDER BY order LIMIT limit OFFSET offset`, for each value of `keys` separately.

    `keys` and `order` name columns of `input`. The last `hidden` columns of `input` are not in the result.
    """

    input: Relation
    keys: tuple[str, ...]
    order: tuple[Order, ...]
    limit: int
    offset: int = 0
    hidden: int = 0
    warnings: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Timed(_OverOne):
    """`SELECT * FROM input, clock WHERE since <= now AND now < until`.

    `since` and `until` name the last columns of `input`, which have type timestamp, are never NULL, and are not in the
    result. None: there is no such bound. `clock` has one column and at most one row: the time. If it is empty, the
    result is empty.
    """

    input: Relation
    clock: Relation
    since: str | None = None
    until: str | None = None
    warnings: tuple[str, ...] = field(default=(), compare=False)

    @property
    def hidden(self) -> int:  # type: ignore[override]
        """Returns the number of columns of `input` that are not in the result."""
        return (self.since is not None) + (self.until is not None)


@dataclass(frozen=True)
class Over(_OverOne):
    """`SELECT *, functions OVER (PARTITION BY keys ORDER BY order) FROM input`.

    `keys`, `order` and `hidden` are those of `Top`. The functions read columns of `input`. `place` is the position of
    the first function in the text.
    """

    input: Relation
    keys: tuple[str, ...]
    order: tuple[Order, ...]
    functions: tuple[WindowFunction, ...]
    hidden: int = 0
    place: Position | None = field(default=None, compare=False)
    warnings: tuple[str, ...] = field(default=(), compare=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Returns the columns of the result, those of the functions last."""
        return (*self.shown, *(Column(one.name, one.type) for one in self.functions))


@dataclass(frozen=True)
class Sliced(_OverOne):
    """The rows of `input` that a slice selects, for each value of `keys` separately, in the order of one column.

    The slice reads the last two columns of `input`, which are not in the result. Rows without a bound are distinct in
    the other columns.
    """

    input: Relation
    keys: tuple[str, ...]
    order: tuple[Order, ...]
    slice: Slice
    warnings: tuple[str, ...] = field(default=(), compare=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Returns the columns of the result."""
        return self.input.columns[:-2]


@dataclass(frozen=True)
class Unnest(_OverOne):
    """The rows of `input`, whose last column is an array, once for each element, which replaces the array.

    A row with an empty array or NULL is dropped.
    """

    input: Relation
    warnings: tuple[str, ...] = field(default=(), compare=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Returns the columns of the result, the element last."""
        *rest, array = self.input.columns
        element = element_of(array.type)
        assert element is not None, "the last column is an array"
        return (*rest, Column(array.name, element))


@dataclass(frozen=True)
class Fixpoint:
    """The rows that `body` derives from its tables and from these rows themselves, which it reads as the table `rows`.

    `distinct` and `best`: see `plans.programs.stages.FixpointStage`, also for the last column of `rows` and `body`. No
    other relation reads `rows`, so rules for relations rewrite the body by itself.
    """

    rows: Table
    body: Relation
    distinct: bool
    best: tuple[Order, ...] = ()
    warnings: tuple[str, ...] = field(default=(), compare=False)

    @property
    def text(self) -> str:
        """Returns the text of the whole query."""
        return self.body.text

    @property
    def columns(self) -> tuple[Column, ...]:
        """Returns the columns of the result."""
        return self.body.columns[: len(self.body.columns) - self.distinct]


Relation = Query | Group | SetOperation | Top | Over | Sliced | Timed | Unnest | Fixpoint


def unnested(source: Source, array: Expr, text: str) -> Source:
    """Returns a source with one more column: the elements of an array computed from its columns, one per row."""
    name = unused("element", [column.name for column in source.table.columns])
    known = source.table.typed
    outputs = (*((c.name, source.qualified(c.name)) for c in source.table.columns if c.name in known), (name, array))
    made = Unnest(Query(text, (source,), (), outputs, False))
    return replace(source, table=Table(source.alias, made.columns), input=made)


def inputs(relation: Relation) -> tuple[Relation, ...]:
    """Returns the input relations of a relation, without base tables."""
    if isinstance(relation, Query):
        return tuple(source.input for source in relation.sources if source.input is not None)
    if isinstance(relation, Timed):
        return relation.input, relation.clock
    if isinstance(relation, Fixpoint):
        return ()
    return relation.inputs if isinstance(relation, SetOperation) else (relation.input,)


def rebuilt(
    relation: Relation, rule: Callable[[Relation], Relation], first: Callable[[Relation], Relation] = lambda part: part
) -> Relation:
    """Returns a relation to which a rule was applied bottom-up.

    A relation that occurs in several places stays one object. ``first`` is applied to a relation before the rule is
    applied to its inputs.
    """
    made: dict[int, tuple[Relation, Relation]] = {}  # by identity: a part, which keeps it alive, and its result

    def again(part: Relation) -> Relation:
        if id(part) not in made:
            made[id(part)] = part, rule(with_room(_of_parts, first(part), again))
        return made[id(part)][1]

    return again(relation)


def _of_parts(relation: Relation, made: Callable[[Relation], Relation]) -> Relation:
    """Returns a relation with rebuilt inputs, or the relation itself if no input changes."""
    if isinstance(relation, Query):
        sources = tuple(s if s.input is None else replace(s, input=made(s.input)) for s in relation.sources)
        same = all(one.input is other.input for one, other in zip(sources, relation.sources, strict=True))
        return relation if same else replace(relation, sources=sources)
    if isinstance(relation, SetOperation):
        parts = tuple(map(made, relation.inputs))
        same = all(one is other for one, other in zip(parts, relation.inputs, strict=True))
        return relation if same else replace(relation, inputs=parts)
    if isinstance(relation, Fixpoint):
        return relation
    part = made(relation.input)
    return relation if part is relation.input else replace(relation, input=part)


def walk(relation: Relation) -> Iterator[Relation]:
    """Yields a relation and all relations below it, from the outside in. Shared relations are yielded once."""
    todo, seen = [relation], set()
    while todo:
        here = todo.pop()
        if id(here) not in seen:
            seen.add(id(here))
            yield here
            todo += reversed(inputs(here))


def bases(relation: Relation) -> Iterator[Source]:
    """Yields the base tables of a relation, as sources of its join cores."""
    for part in walk(relation):
        if isinstance(part, Query):
            yield from (source for source in part.sources if source.input is None)
        if isinstance(part, Fixpoint):
            yield from (source for source in bases(part.body) if source.table != part.rows)


def with_read_columns(relation: Relation) -> Relation:
    """Returns a relation whose base tables have only those columns that decide its rows: columns that it reads, NOT
    NULL columns and keys, and all columns of a table with distinct rows."""

    def rule(part: Relation) -> Relation:
        if isinstance(part, Fixpoint):
            return replace(part, body=with_read_columns(part.body))
        if not isinstance(part, Query):
            return part
        on = (expr for source in part.sources for expr in source.on)
        exprs = (*part.conditions, *(expr for _, expr in part.outputs), *(e for _, key in part.keys for e in key), *on)
        read = {name.lower() for expr in exprs for name in expr.columns}
        return replace(
            part, sources=tuple(source if source.input else _with_read(source, read) for source in part.sources)
        )

    return rebuilt(relation, rule)


def _with_read(source: Source, read: Collection[str]) -> Source:
    table = source.table
    if table.distinct:
        return source
    kept = (c for c in table.columns if table.required(c.name) or f"{source.alias}.{c.name}".lower() in read)
    return replace(source, table=replace(table, columns=tuple(kept)))


def check_output_name(name: str) -> None:
    """Raises PlanError if deltas cannot have a column with this name."""
    if name.lower() == WEIGHT:
        raise PlanError(
            f"an output column must not be called {name}: every delta carries its weight under this name",
            hint="give it another name: AS ...",
        )


def split(name: str) -> tuple[str, str]:
    """Returns alias and column of a qualified name."""
    alias, _, column = name.partition(".")
    return alias, column


def replaced(expr: Expr, names: Mapping[Expr, Expr]) -> Expr:
    """Returns the expression in which the largest subexpressions that `names` contains are replaced."""

    def rebuilt(part: Expr, args: list[Expr]) -> Expr:
        if part in names:
            return names[part]
        return part if tuple(args) == part.args else Expr(part.op, part.type, tuple(args), part.value)

    made: Expr = expr.fold(rebuilt)
    return made


def unused(preferred: str, taken: Iterable[str]) -> str:
    """Returns a name that is unused, ignoring case: the preferred name, or that name with a number."""
    names = {name.lower() for name in taken}
    found, number = preferred, 1
    while found.lower() in names:
        number += 1
        found = f"{preferred}{number}"
    return found
