"""The part of a batch that a native call has applied to a join."""

from __future__ import annotations

from dataclasses import dataclass, field
from sys import maxsize

import numpy as np

from crown.engine.kernels import update

PADDING = maxsize
"""Greater than the number of any change."""


@dataclass
class BatchProgress:
    """The part of a batch that another kernel has applied, with the scratch and the buffer of a propagation.

    - ``deleted_rows``: the number of deleted rows in the buffer, which come first.
    - ``applied``: the applied tuples per sign and change.
    - ``missing``: per change, the copies that its deletes did not find.
    - ``stopped_at``: None, or the sign and the change in which the kernel returned with ``status``; ``PUBLISHING`` and
      0 while publishing. The number is ``PADDING`` within the paddings of a sign.
    """

    deleted_rows: int
    applied: dict[int, list[int]] = field(default_factory=lambda: {-1: [], 1: []})
    missing: dict[int, np.ndarray] = field(default_factory=dict)
    stopped_at: tuple[int, int] | None = None
    status: int = update.DONE

    def paddings_pending(self, sign: int) -> bool:
        """Returns True if paddings are still to be removed (``sign`` -1) or inserted."""
        return self.stopped_at is not None and self.stopped_at <= (sign, PADDING)
