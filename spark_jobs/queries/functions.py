"""Registers user-defined functions (``crown.function``, ``crown.aggregate``) with a Spark session.

Spark's analyzer then knows their names and types, its plan names them, and the front-end finds them by these names.
Views that Spark computes call them, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.functions import arrow_udf

from plans.errors import PlanError
from plans.expressions.columns import intervals
from plans.expressions.functions.user import NAMED, UserAggregate, UserFunction
from plans.types import arrow_type
from spark_jobs.ingest.types import spark_type


def register_functions(spark: SparkSession) -> None:
    """Registers the functions of this process with a session, except functions that return months, which PySpark does
    not support.
    """
    for own in NAMED.values():
        if "months" not in _gives(own):
            call = _aggregate(own) if isinstance(own, UserAggregate) else _scalar(own)
            spark.udf.register(own.name, arrow_udf(call, spark_type(_gives(own))))  # type: ignore[call-overload]


def not_carried(name: str) -> PlanError | None:
    """Returns the error for a query that calls a function which PySpark does not support; None if it does, or if the
    function is unknown.
    """
    own = NAMED.get(name.upper())
    if own is None or "months" not in _gives(own):
        return None
    message = f"function {own.name!r} returns {_gives(own)}, which PySpark does not support"
    return PlanError(message, hint="return a number of months")


def _gives(own: UserFunction | UserAggregate) -> str:
    """Returns the type of the result."""
    return own.finish.gives if isinstance(own, UserAggregate) else own.gives


def _scalar(own: UserFunction) -> Callable[..., pa.Array]:
    def call(*arrays: pa.Array) -> pa.Array:
        return _values(own, arrays)

    return call


def _aggregate(own: UserAggregate) -> Callable[..., Any]:
    def call(*arrays: pa.Array) -> Any:
        lifted = _values(own.lift, arrays)
        lifted = lifted.filter(pc.is_valid(lifted))
        sums = [pa.array([_sum(pc.struct_field(lifted, field.name))]) for field in lifted.type]
        return _values(own.finish, [*sums, pa.array([len(lifted)])])[0].as_py()

    return call


def _sum(values: pa.Array) -> Any:
    """Returns the sum of values. The sum of doubles is exact and rounded once, as in views."""
    known = values.drop_null()
    if not pa.types.is_floating(values.type) or len(known) == 0 or not pc.all(pc.is_finite(known)).as_py():
        return pc.sum(known).as_py()
    try:
        return math.fsum(known.to_numpy())
    except OverflowError:  # of a partial sum, or of the result
        total = sum(map(Fraction, known.to_pylist()))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def _values(own: UserFunction, arrays: Sequence[pa.Array]) -> pa.Array:
    """Returns the values of rows as an Arrow array."""
    given = [
        intervals.carried(array.cast(arrow_type(type_)), type_) for array, type_ in zip(arrays, own.takes, strict=True)
    ]
    return intervals.restored(own.evaluate(*given), own.gives)
