"""Batches of nothing but whole numbers, which are taken at once: the same comes of them as of any other form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import crown
from crown.errors import BadRowError, ChangeError
from crown.ingest.changes import Checker
from plans.schema import Column, Table

TABLE = Table("r", (Column("a", "int64"), Column("b", "int32")))
ROWS = [(1, 2, 1), (2**62, -(2**31), -1), (1, 2, 3), (-(2**63) + 1, 2**31 - 1, 2**31 - 1)]
SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int32()), ("_weight", pa.int64())])


def arrow(rows: list[tuple[int, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)


def over_the_wire(table: pa.Table) -> pa.Table:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


FORMS: dict[str, Callable[[list[tuple[int, ...]]], Any]] = {
    "table": arrow,
    "batch": lambda rows: arrow(rows).to_batches()[0],
    "part": lambda rows: arrow([(7, 7, 7), *rows, (8, 8, 8)]).slice(1, len(rows)),
    "part of a batch": lambda rows: arrow([(7, 7, 7), *rows]).to_batches()[0].slice(1),
    "wire": lambda rows: over_the_wire(arrow(rows)),
    "chunks": lambda rows: pa.concat_tables([arrow(rows).slice(0, 1), arrow(rows).slice(1)]),
    "turned": lambda rows: arrow(rows).select(["_weight", "b", "a"]),
    "text beside": lambda rows: arrow(rows).append_column("z", pa.array(["z"] * len(rows))),
    "flags beside": lambda rows: arrow(rows).add_column(0, "z", pa.array([True] * len(rows))),
    "validity": lambda rows: pa.concat_tables([arrow(rows), arrow_null()]).combine_chunks().slice(0, len(rows)),
    "tuples": list,
    "lists": lambda rows: [list(row) for row in rows],
    "dicts": lambda rows: [{"a": a, "b": b, "_weight": w} for a, b, w in rows],
    "turned dicts": lambda rows: [
        {"_weight": w, "b": b, "z": "z", "a": a} if i else {"a": a, "z": 1, "b": b, "_weight": w}
        for i, (a, b, w) in enumerate(rows)
    ],
    "columns": lambda rows: dict(zip(SCHEMA.names, map(list, zip(*rows, strict=True)), strict=True)),
}


def arrow_null() -> pa.Table:
    return pa.table([pa.array([None], field.type) for field in SCHEMA], SCHEMA)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_batch_gives_the_same_codes(form: str) -> None:
    checker = Checker(TABLE, ("b", "a"))
    for rows in (ROWS, ROWS[1:], ROWS[:1]):
        for _ in range(2):  # what was seen once is not looked at again
            found = checker.check(FORMS[form](rows))
            out = np.empty((2, len(rows)), np.int64)
            assert not found.columns.encode("r", ("b", "a"), lambda *_: np.empty(0), out)
            assert list(zip(out[1].tolist(), out[0].tolist(), found.weights.tolist(), strict=True)) == rows
            assert not found.bad
            assert found.columns["a"].to_pylist() == [row[0] for row in rows]
            assert found.columns["b"].type == pa.int32()
            assert found.columns.taken(np.array([0])).codes("b", lambda *_: np.empty(0)).tolist() == [rows[0][1]]


def test_forms_may_follow_one_another_in_one_relation() -> None:
    checker = Checker(TABLE, ("a", "b"))
    for form in [*FORMS, *reversed(FORMS), *FORMS]:
        found = checker.check(FORMS[form](ROWS))
        assert (found.columns["a"].to_pylist(), found.weights.tolist()) == ([r[0] for r in ROWS], [r[2] for r in ROWS])


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(1, 2, 1), (1, 2**31, 1)], "column 'b': 2147483648 does not fit int32"),
        ([(1, 2, 1), (2**63, 2, 1)], f"column 'a': {2**63} does not fit int64"),
        ([(1, 2, 1), (1, 2, 2**31)], "_weight 2147483648 is out of range: give at most 2,147,483,647 copies at a time"),
        ([(1, 2, 1), (1, True, 1)], "column 'b': True does not fit int32"),
        ([(1, 2, 1), (1, np.True_, 1)], "column 'b': np.True_ does not fit int32"),
        ([(1, 2, 1), (1, 2, 1.5)], "column '_weight': 1.5 does not fit int64"),
        ([(1, 2, 1), (1, 2, None)], "_weight is missing"),
        ([(1, 2, 1), ("x", 2, 1)], "column 'a': 'x' does not fit int64"),
    ],
)
@pytest.mark.parametrize("form", ["tuples", "lists", "dicts"])
def test_a_value_that_does_not_fit_is_told_as_ever(rows: list[Any], said: str, form: str) -> None:
    assert said in Checker(TABLE, ("a", "b")).check(FORMS[form](rows)).bad[1]


def test_the_number_that_stands_for_null_is_refused_in_every_form() -> None:
    for form in ("table", "part", "tuples", "dicts", "columns"):
        view = crown.view("SELECT DISTINCT a, b FROM r", {"r": {"a": "int64", "b": "int32"}})
        with pytest.raises(BadRowError, match=r"row 1.*reserved for NULL"):
            view.apply({"r": FORMS[form]([(1, 2, 1), (-(2**63), 2, 1)])})
        assert view.count() == 0


@pytest.mark.parametrize("wrong", [{"a": 1}, {"a": 1, "b": 2, "weight": 1}, {"a": 1, "A": 1, "b": 2}])
def test_columns_that_are_wrong_are_an_error_as_ever(wrong: dict[str, int]) -> None:
    checker = Checker(TABLE, ("a", "b"))
    table = pa.table([pa.array([value]) for value in wrong.values()], list(wrong))
    for data in ([wrong], table):
        checker.check([(1, 2)])
        with pytest.raises(ChangeError):
            checker.check(data)
