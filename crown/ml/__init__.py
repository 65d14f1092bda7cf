"""Models over joins that stay up to date: their sufficient statistics are maintained, no data is read again."""

from crown.ml.coefficients import Coefficients, RankDeficientWarning
from crown.ml.linear import Regression, load, regression
from crown.ml.query import program

__all__ = ["Coefficients", "RankDeficientWarning", "Regression", "load", "program", "regression"]
