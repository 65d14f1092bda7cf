"""One result of a program: converts the rows of a stage from codes to Arrow, and answers reads: all rows, the
multiplicity of a row, the row of a group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from crown.engine.delivery import CHANGED
from crown.errors import ChangeError, ConcurrentChangeError, CrownError
from crown.ingest.changes import WEIGHT
from crown.kernels.memory.arena import H_EPOCH
from crown.programs.runtime import ProgramRuntime
from crown.results.copies import once_each
from crown.results.factorized import FactorizedHead
from crown.results.membership import codes_of, row_of
from crown.results.ranged import RangedRows
from crown.results.result import counted
from crown.stages.groups.group import Groups
from crown.stages.joins.core import Join
from crown.stages.kernels.trees.ordered import BEHIND, FIRST
from crown.stages.linear import Linear
from crown.stages.over.stage import Over
from crown.stages.protocol import Stage
from crown.stages.tables.base_tables import BaseTables
from crown.store.dictionary import Dictionary
from crown.store.records import Records
from crown.store.zset import Zset
from plans.programs.reads import each_once
from plans.programs.running import Windowed, ranged, windowed
from plans.programs.stages import outputs_of
from plans.schema import Column
from plans.types import arrow_type


class Pages:
    """Reads the rows of ``over``, which are those of a result: ``windowed`` says which columns these are, ``columns``
    what they are called there."""

    def __init__(self, windowed: Windowed, over: Over, columns: Sequence[Column], dictionary: Dictionary) -> None:
        self._over = over
        self._dictionary = dictionary
        self._shown = np.array(windowed.columns, np.int64)
        self._added = np.array(windowed.added, np.int64)[:, None]
        feed = {output.name: i for i, output in enumerate(windowed.stage.feed.columns)}
        self._width = len(feed)
        self._keys, self._order = (
            {self._called(windowed, columns, name): Column(name, over.feed[feed[name]].type) for name in names}
            for names in (windowed.stage.keys, windowed.names)
        )
        self._least = len(windowed.stage.order)
        self._place = feed

    @staticmethod
    def _called(windowed: Windowed, columns: Sequence[Column], name: str) -> str:
        at = windowed.place(name)
        return name if at is None else columns[at].name

    def page(self, offset: int, limit: int, partition: Mapping[str, Any]) -> np.ndarray:
        """Returns the rows at positions ``offset`` to ``offset + limit`` of a partition: codes, int64[columns, n].

        O(log n) for each; of functions that are not running, what the values of these rows cost. Raises ChangeError
        unless there is a value for every column of PARTITION BY.
        """
        self._demand(partition, list(self._keys), "page(of=...)")
        handles = self._handles(row := self._row(partition, self._keys))
        if row is None or not handles[0]:
            return np.empty((len(self._shown), 0), np.int64)
        size = int(self._over.sizes(handles)[0])
        low, high = (np.array([min(at, size)], np.int64) for at in (offset, offset + limit))
        return self._read(handles, low, high)

    def row_of(self, key: Mapping[str, Any]) -> np.ndarray:
        """Returns the row with a key, if it is there: codes, int64[columns, n]. O(log n).

        Raises ChangeError unless there is a value for every column of PARTITION BY and ORDER BY, and if there are
        several such rows.
        """
        names = list(self._order)
        given = [name for name in names if name in key]
        self._demand(key, [*self._keys, *names[: max(len(given), self._least, 1)]], "get(key)")
        row = self._row(key, {**self._keys, **{name: self._order[name] for name in given}})
        handles = self._handles(row)
        if row is None or not handles[0]:
            return np.empty((len(self._shown), 0), np.int64)
        low, high = (self._over.bounds(handles, row, len(given), mode) for mode in (FIRST, BEHIND))
        if high[0] - low[0] > 1:
            more = names[len(given) :]
            said = f"give a value for {more[0]} too, or read them with page()" if more else "read them with page()"
            raise ChangeError(f"{int(high[0] - low[0])} rows have this key: {said}")
        return self._read(handles, low, high)

    def _read(self, handles: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> np.ndarray:
        return self._over.page(handles, lows, highs)[self._shown] + self._added

    def _demand(self, given: Mapping[str, Any], wanted: Sequence[str], what: str) -> None:
        if set(given) != set(wanted):
            said = f", not for {', '.join(map(str, given))}" if given else ""
            takes = (
                f"takes a value for each of {', '.join(wanted)}" if wanted else "takes no value: there is one partition"
            )
            raise ChangeError(f"{what} {takes}{said}")

    def _row(self, values: Mapping[str, Any], columns: Mapping[str, Column]) -> np.ndarray | None:
        """Returns a row of the stage's feed, int64[width, 1], with some values; None if no row has one of them."""
        named = {column.name: values[called] for called, column in columns.items()}
        codes = codes_of(list(columns.values()), named, self._dictionary)
        if codes is None:
            return None
        row = np.zeros((self._width, 1), np.int64)
        row[[self._place[name] for name in named], 0] = codes
        return row

    def _handles(self, row: np.ndarray | None) -> np.ndarray:
        return np.zeros(1, np.int64) if row is None else self._over.find(row)


class Answers:
    """Reads the last of some ``stages``, over base relations behind a ``base_tables``."""

    def __init__(self, stages: Sequence[Stage], base_tables: BaseTables, dictionary: Dictionary) -> None:
        self._stages = stages
        self._base_tables = base_tables
        self._dictionary = dictionary
        self.last = stages[-1]

    def rows(self) -> Iterator[Zset]:
        """Yields the rows of the last stage with their multiplicities, in blocks; equal rows may stand apart."""
        return self._scan(len(self._stages) - 1)

    def _scan(self, source: str | int) -> Iterator[Zset]:
        if isinstance(source, str):
            return self._base_tables.scan(source.lower())
        stage = self._stages[source]
        return stage.scan(self._sources(stage))

    def _sources(self, stage: Stage) -> list[Iterator[Zset]]:
        return [self._scan(source) for source in stage.inputs] if isinstance(stage, Linear) else []

    def multiplicity(self, values: Mapping[str, Any]) -> int:
        """Returns how often a row, by output name, is in the result.

        O(1) for joins, set operations, and groups whose keys are outputs; else O(result). Raises ChangeError if a
        column is missing or a value does not fit.
        """
        row = self._row(values, self.last.columns)
        return 0 if row is None else self.last.multiplicity(row, self._sources(self.last))

    def row_of(self, key: Mapping[str, Any]) -> Zset:
        """Returns the row of the group with a key (by output name), if it is there. O(1).

        Raises ChangeError if the result is not one row per group, or if these are not its keys.
        """
        last = self.last
        if not isinstance(last, Groups):
            raise ChangeError("get(key) asks for the row of a group, and the result is not grouped; use contains(row)")
        wanted = last.key_columns()
        if wanted is None or set(key) != {column.name for column in wanted}:
            known = "whose keys are not all selected" if wanted is None else f"by {', '.join(c.name for c in wanted)}"
            raise ChangeError(f"get(key) takes a value for every key; the result is grouped {known}")
        row = self._row(key, wanted)
        return Zset.empty(len(last.columns)) if row is None else last.row_of(row)

    def _row(self, values: Mapping[str, Any], columns: Sequence[Column]) -> np.ndarray | None:
        """Returns the codes of a row; None if one of its values is in no row, since the dictionary does not know it."""
        return codes_of(columns, values, self._dictionary)


class ResultOf:
    """Reads stage ``number`` of what is ``running``.

    ``records``: makes record batches of its deltas. ``bag``: a row can be there more than once. Then the result, too,
    has a column ``_weight``.
    """

    def __init__(self, running: ProgramRuntime, number: int) -> None:
        stage = running.plan.stages[number]
        self.columns = tuple(Column(output.name, output.type) for output in outputs_of(stage))
        self.bag = not each_once(stage)
        plain = pa.schema([(column.name, arrow_type(column.type)) for column in self.columns])
        self.delta_schema: pa.Schema = plain.append(pa.field(WEIGHT, pa.int64()))
        self.result_schema: pa.Schema = self.delta_schema if self.bag else plain
        self.answers = Answers(running.stages[: number + 1], running.base_tables, running.memory.dictionary)
        last = self.answers.last
        self._join = last if isinstance(last, Join) else None
        self._running = running
        self._number = number
        kinds, dictionary = [column.type for column in self.columns], running.memory.dictionary
        self.records = Records(self.delta_schema, kinds, dictionary)
        self._rows = Records(self.result_schema, kinds, dictionary)
        self._plain = Records(plain, kinds, dictionary)
        self.nothing = self.records.batch(Zset.empty(len(kinds)))

    def results(self, factorized: bool = False) -> Iterator[pa.RecordBatch]:
        """Returns the full result, in record batches. A bag's have ``_weight``, and equal rows of it may stand apart.

        ``factorized``: as factorized rows, which only a join has. Raises ConcurrentChangeError when it is continued
        after a change.
        """
        self._running.ready()
        if self._join is not None:
            return self._unchanged(self._join.batches(factorized))
        return self._unchanged(batch for net in self.answers.rows() for batch in self._rows.batches(net))

    @property
    def factorized(self) -> FactorizedHead:
        """Returns what makes factorized rows. CrownError for a result that has none."""
        join = self._running.stages[0] if self._running.plan.only_join is not None else self._join
        if not isinstance(join, Join):
            raise CrownError(
                "factorized=True gives a product per row, which only one join of distinct rows has (SELECT DISTINCT, "
                "or a Datalog rule); leave factorized out"
            )
        return join.factorized

    @cached_property
    def ranged(self) -> RangedRows:
        """Returns what makes deltas of ranges. PlanError for a result that has none, and says why."""
        given = ranged(self._running.plan)
        return RangedRows(given, self.columns, self.delta_schema, self._running.memory.dictionary)

    def _unchanged(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the batches. Raises ConcurrentChangeError when something has changed since the first was asked for."""
        return self._while_unchanged(batches, self._running.header[H_EPOCH])

    def _while_unchanged(self, batches: Iterator[pa.RecordBatch], epoch: int) -> Iterator[pa.RecordBatch]:
        while True:
            self._running.ready()
            if self._running.header[H_EPOCH] != epoch:
                raise ConcurrentChangeError(CHANGED)
            batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def deltas_from_nothing(self) -> Iterator[pa.RecordBatch]:
        """Returns the full result as the deltas that lead there from an empty one: each row once, with ``_weight``.

        O(result). Memory: all of it, if equal rows may stand apart; else that of a record batch.
        """
        self._running.ready()
        epoch = self._running.header[H_EPOCH]
        if self._join is not None and not self.bag:
            for batch in self._while_unchanged(self._join.batches(), epoch):
                yield once_each(batch, self.delta_schema)
            return
        rows = self.answers.rows()
        if self.bag and (self._join is None or len(self._join.cores) > 1):
            rows = iter([Zset.gathered(list(rows), len(self.columns)).net()])
        yield from self._while_unchanged((batch for net in rows for batch in self.records.batches(net)), epoch)

    def count(self) -> int:
        """Returns the number of result rows, each as often as it is there. O(1); of a join O(state), by its tree.

        O(result) once after a load if the last stage has no memory. Raises CrownError for more than 4e18.
        """
        self._running.ready()
        if self._join is not None and self._running.tallies.known(self._number) is None:
            return counted(self._join.count())
        return counted(self._running.tallies.counted(self._number, self.answers.rows))

    def check_invariants(self) -> None:
        """Raises AssertionError if ``count`` is not the number of rows. O(result)."""
        found = sum(int(net.weights.sum()) for net in self.answers.rows())
        assert self.count() == found, "the rows of the result are not as many as were counted"

    def contains(self, values: Mapping[str, Any]) -> bool:
        """Returns True iff an output row, by output name, is in the result. See ``multiplicity``."""
        return self.multiplicity(values) > 0

    def multiplicity(self, values: Mapping[str, Any]) -> int:
        """Returns how often an output row, by output name, is in the result. See ``Answers.multiplicity``."""
        self._running.ready()
        if self._join is not None:  # it may have computed columns, whose texts the dictionary need not know
            return self._join.copies_of(row_of(self.columns, values))
        return self.answers.multiplicity(values)

    def get(self, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the result row with a key (by output name), or None: of a group, or of a window's partition. See
        ``Answers.row_of`` and ``Pages.row_of``."""
        self._running.ready()
        found = self.answers.row_of(key) if self._pages is None else _once(self._pages.row_of(key))
        rows = self.records.batch(found).drop_columns([WEIGHT]).to_pylist()
        return rows[0] if rows else None

    def page(self, offset: int, limit: int, of: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        """Returns some rows of a window's partition. See ``Pages.page``."""
        self._running.ready()
        if self._pages is None:
            raise CrownError(
                "page() reads the rows of window functions by their place in the order, and the rows of this result "
                "are not those of one window; results() reads all rows"
            )
        return self._plain.batches(_once(self._pages.page(offset, limit, of)))

    @cached_property
    def _pages(self) -> Pages | None:
        found = windowed(self._running.plan, self._number)
        over = None if found is None else self._running.stages[found.number]
        if found is None or not isinstance(over, Over):
            return None
        return Pages(found, over, self.columns, self._running.memory.dictionary)

    def delta(self, net: Zset) -> pa.Table:
        """Returns the net of a batch as a table with ``_weight``. O(net)."""
        return pa.Table.from_batches(self.records.batches(net), self.delta_schema)


def _once(codes: np.ndarray) -> Zset:
    """Returns rows (codes, int64[columns, n]), each once."""
    return Zset.of_columns(codes, np.ones(codes.shape[1], np.int64))
