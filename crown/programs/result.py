"""Reads one result of a program: all rows, the multiplicity of a row, the row of a key, rows by position.

Converts the rows of a stage from codes to Arrow.
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


class WindowReader:
    """Reads rows of window functions by their position in a partition.

    ``over``: the stage. ``windowed``: which of its columns the result has, and ``columns``: their names there.
    """

    def __init__(self, windowed: Windowed, over: Over, columns: Sequence[Column], dictionary: Dictionary) -> None:
        self._over = over
        self._dictionary = dictionary
        self._columns = np.array(windowed.columns, np.int64)
        self._shifts = np.array(windowed.added, np.int64)[:, None]
        feed = {output.name: i for i, output in enumerate(windowed.stage.feed.columns)}
        self._width = len(feed)
        self._keys, self._order = (
            {self._output_name(windowed, columns, name): Column(name, over.feed[feed[name]].type) for name in names}
            for names in (windowed.stage.keys, windowed.names)
        )
        self._order_columns = len(windowed.stage.order)
        self._positions = feed

    @staticmethod
    def _output_name(windowed: Windowed, columns: Sequence[Column], name: str) -> str:
        position = windowed.place(name)
        return name if position is None else columns[position].name

    def page(self, offset: int, limit: int, partition: Mapping[str, Any]) -> np.ndarray:
        """Returns the rows at positions ``offset`` to ``offset + limit`` of a partition: codes, int64[columns, n].

        O(log n) for each position, plus the cost of the functions that are not running. Raises ChangeError unless
        ``partition`` has a value for every column of PARTITION BY.
        """
        self._check_values(partition, list(self._keys), "page(of=...)")
        handles = self._handles(row := self._row(partition, self._keys))
        if row is None or not handles[0]:
            return np.empty((len(self._columns), 0), np.int64)
        size = int(self._over.trees.sizes(handles)[0])
        low, high = (np.array([min(at, size)], np.int64) for at in (offset, offset + limit))
        return self._read(handles, low, high)

    def row_of(self, key: Mapping[str, Any]) -> np.ndarray:
        """Returns the row with a key, if it exists: codes, int64[columns, n]. O(log n).

        Raises ChangeError unless ``key`` has a value for every column of PARTITION BY and ORDER BY, and if several rows
        have the key.
        """
        names = list(self._order)
        order_names = [name for name in names if name in key]
        self._check_values(key, [*self._keys, *names[: max(len(order_names), self._order_columns, 1)]], "get(key)")
        row = self._row(key, {**self._keys, **{name: self._order[name] for name in order_names}})
        handles = self._handles(row)
        if row is None or not handles[0]:
            return np.empty((len(self._columns), 0), np.int64)
        low, high = (self._over.trees.located(handles, row, len(order_names), mode)[0] for mode in (FIRST, BEHIND))
        if high[0] - low[0] > 1:
            further = names[len(order_names) :]
            hint = "read them with page()"
            if further:
                hint = f"give a value for {further[0]} too, or {hint}"
            raise ChangeError(f"{int(high[0] - low[0])} rows have this key: {hint}")
        return self._read(handles, low, high)

    def _read(self, handles: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> np.ndarray:
        return self._over.page(handles, lows, highs)[self._columns] + self._shifts

    def _check_values(self, values: Mapping[str, Any], required: Sequence[str], call: str) -> None:
        if set(values) != set(required):
            instead = f", not for {', '.join(map(str, values))}" if values else ""
            names = ", ".join(required)
            takes = f"takes a value for each of {names}" if names else "takes no value: there is one partition"
            raise ChangeError(f"{call} {takes}{instead}")

    def _row(self, values: Mapping[str, Any], columns: Mapping[str, Column]) -> np.ndarray | None:
        """Returns the codes of a row of the input of the stage, int64[width, 1]; None if a value is in no row."""
        named = {column.name: values[output] for output, column in columns.items()}
        codes = codes_of(list(columns.values()), named, self._dictionary)
        if codes is None:
            return None
        row = np.zeros((self._width, 1), np.int64)
        row[[self._positions[name] for name in named], 0] = codes
        return row

    def _handles(self, row: np.ndarray | None) -> np.ndarray:
        return np.zeros(1, np.int64) if row is None else self._over.trees.find(row)


class StageReader:
    """Reads the rows of the last of some ``stages``, which read the relations of ``base_tables``."""

    def __init__(self, stages: Sequence[Stage], base_tables: BaseTables, dictionary: Dictionary) -> None:
        self._stages = stages
        self._base_tables = base_tables
        self._dictionary = dictionary
        self.last = stages[-1]

    def rows(self) -> Iterator[Zset]:
        """Yields the rows of the last stage with their multiplicities, in blocks. Equal rows may be separate."""
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
        """Returns the row of the group with a key (by output name), if it exists. O(1).

        Raises ChangeError if the result is not one row per group, or if these are not its keys.
        """
        last = self.last
        if not isinstance(last, Groups):
            raise ChangeError("get(key) reads the row of a group, and the result is not grouped; use contains(row)")
        keys = last.key_columns()
        if keys is None:
            raise ChangeError("get(key) needs all keys of the groups in the result; select them, or use contains(row)")
        names = [column.name for column in keys]
        if set(key) != set(names):
            grouped = f"is grouped by {', '.join(names)}" if names else "has one row and no keys"
            raise ChangeError(f"get(key) takes a value for every key; the result {grouped}")
        row = self._row(key, keys)
        return Zset.empty(len(last.columns)) if row is None else last.row_of(row)

    def _row(self, values: Mapping[str, Any], columns: Sequence[Column]) -> np.ndarray | None:
        """Returns the codes of a row; None if the dictionary lacks one of its values, so that no row has it."""
        return codes_of(columns, values, self._dictionary)


class ResultReader:
    """Reads the rows of stage ``number`` of a program.

    ``records``: makes record batches of its deltas. ``bag``: a row can occur more than once; the result then has a
    column ``_weight``, as deltas have.
    """

    def __init__(self, runtime: ProgramRuntime, number: int) -> None:
        stage = runtime.plan.stages[number]
        self.columns = tuple(Column(output.name, output.type) for output in outputs_of(stage))
        self.bag = not each_once(stage)
        plain = pa.schema([(column.name, arrow_type(column.type)) for column in self.columns])
        self.delta_schema: pa.Schema = plain.append(pa.field(WEIGHT, pa.int64()))
        self.result_schema: pa.Schema = self.delta_schema if self.bag else plain
        self.reader = StageReader(runtime.stages[: number + 1], runtime.base_tables, runtime.memory.dictionary)
        last = self.reader.last
        self._join = last if isinstance(last, Join) else None
        self._runtime = runtime
        self._number = number
        kinds, dictionary = [column.type for column in self.columns], runtime.memory.dictionary
        self.records = Records(self.delta_schema, kinds, dictionary)
        self._rows = Records(self.result_schema, kinds, dictionary)
        self._plain = Records(plain, kinds, dictionary)
        self.nothing = self.records.batch(Zset.empty(len(kinds)))

    def results(self, factorized: bool = False) -> Iterator[pa.RecordBatch]:
        """Returns the full result, in record batches. That of a bag has ``_weight``, and equal rows may be separate.

        ``factorized``: True for factorized rows, which only joins have. Raises ConcurrentChangeError if it is continued
        after a change.
        """
        self._runtime.check_ready()
        if self._join is not None:
            return self._unchanged(self._join.batches(factorized))
        return self._unchanged(batch for net in self.reader.rows() for batch in self._rows.batches(net))

    @property
    def factorized(self) -> FactorizedHead:
        """Returns the maker of factorized rows. Raises CrownError for a result without them."""
        join = self._runtime.stages[0] if self._runtime.plan.only_join is not None else self._join
        if not isinstance(join, Join):
            raise CrownError(
                "factorized=True needs one join of distinct rows (SELECT DISTINCT, or a Datalog rule); "
                "leave factorized out"
            )
        return join.factorized

    @cached_property
    def ranged(self) -> RangedRows:
        """Returns the maker of deltas of ranges. Raises PlanError for a result without them."""
        ranges = ranged(self._runtime.plan)
        return RangedRows(ranges, self.columns, self.delta_schema, self._runtime.memory.dictionary)

    def _unchanged(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the batches. Raises ConcurrentChangeError if the state has changed since this call."""
        return self._while_unchanged(batches, self._runtime.header[H_EPOCH])

    def _while_unchanged(self, batches: Iterator[pa.RecordBatch], epoch: int) -> Iterator[pa.RecordBatch]:
        while True:
            self._runtime.check_ready()
            if self._runtime.header[H_EPOCH] != epoch:
                raise ConcurrentChangeError(CHANGED)
            batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def deltas_from_nothing(self) -> Iterator[pa.RecordBatch]:
        """Returns the full result as deltas from an empty one: each row once, with ``_weight``.

        O(result). Needs memory for all of it if equal rows may be separate; otherwise for one record batch.
        """
        self._runtime.check_ready()
        epoch = self._runtime.header[H_EPOCH]
        if self._join is not None and not self.bag:
            for batch in self._while_unchanged(self._join.batches(), epoch):
                yield once_each(batch, self.delta_schema)
            return
        rows = self.reader.rows()
        if self.bag and (self._join is None or len(self._join.cores) > 1):
            rows = iter([Zset.gathered(list(rows), len(self.columns)).net()])
        yield from self._while_unchanged((batch for net in rows for batch in self.records.batches(net)), epoch)

    def count(self) -> int:
        """Returns the number of result rows with their multiplicities. O(1); for a join without a count O(state).

        O(result) once after a load if the last stage keeps no state. Raises CrownError above 4e18.
        """
        self._runtime.check_ready()
        if self._join is not None and self._runtime.tallies.known(self._number) is None:
            return counted(self._join.count())
        return counted(self._runtime.tallies.counted(self._number, self.reader.rows))

    def check_invariants(self) -> None:
        """Raises AssertionError if ``count`` is not the number of rows. O(result)."""
        rows = sum(int(net.weights.sum()) for net in self.reader.rows())
        assert self.count() == rows, "the number of result rows differs from the count"

    def contains(self, values: Mapping[str, Any]) -> bool:
        """Returns True iff an output row, by output name, is in the result. See ``multiplicity``."""
        return self.multiplicity(values) > 0

    def multiplicity(self, values: Mapping[str, Any]) -> int:
        """Returns how often an output row, by output name, is in the result. See ``StageReader.multiplicity``."""
        self._runtime.check_ready()
        if self._join is not None:  # computed texts need not be in the dictionary
            return self._join.copies_of(row_of(self.columns, values))
        return self.reader.multiplicity(values)

    def get(self, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the result row with a key (by output name), or None: of a group, or of a window's partition. See
        ``StageReader.row_of`` and ``Pages.row_of``."""
        self._runtime.check_ready()
        net = self.reader.row_of(key) if self._window is None else _distinct(self._window.row_of(key))
        rows = self.records.batch(net).drop_columns([WEIGHT]).to_pylist()
        return rows[0] if rows else None

    def page(self, offset: int, limit: int, of: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        """Returns some rows of a window's partition. See ``Pages.page``."""
        self._runtime.check_ready()
        if self._window is None:
            raise CrownError(
                "page() reads rows by their position in a window, and this result is not that of a single window; "
                "use results() to read all rows"
            )
        return self._plain.batches(_distinct(self._window.page(offset, limit, of)))

    @cached_property
    def _window(self) -> WindowReader | None:
        windowed_rows = windowed(self._runtime.plan, self._number)
        over = None if windowed_rows is None else self._runtime.stages[windowed_rows.number]
        if windowed_rows is None or not isinstance(over, Over):
            return None
        return WindowReader(windowed_rows, over, self.columns, self._runtime.memory.dictionary)

    def delta(self, net: Zset) -> pa.Table:
        """Returns the net of a batch as a table with ``_weight``. O(net)."""
        return pa.Table.from_batches(self.records.batches(net), self.delta_schema)


def _distinct(codes: np.ndarray) -> Zset:
    """Returns rows (codes, int64[columns, n]), each once."""
    return Zset.of_columns(codes, np.ones(codes.shape[1], np.int64))
