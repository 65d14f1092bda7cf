"""A checkpoint whose state is elsewhere says where: to the next run, and to whoever looks at the job."""

from __future__ import annotations

import json

import pytest

from spark_jobs.commands import state as state_command
from spark_jobs.commands import top
from spark_jobs.errors import CheckpointError, FolderError
from spark_jobs.log.state_location import located
from tests.spark.job.test_submit import command
from tests.spark.storage.server import environment
from tests.spark.storage.test_protocol import CHANGES, DELTAS, Site


@pytest.fixture
def site(tmp_path, place, monkeypatch):
    """A job that has run two batches, with its state elsewhere."""
    for name, value in environment(place[1]).items():
        monkeypatch.setenv(name, value)
    site = Site(tmp_path / "checkpoint", place)
    located(str(site.folder), place[0], place[1]).claim()
    for batch in range(2):
        site.apply(batch, CHANGES[batch])
    return site


def test_the_next_run_finds_the_state_and_another_place_is_refused(site, tmp_path):
    for given in (None, site.place[0]):
        where = located(str(site.folder), given, site.place[1])
        assert where.root == site.root
        assert where.stored("crown") == (site.root / "s" / "crown", True)
        where.claim()
    for other in (str(tmp_path / "other"), "s3://bucket/other", f"{site.folder}/crown"):
        with pytest.raises(CheckpointError, match=r"is in .*, but state= is .*: give the folder that has the state"):
            located(str(site.folder), other, site.place[1])
    assert site.apply(2, CHANGES[2], "there") == DELTAS[2]


def test_a_state_in_the_checkpoint_is_not_left_behind(tmp_path):
    (tmp_path / "crown" / "s" / "crown").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="is inside it, but state= is"):
        located(str(tmp_path), "s3://bucket/x")
    assert located(str(tmp_path), None).root == located(str(tmp_path), f"{tmp_path}/crown").root
    with pytest.raises(FolderError, match="is the checkpoint itself"):
        located(str(tmp_path / "new"), str(tmp_path / "new"))


def test_a_note_that_cannot_be_read_is_an_error(site):
    note = site.folder / "crown" / "elsewhere.json"
    assert json.loads(note.read_text()) == {"state": str(site.root)}
    note.write_text("{")
    with pytest.raises(CheckpointError, match=r"elsewhere\.json is damaged: restore it"):
        located(str(site.folder), None)


def test_state_and_top_follow_the_checkpoint_to_its_state(site, capsys):
    assert command(state_command, site.folder, "--check") == 0
    assert "cell 0: batches 0 to 1" in capsys.readouterr().out
    assert command(top, site.folder, "--once") == 0
    said = capsys.readouterr().out
    assert f"{site.root}/s/crown" in said
    assert "Spark has committed batch 1" in said
    assert "cell 0: batch 1" in said
