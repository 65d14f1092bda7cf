"""The ordered values of whole partitions, for functions over frames without a bound on one side.

A frame from the first row has all values of its partition except those after the frame. So a change reads the rows
after it, and finds the value at a position among all others in a tree of values (``crown.stages.over.gathered``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crown.kernels.strings import NULL
from crown.stages.kernels.trees.ordered import EXACT
from crown.stages.orders import order_words
from crown.stages.protocol import Part
from crown.stages.trees import Partitions
from crown.store.zset import Zset
from plans.payloads.sums import Values
from plans.programs.frames import Order
from plans.schema import Column


class OrderedValues:
    """The ``values`` of the rows of a stage, partitioned by its ``keys``, in the trees of a ``table`` of its part.

    ``columns``: the columns of the rows. A row has a value unless column ``needed`` is NULL.
    """

    def __init__(
        self, part: Part, table: int, columns: Sequence[Column], keys: Sequence[str], values: Values, needed: str
    ) -> None:
        place = {column.name: i for i, column in enumerate(columns)}
        order = (*values.order, Order(values.argument))
        names = list(dict.fromkeys((*keys, *(key.column for key in order))))
        stored = [columns[place[name]] for name in names]
        self._part = part
        self._places = [place[name] for name in names]
        self._columns = len(order)
        self._argument = names.index(values.argument)
        self._needed = place[needed]
        self._where = None if values.where is None else place[values.where]
        keyed = list(range(len(keys)))
        spec = order_words(stored, [key for key in order if key.column not in keys], keyed)
        self.trees = Partitions(part, table, [column.type for column in stored], keyed, spec)

    def has(self, codes: np.ndarray) -> np.ndarray:
        """Returns bool[n], True for rows, int64[width, n], that have a value."""
        found = codes[self._needed] != NULL
        return found if self._where is None else found & (codes[self._where] == 1)

    def values_of(self, net: Zset) -> Zset:
        """Returns the values of the rows of a net."""
        valued = self.has(net.columns()).nonzero()[0]
        return Zset.of_columns(net.columns()[self._places][:, valued], net.weights[valued]).net()

    def change(self, net: Zset, done: np.ndarray) -> None:
        """Adds copies of values. ``done`` receives the progress. O(log n) each. Raises MemoryBudgetError."""
        self.trees.change(net, lambda keys, weights: np.empty((len(weights), 0), np.int64), done, "of values")

    def find(self, codes: np.ndarray) -> np.ndarray:
        """Returns the handles of the partitions of rows, int64[width, n]; 0 for one without values. O(1) each."""
        return self.trees.find(codes[self._places])

    def located(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the number of values before those of rows, and the copies of the latter. O(log n) each."""
        return self.trees.located(self.find(codes), codes[self._places], len(self.trees.spec) // 4, EXACT)

    def at(self, handles: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Returns the values (codes) at positions of partitions; NULL if there is none. O(log n) each."""
        out = np.full(len(handles), NULL, np.int64)
        present = ((handles != 0) & (positions >= 0)).nonzero()[0]
        out[present] = self.trees.at(handles[present], positions[present], self._argument)
        return out
