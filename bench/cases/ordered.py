"""Rows in order: trades and quotes of one market, all in one partition, inserted and deleted at any position."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from bench.cases.streams import Stream, timed
from bench.cases.workload import Workload

SCHEMA = {
    "trades": {"id": "int64", "ts": "timestamp_ntz", "account": "int64", "price": "int64", "volume": "int64"},
    "quotes": {"ts": "timestamp_ntz", "price": "int64", "volume": "int64"},
    "buckets": {"id": "int64", "low": "timestamp_ntz", "high": "timestamp_ntz"},
}
_SECOND = 1_000_000
_ACCOUNT = 100  # trades of an account, on average
_BUCKETS = 1_000  # each spans a thousandth of the time, from a random start
_TRADES = ("trades",)
_SESSIONS = (
    "SELECT COUNT(*) AS n, SUM(price) AS s FROM (SELECT price, SUM(o) OVER (ORDER BY ts RANGE UNBOUNDED PRECEDING) "
    "AS g FROM (SELECT *, CASE WHEN ts <= LAG(ts) OVER (ORDER BY ts) + INTERVAL 3 SECOND THEN 0 ELSE 1 END AS o "
    "FROM trades)) GROUP BY g"
)


def _workload(name: str, title: str, sql: str, tables: tuple[str, ...] = _TRADES, view: str = "") -> Workload:
    return Workload(
        name, title, sql, SCHEMA, "ordered", tables=tables, checked=4_000, check_options={"rows": 1_500}, view=view
    )


ORDERED: dict[str, Workload] = {
    w.name: w
    for w in (
        _workload("ord-lag", "LAG", "SELECT id, price - LAG(price) OVER (ORDER BY ts) AS d FROM trades"),
        _workload(
            "ord-frame", "SUM of ten rows",
            "SELECT id, SUM(price) OVER (ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS s FROM trades",
        ),
        _workload(
            "ord-running", "Running SUM and RANK by account",
            "SELECT id, SUM(price) OVER w AS s, RANK() OVER w AS r FROM trades WINDOW w AS (PARTITION BY account "
            "ORDER BY ts)",
        ),
        _workload("ord-median", "MEDIAN", "SELECT MEDIAN(price) AS m FROM trades"),
        _workload("ord-top", "The hundred first", "SELECT id, price FROM trades ORDER BY price, id LIMIT 100"),
        _workload(
            "ord-asof", "ASOF JOIN",
            "SELECT id, t.price - q.price AS d FROM trades t ASOF JOIN quotes q ON t.ts >= q.ts", ("trades", "quotes"),
        ),
        _workload(
            "ord-session", "Sessions", _SESSIONS, _TRADES,
            "SELECT COUNT(*) AS n, SUM(price) AS s FROM trades GROUP BY SESSION(ts, INTERVAL '3' SECOND)",
        ),
        _workload(
            "ord-band", "COUNT by bucket",
            "SELECT b.id, COUNT(*) AS n FROM trades t, buckets b WHERE t.ts >= b.low AND t.ts < b.high GROUP BY b.id",
            ("trades", "buckets"),
        ),
        _workload(
            "ord-before", "SUM over pairs in order (BSP)",
            "SELECT SUM(x.price - 2 * y.price) AS s FROM trades x, trades y WHERE x.ts > y.ts",
        ),
        _workload(
            "ord-apart", "SUM over pairs that are apart (axfinder)",
            "SELECT SUM(t.price - q.price) AS s FROM trades t, quotes q WHERE t.price > q.price + 1000 OR t.price < "
            "q.price - 1000",
            ("trades", "quotes"),
        ),
        _workload(
            "ord-vwap", "Price by volume of the dearest quarter (VWAP)",
            "SELECT SUM(price * volume) AS s FROM trades WHERE 0.25 * (SELECT SUM(x.volume) FROM trades x) > "
            "(SELECT SUM(y.volume) FROM trades y WHERE y.price > trades.price)",
        ),
        _workload(
            "ord-large", "SUM over pairs of large rows (PSP)",
            "SELECT SUM(q.price - t.price) AS s FROM trades t, quotes q WHERE t.volume > (SELECT 0.5 * AVG(x.volume) "
            "FROM trades x) AND q.volume > (SELECT 0.5 * AVG(y.volume) FROM quotes y)",
            ("trades", "quotes"),
        ),
        _workload(
            "ord-mst", "SUM over pairs of the dearest quarters (MST)",
            "SELECT SUM(q.price * q.volume - t.price * t.volume) AS s FROM trades t, quotes q WHERE 0.25 * (SELECT "
            "SUM(x.volume) FROM trades x) > (SELECT SUM(y.volume) FROM trades y WHERE y.price > t.price) AND 0.25 * "
            "(SELECT SUM(v.volume) FROM quotes v) > (SELECT SUM(w.volume) FROM quotes w WHERE w.price > q.price)",
            ("trades", "quotes"),
        ),
        _workload(
            "ord-ranks", "Running SUM and RANK of all",
            "SELECT price, id, volume, SUM(volume) OVER w AS s, RANK() OVER w AS r FROM trades WINDOW w AS (ORDER BY "
            "price, id)",
        ),
    )
}  # fmt: skip
QUADRATIC = ("ord-before", "ord-apart", "ord-large", "ord-mst")
"""The workloads for which another system compares every pair of rows."""
OVER = ("ord-lag", "ord-frame", "ord-running", "ord-ranks", "ord-top")
"""The workloads that are measured on Flink SQL, in its dialect."""
FINANCE = ("ord-vwap", "ord-mst", "ord-before", "ord-large", "ord-apart")
"""DBToaster's finance queries: VWAP, MST, BSP, PSP and axfinder."""
RANGES = ("ord-ranks",)
"""The workloads whose deltas are also measured as ranges, because a change moves half of the table's rows."""


def stream(rows: int, tables: tuple[str, ...], seed: int = 7) -> Stream:
    """Returns updates with ``rows`` live rows, a second apart on average. Rows are inserted in random order of time,
    and deleted in the order of insertion. Buckets are inserted first, and never deleted.
    """
    rng = np.random.default_rng(seed)
    moving = [name for name in tables if name != "buckets"]
    number = 2 * rows // len(moving)
    made, born, dies = {}, {}, {}
    if "buckets" in tables:
        low = rng.choice(rows * _SECOND, _BUCKETS, replace=False)
        low, high = (pa.array(at, pa.timestamp("us")) for at in (low, low + rows * _SECOND // _BUCKETS))
        made["buckets"] = pa.table({"id": np.arange(_BUCKETS), "low": low, "high": high})
        born["buckets"], dies["buckets"] = np.zeros(_BUCKETS, np.int64), np.full(_BUCKETS, np.iinfo(np.int64).max)
    for i, name in enumerate(moving):
        ts = rng.choice(rows * _SECOND, number, replace=False)
        columns = {"ts": pa.array(ts, pa.timestamp("us")), "price": rng.integers(1, 10_000, number)}
        columns["volume"] = rng.integers(1, 1_000, number)
        if name == "trades":
            columns |= {"id": np.arange(number), "account": rng.integers(0, max(rows // _ACCOUNT, 1), number)}
        made[name] = pa.table({column: columns[column] for column in SCHEMA[name]})
        born[name] = 4 * len(moving) * np.arange(number) + i
        dies[name] = born[name] + 4 * len(moving) * (number // 2) + 2
    return timed(f"{rows:,} {' and '.join(tables)} in a window", made, born, dies)
