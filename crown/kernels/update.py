"""R-, S- and P-updates, live views, and the deltas they cause.

One change is a depth-first walk: a row enters (or leaves) V_s, and if that makes its key enter (leave) V_p, every
parent row with that key is counted up (down), and those that thereby enter (leave) V_s are walked in turn. Every row
is *finished*, its results enumerated, its liveness settled and itself linked (unlinked), before the next one starts:
so each step is a valid database of its own, no result is ever reported twice, and the witness test needs no "state
before the update". A row is a witness iff its key does not change its membership in V_p and its group has a live
parent.

The walk keeps its frames in ``X``, so it can be left when the output buffer is full and entered again.
Source: "Change Propagation Without Joins", sections 4.2 (Algorithms 2-4) and 5.2-5.3.
"""

from __future__ import annotations

from crown.kernels.ahead import ahead_delete, ahead_insert, ring_at
from crown.kernels.arena import (
    H_BUDGET,
    H_EPOCH,
    H_LIVE,
    H_LIVE_FLIPS,
    H_P_UPDATES,
    H_R_UPDATES,
    H_S_UPDATES,
    NONE,
    ONE,
    ZERO,
    at32,
    release,
)
from crown.kernels.enumerate import enumerate_on, enumerate_start
from crown.kernels.geometry import (
    children_base,
    children_count,
    copies,
    link_of,
    linked_group,
    linked_position,
    live_parents,
    parents_base,
    parents_count,
    row_count,
    row_group,
    row_position,
    set_copies,
    set_linked_position,
    set_live_parents,
    set_row_count,
    set_row_group,
    set_row_position,
)
from crown.kernels.groups import children_append, children_remove, node_at
from crown.kernels.jit import device, kernel
from crown.kernels.layout import (
    F_NODE,
    F_PHASE,
    F_POSITION,
    F_ROW,
    FRAME,
    LF_CHILD,
    LF_NODE,
    LF_POSITION,
    LF_ROW,
    LFRAME,
    MODE_DELTAS,
    MODE_LIVE,
    N_CARRIED,
    N_CHILDREN,
    N_FREE,
    N_INNER,
    N_KEY,
    N_OFFSET,
    N_PARENT,
    N_PROGRAM,
    N_TAGS,
    N_VIRTUAL,
    N_VPOS,
    P_IDENTITY,
    R_ALIASES,
    R_NODES,
    R_TABLE,
    R_WIDTH,
    R_WORDS,
    X_ALIAS,
    X_AREAS,
    X_CAPACITY,
    X_I,
    X_LFRAMES,
    X_MODE,
    X_PHASE,
    X_READY,
    X_RECORD,
    X_SP,
)
from crown.kernels.pointers import constants, prefetch, words
from crown.kernels.rows import add_virtual, child_at, drop_virtual, enter_groups, leave_groups, store
from crown.kernels.tables import find, insert, remove

START, PARENTS, FINISH, RESULTS = 0, 1, 2, 3  # phases of a frame
IDLE, TURN, WALKING = 0, 1, 2  # phases of a change: none, an alias is to enter or leave, it is being walked
MAX_COPIES = 2**31 - 1
DONE, FULL, OVER_BUDGET, TOO_MANY = 0, 1, 2, 3  # what a batch kernel comes back with


@device
def _swap_parents(m32, base, i, j, link):
    """Exchange entries i and j of a parents list."""
    if i != j:
        x = at32(m32, base + i)
        y = at32(m32, base + j)
        m32[base + i] = y
        m32[base + j] = x
        set_linked_position(m32, y, link, i)
        set_linked_position(m32, x, link, j)


@device
def _push_live(X, f, row, node):
    X[f + LF_ROW] = row
    X[f + LF_NODE] = node
    X[f + LF_CHILD] = 0
    X[f + LF_POSITION] = -1


@device
def set_live(M, m32, P, X, node, row, on):
    """A row of V_s becomes live (``on`` 1) or stops being live (0), and with it whatever below hangs on it alone.

    A live row stands among the first ``live`` parents of each free child's group; a group whose live parents go 0 -> 1
    makes its children live. O(1) per row that changes.
    """
    top = X[X_LFRAMES]
    f = top
    _push_live(X, f, row, node)
    while f >= top:
        d = node_at(X[f + LF_NODE])
        j = X[f + LF_CHILD]
        if j == P[d + N_CHILDREN]:
            f -= LFRAME
            continue
        c = child_at(P, d, j)
        dc = node_at(c)
        if P[dc + N_FREE] == 0:
            X[f + LF_CHILD] = j + 1
            continue
        row = X[f + LF_ROW]
        k = P[dc + N_KEY]
        link = link_of(j)
        h = linked_group(m32, row, link)
        i = X[f + LF_POSITION]
        if i < 0:
            at = linked_position(m32, row, link)
            live = live_parents(m32, h, k)
            base = parents_base(m32, h, k)
            M[H_LIVE_FLIPS] += 1
            if on == 1:
                _swap_parents(m32, base, at, live, link)
                set_live_parents(m32, h, k, live + 1)
                turned = live == 0
            else:
                _swap_parents(m32, base, at, live - 1, link)
                set_live_parents(m32, h, k, live - 1)
                turned = live == 1
            if not turned or P[dc + N_INNER] == 0:
                X[f + LF_CHILD] = j + 1
                continue
            i = 0
        if i < children_count(m32, h, k):
            X[f + LF_POSITION] = i + 1
            base = children_base(m32, h, k, P[dc + N_CARRIED])
            f += LFRAME
            _push_live(X, f, at32(m32, base + i), c)
        else:
            X[f + LF_CHILD] = j + 1
            X[f + LF_POSITION] = -1


@device
def _push(X, row, node):
    f = X_AREAS + FRAME * X[X_SP]
    X[f + F_ROW] = row
    X[f + F_NODE] = node
    X[f + F_POSITION] = 0
    X[f + F_PHASE] = START
    X[X_SP] += 1


@device
def _is_witness(m32, P, X, d, g, k):
    """Results begin or end with this row: it is free and its group has a live parent."""
    return X[X_MODE] >= MODE_LIVE and P[d + N_FREE] == 1 and live_parents(m32, g, k) > 0


@device
def enter_on(M, m32, P, X, out):
    """Insertion: walk on until no frame is left (True) or ``out`` is full (False)."""
    while X[X_SP] > 0:
        f = X_AREAS + FRAME * (X[X_SP] - 1)
        row = X[f + F_ROW]
        node = X[f + F_NODE]
        d = node_at(node)
        k = P[d + N_KEY]
        g = row_group(m32, row)
        parent = P[d + N_PARENT]
        phase = X[f + F_PHASE]
        if phase == START:  # S-UPDATE: the row enters V_s
            at = children_append(M, m32, g, k, P[d + N_CARRIED], row)
            set_row_position(m32, row, at)
            M[H_S_UPDATES] += 1
            if at == 0 and parent >= 0:  # its key enters V_p
                dp = node_at(parent)
                if P[dp + N_VIRTUAL] == 1 and parents_count(m32, g, k) == 0:
                    p = add_virtual(M, m32, P, X, parent, row - P[d + N_OFFSET], P[d + N_VPOS])
                    X[f + F_PHASE] = FINISH
                    if row_count(m32, p) == P[dp + N_CHILDREN]:
                        _push(X, p, parent)
                    continue
                X[f + F_PHASE] = PARENTS
                phase = PARENTS
            elif _is_witness(m32, P, X, d, g, k):
                if X[X_MODE] == MODE_DELTAS:
                    enumerate_start(M, m32, P, X, P[d + N_PROGRAM], node, row)
                X[f + F_PHASE] = RESULTS
                phase = RESULTS
            else:
                phase = FINISH
        if phase == PARENTS:  # P-UPDATE; a parent that becomes live moves before those not yet counted
            dp = node_at(parent)
            full = P[dp + N_CHILDREN]
            n = parents_count(m32, g, k)
            base = parents_base(m32, g, k)
            i = X[f + F_POSITION]
            phase = FINISH
            while i < n:
                if i + 8 < n:
                    prefetch(M, at32(m32, base + i + 8))
                p = at32(m32, base + i)
                i += 1
                M[H_P_UPDATES] += 1
                count = row_count(m32, p) + 1
                set_row_count(m32, p, count)
                if count == full:
                    X[f + F_POSITION] = i
                    _push(X, p, parent)
                    phase = START
                    break
            if phase == START:
                continue
        if phase == RESULTS:
            if X[X_MODE] == MODE_DELTAS and not enumerate_on(M, m32, P, X, out):
                return False
            set_live(M, m32, P, X, node, row, ONE)
        X[X_SP] -= 1
    return True


@device
def leave_on(M, m32, P, X, out):
    """Deletion: walk on until no frame is left (True) or ``out`` is full (False). A row is unlinked last of all."""
    while X[X_SP] > 0:
        f = X_AREAS + FRAME * (X[X_SP] - 1)
        row = X[f + F_ROW]
        node = X[f + F_NODE]
        d = node_at(node)
        k = P[d + N_KEY]
        g = row_group(m32, row)
        parent = P[d + N_PARENT]
        phase = X[f + F_PHASE]
        if phase == START:
            if children_count(m32, g, k) == 1 and parent >= 0:  # its key leaves V_p
                X[f + F_POSITION] = parents_count(m32, g, k) - 1
                X[f + F_PHASE] = PARENTS
                phase = PARENTS
            elif _is_witness(m32, P, X, d, g, k):
                if X[X_MODE] == MODE_DELTAS:
                    enumerate_start(M, m32, P, X, P[d + N_PROGRAM], node, row)
                X[f + F_PHASE] = RESULTS
                phase = RESULTS
            else:
                phase = FINISH
        if phase == PARENTS:  # P-UPDATE, last entry first: a parent that stops being live is then already in place
            dp = node_at(parent)
            full = P[dp + N_CHILDREN]
            base = parents_base(m32, g, k)
            i = X[f + F_POSITION]
            phase = FINISH
            while i >= 0:
                if i >= 8:
                    prefetch(M, at32(m32, base + i - 8))
                p = at32(m32, base + i)
                i -= 1
                M[H_P_UPDATES] += 1
                count = row_count(m32, p) - 1
                set_row_count(m32, p, count)
                if count == full - 1:
                    X[f + F_POSITION] = i
                    _push(X, p, parent)
                    phase = START
                    break
            if phase == START:
                continue
            if P[dp + N_VIRTUAL] == 1:
                p = at32(m32, base)
                if row_count(m32, p) == 0:
                    drop_virtual(M, m32, P, parent, p)
        if phase == RESULTS:
            if X[X_MODE] == MODE_DELTAS and not enumerate_on(M, m32, P, X, out):
                return False
            set_live(M, m32, P, X, node, row, ZERO)
        children_remove(M, m32, g, k, P[d + N_CARRIED], row_position(m32, row))
        set_row_position(m32, row, NONE)
        M[H_S_UPDATES] += 1
        X[X_SP] -= 1
    return True


@kernel
def insert_batch(M, m32, P, X, r, rows, weights, masks, out):
    """R-UPDATE for every tuple of a batch, at all its aliases in turn.

    ``r``: record descriptor; ``rows`` int64[n * width]; ``weights`` int64[n] > 0; ``masks`` int64[n] or [1]: bit ``i``
    says that alias ``i`` reads the tuple.

    DONE; or FULL: ``out`` (int64[columns, capacity], ``X[X_FILL]`` rows of it written) is full, empty it and call
    again; or OVER_BUDGET (the state's) or TOO_MANY (copies of a tuple): tuples from ``X[X_I]`` on have not been
    applied.
    """
    n = weights.size
    every = masks.size == n
    X[X_CAPACITY] = out.shape[1]
    X[X_READY] = X[X_I]
    M, m32, P, X, out = words(M), words(m32), constants(P), words(X), words(out)
    rows, weights, masks = words(rows), words(weights), words(masks)
    width = P[r + R_WIDTH]
    t = P[r + R_TABLE]
    aliases = P[r + R_ALIASES]
    while True:
        if X[X_PHASE] == WALKING:
            if not enter_on(M, m32, P, X, out):
                return FULL
            X[X_PHASE] = TURN
            X[X_ALIAS] += 1
        i = X[X_I]
        if X[X_PHASE] == TURN:
            j = X[X_ALIAS]
            if j == aliases:
                X[X_PHASE] = IDLE
                X[X_I] = i + 1
                continue
            node = P[P[r + R_NODES] + j]
            d = node_at(node)
            if masks[i if every else 0] >> j & 1:
                row = enter_groups(M, m32, P, X, node, X[X_RECORD], ring_at(X, i) + P[d + N_TAGS])
                if row_count(m32, row) == P[d + N_CHILDREN]:
                    _push(X, row, node)
                    X[X_PHASE] = WALKING
                    continue
            else:
                row = X[X_RECORD] + P[d + N_OFFSET]
                set_row_group(m32, row, ZERO)
                set_row_position(m32, row, NONE)
            X[X_ALIAS] = j + 1
            continue
        if i == n:
            X[X_I] = 0
            return DONE
        if M[H_LIVE] > M[H_BUDGET]:
            return OVER_BUDGET
        ahead_insert(M, m32, P, X, r, rows, n, i)
        M[H_R_UPDATES] += 1
        M[H_EPOCH] += 1
        tag = X[ring_at(X, i)]
        record = find(M, t, tag, P, P[P_IDENTITY], width, rows, i * width)
        if record != 0:
            present = copies(m32, record, width) + weights[i]
            if present > MAX_COPIES:
                return TOO_MANY
            set_copies(m32, record, width, present)
            X[X_I] = i + 1
        else:
            record = store(M, P, r, rows, i * width, P[P_IDENTITY])
            set_copies(m32, record, width, weights[i])
            insert(M, t, tag, record)
            X[X_RECORD] = record
            X[X_ALIAS] = 0
            X[X_PHASE] = TURN


@kernel
def delete_batch(M, m32, P, X, r, rows, weights, missing, out):
    """Mirror image of ``insert_batch``; ``missing[i]`` (int64) becomes the number of copies that were not there."""
    n = weights.size
    X[X_CAPACITY] = out.shape[1]
    X[X_READY] = X[X_I]
    M, m32, P, X, out = words(M), words(m32), constants(P), words(X), words(out)
    rows, weights, missing = words(rows), words(weights), words(missing)
    width = P[r + R_WIDTH]
    t = P[r + R_TABLE]
    aliases = P[r + R_ALIASES]
    while True:
        if X[X_PHASE] == WALKING:
            if not leave_on(M, m32, P, X, out):
                return FULL
            node = P[P[r + R_NODES] + X[X_ALIAS]]
            leave_groups(M, m32, P, node, X[X_RECORD] + P[node_at(node) + N_OFFSET])
            X[X_PHASE] = TURN
            X[X_ALIAS] += 1
        i = X[X_I]
        if X[X_PHASE] == TURN:
            j = X[X_ALIAS]
            if j == aliases:
                release(M, X[X_RECORD], P[r + R_WORDS])
                X[X_PHASE] = IDLE
                X[X_I] = i + 1
                continue
            node = P[P[r + R_NODES] + j]
            row = X[X_RECORD] + P[node_at(node) + N_OFFSET]
            if row_position(m32, row) >= 0:
                _push(X, row, node)
                X[X_PHASE] = WALKING
                continue
            if row_group(m32, row) != 0:
                leave_groups(M, m32, P, node, row)
            X[X_ALIAS] = j + 1
            continue
        if i == n:
            X[X_I] = 0
            return DONE
        ahead_delete(M, m32, P, X, r, rows, n, i)
        M[H_R_UPDATES] += 1
        M[H_EPOCH] += 1
        tag = X[ring_at(X, i)]
        record = find(M, t, tag, P, P[P_IDENTITY], width, rows, i * width)
        present = 0
        if record != 0:
            present = copies(m32, record, width)
        if present > weights[i]:
            set_copies(m32, record, width, present - weights[i])
            X[X_I] = i + 1
            continue
        missing[i] = weights[i] - present
        if record == 0:
            X[X_I] = i + 1
            continue
        remove(M, t, tag, record)
        X[X_RECORD] = record
        X[X_ALIAS] = 0
        X[X_PHASE] = TURN
