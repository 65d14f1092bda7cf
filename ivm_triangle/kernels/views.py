"""Views in the arena: sums by key, sets of triples, pairs with their middles, roots in buckets. O(1) per change."""

from __future__ import annotations

from crown.kernels.arena import T_COUNT, T_MASK, T_SLOTS, alloc, hi, lo, release
from crown.kernels.jit import device, kernel
from crown.kernels.tables import LOW32, insert, mix, new_table, remove, table_at
from ivm_triangle.kernels.graph import clear_list, drop_last, find_word, push, tag_of
from ivm_triangle.kernels.layout import (
    BUCKET,
    BUCKET_WORDS,
    C_VIEWS,
    GROUP_WORDS,
    K_LIST,
    K_PAIRS,
    K_ROOT,
    K_SET,
    K_SUM,
    KIND,
    MIDDLE_WORDS,
    P_VIEWS,
    ROOT_OF,
    SET_WORDS,
    SUM_WORDS,
    VIEW_WORDS,
    WORD,
)


@device
def view_at(view):
    """Position of a view's description in the plan array."""
    return P_VIEWS + VIEW_WORDS * view


@kernel
def listing_at(view):
    """Word of the list of all records of a view."""
    return C_VIEWS + 4 * view


@device
def first_table(view):
    """Header word of a view's first table: by key."""
    return table_at(6 + 2 * view)


@device
def second_table(view):
    """Header word of a view's second table: (group, middle)."""
    return table_at(7 + 2 * view)


@device
def _unlist(M, m32, w, at, back):
    """Take entry `at` out of the list at `w`; the last one takes its place and notes it in its word `back`."""
    last = hi(m32, w) - 1
    if at < last:
        moved = M[lo(m32, w) + last]
        M[lo(m32, w) + at] = moved
        M[(moved & LOW32) + back] = at
    drop_last(M, m32, w)


@device
def add_sum(M, m32, view, key, value):
    """view[key] += value; the record goes when the sum is zero."""
    if value == 0:
        return
    t = first_table(view)
    tag = tag_of(M, key)
    record = find_word(M, t, tag, key)
    w = listing_at(view)
    if record == 0:
        record = alloc(M, WORD(SUM_WORDS))
        M[record] = key
        M[record + 1] = value
        M[record + 2] = hi(m32, w)
        push(M, m32, w, record)
        insert(M, t, tag, record)
    else:
        total = M[record + 1] + value
        M[record + 1] = total
        if total == 0:
            _unlist(M, m32, w, M[record + 2], WORD(2))
            remove(M, t, tag, record)
            release(M, record, WORD(SUM_WORDS))


@device
def sum_at(M, view, key):
    """view[key], 0 if absent."""
    record = find_word(M, first_table(view), tag_of(M, key), key)
    return M[record + 1] if record != 0 else 0


@device
def _triple_tag(M, ab, c):
    return tag_of(M, mix(ab, c))


@device
def change_set(M, m32, view, ab, c, flip):
    """Put the triple into a SET view (flip > 0; it MUST NOT be in) or take it out (it MUST be in)."""
    t = first_table(view)
    tag = _triple_tag(M, ab, c)
    w = listing_at(view)
    if flip > 0:
        record = alloc(M, WORD(SET_WORDS))
        M[record] = ab
        M[record + 1] = c
        M[record + 2] = hi(m32, w)
        push(M, m32, w, record)
        insert(M, t, tag, record)
        return
    slots = M[t + T_SLOTS]
    mask = M[t + T_MASK]
    s = tag & mask
    while True:
        slot = M[slots + s]
        record = slot & LOW32
        if ((slot >> 32) & LOW32) == tag and M[record] == ab and M[record + 1] == c:
            break
        s = (s + 1) & mask
    _unlist(M, m32, w, M[record + 2], WORD(2))
    remove(M, t, tag, record)
    release(M, record, WORD(SET_WORDS))


@device
def change_list(M, m32, P, view, key, middle, flip):
    """Put a middle under the pair `key` of a LIST view or take it out. Returns the group, 0 if it is gone."""
    t = first_table(view)
    tag = tag_of(M, key)
    group = find_word(M, t, tag, key)
    if flip > 0:
        if group == 0:
            group = alloc(M, WORD(GROUP_WORDS))
            M[group] = key
            clear_list(M, group + 1)
            M[group + 3] = -1
            insert(M, t, tag, group)
        record = alloc(M, WORD(MIDDLE_WORDS))
        word = (group << 32) | middle
        M[record] = word
        M[record + 1] = hi(m32, group + 1)
        push(M, m32, group + 1, (middle << 32) | record)
        insert(M, second_table(view), tag_of(M, word), record)
        return group
    word = (group << 32) | middle
    word_tag = tag_of(M, word)
    record = find_word(M, second_table(view), word_tag, word)
    _unlist(M, m32, group + 1, M[record + 1], WORD(1))
    remove(M, second_table(view), word_tag, record)
    release(M, record, WORD(MIDDLE_WORDS))
    if hi(m32, group + 1) == 0:
        root = P[view_at(view) + ROOT_OF]
        if root >= 0:
            set_root(M, m32, P, root, group, WORD(0))
        remove(M, t, tag, group)
        release(M, group, WORD(GROUP_WORDS))
        return WORD(0)
    return group


@device
def _bucket_vertex(M, P, root, group):
    """The vertex whose bucket a pair belongs to; 0 where the root has one bucket for all."""
    at = P[view_at(root) + BUCKET]
    if at < 0:
        return WORD(0)
    return (M[group] >> 32) if at == 0 else (M[group] & LOW32)


@device
def set_root(M, m32, P, root, group, present):
    """Put a group into its bucket of the ROOT view, or take it out; no change if it is so already."""
    if (present != 0) == (M[group + 3] >= 0):
        return
    v = _bucket_vertex(M, P, root, group)
    t = first_table(root)
    tag = tag_of(M, v)
    bucket = find_word(M, t, tag, v)
    if present:
        if bucket == 0:
            bucket = alloc(M, WORD(BUCKET_WORDS))
            M[bucket] = v
            clear_list(M, bucket + 1)
            M[bucket + 3] = hi(m32, listing_at(root))
            push(M, m32, listing_at(root), bucket)
            insert(M, t, tag, bucket)
        M[group + 3] = hi(m32, bucket + 1)
        push(M, m32, bucket + 1, group)
        return
    _unlist(M, m32, bucket + 1, M[group + 3], WORD(3))
    M[group + 3] = -1
    if hi(m32, bucket + 1) == 0:
        _unlist(M, m32, listing_at(root), M[bucket + 3], WORD(3))
        remove(M, t, tag, bucket)
        release(M, bucket, WORD(BUCKET_WORDS))


@device
def _release_list(M, m32, w):
    if lo(m32, w + 1) > 0:
        release(M, lo(m32, w), lo(m32, w + 1))
    clear_list(M, w)


@device
def _empty_table(M, m32, t, words, list_word):
    """Release all records of a table, their list at offset `list_word` (0: none), and the slots."""
    slots = M[t + T_SLOTS]
    for s in range(slots, slots + M[t + T_MASK] + 1):
        if M[s] != 0:
            record = M[s] & LOW32
            if list_word > 0:
                _release_list(M, m32, record + list_word)
            release(M, record, words)
    release(M, slots, M[t + T_MASK] + 1)
    new_table(M, t)


@device
def empty_view(M, m32, P, view):
    """Forget everything in a view. O(its size)."""
    kind = P[view_at(view) + KIND]
    _release_list(M, m32, listing_at(view))
    if kind in (K_SUM, K_PAIRS):
        _empty_table(M, m32, first_table(view), WORD(SUM_WORDS), WORD(0))
    elif kind == K_SET:
        _empty_table(M, m32, first_table(view), WORD(SET_WORDS), WORD(0))
    elif kind == K_LIST:
        _empty_table(M, m32, first_table(view), WORD(GROUP_WORDS), WORD(1))
        _empty_table(M, m32, second_table(view), WORD(MIDDLE_WORDS), WORD(0))
    elif kind == K_ROOT:
        _empty_table(M, m32, first_table(view), WORD(BUCKET_WORDS), WORD(1))


@device
def view_size(M, P, view):
    """Entries of a view: keys of a SUM, triples of a SET or LIST, buckets of a ROOT."""
    return M[(second_table(view) if P[view_at(view) + KIND] == K_LIST else first_table(view)) + T_COUNT]
