"""Computed columns of a group stage, and HAVING, as a kernel evaluates them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from crown.expressions.kernels.evaluate import CODES, WORDS
from crown.expressions.program import Program, is_wide, native
from crown.stages.groups.aggregates import Rule
from crown.stages.groups.form import Form
from crown.stages.groups.terms import Layout
from crown.stages.kernels.groups import batch as group_batch
from crown.stages.kernels.groups import outputs as kernels
from plans.programs.stages import GroupStage


class Outputs(NamedTuple):
    """What a kernel gives to a group stage: ``plan`` for ``crown.stages.kernels.groups.outputs``, with the ``program``
    in it. ``words``: the words of memory per group. ``fixed``: for any number of groups."""

    plan: np.ndarray
    program: Program
    words: int
    fixed: int


def native_outputs(stage: GroupStage, form: Form, rules: Sequence[Rule], layout: Layout) -> Outputs | None:
    """Returns how a kernel computes the given columns of a form, and HAVING; None if some part has no native form."""
    exprs = [output.expr for output in stage.outputs if output.name in form.given]
    having = [] if stage.having is None else [stage.having]
    if any(output.expr.type != output.type for output in stage.outputs if output.name in form.given):
        return None
    program = native((*having, *exprs))
    if program is None:
        return None
    by_name = {rule.aggregate.name: rule for rule in rules}
    reads = list[int]()
    for name, wide in program.reads:
        if name in stage.keys:
            found: list[int] | None = [group_batch.KEY, stage.keys.index(name)]
        else:  # the digits of a sum that is sent to another cell belong to no rule
            found = by_name[name].native(layout) if name in by_name else None
        if found is None:
            return None
        reads += [*found, *[0] * (group_batch.COLUMN_WORDS - len(found)), CODES if wide else WORDS]
    wide_columns = [int(is_wide(expr.type)) for expr in exprs]
    n = len(program.reads)
    head = [n, len(having), len(exprs), program.words]
    plan = np.array([*head, *reads, *wide_columns, *program.plan], np.int64)
    words = int(kernels.words_per_group(n, program.words, len(exprs)))
    return Outputs(plan, program, words, 2 * n)
