"""The readable twins of the engine: its algorithms over dicts, one page per idea, for reading and for comparing."""

from tests.models.payload import PayloadReference
from tests.models.view import ReferenceView, Result, Row, normalise

__all__ = ["PayloadReference", "ReferenceView", "Result", "Row", "normalise"]
