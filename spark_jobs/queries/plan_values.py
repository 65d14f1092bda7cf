"""Adds values that Spark omits from a plan's JSON: the rows of VALUES, and the values of PIVOT."""

from __future__ import annotations

import datetime as dt
import json
import zoneinfo
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from py4j.java_gateway import JavaObject

from plans.errors import PlanError

_MOST = 1000
_ROWS, _PIVOT = "LocalRelation", "PivotFirst"


def filled(plan: JavaObject, nodes: list[dict[str, Any]], zone: str) -> list[dict[str, Any]]:
    """Returns the nodes of a plan, with these values as constants. ``zone``: the JVM's time zone, in which Spark writes
    instants. Raises PlanError for too many rows, and for nested values.
    """
    wanted = list(_lacking(nodes))
    if wanted:
        known: dict[tuple[str, int], Any] = {}
        for operator in _operators(plan):
            if operator.nodeName() == _ROWS:
                known[_ROWS, operator.output().head().exprId().id()] = _rows(operator, zone)
            elif operator.nodeName() == "Aggregate":
                known |= {(_PIVOT, number): made for number, made in _pivots(operator, zone)}
        for node, key in wanted:
            node["data" if key[0] == _ROWS else "pivotColumnValues"] = known.get(key)
    return nodes


def _lacking(given: Any) -> Iterator[tuple[dict[str, Any], tuple[str, int]]]:
    """Yields the nodes that lack values, each with a number by which Spark identifies it."""
    todo = [given]
    while todo:
        here = todo.pop()
        if isinstance(here, list):
            todo += here
            for before, node in pairwise(here):
                if isinstance(node, dict) and str(node.get("class", "")).endswith(f".{_PIVOT}"):
                    yield node, (_PIVOT, before["resultId"]["id"])
        elif isinstance(here, dict):
            todo += here.values()
            if str(here.get("class", "")).endswith(f".{_ROWS}") and here.get("output"):
                yield here, (_ROWS, here["output"][0][0]["exprId"]["id"])


def _operators(plan: JavaObject) -> Iterator[JavaObject]:
    """Yields the operators of a plan, and of the subqueries in it."""
    todo = [plan, *_items(plan.subqueriesAll())]
    while todo:
        operator = todo.pop()
        yield operator
        todo += _items(operator.children())


def _rows(operator: JavaObject, zone: str) -> list[list[dict[str, Any]]]:
    """Returns the rows of VALUES."""
    count = operator.data().size()
    if count > _MOST:
        raise PlanError(f"{count} rows of constants are too many: at most {_MOST}", hint="put them into a table")
    types = [attribute.dataType() for attribute in _items(operator.output())]
    return [
        [_constant(row.get(place, type_), type_, zone) for place, type_ in enumerate(types)]
        for row in _items(operator.data())
    ]


def _pivots(aggregate: JavaObject, zone: str) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Yields the values of PIVOT in the aggregates of an operator, with the number of the aggregate."""
    for item in _items(aggregate.aggregateExpressions()):
        for part in _items(item.children()):
            function = part.aggregateFunction() if part.nodeName() == "AggregateExpression" else None
            if function is not None and function.nodeName() == _PIVOT:
                type_ = function.pivotColumn().dataType()
                yield part.resultId().id(), [_constant(v, type_, zone) for v in _items(function.pivotColumnValues())]


def _constant(value: Any, type_: JavaObject, zone: str) -> dict[str, Any]:
    """Returns a value in the form of Spark's Literal."""
    kind = json.loads(type_.json())
    if not isinstance(kind, str) or kind == "binary":
        name = kind["type"] if isinstance(kind, dict) else kind
        raise PlanError(f"a constant of type {name} cannot be read from Spark's plan", hint="make a table of the rows")
    return {"num-children": 0, "value": None if value is None else _text(value, kind, zone), "dataType": kind}


def _text(value: Any, kind: str, zone: str) -> str:
    if kind == "date":
        return (dt.date(1970, 1, 1) + dt.timedelta(days=value)).isoformat()
    if kind == "timestamp":
        instant = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=value)
        return instant.astimezone(zoneinfo.ZoneInfo(zone)).replace(tzinfo=None).isoformat(" ")
    if isinstance(value, bool):
        return str(value).lower()
    return str(value.toString() if isinstance(value, JavaObject) else value)


def _items(sequence: JavaObject) -> Iterator[Any]:
    """Yields the items of a Scala sequence."""
    items = sequence.iterator()
    while items.hasNext():
        yield items.next()
