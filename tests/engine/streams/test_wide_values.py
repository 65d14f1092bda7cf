"""Lists carry half words while their values fit them: values beside that border change, one by one and in bulk."""

from __future__ import annotations

import random

import pytest

import plans
from crown.engine.load.loader import Loader
from tests.engine.comparison import SideBySide
from tests.oracles.database import Row

PAIR = {"a": "int64", "b": "int64"}
# A path (one leaf carries values), a product of two leaves, a bag whose lists have values.
QUERIES = {
    "path": "SELECT DISTINCT x.a, y.a AS c, y.b FROM r AS x, r AS y WHERE x.b = y.a",
    "product": "SELECT DISTINCT r.a, r.b, s.b AS c FROM r, s WHERE r.a = s.a",
    "square": "SELECT DISTINCT x.a, y.a AS c, z.a AS d, u.a AS e FROM r x, r y, r z, r u"
    " WHERE x.b = y.a AND y.b = z.a AND z.b = u.a AND u.b = x.a",
}
BORDER = [2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**62, None]


@pytest.mark.parametrize("bulk", [False, True], ids=["one by one", "in bulk"])
@pytest.mark.parametrize("name", QUERIES)
def test_values_beside_half_words_are_delivered_as_they_are(
    name: str, bulk: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if bulk:
        monkeypatch.setattr(Loader, "min_tuples", 1)
    schema = {"r": PAIR, "s": PAIR} if name == "product" else {"r": PAIR}
    sides = SideBySide(plans.plan(QUERIES[name], schema), schema, QUERIES[name])
    rng = random.Random(name)
    values = [*range(4), *BORDER]
    present: dict[str, list[Row]] = {relation: [] for relation in schema}
    for growing in (0.95, 0.6, 0.2):
        for _ in range(4):
            batch: dict[str, list[tuple[Row, int]]] = {relation: [] for relation in schema}
            for relation in rng.choices([*schema], k=12):
                rows = present[relation]
                if not rows or rng.random() < growing:
                    row = (rng.choice(values[: 4 if rng.random() < 0.7 else None]), rng.choice(values))
                    if row not in rows:
                        rows.append(row)
                        batch[relation].append((row, 1))
                else:
                    batch[relation].append((rows.pop(rng.randrange(len(rows))), -1))
            if bulk:
                sides.step_without_deltas(batch)
                sides.compare()
            else:
                sides.step(batch)
    sides.step_by_removal()
