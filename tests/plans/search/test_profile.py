"""The profile of a log: enclosureness against its definition, the replay against recomputation, and the command."""

from __future__ import annotations

import argparse
import random
from itertools import combinations, product
from pathlib import Path

import pytest

from plans import Plan, PlanError, plan
from plans.commands import explain as explain_command
from plans.commands import plan as plan_command
from plans.commands import profile as profile_command
from plans.errors import CrownError
from plans.search.logs.amplification import Replay
from plans.search.logs.profile import FOREVER, enclosureness, lifespans, profile
from plans.search.logs.updates import Event, Row, kind_of, updates_of
from tests.marks import every

SCHEMA = {"R": {"a": "int64", "b": "int64"}, "S": {"a": "int64", "b": "int64"}, "T": {"a": "int64", "b": "int64"}}
QUERIES = (
    "Q(a,b,c) :- R(a,b), S(b,c).",
    "Q(a,b,c,d) :- R(a,b), S(b,c), T(c,d).",
    "Q(b) :- R(a,b), S(b,c), T(c,d).",
    "Q(a,b,c,d) :- R(a,b), R(b,c), R(c,d).",
    "Q() :- R(a,b), S(b,c).",
    "Q(a,c) :- R(a,b), T(c,d).",
)


def _log(rng: random.Random, relations: tuple[str, ...], steps: int, fifo: bool = False) -> list[Event]:
    log: list[Event] = []
    alive: list[tuple[str, Row]] = []
    for _ in range(steps):
        name, row = rng.choice(relations), (rng.randrange(3), rng.randrange(3))
        if alive and rng.random() < 0.45:
            gone = alive.pop(0 if fifo else rng.randrange(len(alive)))
            log.append((*gone, -1))
        elif (name, row) not in alive:
            alive.append((name, row))
            log.append((name, row, 1))
    return log


def _numbered(made: Plan, log: list[Event]) -> list[tuple[int, Row, bool]]:
    names = {node.name: i for i, node in enumerate(made.nodes)}
    return [(names[name], row, insert) for name, row, insert in updates_of(made, log)]


def _trees(query: str) -> list[Plan]:
    first = plan(query, SCHEMA)
    return [plan(query, SCHEMA, tree=candidate.tree) for candidate in first.candidates]


def _by_definition(made: Plan, updates: list[tuple[int, Row, bool]]) -> float:
    """Definitions 6.3 and 6.4, word by word: every set of tuples, every choice of effective lifespans."""
    spans = lifespans(made, updates)
    under: dict[int, list[int]] = {}
    for i in range(len(made.nodes) - 1, -1, -1):
        under[i] = [x for c in made.children(i) for x in (c, *under[c])]
    total, count = 0, 0
    for e, mine in enumerate(spans):
        jobs = []
        for other in under[e]:
            deeper = [span for x in under[other] for span in spans[x]]
            for start, end in spans[other]:
                first = min((t for _, t in deeper if t > start), default=FOREVER)
                last = max((s for s, _ in deeper if s < end), default=-1)
                jobs.append({(start, min(end, first)), (max(start, last), end)})
        for start, end in mine:
            inside = [[(a, b) for a, b in job if start <= a and b <= end] for job in jobs]
            inside = [job for job in inside if job]
            best = 0
            for size in range(len(inside), 0, -1):
                for chosen in combinations(inside, size):
                    if any(
                        all(x[1] < y[0] or y[1] < x[0] for x, y in combinations(pick, 2)) for pick in product(*chosen)
                    ):
                        best = size
                        break
                if best:
                    break
            total += best
            count += 1
    return max(total / count, 1.0) if count else 1.0


@every(range(12))
def test_enclosureness_is_that_of_the_definition(seed: int) -> None:
    rng = random.Random(seed)
    for query in QUERIES[:4]:
        for made in _trees(query):
            updates = _numbered(made, _log(rng, ("R", "S", "T"), 9))
            exact, found = _by_definition(made, updates), enclosureness(made, updates)
            assert exact <= found <= 2 * exact
            if made.height <= 2:
                assert found == exact


def test_the_published_example_has_enclosureness_n_or_1() -> None:
    n = 20
    log: list[Event] = [("R", (1, 1), 1)]
    for i in range(n):
        log += [("S", (1, i), 1), ("S", (1, i), -1)]
    log.append(("R", (1, 1), -1))
    found = {t.tree: t.enclosureness for t in profile(QUERIES[0], SCHEMA, log).trees}
    assert found["[b](R, S)"] == 1
    assert found["S(R)"] == 1
    assert found["R(S)"] == pytest.approx(max(1, n / (n + 1)))
    many: list[Event] = [("R", (i, 1), 1) for i in range(n)] + log[1:-1] + [("R", (i, 1), -1) for i in range(n)]
    assert {t.tree: t.enclosureness for t in profile(QUERIES[0], SCHEMA, many).trees}["R(S)"] == n / 2


@every(range(6))
def test_fifo_streams_have_enclosureness_1_up_to_height_2(seed: int) -> None:
    for query in QUERIES:
        log = _log(random.Random(seed), ("R", "S", "T"), 120, fifo=True)
        assert kind_of(log) == "FIFO"
        for made in _trees(query):
            if made.height <= 2:
                assert enclosureness(made, _numbered(made, log)) == 1


@pytest.mark.parametrize("seed", range(3))
def test_insertions_only_have_enclosureness_1_under_any_tree(seed: int) -> None:
    log = [event for event in _log(random.Random(seed), ("R", "S", "T"), 60) if event[2] > 0]
    assert kind_of(log) == "insert-only"
    for query in QUERIES:
        for made in _trees(query):
            assert enclosureness(made, _numbered(made, log)) == 1


@pytest.mark.parametrize("seed", range(4))
def test_the_replay_keeps_the_counters_of_the_definition(seed: int) -> None:
    for query in QUERIES:
        for made in _trees(query):
            replay = Replay(made)
            rows: dict[int, set[Row]] = {i: set() for i, n in enumerate(made.nodes) if n.kind == "input"}
            for node, row, insert in _numbered(made, _log(random.Random(seed), ("R", "S", "T"), 60)):
                replay.update(node, row, insert)
                (rows[node].add if insert else rows[node].discard)(row)
                _compare(made, replay, rows)
            assert replay.steps > 0


def _compare(made: Plan, replay: Replay, rows: dict[int, set[Row]]) -> None:
    """Recompute R_e, V_s and V_p bottom up."""
    keys: dict[int, set[Row]] = {}
    for i in range(len(made.nodes) - 1, -1, -1):
        node, children = made.nodes[i], made.children(i)

        def key(row: Row, child: int, attributes: tuple[str, ...] = node.attributes) -> Row:
            return tuple(row[attributes.index(name)] for name in made.nodes[child].key)

        relation = rows.get(i)
        if relation is None:
            relation = set()
            for child in children:
                names = made.nodes[child].key
                relation |= {tuple(k[names.index(name)] for name in node.attributes) for k in keys[child]}
        missing = {row: sum(key(row, child) not in keys[child] for child in children) for row in relation}
        assert replay.missing[i] == missing
        joinable = [row for row, lacks in missing.items() if not lacks]
        keys[i] = {tuple(row[node.attributes.index(name)] for name in node.key) for row in joinable}
        if node.parent >= 0:
            assert set(replay.joinable[i]) == keys[i]


def test_streams_are_told_apart() -> None:
    r = ("R", (1, 1))
    s = ("S", (1, 1))
    assert kind_of([(*r, 1), (*s, 1), (*r, -1), (*s, -1)]) == "FIFO"
    assert kind_of([(*r, 1), (*s, 1), (*s, -1), (*r, -1)]) == "any"
    assert kind_of([(*r, 1), (*s, 1), (*s, -1)]) == "any"
    assert kind_of([(*r, 1), (*s, 1), (*r, -1)]) == "FIFO"


def test_the_profile_recommends_the_tree_with_the_least_work() -> None:
    log: list[Event] = [("S", (1, i), 1) for i in range(30)]
    for _ in range(20):
        log += [("R", (1, 1), 1), ("R", (1, 1), -1)]
    found = profile("Q(a,b,c) :- R(a,b), S(b,c).", SCHEMA, log)
    assert found.rates == {"R": 40.0, "S": 30.0}
    best = next(t for t in found.trees if t.tree == found.recommended)
    assert best.tree == "R(S)" or best.amplification <= min(t.amplification for t in found.trees)
    assert {t.tree: t.amplification for t in found.trees}["S(R)"] > 5 * best.amplification


def _run(command: object, *words: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)  # type: ignore[attr-defined]
    return int(command.run(parser.parse_args(words)))  # type: ignore[attr-defined]


def test_the_profile_command_reads_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.csv"
    log.write_text("# a comment\n+,R,1,2\n+,S,2,3\n-,R,1,2\n+,S,,3\n")
    words = ("Q(a,c) :- R(a,b), S(b,c).", "--schema", "R(a int64, b int64)", "--schema", "S(a int64, b int64)")
    assert _run(profile_command, *words, "--log", str(log)) == 0
    out = capsys.readouterr().out
    assert "updates   4, of which 3 change a node" in out
    assert "<- recommended" in out
    log.write_text("+,R,1,2\n+,X,1\n")
    with pytest.raises(PlanError, match="line 2: unknown relation X"):
        _run(profile_command, *words, "--log", str(log))
    log.write_text("+,R,1,two\n")
    with pytest.raises(PlanError, match=r"column R\.b"):
        _run(profile_command, *words, "--log", str(log))
    log.write_bytes("\ufeff+,R,1,2\n".encode())
    assert _run(profile_command, *words, "--log", str(log)) == 0
    for data, said in ((b"+,R,1,\xff\n", "line 1 is not UTF-8 text"), (b"+,R,1," + b"2" * 140_000, "field limit")):
        log.write_bytes(data)
        with pytest.raises(CrownError, match=f"cannot read .*{said}"):
            _run(profile_command, *words, "--log", str(log))
    log.write_text("+,R,1,2\n")
    with pytest.raises(PlanError, match="0 trees"):
        _run(profile_command, *words, "--log", str(log), "--trees", "0")


def test_a_cyclic_query_is_not_profiled() -> None:
    with pytest.raises(PlanError, match="cyclic"):
        profile("Q(a,b,c) :- R(a,b), S(b,c), T(c,a).", SCHEMA, [])


@pytest.mark.parametrize("form", ["text", "json", "mermaid", "html", "svg"])
def test_the_explain_command_has_every_form(form: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("SELECT DISTINCT a FROM R", "--schema", "R(a int64, b decimal(10, 2)) distinct", "--format", form)
    assert _run(explain_command, *words, "-o", str(out)) == 0
    assert "R" in out.read_text()


def test_the_plan_command_prints_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "Q(a,b,c) :- R(a,b), R(b,c).",
        "--schema",
        "R(a int64, b int64) distinct",
        "--rate",
        "R=5",
        "--tree",
        "R(R_2)",
    )
    assert _run(plan_command, *words) == 0
    made = Plan.from_json(capsys.readouterr().out)
    assert made.nodes[0].name == "R"
    assert made.rates == {"R": 5.0, "R_2": 5.0}
    with pytest.raises(PlanError, match="its trees are"):
        _run(plan_command, *words[:-1], "R_2[R]")
