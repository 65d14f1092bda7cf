"""Options: a keyword is a field of one record, is checked where the record is made, and a mistyped one is named."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import crown
from crown import options as embedded
from crown.errors import CrownError
from spark_jobs import options as on_spark

SCHEMA = {"r": {"a": "int64"}}
QUERY = "SELECT DISTINCT a FROM r"
VIEW = (embedded.Planning, embedded.Checks, embedded.Resources)
STREAM = (on_spark.Place, embedded.Planning, embedded.Checks, on_spark.Cells, on_spark.Output, on_spark.Watched)


@pytest.mark.parametrize(
    ("keywords", "records", "others"),
    [
        (embedded.ViewOptions, VIEW, set()),
        (embedded.DurableOptions, (*VIEW, embedded.Durability), set()),
        (on_spark.StreamOptions, STREAM, {"schema", "change"}),
    ],
)
def test_the_keywords_of_a_function_are_the_fields_of_its_records(
    keywords: type, records: Any, others: set[str]
) -> None:
    named = [each.name for record in records for each in fields(record)]
    assert len(set(named)) == len(named), "a keyword is a field of one record"
    assert set(get_type_hints(keywords)) == {*named, *others}
    for record in records:
        for each in fields(record):
            assert get_type_hints(keywords)[each.name] == get_type_hints(record)[each.name], each.name


def test_functions_that_take_fewer_take_some_of_the_same() -> None:
    known = get_type_hints(embedded.ViewOptions) | get_type_hints(on_spark.StreamOptions)
    for fewer in (embedded.DatabaseOptions, on_spark.LoadOptions):
        assert get_type_hints(fewer).items() <= known.items()


def test_a_record_cannot_be_changed() -> None:
    for record in (*VIEW, embedded.Durability, *STREAM, on_spark.Options):
        made = record()
        with pytest.raises(FrozenInstanceError):
            setattr(made, fields(record)[0].name, None)


def test_a_mistyped_option_is_named_with_the_one_that_is_meant(tmp_path: Path) -> None:
    with pytest.raises(CrownError, match=r"crown\.view has no option 'on_mising'; did you mean on_missing\?"):
        crown.view(QUERY, SCHEMA, on_mising="raise")  # type: ignore[call-arg]
    with pytest.raises(CrownError, match=r"crown\.open has no option 'snapshot_byte'; did you mean snapshot_bytes\?"):
        crown.open(QUERY, tmp_path / "v", SCHEMA, snapshot_byte=1)  # type: ignore[call-arg]
    with pytest.raises(CrownError, match=r"crown\.database has no option 'threads'; it has memory_budget, on_bad_row"):
        crown.database(SCHEMA, threads=2)  # type: ignore[call-arg]
    with pytest.raises(CrownError, match=r"maintain has no option 'checkpiont'; did you mean checkpoint\?"):
        on_spark.Options.of("maintain", {"checkpiont": "x"})
    with pytest.raises(CrownError, match=r"bulk_load has no option 'emit'; it has"):
        on_spark.Options.of("bulk_load", {"emit": "cdc"}, on_spark.LoadOptions)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"on_missing": "maybe"}, 'on_missing must be "ignore", "raise" or "trust", not \'maybe\''),
        ({"on_bad_row": "skip"}, 'on_bad_row must be "fail" or "quarantine", not \'skip\''),
        ({"quarantine": "q"}, "quarantine= is given, but bad rows reject their batch"),
        ({"rates": [1]}, "rates= takes numbers by relation"),
    ],
)
def test_the_same_is_refused_in_the_same_words_everywhere(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(CrownError) as one:
        crown.view(QUERY, SCHEMA, **given)
    with pytest.raises(CrownError) as other:
        crown.open(QUERY, tmp_path / "v", SCHEMA, **given)
    with pytest.raises(CrownError) as third:
        on_spark.Options.of("maintain", given)
    assert said in str(one.value)
    assert str(one.value) == str(other.value) == str(third.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"operator": "a b"}, "operator='a b': give a name of letters"),
        ({"placement": "here"}, 'placement=\'here\': give one of "auto", "pinned", "anywhere"'),
        ({"cell_budget": "8 KiB"}, "cell_budget='8 KiB' is too small to start with"),
        ({"emit": "json"}, "emit='json': give one of weights, cdc, rowkind, debezium, ranges"),
        ({"compression": "brotli"}, "compression='brotli': give one of"),
        ({"sample": -1}, "sample must be a whole number of 0 or more, not -1"),
        ({"amplified": 0}, "amplified must be a whole number of 1 or more, not 0"),
    ],
)
def test_what_makes_no_sense_on_spark_is_said_where_the_record_is_made(given: dict[str, Any], said: str) -> None:
    with pytest.raises(CrownError) as error:
        on_spark.Options.of("maintain", given)
    assert said in str(error.value)


def test_a_command_line_calls_options_by_their_flags() -> None:
    for given, said in (
        ({"cell_budget": "8 KiB"}, "--cell-budget='8 KiB' is too small"),
        ({"amplified": 0}, "--amplified must be a whole number"),
        ({"quarantine": "q"}, '--quarantine is given, but bad rows reject their batch: give --on-bad-row="q'),
    ):
        with pytest.raises(CrownError) as error, embedded.as_flags(get_type_hints(on_spark.StreamOptions)):
            on_spark.Options.of("crown submit", given)
        assert said in str(error.value)


def test_what_is_secret_is_not_shown() -> None:
    assert "hidden" not in repr(on_spark.Options.of("maintain", {"storage_options": {"key": "hidden"}}))
