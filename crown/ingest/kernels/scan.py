"""Scans a batch: reads Arrow's memory, and writes the codes of the rows that the query reads, in one call.

Arrow's C struct -> weights, checked -> cell, tests, 64 rows at a time -> rows that are read -> their codes, by column

A batch with a value that needs the slower path (a missing weight, a NULL in a required column, an integer with the code
of NULL) is rejected as a whole. The slower path finds the row. The words of an exported ``ArrowArray`` are those of
Arrow's C data interface.
"""

from __future__ import annotations

from crown.ingest.kernels.partitions import cell_of
from crown.kernels.jit import device, kernel
from crown.kernels.memory.addresses import call, halves_at, load8, load32, load64, words_at
from crown.kernels.memory.arena import ONE, ZERO
from crown.kernels.memory.pointers import constants, words
from crown.kernels.memory.tables import mix
from crown.kernels.strings import NULL, encoded

WORD, HALF, BIT, PAIR, FLOAT, OTHER = 0, 1, 2, 3, 4, 5
"""Forms of a column: 64 bits, 32, one, 128 of which the low 64 are the value, a double; any other, which has no code
without a dictionary."""
WITHIN, BEFORE, EQUAL, IS_NULL, TEXT, ONE_OF = 0, 1, 2, 3, 4, 5
"""Kinds of tests: a value is in a range; it is less than, or equal to, the value of another column; it is NULL; it is
one of several texts; it is one of several words."""
D_WEIGHT, D_COLUMNS, D_PARTITION, D_FORM, D_CELLS, D_CELL, D_COLUMN0 = range(7)
"""Words of the plan of a scan. The position of the weights or -1, and the number of columns. With several cells, the
position and the form of the column by which the rows are partitioned, the number of the cells, and that of this one;
else the first is -1. Then the columns."""
COLUMN, TEST = 3, 6  # words of a column, and of a test, in the plan of a scan
EXPORTED, RELEASE = 10, 8  # words of an ArrowArray; the word with its callback, 0 once it was released
SCANNED, REFUSED = 0, 1  # results of ``scan``
_LENGTH, _OFFSET, _BUFFERS, _CHILDREN = 0, 16, 40, 48  # bytes of fields of an ArrowArray
_NAN = 0x7FF8 << 48
_INFINITY = 0x7FF0 << 48
_BLOCK = 64  # rows, one per bit of a word
_LONGEST = 1 << 16  # bytes of a text: the budget is not looked at within one


@device
def _child(batch, place):
    return load64(load64(batch + _CHILDREN) + 8 * place)


@device
def _first(batch, child):
    """Returns the position of the first row in the buffers of a column."""
    return load64(child + _OFFSET) + load64(batch + _OFFSET)


@device
def _buffer(child, number):
    return load64(load64(child + _BUFFERS) + 8 * number)


@device
def _bit(buffer, i):
    return (load8(buffer + (i >> 3)) >> (i & 7)) & 1


@device
def _some_null(batch, place, n):
    """Returns True if one of the values of a column is NULL."""
    child = _child(batch, place)
    validity, first = _buffer(child, 0), _first(batch, child)
    if validity != 0:
        for i in range(first, first + n):
            if _bit(validity, i) == 0:
                return True
    return False


@device
def _value(data, form, i):
    """Returns row ``i`` of a column of integers, booleans or short decimals."""
    if form == WORD:
        return load64(data + 8 * i)
    if form == HALF:
        return load32(data + 4 * i)
    if form == PAIR:
        return load64(data + 16 * i)
    return _bit(data, i)


@device
def _within(data, form, first, size, low, high):
    """Returns a word whose bit ``j`` is 1 if the value of row ``j`` is in a range.

    Each form has its own loop. The loop reads through a pointer: the compiler does not see that addresses follow one
    another, and would gather the values.
    """
    found = ZERO
    if form == WORD:
        values = words_at(data + 8 * first, size)
        for j in range(size):
            found |= (ZERO + ((values[j] >= low) & (values[j] <= high))) << j
    elif form == HALF:
        halves = halves_at(data + 4 * first, size)
        for j in range(size):
            found |= (ZERO + ((halves[j] >= low) & (halves[j] <= high))) << j
    else:
        for j in range(size):
            value = _value(data, form, first + j)
            found |= (ZERO + ((value >= low) & (value <= high))) << j
    return found


@device
def _compared(data, form, first, other, other_form, other_first, size, kind):
    """Returns a word whose bit ``j`` is 1 if row ``j`` has a smaller, or an equal, value than another column."""
    found = ZERO
    for j in range(size):
        left, right = _value(data, form, first + j), _value(other, other_form, other_first + j)
        holds = left < right if kind == BEFORE else left == right
        found |= (ZERO + holds) << j
    return found


@device
def _equal_texts(child, first, size, octets, start, length):
    """Returns a word whose bit ``j`` is 1 if row ``j`` equals the text at ``octets[start]``, of ``length`` octets.

    Length and first octet are compared without branches, since the processor cannot predict them.
    """
    ends, data = _buffer(child, 1) + 4 * first, _buffer(child, 2)
    found = ZERO
    for j in range(size):
        begin = load32(ends + 4 * j)
        same = load32(ends + 4 * j + 4) - begin == length
        if length > 0:
            address = data + begin if same else ends  # a text of another length may have no octet: any other is read
            same &= load8(address) == octets[start]
        found |= (ZERO + same) << j
    if length > 1 and found != 0:
        for j in range(size):
            begin, b = data + load32(ends + 4 * j), ONE
            while (found >> j) & 1 == 1 and b < length:
                if load8(begin + b) != octets[start + b]:
                    found ^= ONE << j
                b += 1
    return found


@device
def _listed(child, form, first, size, plan, at, octets):
    """Returns a word whose bit ``j`` is 1 if a list of texts or words contains the value of row ``j``."""
    data, start, count = _buffer(child, 1), plan[at + 3], plan[at + 4]
    found = ZERO
    if plan[at] == TEXT:
        for x in range(start, start + 2 * count, 2):
            found |= _equal_texts(child, first, size, octets, plan[x], plan[x + 1])
        return found
    for j in range(size):
        value, holds = _value(data, form, first + j), ZERO
        for x in range(start, start + count):
            holds |= ZERO + (value == plan[x])
        found |= holds << j
    return found


@device
def _valid(child, first, size):
    """Returns a word whose bit ``j`` is 1 if row ``j`` has a value."""
    validity = _buffer(child, 0)
    found = ZERO
    if validity == 0:
        return ~found
    for j in range(size):
        found |= (ZERO + _bit(validity, first + j)) << j
    return found


@device
def _tested(batch, plan, at, octets, i, size):
    """Returns a word whose bit ``j`` is 1 if the test at ``plan[at]`` is TRUE for row ``i + j``.

    A test: its kind, a column's position and form, two numbers, and the bits with which the result is XORed: 0, or all
    bits for NOT. For NULL only IS_NULL is TRUE.
    """
    kind, child, form = plan[at], _child(batch, plan[at + 1]), plan[at + 2]
    first = _first(batch, child) + i
    valid = _valid(child, first, size)
    if kind == IS_NULL:
        return ~valid ^ plan[at + 5]
    if kind == WITHIN:
        found = _within(_buffer(child, 1), form, first, size, plan[at + 3], plan[at + 4])
    elif kind in (TEXT, ONE_OF):
        found = _listed(child, form, first, size, plan, at, octets)
    else:
        other = _child(batch, plan[at + 3])
        start = _first(batch, other) + i
        valid &= _valid(other, start, size)
        found = _compared(_buffer(child, 1), form, first, _buffer(other, 1), plan[at + 4], start, size, kind)
    return (found ^ plan[at + 5]) & valid


@device
def _hash_of_text(ends, data, i):
    """Returns a hash of a text."""
    h = ZERO
    for b in range(load32(ends + 4 * i), load32(ends + 4 * i + 4)):
        h = mix(h, load8(data + b))
    return h


@device
def _rows_of_cell(batch, plan, i, size):
    """Returns a word whose bit ``j`` is 1 if row ``i + j`` belongs to this cell. Rows with NULL belong to the
    first cell."""
    child, form, cells, cell = _child(batch, plan[D_PARTITION]), plan[D_FORM], plan[D_CELLS], plan[D_CELL]
    first, data = _first(batch, child) + i, _buffer(child, 1)
    valid, found = _valid(child, first, size), ZERO
    if form == OTHER:
        texts = _buffer(child, 2)
        for j in range(size):
            found |= (ZERO + (cell_of(_hash_of_text(data, texts, first + j), cells) == cell)) << j
    elif form == WORD:  # each has its own loop, as in ``_within``
        values = words_at(data + 8 * first, size)
        for j in range(size):
            found |= (ZERO + (cell_of(values[j], cells) == cell)) << j
    else:
        for j in range(size):
            found |= (ZERO + (cell_of(_value(data, form, first + j), cells) == cell)) << j
    found &= valid
    return found | ~valid if cell == 0 else found


@device
def _rows(batch, plan, start, octets, n, rows, found):
    """Writes the positions of the rows that are read to ``rows``, and to ``found[2]`` how many belong to other cells.
    Returns their number. All rows of the cell, if there are no tests.

    ``plan[start]``: the number of alternatives, of which one must hold; for each its number of tests, which must all
    hold.
    """
    k, mine = 0, ZERO
    for i in range(0, n, _BLOCK):
        size = min(n - i, _BLOCK)
        every, read = ~ZERO, ZERO
        if plan[D_PARTITION] >= 0:
            every = _rows_of_cell(batch, plan, i, size)
        if plan[start] == 0:
            read = every
        at = start + 1
        for _ in range(plan[start]):
            holds = every & ~read
            tests = plan[at]
            at += 1
            for _ in range(tests):
                if holds != 0:
                    holds &= _tested(batch, plan, at, octets, i, size)
                at += TEST
            read |= holds
        for j in range(size):
            mine += (every >> j) & 1
        for j in range(size):
            rows[k] = i + j
            k += (read >> j) & 1
    found[2] = n - mine
    return k


@device
def _write_words(data, first, rows, every, k, out, at):
    """Writes the codes of a column of words. Returns False if one of them is the code of NULL."""
    least = ZERO
    if every:
        values = words_at(data + 8 * first, k)
        for j in range(k):
            out[at + j] = values[j]
            least = min(least, values[j])
    else:
        for j in range(k):
            code = load64(data + 8 * (first + rows[j]))
            out[at + j] = code
            least = min(least, code)
    return least != NULL


@device
def _write_floats(data, first, rows, k, out, at):
    """Writes the codes of doubles, with one zero and one NaN."""
    for j in range(k):
        code = load64(data + 8 * (first + rows[j]))
        if code == NULL:  # the bits of -0.0
            code = ZERO
        elif code & ~NULL > _INFINITY:
            code = ZERO + _NAN
        out[at + j] = code


@device
def _write_nulls(validity, first, rows, k, out, at):
    """Writes NULL where a column has no value. Returns True if there is such a row."""
    found = False
    for j in range(k):
        if _bit(validity, first + rows[j]) == 0:
            out[at + j] = NULL
            found = True
    return found


@device
def _write_column(batch, plan, c, rows, every, k, out, at, found):
    """Writes the codes of a column. Returns False if an integer has the code of NULL."""
    child, form = _child(batch, plan[c]), plan[c + 1]
    if form == OTHER:
        return True
    first, data, validity = _first(batch, child), _buffer(child, 1), _buffer(child, 0)
    if form == WORD and validity == 0:
        return _write_words(data, first, rows, every, k, out, at)
    if form == FLOAT:
        _write_floats(data, first, rows, k, out, at)
    elif form == HALF:
        for j in range(k):
            out[at + j] = load32(data + 4 * (first + rows[j]))
    else:
        for j in range(k):
            out[at + j] = _value(data, form, first + rows[j])
    if validity != 0:
        if form == WORD:
            for j in range(k):
                if out[at + j] == NULL and _bit(validity, first + rows[j]) == 1:
                    return False
        if _write_nulls(validity, first, rows, k, out, at):
            found[1] = 1
    return True


@device
def _weights(batch, place, rows, k, n, most, out):
    """Writes the weights of the rows that are read. Returns False if a weight of the batch is missing, or out of
    range."""
    if place < 0:
        for j in range(k):
            out[j] = 1
        return True
    if _some_null(batch, place, n):
        return False
    child = _child(batch, place)
    weights = words_at(_buffer(child, 1) + 8 * _first(batch, child), n)
    low, high = ZERO, ZERO
    for i in range(n):
        low, high = min(low, weights[i]), max(high, weights[i])
    if k == n:
        for i in range(n):
            out[i] = weights[i]
        return low >= -most and high <= most
    for j in range(k):
        out[j] = weights[rows[j]]
    return low >= -most and high <= most


@device
def given_rows(batch):
    """Returns the number of rows of an exported record batch; 0 if none was exported, or if it was released."""
    return load64(batch + _LENGTH) if load64(batch + 8 * RELEASE) != 0 else ZERO


@kernel("int, const words, const bytes, int, words, words, words, words")
def scan(batch, plan, octets, most, out, weights, rows, found):
    """Calls ``scanned`` with these arrays, and releases the batch."""
    plan, octets, out, weights = constants(plan), words(octets), words(out), words(weights)
    fits = scanned(batch, plan, octets, most, out, weights, words(rows), words(found))
    release(batch)
    return SCANNED if fits else REFUSED


@device
def release(batch):
    """Gives an exported record batch back to Arrow."""
    call(load64(batch + 8 * RELEASE), batch)


@device
def scanned(batch, plan, octets, most, out, weights, rows, found):
    """Reads a nonempty exported record batch. Returns False if a value needs the checks of the slower path. O(rows).

    ``plan``: the words ``D_WEIGHT`` ...; for each column its position, its form and 1 if it must not be NULL; then the
    tests (see ``_rows``), and the lists that they reference. ``octets``: the texts of these lists. ``most``: the
    largest allowed weight. ``out``: room for all codes; column ``c`` of the ``found[0]`` rows that are read begins at
    word ``c * found[0]``. ``weights`` and ``rows`` receive the weights and positions of these rows. ``found[1]``: 1 if
    one of the codes is NULL. ``found[2]``: the number of rows of other cells.
    """
    n, columns = load64(batch + _LENGTH), plan[D_COLUMNS]
    tests = D_COLUMN0 + COLUMN * columns
    k = n
    found[2] = 0
    if plan[tests] == 0 and plan[D_PARTITION] < 0:
        for i in range(n):
            rows[i] = i
    else:
        k = _rows(batch, plan, tests, octets, n, rows, found)
    found[0] = k
    found[1] = 0
    fits = _weights(batch, plan[D_WEIGHT], rows, k, n, most, weights)
    for c in range(columns):
        at = D_COLUMN0 + COLUMN * c
        if fits and plan[at + 2] == 1:
            fits = not _some_null(batch, plan[at], n)
        if fits:
            fits = _write_column(batch, plan, at, rows, k == n, k, out, c * k, found)
    return fits


@device
def coded_texts(batch, place, rows, k, arena, t, out, found):
    """Writes the codes of a column of texts; unknown ones enter dictionary ``t``. Returns False if there is no room for
    them there, or one of them has more than ``_LONGEST`` bytes."""
    child = _child(batch, place)
    first, validity, offsets, texts = _first(batch, child), _buffer(child, 0), _buffer(child, 1), _buffer(child, 2)
    ends = halves_at(offsets + 4 * first, given_rows(batch) + 1)
    if encoded(arena, t, texts, validity, first, ends, rows, False, out, k, ZERO, ONE, _LONGEST) < k:
        return False
    if validity != 0 and _write_nulls(validity, first, rows, k, out, ZERO):
        found[1] = 1
    return True
