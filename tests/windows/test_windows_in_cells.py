"""Windows in several cells, after every batch: what comes out is what one cell gives, and that is DuckDB's.

Each window is one cell, which the changes of its relation go through first; the query behind it is cut as if it had
none. The same rows expire, and a late row is counted once, however many cells would have had it.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

import crown
from crown.errors import LateRowError, MissingDeleteError
from crown.programs.program import ProgramEngine
from plans import program
from plans.program import Program
from plans.schema import Schema
from plans.search.cells.count import worthwhile
from plans.search.cells.exchanges import rounds
from plans.search.cells.windows import within
from plans.show.programs import text
from spark_jobs.dispatch.envelope import cell_program, envelope_of
from tests.marks import by_turns, slow
from tests.oracles import duck
from tests.oracles.database import Row, to_arrow
from tests.programs.joins.test_cells_of_programs import Cells, arrow_of, deltas
from tests.programs.test_programs import apply
from tests.windows.test_windows import QUERIES, TABLES, WINDOWS, Twin, batch_of

MORE = {
    **QUERIES,
    "copied": "SELECT r.k, r.n, r.s, u.ts, u.day FROM r, u WHERE u.k = 1",
    "two roles": "SELECT x.k, x.s, COUNT(*) AS c FROM r x JOIN r y ON x.n = y.k GROUP BY x.k, x.s",
}
BY_VALUES = {name: windows for name, windows in WINDOWS.items() if not any(w.arrival for w in windows.values())}


class InCells:
    """A program whose windows stand before so many cells of the query; in one cell they are in that."""

    def __init__(self, made: Program, cells: int, on_missing: str = "ignore") -> None:
        self.made = made
        found = rounds(made, cells)
        self.windows = {} if cells == 1 else within(made, on_missing == "raise")
        self.before = {name: Cells(one, on_missing) for name, one in self.windows.items()}
        self.parts = [Cells(one, on_missing if i == 0 else "trust") for i, one in enumerate(found)]

    def apply(self, changes: dict[str, Any]) -> Counter[Row]:
        """Returns the net deltas of all cells."""
        sent = dict(changes)
        for name, cells in self.before.items():
            table = cells.given.maintained.tables[0]
            given = {name: changes[name]} if name in changes else {}
            sent[name] = arrow_of(table, cells.apply(given))
        found: Counter[Row] = deltas(self.parts, sent)
        return found

    def told(self, name: str) -> dict[str, Any]:
        """Returns what is said of a window, added up over all cells that have it."""
        every = [*self.before.values(), *self.parts]
        told = [e.stats().get("windows", {}) for cells in every for e in cells.engines]
        (one,) = [windows[name] for windows in told if name in windows]
        return dict(one)


@pytest.mark.parametrize("cells", [slow(1), 2, slow(3)])
@pytest.mark.parametrize(("windows", "query"), by_turns(BY_VALUES, MORE, share=2))
def test_cells_behind_windows_deliver_what_one_cell_does(query: str, windows: str, cells: int) -> None:
    random, sql = Random(f"{windows} and {query}"), MORE[query]
    read = [table.name for table in program(sql, TABLES).tables]
    made = program(sql, TABLES, windows={name: window for name, window in WINDOWS[windows].items() if name in read})
    many = InCells(made, cells)
    one = ProgramEngine.create(cell_program(made, envelope_of(made, cells=1, quarantine=False)))
    names = {table.name: [column.name for column in table.columns] for table in one.plan.tables}
    twin, total = Twin(TABLES, made.windows), Counter[Row]()
    for turn in range(12):
        batch = {n: c for n, c in batch_of(random, twin.database, 4 * turn).items() if n in names}
        changes = {name: to_arrow(twin.database.schema, name, rows) for name, rows in batch.items()}
        wanted = apply(one, {n: table.select([*names[n], "_weight"]) for n, table in changes.items()})
        found = many.apply(changes)
        assert found == Counter({row: weight for row, weight in wanted.items() if weight}), f"batch {turn}"
        total.update(found)
        twin.apply(batch)
        assert Counter({row: n for row, n in total.items() if n}) == duck.results(sql, twin.database)
        for name in twin.windows:
            told = many.told(name)
            assert told == one.stats()["windows"][name]
    assert sum(window.expired for window in twin.windows.values()) > 0


EVENTS = {"r": {"k": "int64", "n": "int64", "s": "string"}}
GROUPS = "SELECT k, COUNT(*) AS c FROM r GROUP BY k"


def test_a_batch_that_one_cell_would_refuse_is_refused_by_the_window() -> None:
    late = InCells(program(GROUPS, EVENTS, windows={"r": crown.ttl("n", 10, late="raise")}), 2)
    late.apply(batch_in((1, 100, "a"), 1))
    with pytest.raises(LateRowError, match="90 is late: the watermark is 100"):
        late.apply(batch_in((2, 90, "a"), 1))
    strict = InCells(program(GROUPS, EVENTS, windows={"r": crown.ttl("n", 10)}), 2, "raise")
    assert strict.apply(batch_in((1, 100, "a"), 1)) == Counter({(1, 1): 1})
    with pytest.raises(MissingDeleteError, match="'s': 'b'"):  # a column that the query does not read
        strict.apply(batch_in((1, 100, "b"), -1))
    assert strict.apply(batch_in((1, 100, "a"), -1)) == Counter({(1, 1): -1})


def test_a_row_that_a_batch_takes_back_moves_no_watermark() -> None:
    made = program(GROUPS, EVENTS, windows={"r": crown.ttl("n", 10)})
    for cells in (1, 2):
        here = InCells(made, cells)
        here.apply(batch_in((1, 100, "a"), 1))
        here.apply(batch_in((1, 500, "a"), 1, (1, 500, "b"), -1, (1, 105, "a"), 1))
        assert here.told("r")["watermark"] == 105


def test_one_cell_is_the_default_and_explain_says_what_several_cost() -> None:
    made = program(GROUPS, EVENTS, windows={"r": crown.ttl("n", 10)})
    assert worthwhile(made, 4) == 1
    assert worthwhile(program(GROUPS, EVENTS), 4) == 4
    assert "any number, by r (k); with several cells, the window of r runs before them" in " ".join(text(made).split())
    assert rounds(made, 1)[0].maintained == made
    kept = within(made)["r"].maintained
    assert Program.from_json(kept.to_json()) == kept
    assert [column.name for column in kept.tables[0].columns] == ["k", "n"]
    assert [column.name for column in within(made, whole=True)["r"].maintained.tables[0].columns] == ["k", "n", "s"]


def batch_in(*given: Any) -> dict[str, Any]:
    """Returns a batch of ``r``: rows, each with its weight behind it."""
    return {"r": to_arrow(Schema.of(EVENTS), "r", list(zip(given[::2], given[1::2], strict=True)))}
