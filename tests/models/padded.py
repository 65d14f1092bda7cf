"""Padded nodes in the readable twin: where a key has no row, one of NULLs is a row like any other."""

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
    """Returns the row of NULLs that stands for a key where a padded node has no row with it."""
    named = dict(zip(node.key, key, strict=True))
    return tuple(named.get(name) for name in node.attributes)


def moved(view: ReferenceView, weights: list[tuple[StoredRelation, Counter[Row]]], sign: int) -> Iterator[Result]:
    """Yields the results that go with paddings before a batch's insertions (``sign`` -1), or come after them (+1).

    A padding goes before a row with its key comes, whatever else the batch does.
    """
    for e in [e for e, node in enumerate(view.plan.nodes) if node.padded]:
        groups = view.groups[e].items()
        if sign < 0:
            coming = {view.key[e](row) for row in _inserted(e, weights)}
            keys = [key for key, group in groups if key in coming and _is_padded(view, e, group)]
        else:
            keys = [key for key, group in groups if group.parents and not group.children]
        for key in keys:
            yield from view.s_update(e, padding(view.plan.nodes[e], key), sign)


def forgotten(view: ReferenceView, e: int, group: Any) -> None:
    """Takes the padding out of a group that has lost its last parent: there is no parent to tell."""
    if view.plan.nodes[e].padded and not group.parents and _is_padded(view, e, group):
        group.children.clear()


def _inserted(e: int, weights: list[tuple[StoredRelation, Counter[Row]]]) -> Iterator[Row]:
    for source, batch in weights:
        for alias in source.aliases:
            if alias.node == e:
                yield from (tuple(row[word] for word in alias.words) for row, n in batch.items() if n > 0)


def _is_padded(view: ReferenceView, e: int, group: Any) -> bool:
    return bool(group.children) and not any(row in view.relation[e] for row in group.children)
