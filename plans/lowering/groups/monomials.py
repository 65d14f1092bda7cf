"""Expands expressions over several relations into sums of products of factors, each over one relation.

A *leaf* is an expression over the columns of one source together with the kind of factor that is made of it (see
`plans.payloads`). A polynomial maps products of leaves to integer coefficients. Everything is a number: a condition is
1 where it is TRUE, and NULL counts as 0. A sum adds exact numbers: a product of two columns does not overflow on the
way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from plans.expressions.build import Expr, call
from plans.lowering.joins.matches import aliases_of
from plans.payloads.payload import DOWN, FLOAT_BITS, MINUS, PLUS, UP, VALID, VALUE, doubles_of
from plans.types import ONE_WORD_DIGITS, decimal_parts

MOST_TERMS = 64
_ONE_WORD = ("bool", "int32", "int64", "float64", "date", "timestamp", "timestamp_ntz")
_STRICT = ("add", "sub", "mul", "neg", "cast")
_WHOLE_DIGITS = {"int32": 10, "int64": 19}

Monomial = tuple[int, ...]
"""Numbers of leaves in ascending order. A leaf may occur several times."""
Polynomial = dict[Monomial, int]
ONE: Polynomial = {(): 1}


class NotFactorableError(Exception):
    """An expression is not a sum of products of factors over single relations, or it has too many terms."""


@dataclass(frozen=True)
class Value:
    """The values of an expression: integers, times 2^-`bits` times 10^-`digits`; 0 where the expression is NULL."""

    polynomial: Polynomial
    bits: int = 0
    digits: int = 0

    def at(self, bits: int, digits: int) -> Polynomial:
        """Returns the polynomial in a finer unit."""
        factor = (1 << (bits - self.bits)) * 10 ** (digits - self.digits)
        return {monomial: factor * c for monomial, c in self.polynomial.items()}


@dataclass(frozen=True)
class Signs:
    """How often an expression is NaN or an infinity (`plus`, `minus`), at least 0 or NaN (`up`), at most 0 or NaN
    (`down`).

    Only whether these are 0 matters. `up` and `down` are None where a sum is a factor of a product.
    """

    plus: Polynomial
    minus: Polynomial
    up: Polynomial | None
    down: Polynomial | None


class Monomials:
    """Expands expressions. `leaves` are the leaves met so far. `required` tells which columns are never NULL."""

    def __init__(self, required: Callable[[Expr], bool]) -> None:
        self.leaves: list[tuple[Expr, str]] = []
        self._number: dict[tuple[Expr, str], int] = {}
        self._required = required

    def forget(self, count: int) -> None:
        """Removes all leaves but the first `count`."""
        for leaf in self.leaves[count:]:
            del self._number[leaf]
        del self.leaves[count:]

    def doubles(self, monomial: Monomial) -> int:
        """Returns how many doubles are factors of a product."""
        return doubles_of((expr.type, what) for expr, what in map(self.leaves.__getitem__, monomial))

    # -- polynomials ---------------------------------------------------------------------------------------------------

    def _leaf(self, expr: Expr, what: str = VALUE) -> Polynomial:
        leaf = (expr, what)
        if leaf not in self._number:
            self._number[leaf] = len(self.leaves)
            self.leaves.append(leaf)
        return {(self._number[leaf],): 1}

    def times(self, *polynomials: Polynomial) -> Polynomial:
        """Returns the product."""
        found = ONE
        for other in polynomials:
            made: Polynomial = {}
            for left, c in found.items():
                for right, d in other.items():
                    monomial = self._reduced((*left, *right))
                    made[monomial] = made.get(monomial, 0) + c * d
            found = {monomial: c for monomial, c in made.items() if c}
            if len(found) > MOST_TERMS:
                raise NotFactorableError
        return found

    def _reduced(self, monomial: Monomial) -> Monomial:
        """Returns a product without redundant factors: a second factor that is 0 or 1, or the validity of a value that
        is a factor."""
        kept: list[int] = []
        known = {self.leaves[i][0] for i in monomial if self.leaves[i][1] != VALID}
        for i in sorted(monomial):
            expr, what = self.leaves[i]
            if (what == VALID and expr in known) or (i in kept and (what != VALUE or expr.type == "bool")):
                continue
            kept.append(i)
        return tuple(kept)

    # -- numbers -------------------------------------------------------------------------------------------------------

    def value(self, expr: Expr) -> Value:
        """Returns the values of an expression. Raises NotFactorableError."""
        if not expr.columns:
            return _constant(expr)
        if expr.type == "bool":
            return Value(self.true(expr))
        if len(aliases_of(expr)) == 1 and one_word(expr.type) and not _is_product(expr):
            bits = FLOAT_BITS if expr.type == "float64" else 0
            return Value(self._leaf(expr), bits, _digits(expr.type))
        if expr.op == "cast" and _exact(expr.args[0].type, expr.type):
            return self.value(expr.args[0])
        if expr.op == "neg":
            inner = self.value(expr.args[0])
            return Value({m: -c for m, c in inner.polynomial.items()}, inner.bits, inner.digits)
        if expr.op in ("add", "sub", "mul"):
            return self._arithmetic(expr, *(self.value(arg) for arg in expr.args))
        if expr.op == "case":
            branches = [(when, self.value(branch)) for when, branch in self._branches(expr)]
            bits, digits = max(v.bits for _, v in branches), max(v.digits for _, v in branches)
            return Value(_sum(*(self.times(when, v.at(bits, digits)) for when, v in branches)), bits, digits)
        raise NotFactorableError

    def _arithmetic(self, expr: Expr, left: Value, right: Value) -> Value:
        if expr.op == "mul":
            made = Value(
                self.times(left.polynomial, right.polynomial), left.bits + right.bits, left.digits + right.digits
            )
            scales = sum(_digits(arg.type) for arg in expr.args)
        else:
            bits, digits = max(left.bits, right.bits), max(left.digits, right.digits)
            sign = 1 if expr.op == "add" else -1
            other = {m: sign * c for m, c in right.at(bits, digits).items()}
            made = Value(_sum(left.at(bits, digits), other), bits, digits)
            scales = max(_digits(arg.type) for arg in expr.args)
        if _digits(expr.type) != scales:
            raise NotFactorableError  # the result is rounded
        return made

    def valid(self, expr: Expr) -> Polynomial:
        """Returns the polynomial that is 1 where an expression is not NULL. Raises NotFactorableError."""
        if not expr.columns:
            return ONE if _single(expr) is not None else {}
        local = len(aliases_of(expr)) == 1
        if expr.op == "col" and self._required(expr):
            return ONE
        if local and one_word(expr.type) and not _is_product(expr) and not self._never_null(expr):
            return self._leaf(expr, VALID)
        if expr.op in _STRICT and (expr.op != "cast" or _exact(expr.args[0].type, expr.type)):
            return self.times(*(self.valid(arg) for arg in expr.args))
        if local:
            return self._leaf(call("not", call("isnull", expr)))
        if expr.op == "case":
            return _sum(*(self.times(when, self.valid(branch)) for when, branch in self._branches(expr)))
        raise NotFactorableError

    def _never_null(self, expr: Expr) -> bool:
        """Returns whether an expression is arithmetic that cannot overflow over columns that are never NULL."""

        def holds(node: Expr, below: list[bool]) -> bool:
            if node.op in ("col", "literal"):
                return node.value is not None and (node.op == "literal" or self._required(node))
            exact = node.op == "cast" and _exact(node.args[0].type, node.type)
            parts = decimal_parts(node.type)
            safe = node.type == "float64" or (parts is not None and parts[0] < 38)
            return all(below) and (exact or (node.op in ("add", "sub", "mul", "neg") and safe))

        return expr.op in _STRICT and bool(expr.fold(holds))

    def _branches(self, expr: Expr) -> list[tuple[Polynomial, Expr]]:
        """Returns the branches of a CASE, each with the polynomial that is 1 where the branch is taken."""
        found, before = [], ONE
        for condition, branch in zip(expr.args[:-1:2], expr.args[1:-1:2], strict=True):
            true = self.true(condition)
            found.append((self.times(before, true), branch))
            before = self.times(before, _sum(ONE, {m: -c for m, c in true.items()}))
        return [*found, (before, expr.args[-1])]

    # -- conditions ----------------------------------------------------------------------------------------------------

    def true(self, condition: Expr) -> Polynomial:
        """Returns the polynomial that is 1 where a condition is TRUE. Raises NotFactorableError."""
        return self._where(condition, True)

    def _where(self, condition: Expr, truth: bool) -> Polynomial:
        """Returns the polynomial that is 1 where a condition is TRUE, or where it is FALSE."""
        if not condition.columns:
            return ONE if _single(condition) is truth else {}
        if len(aliases_of(condition)) == 1:
            return self._leaf(condition if truth else call("not", condition))
        if condition.op == "not":
            return self._where(condition.args[0], not truth)
        if condition.op in ("and", "or"):
            parts = [self._where(arg, truth) for arg in condition.args]
            if (condition.op == "and") == truth:
                return self.times(*parts)
            open_ = self.times(*(_sum(ONE, {m: -c for m, c in part.items()}) for part in parts))
            return _sum(ONE, {m: -c for m, c in open_.items()})
        if condition.op == "isnull":
            there = self.valid(condition.args[0])
            return _sum(ONE, {m: -c for m, c in there.items()}) if truth else there
        raise NotFactorableError

    # -- what is not finite --------------------------------------------------------------------------------------------

    def side(self, expr: Expr, sign: int) -> Polynomial:
        """Returns how often a floating-point expression is NaN or the infinity of a sign.

        Only whether the number is 0 matters. Raises NotFactorableError.
        """
        signs = self._signs(expr)
        return signs.plus if sign > 0 else signs.minus

    def _signs(self, expr: Expr) -> Signs:
        if not expr.columns:
            number = _single(expr)
            if number is None:  # NULL times anything is NULL, which counts nowhere
                return Signs({}, {}, {}, {})
            return Signs({}, {}, ONE if number >= 0 else {}, ONE if number <= 0 else {})
        if len(aliases_of(expr)) == 1 and one_word(expr.type):
            floating = expr.type == "float64"
            plus, minus = (self._leaf(expr, what) if floating else {} for what in (PLUS, MINUS))
            if expr.type == "bool":
                return Signs({}, {}, ONE, self._where(expr, False))
            return Signs(plus, minus, self._leaf(expr, UP), self._leaf(expr, DOWN))
        if expr.op == "cast":
            return self._signs(expr.args[0])
        if expr.op == "neg":
            inner = self._signs(expr.args[0])
            return Signs(inner.minus, inner.plus, inner.down, inner.up)
        if expr.op == "case":
            return self._chosen([(when, self._signs(branch)) for when, branch in self._branches(expr)])
        left, right = (self._signs(arg) for arg in expr.args)
        if expr.op in ("add", "sub"):
            if expr.op == "sub":
                right = Signs(right.minus, right.plus, None, None)
            return Signs(_sum(left.plus, right.plus), _sum(left.minus, right.minus), None, None)
        return self._product(left, right)

    def _chosen(self, branches: list[tuple[Polynomial, Signs]]) -> Signs:
        def part(polynomials: list[Polynomial | None]) -> Polynomial | None:
            if any(one is None for one in polynomials):
                return None
            return _sum(
                *(self.times(when, p) for (when, _), p in zip(branches, polynomials, strict=True) if p is not None)
            )

        plus, minus = part([s.plus for _, s in branches]), part([s.minus for _, s in branches])
        return Signs(plus or {}, minus or {}, part([s.up for _, s in branches]), part([s.down for _, s in branches]))

    def _product(self, left: Signs, right: Signs) -> Signs:
        finite = not (left.plus or left.minus or right.plus or right.minus)
        if left.up is None or left.down is None or right.up is None or right.down is None:
            if not finite:
                raise NotFactorableError  # the sign of a sum is not a function of the signs of its terms
            return Signs({}, {}, None, None)

        def crossed(u: Polynomial, d: Polynomial, v: Polynomial, w: Polynomial) -> Polynomial:
            return _sum(self.times(u, v), self.times(d, w))

        plus = _sum(
            crossed(left.plus, left.minus, right.up, right.down), crossed(left.up, left.down, right.plus, right.minus)
        )
        minus = _sum(
            crossed(left.plus, left.minus, right.down, right.up), crossed(left.up, left.down, right.minus, right.plus)
        )
        up, down = (crossed(left.up, left.down, *pair) for pair in ((right.up, right.down), (right.down, right.up)))
        return Signs(plus, minus, up, down)


def one_word(type_: str) -> bool:
    """Returns whether the code of a value of this type is one word that determines the value."""
    parts = decimal_parts(type_)
    return type_ in _ONE_WORD or (parts is not None and parts[0] <= ONE_WORD_DIGITS)


def _is_product(expr: Expr) -> bool:
    """Returns whether an expression is a product of integer columns, which need not be computed."""
    bare = (arg.args[0] if arg.op == "cast" and _exact(arg.args[0].type, arg.type) else arg for arg in expr.args)
    return expr.op == "mul" and expr.type in _WHOLE_DIGITS and all(arg.op == "col" for arg in bare)


def _sum(*polynomials: Polynomial) -> Polynomial:
    made: Polynomial = {}
    for polynomial in polynomials:
        for monomial, c in polynomial.items():
            made[monomial] = made.get(monomial, 0) + c
    if len(made) > MOST_TERMS:
        raise NotFactorableError
    return {monomial: c for monomial, c in made.items() if c}


def _digits(type_: str) -> int:
    parts = decimal_parts(type_)
    return 0 if parts is None else parts[1]


def _exact(source: str, target: str) -> bool:
    """Returns whether a cast keeps every number unchanged."""
    p, q = decimal_parts(source), decimal_parts(target)
    if q is not None:
        if p is None:
            return q[0] - q[1] >= _WHOLE_DIGITS.get(source, 99)
        return q[1] >= p[1] and q[0] - q[1] >= p[0] - p[1]
    if source == "bool":
        return target in ("int32", "int64")
    return (source, target) in (("int32", "int64"), ("int32", "float64"))


def _single(expr: Expr) -> Any:
    """Returns the value of an expression without columns."""
    return expr.evaluate({}, 1)[0].as_py()


def _constant(expr: Expr) -> Value:
    number = _single(expr)
    if number is None:
        return Value({})
    try:
        exact = Fraction(number)
    except (TypeError, ValueError, OverflowError):
        raise NotFactorableError from None
    if expr.type == "float64":
        bits = exact.denominator.bit_length() - 1
        return Value({(): int(exact * (1 << bits))} if exact else {}, bits)
    digits = _digits(expr.type)
    return Value({(): int(exact * 10**digits)} if exact else {}, 0, digits)
