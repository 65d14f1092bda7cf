"""Aggregates over a join core: the sums are formed inside the join tree, which enumerates groups instead of rows.

What the aggregates add up (`plans.payloads.sums`) is written as products of factors over single relations
(`plans.lowering.monomials`): these become the terms of the join's payload, and the group stage adds up what the join
says of them. Keys, arguments of MIN, MAX and DISTINCT, and arguments that have no such form are columns of the join.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from plans.expressions.build import Expr, col
from plans.lowering.joins import rates_of, typed
from plans.lowering.matches import aliases_of
from plans.lowering.monomials import Monomial, Monomials, NotFactorableError, Polynomial, Value
from plans.lowering.stages import Stages, local, origin, renamed
from plans.payloads.carried import JoinSum, Summed
from plans.payloads.counting import check
from plans.payloads.payload import LIMB, Payload, Term, sum_bits
from plans.payloads.sums import ORDERED, Sums
from plans.payloads.sums import Term as Sum
from plans.plan import Output, Plan
from plans.program import Aggregate, Feed, GroupStage, JoinStage, passed
from plans.queries.algebra import Group, Query, Source, split, unused
from plans.queries.conjunction import conjunction
from plans.search.planning import plan_conjunction

MOST_TERMS = 1024


def summed(group: Group, query: Query, stages: Stages) -> GroupStage | None:
    """Returns the stage of a group over a join core, whose sums the join forms; None if it had none to form.

    `query`: the group's input, with relations that are joined by inner joins and all count. Where it returns None,
    discard what it has made before.
    """
    exprs = dict(query.outputs)
    types = {name: expr.type for name, expr in exprs.items()}
    expansion = _Expansion(query, exprs, types)
    read = {name for key in group.keys for name in exprs[key].columns}
    for call in group.aggregates:
        if call.distinct or call.function in ORDERED:
            read |= {name for part in call.read for name in exprs[part].columns}
    left = [call for call in group.aggregates if not (call.distinct or call.function in ORDERED) and call.read]
    for call in left:
        if not {name for part in call.read for name in exprs[part].columns} <= read:
            expansion.add(call)
    if not expansion.sums:
        return None
    try:
        return _stage(group, query, exprs, expansion, stages)
    except _NoPayloadError:
        return None


class _NoPayloadError(Exception):
    """The tree does not have the factors at bound nodes."""


class _Expansion:
    """The sums of aggregates as polynomials over factors. `summed`: the arguments that occur in them alone."""

    def __init__(self, query: Query, exprs: dict[str, Expr], types: dict[str, str]) -> None:
        self.monomials = Monomials(lambda column: _required(query, column))
        self.sums: dict[Sum, Polynomial] = {}
        self.values: dict[str, Value] = {}
        self.summed: dict[str, Summed] = {}
        self._exprs, self._types = exprs, types
        self._rows: dict[tuple[tuple[str, ...], str | None], Polynomial] = {}

    def add(self, call: Aggregate) -> None:
        """Adds the sums of an aggregate, if they have the form."""
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
        """Returns 1 for the rows that a sum is over: of one aggregate they are the same."""
        made, exprs, rows = self.monomials, self._exprs, (sum_.needs, sum_.where)
        if rows not in self._rows:
            parts = [made.valid(exprs[name]) for name in sum_.needs]
            if sum_.where is not None:
                parts.append(made.true(exprs[sum_.where]))
            self._rows[rows] = made.times(*parts)
        return self._rows[rows]


def _required(query: Query, column: Expr) -> bool:
    """Returns whether a qualified column is declared never to be NULL."""
    alias, name = split(column.value)
    return query.source(alias).table.required(name)


@dataclass
class _Columns:
    """What a source has to have: its own columns, and computed ones with their names."""

    source: Source
    own: set[str]
    computed: dict[Expr, str]

    def name(self, expr: Expr) -> str:
        """Returns the name of a computed column, which is added unless it is there."""
        if expr not in self.computed:
            taken = [column.name for column in self.source.table.columns]
            self.computed[expr] = unused("f", [*taken, *self.computed.values()])
        return self.computed[expr]


def _stage(group: Group, query: Query, exprs: dict[str, Expr], expansion: _Expansion, stages: Stages) -> GroupStage:
    columns = {source.alias: _Columns(source, set(), {}) for source in query.sources}
    freed = [name for name in exprs if name not in expansion.summed or _read_beside(name, group, expansion)]
    outputs: dict[Expr, str] = {}
    feed = [Output(name, exprs[name].type, _freed(exprs[name], columns, outputs)) for name in freed]
    tied = {name for condition in query.conditions for one in condition.conjuncts() if one.op in ("eq", "nseq")
            for name in one.columns} | {column.value for column in outputs}  # fmt: skip
    used = {leaf for one in expansion.sums.values() for monomial in one for leaf in monomial}
    factors = {}
    for number in sorted(used):
        expr, _ = expansion.monomials.leaves[number]
        if expr.op == "col" and expr.value not in tied:
            factors[number] = expr
            continue
        alias = next(iter(aliases_of(expr)))
        factors[number] = col(f"{alias}.{columns[alias].name(expr)}", expr.type)
    read = {name for condition in query.conditions for name in condition.columns}
    read |= {column.value for column in (*outputs, *factors.values())}
    for name in read:
        alias, column = split(name)
        columns[alias].own.add(column.lower())
    sources = tuple(_source(columns[source.alias], stages) for source in query.sources)
    core = replace(
        query, sources=sources, outputs=tuple((name, expr) for expr, name in outputs.items()), distinct=False
    )
    atoms = conjunction(core, True, list(factors.values()))
    plan = plan_conjunction(atoms, rates_of(core, stages.rates))
    attribute = dict(zip(factors, atoms.kept, strict=True))
    terms = _terms(plan, expansion, attribute)
    assert plan.payload is not None
    payload = Payload(plan.payload.kinds, tuple(terms.values()))
    plan = replace(typed(plan, core), payload=payload)
    check(plan)
    number = stages.add(JoinStage(plan, "payload"))
    numbers = {monomial: i for i, monomial in enumerate(terms)}
    return GroupStage(
        Feed(number, tuple(feed)),
        group.keys,
        group.aggregates,
        tuple(Output(name, expr.type, expr) for name, expr in group.outputs),
        group.having,
        group.whole,
        tuple(expansion.summed.values()),
        tuple(_carried(sum_, one, terms, numbers, plan, expansion) for sum_, one in expansion.sums.items()),
    )


def _read_beside(name: str, group: Group, expansion: _Expansion) -> bool:
    """Returns whether a column is a key, or read by an aggregate that the join does not sum."""
    if name in group.keys:
        return True
    types = {part: one.type for part, one in expansion.summed.items()}
    for call in group.aggregates:
        if name in call.read:
            known = set(call.read) <= set(types) and not call.distinct and call.function not in ORDERED
            if not known or not set(Sums(call, types).terms) <= set(expansion.sums):
                return True
    return False


def _freed(expr: Expr, columns: dict[str, _Columns], outputs: dict[Expr, str]) -> Expr:
    """Returns an expression over the outputs of the join, which gets what it reads."""
    if expr.op != "col" and len(aliases_of(expr)) == 1:
        alias = next(iter(aliases_of(expr)))
        expr = col(f"{alias}.{columns[alias].name(expr)}", expr.type)
    names: dict[str, Expr] = {}
    for column in dict.fromkeys(node for node in expr.postorder() if node.op == "col"):
        if column not in outputs:
            outputs[column] = unused(split(column.value)[1], [*outputs.values(), "_weight"])
        names[column.value] = col(outputs[column], column.type)
    return renamed(expr, names)


def _source(of: _Columns, stages: Stages) -> Source:
    """Returns the source, derived by a stage where it has to have computed columns."""
    source, table = of.source, of.source.table
    if not of.computed:
        return source
    kept = of.own | {name.lower() for name in table.key}
    plain = passed(column for column in table.columns if column.name.lower() in kept)
    computed = tuple(Output(name, expr.type, local(expr)) for expr, name in of.computed.items())
    number = stages.linear(Feed(origin(table), (*plain, *computed)))
    return replace(stages.source(source.alias, number, table.key), group=source.group)


def _terms(plan: Plan, expansion: _Expansion, attribute: dict[int, str]) -> dict[Monomial, Term]:
    """Returns the terms of the payload, by their products; the first counts."""
    place = {}
    for number, name in attribute.items():
        found = [i for i, node in enumerate(plan.nodes) if name in node.attributes and node.kind == "input"]
        if len(found) != 1 or plan.nodes[found[0]].free:
            raise _NoPayloadError
        place[number] = (found[0], name, expansion.monomials.leaves[number][1])
    monomials = dict.fromkeys([(), *(m for one in expansion.sums.values() for m in one)])
    return {m: tuple(sorted(place[leaf] for leaf in m)) for m in monomials}


def _carried(
    sum_: Sum,
    polynomial: Polynomial,
    terms: dict[Monomial, Term],
    numbers: dict[Monomial, int],
    plan: Plan,
    expansion: _Expansion,
) -> JoinSum:
    def bits(monomial: Monomial, coefficient: int) -> int:
        factors = [(plan.attributes[name].type, what) for _, name, what in terms[monomial]]
        return sum_bits(factors) + (abs(coefficient) - 1).bit_length()

    parts = tuple((c, numbers[m]) for m, c in polynomial.items())
    limbs = 1
    if sum_.factors:
        most = max((bits(m, c) for m, c in polynomial.items()), default=0)
        limbs = max(1, ceil((most + len(parts).bit_length() + 1) / LIMB))
    doubles = sum(expansion.summed[name].doubles for name in sum_.factors)
    return JoinSum(sum_.needs, sum_.where, sum_.factors, sum_.side, sum_.of, limbs, doubles, parts)
