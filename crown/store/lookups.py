"""What an expression over one text column makes of each text, by the code of the text: each is decided once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from crown.errors import ChangeError
from crown.kernels import lookups as kernels
from crown.store.codec import Intern, UnencodableError, encode
from plans.expressions.expr import Expr

_FEWEST, _MOST = 1 << 10, 1 << 18  # slots; more only if one batch needs them


class Lookup:
    """The table of an expression, for ``crown.kernels.lookups``.

    ``extern`` returns the texts of codes, and ``intern`` the codes of texts. ``table``: the kernel writes the codes to
    it that it does not have; ``learn`` decides them.
    """

    def __init__(self, expr: Expr, extern: Callable[[np.ndarray, str], pa.Array], intern: Intern) -> None:
        self._expr, self._extern, self._intern = expr, extern, intern
        (self._column,) = expr.columns
        self.table = _empty(_FEWEST)

    @property
    def address(self) -> int:
        """Returns where the table is."""
        return self.table.ctypes.data

    def learn(self, known: dict[bytes, pa.Array]) -> int:
        """Decides the codes that were asked for, and returns their number. If some had no room, the table is empty
        then, and has room. O(new texts).

        ``known``: the texts of the codes that other lookups were asked for, by these codes; receives those of this one.

        Raises ChangeError for a value that has no code, and MemoryBudgetError if a text that is made has no room.
        """
        table = self.table
        slots, new, asked = (int(table[word]) for word in (kernels.L_SLOTS, kernels.L_NEW, kernels.L_ASKED))
        if not asked:
            return 0
        if 2 * table[kernels.L_CODES] >= slots:
            slots = slots if slots >= _MOST else 2 * slots
            self.table = _empty(max(slots, 1 << (2 * asked + 1).bit_length()))
            return 0
        at = kernels.L_HEAD + 2 * table[kernels.L_HEAD + 2 * slots :][:new]
        self.table = _empty(slots)  # if the expression raises
        codes = table[at]
        key = codes.tobytes()
        if key not in known:
            known[key] = self._extern(codes, "string")
        values = self._expr.evaluate({self._column: known[key]}, new)
        try:
            table[at + 1] = encode(values, self._expr.type, self._intern)
        except UnencodableError as error:
            raise ChangeError(f"a computed column: {error.reason}") from None
        table[kernels.L_NEW] = table[kernels.L_ASKED] = 0
        self.table = table
        return new


def _empty(slots: int) -> np.ndarray:
    table = np.zeros(int(kernels.words_of_table(slots)), np.int64)
    table[kernels.L_SLOTS] = slots
    return table
