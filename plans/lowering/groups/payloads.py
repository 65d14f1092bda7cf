"""Aggregates over a join core whose sums are formed inside the join tree, which enumerates groups instead of rows.

The sums that the aggregates need (`plans.payloads.sums`) are written as products of factors over single relations
(`plans.lowering.groups.monomials`). The products become the terms of the join's payload, and the group stage adds up
the payloads. Keys, arguments of MIN, MAX and DISTINCT, and arguments that have no such form are columns of the join.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from plans.expressions.build import Expr, col
from plans.lowering.comparisons.bands import banded
from plans.lowering.groups.expansion import Expansion, carried, expansion_of, grouping, shown
from plans.lowering.groups.monomials import Monomial
from plans.lowering.joins.cores import feed, rates_of, typed
from plans.lowering.joins.matches import aliases_of
from plans.lowering.stages import Stages, local, origin, renamed
from plans.payloads.counting import check
from plans.payloads.payload import Payload, Term, sum_bits
from plans.plan import Output, Plan, passed
from plans.programs.stages import Feed, GroupStage, JoinStage
from plans.queries.algebra import Group, Query, Source, split, unused
from plans.queries.conjunction import conjunction
from plans.search.planning import lists_joined_rows, plan_conjunction


def summed(group: Group, query: Query, stages: Stages) -> GroupStage | None:
    """Returns the stage of a group over a join core whose sums the join forms, or None if there are no such sums.

    `query`: the group's input; all its relations are inner joined and count their rows. If the function returns None,
    discard the stages that it has added.
    """
    expansion = expansion_of(group, query)
    found = banded(group, query, expansion, stages, feed)
    if found is not None or not expansion.sums or lists_joined_rows(conjunction(query, True)):
        return found
    try:
        return _stage(group, query, expansion, stages)
    except _NoPayloadError:
        return None


class _NoPayloadError(Exception):
    """The tree does not have the factors at bound nodes."""


@dataclass
class _Columns:
    """The columns that a source must have: its own columns, and computed columns with their names."""

    source: Source
    plain: set[str]
    computed: dict[Expr, str]

    def name(self, expr: Expr) -> str:
        """Returns the name of a computed column, which is added if it is missing."""
        if expr not in self.computed:
            taken = [column.name for column in self.source.table.columns]
            self.computed[expr] = unused("f", [*taken, *self.computed.values()])
        return self.computed[expr]


def _stage(group: Group, query: Query, expansion: Expansion, stages: Stages) -> GroupStage:
    exprs = dict(query.outputs)
    columns = {source.alias: _Columns(source, set(), {}) for source in query.sources}
    freed = shown(group, query, expansion)
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
        columns[alias].plain.add(column.lower())
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

    def bits(monomial: Monomial) -> int:
        return sum_bits((plan.attributes[name].type, what) for _, name, what in terms[monomial])

    return grouping(group, Feed(number, tuple(feed)), expansion, carried(expansion, numbers, bits))


def _freed(expr: Expr, columns: dict[str, _Columns], outputs: dict[Expr, str]) -> Expr:
    """Returns an expression over the outputs of the join. Adds the outputs that it reads."""
    if expr.op != "col" and len(aliases_of(expr)) == 1:
        alias = next(iter(aliases_of(expr)))
        expr = col(f"{alias}.{columns[alias].name(expr)}", expr.type)
    names: dict[str, Expr] = {}
    for column in dict.fromkeys(node for node in expr.postorder() if node.op == "col"):
        if column not in outputs:
            outputs[column] = unused(split(column.value)[1], [*outputs.values(), "_weight"])
        names[column.value] = col(outputs[column], column.type)
    return renamed(expr, names)


def _source(columns: _Columns, stages: Stages) -> Source:
    """Returns the source, derived by a stage if it needs computed columns."""
    source, table = columns.source, columns.source.table
    if not columns.computed:
        return source
    needed = columns.plain | {name.lower() for name in table.key}
    plain = passed(column for column in table.columns if column.name.lower() in needed)
    computed = tuple(Output(name, expr.type, local(expr)) for expr, name in columns.computed.items())
    number = stages.linear(Feed(origin(table), (*plain, *computed)))
    return replace(stages.source(source.alias, number, table.key), group=source.group)


def _terms(plan: Plan, expansion: Expansion, attribute: dict[int, str]) -> dict[Monomial, Term]:
    """Returns the terms of the payload by their products. The first term counts."""
    place = {}
    for number, name in attribute.items():
        found = [i for i, node in enumerate(plan.nodes) if name in node.attributes and node.kind == "input"]
        if len(found) != 1 or plan.nodes[found[0]].free:
            raise _NoPayloadError
        place[number] = (found[0], name, expansion.monomials.leaves[number][1])
    monomials = dict.fromkeys([(), *(m for one in expansion.sums.values() for m in one)])
    return {m: tuple(sorted(place[leaf] for leaf in m)) for m in monomials}
