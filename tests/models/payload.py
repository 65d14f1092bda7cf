"""The readable twin of payloads: the value of every group, maintained by rules of one line each.

Per term, with ``w`` the weight of a row (its copies, or 1) and ``f`` its factor:

    own(e, t) = w(t) · f(t) · Π over bound children c of Pub[group of t on edge c]
    A[g]      = Σ own(c, t) over the rows of V_s(c) with key g  =  Pub[g] + change[g], at every step
    V(q)      = Π over free nodes e of own(e, q_e)

    enter     g was empty ? Pub[g] := own : change[g] += own.  If e is free, a witness yields +V of its results
    leave     not the last of g: change[g] -= own.  The last: P-update first, by the old Pub; then Pub[g] := 0
    reweigh   t in V_s: change[g] += own with the difference for w(t).  If e is free and t live, yield V with it
    publish   once per batch, deepest edges first: every parent of a changed g adds to its change, or yields V, with
              change[g] for Pub[g]; then Pub[g] += change[g]

A parent reads only ``Pub``. A pending change is published to it later, so reading it earlier would count it twice.
Filters (kind ``exists``) have no value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from plans.payloads.counting import check
from plans.payloads.payload import COUNTED, DOWN, EXISTS, MINUS, PLUS, UP, VALID, VALUE, Term
from plans.plan import Plan
from plans.programs.stored_relations import Alias
from plans.types import decimal_parts
from tests.models import padded
from tests.models.view import ReferenceView, Result, Row, _check

Value = dict[Term, int]
FLOAT_UNIT = 1136
"""The value of a double is an integer in units of 2^-1136, which every finite double is."""
_VALUE_KEY = ""  # key of the values in a result; no attribute has this name


class PayloadReference(ReferenceView):
    """Maintains the values of all terms of the plan's payload, per tuple of the plan's free attributes.

    ``plan`` as for ``ReferenceView``, with a payload. Raises PlanError if that cannot be maintained on its tree.
    Counter: ``touched``, the parent rows that publications visited.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        check(plan)
        assert plan.payload is not None, "the plan must have a payload"
        payload = self.payload = plan.payload
        self.inside = [self._subtree(e) for e in range(len(plan.nodes))]
        self.has_value = [not node.free and payload.kinds[e] != EXISTS for e, node in enumerate(plan.nodes)]
        self.pub: list[dict[Row, Value]] = [{} for _ in plan.nodes]
        self.change: list[dict[Row, Value]] = [{} for _ in plan.nodes]
        self.touched = 0

    def apply_valued(self, changes: Mapping[str, pa.Table | Iterable[Mapping[str, object]]]) -> dict[Row, list[int]]:
        """Applies a batch as ``apply`` does.

        Returns, per tuple of the free attributes, the changes of the values of all terms.
        """
        weights = self._weights(changes)
        results: list[Result] = []
        for sign in (-1, +1):
            for source, batch in weights:
                for row, weight in batch.items():
                    if weight * sign > 0:
                        for alias in source.aliases:
                            results.extend(self._change(alias, row, weight))
            results.extend(padded.update_paddings(self, weights, sign))
        results.extend(self.publish())
        return self._summed(results)

    def values(self) -> dict[Row, list[int]]:
        """Returns the values of all terms for every tuple of the free attributes in the result."""
        return self._summed(self._valued(result) for result in self.full_enum(self.free_nodes, {}))

    # -- rules ---------------------------------------------------------------------------------------------------------

    def _change(self, alias: Alias, values: Row, weight: int) -> Iterator[Result]:
        """Applies the change of a tuple at one alias: it enters, leaves, or changes its weight. Yields the results.

        Aliases are applied one after the other.
        """
        row = tuple(values[word] for word in alias.words)
        before = self.relation[alias.node].get(row, 0)
        yield from super()._change(alias, values, weight)
        after = self.relation[alias.node].get(row, 0)
        if before and after and before != after:
            yield from self.reweigh(alias.node, row, after - before)

    def s_update(self, e: int, row: Row, sign: int) -> Iterator[Result]:
        """Applies S-UPDATE with the rules ``enter`` and ``leave``. Yields the results that change."""
        self.s_updates += 1
        key = self.key[e](row)
        group = self._group(e, key)
        flips = len(group.children) == (0 if sign > 0 else 1)
        if sign > 0:
            group.children[row] = None
            if self.has_value[e]:
                self.enter(e, row, flips)
        if e == 0 or (not flips and self.plan.nodes[e].free and group.live):
            yield from self._valued_results(e, row, sign * self._weight(e, row))
            self.live_update(e, row, sign)
        elif flips:
            yield from self.p_update(e, key, sign)
        if sign < 0:
            if self.has_value[e]:
                self.leave(e, row, flips)
            del group.children[row]
            self._release(e, key)

    def enter(self, e: int, row: Row, first: bool) -> None:
        """Adds the value of a row to its group. A new group is published at once: it has no parents yet."""
        own = self._own(e, row, self._weight(e, row))
        if first:
            self.pub[e][self.key[e](row)] = own
        else:
            self._pend(e, self.key[e](row), own)

    def leave(self, e: int, row: Row, last: bool) -> None:
        """Subtracts the value of a row from its group.

        The last row removes the payload of the group, whose parents have left.
        """
        own, key = self._own(e, row, self._weight(e, row)), self.key[e](row)
        if not last:
            self._pend(e, key, {term: -value for term, value in own.items()})
            return
        _check(
            _sum(self.pub[e].pop(key), self.change[e].pop(key, {})) == own,
            "the value of a group is that of its last row",
        )

    def reweigh(self, e: int, row: Row, change: int) -> Iterator[Result]:
        """Applies the change of the weight of a row that stays in V_s. Yields the results that change."""
        group = self.groups[e].get(self.key[e](row))
        if self.payload.kinds[e] != COUNTED or group is None or row not in group.children:
            return
        if self.has_value[e]:
            self._pend(e, self.key[e](row), self._own(e, row, change))
        elif e == 0 or group.live:
            yield from self._valued_results(e, row, change)

    def publish(self) -> Iterator[Result]:
        """Publishes the changes of all groups to their parents, deepest edges first. Yields the results that change.

        In this order no change is added below an edge that is done.
        """
        depth = [0] * len(self.plan.nodes)
        for c, node in enumerate(self.plan.nodes[1:], 1):
            depth[c] = depth[node.parent] + 1
        for c in sorted((c for c, has_value in enumerate(self.has_value) if has_value), key=lambda c: -depth[c]):
            p = self.plan.nodes[c].parent
            for key, change in list(self.change[c].items()):
                for row in list(self.groups[c][key].parents) if any(change.values()) else ():
                    self.touched += 1
                    group = self.groups[p].get(self.key[p](row))
                    if group is None or row not in group.children:
                        continue
                    if self.has_value[p]:
                        self._pend(p, self.key[p](row), self._own(p, row, self._weight(p, row), (c, change)))
                    elif p == 0 or group.live:
                        yield from self._valued_results(p, row, self._weight(p, row), (c, change))
                self.pub[c][key] = _sum(self.pub[c][key], change)
            self.change[c].clear()

    # -- values --------------------------------------------------------------------------------------------------------

    def _subtree(self, e: int) -> set[int]:
        return {e}.union(*(self._subtree(c) for c in self.children[e]))

    def _below(self, term: Term, e: int) -> Term:
        return tuple(factor for factor in term if factor[0] in self.inside[e])

    def _weight(self, e: int, row: Row) -> int:
        return self.relation[e].get(row, 1) if self.payload.kinds[e] == COUNTED else 1  # a padding has one copy

    def _own(self, e: int, row: Row, weight: int, instead: tuple[int, Value] | None = None) -> Value:
        """Returns the value of a row with a weight. ``instead``: a child, and what replaces its ``Pub``."""
        attributes = dict(zip(self.plan.nodes[e].attributes, row, strict=True))
        own = {}
        for term in {self._below(term, e) for term in self.payload.terms}:
            value = weight
            for i, name, what in term:
                if i == e:
                    value *= factor(attributes[name], self.plan.attributes[name].type, what)
            for c in self.children[e]:
                if self.has_value[c]:
                    pub = self.pub[c][self.key_in_parent[c](row)]
                    if instead is not None and c == instead[0]:
                        pub = instead[1]
                    value *= pub[self._below(term, c)]
            own[term] = value
        return own

    def _pend(self, e: int, key: Row, value: Value) -> None:
        self.change[e][key] = _sum(value, self.change[e].get(key, {}))

    def _valued_results(
        self, e: int, row: Row, weight: int, instead: tuple[int, Value] | None = None
    ) -> Iterator[Result]:
        """Yields the results of a witness with their values, if the witness had that weight.

        ``instead``: as in ``_own``.
        """
        for result in self.delta_enum(e, row):
            yield self._valued(result, e, self._own(e, row, weight, instead))

    def _valued(self, result: Result, witness: int = -1, own: Value | None = None) -> Result:
        """Returns the result with its values under ``_VALUE_KEY``.

        ``own``: replaces the value of its row of node ``witness``.
        """
        values = [1] * len(self.payload.terms)
        for e in self.free_nodes:
            row = tuple(result[name] for name in self.plan.nodes[e].attributes)
            own_value = own if own is not None and e == witness else self._own(e, row, self._weight(e, row))
            values = [v * own_value[self._below(term, e)] for v, term in zip(values, self.payload.terms, strict=True)]
        return result | {_VALUE_KEY: values}

    def _summed(self, results: Iterable[Result]) -> dict[Row, list[int]]:
        sums: dict[Row, list[int]] = {}
        for result in results:
            values: Any = result[_VALUE_KEY]
            before = sums.get(row := tuple(result[name] for name in self.plan.free), [0] * len(values))
            sums[row] = [a + b for a, b in zip(before, values, strict=True)]
        return {row: values for row, values in sums.items() if any(values)}

    def check_invariants(self) -> None:
        """Checks the invariants of the views, that no change is pending, and the value of every group.

        Raises AssertionError.
        """
        super().check_invariants()
        for e in reversed(range(len(self.plan.nodes))):
            if not self.has_value[e]:
                continue
            name = self.plan.nodes[e].name
            _check(not self.change[e], f"no change is pending above {name}")
            filled = {key: group.children for key, group in self.groups[e].items() if group.children}
            _check(set(filled) == set(self.pub[e]), f"groups above {name} with a payload are those with rows")
            for key, children in filled.items():
                total: Value = {}
                for row in children:
                    total = _sum(self._own(e, row, self._weight(e, row)), total)
                _check(total == self.pub[e][key], f"the value of a group above {name} is that of its rows")
                _check(total[()] > 0, f"a group above {name} counts its rows")


def _sum(one: Value, other: Value) -> Value:
    return {term: value + other.get(term, 0) for term, value in one.items()}


def factor(value: Any, kind: str, what: str) -> int:
    """Returns the factor of a value of a type in a product (see `plans.payloads.payload`)."""
    if value is None or what == VALID:
        return int(value is not None)
    if what == VALUE:
        if isinstance(value, float):
            return int(Fraction(value) * (1 << FLOAT_UNIT)) if math.isfinite(value) else 0
        parts = decimal_parts(kind)
        return int(value.scaleb(parts[1])) if parts is not None and isinstance(value, Decimal) else int(value)
    holds = {PLUS: value == math.inf, MINUS: value == -math.inf, UP: value >= 0, DOWN: value <= 0}
    return int(value != value or holds[what])
