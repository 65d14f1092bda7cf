"""Expands the sums of a group's aggregates into polynomials over factors of single relations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import ceil

from plans.expressions.expr import Expr
from plans.lowering.groups.monomials import Monomial, Monomials, NotFactorableError, Polynomial, Value
from plans.payloads.carried import JoinSum, Summed
from plans.payloads.payload import LIMB
from plans.payloads.sums import ORDERED, Sums
from plans.payloads.sums import Term as Sum
from plans.plan import Output
from plans.programs.stages import Aggregate, Feed, GroupStage
from plans.queries.algebra import Group, Query, split

MOST_TERMS = 1024


class Expansion:
    """The sums of aggregates as polynomials over factors. `summed`: the arguments that occur only in these sums."""

    def __init__(self, query: Query, exprs: dict[str, Expr], types: dict[str, str]) -> None:
        self.monomials = Monomials(lambda column: _required(query, column))
        self.sums: dict[Sum, Polynomial] = {}
        self.values: dict[str, Value] = {}
        self.summed: dict[str, Summed] = {}
        self._exprs, self._types = exprs, types
        self._rows: dict[tuple[tuple[str, ...], str | None], Polynomial] = {}

    def add(self, call: Aggregate) -> None:
        """Adds the sums of an aggregate if they can be expanded."""
        leaves = len(self.monomials.leaves)
        try:
            found = {sum_: self._polynomial(sum_) for sum_ in Sums(call, self._types).terms}
        except NotFactorableError:
            found = None
        terms = {m for one in (*self.sums.values(), *(found or {}).values()) for m in one}
        if found is None or len(terms) > MOST_TERMS:
            self.monomials.forget(leaves)
            self._rows.clear()
            return
        self.sums.update(found)
        for name in call.read:
            expr = self._exprs[name]
            value = self.monomials.value(expr) if name in {f for s in found for f in s.factors} else Value({})
            self.summed.setdefault(name, Summed(name, expr.type, expr))
            if value.bits or value.digits:
                doubles = max(map(self.monomials.doubles, value.polynomial), default=0)
                self.summed[name] = replace(self.summed[name], bits=value.bits, digits=value.digits, doubles=doubles)

    def _polynomial(self, sum_: Sum) -> Polynomial:
        made, exprs = self.monomials, self._exprs
        parts = [self._where(sum_)]
        if sum_.side:
            parts.append(made.side(exprs[sum_.of], sum_.side))
        return made.times(*parts, *(made.value(exprs[name]).polynomial for name in sum_.factors))

    def _where(self, sum_: Sum) -> Polynomial:
        """Returns the polynomial that is 1 for the rows of a sum. All sums of one aggregate share it."""
        made, exprs, rows = self.monomials, self._exprs, (sum_.needs, sum_.where)
        if rows not in self._rows:
            parts = [made.valid(exprs[name]) for name in sum_.needs]
            if sum_.where is not None:
                parts.append(made.true(exprs[sum_.where]))
            self._rows[rows] = made.times(*parts)
        return self._rows[rows]


def _required(query: Query, column: Expr) -> bool:
    """Returns whether a qualified column is declared NOT NULL."""
    alias, name = split(column.value)
    return query.source(alias).table.required(name)


def expansion_of(group: Group, query: Query) -> Expansion:
    """Returns the expansion of the aggregates of a group over a join core that read columns which the join does not
    output."""
    exprs = dict(query.outputs)
    made = Expansion(query, exprs, {name: expr.type for name, expr in exprs.items()})
    read = {name for key in group.keys for name in exprs[key].columns}
    for call in group.aggregates:
        if call.distinct or call.function in ORDERED:
            read |= {name for part in call.read for name in exprs[part].columns}
    left = [call for call in group.aggregates if not (call.distinct or call.function in ORDERED) and call.read]
    for call in left:
        if not {name for part in call.read for name in exprs[part].columns} <= read:
            made.add(call)
    return made


def shown(group: Group, query: Query, expansion: Expansion) -> list[str]:
    """Returns the columns of the group's input that are read by more than the sums."""
    return [name for name, _ in query.outputs if name not in expansion.summed or _read_beside(name, group, expansion)]


def _read_beside(name: str, group: Group, expansion: Expansion) -> bool:
    """Returns whether a column is a key, or is read by an aggregate that the join does not sum."""
    if name in group.keys:
        return True
    types = {part: one.type for part, one in expansion.summed.items()}
    for call in group.aggregates:
        if name in call.read:
            known = set(call.read) <= set(types) and not call.distinct and call.function not in ORDERED
            if not known or not set(Sums(call, types).terms) <= set(expansion.sums):
                return True
    return False


def grouping(
    group: Group, read: Feed, expansion: Expansion | None = None, sums: tuple[JoinSum, ...] = ()
) -> GroupStage:
    """Returns the stage of a group with one feed. With an `expansion`, the rows of the feed carry the `sums`."""
    outputs = tuple(Output(name, expr.type, expr) for name, expr in group.outputs)
    summed = () if expansion is None else tuple(expansion.summed.values())
    return GroupStage(read, group.keys, group.aggregates, outputs, group.having, group.whole, summed, sums)


def carried(
    expansion: Expansion, numbers: Mapping[Monomial, int], bits: Callable[[Monomial], int]
) -> tuple[JoinSum, ...]:
    """Returns the sums as the join carries them. `numbers`: those of the terms; `bits`: the width of the sum of a
    term."""
    return tuple(_carried(sum_, one, numbers, bits, expansion) for sum_, one in expansion.sums.items())


def _carried(
    sum_: Sum,
    polynomial: Polynomial,
    numbers: Mapping[Monomial, int],
    bits: Callable[[Monomial], int],
    expansion: Expansion,
) -> JoinSum:
    parts = tuple((c, numbers[m]) for m, c in polynomial.items())
    limbs = 1
    if sum_.factors:
        most = max((bits(m) + (abs(c) - 1).bit_length() for m, c in polynomial.items()), default=0)
        limbs = max(1, ceil((most + len(parts).bit_length() + 1) / LIMB))
    doubles = sum(expansion.summed[name].doubles for name in sum_.factors)
    return JoinSum(sum_.needs, sum_.where, sum_.factors, sum_.side, sum_.of, limbs, doubles, parts)
