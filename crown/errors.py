"""Errors of the engine. Each message says what was found, where, and what to do about it."""


class CrownError(Exception):
    """Base class of every error that the engine raises on purpose."""


class ChangeError(CrownError):
    """The changes handed to ``apply`` do not have the shape that the view expects (unknown relation, no such type)."""


class BadRowError(ChangeError):
    """A row of a change batch cannot be taken; nothing of its batch has been applied.

    Attributes: ``relation`` (name), ``row`` (0-based position in the batch of that relation), ``reason``.
    """

    def __init__(self, relation: str, row: int, reason: str) -> None:
        self.relation = relation
        self.row = row
        self.reason = reason
        super().__init__(f"relation {relation!r}, row {row}: {reason}")


class MissingDeleteError(ChangeError):
    """``on_missing="raise"``: a delete found fewer copies than it removes; nothing of its batch has been applied."""


class MemoryBudgetError(CrownError):
    """The state would outgrow its memory budget or its address range."""


class UnusableStateError(CrownError):
    """A batch was stopped half-way and could not be taken back: the state is neither before nor after it.

    Nothing is read from it or written to it any more. ``crown.load`` the last snapshot, or start anew.
    """


class SnapshotError(CrownError):
    """A snapshot or state file is foreign, damaged, or belongs to another query."""


class ConcurrentChangeError(CrownError):
    """A result iterator was used after the view had changed, or a view was used while a batch was being applied."""


class LockedStateError(CrownError):
    """The folder of a durable view is open already, in this process or another one."""


class QueryChangedError(SnapshotError):
    """The folder of a durable view holds the state of another query, or of one that was made with other options."""


class DamagedStateError(SnapshotError):
    """Files of a durable view are damaged or gone, and batches that were applied cannot be read from them."""


class NotDurableError(CrownError):
    """A batch could not be written down, or the view was closed; the batch was not applied."""


class RecoveryWarning(UserWarning):
    """A durable view was brought back, but not from everything that was there; what was left out is said."""
