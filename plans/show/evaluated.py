"""Finds expressions without a native form, which split the kernels of a stage in two.

Only the engine knows which expressions have a native form (`crown.expressions`), so the caller passes this knowledge
in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from plans.expressions.expr import Expr
from plans.plan import Output
from plans.programs.exploded import EXPLODE
from plans.programs.reads import feeds
from plans.programs.stages import GroupStage, JoinStage, Stage

IsNative = Callable[[Expr], bool]
"""Returns whether a whole expression has a native form."""


def by_arrow(stage: Stage, is_native: IsNative) -> list[str]:
    """Returns the distinct expressions of a stage that Arrow evaluates, without constants."""
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
    """Returns the result of `by_arrow` as a line; no line if it is empty, or if `is_native` is None."""
    found = [] if is_native is None else by_arrow(stage, is_native)
    return [f"evaluated by Arrow: {', '.join(found)}"] if found else []


def _computed(outputs: Iterable[Output], is_native: IsNative) -> Iterable[Expr]:
    for output in outputs:
        expr = output.expr.args[0] if output.expr.op == EXPLODE else output.expr
        if expr.op not in ("col", "literal") and (expr.type != output.type or not is_native(expr)):
            yield expr
