"""A job without Spark: a query's operators in cells, given batches as the shuffle would, in a checkpoint like Spark's.

Oracle: the query's program in one engine in memory, batch by batch.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache

import pyarrow as pa

from crown.programs.program import ProgramEngine
from plans.program import Program
from plans.search.cells.exchanges import rounds
from plans.types import arrow_type
from spark_jobs.cell.cell import Cell, Report
from spark_jobs.cell.kept_plan import keep_plan
from spark_jobs.cell.spill import NONE
from spark_jobs.dispatch.chain import strides
from spark_jobs.dispatch.keys import strides_by_key, strides_within
from spark_jobs.log.meta import check_meta
from spark_jobs.log.state_location import located
from spark_jobs.log.state_log import CellLog
from spark_jobs.operator import after_keys
from spark_jobs.recell.recell import changes_of
from tests.oracles.expectation import net


class Job:
    """A stream over a maintained query in ``cells`` cells; ``host``: the scratch folder of the live engines."""

    def __init__(self, folder, program, cells, state=None, options=None, on_missing="ignore", floor=1 << 30):
        self.folder, self.place, self.on_missing, self.floor = folder, (state, options), on_missing, floor
        self.query = program
        self.oracle = ProgramEngine.create(program, on_missing=on_missing)
        self.batch, self.limits = 0, NONE
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "metadata").write_text(json.dumps({"id": "s"}))
        located(str(folder), *self.place).claim()
        self.start(cells)

    def start(self, cells, host="here"):
        """The driver begins, and asks for so many cells."""
        self.host, whole = host, after_keys(self.query)
        common = {"query": self.query.query, "root": "x", "scratch": None, "keep": 100, "run": "r"}
        common["on_missing"] = self.on_missing
        before = strides_by_key(self.query, cells, "crown", **common)
        cut = rounds(whole, cells)
        self.keys = {**before, **strides_within(self.query, cut, "crown", **common)}
        common["fingerprint"] = self.query.fingerprint
        self.rounds = strides(cut, operator="crown", whole=json.dumps(whole.to_json()), **common)

    def spark(self, kind):
        """Spark begins (``offsets``) or commits the next batch."""
        (self.folder / kind).mkdir(exist_ok=True)
        line = f'v1\n{{"batchTimestampMs": {self.batch}}}\n{{"logOffset":{self.batch}}}'
        (self.folder / kind / str(self.batch)).write_text(line)

    def run(self, changes):
        """Gives a batch to all cells, and compares what comes out with the oracle."""
        want = net(self.oracle.run(self.oracle.prepare(changes)))
        assert self.executed(changes) == dict(want), f"batch {self.batch}"
        self.spark("commits")
        self.batch += 1

    def executed(self, changes):
        """Gives a batch to all cells, whether Spark commits it then or not; what came out, as a bag."""
        self.spark("offsets")
        given = {name.lower(): table for name, table in changes.items()}
        for name, stride in self.keys.items():
            given[name] = self._applied(stride, given)
        for stride in self.rounds:
            out = self._applied(stride, given)
            given = {str(stride.round.carries).lower(): out}
        got = Counter()
        for row in out.to_pylist():
            got[tuple(value for name, value in row.items() if name != "_weight")] += row["_weight"]
        return {row: weight for row, weight in got.items() if weight}

    @property
    def root(self):
        """The folder of the state that counts."""
        return located(str(self.folder), *self.place).root

    def cell(self, stride, cell):
        """A cell of an operator."""
        step = stride.step
        log = CellLog.of(self.root / "s" / step.operator / str(cell), step.meta)
        scratch = self.folder.parent / self.host / step.operator / str(cell)
        more = {
            "on_missing": step.on_missing,
            "snapshot_floor": self.floor,
            "spark": self.folder,
            "limits": self.limits,
        }
        return Cell(_program(step.program), log, scratch, **more)

    def _applied(self, stride, given):
        step, plan = stride.step, _program(stride.step.program)
        operator = self.root / "s" / step.operator
        check_meta(operator, step.meta)
        said = {"program": step.program, "on_missing": step.on_missing, "whole": step.whole}
        keep_plan(operator, fingerprint=step.fingerprint, **said)
        columns = [*((out.name, out.type) for out in stride.round.maintained.output), ("_weight", "int64")]
        schema = pa.schema([(name, arrow_type(kind)) for name, kind in columns])
        base, found = _read(stride, plan, given), []
        for cell in range(step.grid.cells):
            mine = changes_of(stride.round, plan, base, cell)
            mine = {name: table for name, table in mine.items() if table.num_rows}
            deltas = self.cell(stride, cell).apply(self.batch, mine, Report(), None)
            found += [batch.rename_columns(schema.names).cast(schema) for batch in deltas]
        return pa.Table.from_batches(found, schema)


@cache
def _program(text):
    """The program of a step; a worker reads it once, too."""
    return Program.from_json(text)


def _read(stride, plan, given):
    """The changes of the base relations that a round reads, with the columns that travel."""
    roles, base = stride.round.roles or {}, {}
    for table in plan.tables:
        relation = roles[table.name].relation if roles else table.name
        carried = [column for column in table.columns if column.name != stride.step.envelope.masks]
        columns = [column.name for column in carried]
        fields = [(column.name, arrow_type(column.type)) for column in carried]
        nothing = pa.schema([*fields, ("_weight", pa.int64())]).empty_table()
        come = given.get(relation.lower())
        base[relation] = nothing if come is None else come.select([*columns, "_weight"]).cast(nothing.schema)
    return base
