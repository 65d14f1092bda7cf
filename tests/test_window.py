"""The sliding window against its own definition, step by step; oracle: a plain loop over the list."""

import pyarrow as pa
import pytest

import crown
from crown.ingest.streams import window


def by_definition(rows, length):
    for i in range(1, rows + 1):
        if i > length:
            yield i - length - 1, -1
        yield i - 1, 1
    for row in range(rows - length, rows):
        yield row, -1


@pytest.mark.parametrize(("rows", "length"), [(10, 3), (5, 5), (7, 1), (1, 1), (0, 0), (64, 13)])
def test_updates_are_the_definition_for_every_slice(rows, length):
    expected = list(by_definition(rows, length))
    for start in range(0, 2 * rows + 1, 3):
        row, weight = window.updates(rows, length, start, start + 7)
        assert list(zip(row.tolist(), weight.tolist(), strict=True)) == expected[start : start + 7]


@pytest.mark.parametrize("batch_rows", [1, 4, 1000])
def test_sliding_keeps_at_most_the_window_alive_and_ends_empty(batch_rows):
    table = pa.table({"src": list(range(20)), "dst": list(range(100, 120))})
    alive = 0
    for batch in window.sliding(table, 6, batch_rows):
        assert batch.column_names == ["src", "dst", "_weight"]
        assert batch.num_rows <= batch_rows
        alive += sum(batch["_weight"].to_pylist())
        assert 0 <= alive <= 6
    assert alive == 0


@pytest.mark.parametrize(("rows", "length"), [(20, 6), (3, 1), (1, 1), (50, 50)])
def test_a_list_that_is_shorter_than_a_batch_still_gives_deltas(rows, length):
    """All of it in one batch would net to nothing; and what is netted is said."""
    table = pa.table({"src": list(range(rows)), "dst": list(range(100, 100 + rows))})
    view = crown.view("SELECT DISTINCT src, dst FROM g", {"g": {"src": "int64", "dst": "int64"}})
    deltas = [view.apply({"g": batch}).num_rows for batch in window.sliding(table, length, 10_000)]
    assert deltas == [length, length], "it fills, with what is left of it when all has come, and it empties"


def test_windows_that_are_shorter_than_a_batch_are_said():
    assert window.netted("g", 500, 100, 200) is None
    assert window.netted("g", 100, 100, 10_000) is None, "nothing slides"
    said = window.netted("g", 500, 99, 200)
    assert said is not None
    assert said.startswith("the window of 99 rows over g is shorter than a batch of 200 updates: deltas are net")


def test_appended_inserts_every_row_once():
    batches = list(window.appended(pa.table({"a": list(range(10))}), 4))
    assert [batch.num_rows for batch in batches] == [4, 4, 2]
    assert {weight for batch in batches for weight in batch["_weight"].to_pylist()} == {1}


@pytest.mark.parametrize(
    ("asked", "rows", "length"), [("0.2", 508_837, 101_767), (1000, 500, 500), ("3", 10, 3), (0.001, 10, 1), (5, 0, 0)]
)
def test_size_takes_rows_or_a_fraction(asked, rows, length):
    assert window.size(asked, rows) == length


@pytest.mark.parametrize("asked", ["zero", 0, -3, 1.5, "inf", "nan"])
def test_size_refuses_what_is_no_window(asked):
    with pytest.raises(window.WindowError, match="window"):
        window.size(asked, 10)


def test_a_batch_holds_at_least_one_row():
    table = pa.table({"a": [1]})
    with pytest.raises(window.WindowError, match="batch"):
        list(window.sliding(table, 1, 0))
    with pytest.raises(window.WindowError, match="batch"):
        list(window.appended(table, 0))
