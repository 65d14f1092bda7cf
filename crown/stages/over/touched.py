"""The stretches of rows that a batch can affect, before and after it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crown.stages.kernels.over import replaced


@dataclass(eq=False)
class Touched:
    """The stretches of rows that a batch can change, ``spans`` (see ``crown.stages.kernels.over.replaced``).

    ``order``: the changes by partition and rank, as stretches number them; ``leaves``: where their rows are, in this
    order. The first ``fresh`` of them are of partitions that are not there yet."""

    spans: np.ndarray
    order: np.ndarray
    leaves: np.ndarray
    fresh: int

    @property
    def old(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the stretches before the batch: partitions, begins and ends."""
        return self.spans[replaced.HANDLE], self.spans[replaced.LOW], self.spans[replaced.HIGH]

    @property
    def new(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns them after it: a change in each, begins and ends."""
        return self.spans[replaced.FIRST], self.spans[replaced.NEW_LOW], self.spans[replaced.NEW_HIGH]
