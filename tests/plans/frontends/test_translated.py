"""Other dialects: their functions mean what their own database says, or are refused by their own name."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import crown
from plans import PlanError, plan
from plans.frontends.sql.text.reader import DIALECTS
from tests.marks import every
from tests.oracles import duck

SCHEMA = {
    "t": {"n": "int64", "a": "int64", "i": "int32", "x": "float64", "s": "string", "d": "date", "ts": "timestamp_ntz"}
}
ROWS = [
    (None, 7, 2, 1.5, "a-b", dt.date(2020, 2, 29), dt.datetime(2020, 2, 29, 12, 34, 56)),
    (None, -7, 3, -2.5, "2021-03-04", dt.date(1999, 12, 31), dt.datetime(1969, 12, 31, 23, 59, 59)),
    (None, 0, 1, 0.0, "", dt.date(2021, 1, 4), dt.datetime(2024, 1, 31)),
]
DUCKDB = (
    "strftime(d, '%Y-%m')", "datediff('day', d, DATE '2020-03-01')",
    "a // i", "a / i", "a % i", "regexp_matches(s, 'a')", "len(s)",
         "split_part(s, '-', 1)",
    "d + INTERVAL 1 DAY", "ts + INTERVAL 2 HOUR", "ts - INTERVAL 1 MONTH", "md5(s)", "instr(s, 'b')", "a::VARCHAR",
    "TRY_CAST(s AS INT)", "if(a > 0, 1, 2)", "last_day(d)", "year(d)", "levenshtein(s, 'b')", "starts_with(s, 'a')",
    "list_transform([a, 7, i], lambda v, k: v * 10 + k)", "list_transform([a, 7], lambda v, k: {'k': k}['k'])",
    "list_transform([a, 7], lambda v, k: k + list_sum(list_transform([v, 7], lambda k: k)))",
    "list_filter([a, 7, 9], lambda v, k: k > 1)",
    "[v + k for v, k in [a, 7]]", "[v * 2 for v in [a, 7] if v > 1]", "regexp_replace(s, '[0-9a]', '#', 'g')",
    "date_part('year', d)", "s ILIKE 'A%'", "greatest(a, i)", "d::TIMESTAMP", "upper(s)", "substr(s, 2, 2)",
    "coalesce(nullif(a, 0), 5)",   "concat(s, '!')", "s || a", "~i",
    "lpad(s, 4, '*')", "trim('  a ')", "i & 3", "i << 2", "position('b' in s)", "replace(s, '-', '+')",
         "a IS DISTINCT FROM 7",
    "extract('hour' from ts)", "sign(a)", "sqrt(i)", "ln(i)", "floor(x)", "abs(a)", "pow(i, 2)",
    *(f"date_diff('{unit}', ts, TIMESTAMP '2019-03-09 06:38:25')"
      for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")),
    "date_diff('month', d, DATE '2020-03-01')", "date_diff('week', d, DATE '2020-03-02')",
    "range(i)", "range(1, 9, 7)", "range(1, 10, i)", "range(5, a, -2)", "range(a, 5)", "range(1, 5, 0)",
    "range(1, 5, n)",
    "generate_series(5, i)", "generate_series(i, 5)", "generate_series(1, a, 2)", "generate_series(9, a, -4)",
    "generate_series(1, 5, 0)", "generate_series(d, DATE '2020-03-02', INTERVAL 10 YEAR)",
    "generate_series(TIMESTAMP '2020-01-01', TIMESTAMP '2019-12-30', INTERVAL '-1 day')",
    *(f"{call}([{one}], [{two}])" for call in ("list_has_any", "list_has_all", "array_has_all", "list_intersect")
      for one, two in (("1, n", "n, 2"), ("a, n", "7"), ("1", "1, n"), ("a", "i, 2"))),
    "[a, n] && [n, 0]", "[a, n] @> [n, 0]",
    "list_intersect([a], nullif([i], [2]))", "list_has_any([a], nullif([i], [2]))",
    *(f"{call}([a, i, n], {wanted})" for call in ("list_contains", "array_contains", "list_position", "array_position")
      for wanted in ("2", "i", "99")),
    *(f"{call}([a, n], n)" for call in ("list_position", "array_position", "list_indexof")), "list_position([a], n)",
    "array_to_string([n, n], ',')", "array_to_string([n]::VARCHAR[], '')", "array_to_string([a, n, i], '-')",
    "array_to_string([1][2:], ',')", "array_to_string(nullif([i], [2]), ',')",
    *(f"epoch_ms(ts - INTERVAL {micros} MICROSECOND)" for micros in (499, 500, 501, 1500, 1499)), "epoch_ms(d)",
    *(f"substring(s, {start}, {length})" for start in ("3", "-1", "i", "0", "-9") for length in ("-2", "-i", "a", "n")),
    "CAST(NULL::VARCHAR AS BIGINT)", "TRY_CAST(NULL::VARCHAR AS INT) IS NULL", "NULL::VARCHAR::DATE",
    "not list_contains([n], 1)", "list_contains([a], n)", "list_contains(list_intersect([a], [i]), n)",
    "list_sort(list_distinct([a, i, n, n]))", "list_sort(array_distinct([n, a]))", "list_unique([a, n])",
    "[[a], [i, 7]][2][2]", "['ab', s][1][2:2]", "list_concat([a], nullif([i], [2]), [n])", "epoch(ts)",
    "extract('epoch' from d)",
    "date_part('epoch', ts)", "epoch_ms(ts)", "epoch_us(ts)",
    "isinf(x / i)", "isnan(n::DOUBLE)", "isfinite(x)", "ord(s)", "printf('%d|%s', a, s)", "printf('%d', n)",
    "printf('%x|%o', -i, a)", "bit_count(-i)", "bit_count(a)", "url_encode(s || ' +~*é')", "url_decode('a%20b+c')",
    *(f"json_array_length('{text}')" for text in ("[1, 2]", "{}", "1", "[]")), "json_array_length(nullif(s, s))",
    *(f"json_array_length('{{\"a\": [1, {{}}]}}', '{path}')" for path in ("$.a", "a", "$.b", "$.a[1]")),
    "format('{}-{}', a, s)", "format('{{{}}} {}%', x, d)", "format('{} {}', a, n)", "format('{}', x)",
    *(f"json_keys('{{\"a\": {{\"b\": 1}}}}', '{path}')" for path in ("$.a", "a", "$.b")),
    *(f"{call}([a], nullif([i], [2]))" for call in ("list_concat", "list_cat", "array_concat")),
    "flatten([[a], nullif([i], [2])])", "list_concat([i], NULL)", "list_distinct(list_concat([a], [a]))",
    *(f"[1, 2, 3, a][{begin}:{end}]" for begin in ("1", "i", "-2", "0") for end in ("", "i", "-1", "9", "0")),
    "generate_series(1, i)[2:3]", "list_slice([a], 1, n)",
    "to_seconds(x)", "to_seconds(1.25)", "to_milliseconds(x)", "to_microseconds(a)",
    *(f"date_trunc('{unit}', ts)" for unit in ("year", "week", "hour", "minute")), "date_trunc('month', d)",
    *(f"{call}({moment})" for call in ("dayofweek", "isodow", "weekday") for moment in ("d", "ts")),
    *(f"date_part('{part}', d)" for part in ("dow", "dayofweek", "isodow")), "extract(dow from ts)",
    *(f"strftime(ts, '{pattern}')" for pattern in ("Q %% %Y week", "''%Y''T%-d", "%%Y %j", "[%H] {%M} #%S", "at")),
    *(f"strftime(d, '{pattern}')" for pattern in ("%G-W%V-%u", "%W", "%U week %%V", "%w%-d")),
    "strptime('at 2024-01-02', 'at %Y-%m-%d')::DATE", "s[i:n]", "s[n:]", "s[i:2]",
    "date_add(ts, INTERVAL 1 HOUR)", "date_add(d, INTERVAL 1 MONTH)",
    *(f"{side}(s, {count})" for side in ("left", "right") for count in ("-1", "-9", "i - 2", "2", "n")),
    *(f"{call}({x})" for call in ("ceil", "floor", "trunc") for x in ("x", "'nan'::double", "a", "1e300", "n::double")),
    "ceil('nan'::double) > 1", "map_concat(map {'a': a, s: 5}, map {'a': a + 1})", "map_concat(map {s: i}, NULL)",
    "map_concat(if(a > 0, map {'x': a}, NULL), map {'y': a})",
    "map_concat(map {'x': 1}, map {'y': 2}, map {'x': 3})",
    *(f"json_keys('{text}')" for text in ('{"b": 1, "a": 2}', "[1]", "1")), "json_keys(nullif(s, s))",
    "dayname(ts)", "monthname(d)",
    *(f"json_exists('{{\"a\": {{\"b\": null}}, \"c\": [1]}}', '{path}')"
      for path in ("$.a.b", "$.a", "$.c[0]", "$.c[1]", "$.d")),
    "json_exists(nullif(s, s), '$.a')",
    *(f"time_bucket(INTERVAL '{width}', ts)" for width in ("10 minutes", "2 weeks", "7 seconds", "1 day")),
    "time_bucket(INTERVAL 3 DAY, d)", "time_bucket(INTERVAL 3 HOUR, d)",
    *(f"{number}::{type_}" for number in ("x", "-x", "2.5", "-2.5", "3.5::double", "a") for type_ in ("INT", "BIGINT")),
    "x::HUGEINT", "TRY_CAST(x AS INT)", "x::NUMERIC", "1.23456::DECIMAL", "a / 1.5",
    "1.0 / 3", "log(i)", "trunc(x, 1)", "trunc(1.55, 1)", "trunc(a, -1)", "substr(s, 0, 2)", "substr(s, -2, 1)",
    "substr(s, i - 2, 2)", "concat(s, n, x > 0)", "concat_ws('-', s, n)", "gcd(a, i)", "lcm(a, i)", "gcd(-6, 4)",
    "lcm(a, 0)", "gcd(0, n)", "unicode(s)", "make_timestamp(2020, 1, 2, 3, 4, 5.5)", "to_binary(a)", "s[1]", "s[-1]",
    "string_split(s, '')", "map {'x': i}['x']", "map {a: i}[a]", "element_at(map {'x': a}, 'x')",
    "element_at(map {'x': a}, 'y')", "struct_extract({'x': a}, 'x')", "s LIKE s", "s NOT LIKE s || '_'",
    "s LIKE left(s, 1) || '%'", "s ILIKE upper(s)", "s LIKE n::VARCHAR",
    "extract('year' from age(d, DATE '1990-05-05'))",
    "extract('month' from age(d, DATE '1990-05-05'))", "extract(century from d)", "extract(decade from d)",
    "extract(microseconds from ts)", "list_mode([a, i, i])", "list_mode([n])", "list_histogram([a, i, i, n])",
    "list_histogram([n])", "list_aggregate([a, i, i], 'mode')", "list_mad([x, i])", "list_sem([x, i])",
    *(f"round(list_{name}([x, i, n, 1.5]), 9)" for name in ("var_samp", "var_pop", "stddev_samp", "stddev_pop")),
    "list_var_samp([x])", "list_aggregate([x, i], 'stddev')", "list_approx_count_distinct([a, i, a, n])",
    *(f"list_{name}([a, i, n])" for name in ("bit_and", "bit_or", "bit_xor")),
    *(f"strptime('2024-01-02 {zone}', '%Y-%m-%d %z')" for zone in ("+02:30", "+0230", "-02")),
    "[v + k for v, k in [a, 7] if k > 1]", "[v for v, k in [a, 7, n] if v > k]",
    "[k for v, k in [[a], [7]] if v[1] > 1]",
)  # fmt: skip
TRANSLATED = {
    "postgres": ("a / i", "to_char(ts, 'YYYY-MM-DD')", "s ~ 'a'", "strpos(s, 'b')", "a::text",
         "to_date(s, 'YYYY-MM-DD')",
                 "substring(s from 1 for 2)", "s::varchar(10)", "d + interval '1 month'", "date_part('hour', ts)"),
    "snowflake": ("iff(a > 0, 1, 2)", "dateadd(day, 1, d)", "datediff(day, d, d)", "zeroifnull(a)", "div0(a, i)",
                  "decode(a, 1, 'x', 'y')", "startswith(s, 'a')", "sha2(s, 256)", "s::number(10, 2)", "nvl(a, 1)"),
    "bigquery": ("DATE_DIFF(d, d, DAY)", "DATE_TRUNC(d, MONTH)", "FORMAT_DATE('%Y-%m', d)", "SAFE_CAST(s AS INT64)",
                 "REGEXP_CONTAINS(s, r'a')", "TO_HEX(MD5(s))", "TIMESTAMP_DIFF(ts, ts, HOUR)", "SAFE_DIVIDE(a, i)"),
    "databricks": ("dateadd(DAY, 1, d)", "datediff(MONTH, d, d)", "s:a", "try_divide(a, i)", "a::string"),
    "trino": ("date_diff('day', d, d)", "date_format(ts, '%Y-%m')", "json_extract_scalar(s, '$.a')",
         "bitwise_and(a, 3)"),
    "mysql": ("DATE_FORMAT(d, '%Y-%m')", "DATEDIFF(d, d)", "STR_TO_DATE(s, '%Y-%m-%d')", "a DIV 2", "`a` + 1"),
    "redshift": ("dateadd(day, 1, d)", "nvl(a, 1)", "len(s)"),
    "tsql": ("DATEADD(day, 1, d)", "ISNULL(a, 1)", "CHARINDEX('a', s)", "IIF(a > 0, 1, 2)", "[a] + 1"),
    "flink": ("SPLIT_INDEX(s, '-', 0)", "TIMESTAMPDIFF(DAY, ts, ts)", "DATE_FORMAT(ts, 'yyyy')", '"a" + 1'),
}  # fmt: skip


@every(DUCKDB)
def test_a_function_of_duckdb_means_what_duckdb_says(call: str) -> None:
    view = crown.view(f"SELECT a, {call} AS v FROM t", SCHEMA, dialect="duckdb")
    rows = [dict(zip(SCHEMA["t"], row, strict=True)) for row in ROWS]
    view.apply({"t": rows})
    found = {row["a"]: row["v"] for row in view.to_table().to_pylist()}
    table = pa.Table.from_pylist(rows).cast(pa.schema([
        ("n", pa.int64()), ("a", pa.int64()), ("i", pa.int32()), ("x", pa.float64()), ("s", pa.string()),
        ("d", pa.date32()), ("ts", pa.timestamp("us")),
    ]))  # fmt: skip
    with duck.holding({"t": table}) as cursor:
        wanted = dict(cursor.sql(f"SELECT a, {call} AS v FROM t").fetchall())
    assert {key: _plain(value) for key, value in found.items()} == {key: _plain(v) for key, v in wanted.items()}


NUMBERS = {
    "99.99": {-0.1: "  -.10"}, "FM9.99": {-0.1: "-.1"}, "FM90.99": {-0.1: "-0.1"}, "0.9": {0.1: " 0.1"},
    "9990999.9": {12: "    0012.0"}, "FM9990999.9": {12: "0012."},
    "999": {485: " 485", -485: "-485", 0: "   0", 1234: " ###"},
    "9,999": {1485: " 1,485", 485: "   485"}, "999.999": {148.5: " 148.500"}, "FM999.999": {148.5: "148.5"},
    "FM999D990": {148.5: "148.500"}, "999S": {-485: "485-", 485: "485+"}, "S999": {485: "+485"},
    "999MI": {-485: "485-", 485: "485 "}, "FM999MI": {485: "485"}, "999PR": {-485: "<485>", 485: " 485 "},
    "9.99": {0: "  .00", 9.995: " #.##", 0.005: "  .01"}, "$9,999.99": {1234.5: " $1,234.50"},
    "FM$9G999G990.00": {1234567.891: "$1,234,567.89", 0: "$0.00", -5: "-$5.00"},
}  # fmt: skip
"""Patterns of numbers, and what PostgreSQL's documentation and Oracle's say of values."""


def test_a_number_is_written_by_a_pattern() -> None:
    cases = [(pattern, value) for pattern, texts in NUMBERS.items() for value in texts]
    for dialect, type_ in (("postgres", "float64"), ("oracle", "decimal(18,3)"), ("snowflake", "float64")):
        calls = ", ".join(f"to_char(x, '{pattern}') AS v{i}" for i, pattern in enumerate(NUMBERS))
        view = crown.view(f"SELECT x, {calls} FROM t", {"t": {"x": type_}}, dialect=dialect)
        view.update({"t": [{"x": value} for value in {str(value) for _, value in cases}]})
        found = {float(row["x"]): row for row in view}
        names = {pattern: f"v{i}" for i, pattern in enumerate(NUMBERS)}
        for pattern, value in cases:
            assert found[float(value)][names[pattern]] == NUMBERS[pattern][value], (dialect, pattern, value)


def _plain(value: object) -> object:
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return dt.datetime(value.year, value.month, value.day)
    if isinstance(value, dict):
        return sorted(value.items())
    return "NaN" if value != value else value


@every(
    {
        "postgres": "SELECT i, generate_series(2, i) AS x FROM t",
        "bigquery": "SELECT i, x FROM t, UNNEST(GENERATE_ARRAY(2, i)) AS x",
        "duckdb": "SELECT i, UNNEST(generate_series(2, i)) AS x FROM t",
    }.items()
)
def test_a_series_has_no_rows_if_its_end_is_not_ahead(dialect: str, query: str) -> None:
    view = crown.view(query, {"t": {"i": "int64"}}, dialect=dialect)
    view.update({"t": [(0,), (3,)]})
    assert sorted(tuple(row.values()) for row in view.to_table().to_pylist()) == [(3, 2), (3, 3)]


@every([(name, call) for name, calls in TRANSLATED.items() for call in calls])
def test_a_function_of_another_dialect_is_planned(dialect: str, call: str) -> None:
    plan(f"SELECT DISTINCT {call} AS v FROM t", SCHEMA, dialect=dialect)


@pytest.mark.parametrize(
    ("dialect", "call", "word"),
    [("duckdb", "list_grade_up(a)", "LIST_GRADE_UP"), ("duckdb", "fmod(a, 3)", "FMOD"), ("trino", "zip(a)", "ZIP")],
)  # fmt: skip
def test_what_has_no_words_in_spark_is_refused_by_its_own_name(dialect: str, call: str, word: str) -> None:
    text = f"SELECT DISTINCT {call} AS v FROM t"
    with pytest.raises(PlanError) as caught:
        plan(text, SCHEMA, dialect=dialect)
    assert caught.value.message == f"{word} is not supported"
    assert caught.value.position is not None
    assert text[caught.value.position.column - 1 :].startswith(call)


MOMENT = dt.datetime(2024, 3, 5, 7, 8, 9, 123456)
PATTERNS = {
    ("postgres", "to_char(ts, 'YYYY-MM-DD HH24:MI:SS.US')"): "2024-03-05 07:08:09.123456",
    ("postgres", "to_char(ts, 'Mon DD, YYYY')"): "Mar 05, 2024",
    ("postgres", "to_char(ts, 'Day|MONTH|dy')"): "Tuesday  |MARCH    |tue",
    ("postgres", "to_char(ts, 'FMDay, FMDD FMMonth YY')"): "Tuesday, 5 March 24",
    ("postgres", "to_char(ts, 'IYYY-IW ID/D DDD Q')"): "2024-10 2/3 065 1",
    ("postgres", "to_char(ts, 'HH12 am \"o''clock\"')"): "07 am o'clock",
    ("redshift", "to_char(ts, 'YYYYMMDD')"): "20240305",
    ("oracle", "to_char(ts, 'FMMonth DD, YYYY')"): "March 5, 2024",
    ("oracle", "to_date(s, 'DD-MON-YYYY')"): dt.date(2024, 3, 5),
    ("oracle", "to_date(s || ' 10:11', 'DD-MON-YYYY HH24:MI')"): dt.datetime(2024, 3, 5, 10, 11),
    ("snowflake", "to_varchar(ts, 'MON DD HH24:MI:SS.FF3')"): "Mar 05 07:08:09.123",
    ("snowflake", "to_char(n)"): "-5",
    ("snowflake", "to_timestamp_ntz(s, 'DD-MON-YYYY')"): dt.datetime(2024, 3, 5),
    ("snowflake", "try_to_date(s, 'YYYY')"): None,
    ("snowflake", "date_part(epoch_millisecond, ts)"): 1709622489123,
    ("postgres", "extract(epoch from ts)"): 1709622489.123456,
    ("spark", "extract(epoch from d)"): 1709596800.0,
}


@every(PATTERNS)
def test_a_pattern_is_that_of_the_dialect(dialect: str, call: str) -> None:
    view = crown.view(f"SELECT {call} AS v FROM t", SCHEMA, dialect=dialect)
    row = {"n": -5, "s": "05-MAR-2024", "d": MOMENT.date(), "ts": MOMENT}
    assert view.apply({"t": [row]}).to_pylist() == [{"v": PATTERNS[dialect, call], "_weight": 1}]


@pytest.mark.parametrize(
    ("dialect", "call", "message"),
    [
        ("postgres", "to_char(ts, 'TZ')", "the pattern 'TZ' has 'T', which is not supported"),
        ("postgres", "to_char(ts, s)", "TO_CHAR takes a constant pattern"),
        ("postgres", "to_date(s, 'FMDay')", "the pattern 'FMDay' has 'Day', which is supported for output only"),
        ("oracle", "to_char(n, '999EEEE')", "'999EEEE' is not a supported pattern of numbers"),
        ("postgres", "to_char(n, 'S999S')", "'S999S' is not a supported pattern of numbers"),
    ],
)  # fmt: skip
def test_a_pattern_without_a_translation_is_refused(dialect: str, call: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        plan(f"SELECT DISTINCT {call} AS v FROM t", SCHEMA, dialect=dialect)
    assert caught.value.message == message
    assert caught.value.position is not None


def test_an_error_inside_of_a_translated_call_has_its_place() -> None:
    text = "SELECT DISTINCT strftime(nothing, '%Y') AS v FROM t"
    with pytest.raises(PlanError, match="unknown column nothing") as caught:
        plan(text, SCHEMA, dialect="duckdb")
    assert caught.value.position is not None
    assert text[caught.value.position.column - 1 :].startswith("nothing")


@every(DIALECTS)
def test_every_dialect_reads_a_plain_query(dialect: str) -> None:
    assert [out.name for out in plan("SELECT DISTINCT a FROM t WHERE i > 1", SCHEMA, dialect=dialect).output] == ["a"]


ADDED = {
    "snowflake": {
        "dateadd(hour, 1, at)": dt.datetime(2024, 3, 10, 13, 30),
        "dateadd('minute', -5, at)": dt.datetime(2024, 3, 10, 12, 25),
        "timestampadd(day, 7, at)": dt.datetime(2024, 3, 17, 12, 30),
        "dateadd(month, 1, d)": dt.date(2024, 4, 10),
        "dateadd(week, 1, d)": dt.date(2024, 3, 17),
        "dateadd(hour, 1, d)": dt.datetime(2024, 3, 10, 1),
        "dayofweek(d)": 0,
        "dayofweekiso(d)": 7,
    },
    "mysql": {
        "date_sub(at, interval 2 hour)": dt.datetime(2024, 3, 10, 10, 30),
        "date_add(d, interval 1 quarter)": dt.date(2024, 6, 10),
        "dayofweek(d)": 1,
        "weekday(d)": 6,
    },
    "redshift": {"dateadd(day, 7, at)": dt.datetime(2024, 3, 17, 12, 30), "date_part(dow, d)": 0},
    "trino": {
        "date_add('day', 7, at)": dt.datetime(2024, 3, 17, 12, 30),
        "day_of_week(d)": 7,
        "extract(dow from d)": 7,
    },
    "tsql": {"dateadd(month, 1, at)": dt.datetime(2024, 4, 10, 12, 30), "datepart(weekday, d)": 1},
    "postgres": {"extract(dow from at)": 0, "extract(isodow from d)": 7},
    "bigquery": {
        "DATE_SUB(d, INTERVAL 1 MONTH)": dt.date(2024, 2, 10),
        "EXTRACT(DAYOFWEEK FROM d)": 1,
        "TIMESTAMP_TRUNC(at, HOUR)": dt.datetime(2024, 3, 10, 12),
    },
    "databricks": {
        "date_add(at, 7)": dt.date(2024, 3, 17),
        "dateadd(hour, 1, at)": dt.datetime(2024, 3, 10, 13, 30),
        "extract(dow from d)": 1,
    },
}


@every((dialect, text, wanted) for dialect, texts in ADDED.items() for text, wanted in texts.items())
def test_what_is_added_has_its_unit_and_days_of_the_week_are_counted_as_the_dialect_does(
    dialect: str, text: str, wanted: object
) -> None:
    view = crown.view(f"SELECT {text} AS x FROM t", {"t": {"at": "timestamp_ntz", "d": "date"}}, dialect=dialect)
    view.update({"t": [(dt.datetime(2024, 3, 10, 12, 30), dt.date(2024, 3, 10))]})
    assert [row["x"] for row in view] == [wanted]


@pytest.mark.parametrize("call", ["to_days(x)", "to_hours(1.5)", "to_months(x)", "to_weeks('3')"])
def test_a_part_of_a_day_is_no_number_of_days(call: str) -> None:
    with pytest.raises(PlanError, match=r"TO_\w+ takes a whole number, not") as caught:
        plan(f"SELECT DISTINCT {call} AS v FROM t", SCHEMA, dialect="duckdb")
    assert caught.value.hint == "use CAST, or a smaller unit"


def test_a_function_of_its_own_name_is_found_inside_of_another_one() -> None:
    view = crown.view(
        "SELECT dateadd(hour, 1, dateadd(minute, 5, at)) AS x FROM t",
        {"t": {"at": "timestamp_ntz"}},
        dialect="snowflake",
    )
    view.update({"t": [(dt.datetime(2024, 3, 10),)]})
    assert [row["x"] for row in view] == [dt.datetime(2024, 3, 10, 1, 5)]


def test_a_window_function_takes_the_place_of_a_column_of_a_star() -> None:
    view = crown.view(
        "SELECT * REPLACE (SUM(b) OVER (PARTITION BY a) AS b) FROM t",
        {"t": {"a": "int64", "b": "int64"}},
        dialect="duckdb",
    )
    view.update({"t": [(1, 2), (1, 3), (2, 4)]})
    assert sorted((row["a"], row["b"]) for row in view) == [(1, 5), (1, 5), (2, 4)]


@pytest.mark.parametrize(
    ("dialect", "call"),
    [("duckdb", "strftime(ts, '%x')"), ("mysql", "DATE_FORMAT(ts, '%D')"), ("bigquery", "FORMAT_DATE('100%', d)")],
)
def test_a_letter_that_no_pattern_of_spark_has_is_refused(dialect: str, call: str) -> None:
    with pytest.raises(PlanError, match="which Spark does not have"):
        plan(f"SELECT {call} AS v FROM t", SCHEMA, dialect=dialect)


@pytest.mark.parametrize(
    ("dialect", "call", "wanted"),
    [
        ("postgres", "to_char(to_date('29.02.2020', 'DD.MM.YYYY'), 'YYYY-MM-DD')", "2020-02-29"),
        ("snowflake", "TO_VARCHAR(TO_DATE('29.02.2020', 'DD.MM.YYYY'), 'YYYY-MM-DD')", "2020-02-29"),
        ("postgres", "'{\"a\": {\"b\": \"x\"}}' #> '{a}' #>> '{b}'", "x"),
        ("duckdb", "strftime(strptime('29.02.2020', '%d.%m.%Y'), '%Y-%m-%d')", "2020-02-29"),
        ("snowflake", "TO_NUMBER(SPLIT_PART(TO_NUMBER('12.50', 10, 2)::VARCHAR, '.', 1), 10, 0)", 12),
    ],
)
def test_a_call_inside_of_a_call_is_translated_too(dialect: str, call: str, wanted: object) -> None:
    view = crown.view(f"SELECT {call} AS v FROM t", SCHEMA, dialect=dialect)
    view.apply({"t": [dict(zip(SCHEMA["t"], ROWS[0], strict=True))]})
    assert [row["v"] for row in view] == [wanted]
