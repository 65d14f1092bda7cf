"""Record batches out of codes: those that are written in one step are those that are made column by column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from crown.store.codec import NULL, decode
from crown.store.records import SLICE, Records
from crown.store.zset import Zset
from plans.schema import arrow_type

KINDS = ["int64", "bool", "int32", "date", "float64", "timestamp", "timestamp_ntz", "decimal(10, 2)", "bool"]
PLAIN = pa.schema([(f"c{i}", arrow_type(kind)) for i, kind in enumerate(KINDS)])
DELTAS = PLAIN.append(pa.field("_weight", pa.int64()))


def no_text(codes: np.ndarray, target: pa.DataType) -> pa.Array:
    raise AssertionError("there is no text")


def codes(n: int, absent: float, seed: int = 1) -> np.ndarray:
    """Returns rows of all kinds, in which that part of the values is NULL."""
    random = np.random.default_rng(seed)
    rows = random.integers(-1000, 1000, (n, len(KINDS)))
    rows[:, [1, 8]] = random.integers(0, 2, (n, 2))
    rows[:, 4] = random.normal(size=n).view(np.int64)
    rows[random.random(rows.shape) < absent] = NULL
    return rows


@pytest.mark.parametrize("absent", [0, 0.3, 1])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 63, 64, 65, 1000])
def test_a_batch_written_at_once_is_the_one_made_column_by_column(n: int, absent: float) -> None:
    rows, weights = codes(n, absent), np.random.default_rng(2).choice([-1, 1, 5], n)
    wanted = [decode(rows[:, i].copy(), kind, no_text) for i, kind in enumerate(KINDS)]
    expected = pa.RecordBatch.from_arrays([*wanted, pa.array(weights, pa.int64())], schema=DELTAS)
    layouts = [rows, np.asfortranarray(rows), np.repeat(rows, 2, axis=0)[::2], np.repeat(rows.T, 2, axis=1)[:, ::2].T]
    for layout in layouts:
        found = Records(DELTAS, KINDS, no_text).batch(Zset(layout, weights))
        found.validate(full=True)
        assert found.equals(expected)
        assert found.nbytes == expected.nbytes, "no buffer is longer than it must be"
        assert [column.null_count for column in found.columns] == [column.null_count for column in expected.columns]
        plain = Records(PLAIN, KINDS, no_text).batch(Zset(layout, weights))
        plain.validate(full=True)
        assert plain.equals(expected.drop_columns(["_weight"]))


def test_columns_may_be_other_words_of_a_tuple_than_their_number_says() -> None:
    rows = np.arange(30).reshape(10, 3)
    schema = pa.schema([("c", pa.int64()), ("a", pa.int64()), ("_weight", pa.int64())])
    records = Records(schema, ["int64", "int64"], no_text, [2, 0], [False, False])
    columns = np.ascontiguousarray(rows.T)
    found = records.written(columns.reshape(-1), 10, 1, np.ones(10, np.int64))
    assert found.to_pydict() == {"c": rows[:, 2].tolist(), "a": rows[:, 0].tolist(), "_weight": [1] * 10}


def test_a_batch_keeps_its_memory_and_shares_none_with_the_tuples() -> None:
    rows, weights = np.arange(6).reshape(3, 2), np.ones(3, np.int64)
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("_weight", pa.int64())])
    found = Records(schema, ["int64", "int64"], no_text).batch(Zset(rows, weights))
    rows[:], weights[:] = 7, 7
    assert found.to_pydict() == {"a": [0, 2, 4], "b": [1, 3, 5], "_weight": [1, 1, 1]}


def test_many_tuples_are_several_batches_and_a_result_without_columns_has_its_weights() -> None:
    schema = pa.schema([("_weight", pa.int64())])
    records = Records(schema, [], no_text)
    found = list(records.batches(Zset(np.empty((SLICE + 1, 0), np.int64), np.ones(SLICE + 1, np.int64))))
    assert [batch.num_rows for batch in found] == [SLICE, 1]
    assert not list(records.batches(Zset.empty(0)))
