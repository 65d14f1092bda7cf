"""Update streams: which row of which table is inserted or deleted, in order.

A ``Stream`` holds every row that ever lives once, as Arrow tables, and the order of updates as three arrays. So it can
be cut into batches of any size, any prefix is a database (``alive``), and every engine receives the same Arrow batches.

Sources: the sliding window and the enclosureness streams are those of the CROWN paper, PVLDB 16(5), 2023, Section 7.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from crown.ingest.streams.window import WEIGHT, size, updates

Batch = dict[str, pa.Table]


@dataclass(frozen=True)
class Stream:
    """``relation[i]`` (index into ``tables``), ``row[i]`` (row number in that table) and ``weight[i]`` (+1 / -1) of
    update ``i``.

    ``copies`` is the number of inputs of the query that one update reaches, 3 for a 3-hop over one edge list: the paper
    counts these.
    """

    title: str
    tables: Mapping[str, pa.Table]
    relation: np.ndarray
    row: np.ndarray
    weight: np.ndarray

    def __len__(self) -> int:
        return len(self.row)

    def head(self, n: int) -> Stream:
        """Returns the first ``n`` updates, which do not keep the others in memory."""
        if n >= len(self):
            return self
        relation, row, weight = (a[:n].copy() for a in (self.relation, self.row, self.weight))
        return Stream(self.title, self.tables, relation, row, weight)

    def again(self, times: int) -> Stream:
        """Returns the stream ``times`` times in sequence; it must end with empty tables."""
        if times == 1:
            return self
        relation, row, weight = (np.tile(a, times) for a in (self.relation, self.row, self.weight))
        return Stream(self.title, self.tables, relation, row, weight)

    def batches(self, rows: int, start: int = 0) -> Iterator[Batch]:
        """Yields batches of ``rows`` updates from update ``start`` on: relation -> Arrow table with ``_weight``."""
        for at in range(start, len(self), rows):
            yield self.batch(at, at + rows)

    def batch(self, start: int, stop: int) -> Batch:
        """Returns updates ``start`` to ``stop`` as one batch."""
        relation, row, weight = self.relation[start:stop], self.row[start:stop], self.weight[start:stop]
        out: Batch = {}
        for number, (name, table) in enumerate(self.tables.items()):
            here = relation == number
            if here.any():
                taken = table.take(pa.array(row[here])).combine_chunks()
                out[name] = taken.append_column(WEIGHT, pa.array(weight[here]))
        return out

    def alive(self, position: int) -> dict[str, pa.Table]:
        """Returns the tables after the first ``position`` updates."""
        out = {}
        for number, (name, table) in enumerate(self.tables.items()):
            here = self.relation[:position] == number
            copies = np.zeros(table.num_rows, np.int64)
            np.add.at(copies, self.row[:position][here], self.weight[:position][here])
            out[name] = table.take(pa.array(np.flatnonzero(copies > 0)))
        return out

    def most_alive(self) -> int:
        """Returns the largest number of live rows at any time."""
        return int(np.cumsum(self.weight).max(initial=0))


def windowed(title: str, name: str, table: pa.Table, window: float | str) -> Stream:
    """Returns the sliding-window stream over one table in its order; see ``crown.ingest.streams.window``."""
    row, weight = updates(table.num_rows, size(window, table.num_rows))
    return Stream(title, {name: table}, np.zeros(len(row), np.int16), row, weight)


def timed(
    title: str, tables: Mapping[str, pa.Table], born: Mapping[str, np.ndarray], dies: Mapping[str, np.ndarray]
) -> Stream:
    """Returns the stream that inserts every row of ``tables`` at ``born`` and deletes it at ``dies``
    (int64 instants; the largest int64 means never). Ties: insertions first, then the order of the tables.
    """
    never = np.iinfo(np.int64).max
    at, relation, row, weight = [], [], [], []
    for number, name in enumerate(tables):
        rows = np.arange(tables[name].num_rows)
        for instants, sign in ((born[name], 1), (dies[name], -1)):
            here = instants < never
            at.append(instants[here])
            relation.append(np.full(int(here.sum()), number, np.int16))
            row.append(rows[here])
            weight.append(np.full(int(here.sum()), sign, np.int64))
    instants, signs = np.concatenate(at), np.concatenate(weight)
    order = np.lexsort((-signs, instants))
    return Stream(title, dict(tables), np.concatenate(relation)[order], np.concatenate(row)[order], signs[order])


def comb(title: str, edges: pa.Table, window: float | str, seed: int = 7) -> Stream:
    """Returns the 2-comb stream: a window over the edges, and windows of the same span over two vertex lists ``V1``,
    ``V2``.

    While a window's worth of edges arrives, a fifth of its distinct sources (targets), drawn at random, arrive evenly
    between them; they expire first in, first out.
    """
    rng = np.random.default_rng(seed)
    n = edges.num_rows
    width = size(window, n)
    tables, born, dies = {"G": edges}, {"G": np.arange(n) * 4}, {"G": (np.arange(n) + width) * 4 - 1}
    for name, column, phase in (("V1", "src", 1), ("V2", "dst", 2)):
        values = edges.column(column).to_numpy()
        picks, arrival = [], []
        for start in range(0, n, width):
            distinct = np.unique(values[start : start + width])
            chosen = rng.choice(distinct, max(len(distinct) // 5, 1), replace=False)
            picks.append(chosen)
            arrival.append(start + np.arange(len(chosen)) * min(width, n - start) // len(chosen))
        rows, when = np.concatenate(picks), np.concatenate(arrival)
        tables[name] = pa.table({"v": rows})
        born[name] = when * 4 + phase
        dies[name] = _before_the_next(rows, (when + width) * 4 + phase, born[name])
    return timed(title, tables, born, dies)


def _before_the_next(values: np.ndarray, dies: np.ndarray, born: np.ndarray) -> np.ndarray:
    """Returns death times moved before the next birth of an equal value, so that no row exists twice."""
    order = np.lexsort((born, values))
    same = values[order][:-1] == values[order][1:]
    out = dies.copy()
    earlier, later = order[:-1][same], order[1:][same]
    out[earlier] = np.minimum(out[earlier], born[later] - 1)
    return out


def enclosureness(title: str, edges: pa.Table, span: float, steps: int | None = None) -> Stream:
    """Returns the paper's λ stream for ``G1(A,B), G2(B,C), G3(C,D)``: one ``G2`` edge per step, deleted ``span * N``
    steps later, and twenty ``G1`` and twenty ``G3`` operations between steps, which insert all edges, delete all, and
    so on.

    The paper plots ``span`` 0.05, 0.1, 0.2, 0.5, 1 as λ = 1, 2, 4, 10, 20. ``steps`` (default N) truncates the stream;
    rows alive then stay.
    """
    n = edges.num_rows
    steps = n if steps is None else min(steps, n)
    life = max(int(span * n), 1)
    step = np.arange(steps)
    swing = np.arange(20 * steps)
    swing_row, swing_weight = swing % n, np.where((swing // n) % 2 == 0, 1, -1)
    gone = step[step >= life] - life
    relation = np.concatenate(
        [np.full(len(swing), 0), np.full(len(swing), 2), np.full(steps, 1), np.full(len(gone), 1)]
    )
    row = np.concatenate([swing_row, swing_row, step, gone])
    weight = np.concatenate([swing_weight, swing_weight, np.ones(steps, np.int64), -np.ones(len(gone), np.int64)])
    when = np.concatenate([swing // 20 * 4, swing // 20 * 4, step * 4 + 2, (gone + life) * 4 + 1])
    order = np.argsort(when, kind="stable")
    tables = {"G1": edges, "G2": edges, "G3": edges}
    return Stream(title, tables, relation[order].astype(np.int16), row[order], weight[order])
