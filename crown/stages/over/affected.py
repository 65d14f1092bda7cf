"""The stretches of rows that a batch can affect, before and after it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crown.stages.kernels.over import replaced


@dataclass(eq=False)
class Affected:
    """The stretches of rows that a batch can affect, ``spans`` (see ``crown.stages.kernels.over.replaced``).

    ``order``: the changes by partition and rank. Stretches refer to changes by their index in this order. ``leaves``:
    the leaf of each change's row, in this order. The first ``creating`` changes belong to missing partitions."""

    spans: np.ndarray
    order: np.ndarray
    leaves: np.ndarray
    creating: int

    @property
    def old(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the stretches before the batch: partitions, begins and ends."""
        return self.spans[replaced.HANDLE], self.spans[replaced.LOW], self.spans[replaced.HIGH]

    @property
    def new(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the stretches after the batch: the index of a change in each, begins and ends."""
        return self.spans[replaced.FIRST], self.spans[replaced.NEW_LOW], self.spans[replaced.NEW_HIGH]
