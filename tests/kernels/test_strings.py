"""The dictionary of byte values against a dict: codes that stay, short values, sweeps, the budget, a full arena."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crown.kernels import strings
from crown.kernels.memory import arena as A
from crown.kernels.memory.tables import table_at
from tests.kernels.wrappers import alloc, check_allocator, insert, new_arena, until_full

T, RECORDS = int(table_at(0)), int(table_at(1))
EDGES = [0, 1, -1, 2**61 - 1, -(2**61), 2**61, -(2**61) - 1, 2**63 - 1, -(2**63), 2**63, 2**64, -(2**64), 10**37]
NUMBERS = [number.to_bytes(16, "little", signed=True) for number in EDGES]
VALUES = st.binary(max_size=20) | st.sampled_from(
    [b"", b"\0", b"\0\0", b"\0" * 8, b"\xff" * 8, b"a" * 7, b"a" * 8, b"a" * 9, *NUMBERS]
)


def short_code(value: bytes) -> int | None:
    """The code that a value has without an entry."""
    number = int.from_bytes(value, "little", signed=True)
    if len(value) < 8:
        return -(2**63) + ((len(value) + 1) << 56) + int.from_bytes(value, "little")
    if len(value) == 16 and -(2**61) <= number < 2**61:
        return -(2**62) + number % 2**62
    return None


class Strings:
    """A dictionary in an arena of its own, and the Python dict (value -> code) that it should be."""

    def __init__(self, size: int = 1 << 15) -> None:
        self.arena = new_arena(size, tables_=2)
        self.octets = self.arena.view(np.uint8)
        self.model: dict[bytes, int] = {}

    def encode(self, values: list[bytes], add: bool = True) -> tuple[int, list[int]]:
        """(how many codes were filled, the codes; -1 where none was)."""
        offsets = np.cumsum([0, *map(len, values)], dtype=np.int64)
        data = np.frombuffer(b"".join(values) + b"\0", np.uint8)
        codes = np.full(len(values), -1, np.int64)
        none = np.empty(0, np.int64)
        done = int(strings.encode(self.arena, T, data.ctypes.data, offsets, none, codes, 0, int(add)))
        return done, codes.tolist()

    def decode(self, codes: list[int]) -> list[bytes]:
        words = np.array(codes, np.int64)
        offsets = np.empty(len(codes) + 1, np.int64)
        data = np.empty(int(strings.decoded_size(self.arena, words, offsets)), np.uint8)
        strings.decode(self.arena, self.octets, words, offsets, data)
        return [data[a:b].tobytes() for a, b in pairwise(offsets)]

    def add(self, *values: bytes) -> None:
        done, codes = self.encode(list(values))
        assert done == len(values)
        for value, code in zip(values, codes, strict=True):
            assert self.model.setdefault(value, code) == code, "a code stays as long as its entry lives"

    @property
    def entries(self) -> dict[bytes, int]:
        return {value: code for value, code in self.model.items() if short_code(value) is None}

    def check(self) -> None:
        assert len(set(self.model.values())) == len(self.model), "two values have one code"
        assert all(short_code(value) in (None, code) for value, code in self.model.items())
        assert strings.NULL not in self.model.values()
        assert self.arena[T + A.T_COUNT] == len(self.entries)
        assert self.decode(list(self.model.values())) == list(self.model)
        assert self.encode(list(self.model), add=False)[1] == list(self.model.values())
        blocks = {code: 1 + (len(value) + 7) // 8 for value, code in self.entries.items()}
        slots = {int(self.arena[t + A.T_SLOTS]): int(self.arena[t + A.T_CAPACITY]) for t in (T, RECORDS)}
        check_allocator(self.arena, {**blocks, **slots}, 2)

    def sweep(self, kept: list[bytes]) -> int:
        """Free all values but these."""
        strings.mark_codes(self.arena, np.array([self.model[value] for value in kept] + [strings.NULL], np.int64))
        freed = int(strings.sweep(self.arena, T, np.empty(len(self.model), np.int64)))
        self.model = {value: code for value, code in self.entries.items() if value in kept}
        return freed


@given(st.lists(st.tuples(st.lists(VALUES, max_size=12), st.integers(0, 2**32)), max_size=6))
def test_a_dictionary_is_a_dict_through_any_number_of_sweeps(rounds: list[tuple[list[bytes], int]]) -> None:
    dictionary = Strings()
    for values, seed in rounds:
        dictionary.add(*values)
        dictionary.check()
        before = len(dictionary.entries)
        kept = [value for i, value in enumerate(dictionary.model) if seed >> i & 1]
        entries = sum(value in dictionary.entries for value in kept)
        assert dictionary.sweep(kept) == before - entries
        assert dictionary.arena[A.H_DICT_SWEPT] == dictionary.arena[A.H_LIVE]
        dictionary.check()
    dictionary.sweep([])
    dictionary.check()
    assert not dictionary.arena[T + A.T_COUNT]


def test_values_that_differ_in_trailing_zeros_only_are_different() -> None:
    dictionary = Strings()
    dictionary.add(*(b"\0" * n for n in range(20)))
    dictionary.check()
    assert len(dictionary.model) == 20


def test_a_short_value_is_its_own_code_and_has_no_entry() -> None:
    dictionary = Strings()
    values = [b"", b"a", b"a\0", b"1234567", *NUMBERS[:5]]
    dictionary.add(*values)
    assert not dictionary.entries
    assert dictionary.encode([*values, NUMBERS[5]], add=False)[1] == [*map(short_code, values), 0]
    dictionary.check()


def test_an_unknown_value_is_not_entered_unless_asked_and_has_code_0() -> None:
    dictionary = Strings()
    dictionary.add(b"is known")
    assert dictionary.encode([b"is unknown", b"is known"], add=False) == (2, [0, dictionary.model[b"is known"]])
    dictionary.check()


def test_values_are_found_in_blocks_of_any_size() -> None:
    dictionary = Strings()
    values = [b"value %d" % (i % 150) if i % 7 else b"%d" % i for i in range(300)]
    for size in (1, 63, 64, 65, 128, 300):
        dictionary.add(*values[:size])
        dictionary.check()


def test_null_has_no_bytes_and_is_not_looked_up() -> None:
    dictionary = Strings()
    dictionary.add(b"x")
    assert dictionary.decode([strings.NULL, dictionary.model[b"x"], strings.NULL]) == [b"", b"x", b""]


def test_a_budget_stops_the_encoding_where_it_is_used_up() -> None:
    dictionary = Strings()
    dictionary.arena[A.H_BUDGET] = dictionary.arena[A.H_LIVE] + 9
    values = [b"12345678" + bytes([i]) for i in range(10)]  # three words each
    done, codes = dictionary.encode(values)
    assert done == 4, "an entry may begin while what is live is not more than the budget"
    dictionary.model = dict(zip(values[:4], codes[:4], strict=True))
    dictionary.check()
    dictionary.arena[A.H_BUDGET] = dictionary.arena[A.H_LIMIT]
    dictionary.add(*values)
    dictionary.check()


def test_a_full_arena_leaves_the_dictionary_as_it_was() -> None:
    dictionary = Strings(int(A.header_words(2)) + 500)
    number = iter(range(10_000))
    before = until_full(dictionary.arena, lambda: dictionary.add(b"number %d" % next(number)))
    assert len(dictionary.model) > 20
    assert dictionary.arena[T + A.T_COUNT] == before[T + A.T_COUNT]
    dictionary.check()
    assert dictionary.sweep([b"number 0"]) > 20
    dictionary.add(*(b"again %d" % i for i in range(20)))
    dictionary.check()


def test_marks_are_taken_from_a_column_of_records_and_are_gone_after_the_sweep() -> None:
    dictionary = Strings()
    dictionary.add(b"the value a", b"the value b", b"the value c")
    for value in (b"the value a", b"the value c", None):
        record = int(alloc(dictionary.arena, 2))
        dictionary.arena[record] = 77
        dictionary.arena[record + 1] = strings.NULL if value is None else dictionary.model[value]
        insert(dictionary.arena, RECORDS, np.int64(record), record)
    strings.mark(dictionary.arena, dictionary.arena, RECORDS, 1)
    assert strings.sweep(dictionary.arena, T, np.empty(3, np.int64)) == 1
    known = [dictionary.model[b"the value a"], 0, dictionary.model[b"the value c"]]
    assert dictionary.encode([b"the value a", b"the value b", b"the value c"], add=False)[1] == known
    assert dictionary.decode([dictionary.model[b"the value a"]]) == [b"the value a"], "the length is what it was"
    assert strings.sweep(dictionary.arena, T, np.empty(2, np.int64)) == 2
