"""Deletes of what is not there: clamped and counted, or refused before any change; never a negative multiplicity."""

from __future__ import annotations

import pytest

import crown
from crown.errors import MissingDeleteError

TABLES = {"R": {"a": "int64", "b": "int64"}, "S": {"b": "int64", "c": "int64"}}
QUERY = "Q(a, b, c) :- R(a, b), S(b, c), c > 0."


def row(a: int, b: int, weight: int = 1) -> dict[str, int]:
    return {"a": a, "b": b, "_weight": weight}


def loaded(on_missing: str) -> crown.View:
    view = crown.view(QUERY, TABLES, on_missing=on_missing)
    view.apply({"R": [row(1, 1), row(2, 1, 2)], "S": [{"b": 1, "c": 7}]})
    return view


def test_an_absent_row_is_ignored_and_counted() -> None:
    view = loaded("ignore")
    assert view.apply({"R": [row(9, 9, -3)]}).num_rows == 0
    assert view.stats()["missing_deletes"]["R"] == 3
    view.check_invariants()


def test_more_copies_than_there_are_leave_none_and_no_debt() -> None:
    view = loaded("ignore")
    assert view.apply({"R": [row(2, 1, -5)]})["_weight"].to_pylist() == [-1]
    assert view.stats()["missing_deletes"]["R"] == 3
    assert view.apply({"R": [row(2, 1)]})["_weight"].to_pylist() == [1]


@pytest.mark.parametrize(
    "batch",
    [
        [row(9, 9, -1)],
        [row(1, 1, -2)],
        [row(1, 1, -1), row(1, 1, -1)],
        [row(5, 5), row(2, 1, -1), row(1, 1, -1), row(1, 1, -1)],
        [row(1, 1, -3), row(1, 1)],
    ],
    ids=["absent", "too many copies", "too many in two rows", "among good changes", "not outweighed"],
)
def test_raise_refuses_the_whole_batch(batch: list[dict[str, int]]) -> None:
    view = loaded("raise")
    before = view.to_table().to_pylist(), view.stats()["live_bytes"]
    with pytest.raises(MissingDeleteError, match="'R'"):
        view.apply({"R": batch, "S": [{"b": 1, "c": 8}]})
    assert (view.to_table().to_pylist(), view.stats()["live_bytes"]) == before
    view.check_invariants()
    assert view.apply({"R": [row(1, 1, -1)]})["_weight"].to_pylist() == [-1]


def test_raise_looks_at_the_sum_of_a_batch() -> None:
    view = loaded("raise")
    assert view.apply({"R": [row(3, 1, -1), row(3, 1, 2)]}).num_rows == 1
    assert view.apply({"R": [row(3, 1, -1)]}).num_rows == 1


def test_rows_that_the_predicate_keeps_out_are_not_missed() -> None:
    view = loaded("raise")
    view.apply({"S": [{"b": 1, "c": -1}]})
    assert view.apply({"S": [{"b": 1, "c": -1, "_weight": -1}]}).num_rows == 0


def test_on_missing_is_one_of_two_words() -> None:
    with pytest.raises(crown.errors.CrownError, match="on_missing"):
        crown.view(QUERY, TABLES, on_missing="explode")
