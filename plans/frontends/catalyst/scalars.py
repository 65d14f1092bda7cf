"""Expressions of Spark to typed expressions. Spark has resolved names and types and inserted the casts.

Every column that Spark names carries the type that Spark gives it. `column` compares it with ours, so a difference
between the two is an error and never a wrong result.
"""

from __future__ import annotations

import datetime
import decimal
import re
import zoneinfo
from collections.abc import Callable, Mapping
from typing import Any

from plans.errors import PlanError
from plans.expressions.build import FUNCTIONS, NULL, Expr, call, cast, lit
from plans.frontends.catalyst.tree import Node
from plans.types import normal_type

_CALLS = {
    "Add": "add", "Subtract": "sub", "Multiply": "mul", "Divide": "div", "Remainder": "mod",
    "IntegralDivide": "intdiv", "EqualTo": "eq", "EqualNullSafe": "nseq", "LessThan": "lt",
    "LessThanOrEqual": "le", "GreaterThan": "gt", "GreaterThanOrEqual": "ge", "And": "and", "Or": "or", "Not": "not",
    "IsNull": "isnull", "UnaryMinus": "neg", "Abs": "abs", "In": "in", "If": "case", "RLike": "regexp_like",
    "StringReplace": "replace", "StringLPad": "lpad", "StringRPad": "rpad", "StringRepeat": "repeat",
    "StringTranslate": "translate", "StringTrim": "trim", "StringTrimLeft": "ltrim", "StringTrimRight": "rtrim",
    "DateDiff": "datediff", "DayOfMonth": "day", "WeekDay": "weekday", "WeekOfYear": "weekofyear",
    "DayOfWeek": "dayofweek", "DayOfYear": "dayofyear", "Signum": "sign", "Pow": "power", "Log": "ln",
    "Logarithm": "log", "Log10": "log10", "Log2": "log2", "BRound": "bround", "SecondWithFraction": "second_fraction",
    "RegExpExtract": "regexp_extract", "RegExpReplace": "regexp_replace", "StringLocate": "locate",
    "OctetLength": "octet_length", "GetJsonObject": "get_json_object", "StartsWith": "startswith",
    "EndsWith": "endswith", "TruncDate": "trunc", "TruncTimestamp": "date_trunc", "AddMonths": "add_months",
}  # fmt: skip
_TRIMS = ("StringTrim", "StringTrimLeft", "StringTrimRight")
_FOLLOWED = ("UnaryPositive", "PromotePrecision", "KnownNotNull", "KnownNullable", "KnownFloatingPointNormalized")
_CLOCKS = ("CurrentTimestamp", "CurrentDate", "Now", "LocalTimestamp", "CurrentTime")
_RANDOM = ("Rand", "Randn", "Uuid", "Shuffle", "MonotonicallyIncreasingID", "SparkPartitionID", "InputFileName")

Meaning = Callable[[Node], Expr | None]
"""Says what a node means to the query around the expression; None if only its own operator counts."""


def type_of(given: Any) -> str:
    """Returns the planner's type for a type of Spark, as JSON has it. PlanError for one that is not supported."""
    if given == "void":
        return "null"
    if not isinstance(given, str) or given.startswith("interval"):
        name = given if isinstance(given, str) else str(given.get("type", given))
        raise PlanError(f"Spark's type {name} is not supported", hint="cast it, or take it apart in the query")
    return normal_type(re.sub(r"\s+collate\s.*", "", given))


def scalar(node: Node, meaning: Meaning, zone: str) -> Expr:
    """Returns the typed expression of a tree of Spark.

    `meaning` is asked first for every node: columns, aggregates and subqueries are its business. `zone` as for
    `literal`. PlanError for what is not supported.
    """
    known = meaning(node)
    if known is not None:
        return known

    def part(inner: Node) -> Expr:
        return scalar(inner, meaning, zone)

    kind = node.kind
    if kind == "Literal":
        return literal(node, zone)
    if kind == "Cast":
        return cast(part(node.child), type_of(node.fields["dataType"]))
    if kind in ("Alias", *_FOLLOWED):
        return part(node.child)
    if kind == "IsNotNull":
        return call("not", call("isnull", part(node.child)))
    if kind == "CaseWhen":
        branches = [part(child) for child in node.children]
        return call("case", *branches, *(() if len(branches) % 2 else (NULL,)))
    if kind == "Like":
        return _like(node, part)
    if kind in _TRIMS and len(node.children) == 2:
        return call(_CALLS[kind], part(node.child), part(node.children[1]))
    if kind in _CLOCKS:
        raise PlanError(f"{_words(kind)} changes by itself", hint="filter by a column of the tables")
    if kind in _RANDOM:
        raise PlanError(f"{_words(kind)} is not deterministic", hint="compute it before the rows enter the stream")
    if kind == "OuterReference":
        raise PlanError(
            "a subquery inside of another one cannot read the query around it", hint="join the tables step by step"
        )
    name = _CALLS.get(kind) or _snake(kind)
    if kind in _CALLS or name in FUNCTIONS:
        arguments = [part(child) for child in node.children]
        return call(name, *arguments)
    if node.fields.get("replacement") is not None and len(node.children) == 1:
        return part(node.child)  # a function that Spark defines by others
    raise PlanError(f"{_words(kind)} is not supported", hint="compute it before the rows enter the stream")


def literal(node: Node, zone: str) -> Expr:
    """Returns a constant. `zone`: the time zone in which the JVM wrote instants."""
    value, type_ = node.fields.get("value"), type_of(node.fields["dataType"])
    if value is None:
        return NULL if type_ == "null" else cast(NULL, type_)
    if type_ == "timestamp":
        return lit(_instant(value, zone))
    if type_ == "binary":
        raise PlanError("a constant of bytes cannot be read from Spark's plan", hint="write UNHEX('...') or a text")
    return cast(lit(_LITERALS.get(type_.partition("(")[0], str)(value)), type_)


def _instant(text: str, zone: str) -> datetime.datetime:
    """Returns the instant that a reading of a clock names. PlanError where the clock shows it twice or never."""
    local = datetime.datetime.fromisoformat(text).replace(tzinfo=zoneinfo.ZoneInfo(zone))
    if local.utcoffset() != local.replace(fold=1).utcoffset():
        raise PlanError(
            f"the constant {text} is ambiguous in the JVM's time zone {zone}",
            hint="start the JVM in UTC: -Duser.timezone=UTC",
        )
    return local.astimezone(datetime.UTC)


def _wall_clock(micros: str) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=int(micros))


_LITERALS: Mapping[str, Callable[[str], Any]] = {
    "bool": lambda text: text == "true",
    "int32": int,
    "int64": int,
    "float64": float,
    "decimal": decimal.Decimal,
    "date": datetime.date.fromisoformat,
    "timestamp_ntz": _wall_clock,
}


def _like(node: Node, part: Callable[[Node], Expr]) -> Expr:
    pattern = part(node.children[1])
    if pattern.op != "literal" or pattern.type != "string" or pattern.value is None:
        raise PlanError("LIKE takes a constant pattern", hint="compare columns with = instead")
    escape = str(node.fields.get("escapeChar") or "\\")
    return call("like", part(node.child), pattern, value=escape if escape in pattern.value else None)


def _snake(kind: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower()


def _words(kind: str) -> str:
    return _snake(kind).upper()
