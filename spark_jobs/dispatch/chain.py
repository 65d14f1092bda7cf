"""The rounds of a query as DataFrames: the deltas of one round are the changes of the next.

    changes → cells → deltas                                    one round
    changes → cells → net changes of a stage → cells → deltas   two rounds

Each round is an operator with its own log, and all rounds of a micro-batch have the same batch number. When the first
round is executed again, it undoes the batch, applies it once more, and delivers the same rows, because they are the net
change of a bag. The second round finds the batch in its log, where batches are compared as bags: the order of the rows
does not matter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from plans.programs.reads import functions_of
from plans.search.cells.exchanges import Exchange
from spark_jobs import cluster
from spark_jobs.cell.step import Step
from spark_jobs.dispatch.envelope import WEIGHT, cell_program, envelope_of
from spark_jobs.dispatch.files import read_by_cells
from spark_jobs.dispatch.placement import AUTO, pins
from spark_jobs.dispatch.shuffle import base_relations, dispatched
from spark_jobs.emitted import until_of
from spark_jobs.ingest.names import plainly_named
from spark_jobs.ingest.types import in_arrow, spark_type
from spark_jobs.session import quietly
from spark_jobs.tables.deltas.parts import MANIFEST_ROW, Parts

if TYPE_CHECKING:
    import pyarrow as pa

MERGE = ".merge"
"""Suffix of the operator's name for its second round."""


def words_of(relations: Iterable[str]) -> dict[str, str]:
    """Returns, by relation in lower case, the word that names it in an operator: characters other than letters and
    digits become ``_``.

    If several relations get the same word (``a b`` and ``a_b``), all but the first in the order of their names get a
    number, so the words are the same at every start.
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
    """A round, and the step of its cells."""

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
    """Returns the rounds with their steps; ``common``: fields of ``Step`` that are equal in all rounds; ``whole``: JSON
    of the program that was split into the rounds.

    Only the first round can have bad or absent rows, and only the last round has deltas to show.
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
    """Returns True if every row goes to exactly one cell and enters it once. Then a row that the cell rejects is noted
    once.
    """
    roles = (given.roles or {}).values()
    apart = len({role.relation.lower() for role in roles}) == len(roles)
    return given.grid.cells == 1 or (bool(roles) and apart and all(role.hashed for role in roles))


def _whole(given: Exchange, on_missing: str) -> bool:
    """Returns True if all columns of a row matter, including columns that no stage reads."""
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

    ``before``: operators to which the changes of a relation (by name in lower case) go first. ``parts``: the last cells
    write their deltas to these files, and the DataFrame lists the files.
    """
    frames = {name.lower(): frame for name, frame in changes.items()}
    out, cores = None, 0 if before else cluster.cores(spark)
    for stride in given:
        step = stride.step
        relations = base_relations(stride.round, step.envelope)
        if stride is given[0] and before:
            relations = _apply_operators(spark, relations, frames, placement, before)
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


def _apply_operators(
    spark: SparkSession,
    relations: Sequence[str],
    frames: dict[str, DataFrame],
    placement: str,
    before: Mapping[str, ExchangeStep],
) -> list[str]:
    """Returns the relations in the order in which their changes are united. Replaces in ``frames`` the changes of
    relations that have an operator ``before`` by the operator's output.

    Spark numbers the partitions of a union consecutively. So the output of cells by key comes first: a cell must know
    how many partitions precede its own. The order must not depend on the number of cells, because Spark identifies the
    sources of a checkpoint by their order. A window has cells in front of it or not, and a single cell needs no number.
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
    """Returns the manifest rows of a stage that writes the deltas to files."""
    with quietly():
        return plainly_named(deltas).mapInArrow(parts.written, MANIFEST_ROW)


def _task(step: Step, parts: Parts | None) -> Any:
    """Returns the function that is sent to the workers. It imports the engine, so that caches exist once per worker
    process.
    """

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from spark_jobs.cell import step as module
        from spark_jobs.ingest.types import numbered

        deltas = module.run(step, batches)
        return map(numbered, deltas) if parts is None else parts.written(deltas)

    return task
