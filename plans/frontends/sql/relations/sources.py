"""Tables, CTEs and subqueries in FROM, under their aliases. Part of `plans.frontends.sql.relations.from_clause`."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from plans.errors import PlanError
from plans.frontends.sql.relations.fixpoints import fixpoints
from plans.frontends.sql.relations.recursion import RECURSIVE
from plans.frontends.sql.scope import Ctes, Frame, Relation, Scope, kept
from plans.frontends.sql.shape import flat, unwrapped
from plans.frontends.sql.text.place import extent
from plans.queries.algebra import Relation as Algebra
from plans.queries.algebra import Source
from plans.queries.dependent import outer_columns
from plans.schema import Column, Table, tables_hint
from plans.stack import MAX_NESTING


def with_clause(node: exp.Expression, scope: Scope) -> Ctes:
    """Returns the CTEs that are visible to a query."""
    clause, text = node.args.get("with_") or node.args.get("with"), scope.text
    if clause is None:
        return scope.ctes
    if len(clause.expressions) > MAX_NESTING:
        raise text.error(f"WITH names more than {MAX_NESTING} queries", clause, "leave some of them out")
    known = dict(scope.ctes)
    for cte in clause.expressions:
        known[cte.alias.lower()] = (cte.this, tuple(cte.alias_column_names), dict(known))
    return known


def alias_of(node: exp.Expression, scope: Scope) -> str:
    """Returns the alias of a relation in FROM. A subquery without an alias gets one."""
    return node.alias or f"subquery{len(scope.frame.sources)}"


def add_named(node: exp.Table, scope: Scope) -> None:
    """Adds a CTE or a base table."""
    schema, text = scope.reading.schema, scope.text
    name = ".".join(part.name for part in node.parts)
    alias, names = node.alias or node.name, node.alias_column_names
    if name.lower() in scope.ctes:
        _add_cte(name, alias, names, scope, node)
        return
    if name not in schema:
        close = difflib.get_close_matches(name, list(schema), 1)
        hint = f"did you mean {close[0]}?" if close else tables_hint(schema, name)
        if len(node.parts) > 1 and node.name in schema:
            hint = f"write {node.name}, or give the table of the schema the name {name}"
        places = [place for part in node.parts if (place := extent(part)) is not None]
        raise text.error(f"unknown table {name}", node, hint, (places[0][0], places[-1][1]) if places else None)
    _add_table(schema[name], alias, names, scope, node)


def _add_table(
    table: Table, alias: str, names: Sequence[str], scope: Scope, node: exp.Expression, hidden: int = 0
) -> None:
    """Adds a table without its last `hidden` columns."""
    shown = table.columns[: len(table.columns) - hidden]
    check_names(alias, names, len(shown), scope, node)
    add_source(Source(scope.frame.names.alias(alias), table), alias, names, scope, node, shown)


def check_names(alias: str, names: Sequence[str], count: int, scope: Scope, node: exp.Expression) -> None:
    """Raises PlanError if a relation of `count` columns cannot have these column names. No names are valid, too."""
    if names and len(names) != count:
        raise scope.text.error(
            f"{alias} has {count} columns, but {len(names)} names are given", node, "give a name to each column"
        )
    twice = [name for i, name in enumerate(names) if name.lower() in {other.lower() for other in names[:i]}]
    if twice:
        raise scope.text.error(f"two columns of {alias} are called {twice[0]}", node)


def add_source(
    source: Source, alias: str, names: Sequence[str], scope: Scope, node: exp.Expression,
    shown: Sequence[Column] | None = None,
) -> None:  # fmt: skip
    """Adds a source under an alias. `names` rename its columns if there are any. `shown`: the columns that can be
    named, by default all."""
    scope.frame.sources.append(source)
    columns = source.table.columns if shown is None else shown
    pairs = zip(names or tuple(column.name for column in columns), columns, strict=True)
    scope.add(Relation.of(alias, ((name, source.qualified(column.name)) for name, column in pairs)), node)


def add_subquery(body: exp.Expression, alias: str, names: Sequence[str], scope: Scope, node: exp.Expression) -> None:
    """Adds a subquery: flattened if possible, else as a derived relation. In a subquery, it may read the query around
    that one."""
    body, plain = unwrapped(body), not names
    found: Frame | Algebra
    try:
        if flat(body):
            distinct = bool(body.args.get("distinct"))
            found = scope.reading.flatten(body, scope, unique=plain, typed=distinct, preferred=alias)
        else:
            found = scope.reading.read(body, scope, unique=plain)
    except PlanError:
        if scope.outer is None:
            raise
        before = scope.before()
        found = scope.reading.read(body, replace(scope, relations=before), correlated=True, unique=plain)
        read = outer_columns(found)
        for relation in before:
            if any(expr.columns & read for _, expr in relation.columns.values()):
                message = f"a subquery in FROM reads {relation.alias}, which is beside it"
                raise scope.text.error(message, node, "write LATERAL before it") from None
    _add_found(found, alias, names, scope, node)


def _add_cte(name: str, alias: str, names: Sequence[str], scope: Scope, node: exp.Expression) -> None:
    """Adds a CTE like a subquery. It is translated once, even if several relations read it."""
    cte = scope.ctes[name.lower()]
    if isinstance(cte, Table):
        _add_table(cte, alias, names, scope, node, hidden=cte.distinct)
        return
    body, columns, visible = cte
    names = names or columns
    body, known = unwrapped(body), scope.reading.ctes
    key = id(body), not names
    if key not in known:
        inside, wanted = replace(scope, ctes=visible), {"unique": not names}
        if RECURSIVE in body.meta:
            for query, made in fixpoints(body, inside):
                known[id(query), True] = known[id(query), False] = query, made
        elif flat(body):
            wanted |= {"typed": bool(body.args.get("distinct"))}
            frame = scope.reading.flatten(body, inside, preferred=name, new_frame=True, **wanted)
            known[key] = body, kept(frame, name, body, scope)
        else:
            known[key] = body, scope.reading.read(body, inside, **wanted)
    found = known[key][1]
    _add_found(found.among(scope.frame.names) if isinstance(found, Frame) else found, alias, names, scope, node)


def _add_found(found: Frame | Algebra, alias: str, names: Sequence[str], scope: Scope, node: exp.Expression) -> None:
    if isinstance(found, Frame):
        _add_frame(found, alias, names, scope, node)
    else:
        _add_derived(found, alias, names, scope, node)


def _add_derived(found: Algebra, alias: str, names: Sequence[str], scope: Scope, node: exp.Expression) -> None:
    """Adds a relation under an alias. `names` rename its columns if there are any."""
    check_names(alias, names, len(found.columns), scope, node)
    add_source(scope.frame.derived(found, alias), alias, names, scope, node)


def _add_frame(found: Frame, alias: str, names: Sequence[str], scope: Scope, node: exp.Expression) -> None:
    """Adds a join core under an alias. `names` rename its columns if there are any."""
    group = scope.frame.names.group() if found.distinct else 0
    scope.frame.merge(found, group)
    if found.distinct:
        scope.frame.keys.append((group, tuple(expr for _, expr in found.outputs)))
    check_names(alias, names, len(found.outputs), scope, node)
    named = zip(names or [name for name, _ in found.outputs], [expr for _, expr in found.outputs], strict=True)
    scope.add(Relation.of(alias, named), node)
