"""Describes which columns of the rows of a group stage a kernel computes, and which Python passes to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from crown.expressions.kernels.evaluate import CODES, WORDS
from crown.expressions.literals import is_wide
from crown.expressions.program import Program, native
from crown.stages.groups.aggregates import Rule
from crown.stages.groups.readings import Reading
from crown.stages.groups.terms import Layout
from crown.stages.kernels.groups import batch as kernels
from crown.stages.kernels.groups import outputs as output_kernels
from plans.programs.stages import GroupStage


@dataclass(frozen=True, eq=False)
class Form:
    """The columns of the rows of a stage, as its kernel writes them.

    - ``plan``: see ``crown.stages.kernels.groups.batch``.
    - ``passed``: the columns that Python computes and passes to the kernel.
    - ``rules``: the aggregates that these columns and HAVING read. ``keys``: True if they also read keys.
    - ``fallback``: the form in which Python passes all two-word decimals, for states in which one is not its own code.
    """

    plan: np.ndarray
    passed: tuple[str, ...]
    rules: tuple[Rule, ...]
    keys: bool
    fallback: Form | None

    @property
    def demand_fallback(self) -> Form:
        """Returns ``fallback``, of a form that has decimals of two words."""
        assert self.fallback is not None, "only a form with two-word decimals has a fallback"
        return self.fallback

    @classmethod
    def of(
        cls, stage: GroupStage, rules: Sequence[Rule], layout: Layout, words: int, pauses: int, far: bool,
        passes_decimals: bool = False,
    ) -> Form:  # fmt: skip
        """Returns the form of a stage. ``words``: the words of a group's state.

        ``pauses``: where else Python helps the kernel. ``far``: True if some sums have far parts. ``passes_decimals``:
        True if Python passes all two-word decimals.
        """
        by_name = {rule.aggregate.name: rule for rule in rules}
        columns, passed, has_decimals = list[list[int]](), list[str](), False
        own_pauses = pauses
        read = frozenset[str]() if stage.having is None else stage.having.columns
        for output in stage.outputs:
            name = str(output.expr.value) if output.expr.op == "col" else ""
            rule, words_of_column = by_name.get(name), None
            if name in stage.keys:
                words_of_column = [kernels.KEY, stage.keys.index(name)]
            elif rule is not None and not (far and any(layout.doubles[term] for term in rule.terms)):
                words_of_column = rule.native(layout)
            if words_of_column is not None and words_of_column[0] == kernels.WIDE:
                has_decimals = True
                words_of_column = None if passes_decimals else words_of_column
            if words_of_column is None:
                words_of_column = [kernels.PASSED, len(passed)]
                passed.append(output.name)
                read |= output.expr.columns
            columns.append(words_of_column + [0] * (kernels.COLUMN_WORDS - len(words_of_column)))
        if passed or stage.having is not None:
            pauses |= kernels.PAUSE_SHOW
        if far:
            pauses |= kernels.PAUSE_SHOW | kernels.PAUSE_STORE
        head = [len(stage.keys), words, layout.words, int(stage.whole), pauses, len(columns)]
        plan = np.array([*head, *(word for column in columns for word in column)], np.int64)
        needed_rules = tuple(rule for name, rule in by_name.items() if name in read)
        fallback = None
        if has_decimals and not passes_decimals:
            fallback = cls.of(stage, rules, layout, words, own_pauses, far, True)
        return cls(plan, tuple(passed), needed_rules, not read.isdisjoint(stage.keys), fallback)


class Outputs(NamedTuple):
    """Columns of a group stage and HAVING that a kernel computes.

    ``plan``: for ``crown.stages.kernels.groups.outputs``, with the ``program`` in it. ``words``: the words of memory
    per group. ``fixed``: the words of memory regardless of the number of groups.
    """

    plan: np.ndarray
    program: Program
    words: int
    fixed: int


def native_outputs(
    stage: GroupStage, form: Form, rules: Sequence[Rule], layout: Layout, readings: Sequence[Reading]
) -> Outputs | None:
    """Returns how a kernel computes the given columns of a form, and HAVING; None if some part has no native form.

    ``readings``: those of ordered values that a kernel makes.
    """
    exprs = [output.expr for output in stage.outputs if output.name in form.passed]
    having = [] if stage.having is None else [stage.having]
    if any(output.expr.type != output.type for output in stage.outputs if output.name in form.passed):
        return None
    program = native((*having, *exprs))
    if program is None:
        return None
    by_name = {rule.aggregate.name: rule for rule in rules}
    reads = list[int]()
    for name, wide in program.reads:
        if name in stage.keys:
            found: list[int] | None = [kernels.KEY, stage.keys.index(name)]
        elif name not in by_name:
            return None  # the digits of a sum that is sent to another cell
        elif (reading := by_name[name].reading) is not None:
            found = [kernels.PASSED, readings.index(reading)] if reading in readings else None
        else:
            found = by_name[name].native(layout)
        if found is None:
            return None
        reads += [*found, *[0] * (kernels.COLUMN_WORDS - len(found)), CODES if wide else WORDS]
    wide_columns = [int(is_wide(expr.type)) for expr in exprs]
    n = len(program.reads)
    head = [n, len(having), len(exprs), program.output_words]
    plan = np.array([*head, *reads, *wide_columns, *program.plan], np.int64)
    words = int(output_kernels.words_per_group(n, program.output_words, len(exprs)))
    return Outputs(plan, program, words, 2 * n)
