"""The positions of the nodes of a SQL syntax tree in the text, and their wording there.

Part of `plans.frontends.sql`. Nodes are sqlglot's; this module identifies them by their `key`, so that it does not
import sqlglot.
"""

from __future__ import annotations

import difflib
import re
from typing import Any

from plans.errors import PlanError, Position
from plans.expressions.names import NAMES as FUNCTIONS
from plans.frontends.aggregates import NAMES as AGGREGATES
from plans.programs.frames import OWN

FUNCTION_NAMES = sorted({*FUNCTIONS, *(name.upper() for name in AGGREGATES), "COUNT_IF"})
CLOSE = 0.75
"""The similarity, up to 1, from which a word may be a misspelling of a name."""

_CLOCK = {"currentdate", "currenttimestamp", "currenttime", "rand", "uuid", "localtimestamp"}
CLOCK_NAMES = {
    "NOW",
    "CURDATE",
    "RANDOM",
    "RANDN",
    "MONOTONICALLY_INCREASING_ID",
    "CURRENT_TIMEZONE",
    "UNIX_TIMESTAMP",
}
"""Functions whose value changes over time if they have no argument."""
_SUBQUERIES = {"select", "subquery", "exists"}
_NAMED = {"bracket": "[...]", "tuple": "a row of values (...)", "interval": "INTERVAL", "collate": "COLLATE"}
_VIEWS = {"explode": "explode(tags) AS tag", "posexplode": "posexplode(tags) AS place, tag", "inline": "inline(items)"}
NO_TABLE = "write it after the table of the array: FROM t, UNNEST(t.tags)"
NO_TYPES = "write the name of the type: it is the same in every row; JSON_KIND(js) returns the type of JSON"
"""What to write instead of a call that returns a type."""
INSTEAD = {
    "unnest": NO_TABLE,
    **{
        f"{name}{outer}": f"write it after the table in FROM: LATERAL VIEW {view}"
        for name, view in _VIEWS.items()
        for outer in ("", "outer")
    },
    "ilike": "write LOWER(...) LIKE with a pattern in lower case",
    "collate": "texts are compared byte by byte: compare LOWER(x) to ignore case",
    "tuple": "compare its values one by one",
    "regexp_match": "write REGEXP_EXTRACT(text, pattern, 1), with the number of the group last",
    "regexp_matches": "write REGEXP_MATCH(text, pattern), an array of the groups of the first match, or "
    "REGEXP_EXTRACT_ALL(text, pattern), an array of all matches",
    "attimezone": "write FROM_UTC_TIMESTAMP(at, zone) for the reading of a clock, and TO_UTC_TIMESTAMP(at, zone) back",
    "row": "write STRUCT(a, b), or {'a': a, 'b': b} in DuckDB",
    "map_agg": "write MAP_FROM_ENTRIES(ARRAY_AGG(STRUCT(k, v))), which is NULL if a key occurs twice",
    "pg_typeof": NO_TYPES,
    **dict.fromkeys(
        ("json_each", "json_tree", "variant_explode", "variant_explode_outer"),
        "write UNNEST(JSON_MEMBERS(js)) AS e(key, value) for objects, and UNNEST(JSON_PARTS(js)) AS e for arrays",
    ),
}
"""What to write instead of a construct, by its key in the tree, or by its name in lower case."""


def extent(node: Any) -> tuple[int, int] | None:
    """Returns the offsets of the text of a node, or None if none of its parts has a position."""
    if "span" in node.meta:
        found: tuple[int, int] = node.meta["span"]
        return found
    starts, ends = [], []
    for part in node.walk():
        meta = part.meta
        if "span" in meta:
            starts.append(meta["span"][0])
            ends.append(meta["span"][1])
        if "start" in meta:
            starts.append(meta["start"])
            ends.append(meta["end"] + 1)
        if "until" in meta:
            ends.append(meta["until"])
    return (min(starts), max(ends)) if starts else None


def placed(made: Any, place: tuple[int, int] | None) -> Any:
    """Sets the position (offsets in the text) of the nodes of a tree that have none, and of calls that were created."""
    for part in made.walk():
        called = part.key == "anonymous" and "span" not in part.meta
        if place is not None and (called or extent(part) is None):
            part.meta["span"] = place
    return made


def replace_relation(node: Any, made: Any) -> None:
    """Replaces a relation of FROM by another one, which gets its position and the joins that follow it."""
    if node.args.get("joins"):
        made.set("joins", [join.copy() for join in node.args["joins"]])
    node.replace(placed(made, extent(node)))


def place_of(text: str, node: Any) -> Position | None:
    """Returns the position of a node."""
    found = extent(node) if node is not None else None
    return Position.of(text, *found) if found is not None else None


def spelling(text: str, node: Any) -> str:
    """Returns the wording of a construct in the text: the name before the parenthesis, or the sign between or before
    the operands."""
    meta, key = node.meta, str(node.key)
    if "start" in meta:
        return text[meta["start"] : meta["end"] + 1].upper()
    if key in _NAMED:
        return _NAMED[key]
    begin, end = meta.get("span") or extent(node) or (0, 0)
    called = re.compile(r"([A-Za-z_][\w.]*)\s*\(").match(text, begin) if "span" in meta else None
    if key == "groupconcat" and called is None:  # its position is that of its argument
        called = re.search(r"([A-Za-z_]\w*)\s*\(\s*(?:DISTINCT\s+)?\Z", text[:begin], re.IGNORECASE)
    if called is not None:
        return called[1].upper()
    if isinstance(node.args.get("params"), list):  # `quantile(0.5)(x)`, whose first place is that of 0.5
        return str(node.this).upper()
    left, right = (extent(part) if hasattr(part, "walk") else None for part in map(node.args.get, _OPERANDS))
    if left is None:
        first = re.compile(r"\w+").match(text, begin)
        return first[0].upper() if first else key.upper()
    between = text[left[1] : right[0]] if right is not None else text[begin : left[0]] or text[left[1] : end]
    word = re.sub(r"/\*.*?\*/|--[^\n]*|[()]|'[^']*'", " ", between, flags=re.DOTALL)
    return " ".join(word.split()).upper()[:30] or key.upper()


_OPERANDS = ("this", "expression")


def refusal(text: str, node: Any) -> tuple[str, str]:
    """Returns the wording of an unsupported construct, and what to do instead."""
    if node.key == "filter":
        node = node.this
    ancestors = {cls.__name__ for cls in type(node).__mro__}
    word = spelling(text, node)
    if node.key == "window":
        return "a window function (OVER) here", "write it in SELECT or QUALIFY, or in a subquery in FROM"
    if word.lower() in OWN:
        return f"{word} without OVER", "write OVER (ORDER BY ...) after it"
    if word in ("GROUPING", "GROUPING_ID"):
        return f"{word} without several groupings", "write GROUP BY ROLLUP (...), CUBE (...) or GROUPING SETS (...)"
    if "AggFunc" in ancestors or node.key == "groupconcat":
        known = (
            "COUNT, SUM, AVG, MIN, MAX, MAX_BY, MODE, MEDIAN, PERCENTILE, STRING_AGG, BOOL_AND, BIT_AND, VAR, STDDEV, "
            "COVAR, CORR, REGR and similar aggregates"
        )
        return f"the aggregate {word}", f"use {known}"
    if word == "CURRENT_DATE":
        return f"{word} of this form", "write CAST(FROM_UTC_TIMESTAMP(NOW(), zone) AS DATE)"
    if node.key in _CLOCK or word in CLOCK_NAMES:
        return word, "its value changes without a change of a table; store it in a column"
    if node.key in _SUBQUERIES or has_query(node):
        return "a subquery here", "put it into FROM"
    instead = INSTEAD.get(node.key) or INSTEAD.get(word.lower(), "")
    if not instead and node.key == "anonymous" and (near := difflib.get_close_matches(word, FUNCTION_NAMES, 1, CLOSE)):
        return word, f"did you mean {near[0]}?"
    return word, instead or "compute it before the rows enter the stream, or when you read the result"


def check_quantifier(text: str, node: Any) -> None:
    """Raises PlanError for `LIKE ANY (query)` and similar comparisons, and for those with an empty list."""
    right = node.args.get("expression")
    bare = right is not None and right.key == "anonymous" and str(right.this).upper() == "ALL"  # ALL ()
    if right is None or (right.key not in ("any", "all") and not bare):
        return
    inner = right.args["this"]
    queried = not bare and inner is not None and inner.unnest().key in _SUBQUERIES
    if not (queried or bare) and inner is not None and inner.unnest().key != "tuple":
        return
    place = extent(right)
    word = re.compile(r"\w+").match(text, place[0]) if place is not None else None
    quantifier = word[0].upper() if word is not None else right.key.upper()
    hint = "write EXISTS" if queried else "give at least one value"
    sign = spelling(text, node).removesuffix(quantifier).strip()
    of = "" if queried else " without values"
    raise PlanError(f"{sign} {quantifier}{of} is not supported", hint=hint)


def has_query(node: Any) -> bool:
    """Returns whether a condition is EXISTS, or IN with a subquery."""
    return node.key == "exists" or node.args.get("query") is not None


def negation(text: str, node: Any) -> Position | None:
    """Returns the position of the NOT of `NOT EXISTS (...)` or `x NOT IN (...)`, including the word that it negates."""
    inner = node.this.unnest()
    left = extent(inner.this) if inner.key == "in" else None
    for start in (left[1] if left is not None else 0, (extent(node) or (0, 0))[0]):
        found = re.compile(r"[\s)]*(NOT\s+(?:IN|EXISTS))\b", re.IGNORECASE).match(text, start)
        if found:
            return Position.of(text, *found.span(1))
    return place_of(text, node)
