"""Models over joins, fitted from maintained sufficient statistics without reading data again."""

from crown.ml.coefficients import Coefficients, RankDeficientWarning
from crown.ml.linear import Regression, load, regression
from crown.ml.monomials import Monomials, monomials, program

__all__ = [
    "Coefficients", "Monomials", "RankDeficientWarning", "Regression", "load", "monomials", "program", "regression",
]  # fmt: skip
