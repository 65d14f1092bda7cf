"""Delivers the deltas of a view or a database to functions and to asynchronous iterators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar
from weakref import ref

from crown.errors import ConcurrentChangeError, CrownError, SlowReaderError
from crown.guards.arguments import number_of

if TYPE_CHECKING:
    import asyncio

Deltas = TypeVar("Deltas")
"""The changes of a batch: the delta of a view, or the deltas of a database by view name."""
Pick = Callable[[Any], Deltas | None]
"""Returns the part of a batch's deltas for one follower, or None if that part has no rows."""
QUEUE = 64


class Audience:
    """The ``followers`` of one view or database. Has no reference to its owner, which can be freed before it."""

    def __init__(self) -> None:
        self.followers: list[_Follower] = []
        self._telling = False

    def add(self, follower: _Follower) -> Callable[[], None]:
        """Adds a follower. Returns a function that removes it."""
        self.followers.append(follower)

        def remove() -> None:
            self.followers[:] = [other for other in self.followers if other is not follower]

        return remove

    def demand_room(self) -> None:
        """Raises ConcurrentChangeError while followers are called, SlowReaderError if a follower has no room for a
        delta."""
        if self._telling:
            raise ConcurrentChangeError(
                "a subscriber cannot change the view whose changes it receives: keep the changes, and apply them "
                "when apply has returned"
            )
        for follower in self.followers:
            follower.demand_room()

    def tell(self, deltas: Any) -> None:
        """Passes the deltas of a batch to all followers. Then raises the first error of a follower."""
        failed: Exception | None = None
        self._telling = True
        try:
            for follower in tuple(self.followers):
                try:
                    follower.take(deltas)
                except Exception as error:
                    failed = failed or error
        finally:
            self._telling = False
        if failed is not None:
            failed.add_note("a subscriber of the view raised this; the batch was applied")
            raise failed

    def end(self, view: str | None = None) -> None:
        """Removes all followers, or those of one view of a database. Iterators end after their queued deltas."""
        for follower in tuple(self.followers):
            if view is None or (follower.view or "").lower() == view.lower():
                follower.end()
                self.followers.remove(follower)


class _Follower:
    """A function that is called with deltas. ``view``: in a database, the name of the view that it follows."""

    def __init__(self, pick: Pick[Any], take: Callable[[Any], object], view: str | None) -> None:
        self.view = view
        self._pick = pick
        self._take = take

    def demand_room(self) -> None:
        """Does nothing: a function has no queue."""

    def take(self, deltas: Any) -> None:
        """Calls the function if the deltas have rows for it."""
        mine = self._pick(deltas)
        if mine is not None:
            self._take(mine)

    def end(self) -> None:
        """Does nothing: a removed function is not called any more."""


class _Queued(_Follower):
    """An asynchronous iterator with a queue of deltas. A weak reference, so that the queue does not keep the iterator
    alive."""

    def __init__(self, pick: Pick[Any], iterator: Changes[Any], view: str | None) -> None:
        super().__init__(pick, lambda deltas: None, view)
        self._iterator = ref(iterator)

    def demand_room(self) -> None:
        """Raises SlowReaderError if the queue of the iterator is full and the iterator must not lose deltas."""
        iterator = self._iterator()
        if iterator is not None:
            iterator._demand_room()

    def take(self, deltas: Any) -> None:
        """Queues the deltas for the iterator, if they have rows for it."""
        iterator, mine = self._iterator(), self._pick(deltas)
        if iterator is not None and mine is not None:
            iterator._put(mine)

    def end(self) -> None:
        """Ends the iterator after its queued deltas."""
        iterator = self._iterator()
        if iterator is not None:
            iterator._end()


class Changes(Generic[Deltas]):
    """An asynchronous iterator over deltas, returned by ``changes``. Only one task may read it.

    ``async with`` and ``close`` close it, and so does the end of its last reference.
    """

    def __init__(self, audience: Audience, pick: Pick[Deltas], view: str | None, limit: int, refuses: bool) -> None:
        self._queue: deque[Deltas] = deque()
        self._limit = limit
        self._refuses = refuses
        self._ended = self._behind = False
        self._reader: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._leave = audience.add(_Queued(pick, self, view))

    def __del__(self) -> None:
        self._leave()

    def close(self) -> None:
        """Ends the iteration and drops queued deltas."""
        self._leave()
        self._queue.clear()
        self._end()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Deltas:
        """Returns the next delta, waiting for it if necessary. Raises SlowReaderError if deltas were lost."""
        import asyncio  # importing it takes longer than importing the rest of this file

        loop = asyncio.get_running_loop()
        if self._reader is None or self._reader[0] is not loop:
            self._reader = loop, asyncio.Event()
        event = self._reader[1]
        while not self._queue:
            if self._behind:
                self._behind = False
                raise SlowReaderError(
                    f"this reader of changes() was more than {self._limit} deltas behind and missed the next ones: "
                    "read the result again, and call changes() again"
                )
            if self._ended:
                raise StopAsyncIteration
            event.clear()
            if not (self._queue or self._ended):  # another thread may have queued a delta
                await event.wait()
        return self._queue.popleft()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        self.close()

    def _demand_room(self) -> None:
        if self._refuses and len(self._queue) >= self._limit:
            raise SlowReaderError(
                f"a reader of changes() has {self._limit} deltas waiting, so the batch was not applied: let it read "
                'and apply the batch again, close it, or give changes(full="end")'
            )

    def _put(self, delta: Deltas) -> None:
        """Queues a delta, from any thread. Ends the iterator instead if its queue is full."""
        if len(self._queue) < self._limit:
            self._queue.append(delta)
            self._wake()
        else:
            self._behind = True
            self._leave()
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader[0].is_closed():
            self._reader[0].call_soon_threadsafe(self._reader[1].set)


class Subscribed(ABC, Generic[Deltas]):
    """A result that delivers its changes to followers."""

    @abstractmethod
    def _followed(self) -> tuple[Audience, Pick[Deltas], str | None]:
        """Returns the audience, the function that picks this result's part of a batch's deltas, and its name in a
        database."""

    def subscribe(self, callback: Callable[[Deltas], object]) -> Callable[[], None]:
        """Calls ``callback`` with the deltas of every later batch that changes something, when the batch is applied.

        The deltas are those that ``apply`` returns. Returns a function that ends the subscription. If a callback raises
        an error, ``apply`` calls the other callbacks and then raises the error; the batch stays applied.
        ``apply_batches`` is rejected while there are subscribers. A callback may read, but must not apply changes.
        """
        if not callable(callback):
            raise CrownError(f"subscribe takes a function of the deltas (a pyarrow Table), not {callback!r:.100}")
        audience, pick, view = self._followed()
        return audience.add(_Follower(pick, callback, view))

    def changes(self, limit: int = QUEUE, *, full: Literal["refuse", "end"] = "refuse") -> Changes[Deltas]:
        """Returns an asynchronous iterator over the deltas of every later batch that changes something.

        It starts with the first batch after this call, even if it is read later. It holds at most ``limit`` unread
        deltas. ``full`` says what happens when that many are waiting. With ``"refuse"`` the next batch is refused with
        SlowReaderError before anything is changed, so the writer waits for the reader and no delta is lost. With
        ``"end"`` the batch is applied, and the reader gets SlowReaderError after the queued deltas. The iteration ends
        when the view is closed. Batches may be applied in another thread than the reader's.

        >>> import asyncio, crown
        >>> view = crown.view("SELECT a FROM r WHERE a > 1", {"r": {"a": "int64"}})
        >>> async def first():
        ...     async with view.changes() as deltas:
        ...         view.insert("r", [(1,), (2,)])
        ...         return (await anext(deltas)).to_pylist()
        >>> asyncio.run(first())
        [{'a': 2, '_weight': 1}]
        """
        if not isinstance(full, str) or full not in ("refuse", "end"):
            raise CrownError(f'full must be "refuse" or "end", not {full!r:.100}')
        audience, pick, view = self._followed()
        return Changes(audience, pick, view, number_of(limit, "limit", 1), full == "refuse")
