"""Padded nodes in the readable twin: a row of NULLs stands for a key without rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from plans.plan import Node
from plans.programs.stored_relations import StoredRelation

if TYPE_CHECKING:
    from tests.models.view import ReferenceView, Result

Row = tuple[object, ...]


def padding(node: Node, key: Row) -> Row:
    """Returns the row of NULLs that stands for a key without rows of a padded node."""
    named = dict(zip(node.key, key, strict=True))
    return tuple(named.get(name) for name in node.attributes)


def update_paddings(
    view: ReferenceView, weights: list[tuple[StoredRelation, Counter[Row]]], sign: int
) -> Iterator[Result]:
    """Yields the results of paddings that are removed before the insertions of a batch (``sign`` -1), or added after.

    A padding is removed before a row with its key is inserted, regardless of the other changes of the batch.
    """
    for e in [e for e, node in enumerate(view.plan.nodes) if node.padded]:
        groups = view.groups[e].items()
        if sign < 0:
            inserted_keys = {view.key[e](row) for row in _inserted(e, weights)}
            keys = [key for key, group in groups if key in inserted_keys and _is_padded(view, e, group)]
        else:
            keys = [key for key, group in groups if group.parents and not group.children]
        for key in keys:
            yield from view.s_update(e, padding(view.plan.nodes[e], key), sign)


def remove_padding(view: ReferenceView, e: int, group: Any) -> None:
    """Removes the padding of a group that has lost its last parent. No parent needs to be updated."""
    if view.plan.nodes[e].padded and not group.parents and _is_padded(view, e, group):
        group.children.clear()


def _inserted(e: int, weights: list[tuple[StoredRelation, Counter[Row]]]) -> Iterator[Row]:
    for source, batch in weights:
        for alias in source.aliases:
            if alias.node == e:
                yield from (tuple(row[word] for word in alias.words) for row, n in batch.items() if n > 0)


def _is_padded(view: ReferenceView, e: int, group: Any) -> bool:
    return bool(group.children) and not any(row in view.relation[e] for row in group.children)
