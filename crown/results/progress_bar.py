"""A progress bar for notebooks, shown while a batch takes long."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from crown.analysis.meter import Meter

PATIENCE = 2.0
"""Seconds after which a batch has a bar."""
_PAUSE = 0.25  # seconds between two checks

Show = Callable[[str], None]


class Pulse:
    """Watches running batches. ``display`` shows some HTML, and returns a function that replaces it."""

    def __init__(self, display: Callable[[str], Show]) -> None:
        self._display = display
        self._shown: Show | None = None
        self._meters: WeakSet[Meter] = WeakSet()
        self._lock = threading.Lock()

    def watch(self, meter: Meter) -> None:
        """Adds a view whose batches are watched. O(1)."""
        with self._lock:
            self._meters.add(meter)

    def look(self, now: float) -> None:
        """Shows how long the longest batch has been running at time ``now`` (of ``perf_counter``). Hides the bar if
        none takes long."""
        with self._lock:
            begun = [at for meter in self._meters if (at := meter.begun) is not None]
        seconds = now - min(begun, default=now)
        if begun and seconds >= PATIENCE:
            html = f"<progress></progress> crown: applying a batch, {seconds:.0f} s"
            if self._shown is None:
                self._shown = self._display(html)
            else:
                self._shown(html)
        elif self._shown is not None:
            self._shown("")
            self._shown = None

    def run(self) -> None:
        """Checks the batches in an endless loop."""
        while True:
            time.sleep(_PAUSE)
            self.look(time.perf_counter())


_pulse: Pulse | None = None


def attach(meter: Meter) -> None:
    """Shows a progress bar for long batches of a view if the process is a notebook. Does nothing elsewhere."""
    global _pulse
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if getattr(shell, "kernel", None) is None:
        return
    if _pulse is None:
        _pulse = Pulse(_in_notebook)
        threading.Thread(target=_pulse.run, name="crown-pulse", daemon=True).start()
    _pulse.watch(meter)


def _in_notebook(html: str) -> Show:
    from IPython.display import HTML, display

    handle = display(HTML(html), display_id=True)
    return lambda text: handle.update(HTML(text))
