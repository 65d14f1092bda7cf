"""Translates scalar expressions of a SQL syntax tree into typed expressions, and computes positions of nodes in the
text.

Part of `plans.frontends.sql`. Nodes are sqlglot's; this module identifies them by their `key`, so that it does not
import sqlglot.
"""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from plans.errors import PlanError
from plans.expressions.build import ARITHMETIC, NULL, Expr, as_span, call, cast, lit
from plans.expressions.coercion import numeric
from plans.expressions.functions.function import HigherOrder
from plans.expressions.functions.user import NAMED, USER, UserFunction
from plans.expressions.lambdas import Lambda, with_lambdas
from plans.expressions.leaf import never
from plans.expressions.macros.dialects import negative
from plans.expressions.macros.meanings import quotient, rest, whole_quotient
from plans.expressions.macros.times import part_of
from plans.expressions.names import NAMES, applied, find_function
from plans.frontends.fields import element_of, field_of, struct
from plans.frontends.sql.scalars.interval import SESSIONS, TUMBLING, as_moment, is_interval, shifted, tumbled
from plans.frontends.sql.scalars.interval import value as length
from plans.frontends.sql.scalars.types import span_of, type_of
from plans.frontends.sql.text.place import CLOCK_NAMES, check_quantifier, extent, has_query, place_of, refusal, spelling
from plans.nested import element_of as inner
from plans.nested import is_nested
from plans.stack import with_room
from plans.types import INTERVALS, decimal_parts

_BINARY = {
    "eq": "eq", "neq": "ne", "lt": "lt", "lte": "le", "gt": "gt", "gte": "ge", "nullsafeeq": "nseq",
    "add": "add", "sub": "sub", "mul": "mul", "div": "div", "mod": "mod", "intdiv": "intdiv",
    "bitwiseand": "bit_and", "bitwiseor": "bit_or", "bitwisexor": "bit_xor",
    "bitwiseleftshift": "shiftleft", "bitwiserightshift": "shiftright",
    "and": "and", "or": "or", "dpipe": "concat", "regexplike": "regexp_like",
}  # fmt: skip
_UNARY = {"not": "not", "neg": "neg", "bitwisenot": "bit_not"}
_CALLS = {"substring": "substring", "floor": "floor", "ceil": "ceil", "overlay": "overlay"}
_OF_ARRAYS = {
    "arraycontains": "ARRAY_CONTAINS", "arrayoverlaps": "ARRAYS_OVERLAP", "arraycontainsall": "ARRAY_HAS_ALL",
}  # fmt: skip
_ARGUMENTS = ("this", "start", "length", "expression", "from_", "for_")
_TRIMS = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
# The arguments that a node may have. Any other argument (an unknown modifier) changes the meaning of the node.
_CARRIED = {
    "this", "expression", "expressions", "is_string", "negate", "low", "high", "ifs", "default", "true", "false",
    "substr", "safe", "typed", "coalesce", "table", "query",
}  # fmt: skip
_CARRIED_BY = {
    "cast": {"to"}, "trycast": {"to"}, "substring": {"start", "length"}, "strposition": {"position"},
    "trim": {"position"}, "overlay": {"from_", "for_"}, "bracket": {"offset", "json"},
    "array": {"bracket_notation", "struct_name_inheritance"},
    "interval": {"unit"}, "parsejson": {"is_literal"}, "sub": {"days", "moment"}, "div": {"double"},
    "mod": {"double"}, "intdiv": {"double"}, "neg": {"exact"},
    "add": {"texts", "moment"}, "like": {"plain", "escaped"}, "ilike": {"plain", "escaped"},
}  # fmt: skip

_OF_DOUBLES = {"div": quotient, "mod": rest, "intdiv": whole_quotient}
Resolve = Callable[[Any], Expr | None]
_T = TypeVar("_T")


def scalar(node: Any, resolve: Resolve, text: str) -> Expr:
    """Returns the typed expression of a scalar node. `resolve` translates columns and other nodes that it knows, such
    as aggregates and subqueries."""
    chain = []  # a + b + c: left-associative operators form a chain in the tree
    while node.key in _BINARY and not _has_interval(node):
        chain.append(node)
        node = node.this
    value = with_room(_placed, node, partial(_value, node, resolve, text), text)
    for operator in reversed(chain):
        _placed(operator, partial(check_quantifier, text, operator), text)
        right = operator.expression
        compare = partial(_binary, operator, value)
        value = _placed(operator, partial(_compared, right, compare, resolve, text), text)
    return value


def _compared(right: Any, compare: Callable[[Expr], Expr], resolve: Resolve, text: str) -> Expr:
    """Returns a comparison with a value, or with the elements of an array after ANY or ALL. A single value after ANY or
    ALL is compared like a value."""
    every = right.key == "all"
    other = scalar(right.this if every or right.key == "any" else right, resolve, text)
    if right.key not in ("any", "all") or inner(other.type) is None:
        return compare(other)
    one = Lambda(("element",), lambda known: compare(known["element"]))
    made = with_lambdas("FORALL" if every else "EXISTS", [other, one])
    assert made is not None, "FORALL and EXISTS take a function"
    return call("case", call("isnull", other), lit(every), made) if right.args.get("own") else made


def _placed(node: Any, build: Callable[[], _T], text: str) -> _T:
    try:
        return build()
    except PlanError as error:
        if error.position is not None:
            raise
        raise _of_written(error, text, node).at(text, place_of(text, node)) from None


def _has_interval(node: Any) -> bool:
    """Returns whether an operator has an INTERVAL on one side."""
    return node.key in ("add", "sub") and (is_interval(node.expression) or is_interval(node.this))


def _value(node: Any, resolve: Resolve, text: str) -> Expr:
    if node.args.get("negate"):
        plain = node.copy()
        plain.set("negate", None)
        return call("not", scalar(plain, resolve, text))
    find_function = resolve(node)
    if find_function is not None:
        return find_function
    found = _scalar(node, resolve, text)
    known = _CARRIED | _CARRIED_BY.get(node.key, set())
    unknown = [name for name, value in node.args.items() if value not in (None, False, []) and name not in known]
    if unknown:
        raise PlanError(f"{spelling(text, node)} with {unknown[0].upper()} is not supported")
    return found


def _scalar(node: Any, resolve: Resolve, text: str) -> Expr:
    key = node.key

    def part(name: str) -> Expr:
        if node.args.get(name) is None:
            raise PlanError(f"{spelling(text, node)} needs another argument")
        return scalar(node.args[name], resolve, text)

    if key == "literal":
        return lit(str(node.this)) if node.args.get("is_string") else _number(str(node.this))
    if key == "boolean":
        return lit(bool(node.this))
    if key == "null":
        return NULL
    if key == "paren":
        return part("this")
    if _has_interval(node):
        return shifted(node, partial(scalar, resolve=resolve, text=text))
    if key == "interval":
        return length(node, partial(scalar, resolve=resolve, text=text))
    if key == "neg" and node.this.key == "literal" and not node.this.args.get("is_string"):
        return _number("-" + str(node.this.this))
    if key == "anonymous" and node.this == "+":
        value = scalar(node.expressions[0], resolve, text)
        if not numeric(value.type):
            raise PlanError(f"+ needs a number, not {value.type}")
        return value
    if key == "neg" and node.args.get("exact"):
        return negative(part("this"))
    if key in _UNARY:
        return call(_UNARY[key], part("this"))
    if key == "nullsafeneq":
        return call("not", call("nseq", part("this"), part("expression")))
    if key == "is":
        return _is(node, resolve, text)
    if key == "in" and node.args.get("field") is not None:
        raise PlanError("IN takes a list in parentheses or a subquery", hint="write IN (...)")
    if key == "in" and node.this.key == "tuple" and not has_query(node):
        return _rows(node, resolve, text)
    if key == "in" and not has_query(node):
        items = [scalar(item, resolve, text) for item in node.expressions]
        return call("in", part("this"), *items)
    if key == "between":
        value = part("this")
        return call("and", call("ge", value, part("low")), call("le", value, part("high")))
    if key in ("like", "ilike", "escape"):
        return _like(node, resolve, text)
    if key == "if" and node.args.get("false") is None:
        raise PlanError(f"{spelling(text, node)} needs another argument", hint="write NULL for a missing value")
    if key in ("case", "if"):
        return _case(node, resolve, text)
    if key in ("cast", "trycast"):
        value, span = part("this"), span_of(node.args["to"])
        if str(getattr(node.args["to"].this, "value", "")) in ("JSON", "JSONB"):
            return _json(value)
        if span is not None and value.type in INTERVALS:
            return as_span(value, span)
        type_ = type_of(node.args["to"])
        if value.op == "literal" and never(value, type_) and spelling(text, node) in ("TRY_CAST", "SAFE_CAST"):
            return cast(NULL, type_)
        return _cast(value, type_)
    if key == "anonymous" and str(node.this).upper() in TUMBLING:
        name = str(node.this).upper()
        if len(node.expressions) != 2:
            raise PlanError(f"{name} takes a timestamp and a length, not {len(node.expressions)} arguments")
        return tumbled(name, scalar(node.expressions[0], resolve, text), node.expressions[1])
    name = str(node.this).upper() if key == "anonymous" else ""
    if name in SESSIONS:
        raise PlanError(f"{name} needs a session in GROUP BY", hint="group by SESSION(at, INTERVAL '10' MINUTE)")
    own = NAMED.get(name)
    if isinstance(own, UserFunction):
        return call(USER, *(scalar(item, resolve, text) for item in node.expressions), value=own)
    if name in NAMES and (_has_lambda(node) or isinstance(NAMES[name][0], HigherOrder)):
        return _with_lambdas(name, node.expressions, resolve, text)
    if name in NAMES and (node.expressions or name not in CLOCK_NAMES):
        return _called(name, node.expressions, resolve, text)
    if key == "parsejson" and node.args.get("is_literal"):  # JSON '{"a": 1}'
        return part("this")
    if key == "concat":  # of adjacent texts
        return call("concat", *(scalar(item, resolve, text) for item in node.expressions))
    if key in _CALLS:
        return call(_CALLS[key], *(part(name) for name in _ARGUMENTS if node.args.get(name) is not None))
    if key == "strposition":
        return call("locate", *(part(name) for name in ("substr", "this", "position") if node.args.get(name)))
    if key == "trim":
        signs = [part("expression")] if node.args.get("expression") is not None else []
        return call(_TRIMS[str(node.args.get("position") or "BOTH")], part("this"), *signs)
    if key == "bracket" and len(node.expressions) == 1:
        whole, place = part("this"), scalar(node.expressions[0], resolve, text)
        if node.args.get("json") and whole.type == "string" and place.op == "literal":
            return call("get_json_object", whole, lit(f"$[{place.value!r}]"))
        return element_of(whole, place, int(node.args.get("offset") or 0))
    if key == "dot" and node.expression.key == "identifier":
        return field_of(part("this"), node.expression.name)
    if key == "array":
        return call("array", *(scalar(item, resolve, text) for item in node.expressions))
    if key in _OF_ARRAYS:
        return _called(_OF_ARRAYS[key], [node.this, node.expression], resolve, text)
    if key == "struct":
        return _struct(node, resolve, text)
    if key == "arrayszip" or name in ("ARRAYS_ZIP", "LIST_ZIP", "ARRAY_ZIP"):
        return _zipped(node, resolve, text)
    if key == "extract":
        return part_of(str(node.this), part("expression"))
    if key in ("tsordstodate", "date") and not node.expressions:
        return _cast(part("this"), "date")
    if key == "identifier":  # a parameter that `resolve` does not know
        hint = "aggregate the rows of EXPLODE"
        raise PlanError(f"an aggregate or subquery cannot read the parameter {node.name} of a function", hint=hint)
    if key == "distinct":
        raise PlanError("only aggregates take DISTINCT", hint="leave it out")
    what, hint = refusal(text, node)
    raise PlanError(f"{what} is not supported", hint=hint)


def _called(name: str, nodes: list[Any], resolve: Resolve, text: str) -> Expr:
    """Returns the call of a function by its name. Units of time are words."""
    entry = find_function(name, len(nodes))
    assert entry is not None
    args = []
    for node, kind in zip(nodes, entry.kinds(len(nodes)) or (), strict=True):
        word = kind == "unit" and node.key in ("column", "var") and not node.args.get("table")
        args.append(lit(str(node.name)) if word else scalar(node, resolve, text))
    sized = name == "LENGTH" and len(args) == 1 and is_nested(args[0].type)  # as in DuckDB
    return call("size", args[0]) if sized else applied(entry, args)


def _of_written(error: PlanError, text: str, node: Any) -> PlanError:
    """Returns an error with the function name of the text in place of a name that the translation introduced."""
    name = re.match(r"\w*", error.message)
    begin, _ = extent(node) or (0, 0)
    word = re.compile(r"(\w+)\s*\(").match(text, begin)
    if name is None or word is None or name[0] not in NAMES:
        return error
    return PlanError(word[1].upper() + error.message[name.end() :], hint=error.hint, witness=error.witness)


def _has_lambda(node: Any) -> bool:
    return any(item.key == "lambda" for item in node.expressions)


def _with_lambdas(name: str, nodes: list[Any], resolve: Resolve, text: str) -> Expr:
    """Returns the call of a higher-order function: TRANSFORM(a, x -> x + 1)."""

    def read(node: Any) -> Expr | Lambda:
        if node.key != "lambda":
            return scalar(node, resolve, text)
        names = tuple(one.name.lower() for one in node.expressions)
        return Lambda(names, lambda known: scalar(node.this, partial(_parameter, resolve=resolve, known=known), text))

    made = with_lambdas(name, [read(node) for node in nodes])
    if made is None:
        raise PlanError(f"{name} does not take a function")
    return made


def _parameter(node: Any, resolve: Resolve, known: Mapping[str, Expr]) -> Expr | None:
    """Returns the expression of a name in the body of a lambda: a parameter, or its meaning outside."""
    return (known.get(node.name.lower()) if node.key == "identifier" else None) or resolve(node)


def _json(value: Expr) -> Expr:
    """Returns a value as JSON text. A string is JSON already."""
    if is_nested(value.type):
        return call("write_json", value)
    return value if value.type == "string" else cast(value, "string")


def _cast(value: Expr, type_: str) -> Expr:
    """Returns the value in another type. A text that looks like an invalid date is rejected with a specific message."""
    try:
        return cast(value, type_)
    except PlanError:
        if type_ != "date" or value.op != "literal" or value.type != "string" or not value.value[:1].isdigit():
            raise
        raise PlanError(f"{value.value!r}: this date does not exist", hint="write DATE 'YYYY-MM-DD'") from None


def _binary(node: Any, left: Expr, right: Expr) -> Expr:
    op = _BINARY[node.key]
    if op == "div" and node.args.get("typed") and {left.type, right.type} <= {"int32", "int64"}:
        op = "intdiv"  # the dialect divides integers so
    if op in _OF_DOUBLES and node.args.get("double") and numeric(left.type) and numeric(right.type):
        return _OF_DOUBLES[op](left, right)
    if node.args.get("texts") and left.type == right.type == "string":
        return call("concat", left, right)
    if node.args.get("days") and left.type == right.type == "date":
        return call("datediff", left, right)
    if node.args.get("moment"):
        left, right = (
            as_moment(one) if other.type in INTERVALS else one for one, other in ((left, right), (right, left))
        )
    if op in ARITHMETIC:
        for side, other, name in ((left, right, "this"), (right, left, "expression")):
            cast_one = node.args[name].unnest().key in ("cast", "trycast")
            if cast_one and side.op == "literal" and side.type in ("int32", "int64") and decimal_parts(other.type):
                raise PlanError(
                    f"{ARITHMETIC[op]} of a decimal and a cast number: Spark uses the digits of the number's type",
                    hint=f"write the number itself: {side}",
                )
    return call(op, left, right)


def _number(digits: str) -> Expr:
    """Returns a number as Spark reads it: a decimal if it has a decimal point, or too many digits for a BIGINT."""
    try:
        if "e" in digits.lower():
            value = float(digits)
            if math.isinf(value):
                raise PlanError(f"{digits} does not fit a double")
            return lit(value)
        if "." in digits or not -(2**63) <= int(digits) < 2**63:
            return lit(decimal.Decimal(digits))
        return lit(int(digits))
    except (ValueError, decimal.InvalidOperation):
        raise PlanError(f"{digits!r} is not a number") from None


def _is(node: Any, resolve: Resolve, text: str) -> Expr:
    value, other = scalar(node.this, resolve, text), node.expression
    if other.key == "null":
        return call("isnull", value)
    if other.key == "boolean":
        return call("nseq", value, lit(bool(other.this)))
    raise PlanError("IS takes NULL, TRUE or FALSE")


def _like(node: Any, resolve: Resolve, text: str) -> Expr:
    escape, negated = None, False
    kinds = ("like", "ilike")
    if node.key == "escape":
        escape = str(node.expression.this)
        node = node.this
        negated = bool(node.args.get("negate"))
        if node.key not in kinds or len(escape) != 1:
            raise PlanError("ESCAPE takes one character after LIKE")
    elif node.args.get("escaped") and "\\" in node.expression.name:
        escape = "\\"
    check_quantifier(text, node)
    mark = "" if node.args.get("plain") else "\\"
    matches = partial(_matches, scalar(node.this, resolve, text), escape, mark, node.key == "ilike")
    found = _compared(node.expression, matches, resolve, text)
    return call("not", found) if negated else found


def _matches(value: Expr, escape: str | None, mark: str, folded: bool, pattern: Expr) -> Expr:
    """Returns whether a value matches a pattern of LIKE. `mark`: the default of `escape`. `folded`: both sides are
    compared in lower case, as in Spark."""
    if pattern.op != "literal" or pattern.type != "string" or pattern.value is None:
        sides = [call("lower", one) if folded else one for one in (value, pattern)]
        return call("like_of", *sides, lit(escape or mark))
    if escape is None and "\\" in pattern.value:
        raise PlanError(
            "a backslash in LIKE means different things in different databases", hint="name an ESCAPE character"
        )
    if folded:
        value, pattern = call("lower", value), lit(pattern.value.lower())
    return call("like", value, pattern, value=escape)


def _case(node: Any, resolve: Resolve, text: str) -> Expr:
    operand = scalar(node.this, resolve, text) if node.key == "case" and node.args.get("this") is not None else None
    parts: list[Expr] = []
    for branch in node.args["ifs"] if node.key == "case" else [node]:
        condition = scalar(branch.this, resolve, text)
        parts.append(condition if operand is None else call("eq", operand, condition))
        parts.append(scalar(branch.args["true"], resolve, text))
    default = node.args.get("default") if node.key == "case" else node.args.get("false")
    return call("case", *parts, scalar(default, resolve, text) if default is not None else NULL)


def _struct(node: Any, resolve: Resolve, text: str) -> Expr:
    """Returns STRUCT(a, b AS c). A field is named as its alias or its column."""
    values, names = [], []
    for item in node.expressions:
        named = item.key in ("propertyeq", "alias")
        value = (item.expression if item.key == "propertyeq" else item.this) if named else item
        name = (item.this.name if item.key == "propertyeq" else item.alias) if named else None
        names.append(name or (value.name if value.key == "column" else None))
        values.append(scalar(value, resolve, text))
    return struct(values, names)


def _zipped(node: Any, resolve: Resolve, text: str) -> Expr:
    """Returns ARRAYS_ZIP(a, b). A field is named as its column, or by its position."""
    values = [scalar(item, resolve, text) for item in node.expressions]
    if node.key == "anonymous" and str(node.this).upper() != "ARRAYS_ZIP":  # DuckDB's, for which NULL has no elements
        values = [
            value if inner(value.type) is None else call("coalesce", value, cast(call("array"), value.type))
            for value in values
        ]
    names = [item.name if item.key == "column" else str(place) for place, item in enumerate(node.expressions)]
    return call("arrays_zip", *(part for pair in zip(map(lit, names), values, strict=True) for part in pair))


def _rows(node: Any, resolve: Resolve, text: str) -> Expr:
    """Returns `(a, b) IN ((1, 2), ...)`: tuples are compared field by field, and NULLs are equal, as in Spark."""
    fields = [scalar(field, resolve, text) for field in node.this.expressions]
    found = []
    for item in node.expressions:
        row = [scalar(field, resolve, text) for field in item.expressions] if item.key == "tuple" else []
        if len(row) != len(fields):
            raise PlanError(f"IN compares rows of {len(fields)} values", hint="write IN ((1, 2), (3, 4))")
        pairs = [call("nseq", one, two) for one, two in zip(fields, row, strict=True)]
        found.append(call("and", *pairs) if len(pairs) > 1 else pairs[0])
    return call("or", *found) if len(found) > 1 else found[0]
