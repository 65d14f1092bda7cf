"""Columns of codes that turn into Arrow arrays where an expression reads them, and back: each at most once.

Most columns pass through a stage as codes; only what a predicate or a computed column reads is ever decoded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from crown.errors import ChangeError
from crown.kernels.batches import extent
from crown.kernels.strings import NULL
from crown.store.codec import UnencodableError, decode, encode, uses_dictionary
from crown.store.dictionary import Dictionary
from crown.store.flat import flags, valid
from crown.store.zset import Zset
from plans.expressions.expr import Expr
from plans.plan import Output
from plans.schema import arrow_type


class Column:
    """A column of ``type``, given as ``codes`` (int64[n]), as an Arrow ``array``, or as both."""

    __slots__ = ("_array", "_codes", "_dictionary", "type")

    def __init__(self, type_: str, dictionary: Dictionary, codes: np.ndarray | None = None, array: Any = None) -> None:
        self.type = type_
        self._dictionary = dictionary
        self._codes = codes
        self._array = array

    @property
    def codes(self) -> np.ndarray:
        """Returns the codes, int64[n], contiguous. New values enter the dictionary. O(n) the first time."""
        if self._codes is None:
            try:
                self._codes = encode(self._array, self.type, self._dictionary.intern)
            except UnencodableError as error:
                raise ChangeError(f"a computed column: {error.reason}") from None
        return self._codes

    @property
    def array(self) -> pa.Array:
        """Returns the values, of ``arrow_type(type)``. O(n) the first time."""
        if self._array is None:
            self._array = decode(np.ascontiguousarray(self._codes), self.type, self._dictionary.extern)
        return self._array

    def valid(self) -> np.ndarray | None:
        """Returns bool[n]: where there is a value; None for everywhere. Neither decodes nor codes anything. O(n)."""
        if self._codes is None:
            array = self._array
            return valid(array) if array.null_count else None
        codes = self._codes
        return codes != NULL if len(codes) and extent(np.ascontiguousarray(codes))[0] == NULL else None

    def words(self) -> np.ndarray:
        """Returns the values of a number's column as integers, int64[n, 1 or 2]: words, or 128-bit decimals.

        What stands for NULL is undefined.
        """
        if not uses_dictionary(self.type):
            return self.codes.reshape(-1, 1)
        array = self.array
        data = np.frombuffer(array.buffers()[1] or b"", np.int64)
        return data[2 * array.offset : 2 * (array.offset + len(array))].reshape(-1, 2)

    def __getitem__(self, keep: np.ndarray) -> Column:
        """Returns the rows where ``keep`` (bool[n]) says so, in the form that is there."""
        if self._codes is not None:
            return Column(self.type, self._dictionary, self._codes[keep])
        return Column(self.type, self._dictionary, None, self._array.filter(pa.array(keep)))


Places = Mapping[str, tuple[int, str]]
"""Which word of a tuple each column is, by name, and its type."""


class Frame:
    """Named columns of ``n`` rows: those that were ``made``, and those that are words of tuples, ``codes`` int64[words,
    n], at some ``places``. Nothing is done for a column that nobody asks for."""

    def __init__(
        self,
        made: dict[str, Column],
        n: int,
        dictionary: Dictionary,
        codes: np.ndarray | None = None,
        places: Places = MappingProxyType({}),
    ) -> None:
        self.n = n
        self._made = made
        self._dictionary = dictionary
        self._codes = codes
        self._places = places

    @classmethod
    def of(cls, net: Zset, places: Places, dictionary: Dictionary) -> Frame:
        """Returns the frame of a net's tuples."""
        return cls({}, len(net), dictionary, net.columns(), places)

    def __getitem__(self, name: str) -> Column:
        column = self._made.get(name)
        if column is None:
            assert self._codes is not None, "else all columns were made"
            word, type_ = self._places[name]
            column = self._made[name] = Column(type_, self._dictionary, self._codes[word])
        return column

    def matrix(self, names: Sequence[str]) -> np.ndarray:
        """Returns the codes of some columns, int64[columns, n], contiguous; perhaps a view. O(codes)."""
        if self._codes is not None and self._made.keys().isdisjoint(names):
            words = [self._places[name][0] for name in names]
            if words == list(range(len(words))) and self._codes.flags.c_contiguous:
                return self._codes[: len(words)]
            return self._codes.take(words, axis=0)
        found = np.empty((len(names), self.n), np.int64)
        for i, name in enumerate(names):
            column = self._made.get(name)
            if column is None and self._codes is not None:
                found[i] = self._codes[self._places[name][0]]
            else:
                found[i] = self[name].codes
        return found

    def chosen(self, keep: np.ndarray) -> Frame:
        """Returns the rows where ``keep`` (bool[n]) says so."""
        rows = keep.nonzero()[0]
        codes = None if self._codes is None else self._codes.take(rows, axis=1)
        made = {name: column[keep] for name, column in self._made.items()}
        return Frame(made, len(rows), self._dictionary, codes, self._places)

    def extended(self, outputs: Sequence[Output], plain: Mapping[str, str], places: Places) -> Frame:
        """Returns the frame that has ``outputs`` of expressions, and at ``places`` the columns of other names that
        ``plain`` gives."""
        made = dict(zip([output.name for output in outputs], self.computed(outputs), strict=True))
        made |= {name: self._made[of] for name, of in plain.items() if of in self._made}  # what is decoded stays so
        return Frame(made, self.n, self._dictionary, self._codes, places)

    def holds(self, predicate: Expr) -> np.ndarray:
        """Returns bool[n]: where the predicate is TRUE."""
        verdict = predicate.evaluate(self._read(predicate), self.n)
        return flags(verdict.fill_null(False) if verdict.null_count else verdict)

    def computed(self, outputs: Sequence[Output]) -> list[Column]:
        """Returns the columns that expressions make; plain ones are not even decoded."""
        made = []
        for output in outputs:
            expr = output.expr
            if expr.op == "col" and self[expr.value].type == output.type:
                made.append(self[expr.value])
            else:
                array, target = expr.evaluate(self._read(expr), self.n), arrow_type(output.type)
                array = array if array.type == target else array.cast(target)
                made.append(Column(output.type, self._dictionary, None, array))
        return made

    def _read(self, expression: Expr) -> dict[str, pa.Array]:
        return {name: self[name].array for name in expression.columns}
