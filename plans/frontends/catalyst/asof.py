"""Translates AsOfJoin of Spark's plan: DataFrames joined as by pandas' `merge_asof`, and ASOF JOIN in Spark's SQL.

The node has a condition, whose first part compares the times and whose other parts are the tolerance, and the distance
by which the nearest row is chosen: `left - right` (backward), `right - left` (forward), or the greater of both
(nearest). The nearest row is the nearer of the partners in both directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from plans.expressions.build import FALSE, NULL, TRUE, Expr, call
from plans.frontends.asof import MATCHED, RIGHT, match_of, matched
from plans.frontends.catalyst.blocks import Block, Named, Reading
from plans.frontends.catalyst.groups import Translate
from plans.frontends.catalyst.tree import Node

_FOUND = -1
"""The number of the column that says whether a row has a partner before it."""


@dataclass(frozen=True)
class _Join:
    """An AsOfJoin with a right side that is one source."""

    node: Node
    right: Block
    reading: Reading
    translate: Translate

    def partners(self, left: Block, times: Node, tolerance: Sequence[Node]) -> tuple[Block, Expr]:
        """Returns the rows of a left side with the nearest row in one direction, and whether that row is within the
        tolerance: NULL if there is no such row. `times` compares the times of both sides."""
        left, right = self.reading.as_source(left), self.right
        both = Block((*left.sources, *right.sources), (*left.columns, *right.columns))
        on = self.node.tree("condition")
        conditions = [] if on is None else self.translate(on, both).conjuncts()
        match = match_of((*conditions, self.translate(times, both)), left.sources[0], right.sources[0])
        over, names = matched(self.reading.text, left.sources[0], right.sources[0], match)
        made = self.reading.derived(over, both.columns, tuple(names[one.value] for one in both.columns), "joined")
        source = made.sources[0]
        found = call("and", source.qualified(MATCHED), *(self.translate(part, made) for part in tolerance))
        return replace(made, conditions=(call("not", source.qualified(RIGHT)),)), found

    def nearest(self, left: Block, distance: Node, strict: bool, tolerance: Sequence[Node]) -> tuple[Block, Expr]:
        """Returns the rows with the nearest row in either direction. Of two equally near rows, the earlier one is
        chosen.

        `strict`: rows with the same time do not match.
        """
        count, width = len(left.columns), len(self.right.columns)
        times, back, ahead = distance.children
        backward = replace(times, kind="GreaterThan" if strict else "GreaterThanOrEqual")
        block, found = self.partners(left, backward, tolerance)
        shown = _padded(block, count, found).columns
        # The columns of the right side occur twice, so these get other numbers.
        hidden = [replace(one, id=_FOUND - 1 - place) for place, one in enumerate(shown[count:])]
        flag = Named(_FOUND, "found", call("case", found, TRUE, FALSE))
        _, block = self.reading.closed(replace(block, columns=(*shown[:count], *hidden, flag)))
        block, found = self.partners(block, replace(times, kind="LessThan"), tolerance)
        left_columns, before, after = (
            block.columns[:count],
            block.columns[count : count + width],
            block.columns[-width:],
        )
        known = block.columns[count + width].value
        before = tuple(replace(one, id=same.id) for one, same in zip(before, after, strict=True))
        far, near = (
            self.translate(length, replace(block, columns=(*left_columns, *right_columns)))
            for length, right_columns in ((back, before), (ahead, after))
        )
        nearer = call("and", found, call("or", call("not", known), call("lt", near, far)))
        chosen = [replace(b, value=call("case", nearer, b.value, a.value)) for a, b in zip(before, after, strict=True)]
        return replace(block, columns=(*left_columns, *chosen)), call("or", known, found)


def as_of(node: Node, left: Block, right: Block, reading: Reading, translate: Translate) -> Block:
    """Returns the block of an AsOfJoin over two blocks. Raises PlanError if its conditions are not those of an ASOF
    JOIN."""
    distance, condition = node.tree("orderExpression"), node.tree("asOfCondition")
    assert distance is not None, "an AsOfJoin has a distance"
    assert condition is not None, "an AsOfJoin has a condition"
    join, parts = _Join(node, reading.as_source(right), reading, translate), condition.conjuncts()
    if distance.kind == "If":
        tolerance = [part for part in parts if part.kind not in ("Not", "Literal")]
        block, found = join.nearest(left, distance, parts[0].kind == "Not", tolerance)
    else:
        times, *tolerance = parts
        block, found = join.partners(left, times, tolerance)
        if tolerance:
            block = _padded(block, len(left.columns), found)
    if node.word("joinType") == "Inner":
        return replace(block, conditions=(*block.conditions, found))
    return block


def _padded(block: Block, count: int, found: Expr) -> Block:
    """Returns a block whose columns from number `count` on are NULL in rows for which a condition is not true."""
    theirs = (replace(one, value=call("case", found, one.value, NULL)) for one in block.columns[count:])
    return replace(block, columns=(*block.columns[:count], *theirs))
