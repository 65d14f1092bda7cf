"""What the events of a batch add to the states of their groups: products of their columns, and sums that they bring.

A join stage may have added up products of factors already; then the group adds those up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from crown.engine.payload import Parts
from crown.kernels.fixed import FAR_LIMBS, FLOAT_LIMBS
from crown.results.columns import Frame
from crown.stages.groups import rounded
from crown.stages.groups.far import Far
from crown.stages.groups.terms import Layout, Placed, product
from crown.stages.kernels import far as far_kernels
from crown.stages.kernels import sums
from crown.store.zset import Zset
from plans.payloads.carried import JoinSum
from plans.payloads.sums import Term, term_of
from plans.plan import Plan

_INFINITY = 2047 << 52
_MINUS_INFINITY = _INFINITY - 2**63


class Addends:
    """The events of a batch, as the terms need them: each column is lifted, and each filter worked out, once."""

    def __init__(self, frame: Frame, weights: np.ndarray, where: np.ndarray) -> None:
        self._frame = frame
        self._weights = weights
        self._where = where  # number of the group of each event
        self._lifted: dict[str, np.ndarray] = {}
        self._far: dict[str, np.ndarray] = {}  # per column where some doubles are far
        self._valid: dict[tuple[tuple[str, ...], str | None], np.ndarray] = {}

    def add(self, terms: Iterable[Placed], deltas: np.ndarray, far: Far) -> None:
        """Adds the events to ``terms`` of the groups' states, ``deltas`` int64[groups, words], and to their far parts.

        O(events * terms).
        """
        words = deltas.shape[1]
        for term, at, limbs in terms:
            weights = self.weights(term.needs, term.where)
            if term.side:
                weights = weights * _beyond(self._frame[term.of].codes, term.side)
            if not term.factors:
                sums.count(self._where, weights, deltas, words, at)
                continue
            values = self._lift(term.factors[0])
            for name in term.factors[1:]:
                values = product(values, self._lift(name))
            scratch = np.empty(limbs, np.int64)
            sums.accumulate(self._where, weights, values, values.shape[1], scratch, deltas, words, at, limbs)
            if self._far:
                rows = self._far_rows(term.factors, weights)
                if len(rows):
                    far.of(term).add(self._where[rows], weights[rows], self._far_product(term.factors, rows))

    def weights(self, needs: tuple[str, ...], where: str | None) -> np.ndarray:
        """Returns the weights (int64[n]) of the events, 0 where an argument is NULL or the filter not TRUE."""
        found = self._valid.get((needs, where))
        if found is None:
            found = self._weights
            if where is not None:
                found = found * (self._frame[where].codes == 1)
            for name in needs:
                valid = self._frame[name].valid()
                found = found if valid is None else found * valid
            self._valid[needs, where] = found
        return found

    def _lift(self, name: str) -> np.ndarray:
        """Returns a column as integers, int64[n, limbs]; of doubles those that are near, the others as 0."""
        if name not in self._lifted:
            column = self._frame[name]
            self._lifted[name] = self._lift_floats(name) if column.type == "float64" else column.words()
        return self._lifted[name]

    def _lift_floats(self, name: str) -> np.ndarray:
        codes = np.ascontiguousarray(self._frame[name].codes)
        out, far = np.empty((len(codes), FLOAT_LIMBS), np.int64), np.empty(len(codes), np.bool_)
        if sums.lift_floats(codes, out, far):
            self._far[name] = far
        return out

    def _far_rows(self, factors: tuple[str, ...], weights: np.ndarray) -> np.ndarray:
        """Returns the events that count and of which some factor is far."""
        some = np.zeros(len(weights), np.bool_)
        for name in factors:
            if name in self._far:
                some |= self._far[name]
        return (some & (weights != 0)).nonzero()[0]

    def _far_product(self, factors: tuple[str, ...], rows: np.ndarray) -> np.ndarray:
        """Returns the products of the factors of some events, as far parts have them: int64[rows, limbs]."""
        values = self._lift_far(factors[0], rows)
        for name in factors[1:]:
            values = product(values, self._lift_far(name, rows))
        return values

    def _lift_far(self, name: str, rows: np.ndarray) -> np.ndarray:
        if self._frame[name].type != "float64":
            return self._lifted[name][rows]
        out = np.empty((len(rows), FLOAT_LIMBS + FAR_LIMBS), np.int64)
        far_kernels.lift(np.ascontiguousarray(self._frame[name].codes[rows]), out.shape[1], out)
        return out


class CarriedTerm(NamedTuple):
    """A term of what events carry: its first word, its limbs, and of how many doubles it is a product."""

    at: int
    limbs: int
    doubles: int = 0


def carried_by(plan: Plan) -> list[CarriedTerm]:
    """Returns the terms that the rows of a join stage with that ``plan`` carry."""
    if plan.payload is None:
        return []
    of = Parts.of(plan.payload.terms, plan)
    return [CarriedTerm(of.at[term], of.limbs[term], of.doubles[term]) for term in plan.payload.terms]


class JoinSums:
    """Adds what the events of a join carry, these ``terms``, to the terms of a ``layout``."""

    def __init__(self, carried: Sequence[JoinSum], layout: Layout, terms: Sequence[CarriedTerm]) -> None:
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
                slices = part.at + part.limbs if part.doubles else -1
                near.words += [part.at, part.limbs]
                near.take(coefficient)
                near.words.append(slices)
                if slices >= 0:
                    far.count += 1
                    far.words += [part.at, part.limbs, one.doubles - part.doubles]
                    far.take(coefficient)
            if far.count:
                self._far[term] = far.array()
        self._recipe = near.array()
        self._scratch = np.empty(3 * max([1, *(layout.limbs[term_of(one)] for one in wanted)]), np.int64)
        self._slices = np.array([part.at + part.limbs for part in dict.fromkeys(terms) if part.doubles], np.int64)

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
            found = rounded.limbs(coefficient, coefficient.bit_length() // 64 + 1)[0]
            words[1 + at : 3 + at] = [len(found), len(words)]
            words += found.tolist()
        return np.array(words, np.int64)


def _beyond(codes: np.ndarray, side: int) -> np.ndarray:
    """Returns where doubles (their codes) are NaN or the infinity of a sign."""
    nan = np.isnan(codes.view(np.float64))
    return np.asarray(nan | (codes == (_INFINITY if side > 0 else _MINUS_INFINITY)))
