"""A regression through the public API: ``crown.ml``, whose sums every batch keeps exact; nothing is delivered."""

from __future__ import annotations

import crown
import crown.ml
from bench.cases.checksum import of_integers
from bench.cases.cofactors import SUMS
from bench.cases.streams import Batch
from bench.cases.workloads import Loaded
from bench.subjects.subject import SkipError, Totals
from bench.subjects.view import PublicView


class Model(PublicView):
    """The sums of a workload that names its ``regression``."""

    def __init__(self, loaded: Loaded, mode: str) -> None:
        if loaded.workload.regression is None or mode != "none":
            raise SkipError("a regression's sums are maintained without being delivered")
        super().__init__(loaded, mode)
        self._model = crown.ml.Regression(self._view)

    def apply(self, batch: Batch) -> int:
        """Applies one batch. Returns 0."""
        self._model.apply(batch)
        return 0

    def totals(self) -> Totals:
        """Reads all sums, as one row of whole numbers."""
        return Totals(1, of_integers([int(self._model.sum(*factors)) for _, factors in SUMS]))
