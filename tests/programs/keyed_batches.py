"""Random batches for the tables of ``program_queries``, of which ``t`` has a key."""

from __future__ import annotations

from collections.abc import Callable, Collection
from random import Random

from tests.oracles.database import Batch, Database, Row
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


def absent_rows(
    random: Random, database: Database, drawn: Callable[[str], Row], tables: Collection[str]
) -> dict[str, list[tuple[Row, int]]]:
    """Deletes of rows that are hardly ever there, or of more copies than there are. ``drawn`` as above."""
    found = {}
    for name in random.sample(sorted(tables), random.randint(1, len(tables))):
        found[name] = [(drawn(name), -1) for _ in range(3)]
        if database.rows[name] and name != "t":
            row, copies = random.choice(sorted(database.rows[name].items(), key=repr))
            found[name].append((row, -copies - 1))
    return found


def together(*batches: Batch) -> dict[str, list[tuple[Row, int]]]:
    """One batch, with the changes of several one after the other."""
    return {name: [one for batch in batches for one in batch.get(name, ())] for name in sorted(set().union(*batches))}
