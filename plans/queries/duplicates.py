"""Decides whether a query can return a row twice: declared keys can prove that a bag of rows is a set."""

from __future__ import annotations

from collections.abc import Iterable

from plans.errors import PlanError
from plans.expressions.build import Expr
from plans.queries.algebra import Query, Source, split
from plans.queries.variables import Classes, injective
from plans.schema import Table


def _closure(query: Query, classes: Classes, known: set[str]) -> set[str]:
    """Returns the classes that those in `known` determine: the key of a row determines the rest of the row.

    The key of a padded source is NULL in its padding, whatever the row above it has. So it determines only the columns
    that no other source shares.
    """
    known = set(known)
    todo = [source for source in query.sources if source.table.key]
    progress = True
    while progress:
        progress = False
        for source in list(todo):
            if not _open_columns(source, source.table.key, classes, known):
                names = [f"{source.alias}.{column.name}" for column in source.table.columns]
                fixed = {classes.find(name) for name in names if name in classes.parent}
                known |= fixed - (_of_others(source, classes) if source.join == "padded" else set())
                todo.remove(source)
                progress = True
    return known


def _of_others(source: Source, classes: Classes) -> set[str]:
    """Returns the classes with columns of other sources."""
    return {classes.find(name) for name in classes.parent if split(name)[0] != source.alias}


def _open_columns(source: Source, columns: Iterable[str], classes: Classes, known: set[str]) -> list[str]:
    """Returns the columns that `known` does not determine."""
    names = [f"{source.alias}.{_spelled(source.table, column)}" for column in columns]
    return [name for name in names if name not in classes.parent or classes.find(name) not in known]


def fixed_by_output(query: Query, classes: Classes, constants: dict[str, Expr]) -> set[str]:
    """Returns the classes whose value follows from an output row."""
    shown = [name for _, expr in query.outputs if (name := injective(expr)) is not None]
    return _closure(query, classes, {classes.find(name) for name in shown} | set(constants))


def repetition(query: Query, classes: Classes, constants: dict[str, Expr]) -> PlanError | None:
    """Returns why a result row of SQL without DISTINCT may occur more than once, or None if it cannot.

    It cannot if every table is declared duplicate-free, and the output determines the row of every table: the closure
    of the output columns under join equalities, constants and keys contains a key of each table.
    """
    hint = "write SELECT DISTINCT, or declare the table's key: Table(..., key=(...)) or distinct=True"
    known = fixed_by_output(query, classes, constants)
    for source in query.sources:
        if source.group:
            continue
        if not (source.table.key or source.table.distinct):
            return PlanError(
                f"without DISTINCT, {source.alias} must be duplicate-free: table {source.table.name} declares no key",
                hint=hint,
            )
        key = source.table.key or tuple(column.name for column in source.table.columns)
        missing = _open_columns(source, key, classes, known)
        if missing:
            return PlanError(
                "without DISTINCT, a result row could occur more than once",
                witness=f"the output does not fix {', '.join(missing)}",
                hint="write SELECT DISTINCT, or add these columns to the output",
            )
    for _, group in query.keys:
        if any(name not in classes.parent or classes.find(name) not in known for e in group for name in e.columns):
            return PlanError(
                "without DISTINCT, a row of the DISTINCT subquery could lead to several result rows",
                witness="the output does not fix " + ", ".join(str(expr) for expr in group),
                hint="write SELECT DISTINCT in the outer query too, or add these columns to its output",
            )
    return None


def _spelled(table: Table, name: str) -> str:
    column = table.column(name)
    return column.name if column is not None else name
