"""A batch of one row is paid for in Python calls: how many there are, and in how many files, has a ceiling.

Kernels do what grows with the data; what is left is the way of a batch through the product, which every batch goes. A
call costs 50 to 100 ns, so a hundred of them take as long as the kernels of a small batch. And who reads that way has
to open every file that it enters. Calls are counted, not timed: the numbers are the
same on every machine. Kernels are native code and are not counted, nor is what other packages do.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

import crown

TABLES = {"R": {"a": "int64", "b": "int64"}, "S": {"b": "int64", "c": "int64"}, "T": {"c": "int64", "d": "int64"}}
PRODUCT = tuple(f"{Path(crown.__file__).parents[1] / name}/" for name in ("crown", "plans"))
KERNELS = "/kernels/"

# Query -> most calls, and most files, of ``apply`` and of ``update``. A change that makes a batch dearer raises its
# numbers here, and says why; one that makes it cheaper lowers them. A table is taken in two steps, and a batch may be
# open already when the steps take it, so that a program can have a native call in their place. What
# makes room for groups is a function, since groups over a table and over a join need it; a join in a call is an object
# of its own. A call is made in the generator that delivers its deltas, which is entered once for each of them, and its
# arguments come from another, since several cells make their calls together.
# A join first ends the loans that a stopped batch has left.
CEILINGS = {
    "Q(a, b, c) :- R(a, b), S(b, c).": ((43, 13), (74, 18)),
    "SELECT R.a, R.b, S.c, T.d FROM R, S, T WHERE R.b = S.b AND S.c = T.c": ((41, 13), (74, 18)),
    "SELECT COUNT(*) AS n FROM R, S, T WHERE R.b = S.b AND S.b = T.c": ((44, 14), (40, 13)),
    "SELECT R.a, SUM(S.c) AS s, COUNT(*) AS n FROM R, S WHERE R.b = S.b GROUP BY R.a": ((46, 14), (42, 13)),
    "SELECT a, SUM(b) AS s, COUNT(*) AS n FROM R GROUP BY a": ((42, 12), (38, 11)),
}


def entered(work: Any) -> Counter[str]:
    """Returns how many Python functions of each file of the product a call enters.

    What others left in cycles is not collected meanwhile: the finalizer of a file's mapping is a function of the
    product, too.
    """
    found: Counter[str] = Counter()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            file = frame.f_code.co_filename
            if file.startswith(PRODUCT) and KERNELS not in file:
                found[file] += 1

    before = sys.getprofile()
    gc.disable()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
        gc.enable()
    return found


def steady(query: str) -> crown.View:
    """Returns a view that holds rows, and has applied batches of each kind before."""
    view = crown.view(query, TABLES)
    for name in {table.name for table in view.plan.tables}:
        names = list(TABLES[name])
        view.update({name: pa.table({names[0]: [i % 20 for i in range(100)], names[1]: [i % 7 for i in range(100)]})})
    for batch in batches() * 2:
        view.apply(batch)
    return view


def batches() -> list[dict[str, pa.Table]]:
    """Returns a batch that inserts a row of R, and one that deletes it."""
    weights = [pa.array([weight], pa.int64()) for weight in (1, -1)]
    return [{"R": pa.table({"a": [1000], "b": [3], "_weight": weight})} for weight in weights]


@pytest.mark.parametrize("query", CEILINGS)
def test_a_batch_of_one_row_enters_few_functions_and_few_files(query: str) -> None:
    view = steady(query)
    applied = [entered(lambda batch=batch: view.apply(batch)) for batch in batches()]
    for batch in batches():
        view.update(batch)
    updated = [entered(lambda batch=batch: view.update(batch)) for batch in batches()]
    for found, (calls, files) in zip((applied, updated), CEILINGS[query], strict=True):
        most = max(one.total() for one in found), max(map(len, found))
        assert most[0] <= calls, f"{most}: {found[1]}"
        assert most[1] <= files, f"{most}: {found[1]}"


def test_a_batch_of_one_row_in_ranges_enters_few_functions() -> None:
    """A range is one row, so a batch costs what it takes to find that out, and no more."""
    view = steady("SELECT a, b, SUM(b) OVER w AS s, RANK() OVER w AS n FROM R WINDOW w AS (ORDER BY a)")
    for batch in batches():
        view.apply(batch, ranges=True)
    found = [entered(lambda batch=batch: view.apply(batch, ranges=True)) for batch in batches()]
    assert max(one.total() for one in found) <= 190, found[1]


def test_what_others_left_is_not_counted(tmp_path: Path) -> None:
    """A view in a cycle is collected whenever the collector runs, which may be within a batch that is counted."""
    view = steady("SELECT a, SUM(b) AS s, COUNT(*) AS n FROM R GROUP BY a")
    insert, delete = batches()
    alone = entered(lambda: view.apply(insert))
    view.apply(delete)
    left: list[object] = [crown.view("SELECT a, b FROM R", TABLES, path=tmp_path / "state")]
    left.append(left)
    del left
    before = gc.get_threshold()

    def work() -> None:
        gc.set_threshold(1, 1, 1)
        view.apply(insert)

    try:
        assert entered(work) == alone
    finally:
        gc.set_threshold(*before)


def test_more_rows_in_a_batch_make_no_more_calls() -> None:
    """What is done per row is done by kernels."""
    (query, *_) = (query for query in CEILINGS if "GROUP BY R.a" in query)
    view, found = steady(query), []
    for rows in (5_000, 10_000):  # the memory of fewer rows is kept
        batch = pa.table({"a": [1000 + i for i in range(rows)], "b": [i % 7 for i in range(rows)]})
        view.apply({"R": batch})  # there is room for as many groups as the batch before had
        found.append(entered(lambda batch=batch: view.apply({"R": batch})).total())
    assert found[1] <= found[0]
