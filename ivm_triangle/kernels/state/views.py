"""Views in the arena: sums by key, sets of triples, pairs with their middles, roots in buckets. O(1) per change."""

from __future__ import annotations

from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import T_CAPACITY, T_COUNT, T_SLOTS, alloc, release
from crown.kernels.memory.tables import LOW32, after_slot, home_of, insert, mix, new_table, remove, table_at
from ivm_triangle.kernels.state.geometry import (
    GROUP_PLACE,
    MIDDLE_PLACE,
    SUM_PLACE,
    clear_list,
    groups_of,
    left,
    list_address,
    list_capacity,
    list_length,
    listing_place,
    middles_of,
    pair_of,
    payload,
    place_of,
    right,
    set_listing_place,
    set_payload,
    set_place,
)
from ivm_triangle.kernels.state.graph import drop_last, find_word, push, tag_of
from ivm_triangle.kernels.state.layout import (
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
    """Returns the position of a view's description in the plan array."""
    return P_VIEWS + VIEW_WORDS * view


@kernel("int")
def listing_at(view):
    """Returns the word of the list of all records of a view."""
    return C_VIEWS + 4 * view


@device
def first_table(view):
    """Returns the header word of a view's first table: by key."""
    return table_at(6 + 2 * view)


@device
def second_table(view):
    """Returns the header word of a view's second table: (group, middle)."""
    return table_at(7 + 2 * view)


@device
def _unlist(arena, halves, w, at, back):
    """Deletes entry `at` from the list at `w`. The last entry takes its place, and its new position is written to word
    `back` of its record."""
    last = list_length(halves, w) - 1
    if at < last:
        moved = arena[list_address(halves, w) + last]
        arena[list_address(halves, w) + at] = moved
        arena[right(moved) + back] = at
    drop_last(arena, halves, w)


@device
def add_sum(arena, halves, view, key, value):
    """Adds `value` to view[key]. Deletes the record when the sum is zero."""
    if value == 0:
        return
    t = first_table(view)
    tag = tag_of(arena, key)
    record = find_word(arena, t, tag, key)
    w = listing_at(view)
    if record == 0:
        record = alloc(arena, WORD(SUM_WORDS))
        arena[record] = key
        set_payload(arena, record, value)
        set_listing_place(arena, record, list_length(halves, w))
        push(arena, halves, w, record)
        insert(arena, t, tag, record)
    else:
        total = payload(arena, record) + value
        set_payload(arena, record, total)
        if total == 0:
            _unlist(arena, halves, w, listing_place(arena, record), SUM_PLACE)
            remove(arena, t, tag, record)
            release(arena, record, WORD(SUM_WORDS))


@device
def sum_at(arena, view, key):
    """Returns view[key], 0 if absent."""
    record = find_word(arena, first_table(view), tag_of(arena, key), key)
    return payload(arena, record) if record != 0 else 0


@device
def _triple_tag(arena, ab, c):
    return tag_of(arena, mix(ab, c))


@device
def change_set(arena, halves, view, ab, c, flip):
    """Inserts a triple into a SET view (flip > 0; it MUST be absent), or deletes it (it MUST be present)."""
    t = first_table(view)
    tag = _triple_tag(arena, ab, c)
    w = listing_at(view)
    if flip > 0:
        record = alloc(arena, WORD(SET_WORDS))
        arena[record] = ab
        set_payload(arena, record, c)
        set_listing_place(arena, record, list_length(halves, w))
        push(arena, halves, w, record)
        insert(arena, t, tag, record)
        return
    slots = arena[t + T_SLOTS]
    capacity = arena[t + T_CAPACITY]
    s = home_of(tag, capacity)
    while True:
        slot = arena[slots + s]
        record = right(slot)
        if ((slot >> 32) & LOW32) == tag and arena[record] == ab and payload(arena, record) == c:
            break
        s = after_slot(s, capacity)
    _unlist(arena, halves, w, listing_place(arena, record), SUM_PLACE)
    remove(arena, t, tag, record)
    release(arena, record, WORD(SET_WORDS))


@device
def change_list(ctx, view, key, middle, flip):
    """Inserts a middle under the pair `key` of a LIST view, or deletes it. Returns the group, 0 if the group was
    deleted."""
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    t = first_table(view)
    tag = tag_of(arena, key)
    group = find_word(arena, t, tag, key)
    if flip > 0:
        if group == 0:
            group = alloc(arena, WORD(GROUP_WORDS))
            arena[group] = key
            clear_list(arena, middles_of(group))
            set_place(arena, group, -1)
            insert(arena, t, tag, group)
        record = alloc(arena, WORD(MIDDLE_WORDS))
        word = pair_of(group, middle)
        arena[record] = word
        set_payload(arena, record, list_length(halves, middles_of(group)))
        push(arena, halves, middles_of(group), pair_of(middle, record))
        insert(arena, second_table(view), tag_of(arena, word), record)
        return group
    word = pair_of(group, middle)
    word_tag = tag_of(arena, word)
    record = find_word(arena, second_table(view), word_tag, word)
    _unlist(arena, halves, middles_of(group), payload(arena, record), MIDDLE_PLACE)
    remove(arena, second_table(view), word_tag, record)
    release(arena, record, WORD(MIDDLE_WORDS))
    if list_length(halves, middles_of(group)) == 0:
        root = plan[view_at(view) + ROOT_OF]
        if root >= 0:
            set_root(ctx, root, group, WORD(0))
        remove(arena, t, tag, group)
        release(arena, group, WORD(GROUP_WORDS))
        return WORD(0)
    return group


@device
def _bucket_vertex(arena, plan, root, group):
    """Returns the vertex of the bucket of a pair; 0 if the root has one bucket for all."""
    at = plan[view_at(root) + BUCKET]
    if at < 0:
        return WORD(0)
    return left(arena[group]) if at == 0 else right(arena[group])


@device
def set_root(ctx, root, group, present):
    """Inserts a group into its bucket of the ROOT view, or deletes it. Does nothing if it is in that state already."""
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    if (present != 0) == (place_of(arena, group) >= 0):
        return
    v = _bucket_vertex(arena, plan, root, group)
    t = first_table(root)
    tag = tag_of(arena, v)
    bucket = find_word(arena, t, tag, v)
    if present:
        if bucket == 0:
            bucket = alloc(arena, WORD(BUCKET_WORDS))
            arena[bucket] = v
            clear_list(arena, groups_of(bucket))
            set_place(arena, bucket, list_length(halves, listing_at(root)))
            push(arena, halves, listing_at(root), bucket)
            insert(arena, t, tag, bucket)
        set_place(arena, group, list_length(halves, groups_of(bucket)))
        push(arena, halves, groups_of(bucket), group)
        return
    _unlist(arena, halves, groups_of(bucket), place_of(arena, group), GROUP_PLACE)
    set_place(arena, group, -1)
    if list_length(halves, groups_of(bucket)) == 0:
        _unlist(arena, halves, listing_at(root), place_of(arena, bucket), GROUP_PLACE)
        remove(arena, t, tag, bucket)
        release(arena, bucket, WORD(BUCKET_WORDS))


@device
def _release_list(arena, halves, w):
    if list_capacity(halves, w) > 0:
        release(arena, list_address(halves, w), list_capacity(halves, w))
    clear_list(arena, w)


@device
def _empty_table(arena, halves, t, words, list_word):
    """Frees all records of a table, their lists at offset `list_word` (0: none), and the slots."""
    slots = arena[t + T_SLOTS]
    for s in range(slots, slots + arena[t + T_CAPACITY]):
        if arena[s] != 0:
            record = right(arena[s])
            if list_word > 0:
                _release_list(arena, halves, record + list_word)
            release(arena, record, words)
    release(arena, slots, arena[t + T_CAPACITY])
    new_table(arena, t)


@device
def empty_view(ctx, view):
    """Deletes all records of a view. O(its size)."""
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    kind = plan[view_at(view) + KIND]
    _release_list(arena, halves, listing_at(view))
    if kind in (K_SUM, K_PAIRS):
        _empty_table(arena, halves, first_table(view), WORD(SUM_WORDS), WORD(0))
    elif kind == K_SET:
        _empty_table(arena, halves, first_table(view), WORD(SET_WORDS), WORD(0))
    elif kind == K_LIST:
        _empty_table(arena, halves, first_table(view), WORD(GROUP_WORDS), WORD(1))
        _empty_table(arena, halves, second_table(view), WORD(MIDDLE_WORDS), WORD(0))
    elif kind == K_ROOT:
        _empty_table(arena, halves, first_table(view), WORD(BUCKET_WORDS), WORD(1))


@device
def view_size(arena, plan, view):
    """Returns the number of entries of a view: keys of a SUM, triples of a SET or LIST, buckets of a ROOT."""
    return arena[(second_table(view) if plan[view_at(view) + KIND] == K_LIST else first_table(view)) + T_COUNT]
