"""Rewrites aggregates over a join of copies of one relation on the same columns, so that the relation is grouped once.

>>> from plans import parse
>>> text = "SELECT g1.a, COUNT(*) AS n FROM r g1, r g2, r g3 WHERE g1.a = g2.a AND g2.a = g3.a GROUP BY g1.a"
>>> made = grouped_once(parse(text, {"r": {"a": "int64", "b": "int64"}}))
>>> [source.alias for source in made.input.sources], made.aggregates[0].power
(['g1'], 3)

If n rows have a value of the joined columns, then n^k rows of a join of k copies have it, and each value of one copy
occurs in n^(k - 1) of them. So COUNT is a power of n, and MIN, MAX, AVG and aggregates of DISTINCT values are those of
one copy. The join would store the relation and k views of it. This is eager aggregation (Yan and Larson, VLDB 1995).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from plans.expressions.build import Expr, call, col, lit
from plans.lowering.joins.matches import aliases_of, together
from plans.lowering.stages import renamed
from plans.payloads.sums import ONCE
from plans.programs.stages import Aggregate
from plans.queries.algebra import Group, Query, Relation, Source, rebuilt, split, unused
from plans.schema import WEIGHT, Column, Table


def grouped_once(relation: Relation) -> Relation:
    """Returns an equivalent relation without joins of copies whose aggregates follow from groups of one copy."""
    return rebuilt(relation, _of_one_copy)


@dataclass(frozen=True)
class _Copies:
    """A join of ``number`` copies of ``source``, on its ``columns``; ``conditions`` select the rows of each copy."""

    source: Source
    number: int
    columns: tuple[str, ...]
    conditions: tuple[Expr, ...]

    @property
    def key(self) -> dict[Expr, str]:
        """Returns the joined columns, with their names."""
        return {self.source.qualified(name): name for name in self.columns}

    def never_null(self, expr: Expr) -> bool:
        """Returns whether an expression over the source is never NULL in a row of the join."""
        return expr in self.key or (expr.op == "col" and self.source.table.required(split(expr.value)[1]))


def _of_one_copy(relation: Relation) -> Relation:
    if not isinstance(relation, Group) or not isinstance(relation.input, Query):
        return relation
    query = relation.input
    copies = _copies(query)
    if copies is None:
        return relation
    exprs = dict(query.outputs)
    read = {name for aggregate in relation.aggregates for name in aggregate.read}
    exprs = {name: exprs[name] for name in exprs if name in read or name in relation.keys}
    if not all(_reads_one(one, exprs, copies) for one in relation.aggregates):
        return relation
    exprs = {name: _moved(expr, copies.source) for name, expr in exprs.items()}
    raised = tuple(one for one in (_raised(one, exprs, copies) for one in relation.aggregates) if one is not None)
    joined = {column.value for column in copies.key}
    if len(raised) < len(relation.aggregates) or not all(exprs[name].columns <= joined for name in relation.keys):
        return relation
    names = tuple(pair for pair in query.names if split(pair[0])[0] == copies.source.alias)
    rows = replace(query, sources=(copies.source,), conditions=copies.conditions, names=names)
    keys = [exprs[name] for name in relation.keys]
    if len(keys) == len(copies.columns) and set(keys) == set(copies.key):
        return replace(relation, input=replace(rows, outputs=tuple(exprs.items())), aggregates=raised)
    return _in_two_steps(relation, rows, exprs, raised, copies)


def _copies(query: Query) -> _Copies | None:
    """Returns the copies that a join core joins, or None if it joins anything else."""
    first, *others = query.sources
    if not others or query.distinct or query.keys or not all(_is_copy(source, first) for source in query.sources):
        return None
    tied: dict[str, list[set[str]]] = {}  # by column: copies in which it is equal
    own: dict[str, set[Expr]] = {source.alias: set() for source in query.sources}
    conditions: list[Expr] = []
    for one in (part for condition in query.conditions for part in condition.conjuncts()):
        read, names = aliases_of(one), {split(name)[1] for name in one.columns}
        if len(read) < 2:
            conditions.append(_moved(one, first))
            for alias in read:
                own[alias].add(conditions[-1])
        elif one.op == "eq" and len(names) == 1 and all(arg.op == "col" for arg in one.args):
            tied.setdefault(names.pop(), []).append(read)
        else:
            return None
    if not tied or any(len(together(query.sources, sets)) > 1 for sets in tied.values()):
        return None
    columns = tuple(sorted(tied))
    key = {first.qualified(name).value for name in columns}
    of_copies = [{one for one in found if not one.columns <= key} for found in own.values()]
    if any(found != of_copies[0] for found in of_copies):
        return None
    there = [call("not", call("isnull", first.qualified(name))) for name in columns if not first.table.required(name)]
    return _Copies(first, len(query.sources), columns, tuple(dict.fromkeys((*conditions, *there))))


def _is_copy(source: Source, first: Source) -> bool:
    """Returns whether a source is inner joined, counts its rows, and has the rows of another source."""
    if source.group != 0 or source.join != "inner" or source.on:
        return False
    if source.input is None or first.input is None:
        return source.input is first.input and source.table == first.table
    return source.input == first.input and source.table.columns == first.table.columns


def _moved(expr: Expr, source: Source) -> Expr:
    """Returns an expression over the columns of copies as an expression over those of one of them."""
    return renamed(expr, {name: source.qualified(split(name)[1]) for name in expr.columns})


def _reads_one(aggregate: Aggregate, exprs: dict[str, Expr], copies: _Copies) -> bool:
    """Returns whether an aggregate reads columns of at most one copy, besides the joined columns."""
    names = {name for part in aggregate.read for name in exprs[part].columns}
    return len({alias for alias, column in map(split, names) if column not in copies.columns}) <= 1


def _raised(aggregate: Aggregate, exprs: dict[str, Expr], copies: _Copies) -> Aggregate | None:
    """Returns the aggregate over one copy that has the value of an aggregate over the join, or None."""
    if aggregate.distinct or aggregate.function in (*ONCE, "avg"):
        return aggregate
    counted = aggregate.function == "count" and aggregate.where is None and aggregate.power == 1
    if not counted or not all(copies.never_null(exprs[name]) for name in aggregate.arguments):
        return None
    return replace(aggregate, arguments=(), power=copies.number)


def _in_two_steps(
    group: Group, rows: Query, exprs: dict[str, Expr], raised: tuple[Aggregate, ...], copies: _Copies
) -> Group:
    """Returns a group over groups of one copy by the joined columns. Returns the group itself if an aggregate cannot be
    computed from these groups."""
    if not all(one.function in ("count", *ONCE) and not one.distinct and one.where is None for one in raised):
        return group
    types = {name: expr.type for name, expr in exprs.items()}
    read = {name: exprs[name] for one in raised for name in one.arguments}
    taken = [*(column.name for column in copies.source.table.columns), WEIGHT]
    inner_names = dict[str, str]()
    for name in read:
        inner_names[name] = unused(name, [*taken, *inner_names.values()])
    keys = tuple((name, column) for column, name in copies.key.items())
    parts, outer = list[Aggregate](), list[Aggregate]()
    outputs = [(name, exprs[name]) for name in group.keys]
    values: dict[str, Expr] = {}
    for one in raised:
        part = unused(one.name, [*taken, *inner_names.values(), *(known.name for known in parts)])
        parts.append(replace(one, name=part, arguments=tuple(inner_names[name] for name in one.arguments)))
        argument = unused(one.name, [*types, WEIGHT, *(name for name, _ in outputs)])
        outputs.append((argument, col(f"{copies.source.alias}.{part}", one.type)))
        outer.append(Aggregate(one.name, one.type, "sum" if one.function == "count" else one.function, (argument,)))
        if one.function == "count":
            values[one.name] = call("coalesce", col(one.name, one.type), lit(0, one.type))
    input_ = replace(rows, outputs=(*keys, *((inner_names[name], expr) for name, expr in read.items())))
    shown = [(name, col(name, column.type)) for name, column in keys]
    shown += [(part.name, col(part.name, part.type)) for part in parts]
    grouped = Group(input_, copies.columns, tuple(parts), tuple(shown))
    table = Table(copies.source.alias, tuple(Column(column.name, column.type) for column in grouped.columns))
    source = replace(copies.source, table=table, input=grouped)
    return replace(
        group,
        input=replace(rows, sources=(source,), conditions=(), outputs=tuple(outputs), names=()),
        aggregates=tuple(outer),
        outputs=tuple((name, renamed(expr, values)) for name, expr in group.outputs),
        having=None if group.having is None else renamed(group.having, values),
    )
