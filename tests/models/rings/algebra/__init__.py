"""Rings: what payloads are made of. Every one here computes with exact Python integers or fractions.

A ring says how payloads add up (two tuples with the same key) and multiply (two tuples that join). The view tree is the
same for all of them; which ring it is given decides what it computes.
"""

from tests.models.rings.algebra.cofactor import Cofactor, Triple
from tests.models.rings.algebra.matrices import Matrices
from tests.models.rings.algebra.numbers import Q, Z, lift_one, lift_value
from tests.models.rings.algebra.products import Product
from tests.models.rings.algebra.relational import Relational, keep_only, listing
from tests.models.rings.algebra.ring import Counted, Ring

__all__ = [
    "Cofactor",
    "Counted",
    "Matrices",
    "Product",
    "Q",
    "Relational",
    "Ring",
    "Triple",
    "Z",
    "keep_only",
    "lift_one",
    "lift_value",
    "listing",
]
