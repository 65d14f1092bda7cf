"""The reader of the state log on damaged files: what it takes is what was written, what it says is our own sentence.

The normal run tries the same 500 mutations each time, the campaign 30,000 others. Each is tried as it is, and, to get
behind the checksum, mutations of the header also with a checksum that fits.
"""

from __future__ import annotations

import json
import random
import struct

import pyarrow as pa
import pytest

from spark_jobs.errors import CheckpointError
from spark_jobs.log.delta_file import MASKED, Link, Owner, pack, unpack
from spark_jobs.log.meta import check_meta, read_meta
from tests import campaign
from tests.spark.cell.test_history import resigned

OWNER = Owner("f" * 64, "3", "5e884898-da28-4e0d/crown", MASKED)
ROWS = pa.table({"name": [None, "x", "yy"], "at": pa.array([1, 2, None]), "_weight": [1, -1, 2]})
LINKS = [Link(7, 5, {"r": ROWS, "s": ROWS.slice(1)}), Link(0, -2, {}), Link(12, 11, {"r": ROWS.slice(0, 0)})]
META = {
    "format": MASKED,
    "fingerprint": "f" * 64,
    "cells": 2,
    "grid": {"attributes": ["b"], "shares": [2]},
    "query": "Q(a) :- r(a), 'žlutý'.",
}
RUNS = [pytest.param(500, id="some"), pytest.param(campaign.rounds(30_000), id="many", marks=pytest.mark.slow)]


def mutated(data, rng, other):
    """Damage of one kind: flipped bits, a cut, something put in, blocks swapped, nothing left, a huge header length."""
    data = bytearray(data)
    at = rng.randrange(len(data))
    kind = rng.randrange(8)
    if kind == 0:
        data[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        for _ in range(rng.randrange(2, 30)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == 2:
        del data[at:]
    elif kind == 3:
        data[at:at] = rng.choice((rng.randbytes(rng.randrange(1, 40)), data[: rng.randrange(1, 60)], b"\0" * 8))
    elif kind == 4:
        size = rng.randrange(1, 1 + len(data) // 3)
        a, b = sorted((rng.randrange(len(data) - size), rng.randrange(len(data) - size)))
        if b - a >= size:
            data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]
    elif kind == 5:
        data[8:12] = struct.pack("<I", rng.choice((0, 1, len(data), 2**31, 2**32 - 1, rng.randrange(2**32))))
    elif kind == 6:
        del data[at : at + rng.randrange(1, 50)]
    else:
        data = bytearray(rng.choice((b"", b"\0" * len(data), other, rng.randbytes(64), data[:20] * 10)))
    return bytes(data)


def header_mutated(data, rng):
    """One value of the header replaced, or bytes of it changed; length and checksum made to fit."""
    (length,) = struct.unpack("<I", data[8:12])
    header = data[12 : 12 + length]
    if rng.random() < 0.5:
        fields = json.loads(header)
        key = rng.choice(list(fields))
        value = rng.choice(
            (None, -1, 2**70, "x", [], {}, [None], [{"name": 1}], [{"name": "r", "bytes": -5, "rows": 1}])
        )
        if rng.random() < 0.3:
            del fields[key]
        else:
            fields[key] = value
        header = json.dumps(fields).encode()
    else:
        header = mutated(header, rng, b"[" * 2000) or b"{}"
    return resigned(data[:8] + struct.pack("<I", len(header)) + header + data[12 + length :])


@pytest.mark.parametrize("count", RUNS)
def test_a_damaged_delta_is_refused_in_our_words_and_never_taken(tmp_path, count):
    rng = random.Random(1 + campaign.first_seed())
    packed = [pack(link, OWNER) for link in LINKS]
    refused = 0
    for number in range(count):
        which = number % len(LINKS)
        data, link = packed[which], LINKS[which]
        fits = rng.random() < 0.3
        damaged = header_mutated(data, rng) if fits else mutated(data, rng, packed[which - 1])
        if damaged == data:
            continue
        found = said = None
        try:
            found = unpack(damaged, tmp_path / "x.delta", OWNER, link.batch)
        except CheckpointError as error:
            said = str(error)
        if found is None:
            assert "x.delta" in str(said)
            refused += 1
            continue
        assert fits, f"mutation {number} was taken"
        assert found.batch == link.batch
        assert list(found.changes.values()) == list(link.changes.values())
    assert refused > 0.9 * count


def test_a_header_that_names_a_relation_twice_is_refused(tmp_path):
    """The rows of the second would stand in for those of the first."""
    data = pack(LINKS[0], OWNER).replace(b'{"name": "s"', b'{"name": "r"')
    with pytest.raises(CheckpointError, match=r"x\.delta is complete, but its contents are not those of a delta"):
        unpack(resigned(data), tmp_path / "x.delta", OWNER, LINKS[0].batch)


@pytest.mark.parametrize("count", RUNS)
def test_a_damaged_meta_file_is_refused_in_our_words_and_never_taken(tmp_path, count):
    rng = random.Random(2 + campaign.first_seed())
    check_meta(tmp_path, META)
    path = tmp_path / "meta.json"
    data = path.read_bytes()
    assert read_meta(tmp_path) == META
    refused = 0
    for _ in range(count):
        damaged = mutated(data, rng, b'{"format": 1}')
        path.write_bytes(damaged)
        found = said = None
        try:
            found = read_meta(tmp_path)
        except CheckpointError as error:
            said = str(error)
        assert found in (None, META), damaged
        assert found is not None or "meta.json" in str(said)
        refused += found is None
    assert refused > 0.8 * count


@pytest.mark.parametrize("missing", ["checksum", "query"])
def test_a_meta_file_without_a_checksum_is_from_before_there_were_any(tmp_path, missing):
    check_meta(tmp_path, META)
    meta = json.loads((tmp_path / "meta.json").read_text())
    del meta[missing]
    (tmp_path / "meta.json").write_text(json.dumps(meta))
    if missing == "checksum":
        assert read_meta(tmp_path) == META
    else:
        with pytest.raises(CheckpointError, match="not written by this operator"):
            read_meta(tmp_path)
