"""A snapshot is opened whole or refused with SnapshotError: whatever happened to the file, nothing else comes out."""

from __future__ import annotations

import json
import random
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from crown.errors import MemoryBudgetError, SnapshotError
from crown.kernels.memory import arena as A
from tests.campaign import first_seed
from tests.campaign import rounds as rounds_of
from tests.snapshots import KINDS, contents, damaged, edited, put_together, saved, taken_apart


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("snapshots")


def outcome(kind: str, data: bytes, folder: Path) -> str:
    """ "refused" or "equal"; anything else fails the test."""
    path = folder / "mutated"
    path.write_bytes(data)
    refusal = ""
    try:
        loaded = KINDS[kind].load(path)
    except (SnapshotError, MemoryBudgetError) as error:
        refusal = str(error)
    if refusal:
        assert str(path) in refusal
        assert "\n" not in refusal
        return "refused"
    expected, found = saved(kind, folder)[1], contents(loaded)
    assert found[0] == expected[0]
    return "equal" if found == expected else "other counters"


def campaign(kind: str, folder: Path, rounds: int, seed: int) -> Counter[str]:
    source = random.Random(f"{kind} {seed}")
    data = saved(kind, folder)[0]
    others = [saved(other, folder)[0] for other in KINDS]
    found: Counter[str] = Counter()
    for _ in range(rounds):
        mutated = damaged(data, source.choice(others), source)
        result = "whole" if mutated in others else outcome(kind, mutated, folder)  # it may be all of another file
        assert result in ("refused", "whole")
        found[result] += 1
    return found


def forgeries(kind: str, folder: Path, rounds: int, seed: int) -> Counter[str]:
    """Headers that nothing wrote, under a right checksum."""
    source = random.Random(f"{kind} {seed}")
    first, header, parts = taken_apart(saved(kind, folder)[0])
    found: Counter[str] = Counter()
    for _ in range(rounds):
        found[outcome(kind, put_together(first, edited(header, source), parts), folder)] += 1
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_file_is_read(kind: str, folder: Path) -> None:
    data = saved(kind, folder)[0]
    assert outcome(kind, data, folder) == "equal"


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_refused(kind: str, folder: Path) -> None:
    assert campaign(kind, folder, 120, 1)["refused"] > 90


@pytest.mark.parametrize("kind", KINDS)
def test_a_header_that_makes_no_sense_is_refused(kind: str, folder: Path) -> None:
    assert forgeries(kind, folder, 80, 1)["refused"] > 40


@pytest.mark.parametrize("kind", KINDS)
def test_no_bit_can_change(kind: str, folder: Path) -> None:
    data, header = sizes(kind, folder)
    all_refused(kind, folder, range(0, 8 * header, 149))
    all_refused(kind, folder, range(8 * header, 8 * data, 1999))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_accident_gets_through(kind: str, folder: Path) -> None:
    data, header = sizes(kind, folder)
    seed, rounds = 2 + first_seed(), rounds_of(750)
    all_refused(kind, folder, range(8 * header))
    all_refused(kind, folder, range(8 * header + seed % 31, 8 * data, 31))
    assert campaign(kind, folder, 2 * rounds, seed)["refused"] > 0.75 * 2 * rounds
    assert forgeries(kind, folder, rounds, seed)["refused"] > 0.5 * rounds


def sizes(kind: str, folder: Path) -> tuple[int, int]:
    """Bytes of the file, and of its first two lines."""
    data = saved(kind, folder)[0]
    return len(data), len(data) - len(taken_apart(data)[2])


def all_refused(kind: str, folder: Path, bits: range) -> None:
    data = saved(kind, folder)[0]
    for bit in bits:
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        assert outcome(kind, bytes(flipped), folder) == "refused"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("word", [A.H_MAGIC, A.H_FORMAT, A.H_TOP, A.H_PLAN0])
def test_a_part_of_another_state_is_refused(kind: str, word: int, folder: Path) -> None:
    first, header, parts = taken_apart(saved(kind, folder)[0])
    at = 0
    for number, size in enumerate(header["words"]):
        words = np.frombuffer(parts, np.int64).copy()
        words[at + word] ^= 1
        at += size + -size % 512  # each part begins at a page
        if kind == "Triangle" and number:
            continue  # a table of keys
        forged = words.tobytes()
        assert outcome(kind, put_together(first, {**header, "crc32": zlib.crc32(forged)}, forged), folder) == "refused"


@pytest.mark.parametrize("kind", KINDS)
def test_a_header_that_lies_about_its_size_reserves_nothing(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = saved(kind, folder)[0]
    for reserving in ("crown.stages.state.memory.anonymous", "ivm_triangle.snapshot.reserve"):
        monkeypatch.setattr(reserving, lambda words, *_: pytest.fail(f"{words} words were reserved"))
    first, header, parts = taken_apart(data)
    for words in ([10**12] * len(header["words"]), [10**12], [-1], [1 << 200], [], "12", [True], [1.0], None, {}):
        assert outcome(kind, put_together(first, {**header, "words": words}, parts), folder) == "refused"


@pytest.mark.parametrize("kind", ["tree", "cells"])
@pytest.mark.parametrize(
    "field",
    [
        {"extra": {"batches": -1}},
        {"extra": {"batches": True}},
        {"extra": {"batches": "1"}},
        {"extra": {"quarantine": 5}},
        {"extra": {"quarantine": ""}},
        {"extra": []},
        {"on_missing": "maybe"},
        {"grids": [{"attributes": ["b"], "shares": [3]}]},
        {"grids": []},
        {"grids": 5},
        {"threads": 0},
        {"threads": True},
        {"threads": "2"},
        {"program": None},
        {"program": {}},
        {"program": "{"},
    ],
    ids=str,
)
def test_what_an_owner_adds_is_checked(kind: str, field: dict[str, object], folder: Path) -> None:
    first, header, parts = taken_apart(saved(kind, folder)[0])
    forged = put_together(first, {**header, **field}, parts)
    assert outcome(kind, forged, folder) == "refused"


def test_a_foreign_file_without_lines_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "big"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(SnapshotError, match="not a snapshot of this version of crown"):
        KINDS["tree"].load(path)
    with path.open("r+b") as file:
        file.write(b"crown snapshot 1\n")
    with pytest.raises(SnapshotError, match="header cannot be read"):
        KINDS["tree"].load(path)


def test_json_without_end_is_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / "deep"
    path.write_bytes(b"crown snapshot 1\n" + b"[" * 100_000 + b"\n")
    with pytest.raises(SnapshotError, match="header cannot be read"):
        KINDS["tree"].load(path)
    path.write_bytes(b"crown snapshot 1\n" + json.dumps({"words": [0]}).encode() + b"\n")
    with pytest.raises(SnapshotError, match="header cannot be read"):
        KINDS["tree"].load(path)
