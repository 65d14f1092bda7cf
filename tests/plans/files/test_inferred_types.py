"""Types of columns that nobody declared: those that DuckDB finds, but for what would merge or round values."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from plans.files.delimited import Delimited
from plans.files.json_rows import JsonRows
from plans.files.rows import NoColumnsError, RowsFile, typed
from plans.files.unpacked import Place
from plans.files.values import parsed, planned
from plans.schema import Schema
from plans.types import arrow_type
from tests.marks import every
from tests.oracles import duck

HERE = Place("r")
DUCKDB = {
    "BIGINT": "int64", "DOUBLE": "float64", "VARCHAR": "string", "BOOLEAN": "bool", "HUGEINT": "decimal(38,0)",
    "DATE": "date", "TIMESTAMP": "timestamp_ntz", "TIMESTAMP WITH TIME ZONE": "timestamp",
}  # fmt: skip


def kind_of(texts: list[str]) -> str:
    """The type of a column beside one of numbers, so that its first line is a header in any case."""
    data = "\n".join(["number,value", *(f"{i},{text}" for i, text in enumerate(texts))]).encode()
    found = Delimited(data, "csv", HERE).kinds()
    assert found is not None
    assert found["value"] is not None
    return planned(found["value"])


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "-2", "0"], "int64"),
        (["9223372036854775807", "-9223372036854775807"], "int64"),
        (["12345678901234567890", "1"], "decimal(38,0)"),
        (["-12345678901234567890123456789012345678"], "decimal(38,0)"),
        (["01234", "1234"], "string"),
        (["00"], "string"),
        (["00.5", "1"], "string"),
        (["+5", "5"], "string"),
        (["1_000"], "string"),
        (["30", "NA"], "string"),
        (["30", "null"], "string"),
        (["1", "2.5", "1e3"], "float64"),
        (["1.5", "nan", "inf"], "float64"),
        (["true", "False"], "bool"),
        (["0", "1"], "int64"),
        (["2020-01-01", "1999-12-31"], "date"),
        (["2020-01-01", "2020-02-30"], "string"),
        (["2020-01-01 00:00:00", "2020-01-01T10:20:30.5"], "timestamp_ntz"),
        (["2020-01-01T00:00:00Z", "2020-01-01T00:00:00+02:00"], "timestamp"),
        (["x", "1"], "string"),
        ([" 1", "2 "], "int64"),
    ],
)
def test_a_type_is_the_one_that_duckdb_finds(texts: list[str], kind: str, tmp_path: Path) -> None:
    assert kind_of(texts) == kind
    (tmp_path / "r.csv").write_text("\n".join(["number,value", *(f"{i},{text}" for i, text in enumerate(texts)), ""]))
    with duck.connected() as cursor:
        theirs = str(cursor.sql(f"FROM read_csv('{tmp_path / 'r.csv'}', sample_size=-1)").types[1])
    assert DUCKDB[theirs] == kind


@every(
    [
        (["0x1F", "31"], "string"),  # DuckDB: both are 31
        (["1.5", "12345678901234567890"], "string"),  # a double that is another number
        (["1.5", "9007199254740993"], "string"),
        (["1e400", "1"], "string"),  # infinity
        (["-9223372036854775808"], "decimal(38,0)"),  # which stands for NULL in the engine
        (["9" * 39], "string"),
        (["nan", "inf"], "string"),
        (["2020-01-01", "2020-01-01 10:00:00"], "timestamp_ntz"),  # DuckDB: texts
        (["13:00"], "string"),  # there is no such type
    ]
)
def test_where_duckdb_rounds_or_merges_a_column_is_one_of_texts(texts: list[str], kind: str) -> None:
    assert kind_of(texts) == kind


@every([
        ('{"a":1,"b":"1","c":true,"d":1.5}\n{"a":2,"b":"x","c":null,"d":2}', "int64 string bool float64"),
        ('{"a":12345678901234567890}\n{"a":1}', "decimal(38,0)"),
        ('{"a":"01234"}\n{"a":"1234"}', "string"),
        ('{"a":"12"}', "string"),
        ('{"a":1}\n{"a":"x"}', "string"),
        ('{"a":true}\n{"a":1}', "string"),
        ('{"a":{"x":1}}\n{"a":[1]}', "string"),
        ('{"a":"2020-01-01","b":"2020-01-01 10:00:00.5","c":"2020-01-01T00:00:00Z"}', "date timestamp_ntz timestamp"),
        ('{"a":1e20}\n{"a":1}', "float64"),
        ('{"a":1.5}\n{"a":9007199254740993}', "string"),
        ('[{"a":1},{"a":2.5}]', "float64"),
        ('{"a":NaN}\n{"a":1}', "float64"),
        ('{"a":1e400}\n{"a":1}', "string"),
    ])  # fmt: skip
def test_types_of_json_are_those_of_its_values(text: str, kinds: str) -> None:
    found = JsonRows(text.encode(), HERE).kinds()
    assert found is not None
    assert [planned(kind) for kind in found.values() if kind is not None] == kinds.split()
    table = Schema.of({"r": {name: planned(kind) for name, kind in found.items() if kind is not None}})["r"]
    rows = typed(JsonRows(text.encode(), HERE).rows(table), table)
    for column in table.columns:
        given = rows.column(column.name)
        assert (pa.types.is_string(given.type)) == (column.type == "string")


SIGNS = st.text("0123456789.-+eExX aN:TZ_", min_size=1, max_size=12).filter(lambda text: text.strip())
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.integers(-100, 100).map(str),
    st.floats().map(repr),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str),
    st.integers(0, 10**6).map(lambda number: f"0{number}"),
)
TIMES = st.one_of(
    st.dates().map(str), st.datetimes().map(str), st.datetimes().map(lambda time: f"{time:%Y-%m-%dT%H:%M}Z")
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.one_of(
        st.lists(texts, min_size=1, max_size=6) for texts in (SIGNS, NUMBERS, TIMES, st.one_of(SIGNS, NUMBERS, TIMES))
    )
)
@example(["01234", "1234"])
@example(["30", "NA"])
@example(["12345678901234567890", "12345678901234567891"])
@example(["12345678901234567890.5", "12345678901234567891"])
def test_what_has_a_type_is_read_as_it_and_different_values_stay_different(texts: list[str]) -> None:
    kind = kind_of(texts)
    values = parsed(pa.array(texts), arrow_type(kind)).to_pylist()  # which is not refused
    assert None not in values
    if kind == "string":
        assert values == texts
    if kind in ("int64", "decimal(38,0)", "float64"):
        assert all(_spells(text, value) for text, value in zip(texts, values, strict=True))


def _spells(text: str, value: object) -> bool:
    """Whether a text is a spelling of a number: of a whole one all its digits, of others the nearest double."""
    text = text.strip()
    try:
        exact = Decimal(text)
    except InvalidOperation:
        return False
    if not exact.is_finite():
        return str(value) == str(float(text))
    unlike = text.lstrip("-").lstrip("0")[:1].isdigit() and text.lstrip("-").startswith("0") and "x" not in text
    if isinstance(value, float) and not text.lstrip("-").isdigit():
        return value == float(text) and not unlike
    return Decimal(str(value) if not isinstance(value, float) else int(value)) == exact and not unlike


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("r.csv", "src,dst\n1,2\n", ["src", "dst"]),
        ("r.csv", "src,dst\n", ["src", "dst"]),
        ("r.csv", "name,city\nann,paris\n", ["name", "city"]),
        ("r.csv", "1,2\n3,4\n", None),
        ("r.csv", "1,ann\n2,bob\n", None),
        ("r.csv", "", None),
        ("r.tsv", "src\tdst\n1\t2\n", ["src", "dst"]),
        ("r.txt", "src dst\n1 2\n", ["src", "dst"]),
        ("r.txt", "1 2\n3 4\n", None),
        ("r.txt", "ann bob\nbob carl\n", None),
        ("r.txt", "name,city\nann,paris\n", ["name", "city"]),
        ("r.txt", "hello world\nfoo\n", None),
        ("r.txt", '{"a": 1}\n', ["a"]),
        ("r.csv", ",a\n0,5\n", ["a"]),
        ("r.csv", "a,_weight\n0,5\n", ["a"]),
        ("r.csv", "a,_change_type,_commit_version\n0,insert,1\n", ["a"]),
        ("r.jsonl", '{"a": 1, "_row_kind": "+I"}\n', ["a"]),
        ("r.jsonl", "", None),
    ],
)
def test_the_first_line_is_a_header_if_it_is_unlike_the_others(
    name: str, text: str, columns: list[str] | None, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    if columns is None:
        with pytest.raises(NoColumnsError, match="it has no rows" if not text else "its first line does not name them"):
            RowsFile(tmp_path / name).columns()
    else:
        assert RowsFile(tmp_path / name).columns().names == columns
