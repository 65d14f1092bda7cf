"""The source of a regression's exact sums: the group stage at the end of a view's program."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from crown.ml.monomials import monomials
from crown.ml.query import ROWS
from crown.programs.program import ProgramEngine
from crown.stages.groups.group import Groups


class Sums:
    """The sums of all products of at most two of the columns `over`, over the rows without NULL in any of them."""

    def __init__(self, engine: ProgramEngine, over: Sequence[str]) -> None:
        last = engine.stages[-1]
        assert isinstance(last, Groups), "the program of a regression ends with a group"
        self.monomials = monomials(over=over)
        self.engine = engine
        self._groups = last

    @property
    def rows(self) -> int:
        """Returns the number of rows without NULL in any of the columns."""
        return int(self.sum())

    @property
    def skipped(self) -> int:
        """Returns the number of rows with a NULL in any of the columns."""
        self.engine.ready()
        return int(self._groups.exact("")) - self.rows

    def sum(self, *names: str) -> int | Fraction:
        """Returns the sum of the product of these columns over the rows. Raises CrownError if it is not maintained."""
        self.monomials.index(*names)
        self.engine.ready()
        return self._groups.exact(ROWS, *names)
