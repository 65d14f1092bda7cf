"""The meaning of aggregates in other dialects.

Part of `plans.frontends.sql.text.meanings.calls`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from plans.errors import PlanError
from plans.frontends.sql.text.meanings.moments import POSTGRES
from plans.frontends.sql.text.nodes import literal

_WHOLE_MEANS = ("tsql", "redshift")
"""Dialects in which AVG of whole numbers is a whole number."""
_COUNTS_TOGETHER = ("snowflake", "mysql", "singlestore", "starrocks", "doris", "clickhouse")
"""Dialects in which COUNT accepts several columns."""
_COMMAS = ("duckdb", "bigquery", "sqlite")
"""Dialects in which the default separator of STRING_AGG is a comma."""
_KEEPS_NULLS = ("duckdb", "postgres", "materialize", "risingwave", "trino", "presto", "athena", "bigquery")
"""Dialects in which ARRAY_AGG keeps NULLs, and is NULL for no rows."""
_NUMBERED = ("mysql", "singlestore", "starrocks", "doris", "sqlite", "duckdb", "clickhouse")
"""Dialects in which SUM accepts conditions as numbers."""


def _mean(node: Any, dialect: str) -> Any:
    """Marks that AVG of decimals is a DOUBLE, or that AVG of whole numbers is a whole number."""
    node.set("own", "whole" if dialect in _WHOLE_MEANS else dialect == "duckdb" or None)


def _of_decimals(node: Any, dialect: str) -> Any:
    """Marks that a percentile of decimals is a decimal, and that PERCENTILE_DISC is one of the values."""
    node.set("own", dialect == "duckdb" or isinstance(node, exp.PercentileDisc) or None)


def _picked(kind: Any) -> Callable[[Any, str], Any]:
    """Returns a builder of FIRST(value, time) and LAST(value, time) of TimescaleDB: the value at the extreme time."""

    def made(node: Any, dialect: str) -> Any:
        picks = dialect in POSTGRES and node.expression is not None
        return kind(this=node.this.copy(), expression=node.expression.copy(), own=True) if picks else None

    return made


def _counted_if(node: Any, dialect: str) -> Any:
    """Returns COUNT_IF of DuckDB, which is NULL where the condition is nowhere TRUE or FALSE, as a SUM."""
    if dialect != "duckdb":
        return None
    return exp.Sum(this=exp.cast(exp.cast(node.this.copy(), "boolean"), "bigint"))


def _quantile(node: Any, dialect: str) -> Any:
    """Returns QUANTILE of DuckDB, which is one of the values."""
    share = node.args.get("quantile")
    if dialect != "duckdb" or share is None:
        return None
    return exp.PercentileDisc(this=node.this.copy(), expression=share.copy(), own=True)


def _counted(node: Any, dialect: str) -> Any:
    """Marks that COUNT() counts rows. Raises PlanError for several columns if the dialect counts only one."""
    if node.this is None and dialect in ("duckdb", "clickhouse"):
        node.set("this", exp.Star())
    several = [*node.expressions, *(node.this.expressions[1:] if isinstance(node.this, exp.Distinct) else [])]
    if several and dialect not in _COUNTS_TOGETHER:
        raise PlanError(f"COUNT of {dialect} counts one column", hint="count a row: COUNT(DISTINCT (a, b))")


def _joined(node: Any, dialect: str) -> Any:
    """Marks the separator of an aggregate that joins texts, and how doubles are written."""
    node.set("own", dialect == "duckdb" or None)
    if node.args.get("separator") is None and dialect in _COMMAS:
        node.set("separator", literal(","))


def _summed(node: Any, dialect: str) -> None:
    """Marks SUM: of conditions it is the number of rows for which they are TRUE, and of BIGINT it is NUMERIC."""
    node.set("own", "truths" if dialect in _NUMBERED else "wide" if dialect in POSTGRES else None)


def marked(name: str, *dialects: str) -> Callable[[Any, str], Any]:
    """Returns a builder that sets a mark of a node in some dialects, by default in all of them."""
    return lambda node, dialect: node.set(name, not dialects or dialect in dialects or None)


BUILDERS: dict[type, Callable[[Any, str], Any]] = {
    exp.Sum: _summed,
    exp.First: _picked(exp.ArgMin),
    exp.Last: _picked(exp.ArgMax),
    exp.CountIf: _counted_if,
    exp.Quantile: _quantile,
    **dict.fromkeys((exp.Max, exp.Min), marked("own")),  # NULL is the largest value of a field
    exp.Avg: _mean,
    **dict.fromkeys((exp.Median, exp.PercentileCont, exp.PercentileDisc), _of_decimals),
    **dict.fromkeys((exp.Corr, exp.RegrSlope), marked("own", "duckdb")),  # NaN of values that do not vary
    **dict.fromkeys((exp.ArgMax, exp.ArgMin), marked("own")),
    exp.GroupConcat: _joined,
    exp.ArrayAgg: marked("keeps_nulls", *_KEEPS_NULLS),
    exp.Count: _counted,
}
"""The replacements of nodes by type. A function returns None if the node means the same as in Spark."""
