"""Sums that the stages of a program pass on: from the payload of a join, and from one cell to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from plans.expressions.expr import Expr


@dataclass(frozen=True)
class Summed:
    """An argument of aggregates whose sums are in the payload. It need not be a column of the feed.

    `expr`, over the relations of the join below, is summed as an integer, in units of 2^-`bits` times 10^-`digits`. It
    is a sum of products of at most `doubles` doubles.
    """

    json_row: ClassVar[bool] = True
    name: str
    type: str
    expr: Expr
    bits: int = 0
    digits: int = 0
    doubles: int = 0


@dataclass(frozen=True)
class KnownSum:
    """A sum that a stage receives (see `plans.payloads.sums.Term`, whose fields come first), of `limbs` limbs.

    It is a sum of products of at most `doubles` doubles.
    """

    json_row: ClassVar[bool] = True
    needs: tuple[str, ...]
    where: str | None
    factors: tuple[str, ...]
    side: int
    of: str
    limbs: int
    doubles: int


@dataclass(frozen=True)
class JoinSum(KnownSum):
    """A sum in the payload of the feed. `parts` are pairs of a coefficient and the number of a payload term."""

    parts: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class ExportedSum(KnownSum):
    """A sum as integers that can be sent. `columns` are int64 columns with the digits of its limbs, see
    `plans.payloads.sums.DIGIT`; `far`, for sums of doubles, is the column with the far part, as bytes or NULL."""

    columns: tuple[str, ...]
    far: str | None = None
