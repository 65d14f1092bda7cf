"""Constant rows in a query: VALUES, RANGE, and SELECT without FROM.

They are joined with the single row of a group without GROUP BY, over a relation that the query reads anyway. So they
exist from the first batch on.
"""

from __future__ import annotations

from collections.abc import Callable

from plans.errors import PlanError
from plans.expressions.build import FALSE, NULL, TRUE, Expr, cast, col, lit
from plans.expressions.names import applied, find_function
from plans.frontends.catalyst.blocks import Block, Named, Reading, distinct_names, united
from plans.frontends.catalyst.scalars import type_of
from plans.frontends.catalyst.tree import Node
from plans.programs.stages import Aggregate
from plans.queries.algebra import Group, Query, Source, unnested


def one_row(reading: Reading) -> Source:
    """Returns a source of one row."""
    if reading.read is None:
        raise PlanError(
            "a query without a table never changes, so there is nothing to maintain", hint="name a table in FROM"
        )
    none = Query(reading.text, (Source("none", reading.read),), (FALSE,), (("one", TRUE),), False)
    group = Group(none, (), (Aggregate("rows", "int64", "count"),), (("rows", col("rows", "int64")),), None, True)
    return reading.derived(group, (Named(-1, "rows", TRUE),), ("rows",), "one").sources[0]


def values(node: Node, reading: Reading, translate: Callable[[Node], Expr]) -> Block:
    """Returns the rows of a LocalRelation. Raises PlanError if the plan does not contain them."""
    if node.fields.get("data") is None:
        raise PlanError("constant rows of this form are not supported in Spark's plan", hint="put them into a table")
    types = [type_of(attribute.fields["dataType"]) for attribute in node.trees("output")]
    columns = tuple(
        Named(attribute.id, str(attribute.fields["name"]), cast(NULL, type_))
        for attribute, type_ in zip(node.trees("output"), types, strict=True)
    )
    names = distinct_names(Block((), columns))

    def row(given: list[Expr], conditions: tuple[Expr, ...] = ()) -> Query:
        made = [cast(value, type_) for value, type_ in zip(given, types, strict=True)]
        return Query(reading.text, (one_row(reading),), conditions, tuple(zip(names, made, strict=True)), False)

    parts = [row([translate(Node("Literal", value, ())) for value in given]) for given in node.fields["data"]]
    whole = united(parts or [row([NULL for _ in types], (FALSE,))])
    return reading.derived(whole, columns, names, "rows")


def series(node: Node, reading: Reading) -> Block:
    """Returns the rows of RANGE, one per number."""
    entry = find_function("RANGE", 3)
    assert entry is not None, "the functions are there"
    array = applied(entry, [lit(int(node.fields[name])) for name in ("start", "end", "step")])
    made = unnested(one_row(reading), array, reading.text)
    (shown,) = node.trees("output")
    number = made.qualified(made.table.columns[-1].name)
    return Block((made,), (Named(shown.id, str(shown.fields["name"]), number),))
