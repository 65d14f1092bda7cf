"""Those who want to be told of the changes of a view."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from crown.errors import ConcurrentChangeError, CrownError

Subscriber = Callable[[pa.Table], object]


class Subscribed:
    """Keeps the subscribers of a view, and tells them."""

    def __init__(self) -> None:
        self._subscribers: list[list[Subscriber]] = []  # lists of one: a function may be there twice
        self._telling = False

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Has ``callback`` called with the deltas of every batch from now on, when the batch stands.

        Returns a function that ends it. Batches that change nothing are not told. All subscribers are called; if one
        raises, its error comes out of ``apply`` when all have been, and the batch stands. ``apply_batches`` is refused
        while there are subscribers. A subscriber may read the view, and may not change it.
        """
        if not callable(callback):
            raise CrownError(f"subscribe takes a function of the deltas (a pyarrow Table), not {callback!r:.100}")
        mine = [callback]
        self._subscribers.append(mine)

        def unsubscribe() -> None:
            self._subscribers[:] = [other for other in self._subscribers if other is not mine]

        return unsubscribe

    def _changeable(self) -> None:
        """Raises ConcurrentChangeError while subscribers are told."""
        if self._telling:
            raise ConcurrentChangeError(
                "a subscriber cannot change the view that it is told of: keep the changes, and apply them when apply "
                "has returned"
            )

    def _tell(self, deltas: pa.Table) -> pa.Table:
        """Returns the deltas, when all subscribers have had them."""
        failed: Exception | None = None
        self._telling = True
        try:
            for (callback,) in tuple(self._subscribers) if deltas.num_rows else ():
                try:
                    callback(deltas)
                except Exception as error:
                    failed = failed or error
        finally:
            self._telling = False
        if failed is not None:
            failed.add_note("a subscriber of the view raised this; the batch was applied")
            raise failed
        return deltas
