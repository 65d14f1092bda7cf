"""Converts columns between codes and Arrow when an expression reads them, each at most once.

Most columns pass through a stage as codes. Only columns that a predicate or a computed column reads are decoded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from crown.errors import ChangeError
from crown.expressions.kernels.evaluate import CODES, PAIRS, WORDS
from crown.expressions.literals import WIDE_NULL, is_wide
from crown.expressions.program import Program, is_native, native
from crown.kernels.batches import extent
from crown.kernels.strings import NULL
from crown.store.arrow_buffers import bits, flags, valid
from crown.store.codec import UnencodableError, decode, encode, uses_dictionary
from crown.store.dictionary import Dictionary
from crown.store.zset import Zset
from plans.expressions.build import conjoin
from plans.expressions.columns.packed import elements_of
from plans.expressions.evaluate import Evaluator
from plans.expressions.expr import Expr
from plans.plan import Output
from plans.types import arrow_type

_NO_PAIRS = np.empty(0, np.int64)


class Column:
    """A column of ``type``, given as ``codes`` (int64[n]), as an Arrow ``array``, or as both."""

    __slots__ = ("_array", "_codes", "_dictionary", "type")

    def __init__(self, type_: str, dictionary: Dictionary, codes: np.ndarray | None = None, array: Any = None) -> None:
        self.type = type_
        self._dictionary = dictionary
        self._codes = codes
        self._array = array

    @classmethod
    def of_words(cls, type_: str, dictionary: Dictionary, words: np.ndarray) -> Column:
        """Returns a column of values as native expressions return them, wide decimals as in ``pairs``. O(1), O(n) for
        wide decimals."""
        if not is_wide(type_):
            return cls(type_, dictionary, words)
        none = words[1::2] == NULL
        nulls = int(np.count_nonzero(none))
        buffers = [bits(~none) if nulls else None, pa.py_buffer(words)]
        return cls(type_, dictionary, None, pa.Array.from_buffers(arrow_type(type_), len(none), buffers, nulls))

    @property
    def codes(self) -> np.ndarray:
        """Returns the codes, int64[n], contiguous. Adds new values to the dictionary. O(n) the first time."""
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
        """Returns bool[n], True for a value that is not NULL, or None if all are. Neither decodes nor encodes anything.
        O(n)."""
        if self._codes is None:
            array = self._array
            return valid(array) if array.null_count else None
        codes = self._codes
        return codes != NULL if len(codes) and extent(np.ascontiguousarray(codes))[0] == NULL else None

    def words(self) -> np.ndarray:
        """Returns the values of a numeric column as integers, int64[n, 1 or 2]: words, or 128-bit decimals.

        The words of NULLs are undefined.
        """
        if not uses_dictionary(self.type):
            return self.codes.reshape(-1, 1)
        array = self.array
        data = np.frombuffer(array.buffers()[1] or b"", np.int64)
        return data[2 * array.offset : 2 * (array.offset + len(array))].reshape(-1, 2)

    def pairs(self) -> np.ndarray:
        """Returns the values of wide decimals without codes, int64[2n], low and high words alternating. NULL is a high
        word."""
        found = self.words()
        there = self.valid()
        if there is not None:
            found = found.copy()
            found[~there] = WIDE_NULL
        return found.reshape(-1)

    @property
    def coded(self) -> bool:
        """Returns True if the column has codes already."""
        return self._codes is not None

    def taken(self, rows: np.ndarray) -> Column:
        """Returns the rows at some positions (int64[k]), as codes if the column has codes, else as values."""
        if self._codes is not None:
            return Column(self.type, self._dictionary, self._codes[rows])
        return Column(self.type, self._dictionary, None, self._array.take(pa.array(rows)))


Places = Mapping[str, tuple[int, str]]
"""By column name: the position of the column's word in a tuple, and its type."""


class Frame:
    """Named columns of ``n`` rows: the ``made`` columns, and words of tuples.

    ``codes`` int64[words, n]: the tuples. ``places``: the columns among their words. A column that is not read costs
    nothing.
    """

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
        self.dictionary = dictionary
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
            column = self._made[name] = Column(type_, self.dictionary, self._codes[word])
        return column

    def matrix(self, names: Sequence[str]) -> np.ndarray:
        """Returns the codes of some columns, int64[columns, n], contiguous; perhaps a view. O(codes)."""
        if self._codes is not None and self._made.keys().isdisjoint(names):
            words = [self._places[name][0] for name in names]
            if words == list(range(len(words))) and self._codes.flags.c_contiguous:
                return self._codes[: len(words)]
            return self._codes.take(np.array(words, np.intp), axis=0)
        found = np.empty((len(names), self.n), np.int64)
        for i, name in enumerate(names):
            column = self._made.get(name)
            if column is None and self._codes is not None:
                found[i] = self._codes[self._places[name][0]]
            else:
                found[i] = self[name].codes
        return found

    def chosen(self, keep: np.ndarray) -> Frame:
        """Returns the rows that ``keep`` (bool[n]) selects."""
        return self._taken(keep.nonzero()[0])

    def _taken(self, rows: np.ndarray) -> Frame:
        codes = None if self._codes is None else self._codes.take(rows, axis=1)
        made = {name: column.taken(rows) for name, column in self._made.items()}
        return Frame(made, len(rows), self.dictionary, codes, self._places)

    def exploded(self, element: Output) -> tuple[Frame, np.ndarray]:
        """Returns a frame with one row per element of the array column ``element.name``, in which the element replaces
        the array, and the row of each element (int64[elements]). O(rows and elements)."""
        sizes, elements = elements_of(self[element.name].array)
        rows = np.repeat(np.arange(self.n), sizes)
        del self._made[element.name]
        found = self._taken(rows)
        found._made[element.name] = Column(element.type, self.dictionary, None, elements)
        return found, rows

    def projected(self, projection: Projection) -> Frame:
        """Returns the frame of a projection's outputs. O(n) for each computed output, O(1) for the others."""
        made = {name: self._made[of] for name, of in projection.plain.items() if of in self._made}
        if projection.native is not None:
            made.update(zip(projection.fast, self._evaluated(projection.native), strict=True))
        if projection.computed:
            columns = {name: self[name].array for name in projection.reads}
            arrays = projection.evaluator.evaluate(columns, self.n)
            for (name, type_, target), array in zip(projection.computed, arrays, strict=True):
                found = array if array.type == target else array.cast(target)
                made[name] = Column(type_, self.dictionary, None, found)
        return Frame(made, self.n, self.dictionary, self._codes, projection.places)

    def holds(self, predicate: Expr) -> np.ndarray:
        """Returns bool[n], True where the predicate is TRUE."""
        program = native((predicate,))
        if program is not None:
            return self._evaluated(program)[0].codes == 1
        verdict = predicate.evaluate({name: self[name].array for name in predicate.columns}, self.n)
        return flags(verdict.fill_null(False) if verdict.null_count else verdict)

    def _evaluated(self, program: Program) -> list[Column]:
        """Returns the values of native expressions. O(n)."""
        n = self.n
        out = program.run(*self.inputs(program.reads), self.dictionary)
        found, at = [], 0
        for type_ in program.types:
            size = 2 * n if is_wide(type_) else n
            found.append(Column.of_words(type_, self.dictionary, out[at : at + size]))
            at += size
        return found

    def inputs(self, columns: Sequence[tuple[str, bool]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns columns, each given with whether it is a wide decimal, as arguments of kernels. O(columns * n).

        The codes int64[columns, n]; the forms, int64[2 * columns], each with the place where its column begins; and the
        wide decimals without codes: see ``crown.expressions.kernels.evaluate``.
        """
        n, forms, pairs, words = self.n, list[tuple[int, int]](), [_NO_PAIRS], []
        for name, wide in columns:
            made = self._made.get(name)
            if not wide:
                forms.append((WORDS, n * len(forms)))
            elif made is None or made.coded:
                forms.append((CODES, n * len(forms)))
            else:
                forms.append((PAIRS, 2 * n * (len(pairs) - 1)))
                pairs.append(made.pairs())
                continue
            words.append(name)
        inputs = np.ascontiguousarray(self.matrix(words))
        if len(pairs) > 1:
            given, inputs = inputs, np.empty((len(forms), n), np.int64)
            inputs[[form != PAIRS for form, _ in forms]] = given
        return inputs, np.array(forms, np.int64).reshape(-1), np.concatenate(pairs)


class NativeFeed(NamedTuple):
    """A feed that a kernel evaluates: a filter and a projection, with the expressions of ``program``.

    - ``columns``: per column of the output, a column of the input, or -1 - a word of the outputs of the program.
    - ``program_columns``: the columns of the input that the program reads.
    - ``filters``: True if the first output of the program is the filter; otherwise all rows enter.
    - ``wide``: the columns of the output with two words per row.
    """

    columns: tuple[int, ...]
    program: Program | None = None
    program_columns: tuple[int, ...] = ()
    filters: bool = False
    wide: frozenset[int] = frozenset()


class Projection:
    """Outputs as functions of the columns of frames, which have the ``types``; columns in ``given`` are words of
    tuples.

    ``names``: all outputs. ``plain``: name -> column, for the outputs that are columns; ``passes`` if all are.
    ``places``: the outputs that are words of tuples. ``fast``: the outputs that ``native`` computes. ``computed``:
    name, type and Arrow type of the other outputs, in the order of ``evaluator``, which ``reads`` columns.
    """

    def __init__(self, outputs: Sequence[Output], types: Mapping[str, str], given: Places) -> None:
        self.names = [output.name for output in outputs]
        self._exprs = {output.name: output.expr for output in outputs}
        self.plain = {o.name: o.expr.value for o in outputs if o.expr.op == "col" and types[o.expr.value] == o.type}
        self.places = {name: given[of] for name, of in self.plain.items() if of in given}
        made = [output for output in outputs if output.name not in self.plain]
        self.passes = not made
        fast = [output for output in made if output.expr.type == output.type and is_native(output.expr)]
        rest = [output for output in made if output not in fast]
        self.fast = [output.name for output in fast]
        self.native = native(tuple(output.expr for output in fast)) if fast else None
        self.computed = [(output.name, output.type, arrow_type(output.type)) for output in rest]
        self.reads = sorted(frozenset[str]().union(*(output.expr.columns for output in rest)))
        self.evaluator = Evaluator([output.expr for output in rest])

    def native_feed(self, names: Sequence[str], given: Places, conditions: Sequence[Expr] = ()) -> NativeFeed | str:
        """Returns the native form of these outputs for the tuples that meet all conditions, or why there is none."""
        where = conjoin(conditions) if conditions else None
        parts = [*conditions, *(self._exprs[name] for name, _, _ in self.computed)]
        not_native = next((part for part in parts if not is_native(part)), None)
        if not_native is not None or self.computed:
            return f"{not_native or parts[-1]} has no native form"
        computed = [name for name in self.fast if name in names]
        program = native((*([] if where is None else [where]), *(self._exprs[name] for name in computed)))
        if program is None:
            return f"{where} has no native form"
        position, places = -1, dict[str, int]()
        if where is not None:
            position -= 1
        for name in computed:
            places[name] = position
            position -= 2 if is_wide(self._exprs[name].type) else 1
        columns = tuple(places[n] if n in places else given[self.plain[n]][0] for n in names)
        wide = frozenset(i for i, n in enumerate(names) if n in places and is_wide(self._exprs[n].type))
        if not program.types:
            return NativeFeed(columns)
        program_columns = tuple(given[name][0] for name, _ in program.reads)
        return NativeFeed(columns, program, program_columns, where is not None, wide)
