"""IVM^eps for triangle queries: maintains R(A, B), S(B, C), T(C, A) in worst-case optimal time per update."""

from ivm_triangle.errors import NegativeMultiplicityError, StaleCursorError, TriangleError
from ivm_triangle.triangle import Triangle

__all__ = ["NegativeMultiplicityError", "StaleCursorError", "Triangle", "TriangleError"]
