"""Reduces outer joins, anti joins and marks to inner joins with derived relations.

N(k), the *missing keys*, are the keys of the left side without a row on the right side: one pointwise stage over two
sets of keys, O(1) per change. An anti join is the join with N. A left join is the join with the right side completed by
N padded with NULLs. A mark (`EXISTS` as a value) is the join with the keys, TRUE, and with N, FALSE. Left rows find
their key, or their missing key, by null-safe equality. A key of the right side that contains a NULL never matches and
is left out. If the condition is more than equalities of columns of one source, the key consists of all columns of the
left side that the condition reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from plans.errors import PlanError
from plans.expressions.build import NULL, Expr, call, col, conjoin
from plans.lowering.joins.cores import feed, joined
from plans.lowering.joins.matches import Keys, aliases_of, crossing_keys, outer_rows
from plans.lowering.stages import (
    Stages,
    columns_read,
    constant,
    local,
    nulls,
    origin,
    renamed,
    visible_columns,
)
from plans.plan import Output, passed
from plans.programs.stages import Feed, SingleStage
from plans.queries.algebra import FOUND, Query, Source, split, unused
from plans.queries.conjunction import verdict
from plans.queries.variables import join_type
from plans.schema import Column


def inner_joined(query: Query, stages: Stages, pads: bool = False) -> Query:
    """Returns an equivalent query whose sources are all inner joined, or, with `pads`, inner joined or padded."""
    if all(source.join == "inner" for source in query.sources):
        return query
    read = columns_read(query)
    made = replace(query, sources=())
    for source in query.sources:
        read |= {name for one in made.conditions for name in one.columns}
        made = (
            replace(made, sources=(*made.sources, source))
            if source.join == "inner"
            else _joined(made, source, read, stages, pads and _is_leaf(query, source))
        )
    return made


def _is_leaf(query: Query, right: Source) -> bool:
    """Returns whether a left joined source is read only by the output and by its own condition."""
    others = [*query.conditions, *(e for _, es in query.keys for e in es)]
    others += [expr for source in query.sources if source is not right for expr in source.on]
    read = {alias for expr in others for alias in aliases_of(expr)}
    shown = {alias for _, expr in query.outputs for alias in aliases_of(expr)}
    return right.join == "left" and right.group == 0 and right.alias in shown - read


def _joined(query: Query, right: Source, read: set[str], stages: Stages, leaf: bool) -> Query:
    """Adds a source to a query whose sources are all inner joined or padded. A `leaf` may be padded."""
    if not query.sources:
        raise PlanError(f"{right.alias} is outer joined with nothing")
    parts = [part for given in right.on for part in given.conjuncts() if not verdict(part)]
    right_only = [part for part in parts if aliases_of(part) <= {right.alias}]
    crossing = [part for part in parts if part not in right_only]
    left_only = [part for part in crossing if right.alias not in aliases_of(part)]
    keys = crossing_keys([part for part in crossing if part not in left_only], {right.alias})
    if keys is not None and left_only:
        keys = _matchable(keys, conjoin(left_only))
    single_matches = right.join == "single" and bool(crossing)  # only the rows that match the left side must be single
    if keys is None or single_matches or any(len(aliases_of(left)) != 1 for _, left, _ in keys):
        return _by_rows(query, right, right_only, crossing, visible_columns(right, read), stages)
    return _by_keys(query, right, right_only, keys, read, stages, leaf)


def _matchable(keys: Keys, left_only: Expr) -> Keys | None:
    """Returns the keys with one of them set to NULL where the left side's own condition does not hold. Returns None if
    no key reads the same source as the condition."""
    for i, (op, left, inner) in enumerate(keys):
        if op == "eq" and aliases_of(left) == aliases_of(left_only):
            key = call("case", left_only, left, NULL)
            return [*keys[:i], (op, key, inner), *keys[i + 1 :]]
    return None


def _by_keys(
    query: Query, right: Source, right_only: list[Expr], keys: Keys, read: set[str], stages: Stages, leaf: bool
) -> Query:
    visible = visible_columns(right, read)
    names = _key_names(right, len(keys))
    query, lefts = _plain_sides(query, [left for _, left, _ in keys], [inner for _, _, inner in keys], read, stages)
    where = [local(part) for part in right_only]
    where += [call("not", call("isnull", local(inner))) for op, _, inner in keys if op == "eq"]
    computed = tuple(Output(n, i.type, local(i)) for n, (_, _, i) in zip(names, keys, strict=False))
    computed = computed or (constant(names[0], True),)
    right_rows = Feed(origin(right.table), (*passed(visible), *computed), conjoin(where) if where else None)
    if right.join == "single":
        watched = right_rows if not visible else replace(right_rows, columns=passed(visible))
        right_rows = Feed(stages.add(SingleStage(watched)), (*passed(visible), *computed))
    ties = list(zip(lefts, names, strict=False))
    if leaf and len({alias for left in lefts for alias in aliases_of(left)}) == 1:
        plain = _padded_source(
            query, right, right_only, [(op, left, i) for left, (op, _, i) in zip(lefts, keys, strict=True)]
        )
        return _padded(query, right, ties, right_rows, stages) if plain is None else plain
    rows = outer_rows(query.text, query.sources, query.conditions, lefts)
    outputs = tuple(zip(names, lefts, strict=True)) if lefts else ((names[0], computed[0].expr),)
    rows = replace(rows, outputs=outputs)
    return _completed(query, right, ties, right_rows, computed, rows, visible, stages)


def _padded_source(query: Query, right: Source, right_only: list[Expr], keys: Keys) -> Query | None:
    """Returns the query with the right side as a padded source, or None if a key column is computed, repeated
    or output.

    The output of a padded row is NULL, whereas its key is not.
    """
    shown = {name for _, expr in query.outputs for name in expr.columns}
    columns = [inner.value for _, _, inner in keys]
    if any(inner.op != "col" or inner.value in shown for _, _, inner in keys) or len({*columns}) < len(columns):
        return None
    on = (*right_only, *(call("not", call("isnull", inner)) for op, _, inner in keys if op == "eq"))
    joins = tuple(call("nseq", left, inner) for _, left, inner in keys)
    source = replace(right, join="padded", on=on)
    return replace(query, sources=(*query.sources, source), conditions=(*query.conditions, *joins))


def _padded(query: Query, right: Source, ties: list[tuple[Expr, str]], right_rows: Feed, stages: Stages) -> Query:
    """Returns the query with the rows of the right side, including their keys, as a source that the tree pads."""
    source = stages.source(right.alias, stages.linear(right_rows), _key(right, right_rows, [name for _, name in ties]))
    joins = tuple(call("nseq", left, source.qualified(name)) for left, name in ties)
    source = replace(source, join="padded")
    return replace(query, sources=(*query.sources, source), conditions=(*query.conditions, *joins))


def _by_rows(
    query: Query,
    right: Source,
    right_only: list[Expr],
    crossing: list[Expr],
    visible: tuple[Column, ...],
    stages: Stages,
) -> Query:
    """Adds a source whose key is every column of the left side that the condition reads. The matching rows are a join
    of their own."""
    read = list(dict.fromkeys(n for one in crossing for n in one.postorder() if n.op == "col"))
    read = [column for column in read if split(column.value)[0] != right.alias]
    watched = right.join == "single"  # error messages show the names, and are about existing rows
    names = _key_names(right, len(read), [split(column.value)[1] for column in read] if watched else ())
    rows = outer_rows(query.text, query.sources, query.conditions, read, exact=watched)
    rows = replace(rows, outputs=tuple(zip(names, read, strict=True)))
    alias = unused("outer", [right.alias])
    keys = stages.source(alias, joined(rows, stages), distinct=True)
    columns = {column.value: keys.qualified(name) for column, name in zip(read, names, strict=True)}
    on = [renamed(part, columns) for part in crossing]
    shown = [] if right.join in ("anti", "mark") else [(c.name, right.qualified(c.name)) for c in visible]
    outputs = shown + [(name, keys.qualified(name)) for name in names]
    plain = replace(right, group=0, join="inner", on=())
    number = joined(
        Query(query.text, (keys, plain), (*right_only, *on), tuple(outputs), right.join in ("anti", "mark")), stages
    )
    if watched:
        number = stages.add(SingleStage(Feed(number, passed(stages.columns(number))), tuple(names)))
    right_rows = Feed(number, passed(stages.columns(number)))
    computed = tuple(Output(name, e.type, col(name, e.type)) for name, e in zip(names, read, strict=True))
    return _completed(query, right, list(zip(read, names, strict=True)), right_rows, computed, rows, visible, stages)


def _completed(
    query: Query,
    right: Source,
    ties: list[tuple[Expr, str]],
    right_rows: Feed,
    keys: tuple[Output, ...],
    rows: Query,
    visible: tuple[Column, ...],
    stages: Stages,
) -> Query:
    """Joins the left side as `right.join` says. `right_rows`: the rows of the right side with their keys; `rows`: the
    keys of the left side; `ties`: pairs of an expression over the left side and the key column that equals it."""
    key_names = {key.name for key in keys}
    right_keys = replace(right_rows, columns=tuple(out for out in right_rows.columns if out.name in key_names))
    missing = stages.missing(feed(replace(rows, distinct=_plural(rows)), stages), right_keys)
    key_columns = stages.columns(missing)
    if right.join == "anti":
        number = missing
    elif right.join == "mark":
        found = stages.distinct(right_keys)
        both = [
            Feed(number, (*passed(key_columns), constant(FOUND, value)))
            for number, value in ((found, True), (missing, False))
        ]
        number = stages.linear(*both)
    else:
        padding = nulls(visible)
        number = stages.linear(right_rows, Feed(missing, (*padding, *passed(key_columns))))
    source = stages.source(
        right.alias, number, _key(right, right_rows, [name for _, name in ties]), right.join != "left"
    )
    joins = tuple(call("nseq", left, source.qualified(name)) for left, name in ties)
    source = replace(source, group=right.group)
    return replace(query, sources=(*query.sources, source), conditions=(*query.conditions, *joins))


def _key(right: Source, right_rows: Feed, names: list[str]) -> tuple[str, ...]:
    """Returns the key of the derived right side: the join keys, and if these may match several rows, a key of the right
    side."""
    if right.join != "left" or not names:
        return tuple(names) if right.join != "left" else ()
    fixed = {str(out.expr.value).lower() for out in right_rows.columns if out.name in names and out.expr.op == "col"}
    declared = right.table.key or (tuple(c.name for c in right.table.columns) if right.table.distinct else ())
    if not declared:
        return ()
    return (*names, *(name for name in declared if name.lower() not in fixed))


def _plural(rows: Query) -> bool:
    """Returns whether these rows need a stage. Rows of one source are a feed, because the missing keys accept
    duplicates."""
    return len(rows.sources) > 1


def _key_names(right: Source, count: int, preferred: Sequence[str] = ()) -> list[str]:
    """Returns names of key columns beside the right side's own columns: the preferred ones if possible. There is at
    least one name, that of a constant if there is no key."""
    taken = [column.name for column in right.table.columns]
    names: list[str] = []
    for i in range(max(count, 1)):
        names.append(unused(preferred[i] if preferred else f"k{i}", [*taken, *names, FOUND]))
    return names


def _plain_sides(
    query: Query, lefts: list[Expr], inners: list[Expr], read: set[str], stages: Stages
) -> tuple[Query, list[Expr]]:
    """Returns the query and the left sides as columns. A computed side becomes a column of a relation derived from its
    source."""
    out = []
    for left, inner in zip(lefts, inners, strict=True):
        bare = left.args[0] if left.op == "cast" and left.args[0].op == "col" else left
        if bare.op == "col" and _joins(bare, inner):
            out.append(left)
            continue
        alias = next(iter(aliases_of(left)))
        source = query.source(alias)
        name = unused("k", [column.name for column in source.table.columns])
        terms = (*passed(visible_columns(source, read)), Output(name, left.type, local(left)))
        made = stages.source(
            alias, stages.linear(Feed(origin(source.table), terms)), source.table.key, source.table.distinct
        )
        sources = tuple(replace(made, group=s.group) if s.alias == alias else s for s in query.sources)
        query = replace(query, sources=sources)
        read.add(f"{alias}.{name}")
        out.append(made.qualified(name))
    return query, out


def _joins(left: Expr, inner: Expr) -> bool:
    try:
        join_type(left, inner, left.type, inner.type)
    except PlanError:
        return False
    return True
