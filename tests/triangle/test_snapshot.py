"""Saving and loading a triangle query: everything comes back, and any other file is an error message."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from crown.errors import CrownError, SnapshotError
from ivm_triangle import NegativeMultiplicityError, Triangle
from tests.snapshots import put_together, taken_apart
from tests.triangle.oracles import random_stream


def rows(triangle: Triangle) -> list[dict]:
    return sorted((row for batch in triangle.results() for row in batch.to_pylist()), key=str)


@pytest.mark.parametrize("outputs", ["", "a", "ab", "abc"])
@pytest.mark.parametrize("epsilon", [0.5, {"R": 1.0, "S": 0.0, "T": 1.0}])
def test_a_loaded_query_goes_on_like_the_saved_one(outputs, epsilon, tmp_path):
    saved = Triangle(outputs, epsilon, strategy="eps")
    stream = np.array(random_stream(3, 300, 7))
    saved.apply_codes(stream[:200])
    assert saved.save(tmp_path / "t") == (tmp_path / "t").stat().st_size
    loaded = Triangle.load(tmp_path / "t")
    loaded.check_invariants()
    assert loaded.stats() == saved.stats()
    for triangle in (saved, loaded):
        triangle.apply_codes(stream[200:])
        triangle.check_invariants()
    assert rows(loaded) == rows(saved)


def test_strings_dates_and_composite_keys_survive(tmp_path):
    day = dt.date(2024, 2, 29)
    saved = Triangle("ab", columns={"R": (("who", "day"), "n"), "T": ("z", ("who", "day"))})
    saved.apply(
        {
            "R": {"who": ["ann", "bob", None], "day": [day, day, day], "n": [1, 1, 1]},
            "S": {"n": [1], "z": ["é"]},
            "T": {"z": ["é"], "who": ["ann"], "day": [day]},
        }
    )
    saved.save(tmp_path / "t")
    loaded = Triangle.load(tmp_path / "t")
    assert rows(loaded) == rows(saved) == [{"a0": "ann", "a1": day, "b": 1, "multiplicity": 1}]
    loaded.apply({"T": {"z": ["é", "new"], "who": ["bob", "cid"], "day": [day, day]}})
    assert {row["a0"] for row in rows(loaded)} == {"ann", "bob"}
    with pytest.raises(NegativeMultiplicityError, match="cid"):
        loaded.apply({"T": {"z": ["new"], "who": ["cid"], "day": [day], "_weight": [-2]}})
    assert loaded.stats()["null_rows"] == 1
    loaded.check_invariants()


def test_a_self_join_keeps_one_dictionary(tmp_path):
    saved = Triangle(edges="E")
    saved.apply({"E": {"src": ["a", "b", "c"], "dst": ["b", "c", "a"]}})
    saved.save(tmp_path / "t")
    loaded = Triangle.load(tmp_path / "t")
    loaded.apply({"E": {"src": ["b", "c"], "dst": ["a", "b"], "_weight": [2, 1]}})
    loaded.apply({"E": {"src": ["a"], "dst": ["c"]}})
    assert loaded.count() == 3 + 3 * 2


def test_an_empty_query_and_one_in_memory_of_its_size(tmp_path):
    Triangle("abc").save(tmp_path / "t")
    assert rows(Triangle.load(tmp_path / "t")) == []
    with pytest.raises(SnapshotError, match="raise it"):
        Triangle.load(tmp_path / "t", memory=4096)


@pytest.mark.parametrize("memory", [8, 4096, 0, -1, True, "much", None])
def test_memory_that_no_query_fits_in_is_refused_before_it_is_touched(memory):
    with pytest.raises(CrownError, match="memory"):
        Triangle(memory=memory)
    assert Triangle(memory="64 KiB").count() == 0


def test_any_other_file_is_refused(tmp_path):
    path = tmp_path / "t"
    triangle = Triangle()
    triangle.apply_codes(np.array([(0, 1, 2, 1), (1, 2, 3, 1), (2, 3, 1, 1)]))
    triangle.save(path)
    content = path.read_bytes()
    with pytest.raises(SnapshotError, match="cannot read the snapshot"):
        Triangle.load(tmp_path / "absent")
    with pytest.raises(SnapshotError, match="cannot write the snapshot"):
        triangle.save(tmp_path / "no folder" / "t")
    first, header, parts = taken_apart(content)

    def changed(**fields: object) -> bytes:
        return put_together(first, {**header, **fields}, parts)

    other = {**header["options"], "strategy": "eps"}
    newer = {**header["options"], "cleverness": 2}
    for wrong, message in (
        (b"", "not a snapshot of this version of ivm_triangle: it is empty"),
        (content.replace(b"ivm_triangle", b"crown", 1), "not a snapshot of this version of ivm_triangle"),
        (content.replace(b"snapshot 1", b"snapshot 2", 1), "not a snapshot of this version of ivm_triangle"),
        (first + b"{oops\n" + parts, "its header cannot be read"),
        (put_together(first, {}, parts), "its header cannot be read"),
        (content[:-8], "is truncated"),
        (content[:-3], "is truncated"),
        (content + b"x", "it is longer than its header says"),
        (content[:-1] + bytes([content[-1] ^ 1]), "its checksum does not match"),
        (changed(options=newer), "written by another version"),
        (changed(options=other), "other outputs, epsilon or strategy"),
        (changed(null_rows=-1), "its header does not fit its parts"),
        (changed(domain_bytes=[8, 0, 0]), "its header does not fit its parts"),
    ):
        path.write_bytes(wrong)
        with pytest.raises(SnapshotError, match=message):
            Triangle.load(path)


def test_writing_never_leaves_half_a_file(tmp_path, monkeypatch):
    path = tmp_path / "t"
    triangle = Triangle()
    triangle.save(path)
    before = path.read_bytes()
    triangle.apply_codes(np.array([(0, 1, 2, 1)]))

    def fails(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fails)
    with pytest.raises(SnapshotError, match="No space left"):
        triangle.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
