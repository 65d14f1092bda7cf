"""Window functions as words for the native call of a batch (``crown.programs.kernels.overs``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crown.results.columns import NativeFeed
from crown.stages.over.picks import Picks
from crown.stages.over.sums import Sums
from crown.stages.running.values import Running
from plans.programs.frames import WindowFunction

_NO_FUNCTIONS = np.empty((0, 0), np.int64)


@dataclass(frozen=True, eq=False)
class NativeOver:
    """The native form of a window stage: either all its functions are running, or each picks a row.

    - ``feed``: makes the rows that it stores, of which the output has the first ``shown`` columns. ``nets``: different
      stored rows may be equal in the output.
    - ``functions``, ``peer_columns``, ``needs_peers``: the running functions (see ``Running``). ``peers``: the columns
      that are equal in peers. ``apart``: copies of a row may have different values. ``addends``: the recipe of their
      sums, which takes ``scratch_words``.
    - ``picks``, ``outputs``, ``filters``: the functions that pick a row (see ``Picks``), and per filter of theirs the
      word of the sums that counts its rows, and its column.
    """

    feed: NativeFeed
    shown: int
    nets: bool
    functions: np.ndarray
    peer_columns: int
    needs_peers: bool
    peers: np.ndarray
    apart: bool
    addends: np.ndarray
    scratch_words: int
    picks: np.ndarray
    outputs: np.ndarray
    filters: np.ndarray


def native_over(
    feed: NativeFeed, shown: int, calls: Sequence[WindowFunction], running: Running, picks: Picks, sums: Sums
) -> NativeOver | str:
    """Returns the native form of the window functions ``calls``, or why there is none.

    ``running``: all of them, if they are; ``picks``: those that pick a row. ``shown``, ``feed``: see ``NativeOver``.
    """
    functions, runs = _NO_FUNCTIONS, all(call.running for call in calls)
    if not runs and not all(call.from_row for call in calls):
        return _reason(calls)
    if runs:
        if not running.fits_words:
            return "a running SUM of decimals of more than 18 digits has no native form"
        functions = running.encoded()
    addends, scratch = sums.recipe()
    return NativeOver(
        feed, shown, shown < running.trees.width, functions, running.peer_columns, running.needs_peers,
        running.distinguishing, any(call.apart for call in calls), addends, scratch, picks.words, picks.outputs,
        np.array([(word, sums.place[where]) for where, word in sums.counts.items()], np.int64).reshape(-1, 2),
    )  # fmt: skip


def _reason(calls: Sequence[WindowFunction]) -> str:
    """Returns why window functions, some of which read frames, have no native form."""
    framed = next((call for call in calls if not call.running and not call.from_row), None)
    if framed is not None:
        return f"{framed.function.upper()}{'' if framed.frame is None else ' over this frame'} has no native form"
    run, picked = (next(call.function.upper() for call in calls if call.running is runs) for runs in (True, False))
    return f"{run} and {picked} in one stage have no native form"
