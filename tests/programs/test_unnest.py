"""Arrays, maps and structs in queries, and rows made of their elements, after every batch: engine = DuckDB = twin."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import crown
import plans
from crown.commands.main import main
from crown.errors import BadRowError, CrownError
from plans.errors import PlanError
from plans.programs.stages import JoinStage
from plans.programs.wiring import used_columns
from plans.schema import Column
from tests.marks import seeds, turns
from tests.models import normalise
from tests.models.program import results
from tests.programs.driver import Driver

SCHEMA = {
    "t": {
        "id": "int64",
        "tags": "array<string>",
        "p": "struct<a:int64,b:array<int64>>",
        "items": "array<struct<sku:string,n:int64>>",
    },
    "k": {"tag": "string", "w": "int64"},
}
QUERIES = (
    "SELECT id, tags, p FROM t",
    "SELECT DISTINCT items FROM t",
    "SELECT tags, COUNT(*) AS n FROM t GROUP BY tags",
    "SELECT p.a, COUNT(*) AS n, SUM(t.p.a) AS s FROM t GROUP BY p.a",
    "SELECT a.id, b.id AS other FROM t AS a JOIN t AS b ON a.tags = b.tags",
    "SELECT id FROM t WHERE p IN (SELECT p FROM t AS o WHERE o.id > 1)",
    "SELECT id, tags[1] AS first, p.b[2] AS second, items[1].sku AS sku, len(tags) AS n FROM t",
    "SELECT id FROM t WHERE list_contains(tags, 'a') OR p.a IS NULL",
    "SELECT id, u.x FROM t, UNNEST(t.tags) AS u(x)",
    "SELECT u.x, COUNT(*) AS n FROM t, UNNEST(t.tags) AS u(x) GROUP BY u.x",
    "SELECT DISTINCT u.x FROM t, UNNEST(tags) AS u(x)",
    "SELECT t.id, k.w FROM t, UNNEST(t.tags) AS u(x) JOIN k ON k.tag = u.x",
    "SELECT u.x, SUM(k.w) AS w FROM t, UNNEST(t.tags) AS u(x) LEFT JOIN k ON k.tag = u.x GROUP BY u.x",
    "SELECT id, u.x, v.y FROM t, UNNEST(t.tags) AS u(x), UNNEST(t.p.b) AS v(y) WHERE v.y > 0",
    "SELECT id, x.sku, x.n FROM (SELECT id, unnest(items) AS x FROM t) AS q",
    "SELECT id, u.x FROM t LEFT JOIN UNNEST(t.tags) AS u(x) ON TRUE",
    "SELECT id, u.x, u.o FROM t, UNNEST(t.tags) WITH ORDINALITY AS u(x, o)",
    "SELECT t.id, k.w, u.x FROM t LEFT JOIN k ON k.w = t.id, UNNEST([t.id, k.w]) AS u(x)",
    "SELECT id, {'a': id, 'b': tags} AS s, [id, p.a] AS l FROM t",
    "SELECT tag, list(w ORDER BY w DESC) AS l, COUNT(*) AS n FROM k GROUP BY tag",
    "SELECT w, list(tag ORDER BY tag) FILTER (WHERE tag IS NOT NULL) AS l FROM k GROUP BY w HAVING COUNT(tag) > 0",
    "SELECT id, list(DISTINCT u.x ORDER BY u.x) FILTER (WHERE u.x IS NOT NULL) AS l FROM t, UNNEST(tags) AS u(x) "
    "GROUP BY id HAVING COUNT(u.x) > 0",
    "SELECT q.tag, u.x FROM (SELECT tag, array_agg(w ORDER BY w) AS l FROM k GROUP BY tag) AS q, UNNEST(q.l) AS u(x)",
    "SELECT list(w ORDER BY tag, w DESC) AS l FROM k WHERE tag IS NOT NULL HAVING COUNT(*) > 0",
    "SELECT id FROM t EXCEPT SELECT u.x FROM t, UNNEST(t.p.b) AS u(x)",
)


def _some(random: Random, *values: Any) -> Any:
    return random.choice([None, *values, *values])


def _row(random: Random) -> tuple[Any, ...]:
    def several(one: Any) -> Any:
        return None if random.random() < 0.15 else [one() for _ in range(random.randint(0, 2))]

    tags = several(lambda: _some(random, "a", "b", "ü"))
    struct = {"a": _some(random, 0, 1), "b": several(lambda: _some(random, 0, 1, 2))}
    items = several(lambda: _some(random, {"sku": "x", "n": 1}, {"sku": None, "n": 2}))
    return random.randint(0, 3), tags, None if random.random() < 0.1 else struct, items


def _changed(random: Random, driver: Driver) -> dict[str, Any]:
    """Deletes of rows that are there, and new ones."""
    made: dict[str, Any] = {}
    for name, new in (("t", _row), ("k", lambda r: (_some(r, "a", "b", "c"), r.randint(0, 3)))):
        there = list(driver.database.rows[name].elements())
        gone = random.sample(there, min(len(there), random.randint(0, 3)))
        come = [tuple(normalise(value) for value in new(random)) for _ in range(random.randint(0, 4))]
        made[name] = [*((row, -1) for row in gone), *((row, 1) for row in come)]
    return made


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_the_result_is_that_of_duckdb_after_every_batch(query: str, seed: int, tmp_path: Path) -> None:
    random = Random(f"{seed} {query}")
    made = plans.program(query, SCHEMA, dialect="duckdb")
    driver = Driver(query, made, SCHEMA)
    twin = not any(isinstance(stage, JoinStage) for stage in made.stages)
    for number in turns(4, 7):
        result = driver.step(_changed(random, driver), again=number % 2 == 1, saved=tmp_path / f"{number}")
        if twin:
            bags = {table.name.lower(): driver.database.rows[table.name] for table in made.tables}
            assert results(made, bags)[-1] == result
    driver.remove_everything()


def _of(query: str, rows: Any, **more: Any) -> Counter[str]:
    view = crown.view(query, schema=SCHEMA | {"m": {"id": "int64", "m": "map<string,int64>"}}, **more)
    (name,) = (table.name for table in view.program.tables) if hasattr(view, "program") else ("m",)
    view.apply({name: rows})
    view.check_invariants()
    return Counter(str(tuple(row.values())) for row in view)


MAPS = [{"id": 1, "m": {"b": 2, "a": None}}, {"id": 2, "m": {}}, {"id": 3, "m": None}, {"id": 4, "m": [("b", 2)]}]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT id, key, value FROM m LATERAL VIEW explode(m)", ["(1, 'a', None)", "(1, 'b', 2)", "(4, 'b', 2)"]),
        (
            "SELECT id, pos, k FROM m LATERAL VIEW posexplode(m) e AS pos, k, v",
            ["(1, 0, 'a')", "(1, 1, 'b')", "(4, 0, 'b')"],
        ),
        (
            "SELECT id, v FROM m LATERAL VIEW OUTER explode(m) e AS k, v",
            ["(1, None)", "(1, 2)", "(2, None)", "(3, None)", "(4, 2)"],
        ),
        ("SELECT id, explode(map_keys(m)) FROM m WHERE id > 1", ["(4, 'b')"]),
        ("SELECT m, COUNT(*) FROM m WHERE m['b'] = 2 GROUP BY m", ["([('a', None), ('b', 2)], 1)", "([('b', 2)], 1)"]),
    ],
)  # fmt: skip
def test_maps_are_arrays_of_entries_in_the_order_of_their_keys(query: str, rows: list[str]) -> None:
    pairs = [None if row["m"] is None else list(dict(row["m"]).items()) for row in MAPS]
    assert pairs[0] == [("b", 2), ("a", None)]
    ids = [row["id"] for row in MAPS]
    arrow = pa.table({"id": ids, "m": pa.array(pairs, pa.map_(pa.string(), pa.int64()))})
    for given in (MAPS, {"id": ids, "m": pairs}, arrow, arrow.to_batches()[0]):
        assert _of(query, given) == Counter(rows)


@pytest.mark.parametrize(
    ("dialect", "query"),
    [
        ("spark", "SELECT id, x FROM t LATERAL VIEW explode(tags) AS x WHERE tags[0] = 'a'"),
        ("flink", "SELECT id, x FROM t CROSS JOIN UNNEST(tags) AS u (x) WHERE tags[1] = 'a'"),
        ("bigquery", "SELECT id, x FROM t, UNNEST(tags) AS x WHERE tags[SAFE_ORDINAL(1)] = 'a'"),
        ("postgres", "SELECT id, x FROM t, unnest(tags) AS x WHERE tags[1] = 'a'"),
        ("trino", "SELECT id, x FROM t CROSS JOIN UNNEST(tags) AS u (x) WHERE tags[1] = 'a'"),
        ("snowflake", "SELECT id, f.value AS x FROM t, LATERAL FLATTEN(input => tags) f WHERE tags[0] = 'a'"),
        ("duckdb", "SELECT id, unnest(tags) AS x FROM t WHERE tags[-2] = 'a' AND tags[id] = 'a'"),
    ],
)
def test_each_dialect_has_its_own_way_to_unnest_and_its_own_first_index(dialect: str, query: str) -> None:
    view = crown.view(query, schema=SCHEMA, dialect=dialect)
    view.apply(
        {
            "t": [
                {"id": 1, "tags": ["a", "b"], "p": None, "items": []},
                {"id": 1, "tags": ["b"], "p": None, "items": None},
            ]
        }
    )
    assert sorted(map(str, view)) == ["{'id': 1, 'x': 'a'}", "{'id': 1, 'x': 'b'}"]


@pytest.mark.parametrize(
    "words", ["t, UNNEST({}) AS {}, UNNEST({}) AS {}", "t JOIN UNNEST({}) AS {} JOIN UNNEST({}) AS {}"]
)
def test_the_name_of_an_element_precedes_a_column_of_this_name(words: str) -> None:
    schema = {"t": {"id": "int64", "items": "array<struct<n:int64,part:array<struct<sku:string>>,items:int64>>"}}
    rows = words.format("items", "items", "items.part", "part")
    query = f"SELECT id, items.n, items.items AS i, part.sku, part FROM {rows}"
    view = crown.view(query, schema, dialect="bigquery")
    view.update({"t": [{"id": 1, "items": [{"n": 2, "part": [{"sku": "a"}], "items": 3}]}]})
    assert list(view) == [{"id": 1, "n": 2, "i": 3, "sku": "a", "part": {"sku": "a"}}]


def test_columns_that_nothing_reads_are_not_exploded() -> None:
    query = "SELECT id, x FROM t LATERAL VIEW explode(tags) a AS x LATERAL VIEW explode(items) b AS y WHERE y.n > 0"
    made = plans.program(query, SCHEMA)
    assert {name for name, columns in used_columns(made, False).items() for name in columns} == {
        Column(name, SCHEMA["t"][name]) for name in ("id", "tags", "items")
    }
    assert [len(stage.terms[0].columns) for stage in made.stages] == [3, 3, 2]


def test_arrays_of_groups_have_no_null_and_are_never_null() -> None:
    query = "SELECT id, COLLECT_LIST(p.a) AS l, COLLECT_SET(p.a) AS s, ARRAY_AGG(STRUCT(p.a)) AS r FROM t GROUP BY id"
    view = crown.view(query, schema=SCHEMA)
    rows = [VALUES[0] | {"p": {"a": a, "b": None}} for a in (2, None, 1, 2)]
    view.apply({"t": rows})
    assert list(view) == [{"id": 1, "l": [1, 2, 2], "s": [1, 2], "r": [{"a": a} for a in (None, 1, 2, 2)]}]
    view.apply({"t": [row | {"_weight": -1} for row in rows if row["p"]["a"]]})
    assert list(view) == [{"id": 1, "l": [], "s": [], "r": [{"a": None}]}]
    whole = crown.view("SELECT COLLECT_LIST(id) AS l FROM t", schema=SCHEMA)
    whole.apply({})
    assert list(whole) == [{"l": []}]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT MAX(tags) FROM t", r"MAX needs an order, and values of type array<string> have no order"),
        ("SELECT SUM(tags) FROM t", "SUM needs a number, not array<string>"),
        ("SELECT AVG(tags) OVER () FROM t", "AVG needs a number, not array<string>"),
        ("SELECT FIRST(tags) FROM t", "FIRST needs an order"),
        ("SELECT ANY_VALUE(p) FROM t", "ANY_VALUE needs an order"),
        ("SELECT LAST(p) FROM t", "LAST needs an order"),
        ("SELECT ARRAY_AGG(id ORDER BY tags) FROM t", "ORDER BY needs an order"),
        ("SELECT STRING_AGG(id, ',' ORDER BY p DESC) FROM t", "ORDER BY needs an order"),
        ("SELECT LISTAGG(id, ',') WITHIN GROUP (ORDER BY id, MAP('a', id)) FROM t", "ORDER BY needs an order"),
        ("SELECT COLLECT_LIST(id ORDER BY tags) FROM t", "ORDER BY needs an order"),
        ("SELECT id FROM t ORDER BY p LIMIT 1", "ORDER BY needs an order"),
        ("SELECT id, ROW_NUMBER() OVER (ORDER BY tags) AS n FROM t", "ORDER BY needs an order"),
        ("SELECT id FROM t WHERE tags < tags", "< needs an order"),
        ("SELECT GREATEST(tags, tags) FROM t", "GREATEST needs an order"),
        ("SELECT id FROM t WHERE map('a', id) = map('a', 1)", "maps are not compared with ="),
        ("SELECT p.c FROM t", "there is no field c in struct<a:int64,b:array<int64>>"),
        ("SELECT id.x FROM t", "a value of type int64 has no field x"),
        ("SELECT id[0] FROM t", "a value of type int64 has no elements"),
        ("SELECT explode(id) FROM t", "EXPLODE takes an array or a map, not int64"),
        ("SELECT inline(tags) FROM t", "INLINE takes an array of structs"),
        ("SELECT explode(tags), explode(items) FROM t", "a SELECT can have only one call that returns several rows"),
        ("SELECT COUNT(*), explode(tags) FROM t", "a call that returns several rows cannot be combined with groups"),
        ("SELECT x FROM t LATERAL VIEW explode(tags) e AS x, y", "this has 1 columns, but 2 names are given"),
        ("SELECT id FROM t RIGHT JOIN UNNEST(tags) AS x ON TRUE", "a RIGHT JOIN with rows of an array"),
        ("SELECT id FROM t LEFT JOIN UNNEST(tags) AS x ON x = 'a'", "a condition of this LEFT JOIN"),
        ("SELECT id FROM t, UNNEST(tags, items) AS u(x, y)", "UNNEST of several arrays is not supported"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_refused(query: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        crown.view(query, schema=SCHEMA)


VALUES = [{"id": 1, "tags": ["a"], "p": {"a": 1, "b": [2]}, "items": [{"sku": "x", "n": None}]}]


@pytest.mark.parametrize("form", ["rows", "columns", "pandas", "polars", "arrow", "wide", "json"])
def test_values_with_parts_come_from_everywhere(form: str) -> None:
    view = crown.view("SELECT * FROM t", schema=SCHEMA)
    columns = {name: [row[name] for row in VALUES] for name in VALUES[0]}
    given: Any = VALUES if form == "rows" else columns
    if form == "pandas":
        given = pytest.importorskip("pandas").DataFrame(columns)
    elif form == "polars":
        given = pytest.importorskip("polars").DataFrame(columns)
    elif form == "arrow":
        given = pa.table(columns)
    elif form == "wide":
        struct = pa.struct([("B", pa.list_(pa.float32())), ("more", pa.bool_()), ("a", pa.int16())])
        given = pa.table({
            "id": [1],
            "tags": pa.array([["a"]], pa.large_list(pa.dictionary(pa.int8(), pa.string()))),
            "p": pa.array([{"B": [2], "more": True, "a": 1}], struct),
            "items": pa.array([[{"sku": "x"}]], pa.list_(pa.struct([("sku", pa.large_string())]), 1)),
        })  # fmt: skip
    elif form == "json":
        texts = {"tags": '["a"]', "p": '{"b": [2], "a": 1}', "items": '[{"sku": "x"}]'}
        given = {name: [texts.get(name, 1)] for name in columns}
    view.apply({"t": given})
    assert list(view) == VALUES
    assert view.multiplicity(VALUES[0]) == 1
    view.apply({"t": [{**VALUES[0], "_weight": -1}]})
    assert view.count() == 0


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("tags", [1], r"row 0: column 'tags': \[1\] does not fit array<string>"),
        ("tags", "x", "does not fit array<string>"),
        ("tags", {"a": 1}, "does not fit"),
        ("p", {"a": "x"}, "does not fit struct<a:int64,b:array<int64>>"),
        ("p", {"a": -(2**63)}, "reserved for NULL"),
        ("p", {"b": [True]}, "does not fit"),
        ("items", [1], "does not fit"),
    ],
)
def test_a_part_that_does_not_fit_makes_a_bad_row(column: str, value: Any, said: str) -> None:
    view = crown.view("SELECT * FROM t", schema=SCHEMA)
    with pytest.raises(BadRowError, match=said):
        view.apply({"t": [VALUES[0] | {column: value}]})
    assert view.count() == 0


@pytest.mark.parametrize("value", [[("a", 1), ("a", 2)], [(None, 1)], {1: 2}])
def test_a_map_has_each_key_once(value: Any) -> None:
    view = crown.view("SELECT m FROM m", schema={"m": {"m": "map<string,int64>"}})
    with pytest.raises(CrownError, match="does not fit map<string,int64>"):
        view.apply({"m": [{"m": value}]})


KEYED = [("map<string,int64>", [{"x": 1}, {"y": 2}]), ("map<string,string>", [{"x": "1", "a": "b"}, {}]),
    ("map<int64,int64>", [{2: 1, 1: 3}, {}]), ("map<string,int64>", [{}, {}]),
    ("map<string,map<string,int64>>", [{"a": {"x": 1}}, {"b": {}}])]  # fmt: skip


@pytest.mark.parametrize(("kind", "maps"), KEYED, ids=str)
def test_frames_have_maps_as_pairs(kind: str, maps: list[dict[Any, Any]]) -> None:
    def told(value: Any, pair: Any) -> Any:
        return [pair(k, told(v, pair)) for k, v in sorted(value.items())] if isinstance(value, dict) else value

    forms = {"tuple": lambda k, v: (k, v), "list": lambda k, v: [k, v], "struct": lambda k, v: {"key": k, "value": v}}
    wanted = [{"m": told(value, forms["tuple"])} for value in maps] + [{"m": None}]
    for name, pair in forms.items():
        values = [*(told(value, pair) for value in maps), None]
        made = pd.DataFrame({"m": values})
        frames = (
            [made, pl.DataFrame({"m": values}), pa.table({"m": values})] if name == "struct" else [made, {"m": values}]
        )
        for frame in frames:
            view = crown.view("SELECT m FROM m", schema={"m": {"m": kind}})
            view.apply({"m": frame})
            assert sorted(view, key=str) == sorted(wanted, key=str), (name, type(frame))


@pytest.mark.parametrize("pairs", [[[[1, 2], [3]]], [[[1, 2], [3, 4, 5]]], [[[1, 2], None]], [[[1, 2], []]]], ids=str)
def test_entries_of_another_length_are_no_pairs(pairs: Any) -> None:
    view = crown.view("SELECT m FROM m", schema={"m": {"m": "map<int64,int64>"}})
    for frame in ({"m": pairs}, pl.DataFrame({"m": pairs}), pd.DataFrame({"m": pairs})):
        with pytest.raises(BadRowError, match=r"does not fit map<int64,int64>$"):
            view.apply({"m": frame})


@pytest.mark.parametrize(
    ("kind", "around"),
    [
        ("map<string,int64>", lambda value: value),
        ("array<map<string,int64>>", lambda value: [value]),
        ("struct<M:map<string,int64>,z:int64>", lambda value: {"m": value}),
        ("map<string,map<string,int64>>", lambda value: [{"key": "a", "value": value}]),
    ],
)
def test_structs_for_maps_are_refused_with_what_to_do(kind: str, around: Any) -> None:
    rows = [{"m": around({"x": 1})}, {"m": around({"y": 2})}]
    view = crown.view("SELECT m FROM m", schema={"m": {"m": kind}})
    for frame in (pd.DataFrame(rows), pl.DataFrame(rows), pa.Table.from_pylist(rows)):
        with pytest.raises(BadRowError, match=r"has a struct there, .*: give an Arrow map, .* list of dicts"):
            view.apply({"m": frame})
    assert view.count() == 0


@pytest.mark.parametrize(
    "kind", ["array<map<string,int64>>", "struct<a:map<string,int64>>", "map<string,array<int64>>"]
)
def test_a_map_that_does_not_fit_is_a_bad_row(kind: str) -> None:
    view = crown.view("SELECT m FROM m", schema={"m": {"m": kind}})
    with pytest.raises(BadRowError, match="does not fit"):
        view.apply({"m": pa.table({"m": pa.array([[("x", True)]], pa.map_(pa.string(), pa.bool_()))})})


def test_a_folder_keeps_values_with_parts(tmp_path: Path) -> None:
    query = "SELECT id, x, p FROM t LATERAL VIEW explode(tags) AS x"
    with crown.open(query, tmp_path / "v", schema=SCHEMA) as view:
        view.apply({"t": VALUES})
    with crown.open(query, tmp_path / "v", schema=SCHEMA) as view:
        view.apply({"t": VALUES})
        assert list(view) == 2 * [{"id": 1, "x": "a", "p": VALUES[0]["p"]}]
        view.check_invariants()


@pytest.mark.parametrize(
    ("name", "text"), [("t.csv", 'id,tags\n1,"[""a"", null]"\n'), ("t.json", '{"id": 1, "tags": ["a", null]}')]
)
def test_files_of_texts_have_them_as_json(
    name: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(text)
    query, schema = "SELECT id, x FROM t LATERAL VIEW explode(tags) AS x", "t(id int64, tags array<string>)"
    assert main(["run", query, "--schema", schema, "--input", f"t={tmp_path / name}", "--output", "-", "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines() == ["+ id=1, x=a", "+ id=1, x=NULL"]
    whole = ["run", "SELECT tags FROM t", "--schema", schema, "--input", f"t={tmp_path / name}"]
    assert main([*whole, "--output", str(tmp_path / "out.csv")]) != 0
    assert "CSV cannot hold arrays" in capsys.readouterr().err
