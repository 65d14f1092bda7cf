"""States where addresses are short: in pieces that are mapped as a state grows, under a limit of the address space."""

from __future__ import annotations

import errno
import gc
import mmap
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import crown
from crown.errors import MemoryBudgetError
from crown.kernels.memory import arena as A
from crown.stages.state import memory as state_memory
from crown.store import budget, memory, pieces
from crown.store.budget import Budget
from crown.store.memory import SLACK, Grown, MappedFile, anonymous
from crown.store.pieces import Pieces
from crown.store.residence import expect, resident, trim
from plans import program
from spark_jobs.cell.engines import attached
from spark_jobs.cell.live import Live

pytestmark = pytest.mark.skipif(not pieces.supported(), reason="pieces are mapped on Linux")
MEBIBYTE = 1 << 20
TABLES = {"a": {"k": "int64", "x": "float64", "t": "string"}, "b": {"k": "int64", "y": "int64"}}
QUERY = "SELECT b.y, SUM(a.x) AS s, MAX(a.t) AS t FROM a, b WHERE a.k = b.k GROUP BY b.y"
CYCLIC = "SELECT x.a, y.a AS b FROM g x, g y, g z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a"


def is_mapped(address: int) -> bool:
    return any(first <= address < last for first, last in pieces.mapped_ranges())


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every state is in pieces."""
    monkeypatch.setattr(memory, "limit_of_addresses", lambda: 1 << 46)


@pytest.fixture
def finely(monkeypatch: pytest.MonkeyPatch) -> None:
    """States begin with 4096 words and grow by as many, so that few rows make them grow."""
    monkeypatch.setattr(budget, "SLACK", 4096)
    monkeypatch.setattr(state_memory, "SLACK", 4096)


# -- pieces ------------------------------------------------------------------------------------------------------------


def test_a_range_takes_no_addresses_but_those_of_its_pieces() -> None:
    made = Pieces(1 << 36)
    base = made.words.ctypes.data
    assert len(made.words) == 1 << 33
    assert not is_mapped(base)
    made.map(0, 100)
    made.map(1 << 30, (1 << 30) + MEBIBYTE)
    made.map(50, 2 * MEBIBYTE)
    made.words[[0, (2 * MEBIBYTE - 8) // 8, (1 << 30) // 8]] = 1, 2, 3
    assert made.extent(7) == (0, 2 * MEBIBYTE)
    assert made.extent((1 << 30) + 1) == (1 << 30, (1 << 30) + MEBIBYTE)
    assert made.extent(1 << 29) == (1 << 29, 1 << 29)
    kept = made.words[:1]
    del made
    gc.collect()
    assert kept.tolist() == [1]
    assert is_mapped(base)
    del kept
    gc.collect()
    assert not is_mapped(base)
    assert base not in pieces._chosen


def test_ranges_do_not_overlap_where_nothing_is_mapped_yet() -> None:
    made = [Pieces(1 << 42) for _ in range(4)]
    bases = sorted(one.words.ctypes.data for one in made)
    assert all(other - one >= 1 << 42 for one, other in pairwise(bases))


def test_a_piece_where_something_else_is_is_refused_and_that_stays_as_it_was() -> None:
    made = Pieces(1 << 30)
    other = Pieces.__new__(Pieces)
    other.__dict__.update(made.__dict__, _mapped=[])  # another range at the same addresses
    made.map(0, MEBIBYTE)
    made.words[3] = 7
    with pytest.raises(OSError, match="File exists"):
        other.map(0, MEBIBYTE)
    assert made.words[3] == 7


# -- states ------------------------------------------------------------------------------------------------------------


def changes(start: int, n: int, weight: int) -> dict[str, dict[str, list[object]]]:
    keys: list[object] = list(range(start, start + n))
    weights: list[object] = [weight] * n
    return {
        "a": {"k": keys, "x": [0.5] * n, "t": [f"text number {key}" for key in keys], "_weight": weights},
        "b": {"k": keys, "y": [key % 3 for key in range(start, start + n)], "_weight": weights},
    }


def fill(view: crown.View, start: int, n: int) -> None:
    view.update(changes(start, n, 1))


def rows(view: crown.View) -> list[dict[str, object]]:
    return sorted(view.to_table().to_pylist(), key=str)


def test_a_state_in_pieces_grows_and_is_the_same(short: None, tmp_path: Path) -> None:
    views = [crown.view(QUERY, TABLES), crown.view(QUERY, TABLES, path=tmp_path / "state")]
    for view in views:
        limits = [int(part[A.H_LIMIT]) for part in view._engine.memory.parts]
        assert limits == [SLACK] * len(limits)
        for start in range(0, 60_000, 20_000):
            fill(view, start, 20_000)
        grown = [int(part[A.H_LIMIT]) for part in view._engine.memory.parts]
        assert max(grown) > 3 * SLACK
        assert all(limit < len(part) for limit, part in zip(grown, view._engine.memory.parts, strict=True))
        assert [row["s"] for row in rows(view)] == [10_000.0] * 3
        view.save(tmp_path / "saved")
        again = crown.load(tmp_path / "saved")
        assert rows(again) == rows(view)
        fill(again, 60_000, 30)
        assert [row["s"] for row in rows(again)] == [10_005.0] * 3


def test_a_database_in_pieces_is_copied_and_takes_another_view(short: None) -> None:
    database = crown.database(TABLES)
    database.update(changes(0, 60_000, 1))
    fork = database.fork()
    for each in (database, fork):
        assert max(int(part[A.H_LIMIT]) for part in each._engine.memory.parts) > 3 * SLACK
        each.view("sums", QUERY)
        each.update(changes(60_000, 30, 1))
        assert [row["s"] for row in each["sums"]] == [10_005.0] * 3
        each.update(changes(30, 60_000, -1))  # what is checked row by row are few
        each.check_invariants()
        each.drop("sums")
    database.adopt(fork)


def test_cycles_and_threads_have_states_in_pieces(short: None) -> None:
    for options in ({}, {"threads": 2}):
        view = crown.view(CYCLIC, {"g": {"a": "int64", "b": "int64"}}, **options)
        edges = [(a, b) for a in range(22) for b in range(22) if a != b]
        view.update({"g": {"a": [a for a, _ in edges], "b": [b for _, b in edges]}})
        assert len(view) == 22 * 21 * 20
        assert max(int(part[A.H_LIMIT]) for part in view._engine.memory.parts) > 3 * SLACK
        view.check_invariants()


def test_a_file_in_pieces_is_opened_again_and_its_pages_go_and_come_back(short: None, tmp_path: Path) -> None:
    size = 1 << 22
    file = MappedFile.create(tmp_path / "state", 2 * size)
    parts = np.split(file.words, 2)
    for number, limit in enumerate((SLACK, 3 * SLACK)):
        file.reserve(number * size, limit)
        A.format_arena(parts[number], 0, limit, 1)
        parts[number][A.H_TOP] = limit
        parts[number][1000:limit] = number + 5
    file.parts = parts
    expect([file], in_order=False)
    trim([file], 1 << 20)
    assert resident([file]) < 8 * 4 * SLACK
    assert all((parts[number][1000:limit] == number + 5).all() for number, limit in ((0, SLACK), (1, 3 * SLACK)))
    del file, parts
    gc.collect()
    again = MappedFile.open(tmp_path / "state", 2)
    assert again.words[size + 3 * SLACK - 1] == 6
    assert again.extent(8 * size) == (8 * size, 8 * (size + 3 * SLACK))


def test_a_live_engine_that_another_process_grew_is_mapped_as_far_as_it_reaches(
    short: None, finely: None, tmp_path: Path
) -> None:
    """Workers take turns with a cell: each maps the file for itself, and keeps what it has mapped."""
    made = program("SELECT b.y, COUNT(*) AS n FROM a, b WHERE a.k = b.k GROUP BY b.y", TABLES)
    live = Live(made, tmp_path, "ignore")
    engine = live.created()
    other = attached(made, tmp_path / "engine.arena", "ignore")  # as another process does
    before = [int(part[A.H_LIMIT]) for part in engine.memory.parts]
    keys = list(range(2000))
    changes = {"a": {"k": keys, "x": [0.5] * len(keys), "t": ["t"] * len(keys)}, "b": {"k": keys, "y": keys}}
    for _ in other.run(other.prepare(changes)):
        pass
    assert any(part[A.H_LIMIT] > limit for part, limit in zip(other.memory.parts, before, strict=True))
    assert live.engine() is engine
    file = engine.memory.file
    assert file is not None
    for start, part in zip(range(0, len(file.words), len(engine.memory.parts[0])), engine.memory.parts, strict=True):
        assert file.extent(8 * start)[1] >= 8 * (start + int(part[A.H_LIMIT]))
    engine.check_invariants()
    for _ in engine.run(engine.prepare({"a": {"k": [5], "x": [0.5], "t": ["t"]}})):
        pass
    engine.check_invariants()


def test_a_budget_without_addresses_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    space = Grown(1 << 24)
    space.reserve(0, SLACK)
    A.format_arena(space.words, 0, SLACK, 1)
    budget = Budget([space.words], spaces=[space])
    with monkeypatch.context() as patch:
        patch.setattr(pieces, "limit_of_addresses", lambda: 1 << 20)
        patch.setattr(memory, "limit_of_addresses", lambda: 1 << 20)
        assert not budget.extend(0)
        assert budget.short_of_addresses
        assert not budget.full_disk
        assert space.words[A.H_LIMIT] == SLACK
        assert "limited to 1 MiB" in str(budget.refusal())
        assert "spark.executor.pyspark.memory" in str(budget.refusal())
        with pytest.raises(MemoryBudgetError, match=r"there is no room for more state. Raise the limit \(ulimit -v"):
            crown.view(QUERY, TABLES)
    assert budget.extend(0), "there is room again"
    assert space.words[A.H_LIMIT] > SLACK
    assert not budget.short_of_addresses


@pytest.mark.usefixtures("impatient")
def test_a_batch_for_which_nothing_more_is_mapped_is_rolled_back_and_does_not_wait(
    short: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Grown, start: int, words: int) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    view = crown.view("SELECT b.y, SUM(a.x) AS s FROM a, b WHERE a.k = b.k GROUP BY b.y", TABLES)
    for start in range(0, 60_000, 4000):
        fill(view, start, 4000)
    before = rows(view)
    with monkeypatch.context() as patch:
        patch.setattr(Grown, "reserve", refused)
        with pytest.raises(MemoryBudgetError, match="no room for more state"):
            fill(view, 60_000, 100_000)
        assert rows(view) == before
    fill(view, 60_000, 100_000)
    assert rows(view) != before


@pytest.mark.usefixtures("impatient")
def test_where_nothing_more_is_mapped_deletes_are_applied_or_refused_whole_and_no_view_is_lost(
    short: None, finely: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(self: Grown, start: int, words: int) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    def refused(view: crown.View, batch: dict[str, dict[str, list[object]]]) -> bool:
        """Offers a batch; one that is refused leaves the view as it was."""
        before = rows(view)
        try:
            view.update(batch)
        except MemoryBudgetError as error:
            told.append(str(error))
            assert rows(view) == before
            view.check_invariants()
            return True
        return False

    told: list[str] = []
    ends = set()
    for first in (1_000, 2_000, 4_000):
        view, there = crown.view(QUERY, TABLES), first
        fill(view, 0, first)
        with monkeypatch.context() as patch:
            patch.setattr(Grown, "reserve", nothing)
            while not refused(view, changes(there, 500, 1)):
                there += 500
            ends |= {refused(view, changes(start, n, -1)) for start, n in ((0, 100), (100, 800), (1_000, 5_000))}
        view.update(changes(0, there, -1))  # there is room again; what is gone is not missed
        assert not rows(view)
        view.check_invariants()
    assert ends == {False, True}
    assert all("Until then deletes may be refused, too" in sentence for sentence in told)


def test_without_a_limit_a_state_is_one_mapping() -> None:
    words, space = anonymous(1 << 24)
    assert space is None
    assert len(words) == 1 << 24


def test_a_system_without_huge_pages_refuses_the_advice_and_has_states_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*given: object) -> None:
        asked.append(given)
        raise OSError(errno.EINVAL, "Invalid argument")

    asked: list[object] = []
    monkeypatch.setattr(mmap, "mmap", type("Refusing", (mmap.mmap,), {"madvise": refused}))
    monkeypatch.setattr(Pieces, "advise", refused)
    words, space = anonymous(1 << 24)
    assert space is None
    words[[0, -1]] = 1, 2
    grown = Grown(1 << 24)
    grown.reserve(0, SLACK)
    grown.words[SLACK - 1] = 3
    assert len(asked) == 2


LIMITED = """
import resource, sys
import numpy as np
import crown
from crown.errors import MemoryBudgetError
from plans import program
from spark_jobs.cell.engines import created
limit = 3 << 30
resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
tables = {"a": {"k": "int64", "x": "float64"}, "b": {"k": "int64", "y": "int64"}}
query, folder = "SELECT COUNT(*) AS n, SUM(a.x * b.y) AS s FROM a, b WHERE a.k = b.k", sys.argv[1]


def fill(view, start, n=20_000):
    keys = np.arange(start, start + n)
    view.update({"a": {"k": keys, "x": np.full(n, 0.5)}, "b": {"k": keys, "y": np.full(n, 2)}})
    return view.to_table().to_pylist()


print(fill(crown.view(query, tables), 0))
by_key = query.replace("SELECT", "SELECT a.k,") + " GROUP BY a.k"
rows = fill(crown.view(by_key, tables, threads=2), 0)
print([{"n": sum(row["n"] for row in rows), "s": sum(row["s"] for row in rows)}])
print(fill(crown.view(query, tables, path=f"{folder}/state"), 0))
with crown.open(query, f"{folder}/durable", tables) as view:
    fill(view, 0)
with crown.open(query, f"{folder}/durable", tables) as view:
    print(fill(view, 20_000))
engine = created(program(query, tables), None, "ignore")
prepared = engine.prepare({"a": {"k": [1], "x": [0.5]}, "b": {"k": [1], "y": [4]}})
print([batch.to_pylist() for batch in engine.run(prepared)][-1][-1])
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = taken + (1 << 29)
resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
view, start, refused = crown.view(query, tables), 0, None
while refused is None:
    try:
        fill(view, start, 100_000)
        start += 100_000
    except MemoryBudgetError as error:
        refused = error
print(view.to_table().to_pylist() == [{"n": start, "s": float(start)}], start > 0)
print(f"of this process is limited to {limit >> 20} MiB" in str(refused))
resource.setrlimit(resource.RLIMIT_AS, (2 * limit, resource.RLIM_INFINITY))
print(fill(view, start) == [{"n": start + 20_000, "s": start + 20_000.0}])
"""


def test_a_process_with_a_limit_keeps_states_and_refuses_what_does_not_fit(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = done.stdout.splitlines()
    once = "[{'n': 20000, 's': 20000.0}]"
    assert told[:4] == [once, once, once, "[{'n': 40000, 's': 40000.0}]"]
    assert told[4] == "{'n': 1, 's': 2.0, '_weight': 1}"
    assert told[5:] == ["True True", "True", "True"]
