"""Rows come and go: records with their values, and the groups that a row is in. The first half of R-UPDATE."""

from __future__ import annotations

from crown.kernels.ahead import group_tag, link_tag, spare_tags, tag_groups
from crown.kernels.arena import H_ROOT, NONE, ONE, alloc, release
from crown.kernels.geometry import (
    T_ROWS,
    children_count,
    link_of,
    linked_group,
    linked_position,
    references,
    row_group,
    set_copies,
    set_linked_group,
    set_linked_position,
    set_references,
    set_row_count,
    set_row_group,
    set_row_position,
)
from crown.kernels.groups import group_drop, group_get, node_at, parents_append, parents_remove
from crown.kernels.jit import device
from crown.kernels.layout import (
    N_CHILD,
    N_CHILDREN,
    N_KEY,
    N_KPOS,
    N_OFFSET,
    N_PARENT,
    N_PPOS,
    N_RECORD,
    N_ROWS,
    R_WIDTH,
    R_WORDS,
)


@device
def child_at(P, d, j):
    """Node number of child ``j`` of the node at descriptor ``d``."""
    return P[P[d + N_CHILD] + j]


@device
def store(M, P, r, src, base, pos):
    """A new record with its values: word ``j`` is ``src[base + P[pos + j]]``."""
    record = alloc(M, P[r + R_WORDS])
    for j in range(P[r + R_WIDTH]):
        M[record + j] = src[base + P[pos + j]]
    return record


@device
def enter_groups(M, m32, P, X, node, record, tags):
    """R-UPDATE, first half: resolve the groups of a new row, count its non-empty child groups. The row.

    ``tags``: where in X the tags of its group keys are, see ``ahead``.
    """
    d = node_at(node)
    row = record + P[d + N_OFFSET]
    if P[d + N_PARENT] >= 0:
        g = group_get(M, m32, P, node, X[group_tag(tags)], M, record, P[d + N_KPOS])
    else:
        g = M[H_ROOT]
    set_references(m32, g, P[d + N_KEY], references(m32, g, P[d + N_KEY]) + 1)
    set_row_group(m32, row, g)
    set_row_position(m32, row, NONE)
    count = 0
    for j in range(P[d + N_CHILDREN]):
        c = child_at(P, d, j)
        dc = node_at(c)
        k = P[dc + N_KEY]
        h = group_get(M, m32, P, c, X[link_tag(tags, j)], M, record, P[dc + N_PPOS])
        set_linked_group(m32, row, link_of(j), h)
        set_linked_position(m32, row, link_of(j), parents_append(M, m32, h, k, row))
        if children_count(m32, h, k) > 0:
            count += 1
    set_row_count(m32, row, count)
    M[P[d + N_ROWS] + T_ROWS] += 1
    return row


@device
def leave_groups(M, m32, P, node, row):
    """Take a row that is outside V_s out of its groups, and free the groups that nobody needs any more."""
    d = node_at(node)
    for j in range(P[d + N_CHILDREN]):
        c = child_at(P, d, j)
        k = P[node_at(c) + N_KEY]
        link = link_of(j)
        h = linked_group(m32, row, link)
        parents_remove(M, m32, h, k, linked_position(m32, row, link), link)
        group_drop(M, m32, P, c, h)
    g = row_group(m32, row)
    set_references(m32, g, P[d + N_KEY], references(m32, g, P[d + N_KEY]) - 1)
    if P[d + N_PARENT] >= 0:
        group_drop(M, m32, P, node, g)
    M[P[d + N_ROWS] + T_ROWS] -= 1


@device
def add_virtual(M, m32, P, X, node, child, pos):
    """The row of a virtual node that a child's record calls for; ``pos`` says where that has its values."""
    d = node_at(node)
    r = P[d + N_RECORD]
    record = store(M, P, r, M, child, pos)
    set_copies(m32, record, P[r + R_WIDTH], ONE)
    spare = spare_tags(X)
    tag_groups(M, P, X, d, M, record, spare)
    return enter_groups(M, m32, P, X, node, record, spare)


@device
def drop_virtual(M, m32, P, node, row):
    """Forget a virtual row that no child calls for any more."""
    d = node_at(node)
    leave_groups(M, m32, P, node, row)
    release(M, row - P[d + N_OFFSET], P[P[d + N_RECORD] + R_WORDS])
