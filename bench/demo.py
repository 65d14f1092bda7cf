"""The demonstration behind ``make demo``: a real Spark job on a seeded power-law graph, checked at the end.

A generated graph arrives edge by edge in a sliding window, as CSV change files. ``crown submit`` maintains all its
paths of three hops and writes their deltas. Then Spark computes the paths from scratch, and both results must be equal.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

import plans
from bench.cases.generators import chung_lu
from crown.errors import CrownError
from crown.ingest.streams import window
from plans.schema import Schema
from plans.show.explain import text
from spark_jobs.ingest.sources import Input
from spark_jobs.job import submit
from spark_jobs.options import Options, Watched
from spark_jobs.session import require_java

QUERY = "Paths(a, b, c, d) :- follows(a, b), follows(b, c), follows(c, d), d > 15000."
SCHEMA = Schema.of({"follows": {"src": "int64", "dst": "int64"}})
VERTICES, EDGES, WINDOW, FILES = 20_000, 120_000, 40_000, 12
SEED = 7


def main(folder: Path = Path("out/demo")) -> int:
    """Runs the demonstration in ``folder`` (emptied first); 0 if the maintained result is right, 1 if not."""
    require_java()
    shutil.rmtree(folder, ignore_errors=True)
    changes, output, checkpoint = folder / "changes", folder / "deltas", folder / "checkpoint"
    updates = write_changes(changes)
    print(f"{updates:,} changes of a follower graph ({VERTICES:,} people, {WINDOW:,} edges alive) are in {changes}\n")
    print(text(plans.plan(QUERY, SCHEMA)))
    print(
        f"\n$ crown submit '{QUERY}' \\\n"
        f"    --schema 'follows(src int64, dst int64)' --input follows={changes}:files=1 \\\n"
        f"    --output {output} --checkpoint {checkpoint} --sample 2 --verify\n"
    )
    outcome = submit.run(
        submit.Job(
            query=QUERY,
            inputs=(Input("follows", changes.resolve(), "csv", files=1),),
            output=str(output),
            checkpoint=checkpoint.resolve(),
            options=Options(schema=SCHEMA, watched=Watched(sample=2)),
            verify=True,
        )
    )
    return 0 if outcome.verified else 1


def write_changes(folder: Path) -> int:
    """Writes the graph's sliding-window stream, up to its last insert, as CSV files; returns the number of changes."""
    folder.mkdir(parents=True)
    src, dst = chung_lu(VERTICES, EDGES, seed=SEED)
    updates = 2 * len(src) - WINDOW  # without the end of the stream, where the window only empties
    for number, bounds in enumerate(np.array_split(np.arange(updates), FILES)):
        row, weight = window.updates(len(src), WINDOW, int(bounds[0]), int(bounds[-1]) + 1)
        file = folder / f"{number:03d}.csv"
        pacsv.write_csv(pa.table({"src": src[row], "dst": dst[row], "_weight": weight}), file)
        os.utime(file, (1e9 + number, 1e9 + number))  # a stream reads files in the order of their modification times
    return updates


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CrownError as error:
        sys.exit(f"crown: {error}")
