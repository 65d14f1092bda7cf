"""Computes the value of a row: per part of a payload, its weight times its factors times the payloads below it."""

from __future__ import annotations

from crown.engine.kernels.layout import (
    FLOAT,
    IS_DOWN,
    IS_DOWN_FLOAT,
    IS_MINUS,
    IS_PLUS,
    IS_UP,
    N_PAYLOAD,
    WORD,
    X_FAR,
    X_PRODUCT,
    X_VALUE,
    X_WIDE,
    Y_LINK0,
    Y_LINKS,
    Y_ONES,
    Y_OTHERS,
    Y_PAIRS,
    Y_PARTS,
    Y_WEIGHED,
    Y_WORDS,
    Z_BEFORE,
    Z_DOUBLES,
    Z_FACTOR0,
    Z_FACTORS,
    Z_FAR,
    Z_LIMBS,
    Z_LINK,
    Z_LINKS,
    Z_WORD,
)
from crown.kernels.jit import device
from crown.kernels.memory.arena import H_WRAPPED, NONE, ONE, ZERO
from crown.kernels.memory.geometry import linked_group, published, row_weight
from crown.kernels.numbers.far import load_far
from crown.kernels.numbers.fixed import FAR_LIMBS, FLOAT_LIMBS, lift_far, lift_float, widen
from crown.kernels.numbers.limbs import (
    add,
    clear,
    extend,
    is_word,
    multiply,
    multiply_word,
    negate,
    product_leaves,
    product_of_pairs,
    times,
)
from crown.kernels.strings import NULL

_INFINITY = 2047 << 52
_MINUS_INFINITY = _INFINITY - 2**63


@device
def checked_product(ctx, value, factor):
    """Returns the product of two parts of one limb. Sets ``H_WRAPPED`` if it leaves 63 bits."""
    if product_leaves(value, factor):
        ctx.arena[H_WRAPPED] = 1
    return times(value, factor)


@device
def weight_of(ctx, y, row):
    """Returns the weight of the row: the copies for which it has been accounted, or 1."""
    if ctx.plan[y + Y_WEIGHED] == 1:
        return row_weight(ctx.halves, row)
    return ONE


@device
def _condition(code, kind):
    """Returns 1 iff the condition of a factor holds for a code. No condition holds for NULL."""
    holds = code != NULL
    if kind == IS_UP:
        holds = code >= 0
    elif kind == IS_PLUS:
        holds = code >= _INFINITY
    elif kind == IS_MINUS:
        holds = code == _MINUS_INFINITY or code > _INFINITY
    elif kind == IS_DOWN:
        holds = holds and code <= 0
    elif kind == IS_DOWN_FLOAT:
        holds = holds and (code <= 0 or code > _INFINITY)
    return ONE if holds else ZERO


@device
def _factor(ctx, row, pair):
    """Returns the one-word factor of a pair (word, kind of factor). The value of NULL is 0."""
    value = ctx.arena[row + ctx.plan[pair]]
    kind = ctx.plan[pair + 1]
    if kind != WORD:
        return _condition(value, kind)
    if value == NULL:
        return ZERO
    return value


@device
def part_words(links):
    """Returns the words of a part in a descriptor with ``links`` links."""
    return Z_LINKS + Z_LINK * links


@device
def first_other(plan, y):
    """Returns the first part of more than two limbs."""
    return plan[y + Y_PARTS] + part_words(plan[y + Y_LINKS]) * (plan[y + Y_ONES] + plan[y + Y_PAIRS])


@device
def far_limbs(plan, z):
    """Returns the limbs of the far part of a part of doubles."""
    return plan[z + Z_LIMBS] + FAR_LIMBS * plan[z + Z_DOUBLES]


@device
def begin(ctx, y, weight):
    """Sets every part of the value to ``weight``."""
    plan, scratch = ctx.plan, ctx.scratch
    at = scratch[X_VALUE]
    ones = plan[y + Y_ONES]
    words = plan[y + Y_WORDS]
    for w in range(ones):
        scratch[at + w] = weight
    if words > ones:
        sign = weight >> 63
        for w in range(ones, words):
            scratch[at + w] = sign
        for q in range(plan[y + Y_PAIRS]):
            scratch[at + ones + 2 * q] = weight
        stride = part_words(plan[y + Y_LINKS])
        z = first_other(plan, y)
        for _ in range(plan[y + Y_OTHERS]):
            word = at + plan[z + Z_WORD]
            scratch[word] = weight
            if plan[z + Z_DOUBLES] > 0:
                scratch[word + plan[z + Z_LIMBS]] = 0
            z += stride


@device
def payload_below(ctx, y, row, x, link, delta):
    """Returns the position of the payload of the row's link ``x``; ``delta`` replaces it on link ``link``."""
    if x == link:
        return delta
    pair = ctx.plan[y + Y_LINK0] + 2 * x
    return published(linked_group(ctx.halves, row, ctx.plan[pair]), ctx.plan[pair + 1])


@device
def _multiply_pairs(ctx, y, row, link, delta):
    """Runs ``multiply_by_row`` for the parts of two limbs."""
    arena, plan, scratch = ctx.arena, ctx.plan, ctx.scratch
    links = plan[y + Y_LINKS]
    stride = part_words(links)
    z = plan[y + Y_PARTS] + stride * plan[y + Y_ONES]
    at = scratch[X_VALUE] + plan[y + Y_ONES]
    for _ in range(plan[y + Y_PAIRS]):
        low, high = scratch[at], scratch[at + 1]
        for f in range(plan[z + Z_FACTORS]):
            factor = _factor(ctx, row, plan[z + Z_FACTOR0] + 2 * f)
            low, high = product_of_pairs(low, high, factor, factor >> 63)
        for x in range(links):
            part = z + Z_LINKS + Z_LINK * x
            base = payload_below(ctx, y, row, x, link, delta) + plan[part]
            above = arena[base] >> 63
            if plan[part + 1] == 2:
                above = arena[base + 1]
            low, high = product_of_pairs(low, high, arena[base], above)
        scratch[at] = low
        scratch[at + 1] = high
        z += stride
        at += 2


@device
def _multiply_far(ctx, z, before, more):
    """Multiplies a part of ``before`` doubles by a number of ``more`` doubles, if one of the two has a far part.

    The near part of the number is at ``scratch[X_PRODUCT]``, with the length of the product's near part, and its far
    part at ``scratch[X_WIDE]``. The far part of the product is the difference between the product and the product of
    the near parts.
    """
    plan, scratch = ctx.plan, ctx.scratch
    n, m = plan[z + Z_LIMBS], far_limbs(plan, z)
    at, far, near = scratch[X_VALUE] + plan[z + Z_WORD], scratch[X_FAR] + plan[z + Z_FAR], scratch[X_PRODUCT]
    factor = scratch[X_WIDE]
    value, rest = factor + m, factor + 2 * m
    widen(scratch, rest, m, scratch, near, n, more)
    add(scratch, factor, scratch, rest, m)
    widen(scratch, value, m, scratch, at, n, before)
    if scratch[at + n] != 0:
        add(scratch, value, scratch, far, m)
    multiply(scratch, far, scratch, factor, scratch, value, m)
    multiply(scratch, near + n, scratch, at, scratch, near, n)
    extend(scratch, at, n, scratch, near + n, n)
    widen(scratch, rest, m, scratch, at, n, before + more)
    negate(scratch, rest, m)
    add(scratch, far, scratch, rest, m)
    scratch[at + n] = 1


@device
def _begin_with_double(ctx, z, code):
    """Multiplies a part that is still a weight by a double."""
    plan, scratch = ctx.plan, ctx.scratch
    n, at = plan[z + Z_LIMBS], scratch[X_VALUE] + plan[z + Z_WORD]
    weight = scratch[at]
    is_far = lift_float(code, scratch, at)
    extend(scratch, at, n, scratch, at, FLOAT_LIMBS)
    if weight != 1:
        multiply_word(scratch, at, n, weight)
    if is_far:
        far = scratch[X_FAR] + plan[z + Z_FAR]
        lift_far(code, scratch, far, far_limbs(plan, z))
        multiply_word(scratch, far, far_limbs(plan, z), weight)
        scratch[at + n] = 1


@device
def _multiply_double(ctx, z, code, before):
    """Multiplies a part of ``before`` doubles by a double."""
    plan, scratch = ctx.plan, ctx.scratch
    n, at, product = plan[z + Z_LIMBS], scratch[X_VALUE] + plan[z + Z_WORD], scratch[X_PRODUCT]
    is_far = lift_float(code, scratch, product)
    extend(scratch, product, n, scratch, product, FLOAT_LIMBS)
    if is_far or scratch[at + n] != 0:
        if is_far:
            lift_far(code, scratch, scratch[X_WIDE], far_limbs(plan, z))
        else:
            clear(scratch, scratch[X_WIDE], far_limbs(plan, z))
        _multiply_far(ctx, z, before, 1)
    else:
        multiply(scratch, product + n, scratch, at, scratch, product, n)
        extend(scratch, at, n, scratch, product + n, n)


@device
def _multiply_below(ctx, z, base, limbs, doubles, before):
    """Multiplies a part of ``before`` doubles by a child's part at ``arena[base]``."""
    arena, plan, scratch = ctx.arena, ctx.plan, ctx.scratch
    n, at, product = plan[z + Z_LIMBS], scratch[X_VALUE] + plan[z + Z_WORD], scratch[X_PRODUCT]
    far = 0
    if doubles > 0:
        far = arena[base + limbs]
    if far != 0 or (plan[z + Z_DOUBLES] > 0 and scratch[at + n] != 0):
        extend(scratch, product, n, arena, base, limbs)
        load_far(arena, far, scratch, scratch[X_WIDE], far_limbs(plan, z))
        _multiply_far(ctx, z, before, doubles)
    elif limbs == 1:
        multiply_word(scratch, at, n, arena[base])
    else:
        extend(scratch, product, n, arena, base, limbs)
        multiply(scratch, product + n, scratch, at, scratch, product, n)
        extend(scratch, at, n, scratch, product + n, n)


@device
def _multiply_word_part(ctx, y, z, row, link, delta):
    """Multiplies a part without doubles by the row's factors and by the payloads of its links, as one word.

    Returns False, and leaves the part as it is, if one of the numbers or products has more than one word. Most have
    not: the number of limbs is that of the largest sum.
    """
    arena, plan, scratch = ctx.arena, ctx.plan, ctx.scratch
    at, n = scratch[X_VALUE] + plan[z + Z_WORD], plan[z + Z_LIMBS]
    if not is_word(scratch, at, n):
        return False
    value = scratch[at]
    for f in range(plan[z + Z_FACTORS]):
        factor = _factor(ctx, row, plan[z + Z_FACTOR0] + 2 * f)
        if product_leaves(value, factor):
            return False
        value = times(value, factor)
    for x in range(plan[y + Y_LINKS]):
        part = z + Z_LINKS + Z_LINK * x
        base = payload_below(ctx, y, row, x, link, delta) + plan[part]
        if not is_word(arena, base, plan[part + 1]) or product_leaves(value, arena[base]):
            return False
        value = times(value, arena[base])
    scratch[at] = value
    extend(scratch, at, n, scratch, at, 1)
    return True


@device
def _multiply_others(ctx, y, row, link, delta):
    """Runs ``multiply_by_row`` for the parts of more than two limbs."""
    arena, plan, scratch = ctx.arena, ctx.plan, ctx.scratch
    links = plan[y + Y_LINKS]
    stride = part_words(links)
    z = first_other(plan, y)
    for _ in range(plan[y + Y_OTHERS]):
        if plan[z + Z_DOUBLES] == 0 and _multiply_word_part(ctx, y, z, row, link, delta):
            z += stride
            continue
        at = scratch[X_VALUE] + plan[z + Z_WORD]
        n = plan[z + Z_LIMBS]
        doubles = plan[z + Z_BEFORE]
        for f in range(plan[z + Z_FACTORS]):
            pair = plan[z + Z_FACTOR0] + 2 * f
            if plan[pair + 1] == FLOAT:
                if f == 0:
                    _begin_with_double(ctx, z, arena[row + plan[pair]])
                else:
                    _multiply_double(ctx, z, arena[row + plan[pair]], doubles)
                doubles += 1
            else:
                factor = _factor(ctx, row, pair)
                multiply_word(scratch, at, n, factor)
                if plan[z + Z_DOUBLES] > 0 and scratch[at + n] != 0:
                    multiply_word(scratch, scratch[X_FAR] + plan[z + Z_FAR], far_limbs(plan, z), factor)
        for x in range(links):
            part = z + Z_LINKS + Z_LINK * x
            base = payload_below(ctx, y, row, x, link, delta) + plan[part]
            _multiply_below(ctx, z, base, plan[part + 1], plan[part + 2], doubles)
            doubles += plan[part + 2]
        z += stride


@device
def multiply_by_row(ctx, y, row, link, delta):
    """Multiplies the value by the row's factors and by the payloads of its links.

    On link ``link``, unless it is -1, the payload at ``delta`` replaces the present one.
    """
    arena, plan, scratch = ctx.arena, ctx.plan, ctx.scratch
    links = plan[y + Y_LINKS]
    stride = part_words(links)
    z = plan[y + Y_PARTS]
    at = scratch[X_VALUE]
    for w in range(plan[y + Y_ONES]):
        value = scratch[at + w]
        for f in range(plan[z + Z_FACTORS]):
            value = checked_product(ctx, value, _factor(ctx, row, plan[z + Z_FACTOR0] + 2 * f))
        for x in range(links):
            base = payload_below(ctx, y, row, x, link, delta) + plan[z + Z_LINKS + Z_LINK * x]
            value = checked_product(ctx, value, arena[base])
        scratch[at + w] = value
        z += stride
    if plan[y + Y_WORDS] > plan[y + Y_ONES]:
        _multiply_pairs(ctx, y, row, link, delta)
        _multiply_others(ctx, y, row, link, delta)


@device
def occurrences(ctx, ring, d, row):
    """Returns how often a row of a free node counts, without its free children."""
    if ring is None:
        return ONE
    y = ctx.plan[d + N_PAYLOAD]
    count = ONE
    if y != 0:
        count = weight_of(ctx, y, row)
        for x in range(ctx.plan[y + Y_LINKS]):
            count *= ctx.arena[payload_below(ctx, y, row, x, NONE, ZERO)]
    return count
