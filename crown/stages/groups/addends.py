"""Adds the addends of a batch to its groups: products of columns, and sums that earlier stages computed.

A join stage may have summed products of factors already; the group then sums these sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from crown.engine.payload import Parts
from crown.expressions.literals import is_wide
from crown.kernels.numbers.fixed import FAR_LIMBS, FLOAT_LIMBS
from crown.results.columns import Column, Frame
from crown.stages.groups import rounded
from crown.stages.groups.far import Far
from crown.stages.groups.terms import Layout, Placed, product
from crown.stages.kernels.groups import far as far_kernels
from crown.stages.kernels.groups import sums
from crown.store.zset import Zset
from plans.payloads.carried import JoinSum
from plans.payloads.sums import Term, term_of
from plans.plan import Plan

_NOTHING = np.empty((0, 0), np.int64), np.empty(0, np.int64), np.empty(0, np.int64)


class Addends:
    """Adds rows to ``terms`` of the states of groups. ``types``: the types of their arguments.

    ``places``: the positions of the columns in the inputs; None for the order of ``reads``.
    """

    def __init__(
        self, terms: Sequence[Placed], types: Mapping[str, str], places: Mapping[str, int] | None = None
    ) -> None:
        self.terms = [one.term for one in terms]
        read = [
            name
            for term in self.terms
            for name in (*([] if term.where is None else [term.where]), *term.needs, *term.factors, *_sided(term))
        ]
        names = list(dict.fromkeys(read))
        at = {name: i for i, name in enumerate(names)} if places is None else places
        self.reads = [(name, is_wide(types[name])) for name in names]
        self._doubles = [name for name in names if types[name] == "float64"]
        recipe = [len(terms)]
        for term, first, limbs in terms:
            condition = -1 if term.where is None else at[term.where]
            of = at[term.of] if term.side else 0
            recipe += [first, limbs, condition, len(term.needs), len(term.factors), term.side, of]
            recipe += [at[name] for name in term.needs]
            recipe += [word for name in term.factors for word in (at[name], _kind(types[name]))]
        self.recipe = np.array(recipe, np.int64)
        self.room = 3 * max([1, *(limbs for _, _, limbs in terms)]) + FLOAT_LIMBS

    def add(self, frame: Frame, weights: np.ndarray, where: np.ndarray, state: np.ndarray, far: Far) -> None:
        """Adds rows, times their weights, to the states of their groups (``where`` int64[n]), int64[groups, words], and
        to their far parts. O(rows * terms)."""
        scratch = np.empty(self.room, np.int64)
        inputs, forms, pairs = frame.inputs(self.reads) if self.reads else _NOTHING
        arena, recipe = frame.dictionary.memory[0], self.recipe
        if sums.add_terms(arena, where, weights, inputs, forms, pairs, recipe, scratch, state):
            self.add_far(frame, weights, where, far)

    def add_far(self, frame: Frame, weights: np.ndarray, where: np.ndarray, far: Far) -> None:
        """Adds the far parts of rows with far doubles."""
        doubles = {name: _are_far(frame[name].codes) for name in self._doubles}
        for term in self.terms:
            some = np.zeros(len(weights), np.bool_)
            for name in term.factors:
                some |= doubles.get(name, False)
            rows = (some & (counted(frame, weights, term.needs, term.where) != 0)).nonzero()[0]
            if len(rows):
                values = _lifted(frame[term.factors[0]], rows)
                for name in term.factors[1:]:
                    values = product(values, _lifted(frame[name], rows))
                far.of(term).add(where[rows], weights[rows], values)


def counted(frame: Frame, weights: np.ndarray, needs: Sequence[str], where: str | None) -> np.ndarray:
    """Returns the weights (int64[n]) of rows, 0 where one of the columns ``needs`` is NULL or the filter is not
    TRUE."""
    found = weights if where is None else weights * (frame[where].codes == 1)
    for name in needs:
        valid = frame[name].valid()
        found = found if valid is None else found * valid
    return found


def _sided(term: Term) -> tuple[str, ...]:
    return (term.of,) if term.side else ()


def _kind(type_: str) -> int:
    """Returns the constant with which kernels read a factor of a type."""
    if type_ == "float64":
        return sums.DOUBLE
    return sums.WIDE if is_wide(type_) else sums.WHOLE


def _are_far(codes: np.ndarray) -> np.ndarray:
    """Returns bool[n], True where a double, given as its code, is far."""
    codes, far = np.ascontiguousarray(codes), np.zeros(len(codes), np.bool_)
    sums.lift_floats(codes, np.empty((len(codes), FLOAT_LIMBS), np.int64), far)
    return far


def _lifted(column: Column, rows: np.ndarray) -> np.ndarray:
    """Returns some rows of a column in the unit of far parts, int64[rows, limbs]."""
    if column.type != "float64":
        return column.words()[rows]
    out = np.empty((len(rows), FLOAT_LIMBS + FAR_LIMBS), np.int64)
    far_kernels.lift(np.ascontiguousarray(column.codes[rows]), out.shape[1], out)
    return out


class CarriedTerm(NamedTuple):
    """A term that events carry: its first word, its limbs, and the number of doubles in its product."""

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
    """Adds the ``terms`` that the events of a join carry to the terms of a ``layout``. ``recipe``: see
    ``sums.carry_over``."""

    def __init__(self, carried: Sequence[JoinSum], layout: Layout, terms: Sequence[CarriedTerm]) -> None:
        self._layout = layout
        near = _Recipe()
        self._far: dict[Term, np.ndarray] = {}
        carried_terms = [one for one in carried if term_of(one) in layout.at]
        for one in carried_terms:
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
        self.recipe = near.array()
        self.room = 3 * max([1, *(layout.limbs[term_of(one)] for one in carried_terms)])
        self._slices = np.array([part.at + part.limbs for part in dict.fromkeys(terms) if part.doubles], np.int64)

    def add_far(self, net: Zset, where: np.ndarray, far: Far) -> None:
        """Adds the slices of far parts that events carry to the far parts of their groups (``where`` int64[n])."""
        assert net.payload is not None, "events without a payload carry a count"
        payload = net.payload
        rows = np.flatnonzero(payload[self._slices].any(axis=0))
        slices, groups = np.ascontiguousarray(payload[:, rows]), where[rows]
        for term, recipe in self._far.items():
            limbs, found = self._layout.far_limbs(term), far.of(term)
            at = found.rows(groups)
            far_kernels.carry_slices(at, slices, net.sign, recipe, limbs, np.empty(3 * limbs, np.int64), found.numbers)


class _Recipe:
    """A recipe of a kernel: ``count`` and words, with coefficients of several limbs after all others."""

    def __init__(self) -> None:
        self.count = 0
        self.words: list[int] = []
        self._wide: list[tuple[int, int]] = []

    def take(self, coefficient: int) -> None:
        """Appends the words of a coefficient."""
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
