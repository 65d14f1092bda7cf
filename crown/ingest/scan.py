"""Scans of record batches that are what they are declared as: rows that are read, as codes, by one native call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from crown.ingest.kernels import scan
from crown.ingest.selection import Test
from crown.store.codec import uses_dictionary

_ARROW_ARRAY = 10  # words of Arrow's C struct of an array
_FORMS = {"int32": scan.HALF, "date": scan.HALF, "bool": scan.BIT, "float64": scan.FLOAT}


class Scanned(NamedTuple):
    """The rows of a batch that are read.

    ``codes`` int64[columns, k], those of columns that use the dictionary not yet written; ``weights`` int64[k];
    ``rows`` int64[k]: their numbers in the batch, rising, None if they are all of it; ``nulls``: a code is NULL.
    """

    codes: np.ndarray
    weights: np.ndarray
    rows: np.ndarray | None
    nulls: bool


class Scan:
    """Scans batches of one schema.

    ``columns``: the wanted ones, with their types; ``places``: where they, and those that are tested, are in a batch;
    ``weight``: where the weights are, if there are any; ``required``: columns that must not be NULL; ``tests``: all
    that must hold, of one alternative or another; none for all rows. ``most``: how large a weight may be.
    """

    def __init__(
        self,
        columns: Mapping[str, str],
        places: Mapping[str, int],
        weight: int | None,
        required: Sequence[str],
        tests: Sequence[Sequence[Test]],
        most: int,
    ) -> None:
        self._most = most
        self._width = len(columns)
        self.coded = [name for name, kind in columns.items() if uses_dictionary(kind)]
        plan, texts = [-1 if weight is None else weight, len(columns)], bytearray()
        for name, kind in columns.items():
            plan += [places[name], form_of(kind), name in required]
        plan.append(len(tests))
        for alternative in tests:
            plan.append(len(alternative))
            for test in alternative:
                low, high = test.low, test.high
                if test.kind == scan.TEXT:
                    low, high = len(texts), len(test.text)
                    texts += test.text
                elif test.other:
                    low, high = places[test.other], form_of(columns[test.other])
                plan += [test.kind, places[test.column], form_of(columns[test.column]), low, high, -int(test.negated)]
        self._plan = np.array(plan, np.int64)
        self._texts = np.frombuffer(bytes(texts) or b"\0", np.uint8)
        self._exported = np.zeros(_ARROW_ARRAY, np.int64)

    def read(self, batch: pa.RecordBatch) -> Scanned | None:
        """Returns the rows that are read of a batch with rows; None if the batch is not what it is declared as.
        O(rows)."""
        n, exported = batch.num_rows, self._exported
        out, weights = np.empty(self._width * n, np.int64), np.empty(n, np.int64)
        rows, found = np.empty(n, np.int64), np.empty(2, np.int64)
        address = exported.ctypes.data
        batch._export_to_c(address)
        if scan.scan(address, self._plan, self._texts, self._most, out, weights, rows, found) == scan.REFUSED:
            return None
        k, nulls = found.tolist()
        codes = out[: self._width * k].reshape(self._width, k)
        return Scanned(codes, weights[:k], None if k == n else rows[:k], bool(nulls))


def form_of(kind: str) -> int:
    """Returns the form in which Arrow keeps values of a type."""
    if uses_dictionary(kind):
        return scan.OTHER
    return scan.PAIR if kind.startswith("decimal") else _FORMS.get(kind, scan.WORD)
