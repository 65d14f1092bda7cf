"""Means, variances and sums of doubles in cells: exact sums travel as digits, and are worked out where they meet."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crown.kernels.memory import arena as A
from crown.programs.program import ProgramEngine
from crown.stages.groups.exported_sums import digits, limbs_from
from crown.store.codec import NULL
from plans import program
from plans.program import Program
from plans.programs.stages import GroupStage
from plans.search.cells.exchanges import rounds
from spark_jobs.cell import warm
from spark_jobs.dispatch.envelope import cell_program, envelope_of
from tests.plans.lowering.program_queries import TABLES
from tests.programs.joins.test_cells_of_programs import CELLS, Cells, compare, deltas

TOLD = """
SELECT AVG(a) AS m FROM r
SELECT AVG(v) AS m, SUM(d) AS s, MIN(v) AS lo FROM t
SELECT SUM(x) AS s, COUNT(x) AS n, MAX(x) AS hi FROM u
SELECT a + b AS k, AVG(b) AS m FROM r GROUP BY a + b
SELECT a + b AS k, STDDEV_SAMP(b) FILTER (WHERE a > 1) AS v, COUNT_IF(a = 1) AS n FROM r GROUP BY a + b
SELECT a % 2 AS k, AVG(b) AS m FROM r GROUP BY a % 2 HAVING AVG(b) > 1
SELECT CORR(a, b) AS c, REGR_SLOPE(a, b) AS s, COVAR_SAMP(b, a) AS v FROM r
SELECT AVG(x.a) AS m FROM r x JOIN r y ON x.b = y.b
SELECT VAR_POP(x.a) AS v, SUM(y.a) AS s FROM r x JOIN r y ON x.b = y.a
SELECT SUM(u.x * t.d) AS s, AVG(u.x) AS m FROM u JOIN r ON u.a = r.a JOIN t ON r.b = t.k
SELECT x.a + y.a AS k, AVG(x.b) AS m FROM r x JOIN r y ON x.b = y.b GROUP BY x.a + y.a
SELECT AVG(n) AS m FROM (SELECT a, COUNT(*) AS n FROM r GROUP BY a)
""".strip().splitlines()


def telling(cut):
    """Returns the groups of the first round, and those of the second that put them together."""
    first, last = (one.maintained for one in cut)
    assert isinstance(first, Program)
    assert isinstance(last, Program)
    tells = [stage for stage in first.stages if isinstance(stage, GroupStage) and stage.exported]
    told = [stage for stage in last.stages if isinstance(stage, GroupStage) and stage.imported]
    return tells, told


@pytest.mark.parametrize("query", TOLD)
def test_a_worker_tries_the_kernels_of_both_rounds_on_a_row_that_cells_could_send(query, monkeypatch):
    monkeypatch.setattr(warm, "_warm", set())
    for one in rounds(program(query, TABLES), CELLS):
        warm.warm_up(cell_program(one.maintained, envelope_of(one.maintained, cells=1, quarantine=False)))
    assert len(warm._warm) == 2


@pytest.mark.parametrize("query", TOLD)
def test_what_is_rounded_once_is_put_together_out_of_exact_parts(query):
    cut = rounds(program(query, TABLES), CELLS)
    ((partial,), (whole,)) = telling(cut)
    assert [column.type for column in cut[1].maintained.tables[0].columns].count("int64") >= len(partial.exported)
    assert whole.imported[0].limbs == partial.exported[0].limbs == 1
    compare(query)


def test_a_mean_of_decimals_is_put_together_out_of_a_sum_and_a_number():
    query = "SELECT AVG(d) AS m, SUM(d) AS s, MIN(v) AS lo FROM t"
    tells, told = telling(rounds(program(query, TABLES), CELLS))
    assert not tells
    assert not told
    compare(query)


@pytest.mark.parametrize("query", [query for query in TOLD if "r x" in query])
def test_parts_are_exact_whatever_deletes_do_not_find(query):
    compare(query, absent=True)


FINITE = [2.0**-49, -(2.0**-49), 1e15, -1e15, 1e-15, 0.1, 2.0**79, -(2.0**79), 1e300, -1e300, 5e-324, -1e-30]
VALUES = [*FINITE, math.inf, -math.inf, math.nan, 3.0]


@pytest.mark.parametrize("seed", range(4))
def test_sums_of_doubles_that_meet_are_rounded_as_one_sum_and_end_in_nothing(seed):
    """2^-49 and its like make limbs that would stand for NULL as they are."""
    random, schema = Random(seed), {"m": {"k": "int64", "x": "float64"}}
    made = program("SELECT SUM(x) AS s, AVG(x) AS m, VAR_POP(x) AS v FROM m", schema)
    cut = rounds(made, CELLS)
    parts = [Cells(one, "ignore" if i == 0 else "trust") for i, one in enumerate(cut)]
    whole = ProgramEngine.create(cell_program(made, envelope_of(made, cells=1, quarantine=False)))
    usual = FINITE if seed % 2 else VALUES
    alive: list[tuple[int, float]] = []
    told = ""
    for turn in range(12):
        come = [(random.randrange(6), random.choice(usual)) for _ in range(30)] if turn < 11 else []
        random.shuffle(alive)
        gone = alive if turn == 11 else alive[: len(alive) // 3]
        alive = [] if turn == 11 else [*alive[len(gone) :], *come]
        rows = [(*row, 1) for row in come] + [(*row, -1) for row in gone]
        names = ("k", "x", "_weight")
        table = pa.table({name: pa.array([row[i] for row in rows]) for i, name in enumerate(names)})
        expected = Counter()
        for delta in whole.run(whole.prepare({"m": table}), consolidate=True):
            for *row, weight in zip(*(column.to_pylist() for column in delta.columns), strict=True):
                expected[str(row)] += weight
        found = Counter()
        for row, weight in deltas(parts, {"m": table}).items():
            found[str(list(row))] += weight
        assert found == expected
        if seed % 2 and alive:
            told = next((row for row, weight in found.items() if weight > 0), told)  # none if it rounds to the same
            assert told.startswith(f"[{math.fsum(x for _, x in alive)!r}, ")
    (last,) = parts[-1].engines
    group = last.stages[0]
    assert not group._stored(group.parts[0][A.H_ROOT : A.H_ROOT + 1].copy()).rows.any()


@given(st.lists(st.integers(-(2**447), 2**447 - 1), min_size=1), st.integers(2, 7))
def test_digits_are_the_integer_and_none_stands_for_null(numbers, limbs):
    bound = 1 << (64 * limbs - 1)
    numbers = [(number + bound) % (2 * bound) - bound for number in [*numbers, -bound, bound - 1, 2**63, -(2**63)]]
    words = np.array([np.frombuffer(n.to_bytes(8 * limbs, "little", signed=True), np.int64) for n in numbers])
    found = digits(words)
    assert [sum(int(digit) << 60 * j for j, digit in enumerate(column)) for column in found.T] == numbers
    assert (found != NULL).all()
    assert (limbs_from(list(found), limbs) == words).all()
