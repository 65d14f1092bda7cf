"""ASOF JOIN in SQL (`plans.frontends.asof`), and the join with the versions of a table. Part of `plans.frontends.sql`.

    FROM trades ASOF JOIN quotes ON trades.symbol = quotes.symbol AND trades.at >= quotes.at
    FROM trades ASOF LEFT JOIN quotes USING (symbol, at)                        the last column by >=
    FROM trades ASOF JOIN quotes MATCH_CONDITION (trades.at >= quotes.at) ON trades.symbol = quotes.symbol
    FROM orders JOIN rates FOR SYSTEM_TIME AS OF orders.at ON orders.currency = rates.currency

The third form pads left rows without a partner, as a LEFT JOIN does. In Spark's dialect it drops them, and LEFT ASOF
JOIN pads them. The last form joins with the version of `rates` that is valid at a time of the left side: the one with
the latest beginning before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from plans.errors import PlanError
from plans.expressions.build import Expr
from plans.queries.algebra import Source

VERSIONS = "FOR SYSTEM_TIME AS OF"


def moment_of(join: exp.Join) -> exp.Expression | None:
    """Returns the value of the left side at which the versions of a table are looked up, or None for other joins."""
    version = join.this.args.get("version")
    moment = version.expression if isinstance(version, exp.Version) and version.name == "TIMESTAMP" else None
    return moment if moment is not None and moment.find(exp.Column) is not None else None


def version_of(conditions: Sequence[Expr], right: Source) -> Expr:
    """Returns the time from which a row of a table with versions is valid: the only column of its key that the
    conditions do not compare. Raises PlanError unless they are equalities with all other columns."""
    key = [right.qualified(name) for name in right.table.key if right.input is None]
    if not key:
        raise PlanError(
            f"{VERSIONS} needs a table with a declared key, and {right.alias} has none",
            hint="declare as key the columns of ON and the time from which a row is valid: key=['currency', 'since']",
        )
    compared = [{side for side in one.args if side in key} if one.op == "eq" else set() for one in conditions]
    times = [column for column in key if column not in set().union(*compared)]
    if len(times) != 1 or not all(compared):
        raise PlanError(
            f"{VERSIONS} needs equalities with all columns of the key except the time from which a row is valid",
            hint=f"the key of {right.table.name} is ({', '.join(right.table.key)}); put other conditions into WHERE",
        )
    return times[0]
