"""Tables of what an expression makes of texts, by their codes. Python decides each text once.

A table is one array: the words ``L_SLOTS`` ..., then a code and its value per slot, then the numbers of the slots whose
value is not known yet.
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.addresses import load64, words_at
from crown.kernels.memory.arena import ZERO
from crown.kernels.strings import NULL

L_SLOTS, L_CODES, L_NEW, L_ASKED, L_HEAD = range(5)
"""Words of a table: its slots, a power of two; the codes in it; those whose value is not known yet; how often a code
was asked for that was not in it."""
_FACTOR = -7046029254386353131


@device
def words_of_table(slots):
    """Returns how many words a table of so many slots has."""
    return L_HEAD + 2 * slots + slots // 2


@device
def table_at(address):
    """Returns the pointer to a table."""
    return words_at(address, words_of_table(load64(address)))


@device
def looked_up(table, code):
    """Returns the value of a code. If it is not in the table, enters it if there is room, and returns NULL."""
    slots = table[L_SLOTS]
    s = ((code * _FACTOR) >> 32) & (slots - 1)
    while table[L_HEAD + 2 * s] != 0:
        if table[L_HEAD + 2 * s] == code:
            return table[L_HEAD + 2 * s + 1]
        s = (s + 1) & (slots - 1)
    table[L_ASKED] += 1
    if 2 * table[L_CODES] < slots:
        table[L_HEAD + 2 * s], table[L_HEAD + 2 * s + 1] = code, NULL
        table[L_HEAD + 2 * slots + table[L_NEW]] = s
        table[L_CODES] += 1
        table[L_NEW] += 1
    return ZERO + NULL
