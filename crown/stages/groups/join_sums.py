"""Sums that events bring with them: a join stage has added up products of factors, the group adds those up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crown.engine.payload import Parts
from crown.stages.groups.far import Far
from crown.stages.groups.rounded import limbs
from crown.stages.groups.terms import Layout
from crown.stages.kernels import far as far_kernels
from crown.stages.kernels import sums
from crown.store.zset import Zset
from plans.payloads.carried import JoinSum
from plans.payloads.sums import Term, term_of
from plans.plan import Plan


class JoinSums:
    """Adds what the events of a join stage with that ``plan`` carry to the terms of a ``layout``."""

    def __init__(self, carried: Sequence[JoinSum], layout: Layout, plan: Plan) -> None:
        assert plan.payload is not None, "the plan has a payload"
        source = Parts.of(plan.payload.terms, plan)
        terms = plan.payload.terms
        self._layout = layout
        near = _Recipe()
        self._far: dict[Term, np.ndarray] = {}
        wanted = [one for one in carried if term_of(one) in layout.at]
        for one in wanted:
            term = term_of(one)
            near.count += 1
            near.words += [layout.at[term], layout.limbs[term], len(one.parts)]
            far = _Recipe()
            for coefficient, number in one.parts:
                part = terms[number]
                slices = source.at[part] + source.limbs[part] if source.doubles[part] else -1
                near.words += [source.at[part], source.limbs[part]]
                near.take(coefficient)
                near.words.append(slices)
                if slices >= 0:
                    far.count += 1
                    far.words += [source.at[part], source.limbs[part], one.doubles - source.doubles[part]]
                    far.take(coefficient)
            if far.count:
                self._far[term] = far.array()
        self._recipe = near.array()
        self._scratch = np.empty(3 * max([1, *(layout.limbs[term_of(one)] for one in wanted)]), np.int64)
        self._slices = np.array([at + n for at, n in source.far], np.int64)

    def add(self, net: Zset, where: np.ndarray, deltas: np.ndarray, far: Far) -> None:
        """Adds events to the states of their groups (``where`` int64[n]), int64[groups, words], and to their far parts.

        O(events * parts).
        """
        if len(net):
            payload, sign = net.payload, net.sign
            if payload is None:  # the count is all that there is to carry: the weights
                payload, sign = net.weights, 1
            payload = np.ascontiguousarray(payload)
            if sums.carry_over(where, payload, sign, self._recipe, self._scratch, deltas, self._layout.words):
                self._add_slices(payload, sign, where, far)

    def _add_slices(self, payload: np.ndarray, sign: int, where: np.ndarray, far: Far) -> None:
        rows = np.flatnonzero(payload[self._slices].any(axis=0))
        slices, groups = np.ascontiguousarray(payload[:, rows]), where[rows]
        for term, recipe in self._far.items():
            limbs, found = self._layout.far_limbs(term), far.of(term)
            at = found.rows(groups)
            far_kernels.carry_slices(at, slices, sign, recipe, limbs, np.empty(3 * limbs, np.int64), found.numbers)


class _Recipe:
    """A recipe of a kernel: ``count`` and words, with coefficients of several limbs behind all others."""

    def __init__(self) -> None:
        self.count = 0
        self.words: list[int] = []
        self._wide: list[tuple[int, int]] = []

    def take(self, coefficient: int) -> None:
        """Adds the words of a coefficient."""
        if coefficient == 1:
            self.words += [0, 0]
        elif -(1 << 63) < coefficient < 1 << 63:
            self.words += [1, coefficient]
        else:
            self._wide.append((len(self.words), coefficient))
            self.words += [0, 0]

    def array(self) -> np.ndarray:
        """Returns all words, int64[n]."""
        words = [self.count, *self.words]
        for at, coefficient in self._wide:
            found = limbs(coefficient, coefficient.bit_length() // 64 + 1)[0]
            words[1 + at : 3 + at] = [len(found), len(words)]
            words += found.tolist()
        return np.array(words, np.int64)
