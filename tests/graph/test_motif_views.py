"""``crown.graph.motif`` has the rows of ``GraphFrame.find`` after every batch, on random multigraphs that change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import crown
from plans import PlanError
from tests.oracles import motifs
from tests.oracles.database import Database, Row, to_arrow
from tests.oracles.declared import Declared

TABLES: dict[str, Any] = {
    "vertices": {"id": "int64", "kind": "string"},
    "edges": {"src": "int64", "dst": "int64", "kind": "string"},
}
MOTIFS = (
    "(a)",
    "(a)-[e]->(b)",
    "(a)-[]->()",
    "()-[e]->()",
    "(a)-[]->(a)",
    "(a)-[e1]->(b); (b)-[e2]->(c)",
    "(a)-[]->(b); (c)-[e]->(d)",
    "(a)-[e1]->(b); (b)-[]->(c); (c)-[e3]->(a)",
    "(a)-[e]->(b); (b)-[]->(c); !(c)-[]->(a)",
    "(a)-[]->(b); !(b)-[]->(c)",
    "(a)-[]->(b); !(c)-[]->()",
    "!(u)-[]->(v)",
    "!(u)-[]->()",
    "()-[e]->(v); !(v)-[]->()",
    "(a)-[]->(b); !(b)-[]->(a); (b)-[]->(c)",
    "(a)<-[e]-(b); (a)<-[f]->(c)",
    "(a)-[*2]->(b)",
    "(a)-[e*2]->(b); (b)-[]->(c)",
    "()-[e*2]->()",
    "(a); (b)-[]->(a)",
    "!(a)-[*2]->(b)",
    "(a)-[e]-(b)",
    "(a)-[]-(b); (b)-[]->(c)",
    "(a)-[]-(b); (b)-[]-(c); !(a)-[]->(c)",
    "(a)-[]-(b); !(a)-[]->(a); (b)-[f]->()",
    "(u)-[e*1..2]->(v)",
    "(u)-[*1..2]-(v)",
    "(u)-[e*2]-()",
    "()-[e*1..2]-()",
)


def copies(rows: Sequence[dict[str, Any]]) -> Counter[Any]:
    """Rows with structs, and how often each is there."""
    found: Counter[Any] = Counter()
    for row in rows:
        weight = row.pop("_weight", 1)
        key = tuple((name, tuple(v.values()) if isinstance(v, dict) else v) for name, v in row.items())
        found[key] += weight
    return Counter({key: weight for key, weight in found.items() if weight})


def batch_of(random: Random, database: Database) -> dict[str, list[tuple[Row, int]]]:
    """A few inserts, copies among them, and deletes of what is there, and of what is not."""
    batch: dict[str, list[tuple[Row, int]]] = {}
    ends = (0, 1, 2, 3, None)
    for name, new in (
        ("vertices", [(random.choice(ends), random.choice(("p", None))) for _ in range(2)]),
        ("edges", [(random.choice(ends), random.choice(ends), random.choice("xy")) for _ in range(3)]),
    ):
        rows = database.rows[name]
        gone = random.sample(sorted(rows, key=repr), min(len(rows), random.randint(0, 2)))
        batch[name] = [(row, -random.randint(1, rows[row])) for row in gone]
        batch[name] += [(row, random.choice((1, 1, 1, 2, -1))) for row in new]
    return batch


def expected(database: Database, motif: str) -> Counter[Any]:
    given = [list(database.rows[name].elements()) for name in ("vertices", "edges")]
    return motifs.find(motifs.Graph(("id", "kind"), ("src", "dst", "kind"), *given), motif)


@pytest.mark.parametrize("motif", MOTIFS)
def test_a_motif_has_the_rows_of_find_after_every_batch(motif: str) -> None:
    random, view = Random(motif), crown.graph.motif(TABLES["vertices"], TABLES["edges"], motif)
    truth = Declared(TABLES, view.plan, whole=False, upserts=False)
    database = truth.database
    read = {table.name for table in view.plan.tables}
    total: Counter[Any] = Counter()
    for turn in range(6):
        batch = batch_of(random, database) if turn < 5 else database.everything(-1)
        changes = {name: to_arrow(database.schema, name, rows) for name, rows in batch.items() if name in read}
        deltas = view.apply(changes)
        assert deltas.schema == view.delta_schema
        total.update(copies(deltas.to_pylist()))
        truth.apply(batch)
        total = Counter({row: weight for row, weight in total.items() if weight})
        assert total == expected(database, motif), (motif, turn)
        assert copies(view.to_table().to_pylist()) == total
        assert view.count() == total.total()
    assert total == Counter()


def loaded(motif: str, where: str | None = None, seed: int = 3, **options: Any) -> tuple[Any, Database]:
    """A view over a random graph, and its tables."""
    random, database = Random(seed), Database(TABLES)
    vertices: list[Row] = [(i, random.choice(("p", None))) for i in (0, 1, 2, 3, 3)]
    edges: list[Row] = [(random.randrange(5), random.randrange(4), random.choice("xy")) for _ in range(14)]
    database.apply({"vertices": [(row, 1) for row in vertices], "edges": [(row, 1) for row in edges]})
    frames = {name: database.arrow(name) for name in TABLES}
    return crown.graph.motif(frames["vertices"], frames["edges"], motif, where=where, **options), database


@pytest.mark.parametrize(
    ("motif", "where", "holds"),
    [
        ("(a)-[e]->(b); (b)-[]->(c)", "a.id <> c.id AND e.kind = 'x'",
         lambda r: r["a"][0] != r["c"][0] and r["e"][2] == "x"),
        ("(a)-[]->(b); (c)-[]->(d)", "b.id = c.id", lambda r: r["b"][0] == r["c"][0]),
        ("(u)-[e*1..2]-(v)", "_hop = 2 AND u.id < 3", lambda r: r["_hop"] == 2 and r["u"][0] < 3),
        ("(u)-[*1..2]->(v)", "_uv1.id > 0 OR _hop = 1", lambda r: r["_hop"] == 1 or r["_uv1"][0] > 0),
        ("(u)-[e]-(v)", "_direction = 'in'", lambda r: r["_direction"] == "in"),
        ("(a)-[]->(b); !(b)-[]->(a)", "A.kind IS NULL", lambda r: r["a"][1] is None),
    ],
)  # fmt: skip
def test_a_condition_keeps_the_rows_in_which_it_holds(motif: str, where: str, holds: Any) -> None:
    view, database = loaded(motif, where)
    rows = {row: weight for row, weight in expected(database, motif).items() if holds(dict(row))}
    assert rows
    assert copies(view.to_table().to_pylist()) == rows


def test_without_vertices_the_ends_of_edges_are_the_vertices() -> None:
    random, database = Random(1), Database(TABLES)
    for motif in ("(a)-[e]->(b); !(b)-[]->(c)", "(a)", "(a)-[]->(b); (b)-[]->(c)"):
        view = crown.graph.motif(None, TABLES["edges"], motif)
        database.apply(batch_of(random, database))
        edges = list(database.rows["edges"].elements())
        ends = dict.fromkeys((end,) for edge in edges for end in edge[:2])
        view.apply({"edges": to_arrow(database.schema, "edges", [(edge, 1) for edge in edges])})
        graph = motifs.Graph(("id",), ("src", "dst", "kind"), list(ends), edges)
        assert copies(view.to_table().to_pylist()) == motifs.find(graph, motif)


def test_a_struct_is_asked_for_as_it_is_shown() -> None:
    view, _ = loaded("(u)-[e*1..2]->(v)")
    for row in view.to_table(weighted=True).to_pylist():
        weight = row.pop("_weight")
        assert row in view
        assert view.multiplicity(row) == weight
    row["v"] = {"id": 77, "kind": "p"}
    assert row not in view


def test_a_motif_is_saved_and_loaded_with_its_structs(tmp_path: Path) -> None:
    view, _ = loaded("(u)-[e*1..2]-(v)")
    view.save(tmp_path / "motif")
    again = crown.graph.load(tmp_path / "motif")
    assert copies(again.to_table().to_pylist()) == copies(view.to_table().to_pylist())
    change = {"edges": [{"src": 0, "dst": 3, "kind": "z"}]}
    assert copies(again.apply(change).to_pylist()) == copies(view.apply(change).to_pylist())
    crown.view("SELECT src FROM edges", TABLES).save(tmp_path / "other")
    with pytest.raises(crown.SnapshotError, match="not a motif"):
        crown.graph.load(tmp_path / "other")


def test_deltas_arrive_in_batches_and_at_subscribers_with_structs() -> None:
    view, _ = loaded("(a)-[e]->(b)")
    told: list[pa.Table] = []
    batches = list(view.apply_batches({"edges": [{"src": 0, "dst": 0, "kind": "new"}]}))
    assert {row["e"]["kind"] for batch in batches for row in batch.to_pylist()} == {"new"}
    view.subscribe(told.append)
    view.apply({"edges": [{"src": 0, "dst": 0, "kind": "new", "_weight": -1}]})
    assert copies(told[0].to_pylist()) == Counter(
        {k: -w for k, w in copies([r for b in batches for r in b.to_pylist()]).items()}
    )


@pytest.mark.parametrize(
    ("motif", "message", "column"),
    [
        ("()-[]->()", "an edge without any name has no output", 1),
        ("(a)-[]->(b); ()-[]-()", "an edge without any name has no output", 14),
        ("(a)-[]->(b); !(a)-[e]->(b)", "the negated edge e has a name", 14),
        ("(a)-[a]->(b)", "a names an edge and a vertex", 1),
        ("(a)-[]->(b); (c)-[a]->(d)", "a names an edge and a vertex", 14),
        ("(a)-[e]->(b); (c)-[e]->(d)", "the name e is used twice", 15),
        ("(a)-[e]->(A)", "a and A differ only in case|A and a differ only in case", 1),
        ("()", "a vertex without an edge needs a name", 1),
        ("(u)-[*..5]->(v)", "a shortest and a longest length", 1),
        ("(u)-[*1..]->(v)", "a shortest and a longest length", 1),
        ("(u)-[*0..2]->(v)", "must be between 1 and", 1),
        ("(u)-[*3..2]->(v)", "must be between 1 and", 1),
        ("(u)-[*1..33]->(v)", "must be between 1 and 32", 1),
        ("(u)-[*0]->(v)", "the length of a path is a number", 1),
        ("(u)-[*1..3]->(v); (v)-[]->(w)", "cannot be combined", 1),
        ("(u)-[*2]-(v); (v)-[]->(w)", "cannot be combined", 1),
        ("!(u)-[*1..3]->(v)", "cannot be negated", 1),
        ("(a)-[]->(b); !(a)<-[]->(b)", "a negated edge has one direction", 14),
        ("(a)-[]->(b); !(a)-[]-(b)", "a negated edge has one direction", 14),
        ("!(a)-[]->(a); (a)-[]->(b)", "vertex a is used first in a negated edge", 1),
        ("(a)-[]->(b) (c)", "is not an edge like", 1),
        ("(u)<-[*1..3]-(v)", "a path of several lengths must go from left to right", 1),
    ],
)  # fmt: skip
def test_what_find_refuses_is_refused_with_its_place(motif: str, message: str, column: int) -> None:
    with pytest.raises(PlanError, match=message) as caught:
        crown.graph.motif(TABLES["vertices"], TABLES["edges"], motif)
    assert caught.value.position is not None
    assert caught.value.position.column == column


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("a.nme = 3", "a has no column nme"),
        ("a.id", "a condition is expected"),
        ("COUNT(*) > 3", "the aggregate COUNT is not allowed in WHERE"),
        ("a.id IN (SELECT id FROM b)", "without subqueries"),
        ("d.id = 3", "unknown table or alias d"),
        ("1 = 2", "is never true"),
        ("a.id =", "SQL"),
    ],
)  # fmt: skip
def test_a_condition_that_is_none_is_refused(where: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        crown.graph.motif(TABLES["vertices"], TABLES["edges"], "(a)-[]->(b)", where=where)


def test_a_motif_in_a_folder_is_there_again_with_its_structs(tmp_path: Path) -> None:
    motif, folder = "(a)-[e]->(b); (b)-[f]->(c)", tmp_path / "paths"
    vertices, edges = [{"id": i} for i in range(4)], [{"src": 0, "dst": 1}, {"src": 1, "dst": 2}]
    plain = crown.graph.motif(vertices, edges, motif)
    with crown.graph.open(vertices, edges, motif, folder) as view:
        assert view.batches == 1
        assert view.to_table().to_pylist() == plain.to_table().to_pylist()
        with pytest.raises(crown.LockedStateError):
            crown.graph.open(vertices, edges, motif, folder)
        batch = {"edges": [{"src": 2, "dst": 3}]}
        assert copies(view.apply(batch).to_pylist()) == copies(plain.apply(batch).to_pylist())
        view.snapshot()
        view.update({"edges": [{"src": 3, "dst": 0}]})
    with pytest.raises(crown.NotDurableError):
        view.update(batch)
    plain.update({"edges": [{"src": 3, "dst": 0}]})
    with pytest.raises(crown.QueryChangedError):
        crown.graph.open(vertices, edges, "(a)-[e]->(b)", folder)
    with crown.graph.open(vertices, edges, motif, folder) as again:  # the frames are not taken twice
        assert again.batches == 3
        assert copies(again.to_table().to_pylist()) == copies(plain.to_table().to_pylist())
        gone = again.apply({"edges": [{"src": 0, "dst": 1, "_weight": -1}]})
        assert gone.schema == again.delta_schema
        assert set(gone.column("_weight").to_pylist()) == {-1}
        again.save(tmp_path / "saved")
        assert copies(crown.graph.load(tmp_path / "saved").to_table().to_pylist()) == copies(
            again.to_table().to_pylist()
        )


def test_an_amplified_change_of_a_motif_is_told_with_its_element() -> None:
    view = crown.graph.motif(None, [{"src": 0, "dst": i} for i in range(1, 60)], "(a)-[]->(b); (b)-[]->(c)")
    view.amplified_beyond = 20
    with pytest.warns(crown.AmplifiedWarning, match="1 changed row with a.id = 99 gave 59 of 59 deltas"):
        assert view.apply({"edges": [{"src": 99, "dst": 0}]}).num_rows == 59
