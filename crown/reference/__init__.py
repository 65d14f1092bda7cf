"""The readable twins of the engine: its algorithms over dicts, one page per idea, for reading and for comparing."""

from crown.reference.payload import PayloadReference
from crown.reference.view import ReferenceView, Result, Row, normalise

__all__ = ["PayloadReference", "ReferenceView", "Result", "Row", "normalise"]
