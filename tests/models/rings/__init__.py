"""F-IVM as a laboratory: rings, arithmetic of one's own in place of numbers; their laws; and view trees over them."""

from tests.models.rings.laws import RingLawError, check

__all__ = ["RingLawError", "check"]
