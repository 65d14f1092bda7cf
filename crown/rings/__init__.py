"""Rings: arithmetic of one's own in place of numbers, the sums of products, and F-IVM as a laboratory."""

from crown.rings.laws import RingLawError, check
from crown.rings.moments import Monomials, monomials

__all__ = ["Monomials", "RingLawError", "check", "monomials"]
