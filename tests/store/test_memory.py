"""Address space, state files and the budget of several arenas, without an engine."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pytest

import crown
from crown.errors import MemoryBudgetError, SnapshotError
from crown.kernels.memory import arena as A
from crown.store.budget import Budget
from crown.store.memory import ADDRESSABLE, SLACK, MappedFile, reserve


def _arenas(*live: int, size: int = 1 << 20) -> list[np.ndarray]:
    """Arenas in which so many words are live."""
    made = []
    for words in live:
        M = np.zeros(size, np.int64)
        A.format_arena(M, 0, size, 1)
        M[A.H_LIVE] = M[A.H_TOP] = words
        made.append(M)
    return made


# -- memory.reserve ----------------------------------------------------------------------------------------------------


def test_a_reservation_is_zeros_and_costs_nothing_until_it_is_touched() -> None:
    words = reserve()
    assert len(words) == ADDRESSABLE
    words[[0, ADDRESSABLE - 1]] = 1, 2
    assert words[[0, 1, ADDRESSABLE // 2, ADDRESSABLE - 1]].tolist() == [1, 0, 0, 2]


def test_a_range_that_the_system_does_not_have_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(MemoryBudgetError, match=r"refuses to reserve .* MiB .* set memory_budget to a smaller number"):
        reserve(1 << 59)


# -- memory.MappedFile -------------------------------------------------------------------------------------------------


def test_what_is_written_to_a_state_file_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    file = MappedFile.create(tmp_path / "state", 5000)
    assert len(file.words) == 5000
    assert not file.words.any()
    file.words[[0, 4999]] = 7, -8
    del file
    gc.collect()
    again = MappedFile.open(tmp_path / "state")
    assert again.path == tmp_path / "state"
    assert again.words[[0, 1, 4999]].tolist() == [7, 0, -8]


def test_two_mappings_of_a_file_see_each_other(tmp_path: Path) -> None:
    one, other = MappedFile.create(tmp_path / "state", 10), MappedFile.open(tmp_path / "state")
    one.words[3] = 4
    assert other.words[3] == 4


def test_a_file_that_is_made_anew_leaves_the_mapping_of_the_old_one_alone(tmp_path: Path) -> None:
    old = MappedFile.create(tmp_path / "state", 10)
    old.words[0] = 1
    new = MappedFile.create(tmp_path / "state", 20)
    assert not new.words.any()
    old.words[1] = 2
    assert not new.words.any()
    assert old.words[:2].tolist() == [1, 2]


def test_blocks_are_reserved_for_the_words_asked_for_only(tmp_path: Path) -> None:
    file = MappedFile.create(tmp_path / "state", 1 << 22)
    file.words[1 << 17] = 5

    def taken() -> int:
        return os.stat(tmp_path / "state").st_blocks * 512

    file.reserve(1 << 17, 1 << 17)
    assert 1 << 20 <= taken() < 2 << 20
    assert file.words[1 << 17] == 5, "what is there stays"
    assert os.stat(tmp_path / "state").st_size == 8 << 22


def test_without_the_system_call_pages_are_written_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    file = MappedFile.create(tmp_path / "state", 4096)
    file.words[:] = range(4096)
    file.reserve(512, 2000)
    assert file.words.tolist() == list(range(4096))
    assert len(file.words) == 4096
    assert os.stat(tmp_path / "state").st_size == 8 * 4096


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot open the state file .*: No such file"),
        (b"", "is not a state file: its length is 0 bytes"),
        (b"x" * 13, "is not a state file: its length is 13 bytes"),
    ],
)
def test_what_is_no_state_file_is_refused(content: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "state"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SnapshotError, match=message):
        MappedFile.open(path)
    if content is not None:
        assert path.read_bytes() == content


def test_a_file_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match=r"cannot make the state file .*nowhere.*: No such file"):
        MappedFile.create(tmp_path / "nowhere" / "state", 10)
    with pytest.raises(SnapshotError, match="cannot make the state file"):
        MappedFile.create(tmp_path, 10)


def test_descriptors_are_closed_with_their_object(tmp_path: Path) -> None:
    MappedFile.create(tmp_path / "state", 10)
    gc.collect()
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    if before is None:
        pytest.skip("the system does not list descriptors")
    for _ in range(5):
        MappedFile.open(tmp_path / "state")
    with pytest.raises(SnapshotError):
        MappedFile.open(tmp_path / "absent")
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


# -- budget.Budget -----------------------------------------------------------------------------------------------------


def test_an_arena_may_take_what_the_others_leave() -> None:
    parts = _arenas(1000, 2000, 4000)
    budget = Budget(parts, 10_000)
    assert budget.used == 7000
    budget.allow(1)
    assert parts[1][A.H_BUDGET] == 10_000 - 5000
    parts[0][A.H_LIVE] += 500
    budget.allow(1)
    assert parts[1][A.H_BUDGET] == 4500


def test_a_budget_is_tight_when_more_than_half_of_it_is_used() -> None:
    assert not Budget(_arenas(3000, 2000), 10_000).tight
    assert Budget(_arenas(3000, 2001), 10_000).tight
    assert not Budget(_arenas(3000, 2001)).tight, "there is none"


def test_a_kernel_that_stopped_goes_on_only_if_there_is_more() -> None:
    parts = _arenas(1000, 2000)
    budget = Budget(parts, 3000)
    assert budget.extend(0), "exactly used up: the next insertion may begin"
    parts[0][A.H_LIVE] += 1
    assert not budget.extend(0)
    budget.change(3001)
    assert budget.extend(0)


def test_an_arena_that_is_stopped_may_take_nothing() -> None:
    parts = _arenas(1000)
    budget = Budget(parts, 5000)
    budget.stop(0)
    assert parts[0][A.H_BUDGET] < 0
    assert budget.extend(0), "until it is allowed again"


def test_taking_a_batch_back_is_beyond_any_budget() -> None:
    parts = _arenas(1000, 2000)
    budget = Budget(parts, 2500)
    with budget.lifted():
        assert budget.extend(0)
        with budget.lifted():
            pass
        assert budget.extend(0)
    assert not budget.extend(0)


def test_a_refusal_says_what_is_in_use_and_what_to_do() -> None:
    message = str(Budget(_arenas(1000), 900).refusal())
    assert "memory_budget=7200 bytes" in message
    assert "(8000 in use" in message
    assert "Raise memory_budget" in message


def test_a_state_in_a_file_has_blocks_for_what_it_may_take(tmp_path: Path) -> None:
    size = 1 << 21
    file = MappedFile.create(tmp_path / "state", 2 * size)
    parts = np.split(file.words, 2)
    for M in parts:
        A.format_arena(M, 0, SLACK, 1)
    budget = Budget(parts, spaces=[file, file])
    budget.allow(1)
    known, taken = int(parts[1][A.H_LIMIT]), os.stat(tmp_path / "state").st_blocks * 512
    assert SLACK < known < size
    assert taken >= 8 * (known - SLACK), "the limit moved after the disk had given the blocks"
    assert parts[0][A.H_LIMIT] == SLACK, "the other part was not concerned"
    room = int(parts[1][A.H_BUDGET] - parts[1][A.H_LIVE])
    assert 0 <= room <= known - int(parts[1][A.H_TOP]) - SLACK, "the largest step of one change still fits"


def test_a_full_disk_is_no_room_and_the_refusal_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = MappedFile.create(tmp_path / "state", 1 << 20)
    A.format_arena(file.words, 0, SLACK, 1)
    budget = Budget([file.words], spaces=[file])

    def full(self: MappedFile, start: int, words: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(MappedFile, "reserve", full)
        assert not budget.extend(0)
        assert file.words[A.H_LIMIT] == SLACK
        assert "the disk has no room for more state" in str(budget.refusal())
    assert budget.extend(0), "there is room again"
    assert "memory_budget" in str(budget.refusal())


def test_a_value_that_is_larger_than_any_step_finds_room_in_a_file(tmp_path):
    query, schema = "SELECT id, LENGTH(note) AS n FROM r", {"r": {"id": "int64", "note": "string"}}
    view = crown.view(query, schema, path=tmp_path / "state")
    rows = [(number, "x" * size) for number, size in enumerate((3_000_000, 10, 9_000_000, 5_000_000))]
    for batch in (rows[:1], rows[1:]):
        view.update({"r": batch})
    assert sorted(row["n"] for row in view) == [10, 3_000_000, 5_000_000, 9_000_000]
    view.check_invariants()
