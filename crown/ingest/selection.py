"""Which rows of a relation are read at all: the others are dropped before anything else is done with them.

Where every occurrence of a relation asks for something, a row for which no occurrence's conditions hold is not read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crown.ingest.given import Columns
from crown.kernels.batches import texts_equal
from crown.store.arrow_buffers import words
from crown.store.codec import Intern, decode, encode
from plans.expressions.build import conjoin
from plans.expressions.expr import Expr
from plans.reads import Parts
from plans.types import arrow_type

_Compare = Callable[[np.ndarray, int], np.ndarray]
_Test = Callable[[Columns, int], np.ndarray]  # of columns of n rows: where it holds, bool[n]
_WHOLE = ("int32", "int64", "date", "timestamp", "timestamp_ntz")
_COMPARE: dict[str, _Compare] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


class Selection:
    """The rows of a relation for which one of some ``conditions`` holds; ``kinds``: the types of its columns.

    ``coded``: doubles are seen as codes have them, with one zero, and one NaN.
    """

    def __init__(self, conditions: Collection[Parts], kinds: Mapping[str, str], coded: bool) -> None:
        self._conditions = [conjoin(sorted(parts, key=str)) for parts in sorted(conditions, key=_text)]
        declared = {name.lower(): name for name in kinds}
        read = {name for condition in self._conditions for name in condition.columns}
        self._columns = {name: declared[name.lower()] for name in read}
        self._floats = {name for name, column in self._columns.items() if coded and kinds[column] == "float64"}
        self._tests = [_tests(condition, declared, kinds) for condition in self._conditions]

    def rows(self, columns: Columns, n: int, intern: Intern) -> np.ndarray | None:
        """Returns the positions of the rows that are read, int64[k], rising; None if all are. O(n)."""
        keep = self._tested(columns, n)
        if keep is not None:
            return None if np.count_nonzero(keep) == n else keep.nonzero()[0]
        values = {name: self._values(name, columns, intern) for name in self._columns}
        verdict = self._conditions[0].evaluate(values, n)
        for condition in self._conditions[1:]:
            verdict = pc.or_kleene(verdict, condition.evaluate(values, n))
        rows = pc.indices_nonzero(verdict)
        return None if len(rows) == n else words(rows)

    def _tested(self, columns: Columns, n: int) -> np.ndarray | None:
        """Returns where a condition holds, bool[n], if it can be told without Arrow: in microseconds, not in tens."""
        keep = None
        for tests in self._tests:
            if not tests:
                return None
            holds = tests[0](columns, n)
            for test in tests[1:]:
                holds = holds & test(columns, n)
            keep = holds if keep is None else keep | holds
        return keep

    def _values(self, name: str, columns: Columns, intern: Intern) -> pa.Array:
        column = self._columns[name]
        if name not in self._floats:
            return columns[column]
        return decode(columns.codes(column, intern), "float64", _no_text)


def _tests(condition: Expr, declared: Mapping[str, str], kinds: Mapping[str, str]) -> list[_Test]:
    """Returns a condition as tests of single columns, all of which must hold; none if it is no such condition."""
    found = []
    for part in condition.conjuncts():
        test = _test(part, declared, kinds)
        if test is None:
            return []
        found.append(test)
    return found


def _test(part: Expr, declared: Mapping[str, str], kinds: Mapping[str, str]) -> _Test | None:
    """Returns the test for a column that is NULL, or is not, or that is compared with a word, or a text; else None."""
    inner = part.args[0] if part.op == "not" else part
    if inner.op == "isnull" and inner.args[0].op == "col":
        return _of_nulls(declared[inner.args[0].value.lower()], part is inner)
    if part.op not in _COMPARE or [arg.op for arg in part.args] != ["col", "literal"]:
        return None
    column, literal = part.args
    name = declared[column.value.lower()]
    if not kinds[name] == column.type == literal.type or literal.value is None:
        return None
    if column.type in _WHOLE:
        bound = int(encode(pa.array([literal.value], arrow_type(literal.type)), literal.type, _no_codes)[0])
        return _of_words(name, _COMPARE[part.op], bound)
    if column.type == "string" and part.op in ("eq", "ne"):
        return _of_texts(name, literal.value.encode(), part.op == "eq")
    return None


def _of_nulls(name: str, null: bool) -> _Test:
    def test(columns: Columns, n: int) -> np.ndarray:
        there = columns.valid(name)
        if there is None:
            return np.full(n, not null)
        return ~there if null else there

    return test


def _of_words(name: str, compare: _Compare, bound: int) -> _Test:
    def test(columns: Columns, n: int) -> np.ndarray:
        found, there = columns.any_words(name)
        return _there(compare(found, bound), there)

    return test


def _of_texts(name: str, text: bytes, equal: bool) -> _Test:
    wanted = np.array(bytearray(text), np.uint8)

    def test(columns: Columns, n: int) -> np.ndarray:
        found = np.empty(n, bool)
        given = columns.texts(name)
        texts_equal(given.ends, given.data, wanted, equal, found)
        return _there(found, columns.valid(name))

    return test


def _there(found: np.ndarray, valid: np.ndarray | None) -> np.ndarray:
    """Returns where something holds of a value that is there."""
    return found if valid is None else found & valid


def _no_codes(values: pa.Array, add: bool) -> np.ndarray:
    raise AssertionError("a whole number is no text")


def _text(parts: Parts) -> list[str]:
    return sorted(map(str, parts))


def _no_text(codes: np.ndarray, target: pa.DataType) -> pa.Array:
    raise AssertionError("a double is no text")
