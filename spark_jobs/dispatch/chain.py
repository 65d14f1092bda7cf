"""The rounds of a query as DataFrames: the deltas of one round are the changes of the next.

    changes → cells → deltas                                    one round
    changes → cells → net changes of a stage → cells → deltas   two rounds

Each round is an operator with a log of its own, and all are given the same number of the batch. When the first is
executed again it takes its batch back and applies it once more, and delivers the same rows: they are the net change of
a bag. The second finds them in its log, where batches are compared as bags, in whatever order the rows come.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from plans.reads import functions_of
from plans.search.exchanges import Exchange
from spark_jobs import cluster
from spark_jobs.cell.step import Step
from spark_jobs.dispatch.envelope import WEIGHT, cell_program, envelope_of
from spark_jobs.dispatch.files import read_by_cells
from spark_jobs.dispatch.placement import AUTO, pins
from spark_jobs.dispatch.shuffle import base_relations, dispatched
from spark_jobs.emitted import until_of
from spark_jobs.ingest.months import in_arrow
from spark_jobs.ingest.names import plainly_named
from spark_jobs.ingest.types import spark_type
from spark_jobs.session import quietly
from spark_jobs.tables.deltas.parts import MANIFEST_ROW, Parts

if TYPE_CHECKING:
    import pyarrow as pa

MERGE = ".merge"
"""What follows the operator's name in that of its second round."""


def words_of(relations: Iterable[str]) -> dict[str, str]:
    """Returns, by relation in lower case, the word that names it in an operator: what is no letter or digit is ``_``.

    Of relations that come to one word (``a b`` and ``a_b``) all but the first, in the order of their names, have a
    number behind it; so the words are the same at every start.
    """
    found: dict[str, str] = {}
    for relation in sorted(relation.lower() for relation in relations):
        plain = re.sub(r"\W", "_", relation)
        word, number = plain, 1
        while word in found.values():
            number += 1
            word = f"{plain}_{number}"
        found[relation] = word
    return found


@dataclass(frozen=True)
class ExchangeStep:
    """A round, and the step that its cells take."""

    round: Exchange
    step: Step


def strides(
    rounds: Sequence[Exchange],
    *,
    operator: str,
    on_missing: str,
    consolidate: bool | None = None,
    quarantine: str | None = None,
    sample: int = 0,
    amplified: int | None = None,
    ranges: bool = False,
    whole: str | None = None,
    **common: Any,
) -> tuple[ExchangeStep, ...]:
    """Returns the rounds with their steps; ``common``: fields of ``Step`` that are the same in all; ``whole``: JSON of
    what the rounds are made of.

    Only the first round has rows that can be bad or absent, only the last one deltas to show.
    """
    made = []
    for number, given in enumerate(rounds):
        first, last = number == 0, given.carries is None
        envelope = envelope_of(
            given.maintained,
            cells=given.grid.cells,
            quarantine=first and quarantine is not None,
            roles=given.roles,
            whole=first and _whole(given, on_missing),
        )
        step = Step(
            program=json.dumps(cell_program(given.maintained, envelope).to_json()),
            grid=given.grid,
            envelope=envelope,
            operator=operator + MERGE * number,
            consolidate=consolidate if last else True,
            on_missing=on_missing if first else "trust",
            quarantine=quarantine if first else None,
            sample=sample if last else 0,
            amplified=amplified if last else None,
            ranges=ranges and last,
            whole=whole if first else None,
            functions=functions_of(given.maintained),
            aside=first and quarantine is not None and _once(given),
            **common,
        )
        made.append(ExchangeStep(given, step))
    return tuple(made)


def _once(given: Exchange) -> bool:
    """Returns True if every row goes to one cell, and enters it once: then what that cell refuses is noted once."""
    roles = (given.roles or {}).values()
    apart = len({role.relation.lower() for role in roles}) == len(roles)
    return given.grid.cells == 1 or (bool(roles) and apart and all(role.hashed for role in roles))


def _whole(given: Exchange, on_missing: str) -> bool:
    """Returns True if all columns of the rows decide what happens to them, also those that no stage reads."""
    return on_missing == "raise" or any(table.by_key for table in given.maintained.tables)


def applied(
    spark: SparkSession,
    given: Sequence[ExchangeStep],
    changes: Mapping[str, DataFrame],
    placement: str = AUTO,
    before: Mapping[str, ExchangeStep] | None = None,
    parts: Parts | None = None,
) -> DataFrame:
    """Returns the DataFrame of the last round, whose partitions are its cells.

    ``before``: operators that the changes of a relation (by name in lower case) go through first. ``parts``: the last
    cells write their deltas to these files, and the DataFrame says which.
    """
    frames = {name.lower(): frame for name, frame in changes.items()}
    out, cores = None, 0 if before else cluster.cores(spark)
    for stride in given:
        step = stride.step
        relations = base_relations(stride.round, step.envelope)
        if stride is given[0] and before:
            relations = _behind(spark, relations, frames, placement, before)
        mine = {name: frames[name.lower()] for name in relations}
        counter = None if step.scratch is None else f"crown.{step.operator}"  # batch jobs have no scratch folder
        anchored = step.scratch is not None and pins(spark, placement)
        later = stride is not given[0]
        filed, files = ((), {}) if later else read_by_cells(stride.round, step.envelope, mine)
        step = replace(step, filed=filed)
        cells = dispatched(stride.round, step.envelope, mine, cores, counter, anchored, later, files)
        columns = [*((out.name, out.type) for out in stride.round.maintained.output), (WEIGHT, "int64")]
        fields = [T.StructField(name, spark_type(type_)) for name, type_ in columns]
        if step.ranges:
            fields.append(until_of(stride.round.maintained))
        here = parts if stride is given[-1] else None
        with quietly():
            task = _task(step, here)
            out = cells.mapInArrow(task, MANIFEST_ROW) if here else in_arrow(cells, task, T.StructType(fields))
        frames, cores = {str(stride.round.carries).lower(): out}, 0
    assert out is not None, "a query has a round"
    return out


def _behind(
    spark: SparkSession,
    relations: Sequence[str],
    frames: dict[str, DataFrame],
    placement: str,
    before: Mapping[str, ExchangeStep],
) -> list[str]:
    """Returns the relations in the order in which their changes are put together; in ``frames``, puts what the
    operators ``before`` make of those that go through one.

    In a union Spark numbers the partitions through, so what comes out of cells by key comes first: any number of
    partitions may be in front of the others. The order must not depend on the number of cells, for Spark knows the
    sources of a checkpoint by their order; a window has cells before it or not, and one cell needs no number.
    """
    keyed = [name for name in relations if name.lower() in before and _by_key(before[name.lower()])]
    first = 0
    for name in (*keyed, *(name for name in relations if name.lower() in before and name not in keyed)):
        stride = before[name.lower()]
        stride = replace(stride, step=replace(stride.step, first=first))
        first += stride.step.grid.cells
        frames[name.lower()] = applied(spark, (stride,), {name: frames[name.lower()]}, placement)
    return [*keyed, *(name for name in relations if name not in keyed)]


def _by_key(stride: ExchangeStep) -> bool:
    return any(table.by_key for table in stride.round.maintained.tables)


def written(deltas: DataFrame, parts: Parts) -> DataFrame:
    """Returns what a stage behind the deltas says, which writes them to files."""
    with quietly():
        return plainly_named(deltas).mapInArrow(parts.written, MANIFEST_ROW)


def _task(step: Step, parts: Parts | None) -> Any:
    """Returns the function that travels. It reaches the engine by importing it, so the worker's caches are one per
    process."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from spark_jobs.cell import step as module
        from spark_jobs.ingest.months import numbered

        deltas = module.run(step, batches)
        return map(numbered, deltas) if parts is None else parts.written(deltas)

    return task
