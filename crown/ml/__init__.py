"""Models over joins that stay up to date: their sufficient statistics are maintained, no data is read again."""

from crown.ml.coefficients import Coefficients, RankDeficientWarning
from crown.ml.linear import Regression, regression

__all__ = ["Coefficients", "RankDeficientWarning", "Regression", "regression"]
