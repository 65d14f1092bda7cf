"""Window functions as words for the native call of a batch (``crown.programs.kernels.overs``)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crown.results.columns import NativeFeed
from crown.stages.over.framed import NO_FRAMES
from crown.stages.over.picks import Picks
from crown.stages.over.sums import Sums
from crown.stages.running.values import Running

_NO_FUNCTIONS = np.empty((0, 0), np.int64)


@dataclass(frozen=True, eq=False)
class NativeOver:
    """The native form of a window stage: either all its functions are running, or each picks a row or reads a frame.

    - ``feed``: makes the rows that it stores, of which the output has the first ``shown`` columns. ``nets``: different
      stored rows may be equal in the output.
    - ``unfolds``: True if all functions are running.
    - ``functions``, ``peer_columns``, ``needs_peers``: the running functions (see ``Running``). ``peers``: the columns
      that are equal in peers. ``apart``: copies of a row may have different values. ``addends``: the recipe of their
      sums, which takes ``scratch_words``.
    - ``picks``, ``outputs``, ``filters``: the functions that pick a row (see ``Picks``), and per filter of theirs the
      word of the sums that counts its rows, and its column. ``frames``: the plan of those that read frames.
    """

    feed: NativeFeed
    shown: int
    nets: bool
    unfolds: bool
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
    frames: np.ndarray


def native_over(feed: NativeFeed, shown: int, unfolds: bool, running: Running, picks: Picks, sums: Sums) -> NativeOver:
    """Returns the native form of the window functions that ``running`` has.

    ``unfolds``: whether changes move their values by the same amount; if not, ``picks`` has all of them. ``shown``,
    ``feed``: see ``NativeOver``.
    """
    functions = _NO_FUNCTIONS if not unfolds else running.encoded()
    addends, scratch = sums.recipe()
    return NativeOver(
        feed, shown, shown < running.trees.width, unfolds, functions, running.peer_columns, running.needs_peers,
        running.distinguishing, any(call.apart for call in running.functions), addends, scratch, picks.words,
        picks.outputs,
        np.array([(word, sums.place[where]) for where, word in sums.counts.items()], np.int64).reshape(-1, 2),
        NO_FRAMES if unfolds else picks.frames,
    )  # fmt: skip
