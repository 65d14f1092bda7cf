"""Translates expressions of Spark into typed expressions. Spark has resolved names and types and inserted the casts.

Every column in Spark's plan has a type. `column` compares it with the planner's type, so a difference is an error and
never a wrong result.
"""

from __future__ import annotations

import datetime
import decimal
import re
import zoneinfo
from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import Any

from plans.errors import PlanError
from plans.expressions.build import FUNCTIONS, NULL, Expr, as_span, call, cast, lit
from plans.expressions.functions.user import NAMED, USER, UserFunction
from plans.expressions.lambdas import Lambda, with_lambdas
from plans.expressions.macros.times import part_of
from plans.expressions.names import NAMES, applied, find_function
from plans.frontends.catalyst.sessions import CONVERTED, gap_of
from plans.frontends.catalyst.tree import Node
from plans.frontends.fields import field_of
from plans.nested import array_of, is_nested, map_of, parts, struct_of
from plans.types import INTERVALS, normal_type

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
    "BitwiseAnd": "bit_and", "BitwiseOr": "bit_or", "BitwiseXor": "bit_xor", "BitwiseNot": "bit_not",
    "ShiftLeft": "shiftleft", "ShiftRight": "shiftright", "ShiftRightUnsigned": "shiftrightunsigned",
    "BitwiseCount": "bit_count", "BitwiseGet": "getbit", "UnBase64": "unbase64", "StringDecode": "decode",
    "SoundEx": "soundex", "InitCap": "initcap", "Luhncheck": "luhn_check", "StringSpace": "space",
    "StringInstr": "instr", "ToDegrees": "degrees", "ToRadians": "radians", "IsNaN": "isnan", "NaNvl": "nanvl",
    "EulerNumber": "e", "DayName": "dayname", "MonthName": "monthname", "YearOfWeek": "yearofweek",
    "FromUTCTimestamp": "from_utc_timestamp", "ToUTCTimestamp": "to_utc_timestamp", "DateFormatClass": "date_format",
    "FromUnixTime": "from_unixtime", "ParseToDate": "to_date", "MicrosToTimestamp": "timestamp_micros",
    "MillisToTimestamp": "timestamp_millis", "SecondsToTimestamp": "timestamp_seconds",
    "CreateArray": "array", "CreateNamedStruct": "named_struct", "CreateMap": "map", "GetArrayItem": "get",
    "Murmur3Hash": "hash", "XxHash64": "xxhash64", "StringToMap": "str_to_map", "Base32": "to_base32",
    "UnBase32": "from_base32", "LengthOfJsonArray": "json_array_length", "IsValidUTF8": "is_valid_utf8",
    "MakeValidUTF8": "make_valid_utf8", "RegExpCount": "regexp_count", "RegExpSubStr": "regexp_substr",
    "RegExpExtractAll": "regexp_extract_all",
    "TypeOf": "typeof", "ArrayTransform": "transform", "ArrayFilter": "filter", "ArrayExists": "exists",
    "ArrayForAll": "forall", "StructsToJson": "to_json", "ArrayAggregate": "reduce",
    "GetMapValue": "element_at", "SubtractTimestamps": "sub", "SubtractDates": "sub",
    "MultiplyDTInterval": "mul", "MultiplyYMInterval": "mul", "DivideDTInterval": "div", "DivideYMInterval": "div",
    "MakeDTInterval": "make_dt_interval", "MakeYMInterval": "make_ym_interval",
    "DateAddYMInterval": "add_months", "TimestampAddYMInterval": "plus_months", "TimestampAddInterval": "plus_micros",
}  # fmt: skip
_TRIMS = ("StringTrim", "StringTrimLeft", "StringTrimRight")
_FOLLOWED = (
    "Decode",
    "UnaryPositive",
    "PromotePrecision",
    "KnownNotNull",
    "KnownNullable",
    "KnownFloatingPointNormalized",
)
CLOCKS = {
    "CurrentTimestamp": "timestamp", "Now": "timestamp", "CurrentDate": "date", "LocalTimestamp": "timestamp_ntz",
}  # fmt: skip
"""Expressions that read the clock, and their types."""
_NARROW = {"byte": (2**7, "INT"), "short": (2**15, "INT"), "float": (0, "DOUBLE")}
"""Types with fewer bits than those of the planner: the first number that is too large, and the type to use instead."""
_RANDOM = ("Rand", "Randn", "Uuid", "Shuffle", "MonotonicallyIncreasingID", "SparkPartitionID", "InputFileName")

Part = Callable[[Node], Expr]
"""Translates a part of an expression."""
Meaning = Callable[[Node], Expr | None]
"""Translates a node that depends on the query around the expression, or returns None to translate it by its own
operator."""


def type_of(given: Any) -> str:
    """Returns the planner's type for a type of Spark in JSON form. Raises PlanError for an unsupported type."""
    if given == "void":
        return "null"
    if isinstance(given, Mapping) and given.get("type") in _NESTED:
        return normal_type(_NESTED[given["type"]](given))
    if not isinstance(given, str) or given == "interval":
        name = given if isinstance(given, str) else str(given.get("type", given))
        raise PlanError(f"Spark's type {name} is not supported", hint="cast it, or select its parts in the query")
    return normal_type(re.sub(r"\s+collate\s.*", "", given))


_NESTED: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "array": lambda given: array_of(type_of(given["elementType"])),
    "map": lambda given: map_of(type_of(given["keyType"]), type_of(given["valueType"])),
    "struct": lambda given: struct_of(
        [field["name"] for field in given["fields"]], [type_of(field["type"]) for field in given["fields"]]
    ),
}


def scalar(node: Node, meaning: Meaning, zone: str) -> Expr:
    """Returns the typed expression of an expression tree of Spark.

    `meaning` is called first for every node: it translates columns, aggregates and subqueries. `zone` as for `literal`.
    Raises PlanError for unsupported expressions.
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
        target = node.fields["dataType"]
        if isinstance(target, str) and target in _NARROW:
            return _narrow(node, part(node.child), target)
        if isinstance(target, str) and target.startswith("interval "):
            return as_span(part(node.child), target)
        return cast(part(node.child), type_of(target))
    if kind in ("Alias", *_FOLLOWED):
        return part(node.child)
    if kind == "IsNotNull":
        return call("not", call("isnull", part(node.child)))
    if kind == "CaseWhen":
        branches = [part(child) for child in node.children]
        return call("case", *branches, *(() if len(branches) % 2 else (NULL,)))
    if kind in _TRIMS and len(node.children) == 2:
        return call(_CALLS[kind], part(node.child), part(node.children[1]))
    if kind in CLOCKS or kind == "CurrentTime":
        raise PlanError(
            f"{_words(kind)} changes over time, without a change of a table", hint="filter by a column of the tables"
        )
    if kind in _RANDOM:
        raise PlanError(f"{_words(kind)} is not deterministic", hint="compute it before the rows enter the stream")
    own = NAMED.get(str(node.fields.get("name")).upper()) if kind == "PythonUDF" else None
    if isinstance(own, UserFunction):
        return call(USER, *(part(child) for child in node.children), value=own)
    if kind in ("PythonUDF", "ScalaUDF", "HiveSimpleUDF", "HiveGenericUDF"):
        name = node.fields.get("name") or node.fields.get("udfName") or "a function of the session"
        hint = "register it by crown.function(name, ...)"
        raise PlanError(f"{name} is a user-defined function, whose code is not in Spark's plan", hint=hint)
    if kind == "OuterReference":
        raise PlanError("a nested subquery cannot read columns of the outer query", hint="join the tables instead")
    if kind == "With":
        return _with(node, meaning, zone)
    if any(child.kind == "LambdaFunction" for child in node.children):
        return _with_lambdas(node, meaning, zone)
    if kind == "In" and node.child.kind == "CreateNamedStruct":
        return _in_tuples(node, part)
    if kind in _FORMS:
        return _FORMS[kind](node, part)
    name = _CALLS.get(kind) or _snake(kind)
    if name in FUNCTIONS or (kind in _CALLS and name.upper() not in NAMES):
        return call(name, *(part(child) for child in node.children))
    if node.fields.get("replacement") is not None and len(node.children) == 1:
        return part(node.child)  # a function that Spark defines by others
    entry = find_function(name.upper(), len(node.children))
    if entry is not None:
        return applied(entry, [part(child) for child in node.children])
    if kind in _PATTERNS:
        message = f"{_words(kind).replace('_', ' ')} of constants is not supported in Spark's plan"
        raise PlanError(message, hint="write LIKE for each pattern, joined by OR or AND")
    raise PlanError(f"{_words(kind)} is not supported", hint="compute it before the rows enter the stream")


_PATTERNS = ("LikeAny", "LikeAll", "NotLikeAny", "NotLikeAll")
"""Comparisons whose patterns are missing in the JSON form of a plan."""


def _narrow(node: Node, value: Expr, target: str) -> Expr:
    """Returns an 8-bit or 16-bit integer as a 32-bit one. Raises PlanError unless it is GROUPING, which is 0 or 1, or a
    constant that fits."""
    most, other = _NARROW[target]
    bit = node.child.kind == "BitwiseAnd" and node.child.children[1].fields.get("value") == "1"
    if bit or (value.op == "literal" and isinstance(value.value, int) and -most <= value.value < most):
        return cast(value, "int32")
    raise PlanError(f"a cast to {target} is not supported: {other} is the smallest type", hint=f"cast to {other}")


def literal(node: Node, zone: str) -> Expr:
    """Returns a constant. `zone`: the time zone in which the JVM wrote instants."""
    value, type_ = node.fields.get("value"), type_of(node.fields["dataType"])
    if value is None:
        return NULL if type_ == "null" else cast(NULL, type_)
    if type_ == "timestamp":
        return lit(_instant(value, zone))
    if type_ in INTERVALS:
        return lit(int(value), type_)
    if type_ == "binary":
        raise PlanError("a binary constant is not supported in Spark's plan", hint="write UNHEX('...') or a text")
    return cast(lit(_LITERALS.get(type_.partition("(")[0], str)(value)), type_)


def _instant(text: str, zone: str) -> datetime.datetime:
    """Returns the instant of a local time. Raises PlanError if the local time is ambiguous or does not exist."""
    local = datetime.datetime.fromisoformat(text).replace(tzinfo=zoneinfo.ZoneInfo(zone))
    if local.utcoffset() != local.replace(fold=1).utcoffset():
        raise PlanError(
            f"the constant {text} is ambiguous in the JVM's time zone {zone}",
            hint="start the JVM in UTC: -Duser.timezone=UTC",
        )
    return local.astimezone(datetime.UTC)


_LITERALS: Mapping[str, Callable[[str], Any]] = {
    "bool": lambda text: text == "true",
    "int32": int,
    "int64": int,
    "float64": float,
    "decimal": decimal.Decimal,
    "date": datetime.date.fromisoformat,
    "timestamp_ntz": lambda micros: datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=int(micros)),
}


def _like(node: Node, part: Callable[[Node], Expr], lower: bool = False) -> Expr:
    """Returns LIKE, or ILIKE as LIKE of both sides in lower case."""
    value, pattern = part(node.child), part(node.children[1])
    if pattern.op != "literal" or pattern.type != "string" or pattern.value is None:
        return call("like_of", *(call("lower", one) if lower else one for one in (value, pattern)), lit("\\"))
    if lower:
        value, pattern = call("lower", value), lit(pattern.value.lower())
    return call("like", value, pattern, value="\\" if "\\" in pattern.value else None)


def _with(node: Node, meaning: Meaning, zone: str) -> Expr:
    """Returns an expression that reads a common expression, as BETWEEN does."""
    if len(node.children) != 2:
        raise PlanError("an expression over several common expressions is not supported")
    common = scalar(node.children[1].child, meaning, zone)
    return scalar(node.child, lambda inner: common if inner.kind == "CommonExpressionRef" else meaning(inner), zone)


def _with_lambdas(node: Node, meaning: Meaning, zone: str) -> Expr:
    """Returns the call of a higher-order function whose lambda parameters Spark has numbered."""

    def read(child: Node) -> Expr | Lambda:
        if child.kind != "LambdaFunction":
            return scalar(child, meaning, zone)
        names = tuple(str(one.id) for one in child.children[1:])
        return Lambda(names, lambda known: scalar(child.child, partial(_parameter, meaning=meaning, known=known), zone))

    name = _CALLS.get(node.kind) or _snake(node.kind)
    made = with_lambdas(name.upper(), [read(child) for child in node.children])
    if made is None:
        raise PlanError(f"{_words(node.kind)} with a function is not supported")
    return made


def _parameter(node: Node, meaning: Meaning, known: Mapping[str, Expr]) -> Expr | None:
    """Returns the translation of a node in the body of a lambda: a parameter, or its meaning outside."""
    found = known.get(str(node.id)) if node.kind == "NamedLambdaVariable" else None
    return found or meaning(node)


def _in_tuples(node: Node, part: Part) -> Expr:
    """Returns IN of several columns: some tuple is equal, where NULLs are equal."""
    wanted, *given = node.children
    if any(one.kind != "CreateNamedStruct" for one in given):
        raise PlanError("all tuples of IN must have the same number of values")
    equal = []
    for one in given:
        pairs = zip(wanted.children[1::2], one.children[1::2], strict=True)
        equal.append(reduce(partial(call, "and"), [call("nseq", part(a), part(b)) for a, b in pairs]))
    return reduce(partial(call, "or"), equal)


def _plus(node: Node, part: Part) -> Expr:
    """Returns a date or a moment plus an interval. A constant interval is a number of its units."""
    gap = gap_of(node.children[1])
    moment, span = part(node.child), part(node.children[1]) if gap is None else lit(gap, "int64")
    if span.op != "literal" or span.value is None:
        return call("add", moment, span)
    type_ = "int64" if node.kind == "TimestampAddInterval" else "int32"
    return call(_CALLS[node.kind], moment, lit(span.value, type_))


def _part(unit: str) -> Callable[[Node, Part], Expr]:
    return lambda node, part: part_of(unit, part(node.child))


def _split(node: Node, part: Part) -> Expr:
    """Returns SPLIT, whose limit Spark always writes."""
    value, pattern, limit = (part(child) for child in node.children)
    return call("split", value, pattern, *([] if limit == lit(-1) else [limit]))


def _size(node: Node, part: Part) -> Expr:
    """Returns SIZE. The plan says what it is for NULL: -1 if the session was not in ANSI mode."""
    size = call("size", part(node.child))
    return call("coalesce", size, lit(-1)) if node.fields["legacySizeOfNull"] else size


def _of_unit(node: Node, part: Part) -> Expr:
    """Returns TIMESTAMPADD and TIMESTAMPDIFF, whose unit is a field."""
    name, unit = _snake(node.kind).replace("_", "").upper(), lit(str(node.fields["unit"]))
    entry = find_function(name, 3)
    assert entry is not None, "the functions are there"
    return applied(entry, [unit, *(part(child) for child in node.children)])


def _seconds(node: Node, part: Part) -> Expr:
    """Returns UNIX_TIMESTAMP, whose pattern applies only to texts."""
    value, *pattern = (part(child) for child in node.children)
    given = [value, *pattern] if value.type == "string" else [value]
    entry = find_function(_snake(node.kind).upper(), len(given))
    assert entry is not None, "the functions are there"
    return applied(entry, given)


def _moment(node: Node, part: Part) -> Expr:
    """Returns a moment from a text or from numbers, with or without a time zone, depending on its type."""
    name = "TO_TIMESTAMP" if node.kind == "ParseToTimestamp" else "MAKE_TIMESTAMP"
    name += "_NTZ" if node.fields.get("dataType") == "timestamp_ntz" else ""
    entry = find_function(name, len(node.children))
    assert entry is not None, "the functions are there"
    return applied(entry, [part(child) for child in node.children])


def _zipped(node: Node, part: Part) -> Expr:
    """Returns ARRAYS_ZIP, whose names are a field."""
    names = [lit(str(name[0]["value"])) for name in node.fields["names"]]
    pairs = zip(names, map(part, node.children), strict=True)
    return call("arrays_zip", *(one for pair in pairs for one in pair))


def _replaced(node: Node, part: Part) -> Expr:
    """Returns REGEXP_REPLACE that starts at the first character."""
    *given, first = node.children
    if first.kind != "Literal" or str(first.fields.get("value")) != "1":
        raise PlanError("REGEXP_REPLACE with a start position is not supported")
    return call("regexp_replace", *(part(child) for child in given))


def _logarithm(node: Node, part: Part) -> Expr:
    base, value = node.children
    return call("ln", part(value)) if base.kind == "EulerNumber" else call("log", part(base), part(value))


def _struct_field(node: Node, part: Part) -> Expr:
    value = part(node.child)
    made = parts(value.type) if is_nested(value.type) else None
    if made is None:
        raise PlanError(f"a value of type {value.type} has no fields")
    return call("get_field", value, lit(made.names[int(node.fields["ordinal"])]))


def _struct_fields(node: Node, part: Part) -> Expr:
    """Returns the array of a field of an array of structs."""
    value = part(node.child)
    outer = parts(value.type) if is_nested(value.type) else None
    inner = parts(outer.types[0]) if outer is not None else None
    if inner is None:
        raise PlanError(f"a value of type {value.type} has no fields")
    return field_of(value, inner.names[int(node.fields["ordinal"])])


def _micros(node: Node, part: Part) -> Expr:
    """Returns a moment as microseconds, or the reverse, as time windows contain them."""
    if node.child.kind == node.kind:  # a conversion and its inverse
        return part(node.child.child)
    type_ = type_of(node.fields["toType"])
    if type_ == "int64":
        return call("unix_micros", cast(part(node.child), "timestamp"))
    return cast(call("timestamp_micros", part(node.child)), type_)


def _from_json(node: Node, part: Part) -> Expr:
    if node.fields.get("options"):
        raise PlanError(
            "FROM_JSON with options is not supported", hint="leave the options out: values that do not fit are NULL"
        )
    return call("from_json", part(node.child), lit(type_of(node.fields["schema"])))


_FORMS: Mapping[str, Callable[[Node, Part], Expr]] = {
    "ArraysZip": _zipped,
    CONVERTED: _micros,
    "JsonToStructs": _from_json,
    "GetStructField": _struct_field,
    "GetArrayStructFields": _struct_fields,
    "DateAddYMInterval": _plus,
    "TimestampAddYMInterval": _plus,
    "TimestampAddInterval": _plus,
    **{f"ExtractANSIInterval{unit}s": _part(unit) for unit in ("Year", "Month", "Day", "Hour", "Minute", "Second")},
    "TimestampAdd": _of_unit,
    "TimestampDiff": _of_unit,
    "Size": _size,
    "UnixTimestamp": _seconds,
    "ToUnixTimestamp": _seconds,
    "ParseToTimestamp": _moment,
    "MakeTimestamp": _moment,
    "RegExpReplace": _replaced,
    "RegExpInStr": lambda node, part: call("regexp_instr", *map(part, node.children[:2])),  # the group is ignored
    "Logarithm": _logarithm,
    "StringSplit": _split,
    "Like": _like,
    "ILike": partial(_like, lower=True),
    "NullIfResult": lambda node, part: call("case", part(node.child), NULL, part(node.children[1])),
}


def _snake(kind: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower()


def _words(kind: str) -> str:
    return _snake(kind).upper()
