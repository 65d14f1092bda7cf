"""Relations that a join stores whole: what a delete finds is asked of the join, and no tuple is counted twice."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from crown.errors import MissingDeleteError
from crown.programs import snapshot
from crown.programs.program import ProgramEngine
from crown.stages.tables.base_tables import BaseTables
from crown.store.codec import NULL, decode
from plans import program
from tests.oracles.database import Database, to_arrow
from tests.programs.test_programs import apply, result_of

SCHEMA = {"r": {"a": "int64", "b": "int64"}, "s": {"b": "int64", "c": "string"}}
ASKED = {
    "SELECT COUNT(*) AS n FROM r x JOIN r y ON x.b = y.a JOIN r z ON y.b = z.a": {"r"},
    "SELECT COUNT(*) AS n FROM r x JOIN r y ON x.b = y.a": set(),  # each alias has one column
    "SELECT x.b AS b, SUM(x.b) AS n FROM r x JOIN r y ON x.b = y.b GROUP BY x.b": {"r"},
    "SELECT r.a, s.c FROM r JOIN s USING (b)": {"r", "s"},
    "SELECT s.c, SUM(r.a) AS t FROM r JOIN s USING (b) GROUP BY s.c HAVING COUNT(*) > 1": {"s"},  # r is only summed
    "SELECT COUNT(*) AS n FROM r JOIN s USING (b) WHERE s.c > 'p'": {"r"},
    "SELECT a, COUNT(*) AS n FROM r GROUP BY a": set(),
    "SELECT a FROM r EXCEPT SELECT b FROM s": set(),
}


def batch_of(random, database):
    batch = {}
    for name in random.sample("rs", random.randint(1, 2)):
        values = ((0, 1, 2, None), (0, 1, 2, None) if name == "r" else ("p", "q", None))
        rows = [(tuple(random.choice(pool) for pool in values), random.choice((1, 2, -1, -2))) for _ in range(6)]
        present = sorted(database.rows[name], key=repr)
        batch[name] = rows + [(row, -random.randint(1, 2)) for row in random.sample(present, min(len(present), 2))]
    return batch


def told(engine):
    """What the base tables say of relations."""
    stats = engine.stats()
    return {name: stats[name] for name in ("rows", "missing_deletes", "updates")}


def that_counts(made):
    """An engine whose base tables count every tuple itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseTables, "use_joins", lambda self, stored: None)
        return ProgramEngine.create(made)


def kept(engine):
    """The tuples of all relations with their copies, as the base tables give them to whoever reads them."""
    found = {name: Counter() for name in engine.wires if isinstance(name, str)}
    for name, copies in found.items():
        for net in engine.base_tables.scan(name):
            copies.update(dict(zip(map(tuple, values(engine, name, net)), net.weights.tolist(), strict=True)))
    return found


def values(engine, name, net):
    columns = [
        decode(np.ascontiguousarray(net.rows[:, i]), column.type, engine.memory.dictionary.extern).to_pylist()
        for i, column in enumerate(engine.wires[name].columns)
    ]
    return zip(*columns, strict=True)


@pytest.mark.parametrize("query", ASKED)
def test_a_join_that_is_asked_says_what_base_tables_that_count_would_say(query, tmp_path):
    """Deletes of absent rows, NULLs in what is joined on, batches rolled back, states saved and loaded."""
    made, random, database = program(query, SCHEMA), Random(query), Database(SCHEMA)
    asking, counting = ProgramEngine.create(made), that_counts(made)
    assert set(asking.base_tables._stored) == ASKED[query]
    assert not counting.base_tables._stored
    missing = 0
    for turn in range(10):
        batch = batch_of(random, database) if turn < 9 else database.everything(-1)
        database.apply(batch)
        changes = {n: to_arrow(database.schema, n, rows) for n, rows in batch.items() if n in asking.wires}
        before = result_of(asking)
        delta = apply(asking, changes)
        assert apply(counting, changes) == delta
        found = [{name: of.tolist() for name, of in one.base_tables.missing.items()} for one in (asking, counting)]
        assert found[0] == found[1]
        missing += sum(map(np.count_nonzero, found[0].values()))
        if turn in (3, 6):
            asking.undo(changes)
            assert result_of(asking) == before
            asking.save(tmp_path / "state")
            asking, _ = snapshot.load(tmp_path / "state")
            assert set(asking.base_tables._stored) == ASKED[query]
            assert apply(asking, changes) == delta
        assert told(asking) == told(counting)
        assert kept(asking) == kept(counting)
        asking.check_invariants()
        for name in ASKED[query]:
            assert all(None in row for row in rests(asking, name)), "a tuple that the join stores is counted again"
    assert missing > 0


def rests(engine, name):
    """The tuples of a relation that the base tables count."""
    rows = [row for found, _ in engine.base_tables._tables[name].scan() for row in found.tolist()]
    return [[None if code == NULL else code for code in row] for row in rows]


def test_a_batch_that_deletes_too_much_is_refused_before_anything_changes():
    made = program("SELECT COUNT(*) AS n FROM r JOIN s USING (b)", SCHEMA)
    engine = ProgramEngine.create(made, on_missing="raise")
    assert set(engine.base_tables._stored) == set()  # every column decides, and the join does not store them all
    made = program("SELECT r.a, s.c FROM r JOIN s USING (b)", SCHEMA)
    engine = ProgramEngine.create(made, on_missing="raise")
    assert set(engine.base_tables._stored) == {"r", "s"}
    schema = Database(SCHEMA).schema
    apply(
        engine, {"r": to_arrow(schema, "r", [((1, 1), 1), ((1, None), 1)]), "s": to_arrow(schema, "s", [((1, "p"), 1)])}
    )
    before = result_of(engine), engine.stats()["live_bytes"]
    for row in ((2, 1), (2, None)):
        with pytest.raises(MissingDeleteError, match="'r'"):
            apply(engine, {"r": to_arrow(schema, "r", [((1, 1), -1), ((1, None), -1), (row, -1)])})
        assert (result_of(engine), engine.stats()["live_bytes"]) == before
    assert apply(engine, {"r": to_arrow(schema, "r", [((1, None), -1), ((1, 1), -1)])}) == {(1, "p"): -1}


def test_relations_that_another_stage_reads_again_are_counted_by_the_base_tables():
    made = program("SELECT a FROM r UNION ALL SELECT x.a FROM r x JOIN r y ON x.b = y.a", SCHEMA)
    assert not ProgramEngine.create(made).base_tables._stored
    made = program("SELECT x.b, SUM(x.b) AS n FROM r x JOIN r y ON x.b = y.b GROUP BY x.b", SCHEMA)
    assert ProgramEngine.create(made).base_tables._stored
    pairs = program("SELECT x.b, x.a FROM r x JOIN r y ON x.b = y.b", SCHEMA)
    assert ProgramEngine.create(pairs, threads=2).base_tables._stored
    assert not ProgramEngine.create(made, on_missing="trust").base_tables._stored
