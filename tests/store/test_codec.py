"""Values of every type to codes and back: extremes, NULLs, slices; equal codes exactly for equal values."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crown.kernels.memory import arena as A
from crown.kernels.memory.tables import new_table, table_at
from crown.kernels.strings import NULL
from crown.store.budget import Budget
from crown.store.codec import UnencodableError, decode, encode, uses_dictionary
from crown.store.dictionary import Dictionary
from plans.nested import is_nested
from plans.types import arrow_type


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda n: Decimal((n < 0, tuple(map(int, str(abs(n)))), -scale)))


_MOMENTS = st.integers(-(2**63) + 1, 2**63 - 1)  # microseconds: Arrow's whole range, not Python's years 1 to 9999
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63) + 1, 2**63 - 1),
    "float64": st.floats(),
    "date": st.integers(-(2**31), 2**31 - 1),  # days
    "timestamp": _MOMENTS,
    "timestamp_ntz": _MOMENTS,
    "decimal(18,4)": _decimals(18, 4),
    "decimal(1,0)": _decimals(1, 0),
    "decimal(19,0)": _decimals(19, 0),
    "decimal(38,38)": _decimals(38, 38),
    "string": st.text(max_size=12),
    "binary": st.binary(max_size=12),
}


def _list(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.none() | values, max_size=3)


VALUES |= {
    "array<int64>": _list(VALUES["int64"]),
    "array<array<string>>": _list(_list(VALUES["string"])),
    "array<bool>": _list(VALUES["bool"]),
    "map<string,decimal(19,0)>": st.dictionaries(VALUES["string"], st.none() | VALUES["decimal(19,0)"], max_size=3).map(
        lambda one: sorted(one.items())
    ),
    "struct<a:array<decimal(18,4)>,b:struct<c:float64,d:binary>>": st.fixed_dictionaries(
        {
            "a": st.none() | _list(VALUES["decimal(18,4)"]),
            "b": st.none()
            | st.fixed_dictionaries({"c": st.none() | st.integers(-9, 9).map(float), "d": VALUES["binary"]}),
        }
    ),
}


def _dictionary() -> Dictionary:
    M = np.zeros(1 << 16, np.int64)
    A.format_arena(M, 1, len(M), 3)
    new_table(M, int(table_at(0)))
    return Dictionary(M, int(table_at(0)), Budget([M]))


def _array(values: list[Any], kind: str) -> pa.Array:
    """An array that begins in the middle of its buffers, as slices of a user's table do."""
    target = arrow_type(kind)
    raw = pa.int32() if kind == "date" else pa.int64() if kind.startswith("timestamp") else None
    padded = [None, *values[:1], *values, None]
    array = pa.array(padded, target) if raw is None else pa.array(padded, raw).cast(target)
    return array.slice(1 + len(values[:1]), len(values))


def _same(x: Any, y: Any) -> bool:
    """Equality as the engine has it: NULL, NaN and zero are one value each."""
    if isinstance(x, float) and isinstance(y, float) and math.isnan(x) and math.isnan(y):
        return True
    return (x is None) == (y is None) and x == y


def _comparable(array: pa.Array) -> list[Any]:
    """The values; dates and moments as numbers, because Python does not know all of them."""
    if pa.types.is_date(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    found: list[Any] = array.to_pylist()
    return found


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data())
def test_decoding_gives_back_what_was_encoded(kind: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | VALUES[kind], max_size=8))
    array, dictionary = _array(values, kind), _dictionary()
    codes = encode(array, kind, dictionary.intern)
    assert codes.dtype == np.int64
    assert ((codes == NULL) == np.array(array.is_null())).all(), "only NULL has the code of NULL"
    back = decode(codes, kind, dictionary.extern)
    back.validate(full=True)
    assert back.type == arrow_type(kind)
    assert all(map(_same, _comparable(back), _comparable(array)))
    assert len(back) == len(array)
    if codes.size:
        part = decode(codes[1:].copy(), kind, dictionary.extern)
        assert all(map(_same, _comparable(part), _comparable(array)[1:]))


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data())
def test_equal_values_and_no_others_have_equal_codes(kind: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | VALUES[kind], min_size=2, max_size=6))
    values += data.draw(st.permutations(values))
    array, dictionary = _array(values, kind), _dictionary()
    codes = encode(array, kind, dictionary.intern).tolist()
    shown = _comparable(array)
    for i, x in enumerate(shown):
        for j, y in enumerate(shown[:i]):
            assert (codes[i] == codes[j]) == _same(x, y), (x, y)


EXTREMES: dict[str, list[Any]] = {
    "int32": [-(2**31), 2**31 - 1],
    "int64": [-(2**63) + 1, 2**63 - 1],
    "float64": [-math.inf, math.inf, 5e-324, -1.7976931348623157e308],
    "date": [-(2**31), 2**31 - 1],
    "timestamp": [-(2**63) + 1, 2**63 - 1],
    "decimal(18,0)": [Decimal(10**18 - 1), Decimal(1 - 10**18)],
    "decimal(38,0)": [Decimal("9" * 38), Decimal("-" + "9" * 38)],
    "string": ["", "\0", "é" * 1000, "𝄞"],
    "binary": [b"", b"\0", b"\xff" * 1000],
}


@pytest.mark.parametrize("kind", EXTREMES)
def test_extremes_come_back(kind: str) -> None:
    array, dictionary = _array(EXTREMES[kind], kind), _dictionary()
    assert decode(encode(array, kind, dictionary.intern), kind, dictionary.extern).equals(array)


def test_zeros_are_one_value_and_so_are_nans() -> None:
    odd = np.array([0x7FF8000000000001, -1], np.int64).view(np.float64)  # two other bit patterns of NaN
    codes = encode(pa.array([0.0, -0.0, math.nan, *odd]), "float64", _dictionary().intern)
    assert codes[0] == codes[1] == 0
    assert len(set(codes[2:].tolist())) == 1


@pytest.mark.parametrize("kind", ["int64", "timestamp", "timestamp_ntz"])
def test_the_value_that_is_reserved_for_null_is_refused_with_its_row(kind: str) -> None:
    array = _array([None, 1, None, NULL, 5], kind)
    with pytest.raises(
        UnencodableError, match="is reserved for NULL; store it in a decimal or string column"
    ) as caught:
        encode(array, kind, _dictionary().intern)
    assert caught.value.row == 3, "NULLs before it are counted"


def test_only_values_wider_than_a_word_go_through_the_dictionary() -> None:
    wide = ["decimal(19,0)", "decimal(38,38)", "string", "binary", *filter(is_nested, VALUES)]
    assert [kind for kind in VALUES if uses_dictionary(kind)] == wide


def test_unknown_values_that_must_not_be_entered_have_the_code_of_no_row() -> None:
    dictionary = _dictionary()
    assert encode(pa.array(["unknown!", None]), "string", dictionary.intern, add=False).tolist() == [0, NULL]
    assert len(dictionary) == 0


def test_moments_keep_their_microseconds() -> None:
    moment = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)
    array = pa.array([moment], pa.timestamp("us"))
    codes = encode(array, "timestamp_ntz", _dictionary().intern)
    assert codes.tolist() == [-1]
    assert decode(codes, "timestamp_ntz", _dictionary().extern).to_pylist() == [moment]
