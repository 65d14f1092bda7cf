"""Files of a durable view, torn, cut, flipped, swapped, gone: said and refused, or recovered; never silently wrong."""

from __future__ import annotations

import os
import random
import shutil
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import crown
from crown.durable.identity import Identity
from crown.durable.recovery import damaged
from crown.durable.view import DurableView
from crown.errors import CrownError, DamagedStateError, NotDurableError, RecoveryWarning
from crown.store.words_file import can_be_mapped
from tests.durable.streams import QUERIES, SCHEMA, batch, contents, names, recomputed

QUERY = QUERIES["join"]
BATCHES = 14


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two snapshots, the log between them, and some batches after; closed as it should be."""
    folder = tmp_path_factory.mktemp("whole") / "v"
    with crown.open(QUERY, folder, SCHEMA) as view:
        for number in range(BATCHES):
            view.update(batch(1, number))
            if number in (3, 8):
                view.snapshot()
    assert names(folder) == {"lock", "meta.json", "acknowledged", "4.snapshot", "4.log", "9.snapshot", "9.log"}
    return folder


@pytest.fixture(scope="module")
def results() -> list[Counter[str]]:
    return [recomputed(QUERY, 1, number) for number in range(BATCHES + 1)]


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "v")
    return tmp_path / "v"


def opened(folder: Path, **options: Any) -> DurableView:
    view: DurableView = crown.open(QUERY, folder, SCHEMA, **options)
    return view


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


def test_the_newest_snapshot_may_be_damaged(folder: Path, results: list[Counter[str]]) -> None:
    flip(folder / "9.snapshot", 5000)
    with (
        pytest.warns(RecoveryWarning, match=r"9\.snapshot is damaged.*rebuilt from 4\.snapshot and the log"),
        opened(folder) as view,
    ):
        assert contents(view) == results[BATCHES]
    assert "9.snapshot.damaged" in names(folder)
    with opened(folder) as view:
        assert contents(view) == results[BATCHES]


def test_a_snapshot_that_is_mapped_is_left_as_it_is_and_its_checksum_too(
    folder: Path, results: list[Counter[str]]
) -> None:
    if not can_be_mapped():
        pytest.skip("this system maps no file over an array")
    view_id = Identity.read(folder).view  # type: ignore[union-attr]
    assert damaged(folder, view_id) == []
    path = folder / "9.snapshot"
    flip(path, path.stat().st_size - 1)  # behind the last part
    before = path.read_bytes()
    with opened(folder, verify=False, snapshot_bytes=1 << 30) as view:
        assert contents(view) == results[BATCHES]
        for number in range(BATCHES, 2 * BATCHES):
            view.update(batch(1, number))
        assert contents(view) == recomputed(QUERY, 1, 2 * BATCHES)
        assert path.read_bytes() == before
        assert damaged(folder, view_id) == [f"{path} is damaged: its checksum does not match"]
        flip(folder / "4.log", 200)
        assert len(damaged(folder, view_id)) == 2
        flip(folder / "4.log", 200)
        with pytest.raises(DamagedStateError, match=r"9\.snapshot is damaged: .* no other snapshot is written"):
            view.snapshot()
        assert not (folder / f"{2 * BATCHES}.snapshot").exists()
    with pytest.warns(RecoveryWarning, match=r"9\.snapshot is damaged"):
        view = opened(folder)
    with view:
        assert contents(view) == recomputed(QUERY, 1, 2 * BATCHES)
        view.check_invariants()


def test_no_snapshot_at_all_is_refused_with_the_remedy(folder: Path) -> None:
    for number in (4, 9):
        flip(folder / f"{number}.snapshot", 300)
    with pytest.raises(DamagedStateError, match=r"no state can be read in .*9\.snapshot.*Restore it from a copy"):
        opened(folder)


@pytest.mark.parametrize("cut", [1, 30, 400])
def test_the_log_cut_short_is_refused_and_what_is_left_can_be_used(
    folder: Path, cut: int, results: list[Counter[str]]
) -> None:
    log = folder / "9.log"
    log.write_bytes(log.read_bytes()[:-cut])
    with pytest.raises(
        DamagedStateError, match=r"acknowledged batches are missing .*or continue after batch 1[0-3] with rep"
    ):
        opened(folder)
    with pytest.warns(RecoveryWarning, match="continues after batch"):
        view = opened(folder, repair=True)
    with view:
        left = view.batches
        assert left < BATCHES
        assert contents(view) == results[left]
        for number in range(left, BATCHES):
            view.update(batch(1, number))
    with opened(folder) as view:
        assert contents(view) == results[BATCHES]


def test_a_flipped_bit_in_the_middle_of_the_log_is_refused(folder: Path, results: list[Counter[str]]) -> None:
    log = folder / "9.log"
    flip(log, log.stat().st_size // 2)
    with pytest.raises(DamagedStateError, match=r"9\.log: batch 1\d is damaged: its checksum does not match"):
        opened(folder)
    before = log.read_bytes()
    with (
        pytest.warns(RecoveryWarning, match="at least . acknowledged batches are lost"),
        opened(folder, repair=True) as view,
    ):
        assert contents(view) == results[view.batches]
    assert (folder / "9.log.damaged").read_bytes() == before, "nothing is deleted"


def test_what_was_not_acknowledged_may_be_torn(folder: Path, results: list[Counter[str]]) -> None:
    data = (folder / "9.log").read_bytes()
    frame = data[data.index(b"CRWB") :][:60]
    for tail in (b"CRWB", frame, bytes(5000)):
        (folder / "9.log").write_bytes(data + tail)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with opened(folder) as view:
                assert contents(view) == results[BATCHES]
        assert "was not acknowledged, and was dropped" in str(said[0].message)
        assert (folder / "9.log").read_bytes() == data


@pytest.mark.parametrize("gone", ["meta.json", "9.log", "acknowledged", "9.snapshot", "4.log", "4.snapshot"])
def test_a_file_that_is_gone_is_noticed_or_not_needed(folder: Path, gone: str, results: list[Counter[str]]) -> None:
    (folder / gone).unlink()
    if gone in ("meta.json", "9.log"):
        with pytest.raises(DamagedStateError, match="gone"):
            opened(folder)
    elif gone == "acknowledged":
        with pytest.warns(RecoveryWarning, match="whether the log is complete is not known"), opened(folder) as view:
            assert contents(view) == results[BATCHES]
    else:
        with opened(folder) as view:
            assert contents(view) == results[BATCHES]


def test_files_of_another_view_of_the_same_query_are_refused(folder: Path, tmp_path: Path) -> None:
    with opened(tmp_path / "other") as view:
        for number in range(9):
            view.update(batch(2, number))
        view.snapshot()
    shutil.copy(tmp_path / "other" / "9.log", folder / "9.log")
    with pytest.raises(DamagedStateError, match=r"9\.log is not the log of this view"):
        opened(folder)
    shutil.copy(tmp_path / "other" / "9.snapshot", folder / "9.snapshot")
    with (
        pytest.raises(DamagedStateError, match=r"9\.log is not the log"),
        pytest.warns(RecoveryWarning, match="copied"),
    ):
        opened(folder)


@pytest.mark.filterwarnings("ignore::crown.errors.RecoveryWarning")
def test_no_accident_gives_a_wrong_result(whole: Path, tmp_path: Path, results: list[Counter[str]]) -> None:
    source = random.Random(11)
    refused = recovered = 0
    for attempt in range(120):
        folder = tmp_path / str(attempt)
        shutil.copytree(whole, folder)
        path = folder / source.choice(sorted(names(folder) - {"lock", "4.log", "4.snapshot"}))
        data = bytearray(path.read_bytes())
        at = source.randrange(len(data))
        match source.randrange(4):
            case 0:
                data[at] ^= 1 << source.randrange(8)
            case 1:
                del data[at:]
            case 2:
                data[at : at + 30] = source.randbytes(30)
            case _:
                del data[at : at + source.randrange(1, 50)]
        path.write_bytes(data)
        try:
            with opened(folder) as view:
                assert view.batches == BATCHES, f"{path.name}: batches were lost without an error"
                assert contents(view) == results[BATCHES]
                recovered += 1
        except DamagedStateError:
            refused += 1
            if path.suffix == ".log":
                with opened(folder, repair=True) as view:
                    assert contents(view) == results[view.batches]
        shutil.rmtree(folder)
    assert refused > 20
    assert recovered > 20


@pytest.mark.parametrize("policy", ["never", 1000.0])
def test_a_machine_that_goes_down_takes_what_sync_had_not_asked_for_and_that_is_said(
    policy: str | float, tmp_path: Path, results: list[Counter[str]]
) -> None:
    view = opened(tmp_path / "v", sync=policy)
    for number in range(BATCHES):
        view.update(batch(1, number))
        if number == 7:
            view.sync()
            size = (tmp_path / "v" / "0.log").stat().st_size
    shutil.copytree(tmp_path / "v", tmp_path / "after")
    view.close()
    log = tmp_path / "after" / "0.log"
    log.write_bytes(log.read_bytes()[: size + 50])
    with (
        pytest.warns(RecoveryWarning, match="6 of 14 acknowledged batches are missing.*Apply them again"),
        opened(tmp_path / "after") as again,
    ):
        assert contents(again) == results[8]
    log.write_bytes(log.read_bytes()[: size - 50])
    with pytest.raises(DamagedStateError):
        opened(tmp_path / "after")


def test_a_full_disk_refuses_the_batch_and_leaves_the_log_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pwrite

    def full(handle: int, data: bytes, at: int) -> int:
        if len(data) > 100:
            real(handle, bytes(data)[:50], at)
            raise OSError(28, "No space left on device")
        return real(handle, data, at)

    with opened(tmp_path / "v") as view:
        view.update(batch(1, 0))
        before = contents(view)
        monkeypatch.setattr(os, "pwrite", full)
        with pytest.raises(NotDurableError, match=r"No space left on device.*was not applied; make room"):
            view.update(batch(1, 1))
        monkeypatch.undo()
        assert contents(view) == before
        assert view.batches == 1
        view.update(batch(1, 1))
    with opened(tmp_path / "v") as view:
        assert contents(view) == recomputed(QUERY, 1, 2)


def test_after_a_failed_sync_the_view_takes_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(handle: int) -> None:
        raise OSError(5, "Input/output error")

    view = opened(tmp_path / "v")
    view.update(batch(1, 0))
    monkeypatch.setattr(os, "fdatasync", fails)
    for _ in range(2):
        with pytest.raises(NotDurableError, match=r"Input/output error.*Close it and open it again"):
            view.update(batch(1, 1))
    monkeypatch.undo()
    assert view.batches == 1
    view.close()
    with opened(tmp_path / "v") as again:
        assert again.batches in (1, 2)


def test_a_snapshot_that_cannot_be_written_is_said_and_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from crown.durable.journal import Journal

    def fails(self: Journal, save: object) -> None:
        raise OSError(28, "No space left on device")

    with opened(tmp_path / "v", snapshot_bytes=1) as view:
        view.update(batch(1, 0))
        monkeypatch.setattr(Journal, "snapshot", fails)
        with pytest.warns(RecoveryWarning, match="No space left on device; the log grows"):
            view.update(batch(1, 1))
        with pytest.raises(CrownError, match="cannot write a snapshot"):
            view.snapshot()
    with opened(tmp_path / "v") as view:
        assert contents(view) == recomputed(QUERY, 1, 2)


@pytest.mark.filterwarnings("ignore::crown.RecoveryWarning")
def test_a_snapshot_that_cannot_be_written_is_tried_again_when_the_log_has_grown_and_not_with_every_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from crown.durable.journal import Journal

    written, tried = Journal.snapshot, []

    def fails(self: Journal, save: object) -> None:
        tried.append(self.batches)
        raise OSError(28, "No space left on device")

    with opened(tmp_path / "v", snapshot_bytes=1) as view:
        monkeypatch.setattr(Journal, "snapshot", fails)
        for turn in range(200):
            view.update(batch(1, turn))
        assert 3 < len(tried) < 40, "as often as the log grows by a quarter"
        monkeypatch.setattr(Journal, "snapshot", written)
        for turn in range(200):
            view.update(batch(1, turn))
        assert len(list((tmp_path / "v").glob("*.snapshot"))) > 0


@pytest.mark.parametrize("name", ["lock", "acknowledged"])
def test_a_folder_in_the_place_of_a_small_file_is_said(name: str, whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "v"
    shutil.copytree(whole, folder)
    (folder / name).unlink()
    (folder / name).mkdir()
    with pytest.raises(CrownError, match=f"cannot open .*/{name}: Is a directory"):
        crown.open(QUERY, folder, SCHEMA)
