"""A stream through Spark whose state is on a store: killed with all its processes, and gone on with. Oracle: a
recompute."""

from __future__ import annotations

import os
import random
import re
import sys
import uuid

import pytest

from spark_jobs.storage.opening import folder_at
from tests.spark.storage.server import BUCKET, SECRET, environment
from tests.spark.test_kills import run_until


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(("store", "scheme"), [("s3", "s3a"), ("gcs", "gs")])
def test_a_killed_job_goes_on_from_its_state_on_a_store(tmp_path, request, store, scheme, monkeypatch):
    known = request.getfixturevalue(store)
    for name, value in environment(known).items():
        monkeypatch.setenv(name, value)
    state = f"{scheme}://{BUCKET}/{uuid.uuid4().hex}/state"
    edges, rng = tmp_path / "edges.txt", random.Random(6)
    pairs = sorted({(rng.randrange(300), rng.randrange(300)) for _ in range(1500)}, key=lambda _: rng.random())
    edges.write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    start = "import sys; from tests.spark.test_kills import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", start, "Q(a,b,c) :- g(a,b), g(b,c), c > 40.", "--input", f"g={edges}"]
    command += ["--batch-rows", "300", "--output", str(tmp_path / "out"), "--checkpoint", str(tmp_path / "state")]
    command += ["--cores", "2", "--cells", "2"]
    environ = {**os.environ}
    first = run_until([*command, "--state", state], kill_after=1)
    committed = {int(path.name) for path in (tmp_path / "state" / "commits").iterdir() if path.name.isdigit()}
    second = run_until([*command, "--verify"], kill_after=None)  # the checkpoint says where its state is
    assert dict(os.environ) == environ
    assert second[-1] == "equal", second
    assert any("restored" in line for line in second)
    assert not any(SECRET in line for line in first + second)
    batches = [int(n) for n in re.findall(r"^batch +(\d+)", "\n".join(second), re.M)]
    assert batches[0] == max(committed) + 1, "it begins behind what was committed before it was killed"
    root = folder_at(state, "state", known)
    assert len(root.folders()) == 1
    (stream,) = root.folders()
    assert (root / stream / "crown").folders() == ["0", "1"]
    assert {path.name for path in (tmp_path / "state" / "crown").iterdir()} == {"elsewhere.json"}
    assert not any(scheme in path.name for path in tmp_path.rglob("*"))
