"""Macros for parts of dates and moments, additions to them, intervals, and conversions from texts and numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from plans.errors import PlanError
from plans.expressions.build import NULL, Expr, call, cast, lit
from plans.expressions.columns import intervals
from plans.expressions.functions.clock.formats import SECONDS
from plans.expressions.functions.clock.spans import MICROS, MONTHS, unit_of
from plans.expressions.functions.function import macro, meaning
from plans.expressions.macros.numbers import positive_remainder
from plans.time import durations
from plans.types import INTERVALS

_UNITS = ("day", "hour", "minute")


def _duration(*parts: Expr) -> Expr:
    sizes = [
        call("mul", cast(part, "int64"), lit(MICROS[unit], "int64")) for part, unit in zip(parts, _UNITS, strict=False)
    ]
    if len(parts) > len(_UNITS):
        micros = call("mul", cast(parts[-1], "decimal(18,6)"), lit(MICROS["second"]))
        sizes.append(cast(micros, "int64"))
    return call("of_micros", reduce(lambda one, two: call("add", one, two), sizes))


def _of_months(years: Expr, months: Expr | None = None) -> Expr:
    whole = call("mul", cast(years, "int32"), lit(12))
    return call("of_months", whole if months is None else call("add", whole, cast(months, "int32")))


_LARGE = "a length that does not fit"


_PARTS = {
    "year": "year y years yr yrs", "yearofweek": "yearofweek isoyear", "quarter": "quarter qtr quarters",
    "month": "month mon mons months", "weekofyear": "week w weeks weekofyear", "day": "day d days dayofmonth",
    "dayofweek": "dayofweek dow", "dayofweek_iso": "dayofweek_iso dow_iso isodow", "dayofyear": "doy dayofyear",
    "hour": "hour h hours hr hrs", "minute": "minute m min mins minutes",
    "second_fraction": "second s sec seconds secs",
}  # fmt: skip
PARTS = {word: part for part, words in _PARTS.items() for word in words.split()}
"""The names of the parts of a date or moment in EXTRACT and DATE_PART."""
_TIME = "int32 int32 int32 int32 int32 decimal(16,6)"
_OTHER = "text that does not match the pattern"
_MONDAY, _JANUARY = 946_857_600_000_000, 24_000
"""The origins of TIME_BUCKET: 3 January 2000 in microseconds since 1970, and 1 January in months since the year 0."""
_EPOCHS = {
    f"epoch_{unit}{end}": name
    for unit, name in (("second", "unix_seconds"), ("millisecond", "unix_millis"), ("microsecond", "unix_micros"))
    for end in ("", "s")
}


def part_of(unit: str, value: Expr) -> Expr:
    """Returns the named part of a date or moment. EPOCH is the number of seconds since 1970."""
    part, word = PARTS.get(unit.lower()), unit.lower()
    if word in ("epoch", *_EPOCHS) and value.type not in INTERVALS:
        moment = cast(value, "timestamp")
        if word == "epoch":
            return cast(moment, "float64")
        return call(_EPOCHS[word], moment)
    if value.type in INTERVALS:
        name = (part or unit.lower()).removesuffix("_fraction")
        if intervals.PARTS.get(name, ("",))[0] != value.type:
            known = [word.upper() for word, (kind, _, _) in intervals.PARTS.items() if kind == value.type]
            raise PlanError(
                f"EXTRACT does not support {unit.upper()} of a value of type {value.type}",
                hint="use one of " + ", ".join(known),
            )
        return call(f"{name}_of_interval", value)
    if word in _SPANS:
        return _SPANS[word](value)
    if part is None:
        hint = "use one of epoch, " + ", ".join(words.split()[0] for words in _PARTS.values())
        raise PlanError(f"EXTRACT does not know the part {unit!r}", hint=hint)
    return call(part, value)


def of_year(years: int) -> Callable[[Expr], Expr]:
    """Returns a macro for the century or millennium of a year. The first one begins with the year 1."""

    def made(value: Expr) -> Expr:
        year = call("year", value)
        above = call("add", call("intdiv", call("sub", year, lit(1)), lit(years)), lit(1))
        return call("case", call("gt", year, lit(0)), above, call("sub", call("intdiv", year, lit(years)), lit(1)))

    return made


def decade(value: Expr) -> Expr:
    """Returns the year without its last digit."""
    return cast(call("floor", call("div", call("year", value), lit(10))), "int64")


def _microseconds(value: Expr) -> Expr:
    return cast(call("mul", call("second_fraction", value), lit(MICROS["second"])), "int64")


def _milliseconds(value: Expr) -> Expr:
    return call("mul", call("second_fraction", value), lit(1_000))


def julian(value: Expr) -> Expr:
    """Returns the number of days since 24 November 4714 BC, with the fraction of the day."""
    day = call("add", cast(call("unix_date", cast(value, "date")), "int64"), lit(_JULIAN, "int64"))
    if value.type == "date":
        return cast(day, "float64")
    micros = positive_remainder(call("unix_micros", cast(value, "timestamp")), lit(MICROS["day"], "int64"))
    return call("add", call("div", cast(micros, "float64"), lit(float(MICROS["day"]))), cast(day, "float64"))


def _julian_from_noon(value: Expr) -> Expr:
    """Returns JULIANDAY of SQLite, which knows milliseconds and begins at noon."""
    millis = call("add", call("unix_millis", cast(value, "timestamp")), lit(_NOON, "int64"))
    return call("div", cast(millis, "float64"), lit(float(MICROS["day"] // 1000)))


def _overlap(start: Expr, end: Expr, other_start: Expr, other_end: Expr) -> Expr:
    """Returns OVERLAPS of PostgreSQL: the lesser end of a period begins it and is in it, the greater is not. If an end
    is NULL, so is the result unless the other ends decide it."""
    (one, one_end), (two, two_end) = _period(start, end), _period(other_start, other_end)

    def within(point: Expr, point_end: Expr, until: Expr) -> Expr:
        return call("or", call("lt", point, until), call("lt", point_end, until))

    both = call("and", call("eq", one_end, one_end), call("eq", two_end, two_end))
    later, same = call("gt", one, two), call("eq", one, two)
    earlier = call("lt", one, two)
    return call("case", later, within(one, one_end, two_end), earlier, within(two, two_end, one_end), same, both, NULL)


def _period(start: Expr, end: Expr) -> tuple[Expr, Expr]:
    """Returns the first end that is not NULL, the lesser one if both are there, and the other end."""
    there = call("and", call("not", call("isnull", start)), call("not", call("isnull", end)))
    return call("least", start, end), call("case", there, call("greatest", start, end), NULL)


_JULIAN, _NOON = 2_440_588, 210_866_760_000_000
"""1 January 1970 as a Julian day, and in milliseconds since noon of the first one."""
_SPANS: dict[str, Callable[[Expr], Expr]] = {
    "century": of_year(100), "millennium": of_year(1_000), "decade": decade, "microseconds": _microseconds,
    "microsecond": _microseconds, "milliseconds": _milliseconds, "millisecond": _milliseconds,
    "julian": julian,
}  # fmt: skip


def _word(unit: Expr) -> str:
    if unit.op != "literal" or not isinstance(unit.value, str):
        raise PlanError(f"a unit of time is expected instead of {unit}", hint="write its name: DAY, or 'DAY'")
    return unit.value


def _added(unit: Expr, count: Expr, moment: Expr) -> Expr:
    name = unit_of("TIMESTAMPADD", _word(unit))
    size = MONTHS.get(name) or MICROS[name]
    total = count if size == 1 else call("mul", cast(count, "int64"), lit(size, "int64"))
    if name in MONTHS:
        return call("plus_months", moment, cast(total, "int32"))
    return call("plus_micros", moment, cast(total, "int64"))


def _kept(moment: Expr, count: Expr, unit: Expr) -> Expr:
    name = unit_of("DATE_ADD", _word(unit))
    if moment.type != "date":
        return _added(unit, count, moment)
    if name in MONTHS:
        return call("add_months", moment, cast(call("mul", count, lit(MONTHS[name])), "int32"))
    days, rest = divmod(MICROS[name], MICROS["day"])
    if rest:
        return cast(_added(unit, count, moment), "timestamp_ntz")
    return call("date_add", moment, cast(count if days == 1 else call("mul", count, lit(days)), "int32"))


def _moment(value: Expr, pattern: Expr) -> Expr:
    return call("read_timestamp", value, pattern) if value.type == "string" else cast(value, "timestamp")


def _seconds(value: Expr, pattern: Expr | None = None) -> Expr:
    if value.type == "string":
        return call("read_seconds", value, pattern or lit(SECONDS))
    return call("intdiv", call("unix_micros", value), lit(MICROS["second"]))  # truncated towards 0, unlike UNIX_SECONDS


def _in_zone(*given: Expr) -> Expr:
    """Returns CONVERT_TIMEZONE: a wall clock reading in another zone. The session's zone is UTC."""
    *sources, target, moment = given
    found = cast(cast(moment, "timestamp_ntz"), "timestamp")
    for source in sources:
        found = call("to_utc_timestamp", found, source)
    return cast(call("from_utc_timestamp", found, target), "timestamp_ntz")


def _beginning(moment: Expr, unit: Expr) -> Expr:
    if str(unit.value).lower() == "decade":
        first = call("make_date", cast(call("mul", decade(moment), lit(10)), "int32"), lit(1), lit(1))
        return cast(first, "timestamp" if moment.type == "timestamp" else "timestamp_ntz")
    found = call("date_trunc", unit, moment)
    return found if moment.type == "timestamp" else cast(found, "timestamp_ntz")


def _zoned(zone: Expr, value: Expr) -> Expr:
    """Returns PostgreSQL's TIMEZONE: the wall clock reading of an instant, or the instant of a wall clock reading."""
    if value.type == "timestamp":
        return cast(call("from_utc_timestamp", value, zone), "timestamp_ntz")
    return call("to_utc_timestamp", cast(value, "timestamp"), zone)


def _months(moment: Expr) -> Expr:
    """Returns the number of months since the year 0."""
    return call("add", call("mul", call("year", moment), lit(12)), call("sub", call("month", moment), lit(1)))


def _bucket(width: Expr, moment: Expr, origin: Expr | None = None) -> Expr:
    """Returns TIME_BUCKET and DATE_BIN: the beginning of the bucket of a width that contains a moment.

    Buckets are counted from the origin: a moment, or an interval after the default origin, which is Monday, 3 January
    2000, and 1 January 2000 for months, as in DuckDB and TimescaleDB.
    """
    size = width.value if width.op == "literal" else None
    if width.type not in INTERVALS:
        size = durations.microseconds(size)
    if size is None or size <= 0:
        hint = "write a constant length above zero, as in INTERVAL '10' MINUTE"
        raise PlanError(f"TIME_BUCKET does not take the width {width}", hint=hint)
    if origin is not None and origin.type in INTERVALS:
        if "months" in (origin.type, width.type):
            raise PlanError(
                "TIME_BUCKET supports an offset only for buckets and offsets without months",
                hint="use INTERVALs of days",
            )
        return cast(call("add", _bucket(width, call("sub", moment, origin)), origin), moment.type)
    if width.type == "months":
        since = lit(_JANUARY) if origin is None else _months(origin)
        number = _months(moment)
        first = call("sub", number, positive_remainder(call("sub", number, since), lit(size)))
        month = call("add", call("mod", first, lit(12)), lit(1))
        return cast(call("make_date", cast(call("intdiv", first, lit(12)), "int32"), month, lit(1)), moment.type)
    start = cast(moment, "timestamp_ntz") if moment.type == "date" else moment
    zero = lit(_MONDAY, "int64") if origin is None else call("unix_micros", cast(origin, "timestamp"))
    found = call("tumble_start", call("plus_micros", start, call("neg", zero)), lit(size, "int64"))
    return cast(call("plus_micros", found, zero), moment.type)


TABLE = (
    macro("timezone", "string calendar", _zoned, note="PostgreSQL's `at AT TIME ZONE zone`, in its dialects."),
    macro("convert_timezone", "string any", _in_zone,
          note="From one zone, by default UTC, to another one; the result is a TIMESTAMP_NTZ."),
    macro("convert_timezone", "string string any", _in_zone),
    macro("try_make_timestamp", _TIME, lambda *given: call("make_timestamp", *given), also=("try_make_timestamp_ltz",)),
    macro("try_make_timestamp_ntz", _TIME, lambda *given: call("make_timestamp_ntz", *given)),
    macro("timestampadd", "unit int64 moment", _added, also=("dateadd", "date_add"),
          null="a timestamp outside the calendar",
          note="That many units later, as a TIMESTAMP. If the month is too short, the result is its last day."),
    macro("datetime_add", "moment int64 unit", _kept, null="a timestamp outside the calendar",
          note="Like TIMESTAMPADD, but a DATE stays a DATE if the unit is days or more, and becomes a TIMESTAMP_NTZ "
               "otherwise."),
    macro("datetime_trunc", "moment unit", _beginning,
          note="Like DATE_TRUNC, but the result is a TIMESTAMP_NTZ, except for a TIMESTAMP."),
    macro("moment_trunc", "moment unit", lambda moment, unit: cast(_beginning(moment, unit), moment.type),
          note="Like DATETIME_TRUNC, but a DATE stays a DATE. It is the DATE_TRUNC of Snowflake, BigQuery and Trino."),
    macro("time_bucket", "any calendar", _bucket, also=("date_bin",),
          note="The start of the bucket that contains the timestamp. The width is constant. Buckets are counted from "
               "Monday, 3 January 2000 (buckets of months from 1 January), or from the third argument: a timestamp, or "
               "an INTERVAL after that day."),
    macro("time_bucket", "any calendar any", _bucket, also=("date_bin",)),
    macro("date_part", "unit calendar", lambda unit, value: part_of(_word(unit), value), also=("datepart",),
          note="Also `EXTRACT(unit FROM x)`. `SECOND` has the fraction; `EPOCH` is a DOUBLE of seconds since 1970."),
    macro("julian", "calendar", julian,
          note="The Julian day, with the fraction of the day since midnight. Also `EXTRACT(JULIAN FROM x)`."),
    macro("julianday", "calendar", _julian_from_noon,
          note="The JULIANDAY of SQLite: from noon to noon, with whole milliseconds."),
    meaning("periods_overlap", "calendar calendar calendar calendar", _overlap,
            "`(a, b) OVERLAPS (c, d)`: a period has its lesser end, and the time before the greater one."),
    macro("to_date", "any =string", lambda value, pattern: cast(_moment(value, pattern), "date"), null=_OTHER,
          also=("try_to_date",)),
    macro("to_timestamp", "any =string", _moment, also=("try_to_timestamp",), null=_OTHER),
    macro("unix_timestamp", "any [=string]", _seconds, also=("to_unix_timestamp",),
          note="Seconds since 1970; a text has the form `yyyy-MM-dd HH:mm:ss`."),
    macro("to_char", "moment =string", lambda value, pattern: call("date_format", value, pattern), also=("to_varchar",),
          note="Like DATE_FORMAT. In the dialects of PostgreSQL, Redshift, Oracle and Snowflake, the pattern is that "
               "of the dialect, also in TO_DATE and TO_TIMESTAMP."),
    macro("to_timestamp_ntz", "any", lambda value: cast(value, "timestamp_ntz"), note="Like CAST."),
    macro("to_timestamp_ltz", "any", lambda value: cast(value, "timestamp"), note="Like CAST."),
    macro("make_dt_interval", "int32 [int32] [int32] [decimal(18,6)]", _duration, null=_LARGE,
          note="Days, hours, minutes, seconds."),
    macro("make_ym_interval", "int32 [int32]", _of_months, null=_LARGE, note="Years and months."),
)  # fmt: skip
