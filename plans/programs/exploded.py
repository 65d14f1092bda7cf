"""Feeds in which a row enters once for each element of an array.

The column of the elements is an `EXPLODE` of the array, which is not a scalar function: it is the whole expression of
one column of a feed, and the reader of the feed expands it.
"""

from __future__ import annotations

from dataclasses import replace

from plans.expressions.expr import Expr
from plans.nested import element_of
from plans.plan import Output
from plans.programs.stages import Feed

EXPLODE = "explode"
"""The operator of a feed column that has the elements of an array, one per row."""


def exploded(feed: Feed) -> Feed:
    """Returns a feed in which a row enters once for each element of the array in its last column."""
    *rest, array = feed.columns
    element = element_of(array.type)
    assert element is not None, "the last column is an array"
    return replace(feed, columns=(*rest, Output(array.name, element, Expr(EXPLODE, element, (array.expr,)))))


def exploded_column(feed: Feed) -> Output | None:
    """Returns the column of a feed that multiplies rows, with the array as its expression, or None if there is none."""
    found = next((column for column in feed.columns if column.expr.op == EXPLODE), None)
    return None if found is None else Output(found.name, found.expr.args[0].type, found.expr.args[0])
