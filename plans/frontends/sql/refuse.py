"""Rejects unsupported clauses, joins and statements, in the words of the query, and
unusable names of functions. Part of `plans.frontends.sql`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from sqlglot import exp
from sqlglot.errors import SqlglotError

from plans.errors import PlanError, Position
from plans.frontends.rewrites import NAMES
from plans.frontends.sql.groups.aggregates import aggregates, function_of
from plans.frontends.sql.scalars.interval import SESSIONS, TUMBLING
from plans.frontends.sql.text.parse import Words
from plans.frontends.sql.text.place import CLOCK_NAMES, FUNCTION_NAMES, extent, place_of, spelling
from plans.frontends.sql.text.reader import reader

_T = TypeVar("_T")

NO_ORDER = "a maintained result has no order: sort when you read it, or limit the rows: ORDER BY ... LIMIT ..."
_CLAUSES = {
    "sort": ("SORT BY", "a maintained result has no order: sort when you read it"),
    "pivots": ("PIVOT", "pivot when you read the result"),
    "sample": ("TABLESAMPLE", "sample the input stream instead"),
    "connect": ("CONNECT BY", "write WITH RECURSIVE"),
    "into": ("INTO", "write the changes of a view with a sink"),
}

# The sequence of the clauses.
_SEQUENCE = {
    "joins": "a join", "where": "WHERE", "group": "GROUP BY", "having": "HAVING", "qualify": "QUALIFY",
    "order": "ORDER BY", "limit": "LIMIT",
}  # fmt: skip

# The user's words for sqlglot's names of arguments.
_CALLED = {
    "sample": "TABLESAMPLE", "pivots": "PIVOT", "laterals": "LATERAL VIEW", "using": "USING",
    "locks": "FOR UPDATE", "cluster": "CLUSTER BY", "distribute": "DISTRIBUTE BY", "sort": "SORT BY",
    "null_on_zero_variance": "a third argument", "deterministic": "a second argument",
}  # fmt: skip
_HINTS = {
    "TABLESAMPLE": "sample the input stream instead",
    "FOR UPDATE": "leave it out: a view locks no rows",
    "FOR": "write STRING_AGG(x, ',') for texts joined by FOR XML, and TO_JSON for FOR JSON",
}
_INSTEAD = {
    **dict.fromkeys(("CREATE", "INSERT"), "write only the SELECT: a view stores its result, a sink writes its changes"),
    **dict.fromkeys(("UPDATE", "DELETE", "MERGE", "TRUNCATE"), "change rows by batches: view.apply({'t': rows})"),
    **dict.fromkeys(("EXPLAIN", "DESCRIBE", "DESC"), "write only the SELECT, and call view.explain()"),
    "VALUES": "a query without a table never changes: join the rows with a table",
}
"""What to do instead of a statement that begins with this word."""
_JOIN_WORDS = re.compile(r"(?:\w+\s+)*?\w*JOIN\b", re.IGNORECASE)

# The arguments that a node may have. Any other argument changes its meaning and is rejected by name.
_SELECT = {"with_", "with", "expressions", "hint", "distinct", "into", "from_", "from", "joins", "where", "kind",
           "group", "having", "windows", "qualify", "order", "limit", "offset", "laterals"}  # fmt: skip
_JOIN = {"this", "on", "using", "kind", "side", "method"}
_TABLE = {"this", "alias", "db", "catalog", "joins", "hints", "only"}  # hints do not change the rows
_SET_OPERATION = {"this", "expression", "distinct", "by_name", "with_", "with", "order", "limit", "offset"}
_SUBQUERY = {"pivots", "this", "alias", "joins", "with_", "with"}


def _begin(clause: exp.Expression, other: int) -> int:
    """Returns where a clause begins, or `other` if it was created. A part that was created has the place of what it
    replaces, which may be around the clause."""
    if "span" in clause.meta:
        return int(clause.meta["span"][0])
    return min((int(part.meta["start"]) for part in clause.walk() if "start" in part.meta), default=other)


class Text:
    """The text of a query, and the errors about it."""

    def __init__(self, text: str, words: Words) -> None:
        self.text = text
        self.words = words

    def error(
        self,
        message: str,
        node: exp.Expression | None = None,
        hint: str = "",
        at: tuple[int, int] | None = None,
    ) -> PlanError:
        """Returns the error, with the position `at`, or else that of the node."""
        position = Position.of(self.text, *at) if at is not None else place_of(self.text, node)
        return PlanError(message, hint=hint, position=position, text=self.text)

    def guarded(self, node: exp.Expression, build: Callable[[], _T]) -> _T:
        """Returns the result of `build`. A PlanError without a position gets that of the node."""
        try:
            return build()
        except PlanError as error:
            raise error.at(self.text, place_of(self.text, node)) from None

    def check_clauses(self, node: exp.Select) -> None:
        """Raises PlanError for unsupported clauses of a SELECT, in the words of the query."""
        for name, (words, hint) in _CLAUSES.items():
            clause = node.args.get(name)
            if not clause:
                continue
            clause = clause[0] if isinstance(clause, list) else clause
            raise self.error(f"{words} is not supported", node, hint, self.phrase(words, clause))
        if not node.expressions:
            raise self.error("there is no column after SELECT", node)
        self.check_arguments(node, _SELECT, "SELECT")

    def check_set_operation(self, node: exp.SetOperation) -> None:
        """Raises PlanError for unsupported clauses of a set operation, in the words of the query."""
        self.check_arguments(node, _SET_OPERATION, node.key.upper())

    def check_no_aggregate(self, node: exp.Expression, clause: str) -> None:
        """Raises PlanError for an aggregate in a clause that is evaluated before grouping."""
        found = next(iter(aggregates(node)), None)
        if found is not None:
            word = spelling(self.text, found.this if isinstance(found, exp.Filter) else found)
            raise self.error(
                f"the aggregate {word} is not allowed in {clause}", found, "put conditions on groups into HAVING"
            )

    def check_table(self, node: exp.Table) -> None:
        """Raises PlanError for a table with time travel, a sample or a pivot."""
        past = node.args.get("version") or node.args.get("when")
        if past:
            words = f"{past.name} AS OF" if isinstance(past, exp.Version) else past.name
            words = words if self.phrase(words, past) else "FOR SYSTEM_TIME AS OF"
            hint = "a view reads the current rows of its tables: pass the rows of that version as a separate table"
            raise self.error(f"a table with {words} is not supported", node, hint, self.phrase(words, past))
        self.check_arguments(node, _TABLE, "a table")

    def check_sequence(self, node: exp.Expression) -> None:
        """Raises PlanError for clauses that are not in the order of SQL. The parser accepts any order."""
        latest, last, behind = 0, node, ""
        listed = node.expressions if isinstance(node, exp.Select) else []
        first = (extent(listed[0]) or (0, 0))[0] if listed else 0
        for name, words in _SEQUENCE.items():
            clause = node.args.get(name) or []
            for one in clause if isinstance(clause, list) else [clause]:
                begin = _begin(one, latest)
                if name == "limit" and begin < first:
                    continue  # TOP, which precedes the SELECT list
                if begin < latest:
                    hint = "the order is FROM with its joins, WHERE, GROUP BY, HAVING, QUALIFY, ORDER BY, LIMIT"
                    raise self.error(f"{behind} must be before {words}", last, hint)
                latest, last, behind = begin, one, words

    def check_parentheses(self, node: exp.Subquery) -> None:
        """Raises PlanError for unsupported clauses behind parentheses, in the words of the query."""
        parent = node.parent
        while isinstance(parent, (exp.Subquery, exp.Paren)):
            parent = parent.parent
        if node.args.get("joins") and not isinstance(parent, (exp.From, exp.Join)):
            hint = "write SELECT * FROM (...) JOIN ..."
            raise self.error("queries in parentheses cannot be joined without a SELECT", node, hint)
        order = node.args.get("order") or node.args.get("limit") or node.args.get("offset")
        if order and isinstance(node.this, exp.Query) and not (node.alias or node.args.get("joins")):
            raise self.error(
                "this query has ORDER BY or LIMIT inside and outside of its parentheses",
                node,
                "put the inner query into FROM",
            )
        if order:
            raise self.error(
                "ORDER BY and LIMIT cannot follow a table in FROM", node, "put them into a subquery in FROM"
            )
        self.check_arguments(node, _SUBQUERY, "a subquery")

    def check_join(self, join: exp.Join) -> tuple[str, str]:
        """Returns the kind (INNER, SEMI, ANTI, RIGHT SEMI, RIGHT ANTI, LEFT, RIGHT, FULL) and the method (NATURAL,
        ASOF) of a join. Raises PlanError for others."""
        side, kind = (join.side or "").upper(), (join.kind or "").upper()
        method = (join.args.get("method") or "").upper()
        if kind in ("", "INNER", "CROSS") and not side:
            known = "INNER"
        elif kind in ("SEMI", "ANTI") and side in ("", "LEFT"):
            known = kind
        elif kind in ("SEMI", "ANTI") and side == "RIGHT":
            known = f"RIGHT {kind}"
        else:
            known = side if kind in ("", "OUTER") and side in ("LEFT", "RIGHT", "FULL") else ""
        if not known or method not in ("", "NATURAL", "ASOF") or (method == "ASOF" and known not in ("INNER", "LEFT")):
            place = extent(join)
            words = _JOIN_WORDS.match(self.text, place[0]) if place is not None else None
            word = " ".join(words[0].upper().split()) if words is not None else f"{side or kind or method} JOIN"
            hint = "use JOIN, LEFT, RIGHT or FULL JOIN, SEMI or ANTI JOIN, ASOF JOIN"
            hint = "use ASOF JOIN or ASOF LEFT JOIN" if method == "ASOF" else hint
            raise self.error(f"{word} is not supported", join, hint, words.span() if words is not None else None)
        self.check_arguments(join, {*_JOIN, "match_condition"} if method == "ASOF" else _JOIN, "JOIN")
        if method == "NATURAL" and (join.args.get("on") is not None or join.args.get("using")):
            raise self.error("NATURAL JOIN with ON or USING is not supported", join, "use JOIN ... ON")
        odd = [name for name in join.args.get("using") or () if not isinstance(name, exp.Identifier)]
        if odd:
            raise self.error("USING takes only names of columns", odd[0])
        return known, method

    def phrase(self, words: str, clause: exp.Expression | None) -> tuple[int, int] | None:
        """Returns the position of the words that introduce a clause."""
        inside = extent(clause) if isinstance(clause, exp.Expression) else None
        before = self.words.phrase(words, inside[1]) if inside is not None else None
        return before or self.words.phrase(words)

    def check_arguments(self, node: exp.Expression, known: set[str], what: str) -> None:
        """Raises PlanError for a node with an unknown argument, which changes its meaning."""
        for name, value in node.args.items():
            if name not in known and value not in (None, False, []):
                word = _CALLED.get(name, name.strip("_").upper().replace("_", " "))
                part = value[0] if isinstance(value, list) else value
                if isinstance(part, exp.Pivot) and part.args.get("unpivot"):
                    word = "UNPIVOT"
                hint = _HINTS.get(word, "")
                raise self.error(f"{what} with {word} is not supported", node, hint, self.phrase(word, part))

    def refuse_statement(self, node: exp.Expression) -> PlanError:
        """Returns the error for a statement other than SELECT."""
        place = extent(node) or (0, 0)
        first = re.compile(r"[(\s]*(\w+)").match(self.text, place[0])
        named, at = (first[1].upper(), first.span(1)) if first is not None else ("this", None)
        if isinstance(node, exp.Pivot):
            hint = "the columns of a result cannot depend on rows: write ON year IN (2000, 2010), of one column"
            return self.error(f"{named} without a list of values is not supported", node, hint, at)
        hint = _INSTEAD.get(named, "write a SELECT")
        return self.error(f"{named} is not a query that can be maintained", node, hint, at)


_TAKEN = {*FUNCTION_NAMES, *CLOCK_NAMES, *TUMBLING, *SESSIONS, *(name.upper() for name in NAMES)}


def is_free(name: str) -> bool:
    """Returns whether a name is neither a function of SQL nor a keyword with another meaning before a parenthesis."""
    if name.upper() in _TAKEN:
        return False
    text, known = f"SELECT {name}(x)", reader("spark")
    try:
        made = known.parser().parse(known.tokenize(text), text)[0].expressions[0]  # type: ignore[union-attr]
    except (SqlglotError, PlanError, IndexError):
        return False
    return type(made) is exp.Anonymous and (function_of(made) or name.upper()) == name.upper()
