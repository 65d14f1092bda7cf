"""AVG of decimals: a decimal with four more digits, rounded half up from the exact quotient, in every path."""

from __future__ import annotations

from collections import Counter
from decimal import ROUND_HALF_UP, Context, Decimal
from random import Random

import pytest

import crown
import plans
from plans import PlanError
from tests.marks import seeds
from tests.oracles.database import Row

SCHEMA = {
    "f": {"columns": {"id": "int64", "k": "int64", "d": "decimal(10,2)"}, "key": ["id"]},
    "g": {"columns": {"k": "int64", "name": "string"}, "key": ["k"]},
}
EXACT = Context(prec=100)
Rows = list[tuple[int, int | None, Decimal | None]]


def mean(values: list[Decimal | None], digits: int = 6) -> Decimal | None:
    """Returns what AVG is by definition."""
    there = [value for value in values if value is not None]
    if not there:
        return None
    total = EXACT.divide(sum(there, Decimal(0)), Decimal(len(there)))
    return total.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, EXACT)


def by_key(rows: Rows) -> dict[int | None, list[Decimal | None]]:
    """Returns the decimals of each group."""
    return {key: [d for _, k, d in rows if k == key] for key in {k for _, k, _ in rows}}


def grouped(rows: Rows) -> Counter[Row]:
    return Counter((k, mean(ds), mean(list(set(ds)))) for k, ds in by_key(rows).items())


def whole(rows: Rows) -> Counter[Row]:
    return Counter([(mean([d for _, _, d in rows]), mean([d for i, _, d in rows if i > 3]))])


def having(rows: Rows) -> Counter[Row]:
    means = {k: mean(ds) for k, ds in by_key(rows).items()}
    return Counter((k,) for k, m in means.items() if m is not None and m > 0)


def joined(rows: Rows) -> Counter[Row]:
    names: dict[str, list[Decimal | None]] = {}
    for _, k, d in rows:
        if k is not None:
            names.setdefault("ab"[k % 2], []).append(d)
    return Counter((name, mean(ds)) for name, ds in names.items())


def partitions(rows: Rows) -> Counter[Row]:
    return Counter((i, mean([d for _, other, d in rows if other == k])) for i, k, _ in rows)


def frames(rows: Rows) -> Counter[Row]:
    ordered = sorted(rows, key=lambda row: row[0])
    return Counter((row[0], mean([d for _, _, d in ordered[max(n - 1, 0) : n + 2]])) for n, row in enumerate(ordered))


QUERIES = {
    "SELECT k, AVG(d) AS a, AVG(DISTINCT d) AS b FROM f GROUP BY k": grouped,
    "SELECT AVG(d) AS a, AVG(d) FILTER (WHERE id > 3) AS b FROM f": whole,
    "SELECT k FROM f GROUP BY k HAVING AVG(d) > 0": having,
    "SELECT name, AVG(d) AS a FROM f JOIN g ON f.k = g.k GROUP BY name": joined,
    "SELECT id, AVG(d) OVER (PARTITION BY k) AS a FROM f": partitions,
    "SELECT id, AVG(d) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS a FROM f": frames,
}


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("seed", seeds(2, 40))
def test_a_mean_is_rounded_once_from_the_exact_quotient(query: str, seed: int) -> None:
    random = Random(seed)
    view = crown.view(query, schema=SCHEMA)
    if " JOIN " in query:
        view.update({"g": [(k, "ab"[k % 2]) for k in range(4)]})
    rows: dict[int, tuple[int | None, Decimal | None]] = {}
    for _ in range(15):
        changes = []
        for number in random.sample(range(10), random.randrange(1, 5)):
            if number in rows:
                changes.append((number, *rows.pop(number), -1))
            else:
                d = random.choice([None, *(Decimal(random.randrange(-(10**10), 10**10)).scaleb(-2) for _ in range(4))])
                rows[number] = random.choice([None, 0, 1, 2]), d
                changes.append((number, *rows[number], 1))
        view.update({"f": [dict(zip(("id", "k", "d", "_weight"), row, strict=True)) for row in changes]})
        found = Counter(tuple(row.values()) for row in view.to_table().to_pylist())
        assert found == QUERIES[query]([(number, *row) for number, row in rows.items()])
        view.check_invariants()


def test_halves_are_rounded_away_from_zero() -> None:
    for sign in (1, -1):
        view = crown.view("SELECT AVG(d) AS a FROM r", schema={"r": {"d": "decimal(2,1)"}})
        rows = [{"d": sign * Decimal("0.1"), "_weight": 1}, {"d": Decimal(0), "_weight": 199_999}]
        view.update({"r": rows})  # 0.0000005 has its last digit behind those of the type
        assert view.to_table().to_pylist() == [{"a": Decimal("0.00000")}]
        view.update({"r": [{"d": Decimal(0), "_weight": -180_000}]})  # 0.000005
        assert view.to_table().to_pylist() == [{"a": sign * Decimal("0.00001")}]


@pytest.mark.parametrize(
    ("given", "made"),
    [("10,2", "14,6"), ("38,10", "38,14"), ("38,37", "38,38"), ("36,0", "38,4"), ("38,38", "38,38")],
)
def test_the_type_is_that_of_spark(given: str, made: str) -> None:
    schema = {"r": {"d": f"decimal({given})", "k": "int64"}}
    for query in ("SELECT AVG(d) AS a FROM r", "SELECT AVG(d) OVER (ORDER BY d) AS a FROM r"):
        assert plans.parse(query, schema).columns[0].type == f"decimal({made})"
    datalog = plans.parse("Q(k, avg(d) as a) :- r(d, k).", schema)
    assert [column.type for column in datalog.columns] == ["int64", f"decimal({made})"]


def test_a_mean_of_a_text_is_refused() -> None:
    with pytest.raises(PlanError, match="AVG needs a number, not string"):
        plans.parse("SELECT AVG(d) AS a FROM r", {"r": {"d": "string"}})
