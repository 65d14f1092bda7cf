"""Queries whose cells are cut anew, batches of their relations, and jobs that have run some of them."""

from __future__ import annotations

import random

import pyarrow as pa

import plans
from plans.time.windows import last_rows, sliding, ttl
from tests.spark.recell.jobs import Job

U = {"id": "int64", "k": "int64 not null", "seq": "int64"}
SCHEMA = {
    "g": {"src": "int64", "dst": "int64"},
    "p": {"k": "int64", "name": "string", "born": "date", "worth": "decimal(20,2)", "share": "float64"},
    "u": {"columns": U, "key": ["id"], "upserts": True, "sequence": "seq"},
    "e": {"columns": {"id": "int64", "k": "int64"}, "key": ["id"], "enforced": True},
}
HOPS = (
    "SELECT DISTINCT x.src a, y.src b, z.dst c FROM g x, g y, g z WHERE x.dst = y.src AND y.dst = z.src AND y.src <> 2"
)
QUERIES = {
    "3 hops of one relation": HOPS,
    "texts, and NULL where rows join": "SELECT DISTINCT x.name, y.k, y.born FROM p x, p y WHERE x.name = y.name",
    "triangles": "SELECT DISTINCT x.src a, y.src b, z.src c FROM g x, g y, g z "
    "WHERE x.dst = y.src AND y.dst = z.src AND z.dst = x.src",
    "a square": "SELECT DISTINCT x.src a, y.src b, z.src c, w.src d FROM g x, g y, g z, g w "
    "WHERE x.dst = y.src AND y.dst = z.src AND z.dst = w.src AND w.dst = x.src",
    "groups": "SELECT k, COUNT(*) n, SUM(worth) s, MIN(name) lo FROM p GROUP BY k",
    "groups of a join": "SELECT x.dst, COUNT(*) n, SUM(share) s FROM g x, p WHERE x.src = p.k GROUP BY x.dst",
    "two rounds": "SELECT SUM(x.dst) s, COUNT(*) n FROM g x, g y WHERE x.dst = y.src",
    "two rounds, the first a plan": "SELECT AVG(a) n FROM (SELECT DISTINCT x.src a, y.dst b FROM g x, g y "
    "WHERE x.dst = y.src) t",
    "rows by key": "SELECT u.k, COUNT(*) n FROM u, g WHERE u.k = g.src GROUP BY u.k",
    "rows by an enforced key": "SELECT e.id, e.k, g.dst FROM e, g WHERE e.k = g.src",
    "windows": "SELECT g.src, COUNT(*) n, MIN(name) lo FROM g, p WHERE g.src = p.k GROUP BY g.src",
    "a window, and a set behind it": "SELECT DISTINCT g.src, p.name FROM g, p WHERE g.src = p.k",
    "windows, and sets behind them": "SELECT DISTINCT x.src, y.dst FROM g x, g y WHERE x.dst = y.src",
    "a window, rows by key, and two rounds": "SELECT COUNT(*) n, SUM(g.dst) s FROM u, g WHERE u.k = g.src",
}
WINDOWS = {
    "windows": {"g": ttl("dst", 4, lateness=1), "p": last_rows(20, by="k")},
    "a window, and a set behind it": {"g": ttl("dst", 5)},
    "windows, and sets behind them": {"g": sliding("dst", 4, 2)},
    "a window, rows by key, and two rounds": {"g": last_rows(30, by="dst")},
}


def program(name, **more):
    return plans.program(QUERIES[name], SCHEMA, windows=WINDOWS.get(name), **more)


def batch(rng, reads, size=25):
    """Changes of the relations that a query reads; some deletes are of rows that are not there."""
    weights = [rng.choice((1, 1, 1, 2, -1, -1)) for _ in range(size)]
    many = pa.array(weights, pa.int64())
    found = {
        "g": {name: [rng.randrange(8) for _ in weights] for name in ("src", "dst")},
        "p": {
            "k": [rng.randrange(8) for _ in weights],
            "name": [rng.choice((None, "", "é", "a name of more than thirty-two bytes, this", "b")) for _ in weights],
            "born": pa.array([rng.choice((None, 3, 9000)) for _ in weights], pa.date32()),
            "worth": pa.array([rng.choice((None, "1.25", "-7.00", "123456789012345678.50")) for _ in weights]).cast(
                pa.decimal128(20, 2)
            ),
            "share": [rng.choice((None, 0.5, -0.0, 0.0, 1e10)) for _ in weights],
        },
    }
    tables = {name: pa.table({**columns, "_weight": many}) for name, columns in found.items() if name in reads}
    if "u" in reads:
        keys = rng.sample(range(40), 15)
        columns = {"id": keys, "k": [rng.randrange(8) for _ in keys], "seq": [rng.randrange(6) for _ in keys]}
        signs = pa.array([rng.choice((1, 1, -1)) for _ in keys], pa.int64())
        tables["u"] = pa.table({**columns, "_weight": signs})
    if "e" in reads:  # a key comes once, and some go that were never there
        columns = {name: [rng.randrange(10**9 if name == "id" else 8) for _ in range(9)] for name in ("id", "k")}
        tables["e"] = pa.table({**columns, "_weight": pa.array([rng.choice((1, 1, -1)) for _ in range(9)], pa.int64())})
    return tables


def running(tmp_path, name, cells, batches=3, seed=1, **more):
    made = program(name)
    job, rng = Job(tmp_path / "job", made, cells, **more), random.Random(seed)
    reads = {table.name for table in made.tables}
    for _ in range(batches):
        job.run(batch(rng, reads))
    return job, lambda: job.run(batch(rng, reads))
