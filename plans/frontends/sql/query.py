"""The entry of the SQL front-end. `select.read` translates the syntax tree of `plans.frontends.sql.text.parse`.

Supported: SELECT [DISTINCT] over tables, aliases, CTEs and subqueries; inner, outer, semi and anti joins with commas,
ON, USING or NATURAL; WHERE; subqueries in IN, EXISTS and as values; GROUP BY, HAVING and aggregates; UNION, EXCEPT and
INTERSECT. Conjunctive subqueries are flattened into their parent: a column of a subquery is an expression over the
columns of its tables. All other subqueries are relations of their own. Any other syntax is rejected by name, with its
position.
"""

from __future__ import annotations

from sqlglot import exp

from plans.errors import PlanError
from plans.frontends.sql.groups.window_calls import with_windows
from plans.frontends.sql.over.first_rows import first_rows
from plans.frontends.sql.refuse import Text
from plans.frontends.sql.relations.constants import with_constants
from plans.frontends.sql.relations.recursion import with_recursions
from plans.frontends.sql.scope import Frame, Names, Reading, Scope
from plans.frontends.sql.select import flatten, read
from plans.frontends.sql.shape import hoisted
from plans.frontends.sql.text.nodes import nodes
from plans.frontends.sql.text.parse import statements
from plans.frontends.sql.text.place import extent, place_of
from plans.queries.algebra import Relation
from plans.schema import Schema


def parse(text: str, schema: Schema, *, dialect: str = "spark") -> Relation:
    """Returns the relation of one query. Raises PlanError, with the position, for everything that is not supported.

    `dialect`: `spark`, in which backticks enclose names and double quotes enclose text, or `ansi`, in which double
    quotes enclose names.
    """
    found, words = statements(text, dialect)
    if len(found) != 1:
        what = f"not {len(found)} statements" if found else "the text has none"
        place = place_of(text, found[1]) if found else None
        raise PlanError(f"one SELECT is expected, {what}", position=place, text=text)
    about = Text(text, words)
    parameter = found[0].find(exp.Placeholder, exp.Parameter)
    if parameter is not None:
        place = parameter if extent(parameter) is not None else parameter.parent
        raise about.error("a parameter is not supported", place, "write its value into the query")
    root = with_recursions(hoisted(found[0]), schema, about)
    for node in nodes(root, exp.Query):
        assert isinstance(node, exp.Expression)
        about.check_sequence(node)
        if isinstance(node, exp.Subquery):
            about.check_parentheses(node)
    root = with_constants(first_rows(with_windows(root, about), about), schema, about)
    return read(root, Scope(Reading(about, schema, read, flatten), {}, Frame(Names())))
