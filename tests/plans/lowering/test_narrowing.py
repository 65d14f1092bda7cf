"""What nothing reads of a group or of window functions is not computed, and what several queries read is one stage."""

from __future__ import annotations

from dataclasses import replace
from weakref import ref

import pyarrow as pa
import pytest

import crown
import plans
from plans.planner import parse
from plans.programs.stages import GroupStage, OverStage
from plans.queries.algebra import Over, Query, Relation, rebuilt, with_read_columns

SCHEMA = {"r": {"g": "int64", "v": "int64", "w": "int64"}}
MOST = 2**63 - 1
UNREAD = (
    "SELECT g FROM (SELECT g, SUM(v) AS s FROM r GROUP BY g)",
    "SELECT g, n FROM (SELECT g, SUM(v) AS s, COUNT(*) AS n FROM r GROUP BY g HAVING COUNT(*) > 1)",
    "SELECT g FROM (SELECT g, s FROM (SELECT g, SUM(v) AS s FROM r GROUP BY g))",
    "SELECT g, SUM(m) AS m FROM (SELECT g, w, SUM(v) AS s, MAX(w) AS m FROM r GROUP BY g, w) GROUP BY g",
    "SELECT g FROM (SELECT g, 1 + s AS t FROM (SELECT g, SUM(v) AS s FROM r GROUP BY g) UNION ALL SELECT w, g FROM r)",
)


@pytest.mark.parametrize("query", UNREAD[:-1])
def test_a_sum_that_nothing_reads_refuses_no_batch(query: str) -> None:
    view = crown.view(query, SCHEMA)
    view.apply({"r": pa.table({"g": [1, 1, 1], "v": [MOST, MOST, 1], "w": [1, 1, 2]})})
    assert view.count() == 1
    assert not any(a.function == "sum" and a.arguments == ("v",) for s in groups(query) for a in s.aggregates)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT g FROM (SELECT g, SUM(v) AS s FROM r GROUP BY g) WHERE s > 3",
        "SELECT g FROM (SELECT g, SUM(v) AS s FROM r GROUP BY g HAVING SUM(v) > 3)",
        "SELECT * FROM (SELECT g, SUM(v) AS s FROM r GROUP BY g)",
        UNREAD[-1],
    ],
)
def test_a_sum_that_something_reads_does(query: str) -> None:
    view = crown.view(query, SCHEMA)
    with pytest.raises(crown.CrownError, match="no int64"):
        view.apply({"r": pa.table({"g": [1, 1], "v": [MOST, 1], "w": [1, 2]})})


def test_what_several_queries_read_is_one_stage_with_all_that_one_of_them_reads() -> None:
    group = "SELECT g, SUM(v) AS s, COUNT(*) AS n, MAX(w) AS m FROM r GROUP BY g"
    (made,) = groups(f"WITH c AS ({group}) SELECT x.s, y.n FROM c x JOIN c y ON x.g = y.g")
    assert [one.function for one in made.aggregates] == ["sum", "count"]
    (made,) = groups(f"SELECT x.s, y.n FROM ({group}) x JOIN ({group}) y ON x.g = y.g")
    assert [one.function for one in made.aggregates] == ["sum", "count"]
    over = "SELECT g, SUM(v) OVER o AS s, ROW_NUMBER() OVER o AS n, RANK() OVER o AS k FROM r WINDOW o AS (ORDER BY w)"
    program = plans.program(f"WITH c AS ({over}) SELECT x.s, y.n FROM c x JOIN c y ON x.g = y.g", SCHEMA)
    (stage,) = [stage for stage in program.stages if isinstance(stage, OverStage)]
    assert [one.function for one in stage.functions] == ["sum", "row_number"]


def test_what_is_made_of_a_part_is_known_by_its_identity_only_while_the_part_is_there() -> None:
    """Else it is taken for what is made of another part, which is where the first one was."""
    over = "SELECT g, v, SUM(v) OVER (ORDER BY w) AS s FROM r WHERE v > {}"
    sources = ", ".join(f"({over.format(i)}) t{i}" for i in range(4))
    made: list[ref[Relation]] = []

    def anew(part: Relation) -> Relation:
        if not isinstance(part, Over):
            return part
        made.append(ref(rows := replace(part.input, text="made")))
        return replace(part, input=rows)

    def renamed(part: Relation) -> Relation:
        assert all(one() is not None for one in made)
        return replace(part, text="renamed") if isinstance(part, Query) else part

    rebuilt(plans.parse(f"SELECT t0.g FROM {sources}", SCHEMA), renamed, anew)
    assert len(made) == 4


def groups(query: str) -> list[GroupStage]:
    return [stage for stage in plans.program(query, SCHEMA).stages if isinstance(stage, GroupStage)]


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ("SELECT g, SUM(v) AS s FROM r GROUP BY g", {"g", "v"}),
        ("SELECT COUNT(*) AS n FROM r", set()),
        ("SELECT a.g FROM r a JOIN r b ON a.v = b.w", {"g", "v", "w"}),
        ("SELECT g FROM r a WHERE NOT EXISTS (SELECT 1 FROM r b WHERE b.v = a.w)", {"g", "v", "w"}),
        (
            "WITH RECURSIVE t(g) AS (SELECT g FROM r UNION SELECT r.v FROM r JOIN t ON r.g = t.g) SELECT g FROM t",
            {"g", "v"},
        ),
        ("SELECT g FROM (SELECT g, ROW_NUMBER() OVER (PARTITION BY g ORDER BY v) AS n FROM r) WHERE n = 1", {"g", "v"}),
        ("SELECT * FROM r", {"g", "v", "w"}),
    ],
)
def test_a_relation_is_the_same_with_other_columns_that_it_does_not_read(query: str, read: set[str]) -> None:
    def of(columns: dict[str, str]) -> str:
        return repr(with_read_columns(parse(query, {"r": columns})))

    for name in SCHEMA["r"]:
        other = {n: "string" if n == name else t for n, t in SCHEMA["r"].items()}
        try:
            same = of(other) == of(SCHEMA["r"])
        except plans.PlanError:  # a sum of texts
            same = False
        assert same == (name not in read), name
    more = SCHEMA["r"] | {"more": "int64"}
    assert (of(more) == of(SCHEMA["r"])) == ("*" not in query.replace("COUNT(*)", ""))
    demanded = {"columns": more | {"more": "int64 not null"}}
    assert repr(with_read_columns(parse(query, {"r": demanded}))) != of(SCHEMA["r"]), "a state without it has no rows"
