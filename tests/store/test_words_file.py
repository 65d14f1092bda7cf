"""Files of words: what is written piece by piece is read back, and sums are those of the whole."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import numpy as np
import pytest

from crown.errors import SnapshotError
from crown.store import words_file
from crown.store.memory import reserve

KIND = b"crown test"
LENGTHS = (0, 1, 9, 64, 65, 512, 1025)
PAGE = 4096


def parts_of(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-(2**62), 2**62, n) for n in LENGTHS]


def read(path: Path) -> tuple[dict[str, object], list[np.ndarray]]:
    with words_file.opened(path) as file:
        header = words_file.read_header(file, path, KIND, "crown", {"of"})
        parts = [np.zeros(n, np.int64) for n in header["words"]]
        words_file.fill(file, parts, header["crc32"], path)
    return header, parts


@pytest.mark.parametrize("chunk", [1, 8, 1000])
def test_what_is_written_in_pieces_is_read_back(chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words_file, "_CHUNK", chunk)
    monkeypatch.setattr(words_file, "_PIECE", 16)
    for seed in range(20):  # checksums of fewer digits among them
        given, path = parts_of(seed), tmp_path / "words"
        size = words_file.write(path, KIND, {"of": seed}, given)
        header, found = read(path)
        assert size == path.stat().st_size
        assert header["of"] == seed
        pages = b"".join(part.tobytes() + bytes(-part.nbytes % PAGE) for part in given)
        assert header["crc32"] == zlib.crc32(pages)
        assert path.read_bytes().endswith(b" \n" + pages)
        assert size % PAGE == 0
        assert all(np.array_equal(a, b) for a, b in zip(given, found, strict=True))


def test_a_file_that_is_mapped_is_not_written_to_and_may_be_deleted(tmp_path: Path) -> None:
    if not words_file.can_be_mapped():
        pytest.skip("this system maps no file over an array")
    given, path = parts_of(3), tmp_path / "words"
    words_file.write(path, KIND, {"of": 3}, given)
    before = path.read_bytes()
    memory = reserve(2 * PAGE * len(given)).reshape(len(given), -1)
    with words_file.opened(path) as file:
        parts = [
            memory[i, :n] for i, n in enumerate(words_file.read_header(file, path, KIND, "crown", {"of"})["words"])
        ]
        words_file.map_over(file, parts, path)
    assert all(np.array_equal(a, b) for a, b in zip(given, parts, strict=True))
    assert not any(memory[i, n:].any() for i, n in enumerate(LENGTHS)), "behind a part are zeros"
    memory[:] = 7
    assert path.read_bytes() == before
    path.unlink()
    assert (memory == 7).all()


def test_what_is_damaged_is_found_without_keeping_it(tmp_path: Path) -> None:
    path = tmp_path / "words"
    words_file.write(path, KIND, {"of": 1}, parts_of(1))
    whole = path.read_bytes()
    for at in (-1, -PAGE, len(whole) - 4 * PAGE):  # a zero behind a part, and words
        path.write_bytes(bytes(byte ^ (i == at % len(whole)) for i, byte in enumerate(whole)))
        with words_file.opened(path) as file:
            header = words_file.read_header(file, path, KIND, "crown", {"of"})
            with pytest.raises(SnapshotError, match="is damaged: its checksum does not match"):
                words_file.verify(file, header["crc32"], path)


def test_pieces_go_to_the_disk_while_others_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name in ("fdatasync", "fsync"):
        monkeypatch.setattr(os, name, lambda _, name=name: calls.append(name))
    monkeypatch.setattr(words_file, "_CHUNK", 16)
    monkeypatch.setattr(words_file, "_PIECE", 32)
    words_file.write(tmp_path / "words", KIND, {"of": 0}, [np.arange(512)])
    assert calls == ["fdatasync"] * 16 + ["fsync"]


def test_a_disk_that_refuses_a_piece_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "words"
    words_file.write(path, KIND, {"of": 1}, parts_of(1))
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdatasync", full)
    monkeypatch.setattr(words_file, "_PIECE", 8)
    with pytest.raises(SnapshotError, match="No space left on device"):
        words_file.write(path, KIND, {"of": 2}, parts_of(2))
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["words"]


def test_a_file_that_ends_within_a_word_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "words"
    words_file.write(path, KIND, {"of": 1}, parts_of(1))
    with words_file.opened(path) as file:
        header = words_file.read_header(file, path, KIND, "crown", {"of"})
        os.truncate(path, path.stat().st_size - 3)
        parts = [np.zeros(n, np.int64) for n in header["words"]]
        with pytest.raises(SnapshotError, match="is truncated: it became shorter while it was read"):
            words_file.fill(file, parts, header["crc32"], path)


@pytest.mark.parametrize(("free", "stays"), [(0, False), (7_000_000, False), (9_000_000, True)])
def test_a_file_stays_in_the_page_cache_where_twice_its_bytes_are_free(
    free: int, stays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go: list[int] = []
    monkeypatch.setattr(words_file, "_PIECE", 1 << 17)
    monkeypatch.setattr(words_file, "_free_memory", lambda: free)
    monkeypatch.setattr(os, "posix_fadvise", lambda *given: let_go.append(given[3]), raising=False)
    words_file.write(tmp_path / "file", KIND, {"of": 1}, [np.arange(1 << 19)])  # 4 MiB
    assert let_go == ([] if stays else [os.POSIX_FADV_DONTNEED] * 4)
    assert read(tmp_path / "file")[1][0][-1] == (1 << 19) - 1
