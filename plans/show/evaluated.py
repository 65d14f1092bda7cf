"""Finds expressions without a native form, which split the kernels of a stage in two.

What has a native form is the engine's knowledge (`crown.expressions`), so who shows what an engine does says it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from plans.exploded import EXPLODE
from plans.expressions.expr import Expr
from plans.plan import Output
from plans.program import GroupStage, JoinStage, Stage
from plans.reads import feeds

IsNative = Callable[[Expr], bool]
"""Returns whether an expression, as a whole, has a native form."""


def by_arrow(stage: Stage, is_native: IsNative) -> list[str]:
    """Returns the expressions of a stage that Arrow evaluates, each once. Constants are not among them."""
    predicates: list[Expr] = []
    outputs: list[Output] = []
    if isinstance(stage, JoinStage):
        predicates += stage.plan.residual
        outputs += stage.plan.output
    for feed in feeds(stage):
        predicates += [] if feed.where is None else [feed.where]
        outputs += feed.columns
    if isinstance(stage, GroupStage):
        predicates += [] if stage.having is None else [stage.having]
        outputs += stage.outputs
    found = [predicate for predicate in predicates if not is_native(predicate)]
    return list(dict.fromkeys(map(str, [*found, *_computed(outputs, is_native)])))


def line(stage: Stage, is_native: IsNative | None) -> list[str]:
    """Returns what `by_arrow` does, as a line; none if there is nothing to say, or it is not known what is native."""
    found = [] if is_native is None else by_arrow(stage, is_native)
    return [f"evaluated by Arrow: {', '.join(found)}"] if found else []


def _computed(outputs: Iterable[Output], is_native: IsNative) -> Iterable[Expr]:
    for output in outputs:
        expr = output.expr.args[0] if output.expr.op == EXPLODE else output.expr
        if expr.op not in ("col", "literal") and (expr.type != output.type or not is_native(expr)):
            yield expr
