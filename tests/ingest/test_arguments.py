"""Arguments of the Python functions: what makes no sense is one sentence that says what is wanted."""

from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import crown
from crown.errors import BadRowError, ChangeError, CrownError, SnapshotError
from crown.guards.arguments import size_of
from ivm_triangle import Triangle

SCHEMA = {"R": {"a": "int64", "b": "int64"}, "S": {"b": "int64", "c": "int64"}}
QUERY = "Q(a, b, c) :- R(a, b), S(b, c)."


@pytest.fixture
def view() -> crown.View:
    view = crown.view(QUERY, SCHEMA)
    view.apply({"R": [{"a": 1, "b": 2}], "S": [{"b": 2, "c": 3}]})
    return view


def sentence(error: pytest.ExceptionInfo[BaseException]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (
            {"memory_budget": "much"},
            'positive number of bytes, such as .*"512 MiB", not .much.',
        ),
        ({"memory_budget": "1 gx"}, "512 MiB"),
        ({"memory_budget": -1}, "positive"),
        ({"memory_budget": 0}, "positive"),
        ({"memory_budget": True}, "positive"),
        ({"memory_budget": 1.5}, "positive"),
        ({"memory_budget": 10**30}, "positive"),
        (
            {"memory_budget": "1 KB"},
            r"memory_budget=1000 is too small for this query .* at least \d+ KiB",
        ),
        ({"threads": "2"}, "threads must be a whole number from 1 to 1024, not '2'"),
        ({"threads": 0}, "threads must be a whole number"),
        ({"threads": True}, "threads must be a whole number"),
        ({"threads": 10**9}, "threads must be a whole number"),
        ({"on_missing": 3}, 'on_missing must be "ignore", "raise" or "trust", not 3'),
        ({"on_bad_row": 3}, "on_bad_row must be"),
        ({"on_bad_row": "quarantine", "quarantine": 3}, "quarantine must be a path"),
        ({"path": 3}, "path must be a path, as text or pathlib.Path, not 3"),
        ({"path": ""}, "path must be a path"),
        ({"path": b"state"}, "path must be a path"),
        ({"path": "a\0b"}, "path must be a path"),
        ({"path": "x" * 300}, "path=.* is too long for the name of a file: shorten it"),
        ({"path": "absent/state"}, "there is no folder 'absent'; create it first"),
    ],
    ids=str,
)
def test_an_option_that_makes_no_sense_is_refused(
    options: dict[str, Any], wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CrownError, match=wanted) as caught:
        crown.view(QUERY, SCHEMA, **options)
    sentence(caught)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "size"),
    [
        (1, 1),
        (np.int64(65536), 65536),
        (1e9, 10**9),
        ("1GB", 10**9),
        ("512 MiB", 512 << 20),
        ("1.5 kib", 1536),
        (" 2TB ", 2 * 10**12),
        ("2g", 2 << 30),
        ("512M", 512 << 20),
        ("7", 7),
        ("7b", 7),
    ],
)
def test_a_size_is_a_number_of_bytes_or_a_text_with_a_unit(given: Any, size: int) -> None:
    assert size_of(given, "memory_budget") == size


def test_sizes_with_units_are_understood_everywhere(view: crown.View, tmp_path: Path) -> None:
    assert crown.view(QUERY, SCHEMA, memory_budget="1 MiB", threads=np.int64(2)).count() == 0
    view.save(tmp_path / "view")
    assert crown.load(tmp_path / "view", memory_budget="1 MiB").count() == 1
    Triangle(memory="1 MiB").save(tmp_path / "triangle")
    assert Triangle.load(tmp_path / "triangle", memory="1 MiB").count() == 0
    for load in (lambda: crown.load(tmp_path / "view", memory_budget="x"), lambda: Triangle(memory="x")):
        with pytest.raises(CrownError, match="512 MiB"):
            load()


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        (None, "changes must be a dict from the name of a relation .* not NoneType None"),
        ([{"a": 1}], "changes must be a dict"),
        ("x", "changes must be a dict"),
        ({5: []}, "keys that are not text"),
        ({"R": None}, "relation 'R': changes must be .* not NoneType"),
        ({"R": "rows"}, "relation 'R': changes must be .* not str"),
        ({"R": {"a": 1, "b": 2}}, r"column 'a' must be a list or an array, not int 1; one row alone is written as \[{"),
        ({"R": {"a": "xy", "b": [1, 2]}}, "column 'a' must be a list or an array, not str 'xy'"),
        ({"R": [{1: 2, "b": 3}]}, "a column is called 1; name it by a text"),
        ({"R": [None]}, r"a row is a dict, a dataclass, or a tuple of \(a, b\) or \(a, b, _weight\), not None"),
    ],
    ids=str,
)
def test_changes_that_are_none_are_refused(changes: Any, wanted: str, view: crown.View) -> None:
    for apply in (view.apply, view.update, view.apply_batches):
        with pytest.raises(ChangeError, match=wanted) as caught:
            apply(changes)
        sentence(caught)
    assert view.count() == 1


@pytest.mark.parametrize(
    "row", [5, None, "abc", b"abc", {1, 2, 3}, iter([1]), np.array(5), 2.5], ids=lambda row: type(row).__name__
)
def test_contains_says_what_a_row_is(row: Any, view: crown.View) -> None:
    with pytest.raises(ChangeError, match="a dict by output name, or the values of a, b, c"):
        view.contains(row)
    with pytest.raises(ChangeError):
        assert row in view


def test_contains_takes_rows_of_every_form(view: crown.View) -> None:
    for row in ((1, 2, 3), [1, 2, 3], {"c": 3, "b": 2, "a": 1}, np.array([1, 2, 3])):
        assert row in view


@pytest.mark.parametrize("limit", ["x", -1, True, 1.5])
def test_a_limit_is_a_number_of_rows(limit: Any, view: crown.View) -> None:
    for read in (view.results, view.to_table):
        with pytest.raises(CrownError, match="limit must be a whole number of 0 or more"):
            read(limit)


def test_limits_cut_the_result() -> None:
    view = crown.view("SELECT DISTINCT a FROM R", SCHEMA)
    view.apply({"R": {"a": list(range(100_000)), "b": [0] * 100_000}})
    for limit in (0, 1, 65_536, 65_537, 99_999, 100_000, 100_001, None):
        assert view.to_table(limit).num_rows == min(100_000, 100_000 if limit is None else limit)


# -- paths --------------------------------------------------------------------------------------------------------


def _same(path: Path) -> Path:
    return path


def _linked(path: Path) -> Path:
    os.link(path, path.with_name("hard"))
    return path.with_name("hard")


def _symbolic(path: Path) -> Path:
    path.with_name("soft").symlink_to(path)
    return path.with_name("soft")


def _roundabout(path: Path) -> Path:
    (path.parent / "folder").mkdir()
    return path.parent / "folder" / ".." / path.name


@pytest.mark.parametrize("other", [_same, _linked, _symbolic, _roundabout])
def test_a_snapshot_is_not_overwritten_by_its_own_state(
    other: Callable[[Path], Path], view: crown.View, tmp_path: Path
) -> None:
    path = tmp_path / "view"
    view.save(path)
    before = path.read_bytes()
    again = other(path)
    for snapshot, state in ((path, again), (again, path)):
        with pytest.raises(SnapshotError, match=r"is the snapshot .* itself"):
            crown.load(snapshot, state_path=state)
    assert path.read_bytes() == before
    assert crown.load(path, state_path=tmp_path / "state").count() == 1


def test_a_state_stays_when_the_snapshot_that_should_replace_it_is_damaged(view: crown.View, tmp_path: Path) -> None:
    view.save(tmp_path / "view")
    damaged = bytearray((tmp_path / "view").read_bytes())
    damaged[-1] ^= 1
    (tmp_path / "view").write_bytes(damaged)
    (tmp_path / "state").write_bytes(b"what was there")
    with pytest.raises(SnapshotError, match="checksum"):
        crown.load(tmp_path / "view", state_path=tmp_path / "state")
    assert (tmp_path / "state").read_bytes() == b"what was there"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["state", "view"]


def test_a_view_does_not_save_over_its_own_state(tmp_path: Path) -> None:
    view = crown.view(QUERY, SCHEMA, path=tmp_path / "state")
    with pytest.raises(SnapshotError, match="in which this view keeps its state"):
        view.save(tmp_path / "state")
    view.save(tmp_path / "snapshot")
    assert crown.load(tmp_path / "snapshot").count() == 0


def test_places_where_no_file_can_be_are_named(view: crown.View, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    triangle = Triangle(memory="1 MiB")
    for save in (view.save, triangle.save):
        for place, wanted in (
            (tmp_path, "this is a folder; name a file in it"),
            (tmp_path / "absent" / "x", "there is no folder"),
            (tmp_path / "file" / "x", "there is no folder"),
            (None, "path must be a path"),
        ):
            with pytest.raises(CrownError, match=wanted) as caught:
                save(place)
            sentence(caught)
    for load in (crown.load, Triangle.load):
        for place, wanted in (
            (tmp_path, "this is a folder; name the file that save wrote"),
            (tmp_path / "absent", "No such file"),
            (tmp_path / "file" / "x", "Not a directory"),
            (5, "path must be a path"),
        ):
            with pytest.raises(CrownError, match=wanted) as caught:
                load(place)
            sentence(caught)
    view.save(tmp_path / "view")
    for place, wanted in ((tmp_path, "is a folder"), (tmp_path / "absent" / "x", "there is no folder")):
        with pytest.raises(CrownError, match=wanted):
            crown.load(tmp_path / "view", state_path=place)


def test_a_pipe_is_no_snapshot(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SnapshotError, match="not a regular file"):
        crown.load(tmp_path / "pipe")


def test_the_home_folder_has_its_short_name(view: crown.View, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    view.save("~/view")
    assert crown.load("~/view", state_path="~/state").count() == 1
    assert crown.view(QUERY, SCHEMA, path=Path("~/other")).count() == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["other", "state", "view"]


def test_a_state_that_the_system_refuses_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(27, "File too large")

    monkeypatch.setattr("os.ftruncate", full)
    with pytest.raises(SnapshotError, match=r"cannot make the state file .*File too large"):
        crown.view(QUERY, SCHEMA, path=tmp_path / "state")


# -- copies ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: crown.view(QUERY, SCHEMA), lambda: Triangle(memory="1 MiB")])
@pytest.mark.parametrize("twice", [copy.copy, copy.deepcopy, pickle.dumps])
def test_no_copies_are_made_behind_anyones_back(make: Callable[[], Any], twice: Callable[[Any], Any]) -> None:
    with pytest.raises(CrownError, match=r"cannot be copied or pickled: save\(path\) and .*load\(path\)") as caught:
        twice({"in a dict": make()} if twice is not copy.copy else make())
    sentence(caught)


# -- quarantine --------------------------------------------------------------------------------------------------

BAD = {"R": [{"a": "one", "b": 2}, {"a": 9, "b": 2}]}


def test_a_batch_whose_bad_rows_cannot_be_kept_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "aside"
    view = crown.view(QUERY, SCHEMA, on_bad_row="quarantine", quarantine=folder)
    view.apply({"S": [{"b": 2, "c": 3}]})
    folder.write_text("a file is there")
    with pytest.raises(ChangeError, match=r"the batch has 1 bad rows, and the quarantine .* not applied") as caught:
        view.apply(BAD)
    sentence(caught)
    assert (view.count(), view.stats()["quarantined"], view.stats()["batches"]) == (0, 0, 1)
    folder.unlink()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("pyarrow.parquet.write_table", full)
        with pytest.raises(ChangeError, match="No space left on device"):
            view.apply(BAD)
    assert list(folder.iterdir()) == []
    assert view.count() == 0
    view.apply(BAD)
    assert (view.count(), view.stats()["quarantined"]) == (1, 1)
    assert pq.read_table(folder).num_rows == 1


def test_a_file_where_the_quarantine_should_be_is_found_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(CrownError, match="is a file; name a folder"):
        crown.view(QUERY, SCHEMA, on_bad_row="quarantine", quarantine=tmp_path / "file")


def test_a_bad_row_of_anything_is_put_aside(tmp_path: Path) -> None:
    view = crown.view(QUERY, SCHEMA, on_bad_row="quarantine", quarantine=tmp_path)
    view.apply({"R": [{"a": {(1, 2): 3}, "b": 1}, {"a": "\ud800", "b": 1}, {"a": {1}, "b": object()}]})
    assert pq.read_table(tmp_path).num_rows == view.stats()["quarantined"] == 3
    with pytest.raises(BadRowError):
        crown.view(QUERY, SCHEMA).apply({"R": [{"a": {(1, 2): 3}, "b": 1}]})
