"""Parses aggregates that read the values of a group in order. Part of `plans.frontends.sql`.

MEDIAN(x), PERCENTILE(x, 0.3), PERCENTILE_CONT(0.3) WITHIN GROUP (ORDER BY x), QUANTILE_CONT(x, 0.3), STRING_AGG(x, ','
ORDER BY y), LISTAGG(x, ',') WITHIN GROUP (ORDER BY y), GROUP_CONCAT(x SEPARATOR ','), ARRAY_AGG(x ORDER BY y),
COLLECT_LIST(x), COLLECT_SET(x).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp

from plans.frontends.rewrites import Share
from plans.frontends.sql.refuse import Text
from plans.frontends.sql.text.place import spelling

_MOST, _PARTS = 2**31 - 1, 1000
_LISTS = (exp.GroupConcat, exp.ArrayAgg, exp.ArrayUniqueAgg)
_SHARES = (
    exp.Median, exp.Quantile, exp.ApproxQuantile, exp.ApproxQuantiles, exp.PercentileCont, exp.PercentileDisc,
)  # fmt: skip


@dataclass(frozen=True)
class OrderedCall:
    """A parsed call: its value and its order. `by` are items of ORDER BY."""

    value: exp.Expression
    by: tuple[exp.Ordered, ...] = ()
    distinct: bool = False
    share: Share = None
    separator: str | None = None
    first: int | None = None  # the number of values, or None for all
    nulls: bool = False  # whether NULL is a value, and the array without values is NULL


def ordered_call(node: exp.Expression, text: Text, known: bool) -> OrderedCall | None:
    """Returns the parsed call of an ordered aggregate, or None for other aggregates. Raises PlanError if it is
    incomplete. `known`: the call has IGNORE NULLS."""
    inner = node.this if isinstance(node, exp.WithinGroup) else node
    if not isinstance(inner, (*_LISTS, *_SHARES)):
        return None
    word = spelling(text.text, inner)
    check_accuracy(inner, text, word)
    if isinstance(inner, _LISTS):
        within = node.expression.expressions if isinstance(node, exp.WithinGroup) else []
        return _list(inner, list(within), text, word, known)
    return _share(node, inner, text, word)


def check_accuracy(node: exp.Expression, text: Text, word: str) -> None:
    """Raises PlanError for an accuracy that is not a number. Results are exact for every accuracy."""
    accuracy = node.args.get("accuracy")
    if accuracy is not None and (not isinstance(accuracy, exp.Literal) or accuracy.is_string):
        raise text.error(f"the accuracy of {word} must be a constant number", accuracy)


def _list(node: exp.Expression, by: list[exp.Ordered], text: Text, word: str, known: bool) -> OrderedCall:
    """Returns STRING_AGG, in the order of WITHIN GROUP or its own, or an aggregate that makes arrays. The default
    separator is empty, as in Spark, and a comma for GROUP_CONCAT."""
    value = node.this
    text.check_arguments(node, {"this", "separator", "nulls_excluded", "keeps_nulls", "own"}, word)
    first = _first(value, text, word) if isinstance(value, exp.Limit) else None
    value = value.this if first is not None else value
    if isinstance(value, exp.Order):
        value, by = value.this, list(value.expressions)
    separator = node.args.get("separator")
    distinct = isinstance(value, exp.Distinct)
    if distinct and isinstance(node, exp.GroupConcat) and len(value.expressions) == 2 and separator is None:
        separator = value.expressions[1]  # as Redshift's is parsed
        value = exp.Distinct(expressions=value.expressions[:1])
    if separator is not None and not (isinstance(separator, exp.Literal) and separator.is_string):
        raise text.error(f"{word} takes a text between the values", separator)
    between = separator.this if separator is not None else "," if word == "GROUP_CONCAT" else ""
    between = between if isinstance(node, exp.GroupConcat) else None
    if distinct and len(value.expressions) != 1:
        raise text.error(f"{word}(DISTINCT ...) of several columns is not supported", node, "name one column")
    value = value.expressions[0] if distinct else value
    if isinstance(value, exp.Star) or not isinstance(value, exp.Expression):
        raise text.error(f"{word} of this form is not supported", node, "name one column")
    if distinct and any(one.this != value for one in by):
        raise text.error(f"with DISTINCT, {word} must be ordered by its argument", node, "order by the same value")
    kept = bool(node.args.get("keeps_nulls")) or (first is not None and not known)
    nulls = kept and between is None
    return OrderedCall(value, tuple(by), distinct, None, between, first, nulls)


def _first(node: exp.Limit, text: Text, word: str) -> int:
    """Returns how many values the LIMIT of an aggregate keeps."""
    count = node.expression
    if not isinstance(count, exp.Literal) or not count.name.isdigit() or int(count.name) > _MOST:
        raise text.error(f"LIMIT of {word} takes a whole number up to {_MOST}", node)
    return int(count.name)


def _share(node: exp.Expression, inner: exp.Expression, text: Text, word: str) -> OrderedCall:
    """Returns a percentile. Its share precedes WITHIN GROUP, or follows the value."""
    text.check_arguments(inner, {"this", "quantile", "expression", "accuracy", "own"}, word)
    value, share, by = inner.this, inner.args.get("quantile") or inner.args.get("expression"), []
    if isinstance(node, exp.WithinGroup):
        by, share = list(node.expression.expressions), inner.this
        if len(by) != 1:
            raise text.error(f"{word} takes one ORDER BY value", node)
        value = by[0].this
    if isinstance(inner, exp.Median):
        share = exp.Literal.number("0.5")
    if isinstance(value, exp.Distinct):
        raise text.error(f"{word}(DISTINCT ...) is not supported", node, "read SELECT DISTINCT in FROM")
    if isinstance(inner, exp.ApproxQuantiles):
        count = int(share.name) if isinstance(share, exp.Literal) and share.name.isdigit() else 0
        if not 1 <= count <= _PARTS:
            raise text.error(f"{word} takes a number of quantiles from 1 to {_PARTS}", node)
        return OrderedCall(value, share=tuple(i / count for i in range(count + 1)))
    if share is None:
        raise text.error(f"{word} needs the order of its values", node, "write WITHIN GROUP (ORDER BY ...)")
    falling = [one for one in by if one.args.get("desc")]
    between = not isinstance(inner, exp.PercentileDisc)  # PERCENTILE_DISC differs from either end
    items = share.expressions if isinstance(share, exp.Array) else [share]
    found = tuple(_portion(one, bool(falling) and between, text, word) for one in items)
    if not found:
        raise text.error(f"{word} needs numbers from 0 to 1", share)
    given = found if isinstance(share, exp.Array) else found[0]
    return OrderedCall(value, () if between else tuple(falling), share=given)


def _portion(node: exp.Expression, falling: bool, text: Text, word: str) -> float:
    """Returns a number from 0 to 1, counted from the end if the order is descending."""
    number = node.this.unnest() if isinstance(node, (exp.Cast, exp.TryCast)) else node
    if not isinstance(number, exp.Literal) or number.is_string or not 0 <= float(number.this) <= 1:
        raise text.error(f"{word} takes one number from 0 to 1, or an ARRAY of such numbers", node)
    return float(1 - Decimal(number.this) if falling else Decimal(number.this))
