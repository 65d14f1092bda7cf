"""Translates functions of other dialects to Spark's by means of sqlglot. Nodes keep their positions in the text.

A call is generated in Spark's SQL with placeholders for its operands, parsed again, and its operands are put back. So
the rest of the tree and the positions of its nodes are unchanged.
"""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, SqlglotError

from plans.errors import PlanError
from plans.frontends.sql.text.arguments import CONSTANTS, check_read
from plans.frontends.sql.text.meanings.calls import AS_SPARK
from plans.frontends.sql.text.meanings.json_paths import as_json
from plans.frontends.sql.text.nodes import call, literal, nodes, rewritten
from plans.frontends.sql.text.place import extent, place_of, spelling
from plans.frontends.sql.text.reader import reader

_KEPT = (
    exp.AggFunc, exp.Anonymous, exp.AnonymousAggFunc, exp.Case, exp.Cast, exp.Connector, exp.Exists,
    exp.If, exp.Predicate, exp.Window, exp.Unnest, exp.Explode, exp.Inline, exp.Struct, exp.Array,
)  # fmt: skip
_AGGREGATES = (exp.GroupConcat,)


def in_spark(tree: Any, dialect: str, text: str) -> Any:
    """Returns a statement of another dialect with Spark's functions."""
    for node in reversed(list(tree.walk(bfs=False))):
        if isinstance(node, exp.Comprehension) and isinstance(node.parent, exp.Array):
            node.parent.replace(_marked(_comprehension(node), node.parent))
        if isinstance(node, exp.RawString):
            node.replace(_marked(exp.Literal.string(node.this), node))
        if isinstance(node, exp.Func) and not isinstance(node, (*_KEPT, *_AGGREGATES)):
            try:
                made = as_json(_translated(node, spelling(text, node)), node, dialect)
            except PlanError as error:
                raise error.at(text, place_of(text, node)) from None
            if made is not None and node is tree:
                tree = made
            elif made is not None:
                node.replace(made)
    return tree


def _comprehension(node: Any) -> Any:
    """Returns `[x + 1 for x in a if x > 1]` as function calls."""
    array, names = (
        node.args["iterator"],
        [node.args[name] for name in ("expression", "position") if node.args.get(name)],
    )
    parens = {name: exp.Paren(this=node.args[name].copy()) for name in ("this", "condition") if node.args.get(name)}
    for column in [column for body in parens.values() for column in nodes(body, exp.Column)]:
        first, *fields = column.parts
        if any(first.name.lower() == name.name.lower() for name in names):
            column.replace(
                exp.Dot.build([first.copy(), *(field.copy() for field in fields)]) if fields else first.copy()
            )

    bodies, names = {name: one.this for name, one in parens.items()}, [one.copy() for one in names]
    if len(names) == 2 and "condition" in bodies:  # the position is that before elements are dropped
        both = [exp.Literal.string("kept"), bodies["condition"], exp.Literal.string("made"), bodies["this"]]
        pairs = exp.Lambda(this=exp.Anonymous(this="NAMED_STRUCT", expressions=both), expressions=names)
        array = exp.Anonymous(this="LIST_TRANSFORM", expressions=[array.copy(), pairs])
        names = [exp.to_identifier("pair")]
        bodies = {part: exp.Dot.build([*names, exp.to_identifier(field)]) for part, field in _OF_PAIR.items()}
    for name, part in (("LIST_FILTER", "condition"), ("LIST_TRANSFORM", "this")):
        if part in bodies:
            function = exp.Lambda(this=bodies[part], expressions=[one.copy() for one in names])
            array = exp.Anonymous(this=name, expressions=[array.copy(), function])
    return array


_OF_PAIR = {"condition": "kept", "this": "made"}


def with_indexes(tree: Any, dialect: str, first: int) -> Any:
    """Marks array indexes with the first index of the dialect, `first`, and returns the statement."""
    for node in _inner_first(tree, exp.Bracket) if first else ():
        index = node.expressions[0] if len(node.expressions) == 1 else None
        if node.args.get("safe") and node.args.get("offset") == 1 and index is not None:  # ELEMENT_AT of Trino
            made = exp.Anonymous(this="ELEMENT_AT", expressions=[node.this.copy(), index.copy()])
            node.replace(_marked(made, node))
            continue
        if isinstance(index, exp.Slice) and index.args.get("step") is None and first == 1:
            ends = index.this or exp.Literal.number(1), index.expression or exp.Literal.number(-1)
            made = exp.Anonymous(this="LIST_SLICE", expressions=[node.this.copy(), *(one.copy() for one in ends)])
            node.replace(_marked(made, node))
            continue
        if index is None or node.args.get("offset") is not None:
            continue
        node.set("offset", first)
        if dialect in _FROM_THE_END and not (isinstance(index, exp.Literal) and index.is_string):
            made = exp.Anonymous(this="LIST_EXTRACT", expressions=[node.this.copy(), index.copy()])
            node.replace(_marked(made, node))
    return tree


def with_differences(tree: Any, dialect: str) -> Any:
    """Returns a statement whose differences follow the dialect.

    A difference of dates can be a number of days. A difference in weeks counts the beginnings of a unit.
    """
    for node in nodes(tree, exp.Sub) if dialect in _IN_DAYS else ():
        node.set("days", True)
    for node in nodes(tree, exp.TsOrDsDiff) if dialect == "redshift" else ():
        unit = node.args.get("unit")
        made = exp.DateDiff(this=node.this.copy(), expression=node.expression.copy(), unit=unit)
        node.replace(_marked(made, node))
    for node in nodes(tree, exp.DateDiff, exp.DatetimeDiff) if dialect in _OF_BEGINNINGS else ():
        node.set("date_part_boundary", True)
    for node in nodes(tree, exp.DateDiff) if dialect in _OF_WEEKS else ():
        if node.text("unit").upper() == "WEEK":
            node.set("date_part_boundary", _OF_WEEKS[dialect])
    return tree


_IN_DAYS = ("duckdb", "postgres", "redshift", "snowflake", "materialize", "risingwave", "oracle")
_OF_BEGINNINGS = ("redshift", "tsql", "clickhouse", "bigquery")
"""Dialects whose differences count the beginnings of units, without a mark in sqlglot's tree."""
_OF_WEEKS = {"duckdb": "DAY", "snowflake": "WEEK"}
_FROM_THE_END = ("duckdb", "clickhouse")
"""Dialects in which the index -1 is the last element of an array."""


def _translated(node: Any, name: str) -> Any:
    """Returns the call of a function in Spark's SQL, or None if Spark has no such function; its name is rejected later.

    Raises PlanError if an argument in the text is missing in the translation.
    """
    copy = node.copy()
    operands: dict[str, Any] = {}
    for before, after in zip(node.iter_expressions(), copy.iter_expressions(), strict=True):
        if not isinstance(before, CONSTANTS) or _is_parameter(before):
            after.replace(exp.column(f"operand_{len(operands)}", quoted=True))
            operands[f"operand_{len(operands)}"] = before
    try:
        words = _words(copy)
        made = _read(words)
    except (SqlglotError, ValueError, AttributeError):
        return None
    check_read(copy, _words, words, name)
    made = _marked(made, node)
    for column in nodes(made, exp.Column):
        operand = operands.get(column.name)
        if operand is not None:
            if column is made:
                made = operand.copy()
            else:
                column.replace(operand.copy())
    return made


def _words(node: Any) -> str:
    """Returns the text of a call in Spark's SQL."""
    if boundary := node.args.get("date_part_boundary"):
        node = node.copy()
        _between_beginnings(node, boundary if isinstance(boundary, str) else node.text("unit"))
    words: str = node.sql(dialect="spark", unsupported_level=ErrorLevel.RAISE)
    return words


def with_own_names(tree: Any, dialect: str) -> Any:
    """Returns a statement in which functions that Spark also has, but with another meaning, have names of their own.

    Functions that are NULL for NULL in the dialect are marked so.
    """
    own, strict = _OWN_NAMES.get(dialect, {}), _STRICT.get(dialect, ())
    for node in _inner_first(tree, *own, exp.Anonymous, exp.IsNan) if own else ():
        given = [one.copy() for one in node.iter_expressions()]
        name = (node.name if isinstance(node, exp.Anonymous) else node.key).lower()
        if name in _WITH_PATHS and dialect == "duckdb" and len(given) == 2:
            path = Dialect.get_or_raise(dialect).to_json_path(given[1])
            given = [exp.JSONExtract(this=given[0], expression=path)]
        if type(node) in own and not isinstance(node.args.get("unit"), exp.WeekStart):
            called = "RANGE" if node.args.get("is_end_exclusive") else own[type(node)]
            made = exp.Anonymous(this=called, expressions=given)
            rows = isinstance(node, exp.ExplodingGenerateSeries)
            node.replace(_marked(exp.Explode(this=made) if rows else made, node))
            continue
        if name in _OTHERS and dialect == "duckdb":
            node.replace(_marked(exp.Anonymous(this=_OTHERS[name], expressions=given), node))
        elif name in strict:
            missing = exp.or_(*(exp.Is(this=one, expression=exp.null()) for one in given))
            node.replace(_marked(exp.If(this=missing, true=exp.null(), false=node.copy()), node))
    return tree


_FULL_NAMES: dict[type, str] = {exp.Dayname: "FULL_DAYNAME", exp.Monthname: "FULL_MONTHNAME"}
_SIDES: dict[type, str] = {exp.Left: "SIGNED_LEFT", exp.Right: "SIGNED_RIGHT"}
_MOMENTS: dict[type, str] = {exp.TimestampTrunc: "DATETIME_TRUNC"}  # Spark's DATE_TRUNC makes a TIMESTAMP of any moment
_TRUNCATED: dict[type, str] = {exp.TimestampTrunc: "MOMENT_TRUNC"}
_OWN_NAMES: dict[str, dict[type, str]] = {
    "duckdb": {
        exp.GenerateSeries: "GENERATE_SERIES", exp.ArrayOverlaps: "LIST_HAS_ANY", exp.ArrayContainsAll: "LIST_HAS_ALL",
        exp.ArrayContains: "LIST_CONTAINS", exp.ArrayDistinct: "LIST_DISTINCT", exp.ArrayPosition: "LIST_POSITION",
        exp.ArrayIntersect: "LIST_INTERSECT", exp.IsInf: "ISINF",
        exp.ArrayConcat: "LIST_CONCAT", exp.Flatten: "LIST_FLATTEN", exp.Transform: "LIST_TRANSFORM",
        exp.ArrayFilter: "LIST_FILTER", exp.JSONKeys: "JSON_NAMES", exp.DateBin: "TIME_BUCKET", **_FULL_NAMES,
        **_SIDES, **_MOMENTS,
    },
    "postgres": {
        exp.ExplodingGenerateSeries: "GENERATE_SERIES", exp.ArrayOverlaps: "LIST_HAS_ANY",
        **_SIDES, **_MOMENTS,
    },
    "bigquery": {exp.GenerateSeries: "GENERATE_SERIES", exp.IsInf: "ISINF", **_MOMENTS},
    "mysql": _FULL_NAMES,
    "snowflake": {exp.ArrayContains: "LIST_CONTAINS", **_TRUNCATED},
    **dict.fromkeys(("trino", "presto", "athena"), _TRUNCATED),
    **dict.fromkeys(("redshift", "clickhouse"), _MOMENTS),
}  # fmt: skip
_WITH_PATHS = ("json_array_length", "jsonkeys")
"""Functions with a path."""
_STRICT = {"duckdb": ("isnan",), "bigquery": ("isnan",)}
_OTHERS = {
    "printf": "LONG_PRINTF", "bit_count": "OWN_BIT_COUNT", "url_encode": "PERCENT_ENCODE",
    "url_decode": "PERCENT_DECODE", "json_array_length": "JSON_ELEMENTS", "map_concat": "MAP_MERGE",
}  # fmt: skip
"""The meaning in DuckDB of names that Spark has, too."""


def with_moments(tree: Any, dialect: str) -> Any:
    """Returns a statement in which additions to dates and moments keep their unit and type, and days of the week are
    numbered as in the dialect.

    Spark's DATE_ADD always counts days.
    """
    for node in _inner_first(tree, *_ADDED) if dialect not in AS_SPARK else ():
        moment, count, unit = node.this.copy(), node.expression.copy(), node.text("unit") or "DAY"
        if isinstance(count, exp.Interval):
            made: Any = (exp.Sub if isinstance(node, exp.DateSub) else exp.Add)(this=moment, expression=count)
            made.set("moment", dialect == "duckdb" or None)
        else:
            if isinstance(count, exp.Literal) and count.is_string and count.name.lstrip("-").isdigit():
                count = exp.Literal.number(count.name)
            count = exp.Neg(this=exp.paren(count)) if isinstance(node, exp.DateSub) else count
            word = exp.Literal.string(unit)
            if isinstance(node, exp.TsOrDsAdd):
                made = exp.Anonymous(this="TIMESTAMPADD", expressions=[word, count, moment])
            else:
                made = exp.Anonymous(this="DATETIME_ADD", expressions=[moment, count, word])
        node.replace(_marked(made, node))
    for node in _inner_first(tree, exp.DayOfWeek, exp.DayOfWeekIso, exp.Extract, exp.Anonymous):
        day = _day_of_week(node, dialect)
        if day is not None:
            node.replace(_marked(day, node))
    return tree


_ADDED = (exp.DateAdd, exp.DateSub, exp.TsOrDsAdd)
_FROM_SUNDAY = ("duckdb", "postgres", "redshift", "snowflake", "materialize", "risingwave")
_FROM_MONDAY = ("trino", "presto", "athena")
_WEEKDAYS = ("DOW", "DAYOFWEEK", "WEEKDAY")


def _day_of_week(node: Any, dialect: str) -> Any:
    """Returns the day of the week, numbered as in the dialect; None for other calls, or if it is Spark's."""
    day = node.expression if isinstance(node, exp.Extract) else node.this
    asked = node.name.upper() if isinstance(node, exp.Extract) else ""
    if isinstance(node, exp.Anonymous):
        given = node.expressions
        if node.name.upper() == "WEEKDAY" and dialect == "duckdb" and len(given) == 1:
            day, asked = given[0], "DOW"
        elif node.name.upper() in ("DATE_PART", "DATEPART") and len(given) == 2:
            day, asked = given[1], given[0].name.upper()
    elif isinstance(node, exp.DayOfWeek):
        asked = "DOW"
    iso = isinstance(node, exp.DayOfWeekIso) or (dialect in _FROM_MONDAY and asked in _WEEKDAYS)
    if iso:
        return exp.Anonymous(this="DATE_PART", expressions=[exp.Literal.string("dayofweek_iso"), day.copy()])
    if dialect not in _FROM_SUNDAY or asked not in _WEEKDAYS:
        return None
    found = exp.Anonymous(this="DAYOFWEEK", expressions=[day.copy()])
    return exp.paren(exp.Sub(this=found, expression=exp.Literal.number(1)))


def with_samples(tree: Any, dialect: str) -> Any:
    """Returns a statement with SKEWNESS and KURTOSIS of a sample, if this is their meaning in the dialect."""
    for node in nodes(tree, *_OF_SAMPLES.get(dialect, ())):
        name = f"{type(node).__name__.upper()}_SAMP"
        node.replace(_marked(exp.Anonymous(this=name, expressions=[node.this.copy()]), node))
    return tree


_OF_SAMPLES = {
    "duckdb": (exp.Skewness, exp.Kurtosis),
    "snowflake": (exp.Skewness, exp.Kurtosis),
    "trino": (exp.Kurtosis,),
    "presto": (exp.Kurtosis,),
}


def with_shorthands(tree: Any, dialect: str, text: str) -> Any:
    """Returns a statement in which shorthands are expanded: ``ANY_VALUE(x HAVING MAX y)``, RATIO_TO_REPORT and
    CONDITIONAL_TRUE_EVENT by aggregates, ``x IN UNNEST(a)`` by a function, which is false for an array that is NULL or
    empty, ``X'1F'`` by UNHEX, and the rows of ``COUNT(DISTINCT (a, b))`` and ``MAX_BY(x, (a, b))`` by structs."""
    kinds = (exp.AnyValue, exp.Window, exp.In, exp.Tuple, exp.HexString, exp.Cast)
    return rewritten(tree, kinds, lambda node: _written_out(node, dialect), text)


def _written_out(node: Any, dialect: str) -> Any:
    if isinstance(node, exp.HexString):  # in PostgreSQL, X'1F' is a string of bits and 0x1F a number
        if node.args.get("is_integer"):
            return exp.Literal.number(int(node.name, 16))
        return None if dialect in _BITS else call("UNHEX", literal(node.name))
    if isinstance(node, exp.Cast) and node.to.this == exp.DataType.Type.INTERVAL and isinstance(node.this, exp.Literal):
        return exp.Interval(this=node.this.copy())
    if isinstance(node, exp.AnyValue) and isinstance(node.this, exp.HavingMax):
        best = exp.ArgMax if node.this.args.get("max") else exp.ArgMin
        return best(this=node.this.this.copy(), expression=node.this.expression.copy())
    if isinstance(node, exp.Window) and isinstance(node.this, exp.Anonymous):
        given = node.this.expressions
        if node.this.name.upper() == "RATIO_TO_REPORT" and len(given) == 1:
            total: Any = node.copy()
            total.set("this", exp.Sum(this=given[0].copy()))
            return exp.paren(exp.Div(this=exp.paren(given[0].copy()), expression=exp.func("NULLIF", total, "0")))
        if node.this.name.upper() == "CONDITIONAL_TRUE_EVENT" and len(given) == 1:
            one, none = exp.Literal.number(1), exp.Literal.number(0)
            counted: Any = node.copy()
            counted.set("this", exp.Sum(this=exp.If(this=given[0].copy(), true=one, false=none)))
            ends = {"start": "UNBOUNDED", "start_side": "PRECEDING", "end": "CURRENT ROW"}
            counted.set("spec", exp.WindowSpec(kind="ROWS", **ends))
            return counted
    if isinstance(node, exp.Tuple):
        counted = node.parent.parent if isinstance(node.parent, exp.Distinct) else node.parent
        names = (exp.to_identifier(f"f{i}") for i in range(len(node.expressions)))
        pairs = zip(names, node.expressions, strict=True)
        fields = [exp.PropertyEQ(this=name, expression=one.copy()) for name, one in pairs]
        return exp.Struct(expressions=fields) if isinstance(counted, (exp.Count, exp.ArgMax, exp.ArgMin)) else None
    if isinstance(node, exp.In) and isinstance(node.args.get("unnest"), exp.Unnest):
        array = node.args["unnest"].expressions[0]
        some = exp.GT(this=exp.func("CARDINALITY", array.copy()), expression=exp.Literal.number(0))
        found = exp.ArrayContains(this=array.copy(), expression=node.this.copy())
        return exp.If(this=some, true=found, false=exp.false())
    return None


_BITS = ("postgres", "redshift", "materialize", "risingwave")


def with_groupings(tree: Any, dialect: str) -> Any:
    """Returns a statement whose GROUP BY is marked if a grouping without keys has a row even without input rows."""
    for node in nodes(tree, exp.Group) if dialect in _ALWAYS_GROUPED else ():
        node.set("always", True)
    return tree


_ALWAYS_GROUPED = ("duckdb", "postgres", "trino", "presto")


def with_wall_clocks(tree: Any) -> Any:
    """Returns a statement in which TIMESTAMP and DATETIME without a zone are Spark's TIMESTAMP_NTZ."""
    for node in nodes(tree, exp.DataType):
        if node.this in _WALL_CLOCKS:
            node.set("this", exp.DataType.Type.TIMESTAMPNTZ)
    return tree


_TYPES = exp.DataType.Type
_WALL_CLOCKS = (_TYPES.TIMESTAMP, _TYPES.DATETIME, _TYPES.DATETIME2, _TYPES.SMALLDATETIME)


def with_lengths(tree: Any) -> Any:
    """Rewrites texts as INTERVALs if they are cast to INTERVAL or are the distances of a frame, and the bounds of an
    array of dates as dates."""
    for node in nodes(tree, exp.Cast):
        made = _length(node.this)
        if made is not None and node.to.this == exp.DataType.Type.INTERVAL and not node.to.expressions:
            node.replace(_marked(made, node))
    for frame in nodes(tree, exp.WindowSpec):
        for end in ("start", "end"):
            made = _length(frame.args.get(end))
            if made is not None:
                frame.set(end, _marked(made, frame.args[end]))
    for node in nodes(tree, exp.GenerateDateArray):
        for end in ("start", "end"):
            if isinstance(node.args.get(end), exp.Literal):
                node.set(end, _marked(exp.cast(node.args[end].copy(), "date"), node.args[end]))
    return tree


def _length(text: Any) -> Any:
    """Returns a text such as '7 days' as an INTERVAL, or None."""
    words = _LENGTH.fullmatch(text.name) if isinstance(text, exp.Literal) and text.is_string else None
    if words is None:
        return None
    return exp.Interval(this=exp.Literal.string(words[1]), unit=exp.Var(this=words[2].upper()))


_LENGTH = re.compile(r"\s*(-?\d+)\s+([A-Za-z]+?)s?\s*")


def with_aliases(tree: Any, dialect: str) -> Any:
    """Returns a statement whose WHERE is marked if it can use aliases of the SELECT list."""
    for node in nodes(tree, exp.Select) if dialect in _NAMED_IN_WHERE else ():
        if node.args.get("where") is not None:
            node.args["where"].set("aliases", True)
    return tree


_NAMED_IN_WHERE = ("duckdb", "snowflake", "clickhouse", "teradata")


def _between_beginnings(difference: Any, unit: str) -> None:
    """Truncates both moments of a difference to a unit, so that the difference counts whole units between them."""
    for side in ("this", "expression"):
        moment = difference.args[side].copy()
        difference.set(side, exp.Anonymous(this="DATE_TRUNC", expressions=[exp.Literal.string(unit or "DAY"), moment]))


def _inner_first(tree: Any, *types: Any) -> list[Any]:
    """Returns the nodes of some types, inner ones first. A node that replaces another one has copies of its parts."""
    return nodes(tree, *types)[::-1]


def _is_parameter(node: Any) -> bool:
    """Returns whether a node is a parameter of an enclosing lambda."""
    lambda_ = node.find_ancestor(exp.Lambda) if isinstance(node, exp.Identifier) else None
    while lambda_ is not None:
        if any(one.name.lower() == node.name.lower() for one in lambda_.expressions):
            return True
        lambda_ = lambda_.find_ancestor(exp.Lambda)
    return False


def _marked(made: Any, node: Any) -> Any:
    """Returns a tree whose nodes have the position of another node."""
    place = extent(node)
    for part in made.walk():
        part.meta.clear()
        part.meta.update({"span": place} if place is not None else {})
    return made


def _read(text: str) -> Any:
    spark: Any = reader("spark")
    return spark.parser().parse(spark.tokenize(f"SELECT {text}"), f"SELECT {text}")[0].expressions[0]
