"""Files of changes for the command line: what stands in them is what comes in, or is refused; no row gets lost."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import crown
from crown.commands.main import main
from crown.errors import ChangeError, SnapshotError
from crown.ingest.streams.inputs import piped
from plans import program
from plans.errors import FileError
from plans.files.rows import RowsFile

Reader = Callable[[str, str, str], list[dict[str, Any]]]


@pytest.fixture(params=["file", "stdin"])
def rows_of(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """Reads a text as rows of columns a (int64) and b, from a file or from standard input, through a view."""

    def rows(text: str, suffix: str, kind: str) -> list[dict[str, Any]]:
        schema = {"r": {"a": "int64", "b": kind}}
        table = program("SELECT a, b FROM r", schema).table("r")
        if request.param == "file":
            path = tmp_path / f"changes{suffix}"
            path.write_bytes(text.encode())
            given = [RowsFile(path).rows(table)]
        else:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
            given = list(piped(1000, table))
        view = crown.view("SELECT a, b FROM r", schema)
        for one in given:
            view.update({"r": one})
        return sorted(({"a": row["a"], "b": row["b"]} for row in view), key=lambda row: row["a"])

    return rows


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        ("decimal(20,2)", "12345678901234567.89", Decimal("12345678901234567.89")),
        ("decimal(20,0)", "12345678901234567890", Decimal("12345678901234567890")),
        ("decimal(5,2)", '"1.25"', Decimal("1.25")),
        ("string", '"2020-01-01"', "2020-01-01"),
        ("string", '"null"', "null"),
        ("float64", "0.1", 0.1),
        ("float64", "5", 5.0),
        ("bool", "true", True),
        ("string", "null", None),
    ],
)
def test_json_lines_keep_their_values(rows_of: Reader, kind: str, given: str, value: object) -> None:
    assert rows_of(f'{{"a":9007199254740993,"b":{given}}}\n', ".jsonl", kind) == [{"a": 9007199254740993, "b": value}]
    mixed = rows_of(f'{{"a":9007199254740993,"b":{given}}}\n{{"a":1.0}}\n\n', ".jsonl", kind)
    assert mixed == [{"a": 1, "b": None}, {"a": 9007199254740993, "b": value}]
    assert rows_of(f'\ufeff{{"a":1,"b":{given}}}\n', ".jsonl", kind) == [{"a": 1, "b": value}]


@pytest.mark.parametrize("text", ['[{"a":1,"b":"x"}, [2]]\n', '{"a":1,"b":"x"}\n5\n'])
def test_a_row_that_is_no_object_is_said(rows_of: Reader, text: str) -> None:
    with pytest.raises(FileError, match="is not a JSON object"):
        rows_of(text, ".jsonl", "string")


def test_rows_without_columns_are_said(rows_of: Reader) -> None:
    with pytest.raises(FileError, match="its rows have no columns"):
        rows_of("{}\n", ".jsonl", "string")


def test_a_number_that_does_not_fit_is_a_bad_row(rows_of: Reader) -> None:
    with pytest.raises(ChangeError, match=r"'1\.5' does not fit int64"):
        rows_of('{"a":1.5,"b":"x"}\n{"a":2,"b":"x"}\n', ".jsonl", "string")


def test_of_csv_nothing_is_null_and_all_else_is_a_text(rows_of: Reader) -> None:
    found = rows_of('a,b\n1,NA\n2,null\n3,""\n4,\n5,N/A\n', ".csv", "string")
    assert [row["b"] for row in found] == ["NA", "null", "", None, "N/A"]
    (row,) = rows_of("a,b\n1,nan\n", ".csv", "float64")
    assert str(row["b"]) == "nan"
    with pytest.raises(ChangeError, match="'NA' does not fit float64"):
        rows_of("a,b\n1,NA\n", ".csv", "float64")


def test_a_snapshot_does_not_replace_what_is_no_file(tmp_path: Path) -> None:
    view = crown.view("SELECT a FROM r", {"r": {"a": "int64"}})
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SnapshotError, match="this is not a regular file, and would be replaced"):
        view.save(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


def test_a_count_of_triangles_says_what_it_has_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT COUNT(*) AS n FROM e x, e y, e z WHERE x.d = y.s AND y.d = z.s AND z.d = x.s"
    view = crown.view(query, {"e": {"s": "int64", "d": "int64"}})
    view.apply({"e": [(1, 2), (2, 3), (3, 1)]})
    assert "batches" in view.explain(analyze=True)
    assert json.loads(view.explain(analyze=True, format="json"))
    view.save(tmp_path / "state")
    assert main(["check", "--analyze", str(tmp_path / "state")]) == 0
    capsys.readouterr()
