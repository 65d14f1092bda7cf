"""Small folders of ``crown.open`` and the checkpoint of a Spark job, as this release writes them.

``python -m tests.upgrade.files`` writes them to ``tests/upgrade/golden``: once per release, and when a format changes
on purpose. Until then the files stay as they are, and this release opens them (``test_upgrade``).
"""

from __future__ import annotations

import shutil
from pathlib import Path

import crown
from tests.durable.streams import QUERIES, SCHEMA, batch
from tests.oracles.upserts import schema
from tests.spark.cell.test_cell import apply, rows
from tests.spark.cell.test_history import Job

GOLDEN = Path(__file__).with_name("golden")
VIEWS = {"join": (QUERIES["join"], SCHEMA), "groups": (QUERIES["groups"], SCHEMA)}
KEYED = ("SELECT v, COUNT(*) AS c FROM o GROUP BY v", schema("seq"))
BATCHES, SEED = 6, 11
CHANGES = [rows((b, b + 1, 1), (b + 1, 2, 1), (b, 1, -1)) for b in range(BATCHES)]


def keyed(number: int) -> dict[str, list[dict[str, object]]]:
    """Batch ``number`` of changes by key; the last of them deletes, and one comes too late."""
    row = {"id": number % 3, "v": "abc"[number % 3], "n": number, "seq": number, "_weight": 1}
    return {"o": [row, {"id": (number + 1) % 3, "seq": number - 2 * (number % 2), "_weight": -1}]}


def written(folder: Path) -> None:
    """Writes all of it to a folder."""
    for name, (query, tables) in {**VIEWS, "keyed": KEYED}.items():
        (folder / "views").mkdir(parents=True, exist_ok=True)
        with crown.open(query, folder / "views" / name, tables) as view:
            for number in range(BATCHES):
                view.update(keyed(number) if name == "keyed" else batch(SEED, number))
                if number == BATCHES - 3:
                    view.snapshot()
        (folder / "views" / name / "lock").unlink()
    job = Job(folder / "checkpoint", scratch="scratch")
    for number, changes in enumerate(CHANGES):  # the last two are in the log alone
        job.spark(number)
        for cell in (0, 1):
            apply(job.cell(cell, snapshot_floor=1 if number == BATCHES - 3 else 1 << 20), number, changes)
    shutil.rmtree(folder / "scratch")


if __name__ == "__main__":
    shutil.rmtree(GOLDEN, ignore_errors=True)
    GOLDEN.mkdir()
    written(GOLDEN)
