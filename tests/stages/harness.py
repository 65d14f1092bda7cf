"""Stages on their own: parts to put them in, and nets made of Python rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from crown.kernels.memory import arena as A
from crown.kernels.memory.tables import new_table, table_at
from crown.stages.over.stage import Over
from crown.stages.protocol import Part
from crown.stages.top import Top
from crown.store.budget import Budget
from crown.store.codec import decode, encode
from crown.store.dictionary import Dictionary
from crown.store.zset import Zset
from plans.schema import Column
from plans.types import arrow_type
from tests.models import normalise

Row = tuple[Any, ...]


def parts(stages: int, words: int = 1 << 22, budget: int | None = None) -> list[Part]:
    """Parts for stages in anonymous memory; part 0 of the budget is the dictionary's."""
    arenas = [np.zeros(words, np.int64) for _ in range(stages + 1)]
    held = Budget(arenas) if budget is None else Budget(arenas, budget)
    A.format_arena(arenas[0], 1, words, 5)
    new_table(arenas[0], int(table_at(0)))
    dictionary = Dictionary(arenas[0], int(table_at(0)), held)
    return [Part(arenas[i + 1], i + 1, held, dictionary) for i in range(stages)]


def net_of(rows: Mapping[Row, int] | Iterable[tuple[Row, int]], columns: Sequence[Column], part: Part) -> Zset:
    """The net of weighted rows."""
    counted: Counter[Row] = Counter()
    for row, weight in rows.items() if isinstance(rows, Mapping) else rows:
        counted[tuple(map(normalise, row))] += weight
    kept = [(row, weight) for row, weight in counted.items() if weight]
    codes = [
        encode(pa.array([row[i] for row, _ in kept], arrow_type(column.type)), column.type, part.dictionary.intern)
        for i, column in enumerate(columns)
    ]
    matrix = np.array(codes, np.int64).reshape(len(columns), len(kept))
    return Zset.of_columns(matrix, np.array([weight for _, weight in kept], np.int64))


def bag_of(nets: Iterable[Zset], columns: Sequence[Column], part: Part) -> Counter[Row]:
    """The sum of nets as rows of Python values; the rows of each net are distinct, or the test fails."""
    total: Counter[Row] = Counter()
    for net in nets:
        codes = net.columns()
        values = [
            decode(np.ascontiguousarray(codes[i]), column.type, part.dictionary.extern).to_pylist()
            for i, column in enumerate(columns)
        ]
        rows = [tuple(normalise(column[i]) for column in values) for i in range(len(net))]
        assert len(set(rows)) == len(rows), "a row occurs twice in a net"
        assert (net.weights != 0).all(), "a net has a weight of 0"
        for row, weight in zip(rows, net.weights.tolist(), strict=True):
            total[row] += weight
    return Counter({row: weight for row, weight in total.items() if weight})


def scanned(stage: Over | Top, part: Part) -> Counter[Row]:
    """The rows that a stage holds."""
    found: Counter[Row] = Counter()
    for net in stage.scan():
        found.update(bag_of([net.net()], stage.columns, part))
    return found
