"""Nexmark: persons offer items at auction, others bid; 1 person, 3 auctions and 46 bids in 50 events.

Sources: Tucker, Tufte, Papadimos, Maier, "NEXMark: a benchmark for queries over data streams", 2002; distributions of
the generator of Apache Beam (hot auctions, bidders and sellers); queries Q0 to Q22 in the version of the project
``nexmark`` for Flink SQL. Q12 is omitted: it counts by the machine's clock, so no two runs have the same result. The
user function of Q14 is written as an expression.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from bench.cases.streams import Stream, timed
from bench.cases.workload import Workload

SCHEMA = {
    "person": {
        "id": "int64", "name": "string", "email": "string", "card": "string", "city": "string", "state": "string",
        "dateTime": "timestamp_ntz", "extra": "string",
    },
    "auction": {
        "id": "int64", "itemName": "string", "description": "string", "initialBid": "int64", "reserve": "int64",
        "dateTime": "timestamp_ntz", "expires": "timestamp_ntz", "seller": "int64", "category": "int64",
        "extra": "string",
    },
    "bid": {
        "auction": "int64", "bidder": "int64", "price": "int64", "channel": "string", "url": "string",
        "dateTime": "timestamp_ntz", "extra": "string",
    },
    "side": {"k": "int64", "v": "string"},
}  # fmt: skip
KEYS = {"person": ("id",), "auction": ("id",), "side": ("k",)}

_EVENTS, _PERSONS, _AUCTIONS = 50, 1, 3  # in 50 events; the rest are bids
_HOT_SELLER, _HOT_AUCTION, _HOT_BIDDER = 4, 2, 4  # all but one in this many go to the hot ones
_HOT_EVERY = 100  # one in this many sellers, auctions and bidders is hot
_RECENT_PERSONS, _RECENT_AUCTIONS = 1_000, 100  # the most recent ones, of which one is drawn if it is not hot
_PERSON0, _AUCTION0, _CATEGORY0, _CATEGORIES = 1_000, 1_000, 10, 5
_SIDE = 10_000
_STEP_US = 100  # 10,000 events per second
_HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_CHANNELS = 10_000
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CITIES = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent")
_FIRST = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_LAST = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")

_WINNING = (
    "SELECT MAX(b.price) AS final, a.id, a.category FROM auction a, bid b WHERE a.id = b.auction AND "
    "b.dateTime BETWEEN a.dateTime AND a.expires GROUP BY a.id, a.category"
)
_BEST = (
    "SELECT a.id, a.itemName, a.seller, a.category, a.expires, b.auction, b.bidder, b.price, b.dateTime AS began, "
    "ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.dateTime, b.bidder) AS place FROM auction a, bid b "
    "WHERE a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires"
)
_COUNTS = (
    "COUNT(*) AS bids, COUNT(*) FILTER (WHERE price < 10000) AS low, COUNT(*) FILTER (WHERE price >= 10000 AND "
    "price < 1000000) AS middle, COUNT(*) FILTER (WHERE price >= 1000000) AS high"
)
_DISTINCT = ", ".join(
    f"COUNT(DISTINCT {column}) AS {column}s, COUNT(DISTINCT {column}) FILTER (WHERE price < 10000) AS {column}s_low, "
    f"COUNT(DISTINCT {column}) FILTER (WHERE price >= 10000 AND price < 1000000) AS {column}s_middle, "
    f"COUNT(DISTINCT {column}) FILTER (WHERE price >= 1000000) AS {column}s_high"
    for column in ("bidder", "auction")
)
_TEN = "time_bucket(INTERVAL '10' SECOND, {}dateTime)"
_SELLERS = (
    "SELECT p.id, p.name, p.began FROM (SELECT DISTINCT id, name, " + _TEN.format("") + " AS began FROM person) p "
    "JOIN (SELECT DISTINCT seller, "
    + _TEN.format("")
    + " AS began FROM auction) a ON p.id = a.seller AND p.began = a.began"
)
_HOPS = (
    "SELECT auction, began - i * INTERVAL '2' SECOND AS began, SUM(n) AS n FROM (SELECT auction, "
    "time_bucket(INTERVAL '2' SECOND, dateTime) AS began, COUNT(*) AS n FROM bid GROUP BY 1, 2), "
    "(VALUES (0), (1), (2), (3), (4)) AS hops(i) GROUP BY 1, 2"
)
_HOT = "SELECT auction, n, began FROM (SELECT *, MAX(n) OVER (PARTITION BY began) AS most FROM ({})) WHERE n = most"
_SESSIONS = (
    "SELECT bidder, COUNT(*) AS n, MIN(dateTime) AS first FROM (SELECT *, SUM(o) OVER (PARTITION BY bidder ORDER BY "
    "dateTime RANGE UNBOUNDED PRECEDING) AS s FROM (SELECT *, CASE WHEN dateTime <= LAG(dateTime) OVER (PARTITION BY "
    "bidder ORDER BY dateTime) + INTERVAL '10' SECOND THEN 0 ELSE 1 END AS o FROM bid)) GROUP BY bidder, s"
)


def _workload(name: str, title: str, sql: str, tables: tuple[str, ...] = ("bid",), view: str = "") -> Workload:
    return Workload(
        f"nexmark-{name}", f"{name.upper()}: {title}", sql, SCHEMA, "nexmark", tables=tables, keys=KEYS,
        checked=9_000, check_options={"events": 6_000, "window": 4_000}, view=view, dialect="duckdb",
    )  # fmt: skip


_BOTH = ("auction", "bid")
NEXMARK: dict[str, Workload] = {
    w.name: w
    for w in (
        _workload("q0", "pass through", "SELECT auction, bidder, price, dateTime, extra FROM bid"),
        _workload(
            "q1", "currencies",
            "SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price, dateTime, extra FROM bid",
        ),
        _workload("q2", "selection", "SELECT auction, price FROM bid WHERE auction % 123 = 0"),
        _workload(
            "q3", "who sells here",
            "SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id WHERE a.category = "
            "10 AND p.state IN ('OR', 'ID', 'CA')",
            ("person", "auction"),
        ),
        _workload("q4", "AVG of winning bids by category",
            f"SELECT category, SUM(final) AS total, COUNT(*) AS auctions FROM ({_WINNING}) GROUP BY category", _BOTH),
        _workload("q5", "hot auctions, HOP", _HOT.format(_HOPS), view=_HOT.format(
            "SELECT auction, window_start AS began, COUNT(*) AS n FROM TABLE(HOP(TABLE bid, DESCRIPTOR(dateTime), "
            "INTERVAL '2' SECOND, INTERVAL '10' SECOND)) GROUP BY auction, window_start, window_end"
        )),
        _workload(
            "q6", "the last ten winning bids of a seller",
            "SELECT seller, id, SUM(price) OVER (PARTITION BY seller ORDER BY began, id ROWS BETWEEN 9 PRECEDING AND "
            f"CURRENT ROW) AS total FROM ({_BEST}) WHERE place = 1",
            _BOTH,
        ),
        _workload(
            "q7", "highest bids, TUMBLE",
            "SELECT b.auction, b.price, b.bidder, b.dateTime, b.extra FROM bid b JOIN (SELECT MAX(price) AS most, "
            f"{_TEN.format('')} AS began FROM bid GROUP BY 2) m ON b.price = m.most AND {_TEN.format('b.')} = m.began",
        ),
        _workload("q8", "new persons who sell, TUMBLE", _SELLERS, ("person", "auction")),
        _workload(
            "q9", "winning bids", f"SELECT id, itemName, seller, category, bidder, price, began FROM ({_BEST}) WHERE "
            "place = 1", _BOTH,
        ),
        _workload(
            "q10", "by day and minute",
            "SELECT auction, bidder, price, dateTime, extra, strftime(dateTime, '%Y-%m-%d') AS day, "
            "strftime(dateTime, '%H:%M') AS minute FROM bid",
        ),
        _workload("q11", "sessions of bidders", _SESSIONS, view=(
            "SELECT bidder, COUNT(*) AS n, MIN(dateTime) AS first FROM bid GROUP BY bidder, "
            "SESSION(dateTime, INTERVAL '10' SECOND)"
        )),
        _workload(
            "q13", "join of a side table",
            "SELECT b.auction, b.bidder, b.price, b.dateTime, s.v FROM bid b JOIN side s ON b.auction % 10000 = s.k",
            ("side", "bid"),
        ),
        _workload(
            "q14", "calculations",
            "SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price, CASE WHEN hour(dateTime) BETWEEN "
            "8 AND 18 THEN 'day' WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'night' ELSE 'other' END AS "
            "part, dateTime, extra, length(extra) - length(replace(extra, 'c', '')) AS cs FROM bid WHERE 0.908 * price "
            "> 1000000 AND 0.908 * price < 50000000",
        ),
        _workload(
            "q15", "distinct by day",
            f"SELECT strftime(dateTime, '%Y-%m-%d') AS day, {_COUNTS}, {_DISTINCT} FROM bid GROUP BY 1",
        ),
        _workload(
            "q16", "distinct by channel and day",
            "SELECT channel, strftime(dateTime, '%Y-%m-%d') AS day, MAX(strftime(dateTime, '%H:%M')) AS minute, "
            f"{_COUNTS}, {_DISTINCT} FROM bid GROUP BY 1, 2",
        ),
        _workload(
            "q17", "auctions by day",
            f"SELECT auction, strftime(dateTime, '%Y-%m-%d') AS day, {_COUNTS}, MIN(price) AS least, MAX(price) AS "
            "most, AVG(price) AS average, SUM(price) AS total FROM bid GROUP BY 1, 2",
        ),
        _workload(
            "q18", "last bid of a bidder",
            "SELECT auction, bidder, price, channel, url, dateTime, extra FROM (SELECT *, ROW_NUMBER() OVER (PARTITION "
            "BY bidder, auction ORDER BY dateTime DESC) AS place FROM bid) WHERE place = 1",
        ),
        _workload(
            "q19", "ten best bids",
            "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, dateTime) AS place "
            "FROM bid) WHERE place <= 10",
        ),
        _workload(
            "q20", "bids with their auction",
            "SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.dateTime, b.extra, a.itemName, a.description, "
            "a.initialBid, a.reserve, a.dateTime AS offered, a.expires, a.seller, a.category FROM bid b JOIN auction a "
            "ON b.auction = a.id WHERE a.category = 10",
            _BOTH,
        ),
        _workload(
            "q21", "channels",
            "SELECT auction, bidder, price, channel, CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' "
            "WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END "
            "AS channel_id FROM bid WHERE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) <> '' OR lower(channel) IN "
            "('apple', 'google', 'facebook', 'baidu')",
        ),
        _workload(
            "q22", "parts of a URL",
            "SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2, "
            "split_part(url, '/', 6) AS dir3 FROM bid",
        ),
    )
}  # fmt: skip


def stream(events: int, tables: tuple[str, ...], window: int = 0, seed: int = 7) -> Stream:
    """Returns the updates of ``events`` events, in their order. A row is deleted ``window`` events after it was
    inserted (0: never, as in Nexmark). The side table is inserted first, and never deleted.

    Ids grow with time. An auction is open for ten seconds on average. Times are event times, a tenth of a millisecond
    apart, so that no two bids have the same time.
    """
    rng = np.random.default_rng(seed)
    at = np.arange(events)
    within = at % _EVENTS
    whole = at // _EVENTS
    numbers = {
        "person": at[within < _PERSONS],
        "auction": at[(within >= _PERSONS) & (within < _PERSONS + _AUCTIONS)],
        "bid": at[within >= _PERSONS + _AUCTIONS],
    }
    persons, auctions = whole + 1, _AUCTIONS * whole + np.clip(within - _PERSONS + 1, 0, _AUCTIONS)  # existing by then
    made: dict[str, pa.Table] = {}
    if "side" in tables:
        made["side"] = pa.table({"k": np.arange(_SIDE), "v": [str(i) for i in range(_SIDE)]})
    if "person" in tables:
        made["person"] = _persons(rng, numbers["person"])
    if "auction" in tables:
        made["auction"] = _auctions(rng, numbers["auction"], persons)
    if "bid" in tables:
        made["bid"] = _bids(rng, numbers["bid"], persons, auctions)
    never = np.iinfo(np.int64).max
    born = {name: 2 * numbers.get(name, np.full(table.num_rows, -1)) for name, table in made.items()}
    dies = {
        name: born[name] + 2 * window + 1 if window and name != "side" else np.full(table.num_rows, never)
        for name, table in made.items()
    }
    kept = f"each there for {window:,} events" if window else "none deleted"
    return timed(f"Nexmark, {events:,} events, {kept}", made, born, dies)


def _persons(rng: np.random.Generator, at: np.ndarray) -> pa.Table:
    n = len(at)
    first, last = _of(rng, _FIRST, n), _of(rng, _LAST, n)
    host = _texts(rng, 5, n)
    digits = rng.integers(0, 10_000, (4, n))
    return pa.table(
        {
            "id": _PERSON0 + np.arange(n),
            "name": [f"{one} {other}" for one, other in zip(first, last, strict=True)],
            "email": [f"{one}@{other}.com" for one, other in zip(_texts(rng, 7, n), host, strict=True)],
            "card": [" ".join(f"{d:04}" for d in four) for four in digits.T.tolist()],
            "city": _of(rng, _CITIES, n),
            "state": _of(rng, _STATES, n),
            "dateTime": _time(at),
            "extra": _texts(rng, 60, n),
        }
    )


def _auctions(rng: np.random.Generator, at: np.ndarray, persons: np.ndarray) -> pa.Table:
    n, there = len(at), persons[at]
    price = _prices(rng, n)
    return pa.table(
        {
            "id": _AUCTION0 + np.arange(n),
            "itemName": _texts(rng, 20, n),
            "description": _texts(rng, 100, n),
            "initialBid": price,
            "reserve": price + _prices(rng, n),
            "dateTime": _time(at),
            "expires": pa.array(_STEP_US * at + rng.integers(1, 20_000_001, n), pa.timestamp("us")),
            "seller": _PERSON0 + _drawn(rng, there, _HOT_SELLER, _RECENT_PERSONS),
            "category": _CATEGORY0 + rng.integers(0, _CATEGORIES, n),
            "extra": _texts(rng, 60, n),
        }
    )


def _bids(rng: np.random.Generator, at: np.ndarray, persons: np.ndarray, auctions: np.ndarray) -> pa.Table:
    n = len(at)
    hot = rng.integers(0, 2, n) == 0
    known, other = rng.integers(0, len(_HOT_CHANNELS), n), rng.integers(0, _CHANNELS, n)
    paths = _texts(rng, 5, 3 * n)
    channel, url = [], []
    for i, (is_hot, one, number) in enumerate(zip(hot.tolist(), known.tolist(), other.tolist(), strict=True)):
        base = "https://www.nexmark.com/" + "/".join(paths[3 * i : 3 * i + 3]) + "/item.htm?query=1"
        channel.append(_HOT_CHANNELS[one] if is_hot else f"channel-{number}")
        url.append(base if is_hot or number % 10 == 0 else f"{base}&channel_id={number}")
    return pa.table(
        {
            "auction": _AUCTION0 + _drawn(rng, auctions[at], _HOT_AUCTION, _RECENT_AUCTIONS),
            "bidder": _PERSON0 + _drawn(rng, persons[at], _HOT_BIDDER, _RECENT_PERSONS),
            "price": _prices(rng, n),
            "channel": channel,
            "url": url,
            "dateTime": _time(at),
            "extra": _texts(rng, 40, n),
        }
    )


def _drawn(rng: np.random.Generator, there: np.ndarray, hot: int, recent: int) -> np.ndarray:
    """Returns for each event one of the ``there`` numbers that exist by then: mostly the last multiple of a hundred."""
    chosen = (there - 1) // _HOT_EVERY * _HOT_EVERY
    near = there - 1 - (rng.random(len(there)) * np.minimum(there, recent)).astype(np.int64)
    return np.where(rng.integers(0, hot, len(there)) > 0, chosen, near)


def _prices(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.round(100 * 10 ** (6 * rng.random(n))).astype(np.int64)


def _time(at: np.ndarray) -> pa.Array:
    return pa.array(_STEP_US * at, pa.timestamp("us"))


def _of(rng: np.random.Generator, values: tuple[str, ...], n: int) -> list[str]:
    return [values[i] for i in rng.integers(0, len(values), n).tolist()]


def _texts(rng: np.random.Generator, length: int, n: int) -> list[str]:
    letters = rng.integers(97, 123, length * n, np.uint8).tobytes().decode()
    return [letters[length * i : length * i + length] for i in range(n)]
