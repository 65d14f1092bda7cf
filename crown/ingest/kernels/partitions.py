"""Partitions rows by the hash of a value, in Arrow's memory and in arrays."""

from __future__ import annotations

from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import ZERO
from crown.kernels.memory.tables import mix


@device
def cell_of(word, cells):
    """Returns the cell of a value, or of the hash of a text. The high bits decide, so neighbouring ids are
    distributed. A product is a tenth of the time of a division."""
    return ((mix(ZERO, word) >> 33) & 0x7FFFFFFF) * cells >> 31


@kernel("words, int, words")
def cells_of_words(values, cells, out):
    """Writes the cell of each value (int64[n]) to ``out``. O(n)."""
    for i in range(out.size):
        out[i] = cell_of(values[i], cells)


@kernel("const halves, const bytes, int, words")
def cells_of_texts(offsets, data, cells, out):
    """Writes the cell of each text to ``out``. ``offsets`` int32[n + 1], ``data`` uint8: the texts in Arrow's layout.
    O(bytes)."""
    for i in range(out.size):
        h = ZERO
        for b in range(offsets[i], offsets[i + 1]):
            h = mix(h, ZERO + data[b])
        out[i] = cell_of(h, cells)
