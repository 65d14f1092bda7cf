"""IVM^eps for triangle queries: R(A, B), S(B, C), T(C, A) kept up to date in worst-case optimal time per update."""

from ivm_triangle.errors import NegativeMultiplicityError, StaleCursorError, TriangleError
from ivm_triangle.triangle import Triangle

__all__ = ["NegativeMultiplicityError", "StaleCursorError", "Triangle", "TriangleError"]
