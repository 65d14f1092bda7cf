"""Changes in the middle of a long partition: the sum of all deltas is the result, whose rows are computed when read.

Each function is alone in its query: what one of them makes the engine read, others find there, too.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

import crown
from tests.marks import turns
from tests.oracles.database import Row
from tests.programs.results import added, rows_of

TABLE = {"t": {"x": "int64", "y": "int64", "f": "bool"}}
SO_FAR, FROM_HERE = "ROWS UNBOUNDED PRECEDING", "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"
EARLIER, NEXT = "ROWS BETWEEN UNBOUNDED PRECEDING AND 3 PRECEDING", "ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING"
SOME = "CASE WHEN f THEN y END"
CALLS = (
    *(f"{rank} OVER (ORDER BY x)" for rank in ("RANK()", "DENSE_RANK()", "PERCENT_RANK()", "CUME_DIST()", "NTILE(7)")),
    *(f"LAST_VALUE(x) OVER (ORDER BY x{falling})" for falling in ("", " DESC")),
    *(f"SUM(y) OVER (ORDER BY x {frame})" for frame in (
        "RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING", "RANGE BETWEEN CURRENT ROW AND CURRENT ROW",
        "GROUPS BETWEEN 2 PRECEDING AND 1 PRECEDING", "ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING EXCLUDE TIES",
        "RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
    )),
    *(f"{call} OVER (ORDER BY x, y {frame})" for frame in (SO_FAR, FROM_HERE, EARLIER, NEXT) for call in (
        "MEDIAN(y)", "QUANTILE_DISC(y, 0.3) FILTER (WHERE f)", "MODE(y)", "COUNT(DISTINCT y)", "MAX(y)",
        "MIN(y) FILTER (WHERE f)", "ARG_MAX(x, y)", "NTH_VALUE(y, 3)", f"NTH_VALUE({SOME}, 2 IGNORE NULLS)",
        f"FIRST_VALUE({SOME} IGNORE NULLS)", f"LAST_VALUE({SOME} IGNORE NULLS)",
    )),
)  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_changes_in_the_middle_add_up_to_the_result(call: str) -> None:
    random = Random(call)
    view = crown.view(f"SELECT x, y, f, {call} AS v FROM t", TABLE, dialect="duckdb")
    rows = [_row(random) for _ in range(300)]
    result: Counter[Row] = Counter()
    added(result, view.apply({"t": rows}))
    for _ in turns(8, 40):
        gone = [rows.pop(random.randrange(len(rows))) for _ in range(random.randrange(3))]
        came = [_row(random) for _ in range(random.randrange(3))]
        rows += came
        weighted = [{**row, "_weight": weight} for weight, some in ((-1, gone), (1, came)) for row in some]
        added(result, view.apply({"t": weighted}))
        assert result == rows_of(view)
    view.check_invariants()


def _row(random: Random) -> dict[str, object]:
    """A row with peers. Rows that are equal in x and y are equal."""
    y = random.randrange(1000)
    return {"x": random.randrange(100), "y": y, "f": y % 3 > 0}
