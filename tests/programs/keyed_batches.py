"""Random batches for the tables of ``program_queries``, of which ``t`` has a key."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.oracles.database import Database, Row
from tests.plans.lowering.program_queries import TABLES


def keyed_batch(
    random: Random, database: Database, drawn: Callable[[str], Row], *, tables: int, gone: int, fresh: int
) -> dict[str, list[tuple[Row, int]]]:
    """Inserts that keep the key of t, and deletes of what is there.

    ``drawn``: a row of a table; at most so many ``tables``, and in each rows that are ``gone`` and ``fresh``.
    """
    batch = {}
    for name in random.sample(sorted(TABLES), random.randint(1, tables)):
        rows = database.rows[name]
        deleted = random.sample(sorted(rows, key=repr), min(len(rows), random.randint(0, gone)))
        keys = {row[0] for row in rows if name == "t" and row not in deleted}
        changes = [(row, -rows[row]) for row in deleted]
        for _ in range(random.randint(0, fresh)):
            row = drawn(name)
            if row[0] not in keys:
                changes.append((row, 1 if name == "t" else random.choice((1, 1, 2))))
            if name == "t":
                keys.add(row[0])
        batch[name] = changes
    return batch
