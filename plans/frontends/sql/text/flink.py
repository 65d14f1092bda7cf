"""The meaning of Flink's functions and types that differ from those of Spark with the same name.

Part of `plans.frontends.sql`. Flink's SQL is read as Spark's. Its reader divides whole numbers by whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from plans.frontends.sql.text.nodes import call, literal, rewritten


def of_flink(tree: Any, text: str) -> Any:
    """Returns a statement of Flink with Spark's functions and types."""
    return rewritten(tree, tuple(_BUILDERS), lambda node: _BUILDERS[type(node)](node), text)


def _mean(node: Any) -> None:
    """Marks that AVG of whole numbers is a whole number."""
    node.set("own", "whole")


def _joined(node: Any) -> None:
    """Sets the default separator of LISTAGG, a comma."""
    if node.args.get("separator") is None:
        node.set("separator", literal(","))


def _floor(node: Any) -> Any:
    """Returns FLOOR of a number, or of a moment to a unit."""
    unit = node.args.get("to")
    return call("DOUBLE_FLOOR", node.this) if unit is None else call("MOMENT_TRUNC", node.this, literal(unit.name))


def _ceil(node: Any) -> Any:
    """Returns CEIL of a number, or of a moment to a unit."""
    unit = node.args.get("to")
    if unit is None:
        return call("DOUBLE_CEIL", node.this)
    start = call("MOMENT_TRUNC", node.this, literal(unit.name))
    after = call("DATETIME_ADD", start, exp.Literal.number(1), literal(unit.name))
    return exp.If(this=exp.EQ(this=start, expression=node.this.copy()), true=node.this.copy(), false=after)


def _truncated(node: Any) -> Any:
    places = node.args.get("decimals")
    return call("DOUBLE_TRUNC", node.this) if places is None else call("NUMBER_TRUNC", node.this, places)


def _type(node: Any) -> None:
    """Makes a TIMESTAMP one without a zone."""
    if node.this == exp.DataType.Type.TIMESTAMPTZ:
        node.set("this", exp.DataType.Type.TIMESTAMPNTZ)


def _named(node: Any) -> Any:
    name, given = node.name.upper(), node.expressions
    if name in ("GREATEST", "LEAST") and given:  # NULL if any argument is
        missing = exp.or_(*(exp.Is(this=one.copy(), expression=exp.null()) for one in given))
        return exp.If(this=missing, true=exp.null(), false=node.copy())
    if name == "STR_TO_MAP" and len(given) == 1:
        return call("STR_TO_MAP", *given, literal(","), literal("="))
    if name == "REGEXP_EXTRACT" and len(given) in (2, 3):  # the whole match by default; NULL if nothing matches
        group = given[2] if len(given) == 3 else exp.Literal.number(0)
        return call("REGEXP_SUBSTR", *given[:2], group)
    if name == "TO_TIMESTAMP" and given:
        return exp.cast(node.copy(), "timestamp_ntz")
    if name == "TO_TIMESTAMP_LTZ" and len(given) == 2 and given[1].name in _EPOCHS:
        return call(_EPOCHS[given[1].name], given[0])
    return None


_EPOCHS = {"0": "TIMESTAMP_SECONDS", "3": "TIMESTAMP_MILLIS"}
"""Functions of a number of seconds or milliseconds, by the digits of the fraction."""

_BUILDERS: dict[type, Callable[[Any], Any]] = {
    exp.Avg: _mean,
    exp.GroupConcat: _joined,
    exp.Floor: _floor,
    exp.Ceil: _ceil,
    exp.Trunc: _truncated,
    exp.DataType: _type,
    exp.Anonymous: _named,
}
