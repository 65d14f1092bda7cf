"""Calls and casts that mean something else in each dialect: DuckDB's by DuckDB itself, others by their manuals."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import Any

import pytest

import crown
from plans import PlanError, plan
from tests.marks import every

SCHEMA = {
    "t": {
        "n": "int64", "a": "int64", "x": "float64", "d": "decimal(6,2)", "s": "string", "day": "date",
        "at": "timestamp_ntz",
    }
}  # fmt: skip
ROW = (None, 3_000_000_000, -2.5, Decimal("2.50"), "a-b c'd", dt.date(2024, 3, 3), dt.datetime(2024, 3, 3, 10, 30))
"""3 March 2024 is a Sunday, in ISO's week 9."""
POSTGRES: dict[str, Any] = {
    "x::int": -2, "d::int": 3, "1.5::bigint": 2, "'7'::int": 7, "x::numeric": Decimal("-2.5"),
    "ROUND(x::numeric / 3, 2)": Decimal("-0.83"), "a::numeric": Decimal(3_000_000_000), "s::varchar(3)": "a-b",
    "s::char(2)": "a-", "x::numeric(4, 1)": Decimal("-2.5"), "ROUND(x)": -2.0, "ROUND(d)": Decimal(3),
    "CEIL(1e300)": 1e300, "TRUNC(x)": -2.0, "TRUNC(d, 1)": Decimal("2.50"), "LOG(100)": 2.0, "LN(1)": 0.0,
    "TO_HEX(255)": "ff", "SUBSTRING(s, 0, 3)": "a-", "SUBSTR(s, -1, 3)": "a", "SUBSTRING(s FROM 3 FOR 1)": "b",
    "CONCAT(s, n, a)": "a-b c'd3000000000", "GREATEST(a, n)": 3_000_000_000, "INITCAP(s)": "A-B C'D",
    "MAKE_TIMESTAMP(2024, 1, 2, 3, 4, 5)": dt.datetime(2024, 1, 2, 3, 4, 5),
    "TO_NUMBER('1,234.5', '9G999D9')": Decimal("1234.5"), "TO_NUMBER(s, '99')": None,
    "EXTRACT(YEAR FROM AGE(day, DATE '2000-03-04'))": 23, "DATE_PART('month', AGE(day, DATE '2000-02-01'))": 1,
    "EXTRACT(SECOND FROM TIMESTAMP '2024-01-02 03:04:05.5')": Decimal("5.5"),
    "EXTRACT(CENTURY FROM day)": 21, "EXTRACT(WEEK FROM day)": 9, "GCD(12, a)": 12, "LCM(4, 6)": 12,
    "ARRAY_POSITION(ARRAY[1, 2], 2)": 2, "ARRAY_POSITION(ARRAY[1], 2)": None,
    "FORMAT('%s-%s%%', a, n)": "3000000000-%", "SUBSTRING(s FROM '-(.)')": "b", "SUBSTRING(s FROM 'b.c')": "b c",
    "SUBSTRING(s, 'z')": None,
    "STRING_TO_ARRAY(s, '-')": ["a", "b c'd"], "STRING_TO_ARRAY('', '-')": [], "STRING_TO_ARRAY(s, '')": ["a-b c'd"],
    "SUM(a) OVER (ORDER BY at RANGE BETWEEN '7 days' PRECEDING AND '1 hour' FOLLOWING)": 3_000_000_000,
    "STRING_TO_ARRAY('ab', NULL)": ["a", "b"], "s LIKE LEFT(s, 1) || '%'": True, "s LIKE REVERSE(s)": False,
    "day + INTERVAL '1 day'": dt.datetime(2024, 3, 4), "day + 1": dt.date(2024, 3, 4), "JSONB_TYPEOF('[1]')": "array",
    "JSONB_ARRAY_LENGTH('[1, 2]')": 2, "EXTRACT(MILLISECOND FROM TIMESTAMP '2024-01-02 03:04:05.5')": Decimal("5500"),
    "at + MAKE_INTERVAL(days => 1, hours => 2)": dt.datetime(2024, 3, 4, 12, 30), "-SUM(a)": Decimal(-3_000_000_000),
    "day - MAKE_INTERVAL(1, 2)": dt.datetime(2023, 1, 3), "ABS(1 - SUM(a))": Decimal(2_999_999_999),
    "at - INTERVAL '1 day' + 2 * INTERVAL '1 hour'": dt.datetime(2024, 3, 2, 12, 30),
    "at + (INTERVAL '1 month' + 3 * INTERVAL '1 day')": dt.datetime(2024, 4, 6, 10, 30),
    "'session'": "session", "'Window'": "Window", "'match_condition'": "match_condition",
}  # fmt: skip
OTHERS: dict[str, dict[str, Any]] = {
    "snowflake": {
        "SPLIT_PART(s, '-', 0)": "a", "SPLIT_PART(s, '-', 1)": "a", "SPLIT_PART(s, '-', 9)": "",
        "DATE_TRUNC('month', day)": dt.date(2024, 3, 1), "DATE_TRUNC('month', day)::TEXT": "2024-03-01",
        "DATE_TRUNC('month', at)": dt.datetime(2024, 3, 1), "DATE_TRUNC('week', day)": dt.date(2024, 2, 26),
        """PARSE_JSON('[{"k": ["v", 7]}]')[0]:k[1]::INT""": 7, """PARSE_JSON('{"k": ["v"]}')['k'][0]""": "v",
        """'[{"k": 7}]'[0]:k""": "7", "SPLIT(s, '-')[1]": "b c'd",
        "YEAROFWEEKISO(DATE '2024-12-30')": 2025, "YEAROFWEEK(day)": 2024, "INSERT(s, 2, 1, '++')": "a++b c'd",
        "x::int": -3, "a::int": 3_000_000_000, "a::number": Decimal(3_000_000_000), "d::number": Decimal(3),
        "GREATEST(a, n)": None, "LEAST(a, 1)": 1, "CEIL(x)": -2.0, "TRUNC(x, 0)": -2.0,
        "TRUNC(at)": dt.date(2024, 3, 3), "TIMESTAMP_FROM_PARTS(2024, 1, 2, 3, 4, 5)": dt.datetime(2024, 1, 2, 3, 4, 5),
        "TO_TIMESTAMP('2024-01-02')": dt.datetime(2024, 1, 2), "INITCAP('o''neil a-b')": "O'neil A-B",
        "INITCAP('ab-cd ef', '-')": "Ab-Cd ef", "SPLIT(s, '')": list("a-b c'd"), "SUBSTR(s, 0, 2)": "a-",
        "ADD_MONTHS(DATE '2024-02-29', 1)": dt.date(2024, 3, 31), "ADD_MONTHS(at, 1)": dt.datetime(2024, 4, 3, 10, 30),
        "TIME_SLICE(at, 7, 'DAY')": dt.datetime(2024, 2, 29), "TIME_SLICE(at, 20, 'MINUTE')":
        dt.datetime(2024, 3, 3, 10, 20), "ARRAY_POSITION('c', ['b', 'c'])": 1, "ARRAY_POSITION('d', ['b', 'c'])": None,
        "ARRAY_SLICE([1, 2, 3], 0, 2)": [1, 2], "ARRAY_SLICE([1, 2, 3], -2, -1)": [2],
        "STRTOK(s, ' -', 2)": "b", "STRTOK(s)": "a-b", "STRTOK(s, '-', 9)": None, "STRTOK('a]b^c', ']^', 3)": "c",
        "BASE64_ENCODE('ab')": "YWI=", "DATE_PART('second', at + INTERVAL '1.5 seconds')": 1,
    },
    "bigquery": {
        "DATE_TRUNC(day, DAY)": dt.date(2024, 3, 3), "DATE_TRUNC(day, QUARTER)": dt.date(2024, 1, 1),
        "DATE_TRUNC(at, DAY)": dt.datetime(2024, 3, 3), "DATE_TRUNC(at, HOUR)": dt.datetime(2024, 3, 3, 10),
        "DATE_TRUNC(at, WEEK)": dt.datetime(2024, 3, 3), "DATE_TRUNC(at, ISOWEEK)": dt.datetime(2024, 2, 26),
        "CAST(x AS INT64)": -3, "CAST(x AS NUMERIC)": Decimal("-2.5"), "CAST(a AS INT)": 3_000_000_000,
        "SAFE_CAST('x' AS INT64)": None, "EXTRACT(WEEK FROM day)": 9, "EXTRACT(ISOWEEK FROM day)": 9,
        "EXTRACT(WEEK(MONDAY) FROM day)": 9, "EXTRACT(WEEK FROM DATE '2024-01-06')": 0,
        "EXTRACT(WEEK FROM DATE '2024-01-07')": 1, "DATE_TRUNC(day, WEEK)": dt.date(2024, 3, 3),
        "DATE_TRUNC(day, ISOWEEK)": dt.date(2024, 2, 26), "DATE_TRUNC(day, WEEK(SATURDAY))": dt.date(2024, 3, 2),
        "DATETIME_TRUNC(at, WEEK)": dt.datetime(2024, 3, 3), "DATE_DIFF(day, DATE '2024-03-02', WEEK)": 1,
        "DATE_DIFF(day, DATE '2024-03-02', ISOWEEK)": 0,
        "FORMAT('%d-%s', a, s)": "3000000000-a-b c'd", "FORMAT('%s', n)": None,
        "ARRAY_SLICE([1, 2, 3], 0, 1)": [1, 2], "ARRAY_SLICE([1, 2, 3], -2, -1)": [2, 3],
        "SHA256('a')": bytes.fromhex("ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"),
        "TO_HEX(SHA256('a'))": "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
        "DATETIME(day)": dt.datetime(2024, 3, 3), "BYTE_LENGTH('é')": 2, "LOG(1)": 0.0, "LEAST(a, n)": None,
        "FORMAT_DATETIME('%e|%R|%Q', at)": " 3|10:30|1", "DATE_DIFF(DATE '2024-04-01', day, MONTH)": 1,
        "DATETIME_DIFF(DATETIME '2024-03-03 11:00:00', at, HOUR)": 1, "JSON_TYPE(JSON '1.5')": "number",
        "EXTRACT(MILLISECOND FROM DATETIME '2024-01-02 03:04:05.678')": 678,
        "EXTRACT(MICROSECOND FROM DATETIME '2024-01-02 03:04:05.678')": 678_000,
        "day + INTERVAL 1 DAY": dt.datetime(2024, 3, 4),
        "FARM_FINGERPRINT('2applefalse')": 2794438866806483259, "SPLIT('', '')": [""], "TRUNC(d, 1)": Decimal("2.50"),
        "TRUNC(x, NULL)": None,
    },
    "mysql": {
        "FIELD(s, 'x', s)": 2, "FIELD(s, 'x')": 0, "INSERT(s, 2, 1, '++')": "a++b c'd",
        "CAST(x AS SIGNED)": -3, "LENGTH('é')": 2, "CHAR_LENGTH('é')": 1, "WEEK(day)": 9, "WEEK(DATE '2024-01-06')": 0,
        "WEEKOFYEAR(day)": 9, "CAST(s AS CHAR(3))": "a-b", "TRUNCATE(d, 1)": Decimal("2.50"), "GREATEST(a, n)": None,
        "WEEK(day, 3)": 9, "YEARWEEK(day, 3)": 202_409,
        "DATE_FORMAT(at, '%x-%v %w %W %M %i')": "2024-09 0 Sunday March 30",
        "JSON_UNQUOTE(JSON_EXTRACT('{\"a\": \"b\"}', '$.a'))": "b", "JSON_UNQUOTE('\"c\"')": "c",
        "JSON_UNQUOTE('d')": "d",
        "JSON_CONTAINS('[1, 2]', '2')": 1, "JSON_CONTAINS('{\"a\": 1}', '2', '$.a')": 0, "JSON_LENGTH('[1, 2]')": 2,
        "JSON_LENGTH('{\"a\": 1, \"b\": []}')": 2, "JSON_LENGTH('7')": 1, "JSON_LENGTH('{\"a\": [1]}', '$.a')": 1,
        "JSON_LENGTH('{}', '$.a')": None,
    },
    "clickhouse": {
        "addDays(at, 7)": dt.datetime(2024, 3, 10, 10, 30), "subtractMonths(day, 1)": dt.date(2024, 2, 3),
        "addHours(at, 2)": dt.datetime(2024, 3, 3, 12, 30), "arraySum([1, 2])": 3, "arraySum(x -> x * 2, [1, 2])": 6,
        "arrayAvg([1, 2])": 1.5, "arrayMax(x -> x + 1, [1, 2])": 3, "arrayCount(x -> x > 1, [1, 2])": 1,
        "arrayExists(x -> x = 3, [1, 2])": False, "arrayAll(x -> x > 0, [1, 2])": True, "indexOf([1, 2], 3)": 0,
        "arraySort([2, 1])": [1, 2], "arrayStringConcat(['a', 'b'])": "ab", "arrayStringConcat(['a', 'b'], '-')": "a-b",
        "JSONExtractInt('{\"n\": [5]}', 'n', 1)": 5, "JSONExtractInt('{}', 'n')": 0, "JSONExtractString('{}', 'n')": "",
        "empty([1])": False, "notEmpty(s)": True, "toYear(at)": 2024, "toMonth(at)": 3, "toHour(at)": 10,
        "lowerUTF8('É')": "é",
        "replaceAll(s, 'a', 'z')": "z-b c'd", "arrayElement([7, 8], 2)": 8, "toDayOfWeek(day)": 7,
        "date_trunc('hour', at)": dt.datetime(2024, 3, 3, 10), "date_trunc('month', at)": dt.date(2024, 3, 1),
        "dateDiff('day', at, toDate('2024-03-04'))": 1, "dateDiff('month', day, toDate('2024-04-01'))": 1,
        "toDateTime(a)": dt.datetime(2065, 1, 24, 5, 20), "toDateTime(day)": dt.datetime(2024, 3, 3),
        "fromUnixTimestamp(intDiv(toUnixTimestamp(at), 3600) * 3600)": dt.datetime(2024, 3, 3, 10),
        "formatDateTime(at, '%F %R %M %e %W')": "2024-03-03 10:30 March  3 Sunday",
    },
    "redshift": {
        "DATEDIFF(day, at, '2024-03-04')": 1, "DATEDIFF(hour, at, TIMESTAMP '2024-03-03 11:00:00')": 1,
        "DATE_DIFF('year', at, '2025-01-01')": 1, "LOG(100)": 2.0, "CAST(d AS NUMERIC)": Decimal(3),
        "TRUNC(at)": dt.date(2024, 3, 3), "IS_VALID_JSON('[1')": False,
    },
    "trino": {"DATE_TRUNC('month', day)": dt.date(2024, 3, 1),
        "TRY(a / 0)": None, "TRY(a + 1)": 3_000_000_001, "FORMAT_DATETIME(at, 'yyyy-MM HH')": "2024-03 10",
        "ELEMENT_AT(ARRAY[1, 2], -1)": 2, "SPLIT_PART(s, '-', 2)": "b c'd", "SPLIT_PART(s, '-', 5)": None,
        "CAST(x AS INTEGER)": -3, "CAST(s AS VARCHAR(3))": "a-b", "CAST(d AS DECIMAL)": Decimal(3),
        "EXTRACT(SECOND FROM TIMESTAMP '2024-01-02 03:04:05.5')": 5},
    "tsql": {
        "STUFF(s, 2, 1, '++')": "a++b c'd", "DATENAME(month, day)": "March", "CAST(at AS DATETIME2)": ROW[-1],
        "DATEADD(month, DATEDIFF(month, 0, at), 0)": dt.datetime(2024, 3, 1),
        "DATEADD(day, 0, DATEDIFF(day, 0, at))": dt.datetime(2024, 3, 3), "DATEADD(day, 1, 0)": dt.datetime(1900, 1, 2),
        "DATEADD(year, 1, CAST(at AS SMALLDATETIME))": dt.datetime(2025, 3, 3, 10, 30),
        "CONVERT(VARCHAR(10), at, 120)": "2024-03-03", "CONVERT(CHAR(4), at, 112)": "2024",
        "CAST(x AS INT)": -2, "s + '!'": "a-b c'd!", "1 + 2": 3, "SUBSTRING(s, 0, 2)": "a", "CONCAT(n, 7)": "7",
        "DATEDIFF(day, at, '2024-03-04')": 1, "DATEDIFF(hour, at, '2024-03-03 11:00:00')": 1,
        "DATEPART(WEEK, day)": 10, "DATEDIFF(WEEK, '2024-03-02', day)": 1, "DATEPART(WEEK, '2023-01-07')": 1,
    },
    "oracle": {
        "TO_NUMBER('12.5')": Decimal("12.5"), "TRUNC(at)": dt.date(2024, 3, 3), "TRUNC(2.5)": Decimal(2),
        "CAST(s AS VARCHAR2(3))": "a-b", "GREATEST(a, n)": None,
    },
    "flink": {
        "7 / 2": 3, "-a / 7": -428_571_428, "x / 2": -1.25, "d / 2": Decimal("1.25"), "AVG(a + 1) / 2": 1_500_000_000,
        "FLOOR(at TO HOUR)": dt.datetime(2024, 3, 3, 10), "FLOOR(day TO MONTH)": dt.date(2024, 3, 1),
        "CEIL(at TO DAY)": dt.datetime(2024, 3, 4), "CEIL(day TO DAY)": dt.date(2024, 3, 3), "CEIL(x)": -2.0,
        "FLOOR(x)": -3.0, "TRUNCATE(d, 1)": Decimal("2.50"), "GREATEST(a, n)": None, "LEAST(a, 1)": 1,
        "TRUNCATE(x)": -2.0, "STR_TO_MAP('b=1,a=2')": [("a", "2"), ("b", "1")],
        "TO_TIMESTAMP('2024-01-02 03:04:05')": dt.datetime(2024, 1, 2, 3, 4, 5),
        "CAST(day AS TIMESTAMP(3))": dt.datetime(2024, 3, 3), "TIMESTAMP '2024-01-02 03:04:05'":
        dt.datetime(2024, 1, 2, 3, 4, 5), "TO_TIMESTAMP_LTZ(1500, 3)":
        dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=dt.UTC), "TO_TIMESTAMP_LTZ(a, 0)":
        dt.datetime(2065, 1, 24, 5, 20, tzinfo=dt.UTC), "REGEXP_EXTRACT(s, 'b(.)c')": "b c",
        "REGEXP_EXTRACT(s, 'b(.)c', 1)": " ", "REGEXP_EXTRACT(s, 'z')": None,
    },
    "databricks": {"CAST(x AS INT)": -2, "LOG(1)": 0.0, "CEIL(x)": -2, "SUBSTRING(s, 0, 2)": "a-"},
}  # fmt: skip
CALLS = [("postgres", call, value) for call, value in POSTGRES.items()]
CALLS += [(dialect, call, value) for dialect, calls in OTHERS.items() for call, value in calls.items()]


@every(CALLS)
def test_a_call_means_what_its_dialect_says(dialect: str, call: str, value: Any) -> None:
    view = crown.view(f"SELECT {call} AS v FROM t", SCHEMA, dialect=dialect)
    view.update({"t": [ROW]})
    (found,) = [row["v"] for row in view]
    assert found == value
    assert isinstance(found, float) == isinstance(value, float)


AGGREGATES: dict[tuple[str, str], Any] = {
    ("duckdb", "list(n ORDER BY n NULLS FIRST)"): [None, 1, 2],
    ("postgres", "array_agg(n ORDER BY n)"): [1, 2, None],
    ("bigquery", "ARRAY_AGG(n IGNORE NULLS ORDER BY n)"): [1, 2],
    ("snowflake", "ARRAY_AGG(n)"): [1, 2],
    ("postgres", "array_agg(n) FILTER (WHERE n > 7)"): None,
    ("spark", "ARRAY_AGG(n) FILTER (WHERE n > 7)"): [],
    ("duckdb", "string_agg(n)"): "1,2",
    ("bigquery", "STRING_AGG(CAST(n AS STRING))"): "1,2",
    ("snowflake", "LISTAGG(n)"): "12",
    ("duckdb", "histogram(n)"): {1: 1, 2: 1},
    ("duckdb", "mad(n)"): 0.5,
    ("duckdb", "product(n)"): 2.0,
    ("bigquery", "APPROX_QUANTILES(n, 2)"): [1, 1, 2],
    ("mysql", "STDDEV(n)"): 0.5,
    ("mysql", "SUM(n = 1)"): 1,
    ("duckdb", "sum(n > 0)"): 2,
    ("redshift", "LISTAGG(n, '>') WITHIN GROUP (ORDER BY n DESC)"): "2>1",
    ("redshift", "LISTAGG(DISTINCT n, '>') WITHIN GROUP (ORDER BY n DESC)"): "2>1",
    ("mysql", "JSON_ARRAYAGG(n)"): "[1,2,null]",
    ("oracle", "JSON_ARRAYAGG(n ORDER BY n DESC)"): "[2,1]",
    ("oracle", "JSON_ARRAYAGG(n ORDER BY n DESC NULL ON NULL)"): "[null,2,1]",
    ("mysql", "JSON_OBJECTAGG(n, n)"): '{"1":1,"2":2}',
}


@every(AGGREGATES)
def test_an_aggregate_means_what_its_dialect_says(dialect: str, call: str) -> None:
    view = crown.view(f"SELECT {call} AS v FROM t", {"t": {"n": "int64"}}, dialect=dialect)
    view.update({"t": [(1,), (2,), (None,), (9,)]})
    view.update({"t": [{"n": 9, "_weight": -1}]})
    (found,) = [row["v"] for row in view]
    assert (dict(found) if isinstance(AGGREGATES[dialect, call], dict) else found) == AGGREGATES[dialect, call]


def test_events_are_counted_from_the_first_row_on() -> None:
    query = "SELECT i, CONDITIONAL_TRUE_EVENT(v > 1) OVER (PARTITION BY k ORDER BY i) AS c FROM t"
    view = crown.view(query, {"t": {"k": "int64", "i": "int64", "v": "int64"}}, dialect="snowflake")
    view.update({"t": [(1, i, v) for i, v in enumerate((5, 0, None, 7))]})
    assert sorted((row["i"], row["c"]) for row in view) == [(0, 1), (1, 1), (2, 1), (3, 2)]


EVENTS = {
    "CONDITIONAL_CHANGE_EVENT(v) OVER (PARTITION BY k ORDER BY i)": [0, 1, 1, 1, 2],
    "CONDITIONAL_TRUE_EVENT(v > LAG(v) OVER (PARTITION BY k ORDER BY i)) OVER (PARTITION BY k ORDER BY i)": [
        0,
        0,
        0,
        0,
        1,
    ],
    "1 + CONDITIONAL_CHANGE_EVENT(v) OVER (ORDER BY i)": [1, 2, 2, 2, 3],
}


@every(EVENTS)
def test_events_ask_for_the_row_before(event: str) -> None:
    for shown in ("i", "*", "i AS i, v + 0"):
        query = f"WITH q AS (SELECT * FROM t) SELECT {shown}, {event} AS c FROM q WHERE i < 9"
        view = crown.view(query, {"t": {"k": "int64", "i": "int64", "v": "int64"}}, dialect="snowflake")
        view.update({"t": [(1, i, v) for i, v in enumerate((5, 0, 0, None, 7))] + [(1, 9, 9)]})
        view.update({"t": [{"k": 1, "i": 4, "v": 7, "_weight": -1}, {"k": 1, "i": 4, "v": 7, "_weight": 1}]})
        found = [row["c"] for row in sorted(view, key=lambda row: row["i"])]
        assert found[:4] == EVENTS[event][:4]


FINGERPRINTS = {
    "abcdefghi": 0x332C8ED4DAE5BA42,
    "Nepal premier won't resign.": 0x8EB3808D1CCFC779,
    "Discard medicine more than two years old.": 0xE8F89AB6DF9BDD25,
    "For every action there is an equal and opposite government program.": 0x55182F8859ECA4CE,
    "The fugacity of a constituent in a mixture of gases at a given temperature is proportional to its mole fraction.  "
    "Lewis-Randall Rule": 0x098EFF6958C5E91A,
}
"""What other implementations of FarmHash test, of each length that has a way of its own."""


@every(FINGERPRINTS)
def test_a_fingerprint_is_that_of_other_implementations(text: str) -> None:
    assert _fingerprint(text) % 2**64 == FINGERPRINTS[text]


def _fingerprint(text: str) -> int:
    view = crown.view("SELECT FARM_FINGERPRINT(s) AS v FROM t", {"t": {"s": "string"}}, dialect="bigquery")
    view.update({"t": [(text,)]})
    (found,) = [row["v"] for row in view]
    return int(found)


_ANY = (
    "CONCAT",
    "FIELD",
    "FORMAT",
    "GREATEST",
    "LEAST",
    "ARRAY",
    "STRUCT",
    "JSON_OBJECT",
    "COALESCE",
    "JSONExtractInt",
    "JSONExtractString",
)
"""Functions that take any number of arguments."""


@every([(dialect, call) for dialect, call, _ in CALLS if re.fullmatch(r"\w+\([^()]*\)", call)])
def test_no_argument_is_dropped(dialect: str, call: str) -> None:
    name, _, given = call.removesuffix(")").partition("(")
    for more in ("7, 7, 7, 7", "s, s, s, s", "day, day, day, day"):
        if name in _ANY or (dialect == "clickhouse" and "->" in given):
            continue
        with pytest.raises(PlanError):
            plan(f"SELECT DISTINCT {name}({given}, {more}) AS v FROM t", SCHEMA, dialect=dialect)


@every(
    [
        ("duckdb", "DATEDIFF('day', day, day, 4)", "DATEDIFF"),
        ("tsql", "DATEDIFF(day, day, day, 4)", "DATEDIFF"),
        ("duckdb", "date_trunc('day', day, day)", "DATE_TRUNC"),
        ("bigquery", "DATE_TRUNC(day, MONTH, day)", "DATE_TRUNC"),
        ("duckdb", "quantile(x, 0.5, 1)", "QUANTILE"),
        ("snowflake", "PARSE_JSON(s, 'd')", "PARSE_JSON"),
        ("duckdb", "json(s, 1)", "JSON"),
        ("duckdb", "SHA256(s, 1)", "SHA256"),
        ("snowflake", "TRUNC(d, 1, 3)", "TRUNC"),
        ("duckdb", "strftime(at, '%Y', 1)", "STRFTIME"),
        ("snowflake", "DIV0(a, a, a)", "DIV0"),
        ("duckdb", "lpad(s, 2, 'x', 'y')", "LPAD"),
        ("bigquery", "DATE_ADD(day, INTERVAL 1 DAY, 4)", "DATE_ADD"),
        ("duckdb", "hex(s, 1)", "HEX"),
    ]
)
def test_an_argument_that_nothing_reads_is_refused(dialect: str, call: str, name: str) -> None:
    with pytest.raises(PlanError, match=f"{name} has too many arguments") as caught:
        plan(f"SELECT DISTINCT {call} AS v FROM t", SCHEMA, dialect=dialect)
    assert caught.value.position is not None


@pytest.mark.parametrize(
    ("dialect", "call", "message"),
    [
        ("snowflake", "HASH(s)", "HASH of snowflake is not supported"),
        ("postgres", "'{}' -> s", "JSON_QUERY needs a constant instead of t.s"),
        ("postgres", "at + MAKE_INTERVAL(days => 1, moons => 2)", "MAKE_INTERVAL does not know moons"),
        ("trino", "GET_JSON_OBJECT(STRUCT(a AS k), '$.k')", "GET_JSON_OBJECT needs a string, not struct<k:int64>"),
        ("postgres", "AGE(at)", "AGE returns months and days, but an INTERVAL has either months or days"),
        ("mysql", "WEEK(day, 1)", "WEEK with this mode is not supported"),
        ("mysql", "YEARWEEK(day)", "YEARWEEK with this mode is not supported"),
        ("clickhouse", "JSONExtractInt(s, s)", "the path of JSON is not a constant"),
        ("duckdb", "typeof(s)", "TYPEOF of duckdb is not supported"),
        ("postgres", "TO_NUMBER(s, 'abc')", "'abc' is not a supported pattern of numbers"),
        ("postgres", "TO_NUMBER(s, '')", "'' is not a supported pattern of numbers"),
        ("duckdb", "list_contains(s, 1)", "LIST_CONTAINS needs a value of type array<...>, not string"),
        ("postgres", "array_to_string(ARRAY[a], s, a, a)", "ARRAY_TO_STRING takes 2 to 3 arguments, not 4"),
        ("duckdb", "split_part(s, '-')", "SPLIT_PART takes 3 arguments, not 2"),
        ("duckdb", "round(x, 1, 1)", "ROUND takes 1 to 2 arguments, not 3"),
        ("duckdb", "round(x, a)", "ROUND needs a constant instead of t.a"),
        ("duckdb", "trunc(x, a)", "TRUNC needs a constant instead of t.a"),
        ("bigquery", "TRUNC(x, 1.5)", "TRUNC needs a whole number, not decimal(2,1)"),
        ("postgres", "trunc(x, 1, 2)", "TRUNC takes 2 arguments, not 3"),
        ("snowflake", "CEIL(x TO DAY)", "CEIL with TO is not supported"),
        ("snowflake", "INITCAP()", "INITCAP needs another argument"),
        ("duckdb", "format('{:05d}', a)", "FORMAT of this form is not supported"),
        ("postgres", "format('%L', s)", "FORMAT of this form is not supported"),
        ("snowflake", "STRTOK(s, s)", "STRTOK takes constant separators"),
        ("duckdb", "COUNT(a, n)", "COUNT of duckdb counts one column"),
        ("postgres", "COUNT(DISTINCT a, n)", "COUNT of postgres counts one column"),
        ("duckdb", "printf('%d', s)", "PRINTF: %d does not take a value of type string"),
        ("duckdb", "ifnull(a, n, a)", "IFNULL takes 2 arguments, not 3"),
        ("mysql", "JSON_UNQUOTE(s, s)", "JSON_UNQUOTE takes 1 argument, not 2"),
        ("mysql", "JSON_CONTAINS(s)", "JSON_CONTAINS takes 2 to 3 arguments, not 1"),
    ],
)
def test_what_cannot_have_the_meaning_is_refused(dialect: str, call: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        plan(f"SELECT DISTINCT {call} AS v FROM t", SCHEMA, dialect=dialect)
    assert caught.value.message == message
    assert caught.value.position is not None
