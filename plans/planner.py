"""The entry points: they read a query and return its plan, or its program of several stages."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from plans.errors import PlanError, QueryWarning, levels_to_caller
from plans.frontends.datalog import program as datalog
from plans.frontends.datalog import tokens as rules
from plans.frontends.motif import flat, patterns
from plans.lowering.joins.cores import plan_of
from plans.lowering.lower import lower
from plans.plan import Plan
from plans.program import Program, program_of
from plans.programs.reads import typed
from plans.queries.algebra import Query, Relation
from plans.schema import Schema
from plans.stack import with_room
from plans.time.windows import Window, bound, not_null


def parse(query: str, schema: Any = None, *, dialect: str = "spark") -> Relation:
    """Returns a query as a relation of the query algebra.

    Three languages are supported: Datalog has `:-` or `?-`, a motif `-[...]->`, everything else is SQL. `dialect` of
    SQL is that of `plan`. Issues a QueryWarning for a text that may be meant differently.
    """
    if not isinstance(query, str):
        raise PlanError(f"a query is text, not {_kind(query)}")
    check_options(None, None, dialect)
    return _relation(query, schema, dialect)


def _parsed(query: str, tables: Schema, dialect: str) -> Relation:
    if not query.strip():
        raise PlanError("the query is empty", hint="write SQL, a Datalog rule or a motif")
    if rules.looks_like(query):
        return datalog.parse(query, tables)
    if patterns.looks_like(query):
        return flat.parse(query, tables)
    from plans.frontends.sql import query as sql

    return sql.parse(query, tables, dialect=dialect)


def plan(
    query: str | Query | Plan | Mapping[str, Any],
    schema: Any = None,
    *,
    rates: Mapping[str, float] | None = None,
    dialect: str = "spark",
    tree: str | None = None,
) -> Plan:
    """Returns the plan of a query that is one join without duplicates.

    `query`: SQL, Datalog or motif text, a parsed `Query`, or a `Plan` (also its JSON), which is returned unchanged.
    `schema`: see `Schema.of`. `rates`: updates per relation or alias (only ratios matter; 1 if not given). `tree`: one
    of the candidates, in the notation of EXPLAIN, instead of the best. `dialect` of SQL: `spark`, `ansi`, in which
    double quotes enclose names instead of text, or one of sqlglot's. Raises PlanError for every error of the user, and
    issues a QueryWarning if a text in double quotes is also the name of a column. Cost: milliseconds up to 8 relations;
    exact up to 12.

    >>> schema = {"R": {"a": "int64", "b": "int64"}, "S": {"b": "int64", "c": "int64"}, "T": {"c": "int64"}}
    >>> made = plan("Q(a, b, c) :- R(a, b), S(b, c), T(c).", schema)
    >>> made.query_class["name"], made.height, [node.name for node in made.nodes], made.candidates[0].tree
    ('free-connex', 2, ['S', 'R', 'T'], 'S(R, T)')
    >>> plan("Q(a, b, c) :- R(a, b), S(b, c), T(c).", schema, tree="R(S(T))").height
    3
    """
    if isinstance(query, Plan):
        return query
    if isinstance(query, Mapping) or (isinstance(query, str) and query.lstrip().startswith("{")):
        return Plan.from_json(query)
    check_options(rates, tree, dialect)
    relation = _relation(query, schema, dialect)
    if not isinstance(relation, Query) or any(s.input or s.join != "inner" for s in relation.sources):
        raise PlanError("this query is more than one join", hint="plans.program plans it, crown.view maintains it")
    return typed(with_room(plan_of, relation, rates, tree))


def program(
    query: str | Relation | Plan | Program | Mapping[str, Any],
    schema: Any = None,
    *,
    rates: Mapping[str, float] | None = None,
    dialect: str = "spark",
    tree: str | None = None,
    windows: Mapping[str, Window] | None = None,
    together: bool = False,
) -> Program:
    """Returns the program of any query: aggregates, set operations, outer joins, bags of rows.

    `query` is an argument that `plan` accepts, a relation of the algebra, or a `Program` (also its JSON), which is
    returned unchanged. `windows`: the window of each relation by name (see `plans.time.windows`). `together`: MIN, MAX
    and DISTINCT over a join share one feed with its sums, whatever the cost (see `plans.lowering.groups.values`). The
    other arguments, errors and warnings are those of `plan`. A query that `plan` accepts gives the program of that
    plan.

    >>> schema = {"R": {"a": "int64", "b": "int64"}}
    >>> program("SELECT DISTINCT a FROM R", schema).plan == plan("SELECT DISTINCT a FROM R", schema)
    True
    """
    if windows is not None:
        made = program(query, schema, rates=rates, dialect=dialect, tree=tree, together=together)
        return windowed(made, windows)
    if isinstance(query, Program):
        return query
    if isinstance(query, Plan):
        return program_of(query)
    if isinstance(query, Mapping) or (isinstance(query, str) and query.lstrip().startswith("{")):
        return Program.from_json(query)
    check_options(rates, tree, dialect)
    return with_room(lower, _relation(query, schema, dialect), rates, tree, together)


def windowed(program: Program, windows: Mapping[str, Window]) -> Program:
    """Returns a program over the rows of its relations within these windows. Raises PlanError if a window does not
    fit."""
    found = bound(windows, {table.name: table for table in program.tables})
    return replace(program, tables=not_null(program.tables, found), windows=found)


def check_options(rates: Any, tree: Any, dialect: Any) -> None:
    """Raises PlanError if an option of `plan` has a wrong type."""
    for what, given, kind in (("rates", rates, Mapping), ("tree", tree, str), ("dialect", dialect, str)):
        if given is not None and not isinstance(given, kind):
            raise PlanError(f"{what}= takes {_WANTED[what]}, not {_kind(given)}")


def _relation(query: Any, schema: Any, dialect: str) -> Any:
    """Returns a query as a relation, after issuing the warnings about its text."""
    if isinstance(query, Relation):
        return query
    if not isinstance(query, str):
        raise PlanError(f"a query is text or a Plan, not {_kind(query)}", hint=_advice(query))
    parsed = with_room(_parsed, query, Schema.of(schema), dialect)
    for message in parsed.warnings:
        warnings.warn(message, QueryWarning, stacklevel=levels_to_caller())
    return parsed


_WANTED = {
    "rates": "numbers by relation or alias, like {'g': 10}",
    "tree": "a tree as EXPLAIN writes it",
    "dialect": "'spark', 'ansi' or another name of a dialect",
}


def _kind(given: Any) -> str:
    """Returns the type of an argument in words."""
    name = type(given).__name__
    if given is None or isinstance(given, bytes):
        return "None" if given is None else name
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _advice(given: Any) -> str:
    if isinstance(given, bytes):
        return "decode it: query.decode()"
    if isinstance(given, Path):
        return "read it: path.read_text()"
    return "write SQL, a Datalog rule or a motif"
