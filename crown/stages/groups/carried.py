"""Sums that events bring with them: a join stage has added up products of factors, the group adds those up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crown.engine.payload import Parts
from crown.stages.groups.rounded import limbs
from crown.stages.groups.terms import Layout
from crown.stages.kernels import sums
from crown.store.zset import Zset
from plans.payloads.sums import term_of
from plans.plan import Plan
from plans.program import Carried


class Carriage:
    """Adds what the events of a join stage with that ``plan`` carry to the terms of a ``layout``."""

    def __init__(self, carried: Sequence[Carried], layout: Layout, plan: Plan) -> None:
        assert plan.payload is not None, "the plan has a payload"
        source = Parts.of(plan.payload.terms, plan)
        self._width = layout.words
        wanted = [one for one in carried if term_of(one) in layout.at]
        recipe, wide = [len(wanted)], []
        for one in wanted:
            term = term_of(one)
            recipe += [layout.at[term], layout.limbs[term], len(one.parts)]
            for coefficient, number in one.parts:
                part = plan.payload.terms[number]
                recipe += [source.at[part], source.limbs[part]]
                if coefficient == 1:
                    recipe += [0, 0]
                elif -(1 << 63) < coefficient < 1 << 63:
                    recipe += [1, coefficient]
                else:
                    wide.append((len(recipe), coefficient))
                    recipe += [0, 0]
        for at, coefficient in wide:
            words = limbs(coefficient, coefficient.bit_length() // 64 + 1)[0]
            recipe[at : at + 2] = [len(words), len(recipe)]
            recipe += words.tolist()
        self._recipe = np.array(recipe, np.int64)
        self._scratch = np.empty(3 * max([1, *(layout.limbs[term_of(one)] for one in wanted)]), np.int64)

    def add(self, net: Zset, where: np.ndarray, deltas: np.ndarray) -> None:
        """Adds events to the states of their groups (``where`` int64[n]), int64[groups, words]. O(events * parts)."""
        if len(net):
            payload, sign = net.payload, net.sign
            if payload is None:  # the count is all that there is to carry: the weights
                payload, sign = net.weights, 1
            payload = np.ascontiguousarray(payload)
            sums.carry_over(where, payload, sign, self._recipe, self._scratch, deltas, self._width)
