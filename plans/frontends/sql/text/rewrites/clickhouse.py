"""Rewrites ClickHouse's aggregates with -If and parameters, conversions, starts of periods, and PREWHERE.

sumIf(x, x > 1)             SUM(x) FILTER (WHERE x > 1)
addDays(at, 7)              at + INTERVAL '7' DAY
arrayCount(x -> x > 1, a)   SIZE(FILTER(a, x -> x > 1))
FROM t ARRAY JOIN a AS x    FROM t LATERAL VIEW EXPLODE(a) AS x
quantiles(0.5, 0.9)(x)      PERCENTILE(x, ARRAY(0.5, 0.9))
uniqExact(x, y)             COUNT(DISTINCT x, y)
toStartOfFiveMinutes(at)    TIME_BUCKET(INTERVAL '5' MINUTE, at)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from plans.errors import PlanError
from plans.frontends.sql.text.nodes import call, nodes, rewritten
from plans.frontends.sql.text.place import extent, place_of, placed

_UNIQUE = ("uniq", "countdistinct", "uniqexact", "uniqcombined", "uniqcombined64", "uniqhll12", "uniqtheta")
_QUANTILES = ("quantile", "quantiles", "quantileexactinclusive", "quantilesexactinclusive", "median")
_PLAIN: dict[str, type[exp.Expression]] = {
    "sum": exp.Sum, "avg": exp.Avg, "min": exp.Min, "max": exp.Max, "any": exp.AnyValue, "anylast": exp.Last,
    "grouparray": exp.ArrayAgg, "groupuniqarray": exp.ArrayUniqueAgg, "argmin": exp.ArgMin, "argmax": exp.ArgMax,
    "stddevpop": exp.StddevPop, "stddevsamp": exp.StddevSamp, "varpop": exp.VariancePop, "varsamp": exp.Variance,
    "groupbitand": exp.BitwiseAndAgg, "groupbitor": exp.BitwiseOrAgg, "groupbitxor": exp.BitwiseXorAgg,
}  # fmt: skip
_TYPES = {
    **dict.fromkeys(("INT8", "INT16", "INT32", "UINT8", "UINT16"), "INT"),
    **dict.fromkeys(("INT64", "UINT32", "UINT64"), "BIGINT"),
    "FLOAT32": "DOUBLE", "FLOAT64": "DOUBLE", "STRING": "TEXT", "DATE": "DATE", "DATE32": "DATE",
    "DATETIME": "TIMESTAMPNTZ",
}  # fmt: skip
_MINUTES = {"MINUTES": 1, "FIVEMINUTES": 5, "FIVEMINUTE": 5, "TENMINUTES": 10, "FIFTEENMINUTES": 15}
_UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
_DAYS = ("WEEK", "MONTH", "QUARTER", "YEAR")
_OWN = (exp.ApproxDistinct, exp.JSONExtractScalar, exp.DateTrunc)
_COMBINED = (exp.CombinedAggFunc, exp.ParameterizedAgg, exp.CombinedParameterizedAgg, exp.AnonymousAggFunc)


def from_clickhouse(tree: Any, dialect: str, text: str) -> Any:
    """Returns a statement of ClickHouse in the functions of other dialects. Raises PlanError for FINAL."""
    if dialect != "clickhouse":
        return tree
    final = tree.find(exp.Final)
    if final is not None:
        hint = "leave it out: declare the key of the table, and insert and delete its rows"
        raise PlanError("FINAL is not supported", hint=hint, position=place_of(text, final), text=text)
    for node in nodes(tree, exp.PreWhere):
        node.parent.where(node.this.copy(), copy=False)
        node.pop()
    for join in [one for one in nodes(tree, exp.Join) if str(one.args.get("kind") or "").upper() == "ARRAY"]:
        _joined_array(join, text)
    return rewritten(tree, (*_COMBINED, *_OWN, exp.Anonymous), _replacement, text)


def _joined_array(join: Any, text: str) -> None:
    """Replaces an ARRAY JOIN by a LATERAL VIEW."""
    array = join.this
    if join.side:
        hint = "write ARRAY JOIN if(empty(tags), [''], tags) AS tag"
        raise PlanError("LEFT ARRAY JOIN is not supported", hint=hint, position=place_of(text, join), text=text)
    if not isinstance(array, exp.Alias) or join.expressions:
        several = "ARRAY JOIN of several arrays" if join.expressions else "ARRAY JOIN without a name"
        hint = "write ARRAY JOIN tags AS tag" + " for one of them, with arrayZip" * bool(join.expressions)
        raise PlanError(f"{several} is not supported", hint=hint, position=place_of(text, join), text=text)
    alias = exp.TableAlias(this=exp.to_identifier(f"array_{array.alias}"), columns=[exp.to_identifier(array.alias)])
    view = exp.Lateral(this=exp.Explode(this=array.this.copy()), view=True, outer=False, alias=alias)
    select = join.parent
    join.pop()
    select.append("laterals", placed(view, extent(array)))


def _replacement(node: Any) -> Any:
    if isinstance(node, exp.DateTrunc):
        return _start([node.this, exp.Literal.string(node.text("unit"))])
    if isinstance(node, exp.JSONExtractScalar):
        return exp.Coalesce(this=node.copy(), expressions=[exp.Literal.string("")])
    if isinstance(node, exp.Anonymous):
        made = _CALLS.get(str(node.this).upper())
        return made(node.expressions) if made is not None else _converted(node)
    if isinstance(node, exp.ApproxDistinct):
        several = node.args.get("accuracy")
        return _aggregate("uniq", [node.this, several], []) if several is not None else None
    name, given, parameters = str(node.this).lower(), list(node.expressions), []
    if isinstance(node, (exp.ParameterizedAgg, exp.CombinedParameterizedAgg)):
        parameters, given = given, list(node.args["params"])
    made = _aggregate(name, given, parameters)
    if made is None and name.endswith("if") and len(given) > 1:
        inner = _aggregate(name[:-2], given[:-1], parameters)
        return None if inner is None else exp.Filter(this=inner, expression=exp.Where(this=given[-1].copy()))
    return made


def _aggregate(name: str, given: list[Any], parameters: list[Any]) -> Any:
    """Returns the aggregate with a name, or None if there is none."""
    given = [one.copy() for one in given]
    if name in _UNIQUE and not parameters:
        return exp.Count(this=exp.Distinct(expressions=given))
    if name in _QUANTILES and len(given) == 1:
        shares: Any = [one.copy() for one in parameters] or [exp.Literal.number("0.5")]
        shares = exp.Array(expressions=shares) if name.startswith("quantiles") else shares[0]
        return exp.Quantile(this=given[0], quantile=shares)
    if name == "grouparray" and len(parameters) == 1:
        return exp.IgnoreNulls(this=exp.ArrayAgg(this=exp.Limit(this=given[0], expression=parameters[0].copy())))
    kind = _PLAIN.get(name)
    if kind is None or parameters or len(given) != (2 if name.startswith("arg") else 1):
        return None
    return kind(this=given[0], expression=given[1]) if len(given) == 2 else kind(this=given[0])


def _converted(node: Any) -> Any:
    """Returns a conversion, `toInt64(x)`, or the start of a period, `toStartOfTenMinutes(at)`."""
    name, given = str(node.this).upper(), node.expressions
    safe = name.endswith("ORNULL")
    type_ = _TYPES.get(name.removeprefix("TO").removesuffix("ORNULL")) if name.startswith("TO") else None
    if type_ is not None and len(given) == 1:
        return (exp.TryCast if safe else exp.Cast)(this=given[0].copy(), to=exp.DataType.build(type_))
    minutes = _MINUTES.get(name.removeprefix("TOSTARTOF")) if name.startswith("TOSTARTOF") else None
    if minutes is None or len(given) != 1:
        return None
    size = exp.Interval(this=exp.Literal.string(str(minutes)), unit=exp.Var(this="MINUTE"))
    return exp.Anonymous(this="TIME_BUCKET", expressions=[size, given[0].copy()])


def _case(given: list[Any]) -> Any:
    if len(given) % 2 == 0:
        raise PlanError(
            "multiIf takes conditions and values in turn, and one more value at the end", hint="add the last one"
        )
    made = exp.Case(default=given[-1].copy())
    for condition, value in zip(given[:-1:2], given[1::2], strict=True):
        made.append("ifs", exp.If(this=condition.copy(), true=value.copy()))
    return made


def _digits(*parts: tuple[str, int]) -> Callable[[list[Any]], Any]:
    """Returns the function that combines the parts of a moment into one number."""

    def made(given: list[Any]) -> Any:
        calls = [exp.Mul(this=exp.func(name, given[0].copy()), expression=exp.Literal.number(n)) for name, n in parts]
        total: Any = calls[0]
        for one in calls[1:]:
            total = exp.Add(this=total, expression=one)
        return exp.paren(total)

    return made


def _start(given: list[Any]) -> Any:
    """Returns the start of an hour, or of a month, which is a date: toStartOfMonth(at)."""
    made = exp.Anonymous(this="DATETIME_TRUNC", expressions=[one.copy() for one in given])
    return exp.cast(made, "date") if given[1].name.upper() in _DAYS else made


def _sunday(given: list[Any]) -> Any:
    if len(given) > 1:
        raise PlanError("toStartOfWeek with a mode is not supported", hint="write toMonday(at)")
    day = exp.Interval(this=exp.Literal.string("1"), unit=exp.Var(this="DAY"))
    return exp.paren(
        exp.Sub(
            this=_start([exp.Add(this=given[0].copy(), expression=day), exp.Literal.string("WEEK")]),
            expression=day.copy(),
        )
    )


def _renamed(name: str) -> Callable[[list[Any]], Any]:
    return lambda given: call(name, *given)


_NAMES = {
    "TOHOUR": "HOUR", "TOMINUTE": "MINUTE", "TOSECOND": "SECOND", "TOQUARTER": "QUARTER", "LOWERUTF8": "LOWER",
    "UPPERUTF8": "UPPER", "TOYEAR": "YEAR", "TOMONTH": "MONTH", "TODAYOFMONTH": "DAYOFMONTH",
    "TODAYOFYEAR": "DAYOFYEAR", "TOUNIXTIMESTAMP": "UNIX_TIMESTAMP", "REPLACEALL": "REPLACE",
    "ARRAYELEMENT": "ELEMENT_AT", "TODATETIME": "MOMENT_OF", "FROMUNIXTIMESTAMP": "MOMENT_OF",
}  # fmt: skip


def _later(unit: str, sign: int) -> Callable[[list[Any]], Any]:
    """Returns the function that adds or subtracts a number of units."""

    def made(given: list[Any]) -> Any:
        count = given[1].copy() if sign > 0 else exp.Neg(this=exp.paren(given[1].copy()))
        return call("DATETIME_ADD", given[0], count, exp.Literal.string(unit))

    return made


def _of_array(name: str, default: bool = False) -> Callable[[list[Any]], Any]:
    """Returns a function of the elements of an array.

    A function as the first argument is applied to the elements. `default`: the value for no elements is 0.
    """

    def made(given: list[Any]) -> Any:
        array = call("TRANSFORM", given[1], given[0]) if len(given) == 2 else given[0]
        found = call(name, array)
        return exp.Coalesce(this=found, expressions=[exp.Literal.number(0)]) if default else found

    return made


def _function_last(name: str) -> Callable[[list[Any]], Any]:
    return lambda given: call(name, *given[::-1])


def _extracted(type_: str) -> Callable[[list[Any]], Any]:
    """Returns the function for the value at a path of JSON, which is 0 if there is no value of the type."""

    def made(given: list[Any]) -> Any:
        steps = "".join(f"['{one.name}']" if one.is_string else f"[{int(one.name) - 1}]" for one in given[1:])
        found = exp.TryCast(
            this=call("GET_JSON_OBJECT", given[0], exp.Literal.string(f"${steps}")), to=exp.DataType.build(type_)
        )
        return exp.Coalesce(this=found, expressions=[exp.Literal.number(0)])

    def constant(given: list[Any]) -> Any:
        if any(not isinstance(one, exp.Literal) for one in given[1:]):
            raise PlanError("the path of JSON is not a constant", hint="write the names and positions as constants")
        return made(given)

    return constant


def _is_empty(sign: type[exp.Binary]) -> Callable[[list[Any]], Any]:
    return lambda given: exp.paren(sign(this=call("LENGTH", given[0]), expression=exp.Literal.number(0)))


_CALLS: dict[str, Callable[[list[Any]], Any]] = {
    "MULTIIF": _case,
    "TOYYYYMM": _digits(("YEAR", 100), ("MONTH", 1)),
    "TOYYYYMMDD": _digits(("YEAR", 10_000), ("MONTH", 100), ("DAY", 1)),
    "TOSTARTOFINTERVAL": lambda given: exp.Anonymous(
        this="TIME_BUCKET", expressions=[given[1].copy(), given[0].copy()]
    ),
    "DATETIME_TRUNC": _start,
    "TOSTARTOFWEEK": _sunday,
    "INTDIV": lambda given: exp.paren(exp.IntDiv(this=given[0].copy(), expression=given[1].copy())),
    "HAS": lambda given: exp.Anonymous(this="ARRAY_CONTAINS", expressions=[one.copy() for one in given]),
    **{f"{word}{unit}S": _later(unit, sign) for word, sign in (("ADD", 1), ("SUBTRACT", -1)) for unit in _UNITS},
    "ARRAYSUM": _of_array("LIST_SUM", True),
    "ARRAYAVG": _of_array("LIST_AVG"),
    "ARRAYMIN": _of_array("LIST_MIN"),
    "ARRAYMAX": _of_array("LIST_MAX"),
    "ARRAYSORT": _of_array("ARRAY_SORT"),
    "ARRAYEXISTS": _function_last("EXISTS"),
    "ARRAYALL": _function_last("FORALL"),
    "ARRAYCOUNT": lambda given: call("CARDINALITY", call("FILTER", *given[::-1])),
    "ARRAYSTRINGCONCAT": lambda given: call("ARRAY_JOIN", *[*given, exp.Literal.string("")][:2]),
    "INDEXOF": lambda given: exp.Coalesce(this=call("ARRAY_POSITION", *given), expressions=[exp.Literal.number(0)]),
    "JSONEXTRACTINT": _extracted("BIGINT"),
    "JSONEXTRACTUINT": _extracted("BIGINT"),
    "JSONEXTRACTFLOAT": _extracted("DOUBLE"),
    **{name: _renamed(plain) for name, plain in _NAMES.items()},
    "TODAY": lambda given: exp.CurrentDate(),
    "EMPTY": _is_empty(exp.EQ),
    "NOTEMPTY": _is_empty(exp.NEQ),
}
