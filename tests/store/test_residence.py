"""Pages of a mapped file go to the disk and come back: what is in memory is bounded, and nothing is lost."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from crown.kernels.memory import arena as A
from crown.store import residence
from crown.store.memory import MappedFile, mapped_in

MIB = 1 << 20
WORDS = 2 * MIB  # of a part: 16 MiB


@pytest.fixture
def file(tmp_path: Path) -> MappedFile:
    """Two parts, all of whose pages have been written to."""
    if not residence.supported() or residence.in_memory(tmp_path):
        pytest.skip("the system does not say which pages are in memory, or all files are")
    made = MappedFile.create(tmp_path / "state", 2 * WORDS)
    made.parts = np.split(made.words, 2)
    for part in made.parts:
        part[:] = np.arange(WORDS)
        part[A.H_TOP] = WORDS
    residence.expect([made], in_order=False)
    return made


def intact(file: MappedFile) -> bool:
    residence.expect([file], in_order=True)
    wanted = np.arange(WORDS)
    wanted[A.H_TOP] = WORDS
    return all(bool((part == wanted).all()) for part in file.parts)


def test_the_first_touch_of_a_new_file_reads_nothing_ahead(tmp_path: Path) -> None:
    if not residence.supported() or residence.in_memory(tmp_path):
        pytest.skip("the system does not say which pages are in memory, or all files are")
    made = MappedFile.create(tmp_path / "state", WORDS)
    made.words[0] = 1
    assert np.count_nonzero(residence._in_core(made, 0, 8 * WORDS)) <= 16  # the system may map some around it


def test_pages_go_until_less_than_the_limit_is_in_memory_and_come_back_as_they_were(file: MappedFile) -> None:
    assert residence.used([file]) == residence.resident([file]) == 32 * MIB
    assert residence.trim([file], 32 * MIB) == 0, "that much is allowed"
    gone = residence.trim([file], 10 * MIB)
    assert residence.resident([file]) <= 10 * MIB
    assert gone >= 22 * MIB
    assert intact(file)


def test_what_was_touched_lately_stays(file: MappedFile) -> None:
    residence.unmap(file)
    hot = file.parts[1][: MIB // 2]  # 4 MiB
    hot += 1
    residence.trim([file], 10 * MIB)
    found = residence._in_core(file, 8 * WORDS, 8 * WORDS + 4 * MIB)
    assert found.all()
    assert residence.resident([file]) <= 10 * MIB


def test_only_what_is_in_use_is_counted(file: MappedFile) -> None:
    file.parts[0][A.H_TOP] = 1000
    file.parts[1][A.H_TOP] = 0
    assert residence.used([file]) == 8192
    assert residence.trim([file], 16 * MIB) == 0


def test_what_is_written_meanwhile_is_not_lost(file: MappedFile) -> None:
    """Pages go again and again while another thread writes to all of them."""
    over = threading.Event()

    def trims() -> None:
        hand = 0
        while not over.is_set():
            hand += residence.trim([file], 4 * MIB, hand) // 4096

    thread = threading.Thread(target=trims)
    thread.start()
    rng, part = np.random.default_rng(1), file.parts[0]
    wanted = part.copy()
    try:
        for _ in range(60):
            places = rng.integers(A.H_TABLES, WORDS, 1000)
            values = rng.integers(0, 1 << 40, 1000)
            part[places] = values
            wanted[places] = values
    finally:
        over.set()
        thread.join()
    assert (part == wanted).all()
    assert (np.fromfile(file.path, np.int64, WORDS) == wanted).all()


def test_a_process_finds_the_files_of_a_folder_that_it_has_mapped(tmp_path: Path) -> None:
    file = MappedFile.create(tmp_path / "state", 1024)
    other = MappedFile.create(tmp_path / "other", 1024)
    assert sorted(one.path.name for one in mapped_in(tmp_path)) == ["other", "state"]
    assert mapped_in(tmp_path.parent) == []
    del other
    assert mapped_in(tmp_path) == [file]


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no file system in memory")
def test_a_file_system_in_memory_is_known_as_one(tmp_path: Path) -> None:
    assert residence.in_memory(Path("/dev/shm"))
    assert residence.in_memory(Path("/dev/shm/a/folder/that/is/not/there"))
