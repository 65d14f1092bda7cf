"""A view that outlives its process: ``crown.open``, whose batches are written to a folder before they count as
applied.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import crown
from bench.cases.workloads import Loaded
from bench.subjects.view import PublicView
from crown.durable.view import DurableView

_SNAPSHOT = "8MiB"


class Folder(PublicView):
    """The public view over a folder of its own; batches are written, and the system decides when to sync them."""

    def _made(self, loaded: Loaded, **options: Any) -> crown.View:
        self._folder = tempfile.TemporaryDirectory(prefix="crown-bench-")
        self._loaded, self._options = loaded, options
        self._durable = self._opened()
        return self._durable

    def _opened(self) -> DurableView:
        return crown.open(
            self._loaded.program, self._folder.name, sync="never", snapshot_bytes=_SNAPSHOT, **self._options
        )

    def stats(self) -> dict[str, Any]:
        """Returns the view's counters, the bytes in its folder, and the seconds to reopen it."""
        stats = super().stats()
        written = sum(path.stat().st_size for path in Path(self._folder.name).rglob("*") if path.is_file())
        self._durable.close()
        started = time.perf_counter()
        self._view = self._durable = self._opened()
        return {**stats, "checkpoint_bytes": written, "restart_s": time.perf_counter() - started}

    def close(self) -> None:
        """Closes the view and removes the folder."""
        self._durable.close()
        self._folder.cleanup()
