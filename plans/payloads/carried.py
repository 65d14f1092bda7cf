"""Sums that a program's stages hand on: out of a join's payload, and from one cell to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from plans.expressions.expr import Expr


@dataclass(frozen=True)
class Summed:
    """An argument of aggregates that the payload has the sums of; it need not be a column of the feed.

    A value of `expr`, over the relations behind the join, is summed as an integer, times 2^-`bits` times 10^-`digits`.
    It is a sum of products of at most so many `doubles`.
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
    """A sum that a stage is given (see `plans.payloads.sums.Term`, whose fields come first), of `limbs` limbs.

    It is a sum of products of at most so many `doubles`.
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
    """A sum that the feed's payload has: `parts` are pairs of a coefficient and the number of a term of the payload,
    whose sum it is."""

    parts: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class ExportedSum(KnownSum):
    """A sum as whole numbers, which can travel: `columns` are int64 columns with the digits of its limbs, see
    `plans.payloads.sums.DIGIT`; `far`, of sums of doubles, the column with the far part, as bytes, or NULL."""

    columns: tuple[str, ...]
    far: str | None = None
