"""Four relations without a common key: events refer to orders, orders to items in stock, items to a supplier's prices.

Events are inserted and deleted in a window. Orders often arrive after their first events, some never do. Stock and
prices are current values: a new value replaces the one before.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from bench.cases.streams import Stream, timed

SCHEMA = {
    "events": {"e_id": "int64", "e_order": "int64", "e_kind": "int64"},
    "orders": {"o_id": "int64", "o_item": "int64", "o_pieces": "int64"},
    "stock": {"s_item": "int64", "s_supplier": "int64", "s_pieces": "int64"},
    "prices": {"p_supplier": "int64", "p_price": "int64"},
}
KEYS = {"events": ("e_id",), "orders": ("o_id",), "stock": ("s_item",), "prices": ("p_supplier",)}
SQL = (
    "SELECT e_kind, COUNT(*) AS events, COUNT(o_id) AS ordered, COUNT(s_item) AS stocked, SUM(s_pieces) AS pieces, "
    "SUM(o_pieces * p_price) AS worth FROM events LEFT JOIN orders ON e_order = o_id "
    "LEFT JOIN stock ON o_item = s_item LEFT JOIN prices ON s_supplier = p_supplier GROUP BY e_kind"
)
ITEMS, SUPPLIERS, KINDS = 2_000, 200, 50
_STEP = 4  # instants per event


def stream(events: int, seed: int = 7) -> Stream:
    """Returns the updates of ``events`` events, half as many orders, and a tenth as many new values of stock and
    prices.
    """
    rng = np.random.default_rng(seed)
    at, orders, window = np.arange(events), events // 2, max(events // 5, 1)
    tables = {
        "events": pa.table(
            {
                "e_id": at,
                "e_order": np.maximum(at // 2 + rng.integers(-200, 100, events), 0),
                "e_kind": rng.integers(0, KINDS, events),
            }
        ),
        "orders": pa.table(
            {
                "o_id": np.arange(orders),
                "o_item": (ITEMS * rng.random(orders) ** 2).astype(np.int64),
                "o_pieces": rng.integers(1, 9, orders),
            }
        ),
    }
    born = {"events": _STEP * at, "orders": _STEP * (2 * np.arange(orders) + rng.integers(0, 400, orders)) + 1}
    dies = {"events": born["events"] + _STEP * window + 2, "orders": born["orders"] + 2 * _STEP * window}
    for name, values, number in (("stock", ITEMS, events // 12), ("prices", SUPPLIERS, events // 60)):
        key, born[name], dies[name] = _current(rng, values, number, _STEP * events)
        first, *others = SCHEMA[name]
        tables[name] = pa.table({first: key, **{column: rng.integers(1, SUPPLIERS, len(key)) for column in others}})
    return timed(f"events, orders, stock, prices: {events:,} events in a window of {window:,}", tables, born, dies)


def _current(rng: np.random.Generator, values: int, number: int, end: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns keys and lifetimes of current values: four fifths exist from the start, and ``number`` arrive later.

    Each value lives until the next value of its key arrives, the last one forever.
    """
    key = np.concatenate([np.arange(values * 4 // 5), rng.integers(0, values, number)])
    born = np.concatenate([np.full(values * 4 // 5, -1), rng.choice(max(end // 4, number), number, False) * 4 + 3])
    order = np.lexsort((born, key))
    dies = np.full(len(key), np.iinfo(np.int64).max)
    same = key[order][:-1] == key[order][1:]
    dies[order[:-1][same]] = born[order[1:][same]] - 1
    return key, born, dies
