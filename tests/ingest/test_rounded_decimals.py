"""Columns declared ``decimal(p,s) rounded``: numbers of more digits are rounded half up, however they come."""

from __future__ import annotations

import json
import random
from decimal import ROUND_HALF_UP, Context, Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import crown
from crown.shell.session import Session
from plans.commands.declare import table_of
from plans.errors import PlanError
from plans.expressions.casts import convert
from plans.files.rows import rows_of
from plans.schema import Column, Schema
from plans.serial import from_json, to_json

SCHEMA = {"r": {"k": "int64", "d": "decimal(8,2) rounded"}}
QUERY = "SELECT k, SUM(d) AS total FROM r GROUP BY k"
TEXTS = ["0.125", "2.675", "-2.675", "0.005", "-0.005", "0.30000000000000004", "1e-9", "999999.994", "12.5", "7"]


def half_up(text: str, scale: int = 2) -> Decimal:
    return Decimal(text).quantize(Decimal(1).scaleb(-scale), context=Context(800, ROUND_HALF_UP))


def kept(values: object) -> list[Decimal | None]:
    view = crown.view("SELECT k, d FROM r", SCHEMA)
    view.apply({"r": {"k": list(range(len(values))), "d": values}})  # type: ignore[arg-type]
    return [row["d"] for row in sorted(view, key=lambda row: row["k"])]


FLOATS = [float(text) for text in TEXTS]
FORMS = {
    "floats": FLOATS,
    "texts": TEXTS,
    "decimals": [Decimal(text) for text in TEXTS],
    "floats and decimals": [Decimal(text) if i % 2 else float(text) for i, text in enumerate(TEXTS)],
    "numpy": np.array(FLOATS),
    "pandas": pd.Series(FLOATS),
    "polars": pl.Series(FLOATS),
    "arrow doubles": pa.array(FLOATS),
    "arrow decimals": pa.array([Decimal(text) for text in TEXTS], pa.decimal128(38, 20)),
    "wide decimals": pa.array([Decimal(text) for text in TEXTS], pa.decimal256(60, 20)),
    "arrow texts": pa.array(TEXTS, pa.large_string()),
}


@pytest.mark.parametrize("form", FORMS)
def test_numbers_of_every_form_are_rounded_half_up(form: str) -> None:
    assert kept(FORMS[form]) == [half_up(text) for text in TEXTS]


def test_short_floats_and_whole_numbers_are_rounded_as_the_doubles_that_they_are() -> None:
    assert kept(np.array([0.125, 2.5], np.float32)) == [half_up("0.125"), half_up("2.5")]
    assert kept([1, None, 2.345, float(3)]) == [Decimal(1), None, half_up("2.345"), Decimal(3)]


def test_a_delete_finds_the_row_that_was_rounded() -> None:
    view = crown.view(QUERY, SCHEMA)
    view.insert("r", [(1, 0.125), (1, 0.1 + 0.2)])
    assert [row["total"] for row in view] == [Decimal("0.43")]
    view.delete("r", [(1, 0.125)])
    view.delete("r", [(1, Decimal("0.30"))])
    assert view.count() == 0
    view.check_invariants()


@pytest.mark.parametrize("value", [1e6, float("nan"), float("inf"), "999999.995", "x", Decimal("1e30"), True])
def test_what_is_no_number_or_too_large_is_a_bad_row(value: object) -> None:
    view = crown.view(QUERY, SCHEMA)
    with pytest.raises(crown.BadRowError, match=r"row 1: column 'd': .* does not fit decimal\(8,2\)$"):
        view.apply({"r": [(1, 1.5), (2, value)]})
    assert view.count() == 0


def test_a_float_that_is_not_rounded_by_declaration_says_how_it_would_be() -> None:
    view = crown.view(QUERY, {"r": {"k": "int64", "d": "decimal(8,2)"}})
    view.insert("r", [(1, 0.1)])  # the double is read from 0.10
    with pytest.raises(
        crown.BadRowError, match=r"0\.125 does not fit decimal\(8,2\); declare the column 'decimal\(8,2"
    ):
        view.insert("r", [(1, 0.125)])


@pytest.mark.parametrize("text", ["decimal(8,2) rounded not null", "DECIMAL( 8, 2 ) NOT NULL  ROUNDED"])
def test_marks_stand_in_any_order_and_are_kept(text: str) -> None:
    column = Column("d", "decimal(8,2)", True, True)
    assert Schema.of({"r": {"d": text}})["r"].columns == (column,)
    assert table_of(f"r(k int64 key, d {text})").columns[1] == column
    for made in (column, Column("d", "decimal(8,2)", rounded=True), Column("d", "int64", True), Column("d", "int64")):
        assert from_json(Column, to_json(made)) == made


def test_only_decimals_are_rounded() -> None:
    with pytest.raises(PlanError, match="column d is float64, and only decimals are rounded"):
        Schema.of({"r": {"d": "float64 rounded"}})


def test_a_view_on_disk_keeps_the_declaration(tmp_path: Path) -> None:
    for total in ("0.13", "0.26"):
        with crown.open(QUERY, tmp_path / "kept", SCHEMA) as view:
            view.update({"r": [(1, 0.125)]})
            assert [row["total"] for row in view] == [Decimal(total)]


def test_the_shell_reads_the_mark(tmp_path: Path) -> None:
    said: list[str] = []
    session = Session(tmp_path / "kept", lambda text, _: said.append(text))
    try:
        session.run("CREATE TABLE r (k BIGINT PRIMARY KEY, d DECIMAL(8, 2) ROUNDED NOT NULL)")
        session.run("INSERT INTO r VALUES (1, 0.125)")
        assert "d decimal(8,2) not null rounded" in next(session.tables())
    finally:
        session.close()


@pytest.mark.parametrize("form", ["csv", "headless csv", "json"])
def test_files_are_rounded(form: str) -> None:
    rows: list[tuple[object, str]] = list(enumerate(TEXTS))
    if form == "json":
        text = "".join(json.dumps({"k": k, "d": float(text)}) + "\n" for k, text in rows)
    else:
        text = "".join(f"{k},{text}\n" for k, text in [("k", "d")] * (form == "csv") + rows)
    view = crown.view("SELECT k, d FROM r", SCHEMA)
    view.apply({"r": rows_of(text.encode(), f"r.{form.rpartition(' ')[2]}", Schema.of(SCHEMA)["r"])})
    assert sorted(row["d"] for row in view) == sorted(map(half_up, TEXTS))


_HALVES = st.builds(lambda units, scale: (units + 0.5) / 10.0**scale, st.integers(-(10**9), 10**9), st.integers(0, 6))
_NEAR = st.builds(lambda x, steps: float(x + steps * np.spacing(x)), _HALVES, st.integers(-3, 3))


@given(
    st.lists(st.floats() | _HALVES | _NEAR, min_size=1, max_size=20),
    st.sampled_from([(8, 2), (18, 0), (18, 6), (38, 30), (38, 6)]),
)
@example([0.5, -0.5, 1.5, 2.5, 4503599627370497.5], (18, 0))
@example([9.995, -9.995, 9.99499999], (3, 2))
def test_doubles_become_decimals_by_their_shortest_form(values: list[float], digits: tuple[int, int]) -> None:
    precision, scale = digits
    found = convert.cast(pa.array(values, pa.float64()), pa.decimal128(*digits)).to_pylist()
    for value, made in zip(values, found, strict=True):
        finite = abs(value) < float("inf")
        exact = half_up(repr(value), scale) if finite else None
        fits = exact is not None and (not exact or exact.adjusted() < precision - scale)
        assert made == (exact if fits else None), value


def test_few_doubles_are_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    monkeypatch.setattr(convert, "_rounded", lambda number, *_: seen.append(number))
    prices = [random.Random(1).randrange(10**7) / 100 for _ in range(10_000)]
    assert convert.cast(pa.array(prices), pa.decimal128(12, 2)).null_count == 0
    assert not seen
