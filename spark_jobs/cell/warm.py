"""Loads compiled kernels before the first batch; one process compiles them while the others wait.

The first use of a kernel on a machine compiles it, in seconds; later processes load it from a cache. Four workers that
start together would each compile everything, on the same cores. So the first worker compiles under a lock.
"""

from __future__ import annotations

import datetime as dt
import decimal
import fcntl
from contextlib import suppress
from typing import Any

import pyarrow as pa

import plans
from crown.programs.delta_options import ALL_DELTAS
from plans.errors import FunctionError
from plans.nested import STRUCT, is_nested
from plans.payloads.sums import ROWS, term_of
from plans.program import Program
from plans.programs.stages import GroupStage
from plans.types import arrow_type, decimal_parts
from spark_jobs.cell.engines import created
from spark_jobs.scratch import scratch_root

_warm: set[str] = set()
_VALUES: dict[str, Any] = {
    "bool": False,
    "int32": 0,
    "int64": 0,
    "float64": 0.0,
    "string": "",
    "binary": b"",
    "date": dt.date(1970, 1, 1),
    "timestamp": dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
    "timestamp_ntz": dt.datetime(1970, 1, 1),
    "duration": dt.timedelta(),
    "months": pa.MonthDayNano([0, 0, 0]),
}


def warm_up(program: Program) -> None:
    """Runs a program's kernels once in this process, on a row per relation: the native call, and the steps that may
    follow it. Does nothing the second time.
    """
    if program.fingerprint in _warm:
        return
    with open(scratch_root() / "compile.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        engine = created(program, None, "ignore")
        for weight, by_call in ((1, True), (-1, False), (1, False), (-1, True)):
            changes = {table.name: _row(table.columns, weight, _fixed_values(program)) for table in program.tables}
            with suppress(FunctionError):  # a user's function may not expect such a row
                prepared = engine.prepare_for_apply(changes, True, ALL_DELTAS) if by_call else engine.prepare(changes)
                for _ in engine.run(prepared):
                    pass
    _warm.add(program.fingerprint)


def warm_up_common() -> None:
    """Loads the kernels that every plan uses, in a process from which workers are forked."""
    schema = {"r": {"a": "int64", "s": "string"}}
    for query in ("Q(a, s, b) :- r(a, s), r(b, s).", "Q(a, b) :- r(a, s), r(b, s)."):
        warm_up(plans.program(query, schema))


def _fixed_values(program: Program) -> dict[str, int | None]:
    """Returns fixed values of columns that groups of other cells deliver: the number of rows of a group, which is never
    zero, and the far parts of sums, of which there are none. Other values would be invalid there.
    """
    found: dict[str, int | None] = {}
    for stage in program.stages:
        if isinstance(stage, GroupStage):
            outer = {column.name: column.expr.value for column in stage.feed.columns}
            for one in stage.imported:
                if term_of(one) == ROWS:
                    found |= {outer[name]: 1 for name in one.columns}
                if one.far is not None:
                    found[outer[one.far]] = None
    return found


def _row(columns: Any, weight: int, fixed: dict[str, int | None]) -> pa.Table:
    values = {
        c.name: pa.array([fixed[c.name] if c.name in fixed else _value(c.type)], arrow_type(c.type)) for c in columns
    }
    return pa.table({**values, "_weight": pa.array([weight], pa.int64())})


def _value(type_: str) -> Any:
    if is_nested(type_):
        return {} if type_.startswith(STRUCT) else []
    return decimal.Decimal(0) if decimal_parts(type_) else _VALUES[type_]
