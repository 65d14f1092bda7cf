"""Puts joins after a comma in parentheses in dialects where JOIN binds tighter: `a, b FULL JOIN c` means
`a, (b FULL JOIN c)`.

In Spark, joins are evaluated from left to right. The order matters only for RIGHT and FULL JOIN, and for USING and
NATURAL JOIN, whose columns are those of the tables after the comma.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from plans.errors import PlanError
from plans.frontends.sql.text.meanings.moments import POSTGRES, TRINO
from plans.frontends.sql.text.nodes import nodes
from plans.frontends.sql.text.place import extent, place_of, placed

_TIGHT = (*POSTGRES, *TRINO, "duckdb", "snowflake", "tsql", "oracle", "mysql", "starrocks", "doris", "teradata")
"""Dialects in which JOIN binds tighter than a comma."""


def with_tight_joins(tree: Any, dialect: str, text: str) -> Any:
    """Returns a statement whose joins after a comma are in parentheses if this changes their meaning."""
    for select in nodes(tree, exp.Select) if dialect in _TIGHT else ():
        joins = select.args.get("joins") or ()
        starts = [i for i, join in enumerate(joins) if _is_comma(join)]
        if any(map(_depends, joins[starts[0] :] if starts else ())):
            made = list(joins[: starts[0]])
            for start, end in zip(starts, [*starts[1:], len(joins)], strict=True):
                first, *others = joins[start:end]
                made += [_nested(first, others, text)] if any(map(_depends, others)) else [first, *others]
            select.set("joins", made)
    return tree


def _is_comma(join: Any) -> bool:
    written = any(join.args.get(name) for name in ("on", "using", "side", "kind", "method"))
    return not written and join.this.args.get("cross_apply") is None


def _depends(join: Any) -> bool:
    """Returns whether the meaning of a join depends on the tables before a comma."""
    return join.side in ("RIGHT", "FULL") or bool(join.args.get("using")) or join.method == "NATURAL"


def _nested(first: Any, others: list[Any], text: str) -> Any:
    """Returns the join with the joins of a table."""
    relation = first.this.copy()
    if not isinstance(relation, (exp.Table, exp.Subquery)):
        raise PlanError(
            f"a comma before this relation and a {others[0].side or 'NATURAL'} JOIN after it are not supported",
            hint="write CROSS JOIN instead of the comma",
            position=place_of(text, first),
            text=text,
        )
    relation.set("joins", [*(relation.args.get("joins") or ()), *(one.copy() for one in others)])
    return placed(exp.Join(this=placed(exp.Subquery(this=relation), extent(first))), extent(first))
