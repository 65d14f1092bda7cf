"""Values with parts on Spark: columns of streams, state, deltas and tables. Oracle: DuckDB, after every micro-batch."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import crown
import plans
from crown.results.summed import summed
from plans.lowering.lower import lower
from plans.schema import Schema
from spark_jobs.queries.catalyst import relation_of
from tests.marks import slow
from tests.models import normalise
from tests.programs.test_unnest import MAPS
from tests.programs.test_unnest import SCHEMA as TABLES
from tests.programs.test_unnest import _row as row_of_t
from tests.spark.streams import ChangeFiles, Result, batch_of, oracle_of, rows_of, run

pytestmark = pytest.mark.spark

SCHEMA = {"t": TABLES["t"]}
QUERIES = {
    "rows": ("SELECT id, tags, p, items FROM t", None, (1, 2)),
    "exploded": (
        "SELECT id, x FROM t LATERAL VIEW explode(tags) AS x",
        "SELECT id, u.x FROM t, UNNEST(tags) AS u(x)",
        (2,),
    ),
    "grouped": (
        "SELECT x, COUNT(*) AS n, MIN(p.a) AS a FROM t LATERAL VIEW explode(tags) AS x GROUP BY x",
        "SELECT u.x, COUNT(*) AS n, MIN(p.a) AS a FROM t, UNNEST(tags) AS u(x) GROUP BY u.x",
        (2,),
    ),
    "arrays that join": (
        "SELECT a.id, b.id AS other, a.tags, a.p, b.items FROM t a JOIN t b ON a.tags = b.tags",
        None,
        (2,),
    ),
}


class Nested(Result):
    """A sink whose rows have tuples for parts."""

    def write(self, frame, batch):
        rows = Counter()
        for *row, weight in (tuple(row) for row in frame.collect()):
            rows[tuple(normalise(value) for value in row)] += weight
        self.deltas[batch] = rows


CASES = [(name, cells) for name, (*_, cut) in QUERIES.items() for cells in cut]


@pytest.mark.parametrize(
    ("name", "cells"), [case if case == ("arrays that join", 2) else slow(*case) for case in CASES]
)
def test_every_batch_is_what_duckdb_says_it_is(spark, tmp_path, name, cells):
    query, theirs, _ = QUERIES[name]
    rng = random.Random(name)
    files, oracle, sink = ChangeFiles(tmp_path / "in", SCHEMA), oracle_of(SCHEMA, theirs or query), Nested()
    there, batches = [], []
    for _ in range(3):
        gone = [there.pop(rng.randrange(len(there))) for _ in range(min(2, len(there)))]
        come = [row_of_t(rng) for _ in range(5)]
        there += come
        batches.append({"t": [(*row, -1) for row in gone] + [(*row, 1) for row in come]})
        files.add(batches[-1])
    run(spark, query, files, tmp_path / "state", sink=sink, schema=SCHEMA, cells=cells)
    for number, batch in enumerate(batches):
        plain = {"t": [tuple(normalise(value) for value in row) for row in batch["t"]]}
        oracle.apply(batch_of(plain))
        assert sink.state(number) == oracle.result


READ = (
    "SELECT id, x FROM t LATERAL VIEW explode(tags) e AS x",
    "SELECT id, x FROM t LATERAL VIEW OUTER explode(tags) e AS x",
    "SELECT id, pos, c FROM t LATERAL VIEW posexplode(tags) e AS pos, c",
    "SELECT id, sku, n FROM t LATERAL VIEW inline(items) e AS sku, n",
    "SELECT id, explode(tags) AS x FROM t WHERE id < 3",
    "SELECT x, COUNT(*) AS n FROM t LATERAL VIEW explode(tags) e AS x GROUP BY x",
    "SELECT id, x FROM t LATERAL VIEW explode(array(id, p.a)) e AS x WHERE x > 0",
    "SELECT a.id, x FROM t a LEFT JOIN t b ON a.id = b.p.a LATERAL VIEW explode(array(a.id, b.id)) e AS x",
    "SELECT t.p.a AS a, p.b[0] AS b, items[0].sku AS sku, size(tags) AS s FROM t",
    "SELECT id, collect_list(p.a) AS l, collect_set(id) AS s, array_agg(p.a) AS a FROM t GROUP BY id",
    "SELECT struct(id, p.a AS q) AS s, array(id, 2) AS l, named_struct('z', tags) AS z FROM t",
)


def test_spark_and_the_own_reader_read_the_same(spark):
    rng = random.Random(7)
    names = list(SCHEMA["t"])
    rows = [dict(zip(names, row_of_t(rng), strict=True)) for _ in range(40)]
    for query in READ:
        relation = relation_of(spark, query, Schema.of(SCHEMA))
        found = []
        for made in (lower(relation), plans.program(query, SCHEMA)):
            view = crown.view(made)
            view.apply({"t": rows})
            found.append(Counter(str(tuple(row.values())) for row in view))
        assert found[0] == found[1], query
        assert found[0]


def test_maps_travel_in_the_order_of_their_keys(spark, tmp_path):
    schema = {"m": {"id": "int64", "m": "map<string,int64>"}}
    files, sink = ChangeFiles(tmp_path / "in", schema), Result()
    files.add({"m": [(row["id"], None if row["m"] is None else list(dict(row["m"]).items()), 1) for row in MAPS]})
    sink.write = lambda frame, batch: sink.deltas.update(
        {batch: rows_of(frame.selectExpr("id", "get(map_keys(m), 0)", "_weight"))}
    )
    run(spark, "SELECT id, m FROM m", files, tmp_path / "state", sink=sink, schema=schema)
    assert sink.state() == Counter({(1, "a"): 1, (2, None): 1, (3, None): 1, (4, "b"): 1})


def test_rows_with_parts_are_netted_by_their_values():
    view = crown.view("SELECT id, tags FROM t", schema=SCHEMA)
    table = view.apply({"t": [{"id": 1, "tags": ["a"], "p": None, "items": None}] * 2})
    both = crown.view("SELECT id FROM t", schema=SCHEMA)
    assert both.count() == 0
    assert summed(table).to_pylist() == [{"id": 1, "tags": ["a"], "_weight": 2}]
