"""Every construct of the front-ends, executed by the engine and compared with DuckDB after every batch."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter

import pytest

import crown
import plans
from tests.engine.comparison import SideBySide
from tests.marks import turns
from tests.oracles.database import Batch, Database, Row, canonical

TABLES = {
    "g": plans.Table("g", (plans.Column("src", "int64"), plans.Column("dst", "int64")), distinct=True),
    "r": {"a": "int64", "b": "int64", "c": "int32"},
    "p": plans.Table(
        "p",
        (plans.Column("id", "int64"), plans.Column("name", "string"), plans.Column("born", "date")),
        key=("id",),
    ),
    "v": {"id": "int64"},
    "m": {"k": "int64", "x": "float64", "d": "decimal(10,2)"},
}
NAMES = ("", "ann", "bob", "a_b", "a%b", "Ann's", None)


def _row(table: str, rng: random.Random) -> Row:
    def number(high: int = 4) -> int | None:
        return None if rng.random() < 0.08 else rng.randrange(high)

    if table == "g":
        return (number(), number())
    if table == "r":
        return (number(3), number(), number())
    if table == "v":
        return (number(),)
    if table == "m":
        from decimal import Decimal

        return (number(), rng.choice([0.0, 1.5, -2.0, float("nan"), None]), Decimal(rng.randrange(-200, 200)) / 100)
    born = None if rng.random() < 0.1 else dt.date(1990 + rng.randrange(4), 1 + rng.randrange(12), 28)
    return (rng.randrange(5), rng.choice(NAMES), born)


def _batch(database: Database, rng: random.Random) -> Batch:
    """Some deletions of rows there are, some insertions; tables with a declared key or distinctness honour it."""
    batch: dict[str, list[tuple[Row, int]]] = {}
    for name, rows in database.rows.items():
        table = TABLES[name]
        present = sorted(rows.elements(), key=repr)
        gone = rng.sample(present, min(len(present), rng.randrange(4)))
        left = Counter(present) - Counter(gone)
        changes = [(row, -1) for row in gone]
        for _ in range(rng.randrange(6)):
            row = canonical([_row(name, rng)])[0]
            strict = isinstance(table, plans.Table)
            clash = any(old == row or (name == "p" and old[0] == row[0]) for old in left)
            if not (strict and clash):
                left[row] += 1
                changes.append((row, 1))
        batch[name] = changes
    return batch


def _maintain(query: str, oracle: str, seed: int, few: int = 7, more: int = 12) -> None:
    """Random batches through every implementation; ``oracle`` is what DuckDB runs. At last everything goes."""
    rng = random.Random(seed)
    plan = plans.plan(query, TABLES)
    compared = SideBySide(plan, {table.name: TABLES[table.name] for table in plan.tables}, oracle)
    seen = False
    for number in range(more):
        if seen and number not in turns(few, more):
            break
        compared.step(_batch(compared.database, rng))
        seen = seen or bool(compared.current)
    compared.step_by_removal()
    assert seen, "no batch had a result: the test shows nothing"


SQL = {
    "alias and comma join": "SELECT DISTINCT x.src, y.dst FROM g x, g AS y WHERE x.dst = y.src",
    "three hops": "SELECT DISTINCT a.src, a.dst m, b.dst n, c.dst FROM g a, g b, g c "
    "WHERE a.dst = b.src AND b.dst = c.src AND c.dst > 1",
    "no distinct, declared": "SELECT a.src, a.dst m, b.dst FROM g a JOIN g b ON a.dst = b.src",
    "no distinct, by key": "SELECT a.src, a.dst, p.name FROM g a JOIN p ON p.id = a.dst",
    "using": "SELECT DISTINCT id, name FROM p JOIN v USING (id)",
    "natural": "SELECT DISTINCT * FROM p NATURAL JOIN v",
    "star of one": "SELECT DISTINCT p.*, v.id AS w FROM p CROSS JOIN v WHERE p.id = v.id",
    "middle of a path": "SELECT DISTINCT b.src, b.dst FROM g a, g b, g c WHERE a.dst = b.src AND b.dst = c.src",
    "ends of a path": "SELECT DISTINCT a.src, b.dst FROM g a, g b WHERE a.dst = b.src",
    "ends of a longer path": "SELECT DISTINCT a.src, c.dst FROM g a, g b, g c WHERE a.dst = b.src AND b.dst = c.src",
    "constants in select": "SELECT DISTINCT 7 AS seven, 'x' AS x, CAST(NULL AS INT) AS n, a.src FROM g a",
    "constant join column": "SELECT DISTINCT a.src, a.dst, b.dst e FROM g a, g b WHERE a.dst = b.src AND a.dst = 2",
    "only constants": "SELECT DISTINCT 1 AS one FROM g a, g b WHERE a.dst = b.src AND a.src = 1",
    "unused table": "SELECT DISTINCT a.src FROM g a, v",
    "product": "SELECT DISTINCT a.src, v.id FROM g a, v",
    "repeated column": "SELECT DISTINCT a.src, b.dst FROM g a, g b WHERE a.src = a.dst AND a.dst = b.src",
    "two columns of one side": "SELECT DISTINCT a.src, r.c FROM g a, r WHERE r.a = a.src AND r.b = a.src",
    "narrow and wide integers": "SELECT DISTINCT a.src, r.c FROM g a, r WHERE a.dst = r.c",
    "in list": "SELECT DISTINCT a.src FROM g a WHERE a.dst IN (1, 3, NULL)",
    "not in list": "SELECT DISTINCT a.src, a.dst FROM g a WHERE a.dst NOT IN (1, 3)",
    "between": "SELECT DISTINCT a.src FROM g a WHERE a.dst BETWEEN 1 AND 2",
    "is null": "SELECT DISTINCT src, dst FROM g WHERE dst IS NULL OR src IS NOT NULL AND dst > 1",
    "like": "SELECT DISTINCT id, name FROM p WHERE name LIKE 'a%b' OR name LIKE '_nn%'",
    "like escape": "SELECT DISTINCT id FROM p WHERE name LIKE 'a!_b' ESCAPE '!' OR name NOT LIKE 'a%'",
    "not like escape": "SELECT DISTINCT id FROM p WHERE name NOT LIKE 'a!_b' ESCAPE '!'",
    "quotes": "SELECT DISTINCT id FROM p WHERE name = 'Ann''s' OR name = ''",
    "dates": "SELECT DISTINCT id, born FROM p "
    "WHERE born < DATE '1992-01-31' + INTERVAL '1' MONTH AND born <> '1990-01-28'",
    "in subquery": "SELECT DISTINCT a.src, a.dst FROM g a WHERE a.dst IN (SELECT id FROM v)",
    "in subquery, no distinct": "SELECT a.src, a.dst FROM g a WHERE a.dst IN (SELECT id FROM v WHERE id > 0)",
    "row in subquery": "SELECT DISTINCT a.src FROM g a WHERE (a.src, a.dst) IN (SELECT r.a, r.b FROM r)",
    "exists": "SELECT a.src, a.dst FROM g a WHERE EXISTS (SELECT * FROM g b WHERE b.src = a.dst AND b.dst > 1)",
    "exists, nested": "SELECT DISTINCT a.src FROM g a WHERE EXISTS "
    "(SELECT 1 FROM g b WHERE b.src = a.dst AND b.dst IN (SELECT id FROM v))",
    "subquery in from": "SELECT DISTINCT t.x, b.dst FROM (SELECT src AS x, dst AS y FROM g WHERE src > 0) t "
    "JOIN g b ON t.y = b.src",
    "distinct subquery in from": "SELECT t.x, b.dst FROM (SELECT DISTINCT c AS x FROM r) t JOIN g b ON t.x = b.src",
    "cte": "WITH t(x, y) AS (SELECT a, b FROM r WHERE c > 0), u AS (SELECT x FROM t) "
    "SELECT DISTINCT t.x, t.y FROM t, u WHERE t.y = u.x",
    "arithmetic output": "SELECT DISTINCT a.src + b.dst AS s FROM g a, g b WHERE a.dst = b.src",
    "arithmetic of kept columns": "SELECT DISTINCT a.src, a.dst, a.src * 2 - a.dst AS z, a.src % 2 AS h FROM g a",
    "division": "SELECT DISTINCT a.src / a.dst AS q FROM g a WHERE a.dst > 0",
    "case": "SELECT DISTINCT CASE WHEN a.dst > 2 THEN 'big' WHEN a.dst > 0 THEN 'small' END AS size FROM g a",
    "case of a value": "SELECT DISTINCT CASE a.dst WHEN 1 THEN 10 ELSE a.dst END AS z FROM g a",
    "text functions": "SELECT DISTINCT UPPER(name) || '!' AS u, LENGTH(name) AS n, SUBSTRING(name, 1, 2) AS s FROM p",
    "date parts": "SELECT DISTINCT EXTRACT(YEAR FROM born) AS y, MONTH(born) AS m FROM p",
    "coalesce and cast": "SELECT DISTINCT COALESCE(a.dst, -1) AS d, CAST(a.src AS STRING) AS t FROM g a",
    "decimals": "SELECT DISTINCT k, d, d + 1 AS e, d * d AS f FROM m WHERE d > -1.5",
    "floats": "SELECT DISTINCT k, x FROM m WHERE x >= 1.5 OR x < 0",
    "join on floats": "SELECT DISTINCT a.k, b.k AS l FROM m a, m b WHERE a.x = b.x",
    "not equal across": "SELECT DISTINCT a.src, a.dst, b.dst AS e FROM g a, g b WHERE a.dst = b.src AND a.src <> b.dst",
    "less across, not output": "SELECT DISTINCT a.dst FROM g a, g b WHERE a.dst = b.src AND a.src < b.dst",
    "sum across": "SELECT DISTINCT a.dst, b.dst AS e FROM g a, g b WHERE a.dst = b.src AND a.src + b.dst > 3",
    "or across": "SELECT DISTINCT a.src, b.dst FROM g a, g b WHERE a.dst = b.src AND (a.src = 1 OR b.dst = 2)",
    "inequality inside one atom": "SELECT DISTINCT a.src, b.dst FROM g a, g b WHERE a.dst = b.src AND a.src < b.src",
    "theta join": "SELECT DISTINCT a.id, b.id AS c FROM v a, v b WHERE a.id < b.id",
    "null-safe": "SELECT DISTINCT a.src, b.dst FROM g a JOIN g b ON a.dst IS NOT DISTINCT FROM b.src",
    "null-safe and plain": "SELECT DISTINCT a.src, c.dst FROM g a, g b, g c "
    "WHERE a.dst IS NOT DISTINCT FROM b.src AND b.src = c.src",
    "null-safe literal": "SELECT DISTINCT a.src FROM g a WHERE a.dst IS NOT DISTINCT FROM NULL",
    "comb": "SELECT DISTINCT a.src, b.src AS m, c.src AS n, c.dst FROM g a, g b, g c, v x, v y "
    "WHERE a.dst = b.src AND b.dst = c.src AND x.id = a.src AND y.id = c.dst",
    "mixed nodes under each other": "SELECT DISTINCT t.a, t.b, u.c AS w, s.dst FROM r t, r u, g s, v x "
    "WHERE t.a = u.a AND t.c = x.id AND t.b = s.src AND EXISTS (SELECT 1 FROM v z WHERE z.id = u.b)",
}


@pytest.mark.parametrize("name", SQL)
def test_sql(name: str) -> None:
    _maintain(SQL[name], SQL[name], seed=1)


DATALOG = {
    "Q(a, b) :- g(a, c), g(c, b), c > 1.": (
        "SELECT DISTINCT x.src, y.dst FROM g x, g y WHERE x.dst = y.src AND y.src > 1"
    ),
    "Q(a) :- g(a, 2), r(a, _, c), c != 0": "SELECT DISTINCT src FROM g, r WHERE dst = 2 AND a = src AND c <> 0",
    "Q(x) :- g(x, x).": "SELECT DISTINCT src FROM g WHERE src = dst",
    "Q(n, 1) :- p(i, n, _), v(i), n != 'bob'.": "SELECT DISTINCT name, 1 FROM p JOIN v USING (id) WHERE name <> 'bob'",
    "Q(a, d) :- g(a, b), g(c, d), b = c, (a < d or a is null).": (
        "SELECT DISTINCT x.src, y.dst FROM g x, g y WHERE x.dst = y.src AND (x.src < y.dst OR x.src IS NULL)"
    ),
}


@pytest.mark.parametrize("rule", DATALOG)
def test_datalog(rule: str) -> None:
    _maintain(rule, DATALOG[rule], seed=2)


CYCLIC = {
    "Q(a, b, c) :- g(a, b), g(b, c), g(c, a).": (
        "SELECT DISTINCT x.src, y.src b, z.src c FROM g x, g y, g z "
        "WHERE x.dst = y.src AND y.dst = z.src AND z.dst = x.src"
    ),
    "Q(a) :- g(a, b), g(b, c), g(c, a), v(c).": (
        "SELECT DISTINCT x.src FROM g x, g y, g z, v "
        "WHERE x.dst = y.src AND y.dst = z.src AND z.dst = x.src AND id = z.src"
    ),
    "Q(c, d) :- g(a, b), g(b, c), g(c, a), g(c, d), g(d, e), g(e, f), g(f, d).": (
        "SELECT DISTINCT m.src, m.dst FROM g x, g y, g z, g m, g p, g q, g r WHERE x.dst = y.src AND y.dst = z.src "
        "AND z.dst = x.src AND m.src = z.src AND m.dst = p.src AND p.dst = q.src AND q.dst = r.src AND r.dst = p.src"
    ),
    "Q(a, c) :- g(a, b), g(b, c), g(c, d), g(d, a).": (
        "SELECT DISTINCT x.src, z.src c FROM g x, g y, g z, g w "
        "WHERE x.dst = y.src AND y.dst = z.src AND z.dst = w.src AND w.dst = x.src"
    ),
    "Q(a, b, c, x) :- r(a, x, p), r(b, x, q), p = b, q = c, r(c, x, a).": (
        "SELECT DISTINCT s.a, t.a b, u.a c, s.b x FROM r s, r t, r u "
        "WHERE s.c = t.a AND t.c = u.a AND u.c = s.a AND s.b = t.b AND t.b = u.b"
    ),
}


@pytest.mark.parametrize("rule", CYCLIC)
def test_cyclic(rule: str) -> None:
    _maintain(rule, CYCLIC[rule], seed=6, few=12, more=20)


def test_motif() -> None:
    _maintain(
        "(a)-[e]->(b); (b)-[]->(c); ()-[]->(a)",
        "SELECT DISTINCT x.src a, x.dst b, y.dst c FROM g x, g y, g z WHERE x.dst = y.src AND z.dst = x.src",
        seed=3,
    )


def test_motif_with_vertices() -> None:
    tables = {
        "edges": {"src": "int64", "dst": "int64", "kind": "string"},
        "vertices": plans.Table("vertices", (plans.Column("id", "int64"), plans.Column("name", "string")), key=("id",)),
    }
    made = plans.plan("(a)-[e]->(b); (b)-[]->()", tables)
    assert [out.name for out in made.output] == ["a", "a_name", "e_kind", "b", "b_name"]
    view = crown.view(made)
    view.apply(
        {
            "edges": [{"src": 1, "dst": 2, "kind": "x"}, {"src": 2, "dst": 3, "kind": "y"}],
            "vertices": [{"id": 1, "name": "ann"}, {"id": 2, "name": "bob"}],
        }
    )
    assert [row for part in view.results() for row in part.to_pylist()] == [
        {"a": 1, "a_name": "ann", "e_kind": "x", "b": 2, "b_name": "bob"}
    ]


def test_null_safe_operator_of_spark() -> None:
    _maintain(
        "SELECT DISTINCT a.src, b.dst FROM g a JOIN g b ON a.dst <=> b.src",
        "SELECT DISTINCT a.src, b.dst FROM g a JOIN g b ON a.dst IS NOT DISTINCT FROM b.src",
        seed=4,
    )


def test_semi_join() -> None:
    _maintain(
        "SELECT a.src, a.dst FROM g a LEFT SEMI JOIN v ON v.id = a.dst",
        "SELECT a.src, a.dst FROM g a SEMI JOIN v ON v.id = a.dst",
        seed=5,
    )
