"""Errors that a user of the triangle module can cause. Each message says what to do."""

from __future__ import annotations

from crown.errors import CrownError


class TriangleError(CrownError):
    """A request the triangle module cannot serve: an unknown option, a missing column, a value out of range."""


class NegativeMultiplicityError(TriangleError):
    """A batch would decrease the multiplicity of a tuple below zero. Nothing of the batch has been applied."""


class StaleCursorError(TriangleError):
    """Results were enumerated across an update. Start a new enumeration after the update."""
