"""Words that several operators of a native call have in common: those of a block, which are in the state, and the first
ones of an operator with state, in the plan. For the terms see ``crown.programs.kernels.pipeline``.

A block has the tuples of a source or of an operator, column by column. Its columns need not be adjacent, and may be
columns of another block: word ``B_FORMS`` points to two words per column, the form of its codes (``WORDS``, ``CODES``
or ``PAIRS``, see ``crown.expressions.kernels.evaluate``) and the word of the memory where it begins. An operator writes
only ``B_TUPLES``, ``B_NULLS``, ``B_WEIGHTS``, ``B_FORMS`` and ``B_WEIGHT_SUM``. The others describe sources. The scan
writes ``B_READ_ROWS``, ``B_NULLS`` and ``B_OTHER_CELLS``, which are adjacent.
"""

from __future__ import annotations

(
    B_GIVEN_ROWS,  # rows of the record batch of a source
    B_READ_ROWS,  # rows of it that conditions and cells leave
    B_NULLS,  # 1 if a code may be NULL
    B_OTHER_CELLS,  # rows of it that are in other cells
    B_TUPLES,  # number of tuples; of a source after its net
    B_START,  # word of the memory where the part of a source begins
    B_CODES,  # word of the memory with the codes of a source, whose columns are adjacent
    B_WEIGHTS,  # word of the memory with the weights
    B_COPIES_BEFORE,  # word of the memory with the copies of the tuples of a source before the batch, 0 if not counted
    B_COUNTED,  # tuples of a source that its base table has counted
    B_FORMS,  # word of the memory with the forms and the beginnings of the columns
    B_WEIGHT_SUM,  # sum of the weights
    BLOCK_WORDS,
) = range(13)
# The first words of an operator with state.
(
    STATE,  # its first word in the state
    ARENA,  # the first of two words in the state: the address of its arena, and its size
    STAGE_BLOCK,  # number of the block of the rows of its stage; -1 if nothing counts them
    READ_COUNT,  # number of the blocks that the stage reads; -1 if it counts its work itself
    READS_AT,  # offset of the list of these blocks
    HEAD_WORDS,
) = range(6)
