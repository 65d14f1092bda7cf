"""Kernels over a batch before it is applied: netting of a Z-set, conversion to Arrow columns, selection for cells."""

from __future__ import annotations

from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import ZERO
from crown.kernels.memory.pointers import constants, words
from crown.kernels.memory.runs import fill_run
from crown.kernels.memory.tables import LOW32, mix
from crown.kernels.strings import NULL, copy_bytes, length_of, value_word

WORD, HALF, BIT, PAIR, TEXT, WIDE = 0, 1, 2, 3, 4, 5
"""Forms in which Arrow stores a value: its code in 64 bits, in 32, in one, or in 128; or the dictionary's bytes for the
code: of any length, or 128 bits."""
_MOST_BYTES = 2**31 - 1  # of all texts of a column


@kernel("words, int, int, words, words, halves, int, words, words")
def net_tuples(values, down, across, places, sums, slots, secret, out_rows, out_weights):
    """Nets tuples: sums equal ones, omits weight 0, writes deletes before inserts, otherwise in order.

    Word ``j`` of tuple ``i`` is ``values[i * down + places[j] * across]``. ``sums`` int64[n] has their weights and
    receives the sums: the first of equal tuples gets the sum, the others 0. The net is written to ``out_rows``, tuple
    by tuple, and ``out_weights``. ``slots``: -1 each, a power of two of them, at least 2n. ``secret``: a number that is
    unknown to the source of the tuples; it is also a factor, so that all bits of a word affect the hash. Returns
    (number of deletes, number of tuples of the net). Expected O(n).
    """
    n, width, size = sums.size, places.size, slots.size
    values, places, sums, slots = words(values), words(places), words(sums), words(slots)
    merge(values, down, across, places, width, sums, n, slots, size, secret)
    deletes, m = count_net(sums, n)
    write_net(values, down, across, places, width, sums, n, deletes, words(out_rows), width, 1, words(out_weights))
    return deletes, m


@device
def slots_of_net(n):
    """Returns how many slots the net of ``n`` tuples takes, a power of two."""
    size = 8
    while size < 4 * n:
        size *= 2
    return size


@device
def merge(values, down, across, places, width, sums, n, slots, size, secret):
    """Sums the weights of equal tuples in ``sums``: see ``net_tuples``. ``size``: the number of slots."""
    turn, mask = secret | 1, size - 1
    for i in range(n):
        h = secret
        for j in range(width):
            h = mix(h, values[i * down + places[j] * across]) * turn
        s = (h >> 32) & mask
        while True:
            other = slots[s]
            if other < 0:
                slots[s] = i
                break
            same = True
            for j in range(width):
                at = places[j] * across
                if values[other * down + at] != values[i * down + at]:
                    same = False
                    break
            if same:
                sums[other] += sums[i]
                sums[i] = 0
                break
            s = (s + 1) & mask


@device
def count_net(sums, n):
    """Returns (number of deletes, number of tuples) of the net of ``n`` tuples."""
    deletes, m = ZERO, ZERO
    for i in range(n):
        deletes += sums[i] < 0
        m += sums[i] != 0
    return deletes, m


@device
def write_net(values, down, across, places, width, sums, n, deletes, out, out_down, out_across, out_weights):
    """Writes the tuples with nonzero sums, and their weights: see ``net_tuples``. Word ``j`` of tuple ``m`` is written
    to ``out[m * out_down + j * out_across]``.

    Does not branch on the sign of a sum, since the processor cannot predict it.
    """
    deleted, inserted = ZERO, ZERO + deletes
    for i in range(n):
        weight = sums[i]
        if weight != 0:
            is_delete = weight < 0
            m = deleted if is_delete else inserted
            for j in range(width):
                out[m * out_down + j * out_across] = values[i * down + places[j] * across]
            out_weights[m] = weight
            deleted += is_delete
            inserted += not is_delete


@kernel("const words")
def extent(values):
    """Returns the minimum and the maximum of int64[n], n > 0, without the microseconds of NumPy's call."""
    low = high = values[0]
    for i in range(values.size):
        low = min(low, values[i])
        high = max(high, values[i])
    return low, high


@kernel("words")
def negatives(values):
    """Returns how many of int64[n] are negative."""
    n = 0
    for i in range(values.size):
        n += values[i] < 0
    return n


@kernel("const halves, const bytes, bytes, bool, flags")
def texts_equal(offsets, data, text, wanted, out):
    """Writes to ``out`` (bool[n]) whether each text equals ``text`` (uint8), or differs from it if ``wanted`` is False.

    ``offsets`` int32[n + 1], ``data`` uint8: the texts in Arrow's layout. O(bytes).
    """
    length = text.size
    for i in range(out.size):
        start = offsets[i]
        same = offsets[i + 1] - start == length
        if same:
            for b in range(length):
                if data[start + b] != text[b]:
                    same = False
                    break
        out[i] = same == wanted


@device
def _coordinate(code, share):
    """Returns a full hash of a code modulo ``share``, so that hubs with neighbouring ids are distributed."""
    h = mix(mix(ZERO, code), ZERO)
    return ((h >> 33) & 0x7FFFFFFF) % share


@kernel("words, int, words, words, words, words, words, words")
def rows_of_cell(values, width, weights, masks, conditions, out_values, out_weights, out_masks):
    """Copies the tuples that some alias reads in a cell, with the masks of these aliases. Returns the number of tuples.

    ``values`` int64[n * width], ``masks`` int64[n] or [1]. A condition (alias, word, share, coordinate; int64 each, one
    after the other) means that the alias reads a tuple in the cell only if that word hashes to that coordinate.
    """
    n = weights.size
    last = conditions.size
    every = masks.size == n
    values, weights, masks, conditions = words(values), words(weights), words(masks), words(conditions)
    out_values, out_weights, out_masks = words(out_values), words(out_weights), words(out_masks)
    m = 0
    for i in range(n):
        mask = masks[i if every else 0]
        for c in range(0, last, 4):
            bit = 1 << conditions[c]
            if mask & bit:
                code = values[i * width + conditions[c + 1]]
                if _coordinate(code, conditions[c + 2]) != conditions[c + 3]:
                    mask &= ~bit
        if mask != 0:
            for j in range(width):
                out_values[m * width + j] = values[i * width + j]
            out_weights[m] = weights[i]
            out_masks[m] = mask
            m += 1
    return m


@kernel("words, words, int, int, int, words")
def text_words(arena, values, across, down, n, columns):
    """Calls ``words_of_texts`` with these arrays."""
    return words_of_texts(words(arena), words(values), across, down, n, constants(columns), columns.size)


@device
def words_of_texts(arena, values, across, down, n, columns, last):
    """Returns the number of words of the texts of ``n`` tuples in a message; -1 if a column has more bytes than Arrow's
    offsets can count. Arguments as for ``record``."""
    found = ZERO
    for c in range(5, last, 3):
        if columns[c + 1] == TEXT:
            total = ZERO
            for i in range(n):
                total += length_of(arena, values[columns[c] * across + i * down])
            if total > _MOST_BYTES:
                return ZERO - 1
            found += (total + 7) >> 3
    return found


@kernel("words, bytes, words, int, int, words, words, words, words, bytes")
def write_record(arena, octets, values, across, down, weights, template, columns, out, out_octets):
    """Calls ``record`` with these arrays."""
    n, head, last = weights.size, template.size, columns.size
    arena, octets, out_octets = words(arena), words(octets), words(out_octets)
    values, weights, template, columns = words(values), words(weights), constants(template), constants(columns)
    record(arena, octets, values, across, down, weights, n, template, head, columns, last, words(out), out_octets)


@device
def record(arena, octets, values, across, down, weights, n, template, head, columns, last, out, out_octets):
    """Writes ``n`` tuples of codes, with their ``weights``, as an Arrow message with its body to ``out``.

    ``arena``, ``octets``: the dictionary's memory, as words and as bytes. Word ``c`` of tuple ``i`` is ``values[c *
    across + i * down]``. ``template``: the ``head`` words of the message without the body. ``columns`` (``last``
    words): the positions in the message of its number of rows, the bytes of the body, the nodes and the buffers; 1 if
    the weights are also a column; then per column its word in a tuple, its form (``WORD``, ``HALF``, ...), and 1 if it
    may be NULL. ``out_octets``: ``out`` as bytes.
    """
    for i in range(head):
        out[i] = template[i]
    node, buffer, at = columns[2], columns[3], head
    for c in range(5, last, 3):
        first, form = columns[c] * across, columns[c + 1]
        nulls = 0
        if columns[c + 2] == 1:
            for i in range(n):
                nulls += values[first + i * down] == NULL
        out[node], out[node + 1] = n, nulls
        out[buffer], out[buffer + 1] = 8 * (at - head), 0
        if nulls:
            out[buffer + 1] = (n + 7) >> 3
            at = _write_bits(values, first, down, n, NULL, out, at)
        out[buffer + 2] = 8 * (at - head)
        if form == WORD:
            out[buffer + 3] = 8 * n
            for i in range(n):
                out[at + i] = values[first + i * down]
            at += n
        elif form == HALF:
            out[buffer + 3] = 4 * n
            for i in range(0, n, 2):
                second = values[first + (i + 1) * down] if i + 1 < n else ZERO
                out[at + (i >> 1)] = (values[first + i * down] & LOW32) | second << 32
            at += (n + 1) >> 1
        elif form == BIT:
            out[buffer + 3] = (n + 7) >> 3
            at = _write_bits(values, first, down, n, ZERO, out, at)
        elif form == TEXT:
            out[buffer + 3] = 4 * (n + 1)
            start = at + ((n + 2) >> 1)
            total = _write_texts(arena, octets, values, first, down, n, out, at, out_octets, 8 * start)
            at = start + ((total + 7) >> 3)
            out[buffer + 4], out[buffer + 5] = 8 * (start - head), total
            buffer += 2
        elif form == WIDE:
            out[buffer + 3] = 16 * n
            for i in range(n):
                code = values[first + i * down]
                low, high = ZERO, ZERO
                if code != NULL:
                    low, high = value_word(arena, code, 0), value_word(arena, code, 1)
                out[at + 2 * i], out[at + 2 * i + 1] = low, high
            at += 2 * n
        else:
            out[buffer + 3] = 16 * n
            for i in range(n):
                value = values[first + i * down]
                out[at + 2 * i], out[at + 2 * i + 1] = value, value >> 63
            at += 2 * n
        node, buffer = node + 2, buffer + 4
    if columns[4] == 1:
        out[node], out[node + 1] = n, 0
        out[buffer], out[buffer + 1], out[buffer + 2], out[buffer + 3] = 8 * (at - head), 0, 8 * (at - head), 8 * n
        for i in range(n):
            out[at + i] = weights[i]
        at += n
    out[columns[0]], out[columns[1]] = n, 8 * (at - head)


@device
def _write_texts(arena, octets, values, first, down, n, out, at, out_octets, start):
    """Writes the ends of texts, half words from word ``at`` of ``out``, and their bytes, from byte ``start``. Returns
    the number of bytes."""
    total = 0
    for i in range(0, n + 1, 2):
        ends = ZERO + total
        if i < n:
            total += copy_bytes(arena, octets, values[first + i * down], out_octets, start + total)
            ends |= (ZERO + total) << 32
        if i + 1 < n:
            total += copy_bytes(arena, octets, values[first + (i + 1) * down], out_octets, start + total)
        out[at + (i >> 1)] = ends
    for b in range(start + total, start + ((total + 7) & ~7)):
        out_octets[b] = 0
    return total


@kernel("words, int, int, int, words, words")
def place_record(memory, rows, n, sign, template, columns):
    """Makes an Arrow message of the first ``n`` tuples in a buffer, in place. Returns False if a tuple has a NULL.

    ``memory``: room for the template, then columns of ``rows`` words each: those of the tuples, and the weights, which
    are all 1 or all -1, and become ``sign``. ``template`` and ``columns``: the arguments of ``write_record``; all forms
    are ``WORD``, and the weights are a column.
    """
    head, last, total = template.size, columns.size, memory.size
    memory, template, columns = words(memory), constants(template), constants(columns)
    for i in range(head):
        memory[i] = template[i]
    node, buffer = columns[2], columns[3]
    for c in range(5, last, 3):
        first = head + columns[c] * rows
        if columns[c + 2] == 1:
            low = ZERO
            for i in range(first, first + n):
                low = min(low, memory[i])
            if low == NULL:
                return False
        memory[node], memory[node + 1] = n, 0
        memory[buffer], memory[buffer + 1] = 8 * (first - head), 0
        memory[buffer + 2], memory[buffer + 3] = 8 * (first - head), 8 * n
        node, buffer = node + 2, buffer + 4
    weights = total - rows
    if memory[weights] != sign:
        fill_run(memory, weights, rows, sign)
    memory[node], memory[node + 1] = n, 0
    memory[buffer], memory[buffer + 1] = 8 * (weights - head), 0
    memory[buffer + 2], memory[buffer + 3] = 8 * (weights - head), 8 * n
    memory[columns[0]], memory[columns[1]] = n, 8 * (total - head)
    return True


@device
def _write_bits(values, first, down, n, zero, out, at):
    """Writes a bit per value, 1 unless the value is ``zero``, from word ``at`` of ``out``. Returns the word after
    them."""
    for i in range(0, n, 64):
        bits = ZERO
        for j in range(i, min(i + 64, n)):
            bits |= (ZERO + (values[first + j * down] != zero)) << (j - i)
        out[at] = bits
        at += 1
    return at
