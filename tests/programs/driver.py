"""A program beside its oracle: one stream of batches, and after each of them everything that must hold is compared."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Protocol

from crown.programs import snapshot
from crown.programs.program import ProgramEngine
from plans import Program
from tests.oracles import duck
from tests.oracles.database import Batch, Database, Row, to_arrow
from tests.plans.lowering.test_programs import rounded
from tests.programs.test_programs import apply, result_of


class Base(Protocol):
    """Base tables that know what a batch makes of them, such as ``tests.oracles.declared.Declared``."""

    database: Database

    def apply(self, batch: Batch) -> Any:
        """Applies a batch."""


class Driver:
    """An engine, the base tables, and DuckDB's answer to ``query`` over them.

    ``exact``: doubles are equal to the last bit; else to nine digits, as their order of additions may differ.
    """

    def __init__(
        self, query: str, made: Program, tables: dict[str, Any] | Base, *, exact: bool = True, **options: Any
    ) -> None:
        self.query, self.made, self.exact = query, made, exact
        self.base = Database(tables) if isinstance(tables, dict) else tables
        self.database = self.base if isinstance(self.base, Database) else self.base.database
        self.read = sorted({table.name.lower() for table in made.tables})
        self.engine = ProgramEngine.create(made, **options)
        self.total: Counter[Row] = Counter()

    @property
    def result(self) -> Counter[Row]:
        """What the engine has."""
        return result_of(self.engine)

    def step(self, batch: Batch, *, again: bool = False, saved: Path | None = None) -> Counter[Row]:
        """Applies a batch and compares everything; returns the result.

        ``again``: the batch is rolled back, and applied once more. ``saved``: in between the state is saved and loaded.
        """
        before = self.result if again else None
        changes = {n: to_arrow(self.database.schema, n, rows) for n, rows in batch.items() if n.lower() in self.read}
        self.total.update(apply(self.engine, changes))
        self.base.apply(batch)
        if again:
            self.engine.undo(changes)
            assert self.result == before, "a batch that is rolled back leaves something"
            self.engine.check_invariants()
            if saved is not None:
                self.engine.save(saved)
                self.engine, _ = snapshot.load(saved)
            apply(self.engine, changes)
        return self.compare()

    def compare(self) -> Counter[Row]:
        """The state of the engine against its deltas so far and DuckDB's answer; returns the result."""
        self.engine.check_invariants()
        result, wanted = self.result, self.from_scratch()
        assert result == Counter({row: n for row, n in self.total.items() if n}), "the result is the sum of the deltas"
        assert self.same(result, wanted)
        assert self.engine.result.count() == result.total()
        names = [column.name for column in self.engine.result.columns]
        for row in list(result)[:2]:
            assert self.engine.result.multiplicity(dict(zip(names, row, strict=True))) == result[row]
        return result

    def from_scratch(self) -> Counter[Row]:
        """Returns the rows that DuckDB has of the tables as they are."""
        return duck.results(self.query, self.database)

    def same(self, result: Counter[Row], wanted: Counter[Row]) -> bool:
        """Returns whether rows are DuckDB's."""
        return result == wanted if self.exact else rounded(result) == rounded(wanted)

    def remove_everything(self) -> None:
        """Deletes all rows, and compares."""
        self.step(self.database.everything(-1))
