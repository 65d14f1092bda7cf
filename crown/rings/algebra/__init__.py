"""Rings: what payloads are made of. Every one here computes with exact Python integers or fractions.

A ring says how payloads add up (two tuples with the same key) and multiply (two tuples that join). The view tree is the
same for all of them; which ring it is given decides what it computes.
"""

from crown.rings.algebra.cofactor import Cofactor, Triple
from crown.rings.algebra.matrices import Matrices
from crown.rings.algebra.numbers import Q, Z, lift_one, lift_value
from crown.rings.algebra.products import Product
from crown.rings.algebra.relational import Relational, keep_only, listing
from crown.rings.algebra.ring import Counted, Ring

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
