"""Change conventions of others, in and out of a view: the same rows and weights, whatever they are called."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pyarrow as pa
import pytest

import crown
from crown import changes
from crown.errors import BadRowError, ChangeError
from crown.ingest.conventions import CODES
from crown.ingest.envelopes import UNAVAILABLE
from plans import Schema
from tests.marks import seeds

SCHEMA = {"R": {"a": "int64", "b": "string"}}
TABLE = Schema.of(SCHEMA)["R"]
EVERYTHING = "SELECT a, b FROM R"
CONVENTIONS = {
    "_weight": {1: [1, "1", 1.0, "+", "+I", "insert", "INSERT", "c", "r"], -1: [-1, "-1", "-D", "delete", "d", "-u"]},
    "_change_type": {
        1: ["insert", "INSERT", "update_postimage", "UPDATE_AFTER"],
        -1: ["delete", "DELETE", "update_preimage", "UPDATE_BEFORE"],
    },
    "_row_kind": {1: ["+I", "+U"], -1: ["-D", "-U"]},
}


def results(view):
    return Counter(tuple(row.values()) for row in view.to_table().to_pylist())


def weights(delta):
    return Counter({(row["a"], row["b"]): row["_weight"] for row in delta.to_pylist()})


@pytest.mark.parametrize("column", CONVENTIONS)
@pytest.mark.parametrize("form", ["dicts", "arrow"])
def test_a_change_code_is_a_weight_under_every_name(column, form):
    for weight, codes in CONVENTIONS[column].items():
        for code in codes:
            view = crown.view(EVERYTHING, SCHEMA)
            view.apply({"R": [{"a": 1, "b": "x"}] * 2})
            rows = [{"a": 1, "b": "x", column: code}]
            delta = view.apply({"R": rows if form == "dicts" else pa.Table.from_pylist(rows)})
            assert weights(delta) == {(1, "x"): weight}, code


def test_numbers_and_codes_may_be_mixed_as_text():
    view = crown.view(EVERYTHING, SCHEMA)
    rows = [{"a": i, "b": "x", "_weight": w} for i, w in enumerate(["2", "+I", "0", "insert"])]
    assert weights(view.apply({"R": rows})) == {(0, "x"): 2, (1, "x"): 1, (3, "x"): 1}


@pytest.mark.parametrize("column", CONVENTIONS)
@pytest.mark.parametrize("code", ["u", "maybe", "", "+2x", "upsert"])
def test_a_code_that_is_none_is_a_bad_row(column, code):
    view = crown.view(EVERYTHING, SCHEMA)
    with pytest.raises(BadRowError, match=f"unknown change code '{code.replace('+', '.')}'"):
        view.apply({"R": [{"a": 1, "b": "x", column: code}]})
    with pytest.raises(BadRowError, match=f"{column} is missing"):
        view.apply({"R": [{"a": 1, "b": "x", column: "-D"}, {"a": 1, "b": "x", column: None}]})


@pytest.mark.parametrize(
    "name", ["op", "OP", "_op", "__op", "row_kind", "RowKind", "_CHANGE_TYPE", "change_type", "__deleted"]
)
def test_a_column_that_could_be_meant_for_codes_is_an_error_and_not_an_insert(name):
    view = crown.view(EVERYTHING, SCHEMA)
    with pytest.raises(ChangeError, match=f"column '{name}'; rename it to '_change_type'"):
        view.apply({"R": [{"a": 1, "b": "x", name: "d"}]})
    told = view.apply({"R": [{"a": 1, "b": "x", name: "d", "_weight": 1}]})
    assert weights(told) == {(1, "x"): 1}
    declared = crown.view(f'SELECT a, "{name}" AS x FROM R', {"R": {"a": "int64", name: "string"}}, dialect="ansi")
    assert declared.apply({"R": [{"a": 1, name: "d"}]}).to_pylist() == [{"a": 1, "x": "d", "_weight": 1}]


def test_two_columns_that_say_the_same_are_one_too_many():
    view = crown.view(EVERYTHING, SCHEMA)
    with pytest.raises(ChangeError, match=r"'_weight' and '_change_type'.*leave one out"):
        view.apply({"R": [{"a": 1, "b": "x", "_weight": 1, "_change_type": "insert"}]})


def test_a_feed_of_changes_with_its_versions_goes_in_as_it_is():
    view = crown.view(EVERYTHING, SCHEMA)
    feed = [
        {"a": 1, "b": "x", "_change_type": "insert", "_commit_version": 3, "_commit_timestamp": None},
        {"a": 1, "b": "x", "_change_type": "update_preimage", "_commit_version": 4, "_commit_timestamp": None},
        {"a": 1, "b": "y", "_change_type": "update_postimage", "_commit_version": 4, "_commit_timestamp": None},
    ]
    assert weights(view.apply({"R": feed})) == {(1, "y"): 1}


# -- out --------------------------------------------------------------------------------------------------------------


def random_delta(rng):
    """Rows (a, b) with weights other than 0, each once, some values NULL."""
    rows = {
        (rng.choice((None, 1, 2, 3)), rng.choice("xyz")): rng.choice((-2, -1, 1, 3)) for _ in range(rng.randrange(9))
    }
    table = [{"a": a, "b": b, "_weight": w} for (a, b), w in rows.items()]
    rng.shuffle(table)
    schema = pa.schema({"a": pa.int64(), "b": pa.string(), "_weight": pa.int64()})
    return pa.Table.from_pylist(table, schema), Counter(rows)


def expected_updates(rows, key):
    """Per key, how many updates there are: as many as rows that go and rows that come can be paired."""
    gone, come = defaultdict(int), defaultdict(int)
    for row, weight in rows.items():
        (come if weight > 0 else gone)[key(row)] += abs(weight)
    return {k: min(gone[k], come[k]) for k in gone if min(gone[k], come[k])}


@pytest.mark.parametrize("seed", seeds(20, 300))
def test_every_format_adds_up_to_the_delta_and_pairs_what_can_be_paired(seed):
    rng = random.Random(seed)
    delta, rows = random_delta(rng)
    name, key, of = rng.choice([(None, [], None), ("a", ["A"], lambda r: r[0]), ("ab", ["b", "a"], lambda r: r)])
    updates = {} if name is None else expected_updates(rows, of)
    feed = changes.as_cdf(delta, key, version=7).to_pylist()
    assert {row["_commit_version"] for row in feed} <= {7}
    total, before = Counter(), None
    for row in feed:
        kind, place = row["_change_type"], (row["a"], row["b"])
        assert kind in changes.CHANGE_TYPES
        if kind == "update_postimage":
            assert before is not None
            assert of(before) == of(place)
        else:
            assert before is None
        before = place if kind == "update_preimage" else None
        total[place] += CODES[kind]
    assert before is None
    assert {k: v for k, v in total.items() if v} == dict(rows)
    found = (
        Counter(of((row["a"], row["b"])) for row in feed if row["_change_type"] == "update_preimage") if name else {}
    )
    assert dict(found) == updates
    kinds = changes.as_rowkind(delta, key).to_pylist()
    assert [(r["a"], r["b"], changes.ROW_KINDS.index(r["_row_kind"])) for r in kinds] == [
        (r["a"], r["b"], changes.CHANGE_TYPES.index(r["_change_type"])) for r in feed
    ]
    envelopes = changes.as_debezium(delta, key).to_pylist()
    assert sum(envelope["op"] == "u" for envelope in envelopes) == sum(updates.values())
    back = Counter()
    for row in changes.from_debezium(envelopes).rows(TABLE):
        back[(row["a"], row["b"])] += row["_weight"]
    assert {k: v for k, v in back.items() if v} == dict(rows)


def test_a_feed_of_a_view_goes_into_another_view_and_keeps_it_equal():
    rng = random.Random(5)
    view = crown.view("SELECT a, COUNT(*) AS n FROM R GROUP BY a", SCHEMA)
    others = [crown.view("SELECT DISTINCT a, n FROM V", {"V": {"a": "int64", "n": "int64"}}) for _ in range(3)]
    ops = Counter()
    for _ in range(30):
        delta = view.apply(
            {"R": [{"a": rng.randrange(5), "b": "x", "_weight": rng.choice((1, 1, -1))} for _ in range(6)]}
        )
        others[0].apply({"V": changes.as_cdf(delta, ["a"], version=1)})
        others[1].apply({"V": changes.as_rowkind(delta, ["a"])})
        envelopes = changes.as_debezium(delta, ["a"]).to_pylist()
        ops.update(envelope["op"] for envelope in envelopes)
        others[2].apply({"V": changes.from_debezium(envelopes)})
        for other in others:
            assert results(other) == results(view)
    assert set(ops) == {"c", "u", "d"}


@pytest.mark.parametrize(
    ("envelope", "said"),
    [
        ({"op": "u", "before": None, "after": {"a": 1}}, "has no row 'before'.*REPLICA IDENTITY FULL"),
        ({"op": "c", "after": {"a": 1, "b": UNAVAILABLE}}, "column 'b' was left out by the source: have the source"),
        ({"op": "c", "before": None, "after": None}, "has no row 'after'"),
        ({"op": "t", "before": None, "after": None}, "op 't': use c, r, u or d"),
    ],
)
def test_an_envelope_without_its_rows_is_refused(envelope, said):
    with pytest.raises(ChangeError, match=said):
        changes.from_debezium([envelope]).rows(TABLE)


def test_tombstones_and_messages_say_nothing():
    silent = [None, {"op": None, "before": None, "after": None}, {"op": "m"}, {"payload": None}]
    found = changes.from_debezium([*silent, {"payload": {"op": "r", "after": {"a": 1}}}])
    assert len(found) == 1
    assert found.rows(TABLE) == [{"a": 1, "_weight": 1}]


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (
            {"key": ["a"]},
            "relation 'R' has a key, and an envelope that is delivered twice would .* or declare the key enforced",
        ),
        ({"distinct": True}, "relation 'R' is distinct, and an envelope that is delivered twice would count twice"),
    ],
)
def test_a_table_without_twins_that_is_believed_takes_no_envelopes(declared, said):
    table = {"columns": {"a": "int64", "b": "string"}, **declared}
    view = crown.view("SELECT a, b FROM R", {"R": table})
    envelopes = changes.from_debezium([{"op": "c", "after": {"a": 1, "b": "x"}}])
    with pytest.raises(ChangeError, match=said):
        view.apply({"R": envelopes})
    enforced = crown.view("SELECT a, b FROM R", {"R": {**table, "enforced": True}})
    enforced.apply({"R": envelopes})
    with pytest.raises(BadRowError):
        enforced.apply({"R": envelopes})
    assert results(enforced) == {(1, "x"): 1}


def test_a_sequence_beside_the_rows_of_an_envelope_is_theirs_and_an_older_record_counts_no_more():
    columns = {"a": "int64", "b": "string", "offset": "int64"}
    table = {"columns": columns, "key": ["a"], "upserts": True, "sequence": "offset"}
    view = crown.view("SELECT a, b FROM R", {"R": table})
    for offset, text in ((1, "x"), (2, "y"), (1, "x")):
        view.apply({"R": changes.from_debezium([{"op": "u", "after": {"a": 1, "b": text}, "offset": offset}])})
    assert results(view) == {(1, "y"): 1}
    view.apply({"R": changes.from_debezium([{"op": "d", "before": {"a": 1}, "offset": 3}])})
    assert not results(view)


def test_what_is_no_delta_and_a_key_that_is_not_there_are_told():
    with pytest.raises(ChangeError, match="no column '_weight'"):
        changes.as_cdf(pa.table({"a": [1]}))
    with pytest.raises(ChangeError, match="key has a column 'z', but the delta has: a"):
        changes.as_cdf(pa.table({"a": [1], "_weight": [1]}), ["z"])
    for name, called in (("_Change_Type", changes.as_cdf), ("_row_kind", changes.as_rowkind)):
        with pytest.raises(ChangeError, match=f"adds a column '{name.lower()}', which the delta has already"):
            called(pa.table({name: [1], "_weight": [1]}))


def test_updates_are_paired_by_a_key_of_arrays():
    view = crown.view("SELECT a, COUNT(*) AS n FROM R GROUP BY a", {"R": {"a": "array<int64>"}})
    view.apply({"R": [{"a": [1]}, {"a": None}]})
    given = [{"a": [1], "_weight": 1}, {"a": None, "_weight": -1}, {"a": [], "_weight": 1}]
    delta = view.apply({"R": given})
    kinds = {(str(row["a"]), row["n"]): row["_change_type"] for row in changes.as_cdf(delta, ["a"]).to_pylist()}
    assert kinds == {
        ("[1]", 1): "update_preimage",
        ("[1]", 2): "update_postimage",
        ("None", 1): "delete",
        ("[]", 1): "insert",
    }
