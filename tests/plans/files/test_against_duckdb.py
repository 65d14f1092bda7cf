"""The grid of files: what is read is what was written, and what DuckDB reads, whatever the form of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plans.errors import FileError
from plans.files.rows import RowsFile
from plans.schema import Schema
from tests.plans.files.grid import (
    KINDS,
    PACKINGS,
    ROWS,
    TABLE,
    TEXTS,
    Row,
    arrow_file,
    delimited,
    duckdb_reads,
    json_lines,
    parquet,
)

CSV = (
    "read_csv('PATH', columns={{columns}}, header={header}, delim='{mark}', quote='\"', escape='\"', nullstr='', "
    "allow_quoted_nulls=false, auto_detect=false, new_line='{end}')"
)
JSON = "read_json('PATH', columns={{columns}}, format='{format}')"
MARKS = {"csv": ",", "tsv": "\t", "txt": ","}


def read(path: Path) -> list[Row]:
    rows = RowsFile(path).rows(TABLE)
    assert not any(pa.types.is_string(rows.schema.field(name).type) for name in KINDS if KINDS[name] != "string")
    columns = {name.lower(): rows.column(name).to_pylist() for name in rows.column_names}
    return list(zip(*(columns[name] for name in KINDS), strict=True))


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("quotes", ["none", "needed", "all"])
@pytest.mark.parametrize("suffix", MARKS)
def test_delimited_text_is_read_as_by_duckdb(suffix: str, quotes: str, end: str, packing: str, tmp_path: Path) -> None:
    rows = ROWS + (TEXTS if quotes != "none" and end == "\n" else [])
    for header in (True, False):
        data = delimited(rows, MARKS[suffix], quotes, header, end)
        (tmp_path / "plain").write_bytes(data)
        written = end.replace("\r", "\\r").replace("\n", "\\n")
        theirs = duckdb_reads(tmp_path / "plain", CSV.format(header=header, mark=MARKS[suffix], end=written))
        path = tmp_path / f"r.{suffix}{packing}"
        path.write_bytes(PACKINGS[packing](data))
        assert read(path) == rows == theirs


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["r.csv", "r.txt", "r", "r.csv.gz", "r.gz", "r.data.zst"])
def test_the_mark_between_fields_is_found(name: str, mark: str, tmp_path: Path) -> None:
    path = tmp_path / name
    data = delimited([*ROWS, *TEXTS], mark, "needed", True, "\n")
    path.write_bytes(PACKINGS.get(path.suffix, bytes)(data))
    assert read(path) == [*ROWS, *TEXTS]


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize(("suffix", "array"), [("json", True), ("json", False), ("jsonl", False), ("ndjson", False)])
def test_json_is_read_as_by_duckdb(suffix: str, array: bool, packing: str, tmp_path: Path) -> None:
    rows = [*ROWS, *TEXTS]
    data = json_lines(rows, array)
    (tmp_path / "plain").write_bytes(data)
    theirs = duckdb_reads(tmp_path / "plain", JSON.format(format="array" if array else "newline_delimited"))
    path = tmp_path / f"r.{suffix}{packing}"
    path.write_bytes(PACKINGS[packing](data))
    whole = [name for name in KINDS if name != "m"]  # DuckDB makes doubles of decimals in JSON

    def without_decimals(found: list[Row]) -> list[Row]:
        return [tuple(row[list(KINDS).index(name)] for name in whole) for row in found]

    assert read(path) == rows
    assert without_decimals(rows) == without_decimals(theirs)


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("suffix", ["parquet", "arrow", "feather", "arrows", "none"])
def test_files_of_columns_are_read_with_their_types(suffix: str, packing: str, tmp_path: Path) -> None:
    rows = [*ROWS, *TEXTS]
    is_parquet = suffix in ("parquet", "none")
    path = tmp_path / f"r.{suffix}{packing}"
    path.write_bytes(PACKINGS[packing](parquet(rows) if is_parquet else arrow_file(rows, suffix == "arrows")))
    assert read(path) == rows
    columns = RowsFile(path).columns()
    assert columns is not None
    assert {column.name: column.type for column in Schema.of({"r": columns})["r"].columns} == KINDS


@pytest.mark.parametrize("name", ["r.csv", "r.txt", "r.json", "r.parquet"])
def test_a_file_that_is_packed_is_read_whatever_its_name_says(name: str, tmp_path: Path) -> None:
    form = {"r.json": json_lines, "r.parquet": parquet}.get(name, lambda rows: delimited(rows, ",", "all", True, "\n"))
    for packing in PACKINGS.values():
        (tmp_path / name).write_bytes(packing(form(ROWS)))
        assert read(tmp_path / name) == ROWS


def test_a_folder_is_its_files_in_order_of_name(tmp_path: Path) -> None:
    for number, part in enumerate((ROWS[:2], ROWS[2:], TEXTS)):
        (tmp_path / f"{number}.csv").write_bytes(delimited(part, ",", "needed", True, "\n"))
    (tmp_path / "_SUCCESS").write_bytes(b"")
    (tmp_path / ".hidden.csv").write_bytes(b"x\n1\n")
    assert read(tmp_path) == [*ROWS, *TEXTS]
    (tmp_path / "3.jsonl.gz").write_bytes(PACKINGS[".gz"](json_lines(ROWS)))
    (tmp_path / "4.tsv.zst").write_bytes(PACKINGS[".zst"](delimited(ROWS, "\t", "all", True, "\n")))
    assert read(tmp_path) == [*ROWS, *TEXTS, *ROWS, *ROWS]


@pytest.mark.parametrize(
    ("first", "second", "kind", "values"),
    [
        ("a\n1\n", "a\n2.5\n", "float64", [1.0, 2.5]),
        ("a\n1\n", "a\nx\n", "string", ["1", "x"]),
        ("a\n1\n", "a\n\n", "int64", [1, None]),
        ("a\n1\n", "a\n12345678901234567890\n", "decimal(38,0)", [1, 12345678901234567890]),
        ("a\n9007199254740993\n", "a\n2.5\n", "string", ["9007199254740993", "2.5"]),
        ("a\n2020-01-01\n", "a\n2020-01-01 10:00:00\n", "timestamp_ntz", None),
    ],
)
def test_a_type_is_that_of_all_files_of_a_folder(
    first: str, second: str, kind: str, values: list[Any] | None, tmp_path: Path
) -> None:
    (tmp_path / "1.csv").write_text(first)
    (tmp_path / "2.csv").write_text(second)
    columns = RowsFile(tmp_path).columns()
    assert columns is not None
    table = Schema.of({"r": columns})["r"]
    assert table.columns[0].type == kind
    rows = RowsFile(tmp_path).rows(table).column("a")
    assert str(rows.type) != "string" or kind == "string"
    assert values is None or rows.to_pylist() == values


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_last_line_need_not_end(end: str, tmp_path: Path) -> None:
    table = Schema.of({"r": {"a": "string", "b": "string"}})["r"]
    (tmp_path / "r.csv").write_bytes(end.join(["a,b", '"x","y"', '"z",']).encode())
    assert RowsFile(tmp_path / "r.csv").rows(table).to_pydict() == {"a": ["x", "z"], "b": ["y", None]}


def test_files_of_a_folder_may_have_types_of_different_widths(tmp_path: Path) -> None:
    first = pa.table({"a": pa.array([1], pa.int32()), "s": pa.array(["x"]).dictionary_encode()})
    pq.write_table(first, tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": [2**40], "s": pa.array(["y"], pa.large_string())}), tmp_path / "2.parquet")
    columns = RowsFile(tmp_path).columns()
    assert columns is not None
    table = Schema.of({"r": columns})["r"]
    assert [column.type for column in table.columns] == ["int64", "string"]
    assert RowsFile(tmp_path).rows(table).to_pydict() == {"a": [1, 2**40], "s": ["x", "y"]}
    pq.write_table(pa.table({"a": [[1]], "s": ["z"]}), tmp_path / "3.parquet")
    with pytest.raises(FileError, match="column 'a' is int64 in one file and list<"):
        RowsFile(tmp_path).columns()
    with pytest.raises(FileError, match="its files have different types for one column"):
        RowsFile(tmp_path).rows(table)


def test_values_longer_than_a_block_are_read(tmp_path: Path) -> None:
    table = Schema.of({"r": {"a": "int64", "s": "string"}})["r"]
    for text in ("x" * 3_000_000, "x\n" * 1_500_000):
        (tmp_path / "r.csv").write_text(f'a,s\n1,"{text}"\n2,y\n')
        assert RowsFile(tmp_path / "r.csv").rows(table).to_pydict() == {"a": [1, 2], "s": [text, "y"]}
