"""Tables and queries over integers only: what an engine that takes no other values is given.

A date is its days since 1970, a decimal its digits, a text its number among the texts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

NULL = -(2**63)
_LITERAL = r"(DATE )?'([^']*)'"


class Codes:
    """Encodes values as 64-bit integers: a date as its days since 1970, a decimal as its digits, a text as its number
    in the upper half and its length in the lower, NULL as the smallest integer.
    """

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}

    def values(self, column: pa.Array) -> np.ndarray:
        """Returns the values of a column (int64[n])."""
        if pa.types.is_string(column.type):
            coded = column.dictionary_encode()
            words = np.array([self._word(text) for text in coded.dictionary.to_pylist()], np.int64)
            return words[coded.indices.to_numpy()]
        if pa.types.is_decimal128(column.type):
            low = np.frombuffer(column.buffers()[1], np.int64)[
                2 * column.offset : 2 * (column.offset + len(column)) : 2
            ]
            return np.ascontiguousarray(low)
        if pa.types.is_date32(column.type):
            column = column.cast(pa.int32())
        return column.cast(pa.int64()).fill_null(NULL).to_numpy()

    def literals(self, sql: str) -> dict[str, int]:
        """Returns the texts and dates in a query, and the value of each; -1 for a text that is not in the data."""
        found = {}
        for date, text in re.findall(_LITERAL, sql):
            found[text] = (
                int(np.datetime64(text).astype("datetime64[D]").astype(int)) if date else self._texts.get(text, -1)
            )
        return found

    def _word(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts) << 32 | len(text))


def as_integers(sql: str, tables: Mapping[str, pa.Table]) -> tuple[str, dict[str, pa.Table]]:
    """Returns a query and its tables over integers. The query has no decimals, but for discounts of hundredths."""
    codes, made = Codes(), {}
    for name, table in tables.items():
        columns = [pa.array(codes.values(column.combine_chunks())) for column in table.columns]
        made[name] = pa.table(columns, names=table.column_names)
    literals = codes.literals(sql)
    sql = re.sub(_LITERAL, lambda found: str(literals[found[2]]), sql)
    return sql.replace("(1 - l_discount)", "(100 - l_discount)"), made
