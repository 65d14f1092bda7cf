"""Record batches out of codes: those that are written in one step are those that are made column by column."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from crown.kernels.memory import arena as A
from crown.kernels.memory.tables import new_table, table_at
from crown.store.budget import Budget
from crown.store.codec import NULL, decode, encode, uses_dictionary
from crown.store.dictionary import Dictionary
from crown.store.records import SLICE, Records
from crown.store.zset import Zset
from plans.types import arrow_type

KINDS = [
    "int64", "bool", "int32", "date", "float64", "timestamp", "timestamp_ntz", "decimal(10, 2)", "bool",
    "string", "binary", "decimal(30, 3)", "string",
]  # fmt: skip
TEXTS = ["", "a", "grüße", "seven..", "eight...", "nine....." * 40]
PLAIN = pa.schema([(f"c{i}", arrow_type(kind)) for i, kind in enumerate(KINDS)])
DELTAS = PLAIN.append(pa.field("_weight", pa.int64()))


def dictionary() -> Dictionary:
    """Returns an empty dictionary."""
    arena = np.zeros(1 << 15, np.int64)
    A.format_arena(arena, 1, len(arena), 7)
    new_table(arena, int(table_at(0)))
    return Dictionary(arena, int(table_at(0)), Budget([arena]))


WORDBOOK = dictionary()


def codes(n: int, absent: float, seed: int = 1) -> np.ndarray:
    """Returns rows of all kinds, in which that part of the values is NULL."""
    random = np.random.default_rng(seed)
    rows = random.integers(-1000, 1000, (n, len(KINDS)))
    rows[:, [1, 8]] = random.integers(0, 2, (n, 2))
    rows[:, 4] = random.normal(size=n).view(np.int64)
    for word, kind in enumerate(KINDS):
        if uses_dictionary(kind) and n:
            given = [Decimal(f"{i}.125") * -(10**20) for i in range(5)] if kind.startswith("decimal") else TEXTS
            values = pa.array([v.encode() if kind == "binary" else v for v in given], arrow_type(kind))
            rows[:, word] = random.choice(encode(values, kind, WORDBOOK.intern), n)
    rows[random.random(rows.shape) < absent] = NULL
    return rows


@pytest.mark.parametrize("absent", [0, 0.3, 1])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 63, 64, 65, 1000])
def test_a_batch_written_at_once_is_the_one_made_column_by_column(n: int, absent: float) -> None:
    rows, weights = codes(n, absent), np.random.default_rng(2).choice([-1, 1, 5], n)
    wanted = [decode(rows[:, i].copy(), kind, WORDBOOK.extern) for i, kind in enumerate(KINDS)]
    expected = pa.RecordBatch.from_arrays([*wanted, pa.array(weights, pa.int64())], schema=DELTAS)
    layouts = [rows, np.asfortranarray(rows), np.repeat(rows, 2, axis=0)[::2], np.repeat(rows.T, 2, axis=1)[:, ::2].T]
    for layout in layouts:
        found = Records(DELTAS, KINDS, WORDBOOK).batch(Zset(layout, weights))
        found.validate(full=True)
        assert found.equals(expected)
        assert found.nbytes == expected.nbytes, "no buffer is longer than it must be"
        assert [column.null_count for column in found.columns] == [column.null_count for column in expected.columns]
        plain = Records(PLAIN, KINDS, WORDBOOK).batch(Zset(layout, weights))
        plain.validate(full=True)
        assert plain.equals(expected.drop_columns(["_weight"]))


def test_columns_may_be_other_words_of_a_tuple_than_their_number_says() -> None:
    rows = np.arange(30).reshape(10, 3)
    schema = pa.schema([("c", pa.int64()), ("a", pa.int64()), ("_weight", pa.int64())])
    records = Records(schema, ["int64", "int64"], WORDBOOK, [2, 0], [False, False])
    columns = np.ascontiguousarray(rows.T)
    found = records.written(columns.reshape(-1), 10, 1, np.ones(10, np.int64))
    assert found.to_pydict() == {"c": rows[:, 2].tolist(), "a": rows[:, 0].tolist(), "_weight": [1] * 10}


WORDS = ["int64", "timestamp", "float64"]
OF_WORDS = pa.schema([*((f"c{i}", arrow_type(kind)) for i, kind in enumerate(WORDS)), ("_weight", pa.int64())])


def buffer_of(records: Records, columns: np.ndarray) -> np.ndarray:
    """Returns the columns (int64[columns, rows]) as a kernel leaves them, with what is around them."""
    rows = columns.shape[1]
    return np.concatenate([np.full(records.margin, 77), columns.reshape(-1), np.ones(rows, np.int64)])


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("n", [1, 2, 63, 100])
def test_a_kernels_buffer_becomes_a_batch_where_it_is(n: int, sign: int) -> None:
    columns = np.random.default_rng(n).integers(0, 1000, (4, 100))  # as doubles, none of them is NaN
    words = [3, 0, 1]
    records = Records(OF_WORDS, WORDS, WORDBOOK, words, [True, False, True])
    memory = buffer_of(records, columns)
    found = records.placed(memory, 100, n, sign)
    assert found is not None
    found.validate(full=True)
    wanted = [decode(columns[word, :n].copy(), kind, WORDBOOK.extern) for word, kind in zip(words, WORDS, strict=True)]
    assert found.equals(pa.RecordBatch.from_arrays([*wanted, pa.array([sign] * n, pa.int64())], schema=OF_WORDS))
    assert found.column(0).buffers()[1].address == memory[records.margin :].ctypes.data + 8 * 300, "nothing was copied"
    other = records.placed(memory, 100, n, -sign)
    assert other is not None
    assert other.column("_weight").to_pylist() == [-sign] * n


def test_a_buffer_with_null_among_its_rows_becomes_none_and_nulls_behind_them_do_not_matter() -> None:
    records = Records(OF_WORDS, WORDS, WORDBOOK, [0, 1, 2], [True, False, True])
    for row, there in ((49, False), (50, True)):
        columns = np.zeros((3, 100), np.int64)
        columns[2, row] = NULL
        assert (records.placed(buffer_of(records, columns), 100, 50, 1) is not None) is there


@pytest.mark.parametrize("kind", ["bool", "int32", "decimal(10, 2)", "string"])
def test_columns_that_arrow_keeps_in_another_form_are_not_placed(kind: str) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", arrow_type(kind)), ("_weight", pa.int64())])
    assert Records(schema, ["int64", kind], WORDBOOK).margin == 0


def test_a_batch_keeps_its_memory_and_shares_none_with_the_tuples() -> None:
    rows, weights = np.arange(6).reshape(3, 2), np.ones(3, np.int64)
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("_weight", pa.int64())])
    found = Records(schema, ["int64", "int64"], WORDBOOK).batch(Zset(rows, weights))
    rows[:], weights[:] = 7, 7
    assert found.to_pydict() == {"a": [0, 2, 4], "b": [1, 3, 5], "_weight": [1, 1, 1]}


def test_many_tuples_are_several_batches_and_a_result_without_columns_has_its_weights() -> None:
    schema = pa.schema([("_weight", pa.int64())])
    records = Records(schema, [], WORDBOOK)
    found = list(records.batches(Zset(np.empty((SLICE + 1, 0), np.int64), np.ones(SLICE + 1, np.int64))))
    assert [batch.num_rows for batch in found] == [SLICE, 1]
    assert not list(records.batches(Zset.empty(0)))
