"""Which rows of a relation are read at all: the others are dropped before anything else is done with them.

Where every occurrence of a relation asks for something, a row for which nobody's conditions hold is read by nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crown.ingest.given import Columns
from crown.store.codec import Intern, decode, encode
from crown.store.flat import words
from plans.expressions.build import conjoin
from plans.expressions.expr import Expr
from plans.reads import Parts
from plans.schema import arrow_type

_Compare = Callable[[np.ndarray, int], np.ndarray]
_Comparison = tuple[str, _Compare, int]
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
        self._compared = [_comparisons(condition, declared, kinds) for condition in self._conditions]

    def rows(self, columns: Columns, n: int, intern: Intern) -> np.ndarray | None:
        """Returns the positions of the rows that are read, int64[k], rising; None if all are. O(n)."""
        keep = self._in_words(columns)
        if keep is not None:
            return None if np.count_nonzero(keep) == n else keep.nonzero()[0]
        values = {name: self._values(name, columns, intern) for name in self._columns}
        verdict = self._conditions[0].evaluate(values, n)
        for condition in self._conditions[1:]:
            verdict = pc.or_kleene(verdict, condition.evaluate(values, n))
        rows = pc.indices_nonzero(verdict)
        return None if len(rows) == n else words(rows)

    def _in_words(self, columns: Columns) -> np.ndarray | None:
        """Returns where a condition holds, bool[n], if NumPy can tell; it needs microseconds where Arrow needs tens."""
        keep = None
        for comparisons in self._compared:
            holds = None
            for name, compare, bound in comparisons or ():
                given = columns.whole(name)
                if given is None:
                    return None
                found = compare(given, bound)
                holds = found if holds is None else holds & found
            if holds is None:
                return None
            keep = holds if keep is None else keep | holds
        return keep

    def _values(self, name: str, columns: Columns, intern: Intern) -> pa.Array:
        column = self._columns[name]
        if name not in self._floats:
            return columns[column]
        return decode(columns.codes(column, intern), "float64", _no_text)


def _comparisons(condition: Expr, declared: Mapping[str, str], kinds: Mapping[str, str]) -> list[_Comparison] | None:
    """Returns a condition as comparisons of columns with words, all of which must hold; None if it is none."""
    found = []
    for part in condition.conjuncts():
        if part.op not in _COMPARE or [arg.op for arg in part.args] != ["col", "literal"]:
            return None
        column, literal = part.args
        name = declared[column.value.lower()]
        if not kinds[name] == column.type == literal.type or column.type not in _WHOLE or literal.value is None:
            return None
        bound = int(encode(pa.array([literal.value], arrow_type(literal.type)), literal.type, _no_codes)[0])
        found.append((name, _COMPARE[part.op], bound))
    return found


def _no_codes(values: pa.Array, add: bool) -> np.ndarray:
    raise AssertionError("a whole number is no text")


def _text(parts: Parts) -> list[str]:
    return sorted(map(str, parts))


def _no_text(codes: np.ndarray, target: pa.DataType) -> pa.Array:
    raise AssertionError("a double is no text")
